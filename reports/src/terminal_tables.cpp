// SPDX-License-Identifier: Apache-2.0
// Sections of the terminal report that are tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "error_histogram.hpp"
#include "evidence_tables.hpp"
#include "numbers.hpp"
#include "terminal_report.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kConfigRowsShown = 40;  // beyond, passing configs are summed up

Line status_of(const core::ConfigEvidence& config) {
  if (config.result.skipped) {
    return {{"skipped", Style::yellow}};
  }
  if (config.failed) {
    return {{"FAIL", Style::red}};
  }
  if (config.result.status != core::ExecutionStatus::completed) {
    return {{std::string(core::name_of(config.result.status)), Style::yellow}};
  }
  const bool compared = worst_error_of(config.result).compared > 0;
  return {{compared ? "ok" : "nothing compared", compared ? Style::green : Style::yellow}};
}

}  // namespace

void TerminalReport::evidence_tables() {
  for (const EvidenceTable& from : evidence_tables_of(record_)) {
    if (from.detail_only && !verbose_) {
      continue;
    }
    page_.heading(from.title, from.remark);
    Table table;
    for (const auto& column : from.columns) {
      table.columns.push_back({column.title, column.right, column.wraps});
    }
    for (const auto& row : from.rows) {
      Table::Row cells;
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        cells.cells.push_back({{row.cells[i], row.bad && i == 0 ? Style::red : Style::plain}});
      }
      table.rows.push_back(std::move(cells));
    }
    page_.table(table);
    if (!from.footer.empty()) {
      page_.paragraph({{from.footer, Style::dim}}, 2, 2);
    }
  }
}

void TerminalReport::error_histograms() {
  const std::vector<ErrorHistogram> histograms =
      verbose_ ? error_histograms_of(record_) : std::vector<ErrorHistogram>{};
  if (histograms.empty()) {
    return;
  }
  page_.heading("Errors", bars_legend(page_.unicode()));
  Table table{{{"output", false, true},
               {"error over bound"},
               {"in ulps"},
               {"beyond", true},
               {"counted", true}},
              {}};
  for (const ErrorHistogram& h : histograms) {
    const Style style = h.beyond > 0 ? Style::red : Style::plain;
    const std::string in = counted_in_text(h);
    Table::Row row{{{{h.output}},
                    {{ratio_bar(h, page_.unicode()), style}},
                    {{ulp_bar(h, page_.unicode())}},
                    {{count_text(h.beyond), style}},
                    {{count_text(h.counted)}}},
                   {}};
    if (!in.empty()) {
      row.note = {{fmt::format("of {} compared: {}", count_text(h.compared), in), Style::dim}};
    }
    table.rows.push_back(std::move(row));
  }
  page_.table(table);
}

// The interval as a bar of `columns` columns: "--o--", or "--|" for an upper bound.
Line TerminalReport::bar(const core::ArmEvidence& arm, const RateAxis& axis, int columns) const {
  const auto cell = [&](double rate) {
    return std::clamp(static_cast<int>(std::lround(axis.place(rate) * (columns - 1))), 0,
                      columns - 1);
  };
  std::vector<std::string> cells(static_cast<std::size_t>(columns), " ");
  const bool failed = arm.result.failed > 0;
  const double rate =
      static_cast<double>(arm.result.failed) / static_cast<double>(arm.result.trials);
  const int low = failed ? cell(arm.wilson95.low) : 0;
  const int high = cell(failed ? arm.wilson95.high : arm.upper95);
  for (int i = low; i <= high; ++i) {
    cells[static_cast<std::size_t>(i)] = page_.glyph("\u2500", "-");
  }
  if (failed) {
    cells[static_cast<std::size_t>(cell(rate))] = page_.glyph("\u25cf", "o");
  } else {
    cells[static_cast<std::size_t>(high)] = page_.glyph("\u2524", "|");
  }
  cells.resize(static_cast<std::size_t>(high) + 1);
  return {{fmt::format("{}", fmt::join(cells, "")), failed ? Style::red : Style::green, true}};
}

void TerminalReport::arms() {
  const auto& arms = record_.evidence.arms;
  if (arms.empty()) {
    return;
  }
  const RateAxis axis = rate_axis_of(arms);
  const bool any_raced =
      std::any_of(arms.begin(), arms.end(), [](const auto& arm) { return arm.result.raced > 0; });
  // Two columns more say why: how many trials had wrong values, how many a race.
  Table table{
      {{"arm", false, true}, {"failed", true}, {"of", true}, {"rate", true}, {"95 % interval"}},
      {}};
  if (any_raced) {
    const Column why[] = {{"raced", true}, {"wrong", true}};
    table.columns.insert(table.columns.begin() + 3, std::begin(why), std::end(why));
  }
  for (const auto& arm : arms) {
    const core::TrialResult& result = arm.result;
    Table::Row row;
    const bool failed = result.failed > 0;
    const bool rated = has_rate(arm);
    row.cells.push_back({{arm.perturbation.name}});
    row.cells.push_back({{count_text(result.failed), failed ? Style::red : Style::plain}});
    row.cells.push_back({{count_text(result.trials)}});
    if (any_raced) {
      row.cells.push_back({{count_text(result.raced)}});
      row.cells.push_back({{worst_error_of(result).compared > 0 || result.wrong_values > 0
                                ? count_text(result.wrong_values)
                                : "-"}});
    }
    row.cells.push_back({{rated ? share_text(result.failed, result.trials) : "-",
                          failed ? Style::red : Style::plain}});
    row.cells.push_back({{result.skipped ? "skipped"
                          : !rated       ? std::string(core::name_of(result.status))
                          : failed       ? interval_text(arm.wilson95)
                                         : upper_bound_text(arm.upper95),
                          rated ? Style::plain : Style::yellow}});
    std::vector<std::string> notes;
    if (std::string remarks = remarks_text(result); !remarks.empty()) {
      notes.push_back(std::move(remarks));
    }
    if (std::string unproven = unproven_text(arm); !unproven.empty()) {
      notes.push_back(std::move(unproven));
    }
    if (result.abnormal > 0) {
      notes.push_back(fmt::format("{} of them ended by deadlock, fault or time-out",
                                  count_text(result.abnormal)));
    }
    if (verbose_ && !arm.token.empty()) {
      notes.push_back("first failure: " + arm.token);
    }
    if (!notes.empty()) {
      row.note = {{fmt::format("{}", fmt::join(notes, "; ")), Style::dim}};
    }
    table.rows.push_back(std::move(row));
  }
  const int room = page_.width() - Page::natural_width(table, 2, page_.unicode()) - 2;
  constexpr int kShortestBar = 12, kLongestBar = 48;
  const bool draw =
      room >= kShortestBar &&
      std::any_of(arms.begin(), arms.end(), [](const auto& arm) { return has_rate(arm); });
  if (draw) {
    const int columns = std::min(room, kLongestBar);
    const auto ticks = axis.ticks();
    table.columns.push_back(
        {fmt::format("{:<{}}{}", ticks.front().label,
                     columns - static_cast<int>(ticks.back().label.size()), ticks.back().label)});
    for (std::size_t i = 0; i < arms.size(); ++i) {
      table.rows[i].cells.push_back(has_rate(arms[i]) ? bar(arms[i], axis, columns) : Line{});
    }
  }
  page_.heading("Arms", draw && axis.logarithmic ? "Wilson intervals; logarithmic scale"
                                                 : "Wilson intervals");
  page_.table(table);
}

Table::Row TerminalReport::config_row(const core::ConfigEvidence& config,
                                      const CommonWords& problems, const CommonWords& configs,
                                      bool relative, bool ulps) const {
  const WorstError worst = worst_error_of(config.result);
  const bool compared = worst.compared > 0;
  Table::Row row{
      {status_of(config),
       {{problems.without(config.problem)}},
       {{configs.without(config.config)}},
       {{count_text(config.result.trials)}},
       {{compared ? bound_text(worst.ratio) : "-", config.failed ? Style::red : Style::plain}}},
      {}};
  if (relative) {
    row.cells.push_back({{relative_l2_text(worst)}});
  }
  if (ulps) {
    row.cells.push_back(
        {{compared && std::isfinite(worst.ulps) ? fmt::format("{:.3g}", worst.ulps) : "-"}});
  }
  if (!config.result.note.empty()) {
    row.note = {{config.result.note, Style::dim}};
  }
  return row;
}

// Passing configs of a long sweep: one row for each config with the worst of its problems.
void TerminalReport::summed_configs(const CommonWords& problem_words,
                                    const CommonWords& config_words) {
  struct Sum {
    std::string config;
    std::size_t problems = 0, failed = 0;
    double worst = 0.0;
    std::string at = {};
  };
  std::vector<Sum> sums;
  for (const auto& config : record_.evidence.configs) {
    auto found = std::find_if(sums.begin(), sums.end(),
                              [&](const Sum& sum) { return sum.config == config.config; });
    if (found == sums.end()) {
      found = sums.insert(sums.end(), Sum{.config = config.config});
    }
    ++found->problems;
    found->failed += config.failed ? 1 : 0;
    const double ratio = worst_error_of(config.result).ratio;
    if (found->at.empty() || !(ratio <= found->worst)) {
      found->worst = ratio;
      found->at = config.problem;
    }
  }
  Table table{{{"config", false, true},
               {"problems", true},
               {"failed", true},
               {"worst error", true},
               {"at", false, true}},
              {}};
  for (const auto& sum : sums) {
    const Style style = sum.failed > 0 ? Style::red : Style::plain;
    table.rows.push_back({{{{config_words.without(sum.config)}},
                           {{count_text(sum.problems)}},
                           {{count_text(sum.failed), style}},
                           {{bound_text(sum.worst), style}},
                           {{problem_words.without(sum.at), Style::dim}}},
                          {}});
  }
  page_.table(table);
}

void TerminalReport::configs() {
  const auto& configs = record_.evidence.configs;
  if (configs.empty()) {
    return;
  }
  page_.heading("Configurations", "worst error as a fraction of the derived bound");
  std::vector<std::string_view> problem_lines, config_lines;
  for (const auto& config : configs) {
    problem_lines.push_back(config.problem);
    config_lines.push_back(config.config);
  }
  const CommonWords problem_words(problem_lines), config_words(config_lines);
  for (const CommonWords* words : {&problem_words, &config_words}) {
    if (!words->text().empty()) {
      page_.paragraph({{"all with ", Style::dim}, {words->text()}}, 2, 4);
    }
  }
  const bool all = verbose_ || configs.size() <= kConfigRowsShown;
  const bool ulps = page_.width() >= 100;
  Table table{{{""},
               {"problem", false, true},
               {"config", false, true},
               {"trials", true},
               {"worst error", true}},
              {}};
  const bool relative =
      std::any_of(configs.begin(), configs.end(), [](const core::ConfigEvidence& config) {
        return worst_error_of(config.result).relative_l2 >= 0.0;
      });
  if (relative) {
    table.columns.push_back({"rel. L2", true});
  }
  if (ulps) {
    table.columns.push_back({"ulps", true});
  }
  std::size_t failed = 0;
  for (const auto& config : configs) {
    failed += config.failed ? 1 : 0;
    if (all || (config.failed && failed <= kConfigRowsShown / 2)) {
      table.rows.push_back(config_row(config, problem_words, config_words, relative, ulps));
    }
  }
  if (!all) {
    summed_configs(problem_words, config_words);
  }
  if (!table.rows.empty()) {
    if (!all) {
      page_.blank();
    }
    page_.table(table);
  }
  if (!all) {
    page_.paragraph({{fmt::format("all {} rows with -v", configs.size()), Style::dim}}, 2, 2);
  }
}

void TerminalReport::bench() {
  if (record_.bench.empty()) {
    return;
  }
  page_.heading("Timing", "medians of graph replays and of single launches between events");
  for (std::size_t i = 0; i < record_.bench.size();) {
    const std::string& problem = record_.bench[i].problem;
    Table table{{{"", false, true},
                 {"graph us", true},
                 {"spread", true},
                 {"event us", true},
                 {"TB/s", true},
                 {"ceiling", true},
                 {"speed", true}},
                {}};
    for (; i < record_.bench.size() && record_.bench[i].problem == problem; ++i) {
      const core::BenchRow& bench = record_.bench[i];
      const Style style = bench.contaminated ? Style::yellow : Style::plain;
      const auto number = [](double value, int decimals, std::string_view unit = "") {
        return value > 0.0 ? fmt::format("{:.{}f}{}", value, decimals, unit) : std::string("-");
      };
      Table::Row row{
          {{{bench.name + (bench.config.empty() ? "" : " " + bench.config)}},
           {{number(bench.median_graph_us, 2), style}},
           {{percent_text(bench.spread_graph), style}},
           {{number(bench.median_event_us, 2), style}},
           {{number(bench.tb_per_s, 2), style}},
           {{bench.fraction_of_ceiling > 0.0 ? percent_text(bench.fraction_of_ceiling) : "-",
             style}},
           {{number(bench.ratio_to_baseline, 3, " x"), style}}},
          {}};
      std::string note =
          bench.contaminated ? "contaminated: spread above 10 %, no claim from this row" : "";
      if (!bench.note.empty()) {
        note += (note.empty() ? "" : "; ") + bench.note;
      }
      if (!note.empty()) {
        row.note = {{note, bench.contaminated ? Style::yellow : Style::dim}};
      }
      table.rows.push_back(std::move(row));
    }
    page_.paragraph({{problem, Style::bold}}, 2, 4);
    page_.table(table, 4);
  }
  page_.paragraph({{"ceiling: share of the read-only bandwidth of the same run; speed: baseline "
                    "time / own time",
                    Style::dim}},
                  2, 2);
}

void TerminalReport::accesses() {
  std::vector<const core::AccessStatistics*> rows;
  for (const auto& access : record_.evidence.accesses) {
    if (verbose_ || waste_of(access) >= 2.0) {
      rows.push_back(&access);
    }
  }
  if (rows.empty()) {
    return;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return waste_of(*a) > waste_of(*b); });
  if (!verbose_ && rows.size() > 6) {
    rows.resize(6);
  }
  page_.heading("Memory accesses", "sectors or passes moved, against a dense layout");
  Table table{{{"line", false, true},
               {"access", false, true},
               {"lane stride", true},
               {"moved", true},
               {"dense", true},
               {"waste", true}},
              {}};
  for (const auto* access : rows) {
    table.rows.push_back(
        {{{{place_text(access->where, false)}},
          {{access->instruction}},
          {{fmt::format("{} B", access->lane_stride_bytes)}},
          {{count_text(access->sectors)}},
          {{count_text(access->ideal_sectors)}},
          {{waste_of(*access) > 0 ? fmt::format("{:.1f} x", waste_of(*access)) : "-"}}},
         {}});
  }
  page_.table(table);
}

}  // namespace faultline::reports
