// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "evidence_tables.hpp"
#include "faultline/core/errors.hpp"
#include "numbers.hpp"
#include "page.hpp"
#include "stream.hpp"
#include "text.hpp"
#include "tile_map.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using core::RunRecord;

constexpr std::int64_t kMapCells = 1024;      // of one tile map
constexpr std::size_t kMapsShown = 4;         // failing maps, unless verbose
constexpr std::size_t kConfigRowsShown = 40;  // beyond, passing configs are summed up
constexpr std::size_t kRacesShown = 8;
constexpr std::size_t kStopsShown = 5;

class Report {
 public:
  Report(const RunRecord& record, const TerminalOptions& options)
      : record_(record), verbose_(options.verbosity == Verbosity::verbose), page_(options) {}

  std::string text(Verbosity verbosity) {
    verdict();
    if (verbosity != Verbosity::quiet) {
      context();
      findings();
      races();
      stops();
      tile_maps();
      provenance();
      evidence_tables();
      arms();
      configs();
      bench();
      accesses();
      further_evidence();
      run();
      replay();
    }
    return page_.text();
  }

 private:
  static Style badge_of(core::Outcome outcome) {
    switch (outcome) {
    case core::Outcome::pass: return Style::pass_badge;
    case core::Outcome::fail:
    case core::Outcome::error: return Style::fail_badge;
    case core::Outcome::inconclusive:
    case core::Outcome::skipped: return Style::warn_badge;
    }
    return Style::plain;
  }

  static Style style_of(core::Severity severity) {
    switch (severity) {
    case core::Severity::error: return Style::red;
    case core::Severity::warning: return Style::yellow;
    case core::Severity::note: return Style::dim;
    }
    return Style::plain;
  }

  void verdict() {
    const core::Verdict& verdict = record_.verdict;
    Line line{
        {fmt::format(" {} ", outcome_text(verdict.outcome)), badge_of(verdict.outcome), true}};
    const bool passed = verdict.outcome == core::Outcome::pass;
    if (!verdict.findings.empty() && !passed) {
      line.push_back({" ", Style::plain, true});  // the badge ends in a blank of its own
      line.push_back({std::string(core::name_of(verdict.findings.front().finding)), Style::bold});
    }
    if (!record_.command.empty() || !record_.subject.empty()) {
      line.push_back({line.size() == 1 ? " " : "  ", Style::plain, true});
      line.push_back({record_.command + " " + subject_text(record_)});
    }
    if (!verdict.findings.empty() && passed) {
      const core::Finding& first = verdict.findings.front();
      line.push_back({"  ", Style::plain, true});
      line.push_back(
          {fmt::format("{}: {}", core::name_of(first.severity), core::name_of(first.finding)),
           style_of(first.severity)});
    }
    page_.paragraph(line);
    const std::string headline = headline_of(record_);
    if (!headline.empty()) {
      page_.paragraph({{headline, Style::bold}});
    }
    if (record_.evidence.interrupted) {
      page_.paragraph({{"Interrupted: the figures below cover what had finished.", Style::yellow}});
    }
  }

  void fact(std::string_view name, const std::string& value) {
    if (!value.empty()) {
      constexpr int kIndent = 11;
      page_.paragraph({{fmt::format("  {:<9}", name), Style::dim, true}, {value}}, 0, kIndent);
    }
  }

  // A value of several lines (the analysis plan): its first line, and all of them when verbose.
  void lines_of_fact(std::string_view name, std::string_view value) {
    const size_t end = value.find('\n');
    const std::string_view rest = end == value.npos ? "" : value.substr(end + 1);
    if (!verbose_ || rest.empty()) {
      fact(name, std::string(value.substr(0, end)) + (rest.empty() ? "" : "; all of it with -v"));
      return;
    }
    fact(name, std::string(value.substr(0, end)));
    for (size_t begin = 0; begin < rest.size();) {
      const size_t stop = std::min(rest.find('\n', begin), rest.size());
      fact("", std::string(rest.substr(begin, stop - begin)));
      begin = stop + 1;
    }
  }

  void context() {
    page_.blank();
    fact("problem", problem_text(record_));
    fact("config", record_.config);
    std::string ran = fmt::format("{}; seed {}", backend_text(record_), record_.seed);
    if (record_.provenance.duration_s > 0.0) {
      ran += "; " + duration_text(record_.provenance.duration_s);
    }
    fact("ran on", ran);
    if (record_.evidence.backend_is_model || record_.provenance.backend.is_model) {
      fact("", "a model: it shows possible orders, not how often a GPU takes them");
    }
    fact("result", fmt::format("{}", fmt::join(key_facts_of(record_), "; ")));
  }

  void findings() {
    const auto& findings = record_.verdict.findings;
    if (findings.empty()) {
      return;
    }
    page_.heading(findings.size() == 1 ? "Finding" : "Findings");
    const std::string used_headline = headline_of(record_);
    for (std::size_t i = 0; i < findings.size(); ++i) {
      const core::Finding& finding = findings[i];
      Line line{{fmt::format("{} ", i + 1), Style::dim},
                {std::string(core::name_of(finding.finding)), Style::bold},
                {" "},
                {fmt::format("({})", core::name_of(finding.severity)), style_of(finding.severity)}};
      if (finding.headline != used_headline) {
        line.push_back({": " + finding.headline});
      }
      page_.paragraph(line, 2, 4);
      const std::string bullet = page_.glyph("\u2022 ", "- ");
      for (const auto& sentence : finding.evidence) {
        page_.paragraph({{bullet, Style::dim, true}, {sentence}}, 4, 6);
      }
      if (finding.runner_up) {
        std::string second{core::name_of(*finding.runner_up)};
        if (!finding.runner_up_reason.empty()) {
          second += ": " + finding.runner_up_reason;
        }
        page_.paragraph({{"runner-up ", Style::dim}, {second}}, 4, 6);
      }
      if (!finding.advice.empty()) {
        page_.paragraph({{"next: ", Style::dim}, {finding.advice}}, 4, 6);
      }
    }
  }

  // Source lines around a frame of a race site, without the indentation that they share. Normally
  // the line itself, cut at the width; verbose: the whole excerpt with line numbers, the marked
  // line wrapped and never cut.
  void excerpt(const core::SourceLocation& where) {
    const core::SourceExcerpt* excerpt = find_excerpt(record_, where.file, where.line);
    if (!excerpt) {
      return;
    }
    const auto source = [&](int line) {
      return printable(excerpt->lines[static_cast<std::size_t>(line - excerpt->first_line)],
                       page_.unicode());
    };
    const int last = excerpt->first_line + static_cast<int>(excerpt->lines.size()) - 1;
    std::size_t indentation = std::string::npos;
    for (int line = excerpt->first_line; line <= last; ++line) {
      if (verbose_ || line == where.line) {
        indentation = std::min(indentation, source(line).find_first_not_of(' '));
      }
    }
    for (int line = excerpt->first_line; line <= last; ++line) {
      std::string text = source(line);
      text.erase(0, std::min(text.size(), indentation));
      if (!verbose_) {
        if (line == where.line) {
          page_.cut({{text, Style::cyan}}, kLabelEnd + 2);
        }
        continue;
      }
      const std::string gutter = fmt::format("{}{:>5}{}", line == where.line ? ">" : " ", line,
                                             page_.glyph(" \u2502 ", " | "));
      if (line == where.line) {
        page_.paragraph({{gutter, Style::red, true}, {text, Style::bold, columns_of(text) < 60}},
                        kLabelEnd, kLabelEnd + 9);
      } else {
        page_.cut({{gutter + text, Style::dim}}, kLabelEnd);
      }
    }
  }

  void labelled(std::string_view label, const Line& text) {
    Line line{{fmt::format("{:<{}}", label, kLabelEnd - 4), Style::dim, true}};
    line.insert(line.end(), text.begin(), text.end());
    page_.paragraph(line, 4, kLabelEnd);
  }

  void site(const core::AccessSite& site) {
    labelled(site.is_write ? "write" : "read",
             {{site.actor.empty() ? "by an unknown actor" : site.actor, Style::bold},
              {site.async_proxy ? " (async proxy)" : " (generic proxy)"}});
    page_.paragraph({{site.instruction}}, kLabelEnd, kLabelEnd + 2);
    for (const auto& frame : site.where) {
      page_.paragraph({{place_text(frame)}}, kLabelEnd, kLabelEnd + 2);
      excerpt(frame);
    }
  }

  void races() {
    const auto& races = record_.evidence.races;
    if (races.empty()) {
      return;
    }
    page_.heading(races.size() == 1 ? "Race" : fmt::format("Races ({})", races.size()),
                  "accesses that nothing orders");
    const std::size_t shown = verbose_ ? races.size() : std::min(races.size(), kRacesShown);
    for (std::size_t i = 0; i < shown; ++i) {
      const core::RaceReport& race = races[i];
      Line title{{fmt::format("{} ", i + 1), Style::dim},
                 {kind_text(race.kind), Style::bold},
                 {", " + memory_text(race)}};
      if (race.note_only) {
        title.push_back({" (note)", Style::dim});
      }
      page_.paragraph(title, 2, 4);
      site(race.first);
      site(race.second);
      if (!race.missing_edge.empty()) {
        labelled("missing", {{race.missing_edge}});
      }
      labelled("seen", {{seen_text(race)}});
    }
    if (shown < races.size()) {
      page_.paragraph({{fmt::format("{} more with -v", races.size() - shown), Style::dim}}, 2, 2);
    }
  }

  // Arms and configs that did not complete, with what they said.
  void stops() {
    std::size_t stopped = 0;
    const auto stop = [&](const std::string& name, const core::TrialResult& result) {
      if (result.status == core::ExecutionStatus::completed) {
        return;
      }
      if (++stopped == 1) {
        page_.heading("Not completed");
      }
      if (stopped > kStopsShown && !verbose_) {
        return;
      }
      page_.paragraph({{std::string(core::name_of(result.status)), Style::yellow},
                       {fmt::format(" ({})", name), Style::dim},
                       {result.message.empty() ? "" : ": " + result.message}},
                      2, 4);
      const std::size_t lines =
          verbose_ ? result.details.size() : std::min<std::size_t>(8, result.details.size());
      for (std::size_t i = 0; i < lines; ++i) {
        page_.paragraph({{result.details[i]}}, 6, 8);
      }
      if (lines < result.details.size()) {
        page_.paragraph(
            {{fmt::format("{} more lines with -v", result.details.size() - lines), Style::dim}}, 6,
            6);
      }
    };
    for (const auto& arm : record_.evidence.arms) {
      stop(arm.perturbation.name, arm.result);
    }
    for (const auto& config : record_.evidence.configs) {
      stop(config.problem + (config.config.empty() ? "" : "; " + config.config), config.result);
    }
    if (stopped > kStopsShown && !verbose_) {
      page_.paragraph({{fmt::format("{} more with -v", stopped - kStopsShown), Style::dim}}, 2, 2);
    }
  }

  Span shade(int level) const {
    constexpr const char* kUnicode[] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
    constexpr const char* kAscii[] = {".", "-", "+", "x", "#"};
    constexpr Style kStyles[] = {Style::dim, Style::yellow, Style::yellow, Style::red, Style::red};
    return {page_.glyph(kUnicode[level], kAscii[level]), kStyles[level], true};
  }

  void map_title(const TileMap& map) {
    const std::string text = fmt::format("{}: {}", core::name_of(map.dtype), map_description(map));
    Line line{{map.output, Style::bold}, {" " + text}};
    if (!map.scope.empty()) {
      line.push_back({fmt::format(" ({})", map.scope), Style::dim});
    }
    page_.paragraph(line, 2, 4);
  }

  // Each cell with its number; false when that does not fit. A strip of tiles may take several
  // lines.
  bool numeric_map(const TileMap& map) {
    const bool strip = map.down == 1 && !map.by_buffer;
    if (map.across * map.down > (strip ? 16 : 64) || map.bin_across * map.bin_down > 1) {
      return false;
    }
    for (std::int64_t per_line = map.across; per_line > 0; per_line = strip ? per_line / 2 : 0) {
      const Table table = numeric_table(map, per_line);
      if (Page::natural_width(table, 4, page_.unicode()) <= page_.width()) {
        page_.table(table, 4);
        return true;
      }
    }
    return false;
  }

  Table numeric_table(const TileMap& map, std::int64_t per_line) const {
    Table table;
    if (map.by_buffer) {
      table.columns.push_back({""});
    }
    for (std::int64_t column = 0; column < per_line; ++column) {
      table.columns.push_back({map.by_buffer ? fmt::format("  round {}", column) : ""});
    }
    for (std::int64_t row = 0; row < map.down; ++row) {
      for (std::int64_t start = 0; start < map.across; start += per_line) {
        Table::Row line;
        if (map.by_buffer) {
          line.cells.push_back({{fmt::format("buffer {}", row), Style::dim}});
        }
        for (std::int64_t column = start; column < start + per_line; ++column) {
          line.cells.emplace_back();
          if (column >= map.across || !map.at(row, column).present) {
            continue;
          }
          const TileCell& cell = map.at(row, column);
          const Span mark = shade(heat_level(map, cell));
          line.cells.back() = {mark,
                               {fmt::format(" tile {}  {}", cell.first,
                                            share_text(cell.totals.bad_trials, map.comparisons())),
                                mark.style, true}};
        }
        table.rows.push_back(std::move(line));
      }
    }
    return table;
  }

  void glyph_map(const TileMap& map) {
    constexpr int kLabel = 12;
    const std::int64_t room = page_.width() - 4 - kLabel;
    const std::int64_t band = std::min(map.across, room >= 128  ? 128
                                                   : room >= 64 ? 64
                                                                : room / 16 * 16);
    for (std::int64_t start = 0; start < map.across; start += band) {
      const std::int64_t end = std::min(start + band, map.across);
      for (std::int64_t row = 0; row < map.down; ++row) {
        const std::string label = map.by_buffer ? fmt::format("buffer {}", row)
                                                : fmt::format("tile {}", map.at(row, start).first);
        Line line{{fmt::format("{:<{}}", label, kLabel), Style::dim, true}};
        for (std::int64_t column = start; column < end; ++column) {
          const TileCell& cell = map.at(row, column);
          line.push_back(cell.present ? shade(heat_level(map, cell)) : Span{" "});
        }
        page_.cut(line, 4);
      }
    }
    Line legend{{"    ", Style::plain, true}};
    constexpr const char* kNames[] = {" right  ", " < 1 %  ", " < 10 %  ", " < 50 %  ", " more"};
    for (int level = 0; level < 5; ++level) {
      legend.push_back(shade(level));
      legend.push_back({kNames[level], Style::dim, true});
    }
    page_.cut(legend, 0);
    if (map.bin_down * map.bin_across > 1) {
      page_.paragraph(
          {{fmt::format("each mark is the worst of {} tiles", map.bin_down * map.bin_across),
            Style::dim}},
          4, 4);
    }
  }

  void worst_tiles(const TileMap& map, bool shares_shown) {
    const auto wrong = wrong_cells_of(map);
    const std::size_t shown = verbose_ || wrong.size() <= 4 ? wrong.size() : 3;
    for (std::size_t i = 0; i < shown; ++i) {
      page_.paragraph({{fmt::format("{}: {}{}", TileMap::cell_name(*wrong[i]),
                                    shares_shown ? "" : wrong_of_text(map, *wrong[i]) + ", ",
                                    tile_details(wrong[i]->totals))}},
                      4, 6);
    }
    if (shown < wrong.size()) {
      page_.paragraph(
          {{fmt::format("{} more wrong tiles with -v", wrong.size() - shown), Style::dim}}, 4, 4);
    }
  }

  void tile_maps() {
    const auto maps = tile_maps_of(record_, kMapCells);
    if (maps.empty()) {
      return;
    }
    const auto failing = static_cast<std::size_t>(
        std::count_if(maps.begin(), maps.end(), [](const TileMap& map) { return map.failed(); }));
    page_.heading("Tiles", failing > 0 ? "share of trials in which a tile was wrong"
                                       : "none was wrong; worst error in each output");
    std::size_t shown = 0;
    for (const auto& map : maps) {
      if (!map.failed()) {
        page_.paragraph(
            {{map.output, Style::bold},
             {fmt::format(" right in all {}: {}, worst {}", count_text(map.trials, "trial"),
                          count_text(map.compared_elements, "element"),
                          bound_text(map.worst_ratio))}},
            2, 4);
        continue;
      }
      if (++shown > kMapsShown && !verbose_) {
        continue;
      }
      map_title(map);
      const bool shares_shown = numeric_map(map);
      if (!shares_shown) {
        glyph_map(map);
      }
      worst_tiles(map, shares_shown);
    }
    if (shown > kMapsShown && !verbose_) {
      page_.paragraph({{fmt::format("{} more maps with -v", shown - kMapsShown), Style::dim}}, 2,
                      2);
    }
  }

  void provenance() {
    const auto& rows = record_.evidence.provenance;
    if (rows.empty()) {
      return;
    }
    page_.heading("Whose data wrong tiles held",
                  "which other tile's data explains the wrong elements");
    Table table{
        {{"output"}, {"tile held"}, {"buffer"}, {"explains", true}, {"of wrong elements", true}},
        {}};
    for (const auto& row : rows) {
      const bool matched = row.source >= 0;
      table.rows.push_back(
          {{{{row.output_name}},
            {{held_text(row, page_.glyph("\u2190", "<-")), matched ? Style::bold : Style::plain}},
            {{buffer_text(row)}},
            {{matched ? share_text(row.matched, row.wrong) : "-"}},
            {{count_text(row.wrong)}}},
           {}});
    }
    page_.table(table);
  }

  void evidence_tables() {
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

  // The interval as a bar of `columns` columns: "--o--", or "--|" for an upper bound.
  Line bar(const core::ArmEvidence& arm, const RateAxis& axis, int columns) const {
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

  void arms() {
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
        row.cells.push_back({{count_text(result.wrong_values)}});
      }
      row.cells.push_back({{rated ? share_text(result.failed, result.trials) : "-",
                            failed ? Style::red : Style::plain}});
      row.cells.push_back({{result.skipped ? "skipped"
                            : !rated       ? std::string(core::name_of(result.status))
                            : failed       ? interval_text(arm.wilson95)
                                           : upper_bound_text(arm.upper95),
                            rated ? Style::plain : Style::yellow}});
      std::vector<std::string> notes;
      if (!result.note.empty()) {
        notes.push_back(result.note);
      }
      if (!result.overlap_proven) {
        notes.emplace_back("overlap with the co-resident kernel not proven");
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

  static Line status_of(const core::ConfigEvidence& config) {
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

  Table::Row config_row(const core::ConfigEvidence& config, const CommonWords& problems,
                        const CommonWords& configs, bool relative, bool ulps) const {
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
  void summed_configs(const CommonWords& problem_words, const CommonWords& config_words) {
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

  void configs() {
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

  void bench() {
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

  void accesses() {
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

  void further_evidence() {
    const auto lines = further_evidence_of(record_);
    if (lines.empty()) {
      return;
    }
    page_.heading("Further evidence");
    for (const auto& line : lines) {
      page_.paragraph({{page_.glyph("\u2022 ", "- "), Style::dim, true}, {line}}, 2, 4);
    }
  }

  void run() {
    const auto facts = run_facts_of(record_);
    if (facts.empty()) {
      return;
    }
    page_.heading("Run");
    for (const auto& [name, value] : facts) {
      lines_of_fact(name, value);
    }
  }

  void replay() {
    if (record_.replay_lines.empty()) {
      return;
    }
    page_.heading("Replay");
    constexpr size_t kShown = 2;
    const auto& lines = record_.replay_lines;
    const size_t shown = verbose_ ? lines.size() : std::min(lines.size(), kShown);
    for (size_t i = 0; i < shown; ++i) {
      page_.verbatim(lines[i], 2);
    }
    if (shown < lines.size()) {
      page_.paragraph({{fmt::format("{} more with -v", lines.size() - shown), Style::dim}}, 2, 2);
    }
  }

  static constexpr int kLabelEnd = 13;  // of race sites: where text starts after the label
  const RunRecord& record_;
  bool verbose_;
  Page page_;
};

// The value of the first of these that is set and not empty, as POSIX has it.
std::string locale_from_environment() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value && *value) {
      return value;
    }
  }
  return {};
}

}  // namespace

bool is_capable_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && !(kind && std::strcmp(kind, "dumb") == 0);
}

TerminalOptions terminal_options_for(std::FILE* stream, ColorMode mode) {
  TerminalOptions options;
  const bool terminal = is_capable_terminal(stream);
  const char* no_color = std::getenv("NO_COLOR");
  switch (mode) {
  case ColorMode::automatic: options.color = terminal && !(no_color && *no_color); break;
  case ColorMode::always: options.color = true; break;
  case ColorMode::never: options.color = false; break;
  }
  std::string locale = locale_from_environment();
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  options.unicode =
      locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
  const char* columns = std::getenv("COLUMNS");
  winsize size{};
  if (columns && std::atoi(columns) > 0) {
    options.width = std::atoi(columns);
  } else if (terminal && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  options.width =
      std::clamp(options.width, TerminalOptions::kMinimumWidth, TerminalOptions::kMaximumWidth);
  return options;
}

std::string render_terminal(const core::RunRecord& record, const TerminalOptions& options) {
  return Report(record, options).text(options.verbosity);
}

void print_terminal(const core::RunRecord& record, const TerminalOptions& options,
                    std::FILE* stream) {
  const std::string text = render_terminal(record, options);
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (!written && errno != EPIPE) {
    throw core::EnvironmentError(fmt::format(
        "The report could not be written to the terminal or pipe: {}.", std::strerror(errno)));
  }
}

}  // namespace faultline::reports
