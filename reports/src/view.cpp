// SPDX-License-Identifier: Apache-2.0
#include "view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "numbers.hpp"

namespace faultline::reports {

void for_each_result(
    const core::RunRecord& record,
    const std::function<void(const core::TrialResult&, const ResultSource&)>& visit) {
  for (const auto& arm : record.evidence.arms) {
    visit(arm.result, {.arm = arm.perturbation.name, .problem = {}, .scope = {}});
  }
  for (const auto& config : record.evidence.configs) {
    visit(config.result,
          {.arm = {},
           .problem = config.problem,
           .scope = config.problem.empty()  ? config.config
                    : config.config.empty() ? config.problem
                                            : config.problem + "; " + config.config});
  }
}

double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

RunTotals totals_of(const core::RunRecord& record) {
  RunTotals totals;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource&) {
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
    // Nothing compared is no error of 0.
    if (output.compared_elements > 0 &&
        (worst.output.empty() || !(output.worst_ratio <= worst.ratio))) {
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

std::string remarks_text(const core::TrialResult& result) {
  std::vector<std::string> remarks;
  if (!result.note.empty()) {
    remarks.push_back(result.note);
  }
  if (result.held_sms > 0) {
    remarks.push_back(count_text(result.held_sms, "multiprocessor") + " held");
  }
  if (result.ran_ahead_of > 0) {
    remarks.push_back(fmt::format("{} of {} launches were issued while the blocker held",
                                  count_text(result.ran_ahead), count_text(result.ran_ahead_of)));
  }
  return fmt::format("{}", fmt::join(remarks, "; "));
}

std::string unproven_text(const core::ArmEvidence& arm) {
  if (arm.result.overlap_proven) return {};
  const core::Perturbation& p = arm.perturbation;
  const bool beside = p.free_sms > 0 || p.co_resident != core::CoResident::none;
  return p.dirty_shared && !beside ? "shared memory not proven to be dirtied"
                                   : "overlap with the co-resident kernel not proven";
}

std::vector<Stops> stops_of(const core::RunRecord& record) {
  const auto is_said = [&](const core::TrialResult& result) {
    const auto& findings = record.verdict.findings;
    return std::any_of(findings.begin(), findings.end(), [&](const core::Finding& finding) {
      const auto stands_in = [&](const std::string& line) {
        return std::find(finding.evidence.begin(), finding.evidence.end(), line) !=
               finding.evidence.end();
      };
      return !result.message.empty() && finding.headline.ends_with(result.message) &&
             std::all_of(result.details.begin(), result.details.end(), stands_in);
    });
  };
  std::vector<Stops> stops;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource& source) {
    if (result.status == core::ExecutionStatus::completed) {
      return;
    }
    Stops stop{result.status, result.message, result.details, {source.name()}};
    if (is_said(result)) {
      stop.message = "as in the finding above";
      stop.details.clear();
    }
    const auto same = std::find_if(stops.begin(), stops.end(), [&](const Stops& known) {
      return known.status == stop.status && known.message == stop.message &&
             known.details == stop.details;
    });
    if (same != stops.end()) {
      same->names.push_back(source.name());
    } else {
      stops.push_back(std::move(stop));
    }
  });
  return stops;
}

std::string names_text(const Stops& stops) {
  constexpr std::size_t kNamed = 4;
  const std::size_t named = std::min(stops.names.size(), kNamed), more = stops.names.size() - named;
  const auto end = stops.names.begin() + static_cast<std::ptrdiff_t>(named);
  return fmt::format("{}{}", fmt::join(stops.names.begin(), end, ", "),
                     more > 0 ? fmt::format(" and {} more", count_text(more)) : "");
}

std::string relative_l2_text(const WorstError& worst) {
  return std::isfinite(worst.relative_l2) && worst.relative_l2 >= 0.0
             ? fmt::format("{:.2g}", worst.relative_l2)
             : std::string("-");
}

bool names_input_tiles(const core::RunRecord& record, const core::ProvenanceEvidence& row) {
  bool known = false, streamed = false;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource&) {
    for (const core::OutputTotals& output : result.outputs) {
      if (output.name != row.output_name) continue;
      known = true;
      streamed = streamed || output.geometry.pipeline_depth > 0;
    }
  });
  return known && !streamed && row.destination >= 0;
}

std::string held_text(const core::RunRecord& record, const core::ProvenanceEvidence& row,
                      std::string_view arrow) {
  if (row.destination < 0) {
    return "no single tile explains it";
  }
  const std::string_view of = names_input_tiles(record, row) ? "input " : "";
  return row.source >= 0
             ? fmt::format("{0}tile {1} {2} {0}tile {3}", of, row.destination, arrow, row.source)
             : fmt::format("{}tile {} {} nothing known", of, row.destination, arrow);
}

std::string input_tiles_legend(const core::RunRecord& record) {
  std::vector<std::string> outputs;
  for (const core::ProvenanceEvidence& row : record.evidence.provenance) {
    if (names_input_tiles(record, row) &&
        std::find(outputs.begin(), outputs.end(), row.output_name) == outputs.end()) {
      outputs.push_back(row.output_name);
    }
  }
  if (outputs.empty()) {
    return {};
  }
  return fmt::format("input tile: a tile of the input that the pipeline streams, not of {}, which "
                     "{} computed with the other tile's data in its place",
                     fmt::join(outputs, ", "), outputs.size() == 1 ? "was" : "were");
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

std::pair<int, int> shown_lines(const core::SourceExcerpt& excerpt, int marked) {
  const auto is_blank = [&](int line) {
    const std::string& text = excerpt.lines[static_cast<std::size_t>(line - excerpt.first_line)];
    return line != marked && text.find_first_not_of(" \t\r") == std::string::npos;
  };
  int first = excerpt.first_line, end = first + static_cast<int>(excerpt.lines.size());
  while (end > first && is_blank(end - 1)) --end;
  while (first < end && is_blank(first)) ++first;
  return {first, end};
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

const core::Finding* leading_finding(const core::Verdict& verdict) {
  const auto leads = [&](const core::Finding& finding) {
    if (finding.severity != core::Severity::note) return true;
    // That an output is rounded is said below: no pass rests on it.
    return verdict.outcome == core::Outcome::pass &&
           finding.finding != core::FindingClass::output_rounding;
  };
  const auto first = std::find_if(verdict.findings.begin(), verdict.findings.end(), leads);
  return first == verdict.findings.end() ? nullptr : &*first;
}

std::string headline_of(const core::RunRecord& record) {
  const core::Verdict& verdict = record.verdict;
  const core::Finding* leading = leading_finding(verdict);
  if (verdict.outcome != core::Outcome::pass && leading && !leading->headline.empty()) {
    return leading->headline;
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
      const std::string errors =
          shape.largest_error > 0.0
              ? fmt::format("error {} in the median, {} at most; {} off by a power of two",
                            real_text(shape.median_error), real_text(shape.largest_error),
                            count_text(shape.power_of_two_errors))
              : std::string("none with a finite error");
      lines.push_back(fmt::format("{} examined: {}; {} never written",
                                  count_text(shape.wrong_elements, "wrong element"), errors,
                                  count_text(shape.equal_poison)));
    }
    if (shape.rounding_explained > 0) {
      lines.push_back(fmt::format("{} {} from the rounded reference by an exact power of two: "
                                  "one step of the output's dtype, explained by rounding",
                                  count_text(shape.rounding_explained, "accepted element"),
                                  shape.rounding_explained == 1 ? "differs" : "differ"));
    }
  }
  for (const auto& fake : evidence.null_outputs_accepted) {
    lines.push_back(
        fmt::format("an output of {} would also pass: the test proves nothing there", fake));
  }
  std::uint64_t gate_samples = 0, input_sets = 0, distinct_outputs = 0;
  double gate_worst = 0.0;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource&) {
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
    facts.push_back((totals.failed_configs > 0
                         ? fmt::format("{} of {} cells", totals.failed_configs, totals.configs)
                         : count_text(totals.configs, "cell")) +
                    " (problem x config)" + (totals.failed_configs > 0 ? " failed" : ""));
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
  } else if (totals.trials > 0) {
    facts.push_back("no values compared");
  }
  if (!record.bench.empty()) {
    facts.push_back(count_text(record.bench.size(), "timing"));
  }
  return facts;
}

}  // namespace faultline::reports
