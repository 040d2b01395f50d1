// SPDX-License-Identifier: Apache-2.0
// Sections of the HTML report that are tables: evidence tables, arms, the sweep, timings, accesses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "config_matrix.hpp"
#include "evidence_tables.hpp"
#include "html_page.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kConfigRows = 60;  // beyond, a list is folded away
constexpr std::size_t kAccessRows = 24;  // in sight
constexpr std::size_t kNamedCells = 8;
constexpr std::size_t kMatrixRows = 80, kMatrixColumns = 40;

// Pointers to the first kMostRows of them, those that failed first when not all are shown.
template <class T, class Failed>
std::vector<const T*> failed_first(const std::vector<T>& all, const Failed& failed) {
  std::vector<const T*> rows;
  for (const T& row : all) {
    rows.push_back(&row);
  }
  if (rows.size() > kMostRows) {
    std::stable_partition(rows.begin(), rows.end(), [&](const T* row) { return failed(*row); });
    rows.resize(kMostRows);
  }
  return rows;
}

void write_axis_lines(HtmlPage& page, const std::vector<RateAxis::Tick>& ticks,
                      const RateAxis& axis) {
  for (const auto& tick : ticks) {
    const Safe x = percent(axis.place(tick.rate));
    page.out.put("<line class=\"g\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"100%\"/>");
  }
}

void write_chart(HtmlPage& page, const core::ArmEvidence& arm, const RateAxis& axis,
                 const std::vector<RateAxis::Tick>& ticks) {
  const double rate =
      static_cast<double>(arm.result.failed) / static_cast<double>(arm.result.trials);
  page.out.put("<svg aria-hidden=\"true\" focusable=\"false\">");
  write_axis_lines(page, ticks, axis);
  if (arm.result.failed > 0) {
    const Safe low = percent(axis.place(arm.wilson95.low)),
               high = percent(axis.place(arm.wilson95.high));
    page.out.put("<line class=\"e\" x1=\"", low, "\" x2=\"", high,
                 "\" y1=\"11\" y2=\"11\"/><line class=\"e\" x1=\"", low, "\" x2=\"", low,
                 "\" y1=\"7\" y2=\"15\"/><line class=\"e\" x1=\"", high, "\" x2=\"", high,
                 "\" y1=\"7\" y2=\"15\"/><circle class=\"p\" cx=\"", percent(axis.place(rate)),
                 "\" cy=\"11\" r=\"4\"/>");
  } else {
    const Safe high = percent(axis.place(arm.upper95));
    page.out.put("<line class=\"z\" x1=\"0\" x2=\"", high,
                 "\" y1=\"11\" y2=\"11\" stroke-dasharray=\"3 3\"/>", "<line class=\"z\" x1=\"",
                 high, "\" x2=\"", high, "\" y1=\"6\" y2=\"16\"/>");
    if (!axis.logarithmic) {
      page.out.put("<circle class=\"zp\" cx=\"0\" cy=\"11\" r=\"3.5\"/>");
    }
  }
  page.out.put("</svg>");
}

void write_axis_labels(HtmlPage& page, const std::vector<RateAxis::Tick>& ticks,
                       const RateAxis& axis) {
  page.out.put("<svg aria-hidden=\"true\" focusable=\"false\">");
  const std::size_t step = (ticks.size() + 3) / 4;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    if ((ticks.size() - 1 - i) % step != 0) {
      continue;
    }
    page.out.put("<text y=\"12\" text-anchor=\"middle\" x=\"", percent(axis.place(ticks[i].rate)),
                 "\">", escaped(ticks[i].label), "</text>");
  }
  page.out.put("</svg>");
}

void write_evidence_table(HtmlPage& page, const EvidenceTable& table) {
  const auto mark_of = [](const EvidenceTable::Row& row, std::size_t column) {
    if (column < row.marks.size()) {
      return row.marks[column];
    }
    return column == 0 && row.bad ? EvidenceTable::Mark::bad : EvidenceTable::Mark::none;
  };
  page.open_section(table.id, table.title, table.remark);
  page.open_scroll(table.title);
  page.out.put("<table class=\"wide\"><caption class=\"unseen\">", escaped(table.title),
               "</caption><thead><tr>");
  for (const auto& column : table.columns) {
    if (column.title.empty()) {
      page.out.put("<th scope=\"col\"><span class=\"unseen\">outcome</span></th>");
    } else {
      page.column(column.title, column.right);
    }
  }
  page.out.put("</tr></thead><tbody>\n");
  const std::size_t shown = std::min(table.rows.size(), kMostRows);
  for (std::size_t r = 0; r < shown; ++r) {
    const EvidenceTable::Row& row = table.rows[r];
    page.out.put("<tr>");
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const bool right = i < table.columns.size() && table.columns[i].right;
      page.out.put(i == 0  ? literal("<th scope=\"row\">")
                   : right ? literal("<td class=\"num\">")
                           : literal("<td>"));
      switch (mark_of(row, i)) {
      case EvidenceTable::Mark::none: page.out.put("<span>"); break;
      case EvidenceTable::Mark::good: page.out.put("<span class=\"good\">"); break;
      case EvidenceTable::Mark::weak: page.out.put("<span class=\"warn\">"); break;
      case EvidenceTable::Mark::quiet: page.out.put("<span class=\"muted\">"); break;
      case EvidenceTable::Mark::bad: page.out.put("<span class=\"bad\">"); break;
      }
      if (i == 0) {
        page.name(row.cells[i]);
      } else {
        page.out.put(escaped(row.cells[i]));
      }
      page.out.put("</span>", i == 0 ? literal("</th>") : literal("</td>"));
    }
    page.out.put("</tr>\n");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.more(table.rows.size() - shown);
  if (!table.footer.empty()) {
    page.out.put("<p class=\"muted footing\">", escaped(table.footer), "</p>\n");
  }
  page.close_section();
}

// What a cell of the sweep came to.
Safe outcome_mark(const core::ConfigEvidence& config, bool compared) {
  if (config.result.skipped) {
    return literal("<span class=\"warn\">skipped</span>");
  }
  if (config.failed) {
    return literal("<span class=\"bad\">fail</span>");
  }
  switch (config.result.status) {
  case core::ExecutionStatus::completed: break;
  case core::ExecutionStatus::unsupported:
    return literal("<span class=\"warn\">unsupported</span>");
  default: return literal("<span class=\"warn\">not completed</span>");
  }
  return compared ? literal("<span class=\"good\">ok</span>")
                  : literal("<span class=\"warn\">nothing compared</span>");
}

void write_config_row(HtmlPage& page, const core::ConfigEvidence& config,
                      const CommonWords& problems, const CommonWords& configs) {
  const WorstError worst = worst_error_of(config.result);
  const bool compared = worst.compared > 0;
  page.out.put("<tr><td>", outcome_mark(config, compared), "</td><td class=\"num\">",
               escaped(compared ? bound_text(worst.ratio) : "-"));
  if (compared) {
    page.bar(worst.ratio);
  }
  page.out.put("</td><td class=\"mono\">", escaped(problems.without(config.problem)),
               "</td><td class=\"mono\">", escaped(configs.without(config.config)));
  if (!config.result.note.empty()) {
    page.out.put("<span class=\"note\">", escaped(config.result.note), "</span>");
  }
  page.out.put(
      "</td><td class=\"num\">", escaped(count_text(config.result.trials)),
      "</td><td class=\"num\">",
      escaped(compared && std::isfinite(worst.ulps) ? fmt::format("{:.3g}", worst.ulps) : "-"),
      "</td><td class=\"num\">",
      escaped(compared && std::isfinite(worst.error) ? real_text(worst.error) : "-"),
      "</td><td class=\"num\">", escaped(relative_l2_text(worst)), "</td></tr>\n");
}

void write_config_list(HtmlPage& page, std::string_view title,
                       const std::vector<const core::ConfigEvidence*>& rows,
                       const CommonWords& problems, const CommonWords& configs) {
  const std::size_t shown = std::min(rows.size(), kMostRows);
  page.open_scroll(title);
  page.out.put("<table class=\"wide\"><caption class=\"unseen\">", escaped(title),
               "</caption><thead><tr>");
  page.column("outcome");
  page.column("worst error", true);
  page.column("problem");
  page.column("config");
  for (const char* name : {"trials", "ulps", "absolute", "relative L2"}) {
    page.column(name, true);
  }
  page.out.put("</tr></thead><tbody>\n");
  for (std::size_t i = 0; i < shown; ++i) {
    write_config_row(page, *rows[i], problems, configs);
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.more(rows.size() - shown);
}

// Sizes down, configs across: a fault of one config is a red column, one of sizes a red row.
void write_config_matrix(HtmlPage& page, const ConfigMatrix& matrix) {
  std::vector<std::string> failed;
  for (std::size_t p = 0; p < matrix.problems.size(); ++p) {
    for (std::size_t c = 0; c < matrix.configs.size(); ++c) {
      if (const core::ConfigEvidence* cell = matrix.at(p, c); cell && cell->failed) {
        failed.push_back(fmt::format("{}: {}", matrix.name_of(p, c),
                                     bound_text(worst_error_of(cell->result).ratio)));
      }
    }
  }
  if (!failed.empty() && failed.size() <= kNamedCells) {
    page.out.put("<ul class=\"plain named\" aria-label=\"Failed cells\">");
    for (const std::string& name : failed) {
      page.out.put("<li><span class=\"bad\">fail</span> <span class=\"mono\">", escaped(name),
                   "</span></li>");
    }
    page.out.put("</ul>\n");
  }
  const std::size_t rows = std::min(matrix.problems.size(), kMatrixRows),
                    columns = std::min(matrix.configs.size(), kMatrixColumns);
  page.open_scroll("Worst error by size and config");
  page.out.put("<table class=\"sweep\"><caption>Worst error over bound, by size and "
               "config</caption><thead><tr><th scope=\"col\">size</th>");
  for (std::size_t c = 0; c < columns; ++c) {
    page.out.put("<th scope=\"col\" class=\"mono\">", escaped(matrix.configs[c]), "</th>");
  }
  page.out.put("</tr></thead><tbody>\n");
  for (std::size_t p = 0; p < rows; ++p) {
    page.out.put("<tr><th scope=\"row\" class=\"mono\">", escaped(matrix.problems[p]), "</th>");
    for (std::size_t c = 0; c < columns; ++c) {
      const core::ConfigEvidence* cell = matrix.at(p, c);
      if (!cell) {
        page.out.put("<td class=\"muted\">not run</td>");
        continue;
      }
      const WorstError worst = worst_error_of(cell->result);
      if (cell->failed) {
        page.out.put("<td class=\"h4\"><b>fail</b> ",
                     escaped(worst.compared > 0 ? ratio_text(worst.ratio) : ""), "</td>");
      } else if (worst.compared > 0 && !cell->result.skipped &&
                 cell->result.status == core::ExecutionStatus::completed) {
        page.out.put("<td class=\"h0\">", escaped(ratio_text(worst.ratio)), "</td>");
      } else {
        page.out.put("<td>", outcome_mark(*cell, worst.compared > 0), "</td>");
      }
    }
    page.out.put("</tr>\n");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  if (rows < matrix.problems.size() || columns < matrix.configs.size()) {
    page.out.put("<p class=\"note\">The first ", number(rows), " of ",
                 number(matrix.problems.size()), " sizes and ", number(columns), " of ",
                 number(matrix.configs.size()), " configs.</p>\n");
  }
}

void write_access_rows(HtmlPage& page, std::string_view title,
                       std::span<const core::AccessStatistics> rows) {
  page.open_scroll(title);
  page.out.put(
      "<table class=\"wide places\"><caption class=\"unseen\">", escaped(title),
      ", most wasteful first</caption><thead><tr><th scope=\"col\">line</th><th "
      "scope=\"col\">access</th><th "
      "scope=\"col\" "
      "class=\"num\">lane stride</th>",
      "<th scope=\"col\" class=\"num\">requests</th><th scope=\"col\" class=\"num\">moved</th>",
      "<th scope=\"col\" class=\"num\">dense</th><th scope=\"col\" "
      "class=\"num\">waste</th></tr></thead><tbody>\n");
  for (const core::AccessStatistics& row : rows) {
    const double waste = waste_of(row);
    page.out.put("<tr><th scope=\"row\" class=\"mono\">");
    page.place(place_text(row.where));
    page.out.put("</th><td class=\"mono\">", escaped(row.instruction), "</td><td class=\"num\">",
                 number(row.lane_stride_bytes), " B</td><td class=\"num\">",
                 escaped(count_text(row.requests)), "</td><td class=\"num\">",
                 escaped(count_text(row.sectors)), "</td><td class=\"num\">",
                 escaped(count_text(row.ideal_sectors)));
    if (waste >= 2.0) {
      page.out.put("</td><td class=\"num bad\">");
    } else {
      page.out.put("</td><td class=\"num\">");
    }
    page.out.put(escaped(waste > 0 ? fmt::format("{:.1f} x", waste) : "-"), "</td></tr>\n");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
}

}  // namespace

void write_evidence_tables(HtmlPage& page) {
  for (const EvidenceTable& table : evidence_tables_of(page.record)) {
    write_evidence_table(page, table);
  }
}

void write_arms(HtmlPage& page) {
  const auto& arms = page.record.evidence.arms;
  if (arms.empty()) {
    return;
  }
  const RateAxis axis = rate_axis_of(arms);
  const auto ticks = axis.ticks();
  const bool any_raced =
      std::any_of(arms.begin(), arms.end(), [](const auto& a) { return a.result.raced > 0; });
  page.open_section("arms", "Arms",
                    "failure rates with 95 % Wilson intervals; nothing failed: 95 % upper bound");
  // Roles are spelled out because the phone layout makes a grid of the table.
  page.out.put("<table class=\"wide arms\" role=\"table\" aria-labelledby=\"arms-title\"><caption "
               "class=\"unseen\">Failure rates of the arms</caption><thead role=\"rowgroup\">",
               "<tr role=\"row\"><th role=\"columnheader\" scope=\"col\">arm</th>",
               "<th role=\"columnheader\" scope=\"col\" class=\"num\">failed</th>");
  if (any_raced) {
    page.out.put("<th role=\"columnheader\" scope=\"col\" class=\"num\">raced</th>",
                 "<th role=\"columnheader\" scope=\"col\" class=\"num\">wrong values</th>");
  }
  page.out.put("<th role=\"columnheader\" scope=\"col\" class=\"num\">rate</th>",
               "<th role=\"columnheader\" scope=\"col\" class=\"num\">95 % interval</th>",
               "<th role=\"columnheader\" scope=\"col\" class=\"chart\"><span "
               "class=\"unseen\">chart, ",
               escaped(axis.description()), "</span>");
  write_axis_labels(page, ticks, axis);
  page.out.put("</th></tr></thead><tbody role=\"rowgroup\">\n");
  const auto shown = failed_first(arms, [](const auto& arm) { return arm.result.failed > 0; });
  for (const auto* shown_arm : shown) {
    const core::ArmEvidence& arm = *shown_arm;
    const core::TrialResult& result = arm.result;
    const bool rated = has_rate(arm), failed = result.failed > 0;
    page.out.put("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\" title=\"",
                 escaped(core::to_text(arm.perturbation)), "\">", escaped(arm.perturbation.name));
    if (const std::string remarks = remarks_text(result); !remarks.empty()) {
      page.out.put("<span class=\"note\">", escaped(remarks), "</span>");
    }
    if (const std::string unproven = unproven_text(arm); !unproven.empty()) {
      page.out.put("<span class=\"note\">", escaped(unproven), "</span>");
    }
    if (result.abnormal > 0) {
      page.out.put("<span class=\"note\">", escaped(count_text(result.abnormal)),
                   " ended by deadlock, fault or time-out</span>");
    }
    page.out.put("</th><td role=\"cell\" class=\"num count\" data-label=\"failed\">",
                 escaped(count_text(result.failed) + " of " + count_text(result.trials)), "</td>");
    if (any_raced) {
      page.out.put("<td role=\"cell\" class=\"num raced\" data-label=\"raced\">",
                   escaped(count_text(result.raced)),
                   "</td><td role=\"cell\" class=\"num wrong\" data-label=\"wrong values\">",
                   escaped(worst_error_of(result).compared > 0 || result.wrong_values > 0
                               ? count_text(result.wrong_values)
                               : "-"),
                   "</td>");
    }
    if (failed) {
      page.out.put("<td role=\"cell\" class=\"num rate bad\">");
    } else {
      page.out.put("<td role=\"cell\" class=\"num rate\">");
    }
    page.out.put(escaped(rated ? share_text(result.failed, result.trials) : "-"),
                 "</td><td role=\"cell\" class=\"num interval\">",
                 escaped(result.skipped ? "skipped"
                         : !rated       ? std::string(core::name_of(result.status))
                         : failed       ? interval_text(arm.wilson95)
                                        : upper_bound_text(arm.upper95)),
                 "</td><td role=\"cell\" class=\"chart\">");
    if (rated) {
      write_chart(page, arm, axis, ticks);
    }
    page.out.put("</td></tr>\n");
  }
  page.out.put("</tbody></table>\n<p class=\"note\">Scale: ", escaped(axis.description()),
               ".</p>\n");
  page.more(arms.size() - shown.size());
  page.close_section();
}

void write_configs(HtmlPage& page) {
  const auto& configs = page.record.evidence.configs;
  if (configs.empty()) {
    return;
  }
  std::vector<std::string_view> problem_lines, config_lines;
  std::vector<const core::ConfigEvidence*> failing, others;
  for (const auto& config : configs) {
    problem_lines.push_back(config.problem);
    config_lines.push_back(config.config);
    (config.failed ? failing : others).push_back(&config);
  }
  const CommonWords problems(problem_lines), launches(config_lines);
  page.open_section("configs", "Configurations", "worst error as a fraction of the derived bound");
  for (const CommonWords* words : {&problems, &launches}) {
    if (!words->text().empty()) {
      page.out.put("<p><span class=\"label\">All with</span> <span class=\"mono\">",
                   escaped(words->text()), "</span></p>\n");
    }
  }
  const ConfigMatrix matrix = config_matrix_of(page.record);
  if (matrix.worth_showing()) {
    write_config_matrix(page, matrix);
  }
  if (configs.size() <= kConfigRows && !matrix.worth_showing()) {
    failing.insert(failing.end(), others.begin(), others.end());
    write_config_list(page, "Configurations", failing, problems, launches);
  } else {
    const auto fold = [&](std::string_view title, const auto& rows) {
      if (!rows.empty()) {
        page.out.put("<details><summary>", escaped(count_text(rows.size(), "configuration")), " ",
                     escaped(title), "</summary>\n");
        write_config_list(page, title, rows, problems, launches);
        page.out.put("</details>\n");
      }
    };
    fold("that failed", failing);
    fold("that did not fail", others);
  }
  page.close_section();
}

void write_bench(HtmlPage& page) {
  if (page.record.bench.empty()) {
    return;
  }
  page.open_section("timing", "Timing",
                    "medians of graph replays and of single launches between events");
  for (std::size_t i = 0; i < page.record.bench.size();) {
    const std::string& problem = page.record.bench[i].problem;
    page.open_scroll("Timing of " + problem);
    page.out.put(
        "<table class=\"wide timing\"><caption class=\"mono\">", escaped(problem),
        "</caption><thead><tr><th scope=\"col\">program</th><th scope=\"col\" "
        "class=\"num\">graph us</th>",
        "<th scope=\"col\" class=\"num\">spread</th><th scope=\"col\" class=\"num\">event "
        "us</th>",
        "<th scope=\"col\" class=\"num\">spread</th><th scope=\"col\" class=\"num\">TB/s</th>",
        "<th scope=\"col\" class=\"num\">of read ceiling</th><th scope=\"col\" "
        "class=\"num\">speed</th></tr></thead><tbody>\n");
    for (; i < page.record.bench.size() && page.record.bench[i].problem == problem; ++i) {
      const core::BenchRow& row = page.record.bench[i];
      const auto cell = [&](const std::string& text) {
        page.out.put("<td class=\"num\">", escaped(text), "</td>");
      };
      const auto positive = [](double value, int decimals, std::string_view unit = "") {
        return value > 0.0 ? fmt::format("{:.{}f}{}", value, decimals, unit) : std::string("-");
      };
      page.out.put("<tr><th scope=\"row\">", escaped(row.name), " <span class=\"label\">",
                   escaped(row.config), "</span>");
      if (row.contaminated) {
        page.out.put(
            "<span class=\"note warn\">contaminated: spread above 10 %, no claim from this "
            "row</span>");
      }
      if (!row.note.empty()) {
        page.out.put("<span class=\"note\">", escaped(row.note), "</span>");
      }
      page.out.put("</th>");
      cell(positive(row.median_graph_us, 2));
      cell(percent_text(row.spread_graph));
      cell(positive(row.median_event_us, 2));
      cell(percent_text(row.spread_event));
      cell(positive(row.tb_per_s, 2));
      page.out.put(
          "<td class=\"num\">",
          escaped(row.fraction_of_ceiling > 0.0 ? percent_text(row.fraction_of_ceiling) : "-"));
      if (row.fraction_of_ceiling > 0.0) {
        page.bar(std::min(1.0, row.fraction_of_ceiling));
      }
      page.out.put("</td>");
      cell(positive(row.ratio_to_baseline, 3, " x"));
      page.out.put("</tr>\n");
    }
    page.out.put("</tbody></table>");
    page.close_scroll();
  }
  page.out.put(
      "<p class=\"note\">Ceiling: the read-only bandwidth measured in the same run. Speed: "
      "baseline time over own time.</p>\n");
  page.close_section();
}

void write_accesses(HtmlPage& page) {
  auto rows = page.record.evidence.accesses;
  if (rows.empty()) {
    return;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return waste_of(a) > waste_of(b); });
  page.open_section("accesses", "Memory accesses",
                    "sectors or passes moved, against a dense layout");
  const std::size_t shown = std::min(rows.size(), kMostRows);
  const std::span<const core::AccessStatistics> all(rows);
  const std::size_t in_sight = std::min(shown, kAccessRows);
  write_access_rows(page, "Memory accesses", all.first(in_sight));
  if (in_sight < shown) {
    page.out.put("<details><summary>", escaped(count_text(shown - in_sight)),
                 " less wasteful</summary>\n");
    write_access_rows(page, "Further memory accesses", all.subspan(in_sight, shown - in_sight));
    page.out.put("</details>\n");
  }
  page.more(rows.size() - shown);
  page.close_section();
}

}  // namespace faultline::reports
