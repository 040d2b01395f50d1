// SPDX-License-Identifier: Apache-2.0
#include "view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "numbers.hpp"

namespace faultline::reports {
namespace {

void for_each_result(
    const core::RunRecord& record,
    const std::function<void(const core::TrialResult&, std::string_view scope)>& visit) {
  for (const auto& arm : record.evidence.arms) {
    visit(arm.result, {});
  }
  for (const auto& config : record.evidence.configs) {
    visit(config.result, config.problem.empty()  ? config.config
                         : config.config.empty() ? config.problem
                                                 : config.problem + "; " + config.config);
  }
}

// max() that lets NaN through: a ratio that is no number must not vanish behind a good one.
double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

void add(core::TileTotals& sum, const core::TileTotals& part) {
  sum.bad_trials += part.bad_trials;
  sum.bad_elements += part.bad_elements;
  sum.not_finite += part.not_finite;
  sum.poison += part.poison;
  sum.no_reference += part.no_reference;
  sum.worst_ratio = worse(sum.worst_ratio, part.worst_ratio);
  sum.worst_ulps = worse(sum.worst_ulps, part.worst_ulps);
  if (part.first_bad_index >= 0 &&
      (sum.first_bad_index < 0 || part.first_bad_index < sum.first_bad_index)) {
    sum.first_bad_index = part.first_bad_index;
  }
}

// An output's totals over several results, tile by tile.
struct Gathered {
  TileMap map;
  std::vector<core::TileTotals> tiles;
  std::size_t results = 0;
};

void lay_out(Gathered& gathered, std::int64_t max_cells) {
  TileMap& map = gathered.map;
  const core::TileGeometry& geometry = map.geometry;
  const auto tiles = std::ssize(gathered.tiles);
  std::int64_t group = geometry.tiles_per_group > 0 ? geometry.tiles_per_group : tiles;
  std::int64_t down = geometry.tiles_down(), across = geometry.tiles_across();
  map.by_buffer = geometry.pipeline_depth > 1 && group > 1;
  if (geometry.tiles_per_group > 0 && tiles > 0) {
    map.groups = (tiles + group - 1) / group;
  }
  std::vector<core::TileTotals> folded(static_cast<std::size_t>(map.groups > 1 ? group : tiles));
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t position = map.groups > 1 ? tile % group : tile;
    add(folded[static_cast<std::size_t>(position)], gathered.tiles[static_cast<std::size_t>(tile)]);
  }
  const auto count = std::ssize(folded);
  std::function<std::int64_t(std::int64_t, std::int64_t)> tile_at;
  if (map.by_buffer) {
    const std::int64_t depth = geometry.pipeline_depth;
    down = std::min<std::int64_t>(depth, count);
    across = (count + depth - 1) / depth;
    tile_at = [=](std::int64_t row, std::int64_t column) { return column * depth + row; };
  } else {
    if (map.groups > 1) {  // one group as a strip
      down = 1;
      across = count;
    } else if (across == 1) {  // a column of tiles reads better as a strip
      std::swap(down, across);
    }
    tile_at = [=](std::int64_t row, std::int64_t column) { return row * across + column; };
  }
  const std::int64_t side_limit = std::max<std::int64_t>(1, std::llround(std::sqrt(max_cells)));
  if (down * across > max_cells) {
    if (down > 1) {
      map.bin_down = map.by_buffer ? 1 : (down + side_limit - 1) / side_limit;
    }
    const std::int64_t rows = (down + map.bin_down - 1) / map.bin_down;
    map.bin_across = std::max<std::int64_t>(1, (across * rows + max_cells - 1) / max_cells);
  }
  map.down = (down + map.bin_down - 1) / map.bin_down;
  map.across = (across + map.bin_across - 1) / map.bin_across;
  map.cells.resize(static_cast<std::size_t>(map.down * map.across));
  for (std::int64_t row = 0; row < down; ++row) {
    for (std::int64_t column = 0; column < across; ++column) {
      const std::int64_t tile = tile_at(row, column);
      if (tile >= count) {
        continue;
      }
      auto& cell = map.cells[static_cast<std::size_t>(row / map.bin_down * map.across +
                                                      column / map.bin_across)];
      cell.first = cell.present ? std::min(cell.first, tile) : tile;
      cell.last = cell.present ? std::max(cell.last, tile) : tile;
      cell.present = true;
      const auto& part = folded[static_cast<std::size_t>(tile)];
      const std::uint64_t worst_trials = std::max(cell.totals.bad_trials, part.bad_trials);
      add(cell.totals, part);
      if (map.bin_down * map.bin_across > 1) {
        cell.totals.bad_trials = worst_trials;  // a trial must not count once per tile of the cell
      }
    }
  }
}

}  // namespace

RunTotals totals_of(const core::RunRecord& record) {
  RunTotals totals;
  for_each_result(record, [&](const core::TrialResult& result, std::string_view) {
    totals.trials += result.trials;
    totals.failed += result.failed;
    totals.wrong_values += result.wrong_values;
    totals.raced += result.raced;
    totals.abnormal += result.abnormal;
    totals.skipped += result.skipped ? 1 : 0;
    const WorstError worst = worst_error_of(result);
    totals.compared_elements += worst.compared;
    if (!worst.output.empty() &&
        (totals.worst_output.empty() || !(worst.ratio <= totals.worst_ratio))) {
      totals.worst_ratio = worse(totals.worst_ratio, worst.ratio);
      totals.worst_output = worst.output;
    }
  });
  totals.arms = record.evidence.arms.size();
  totals.configs = record.evidence.configs.size();
  totals.failed_configs = static_cast<std::size_t>(
      std::count_if(record.evidence.configs.begin(), record.evidence.configs.end(),
                    [](const core::ConfigEvidence& config) { return config.failed; }));
  return totals;
}

WorstError worst_error_of(const core::TrialResult& result) {
  WorstError worst;
  for (const auto& output : result.outputs) {
    worst.compared += output.compared_elements;
    worst.bad_elements += output.bad_elements;
    if (worst.output.empty() || !(output.worst_ratio <= worst.ratio)) {
      worst.output = output.name;
    }
    worst.ratio = worse(worst.ratio, output.worst_ratio);
    worst.ulps = worse(worst.ulps, output.worst_ulps);
    worst.error = worse(worst.error, output.worst_error);
    worst.rounded_error = worse(worst.rounded_error, output.worst_rounded_error);
    if (output.sum_squared_error > 0.0 || output.sum_squared_expected > 0.0) {
      worst.relative_l2 = worse(worst.relative_l2, output.relative_l2());
    }
  }
  return worst;
}

std::string relative_l2_text(const WorstError& worst) {
  return std::isfinite(worst.relative_l2) && worst.relative_l2 >= 0.0
             ? fmt::format("{:.2g}", worst.relative_l2)
             : std::string("-");
}

std::string TileMap::cell_name(const TileCell& cell) {
  return cell.first == cell.last ? fmt::format("tile {}", cell.first)
                                 : fmt::format("tiles {}-{}", cell.first, cell.last);
}

std::vector<TileMap> tile_maps_of(const core::RunRecord& record, std::int64_t max_cells) {
  std::vector<Gathered> gathered;
  for_each_result(record, [&](const core::TrialResult& result, std::string_view scope) {
    for (const auto& output : result.outputs) {
      // Passing configs of a sweep have nothing to show tile by tile; failing ones of one geometry
      // share a map.
      const bool is_config = !scope.empty();
      if (output.tiles.empty() || (is_config && output.bad_elements == 0)) {
        continue;
      }
      auto found = std::find_if(gathered.begin(), gathered.end(), [&](const Gathered& g) {
        return g.map.output == output.name && g.map.geometry == output.geometry &&
               g.map.scope.empty() == scope.empty();
      });
      if (found == gathered.end()) {
        found = gathered.insert(gathered.end(), Gathered{});
        found->map.output = output.name;
        found->map.dtype = output.dtype;
        found->map.geometry = output.geometry;
        found->map.scope = scope;
        found->tiles.resize(output.tiles.size());
      }
      ++found->results;
      found->map.trials += result.trials;
      found->map.bad_trials += output.bad_trials;
      found->map.bad_elements += output.bad_elements;
      found->map.compared_elements += output.compared_elements;
      found->map.worst_ratio = worse(found->map.worst_ratio, output.worst_ratio);
      for (std::size_t i = 0; i < std::min(found->tiles.size(), output.tiles.size()); ++i) {
        add(found->tiles[i], output.tiles[i]);
      }
    }
  });
  std::vector<TileMap> maps;
  for (auto& g : gathered) {
    if (!g.map.scope.empty() && g.results > 1) {
      g.map.scope = fmt::format("{} failing configurations", g.results);
    }
    lay_out(g, max_cells);
    maps.push_back(std::move(g.map));
  }
  std::stable_partition(maps.begin(), maps.end(), [](const TileMap& map) { return map.failed(); });
  return maps;
}

int heat_level(const TileMap& map, const TileCell& cell) {
  if (cell.totals.bad_trials == 0 && cell.totals.bad_elements == 0) {
    return 0;
  }
  const double share = static_cast<double>(cell.totals.bad_trials) /
                       static_cast<double>(std::max<std::uint64_t>(1, map.comparisons()));
  return share < 0.01 ? 1 : share < 0.1 ? 2 : share < 0.5 ? 3 : 4;
}

std::vector<const TileCell*> wrong_cells_of(const TileMap& map) {
  std::vector<const TileCell*> wrong;
  for (const auto& cell : map.cells) {
    if (cell.present && heat_level(map, cell) > 0) {
      wrong.push_back(&cell);
    }
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const TileCell* a, const TileCell* b) {
    return std::pair(a->totals.bad_trials, a->totals.bad_elements) >
           std::pair(b->totals.bad_trials, b->totals.bad_elements);
  });
  return wrong;
}

std::string map_description(const TileMap& map) {
  std::string text = count_text(static_cast<std::uint64_t>(map.geometry.tile_count()), "tile");
  if (!map.geometry.tile_axis.empty()) {
    text += " of " + map.geometry.tile_axis;
  }
  if (map.groups > 1) {
    text += fmt::format(", {} groups folded into one",
                        count_text(static_cast<std::uint64_t>(map.groups)));
  }
  if (map.geometry.pipeline_depth > 0) {
    text += ", through " +
            count_text(static_cast<std::uint64_t>(map.geometry.pipeline_depth), "buffer");
  }
  return text;
}

std::string tile_details(const core::TileTotals& totals) {
  std::string text = fmt::format("{}, worst {}", count_text(totals.bad_elements, "wrong element"),
                                 bound_text(totals.worst_ratio));
  if (totals.first_bad_index >= 0) {
    text += fmt::format(", first at element {}", totals.first_bad_index);
  }
  if (totals.not_finite > 0) {
    text += fmt::format(", {} not finite", count_text(totals.not_finite));
  }
  if (totals.poison > 0) {
    text += fmt::format(", {} never written", count_text(totals.poison));
  }
  if (totals.no_reference > 0) {
    text += fmt::format(", {} without a usable reference", count_text(totals.no_reference));
  }
  return text;
}

std::string wrong_of_text(const TileMap& map, const TileCell& cell) {
  return fmt::format("{} of {}", count_text(cell.totals.bad_trials),
                     count_text(map.comparisons(), map.groups > 1 ? "comparison" : "trial"));
}

std::string held_text(const core::ProvenanceEvidence& row, std::string_view arrow) {
  if (row.destination < 0) {
    return "no single tile explains it";
  }
  return row.source >= 0 ? fmt::format("tile {} {} tile {}", row.destination, arrow, row.source)
                         : fmt::format("tile {} {} nothing known", row.destination, arrow);
}

std::string buffer_text(const core::ProvenanceEvidence& row) {
  if (row.pipeline_depth <= 0 || row.destination < 0) {
    return {};
  }
  const std::int64_t destination = row.destination % row.pipeline_depth;
  if (row.source < 0) {
    return fmt::format("{}", destination);
  }
  const std::int64_t source = row.source % row.pipeline_depth;
  return source == destination ? fmt::format("same ({})", source)
                               : fmt::format("{}, not {}", source, destination);
}

double RateAxis::place(double rate) const {
  if (!logarithmic) {
    return std::clamp(rate, 0.0, 1.0);
  }
  if (!(rate > low)) {
    return 0.0;
  }
  return std::clamp(1.0 - std::log10(rate) / std::log10(low), 0.0, 1.0);
}

std::vector<RateAxis::Tick> RateAxis::ticks() const {
  if (!logarithmic) {
    return {{0.0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1.0, "100 %"}};
  }
  std::vector<Tick> ticks;
  for (int decade = static_cast<int>(std::lround(std::log10(low))); decade <= 0; ++decade) {
    const double rate = std::pow(10.0, decade);
    ticks.push_back({rate, decade >= -6 ? fmt::format("{:g} %", std::pow(10.0, decade + 2))
                                        : fmt::format("1e{} %", decade + 2)});
  }
  return ticks;
}

std::string RateAxis::description() const {
  return logarithmic ? fmt::format("logarithmic, {} to 100 %", ticks().front().label)
                     : "linear, 0 to 100 %";
}

RateAxis rate_axis_of(const std::vector<core::ArmEvidence>& arms) {
  double smallest_rate = 0.0, smallest_end = 1.0;  // 0: nothing failed
  for (const auto& arm : arms) {
    if (!has_rate(arm)) {
      continue;
    }
    const double rate =
        static_cast<double>(arm.result.failed) / static_cast<double>(arm.result.trials);
    if (rate > 0.0) {
      smallest_rate = smallest_rate > 0.0 ? std::min(smallest_rate, rate) : rate;
      smallest_end = std::min(smallest_end, arm.wilson95.low > 0.0 ? arm.wilson95.low : rate);
    } else {
      smallest_end = std::min(smallest_end, arm.upper95);
    }
  }
  RateAxis axis;
  if (smallest_rate < 0.02) {
    axis.logarithmic = true;
    axis.low = std::pow(10.0, std::clamp(std::floor(std::log10(smallest_end)), -9.0, -1.0));
  }
  return axis;
}

bool has_rate(const core::ArmEvidence& arm) {
  return !arm.result.skipped && arm.result.trials > 0 &&
         arm.result.status != core::ExecutionStatus::unsupported &&
         arm.result.status != core::ExecutionStatus::error;
}

const core::SourceExcerpt* find_excerpt(const core::RunRecord& record, std::string_view file,
                                        int line) {
  const core::SourceExcerpt* found = nullptr;
  for (const auto& excerpt : record.excerpts) {
    if (excerpt.file == file && line >= excerpt.first_line &&
        line < excerpt.first_line + static_cast<int>(excerpt.lines.size())) {
      if (excerpt.marked_line == line) {
        return &excerpt;
      }
      found = found ? found : &excerpt;
    }
  }
  return found;
}

std::string place_text(const core::SourceLocation& where, bool with_function) {
  return fmt::format("{}:{}{}{}", where.file.empty() ? "(unknown file)" : where.file, where.line,
                     with_function && !where.function.empty() ? " in " : "",
                     with_function ? where.function : "");
}

std::string kind_text(core::RaceKind kind) {
  switch (kind) {
  case core::RaceKind::read_after_write: return "read after write";
  case core::RaceKind::write_after_read: return "write after read";
  case core::RaceKind::write_after_write: return "write after write";
  }
  return "race";
}

std::string memory_text(const core::RaceReport& race) {
  std::string text = race.space == core::MemorySpace::shared ? "shared memory" : "global memory";
  if (!race.buffer.empty()) {
    text += " " + race.buffer;
  }
  if (race.byte_end > race.byte_begin) {
    text += fmt::format(", bytes {}..{}", race.byte_begin, race.byte_end - 1);
  }
  return text;
}

std::string seen_text(const core::RaceReport& race) {
  std::string text = count_text(race.count, "conflicting cell");
  if (race.cross_cta) {
    text += ", between blocks";
  }
  if (race.cross_launch) {
    text += ", between launches";
  }
  if (race.missing_proxy_fence) {
    text += ", ordered but for a proxy fence";
  }
  if (!race.first.kernel.empty()) {
    text += ", in kernel " + race.first.kernel;
    if (race.second.kernel != race.first.kernel && !race.second.kernel.empty()) {
      text += " and " + race.second.kernel;
    }
  }
  return text;
}

std::string subject_text(const core::RunRecord& record) {
  return record.variant.empty() ? record.subject : record.subject + "@" + record.variant;
}

std::string problem_text(const core::RunRecord& record) {
  return record.problem.empty() ? record.evidence.problem : record.problem;
}

std::string backend_text(const core::RunRecord& record) {
  const core::BackendInfo& backend = record.provenance.backend;
  const std::string& name = backend.name.empty() ? record.evidence.backend : backend.name;
  std::string text = name.empty() ? "unknown backend" : name;
  if (!backend.device.empty()) {
    text += ": " + backend.device;
  }
  if (!backend.driver.empty()) {
    text += ", driver " + backend.driver;
  }
  return text;
}

std::string outcome_text(core::Outcome outcome) {
  switch (outcome) {
  case core::Outcome::pass: return "PASS";
  case core::Outcome::fail: return "FAIL";
  case core::Outcome::inconclusive: return "INCONCLUSIVE";
  case core::Outcome::skipped: return "SKIPPED";
  case core::Outcome::error: return "ERROR";
  }
  return "UNKNOWN";
}

std::string headline_of(const core::RunRecord& record) {
  const core::Verdict& verdict = record.verdict;
  if (verdict.outcome != core::Outcome::pass && !verdict.findings.empty() &&
      !verdict.findings.front().headline.empty()) {
    return verdict.findings.front().headline;
  }
  // "pass: ..." and "fail(race.async): ..." repeat what stands in front of the headline.
  const std::string prefix{core::name_of(verdict.outcome)};
  if (verdict.summary.rfind(prefix, 0) == 0) {
    std::size_t end = prefix.size();
    if (verdict.summary.compare(end, 1, "(") == 0) {
      end = std::min(verdict.summary.find(')', end), verdict.summary.size() - 1) + 1;
    }
    if (verdict.summary.compare(end, 2, ": ") == 0) {
      return verdict.summary.substr(end + 2);
    }
  }
  return verdict.summary;
}

double waste_of(const core::AccessStatistics& access) {
  return access.ideal_sectors > 0
             ? static_cast<double>(access.sectors) / static_cast<double>(access.ideal_sectors)
             : 0.0;
}

std::vector<std::string> further_evidence_of(const core::RunRecord& record) {
  const core::Evidence& evidence = record.evidence;
  std::vector<std::string> lines;
  if (evidence.repeat && evidence.repeat->repeats > 0) {
    const auto& repeat = *evidence.repeat;
    lines.push_back(
        fmt::format("{} of the same trial gave {}{}", count_text(repeat.repeats, "repeat"),
                    repeat.distinct == 1 ? "the same bits each time"
                                         : count_text(repeat.distinct, "distinct output"),
                    repeat.distinct > 1 && evidence.declared_deterministic
                        ? ", though the subject is declared deterministic"
                        : ""));
  }
  if (evidence.error_shape) {
    const auto& shape = *evidence.error_shape;
    if (shape.wrong_elements > 0) {
      lines.push_back(fmt::format("{} examined: error {} in the median, {} at most; {} off by a "
                                  "power of two; {} never written",
                                  count_text(shape.wrong_elements, "wrong element"),
                                  real_text(shape.median_error), real_text(shape.largest_error),
                                  count_text(shape.power_of_two_errors),
                                  count_text(shape.equal_poison)));
    }
    if (shape.rounding_explained > 0) {
      lines.push_back(fmt::format("{} differ from the rounded reference by an exact power of two: "
                                  "one step of the output's dtype, explained by rounding",
                                  count_text(shape.rounding_explained, "accepted element")));
    }
  }
  for (const auto& fake : evidence.null_outputs_accepted) {
    lines.push_back(
        fmt::format("an output of {} would also pass: the test proves nothing there", fake));
  }
  std::uint64_t gate_samples = 0, input_sets = 0, distinct_outputs = 0;
  double gate_worst = 0.0;
  for_each_result(record, [&](const core::TrialResult& result, std::string_view) {
    gate_samples += result.gate_samples;
    gate_worst = worse(gate_worst, result.gate_worst);
    input_sets += result.input_sets;
    distinct_outputs += result.distinct_outputs;
  });
  if (gate_samples > 0) {
    lines.push_back(
        fmt::format("device oracle against the host reference: worst relative difference {} in {}",
                    real_text(gate_worst), count_text(gate_samples, "sampled trial")));
  }
  if (input_sets > 0 && !evidence.repeat) {
    lines.push_back(fmt::format("{} gave {}", count_text(input_sets, "input set"),
                                count_text(distinct_outputs, "distinct output")));
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> run_facts_of(const core::RunRecord& record) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add_fact = [&](std::string name, std::string value) {
    if (!value.empty()) {
      facts.emplace_back(std::move(name), std::move(value));
    }
  };
  const core::Provenance& provenance = record.provenance;
  add_fact("plan", record.analysis_plan);
  std::vector<std::string> parts;
  for (const auto& [module, hash] : record.module_hashes) {
    parts.push_back(module + " " + hash);
  }
  add_fact("code", fmt::format("{}", fmt::join(parts, ", ")));
  parts.clear();
  if (!provenance.faultline_version.empty()) {
    parts.push_back("faultline " + provenance.faultline_version);
  }
  for (const std::string& part : {provenance.host, provenance.started_at}) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  add_fact("by", fmt::format("{}", fmt::join(parts, ", ")));
  add_fact("command", provenance.command_line);
  return facts;
}

namespace {

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t end = std::min(line.find(' ', i), line.size());
    if (end > i) {
      words.emplace_back(line.substr(i, end - i));
    }
    i = end + 1;
  }
  return words;
}

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

CommonWords::CommonWords(const std::vector<std::string_view>& lines) {
  if (lines.size() < 2) {
    return;
  }
  words_ = words_of(lines.front());
  for (const std::string_view line : lines) {
    const auto words = words_of(line);
    std::erase_if(words_, [&](const std::string& word) { return !holds(words, word); });
  }
}

std::string CommonWords::text() const { return fmt::format("{}", fmt::join(words_, " ")); }

std::string CommonWords::without(std::string_view line) const {
  auto words = words_of(line);
  std::erase_if(words, [&](const std::string& word) { return holds(words_, word); });
  return words.empty() && !line.empty() ? "-" : fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> key_facts_of(const core::RunRecord& record) {
  const RunTotals totals = totals_of(record);
  std::vector<std::string> facts;
  if (totals.trials > 0) {
    facts.push_back(totals.failed > 0
                        ? fmt::format("{} of {} trials failed", count_text(totals.failed),
                                      count_text(totals.trials))
                        : count_text(totals.trials, "trial") + ", none failed");
  }
  if (totals.configs > 0) {
    facts.push_back(totals.failed_configs > 0 ? fmt::format("{} of {} configurations failed",
                                                            totals.failed_configs, totals.configs)
                                              : count_text(totals.configs, "configuration"));
  } else if (totals.arms > 1) {
    facts.push_back(count_text(totals.arms, "arm"));
  }
  if (totals.skipped > 0) {
    facts.push_back(fmt::format("{} skipped", totals.skipped));
  }
  if (totals.raced > 0) {
    facts.push_back(fmt::format("{} raced", count_text(totals.raced)));
  }
  if (totals.abnormal > 0) {
    facts.push_back(fmt::format("{} ended abnormally", count_text(totals.abnormal)));
  }
  if (!totals.worst_output.empty()) {
    facts.push_back(fmt::format("worst error {}", bound_text(totals.worst_ratio)));
  }
  if (!record.bench.empty()) {
    facts.push_back(count_text(record.bench.size(), "timing"));
  }
  return facts;
}

}  // namespace faultline::reports
