// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/markdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "error_histogram.hpp"
#include "evidence_tables.hpp"
#include "numbers.hpp"
#include "text.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kReserve = 8 * 1024;  // for the notes of what was left out
constexpr std::size_t kMostRows = 500;      // of a table: nobody reads more in a summary
constexpr std::size_t kFoldedRows = 24;     // longer tables are folded away
constexpr std::size_t kMostItems = 50;      // findings, races, replay lines, sentences
constexpr std::size_t kLongestText = 4000;  // bytes of one text of the record

/// One line: no break, nothing hidden, not endless.
std::u32string one_line(std::string_view text) {
  std::string_view kept = text.substr(0, kLongestText);
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  while (kept.size() < text.size() && !kept.empty() && continues(kept.size())) {
    kept.remove_suffix(1);  // not in the middle of a character
  }
  std::u32string line = decode_utf8(visible(kept));
  for (char32_t& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  if (kept.size() < text.size()) line += U"... (cut)";
  return line;
}

bool is_word(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string utf8_of(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

/// Text that Markdown prints as it is, also in a table, and, with `block`, at the start of a block.
std::string prose(std::string_view text, bool block = true) {
  const std::u32string line = one_line(text);
  std::string out;
  std::size_t digits = 0;
  while (digits < line.size() && line[digits] >= '0' && line[digits] <= '9') ++digits;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char32_t c = line[i];
    const char32_t next = i + 1 < line.size() ? line[i + 1] : U' ';
    // "- " and "1. " would start lists, "---" a rule.
    const bool starts = block && i == 0 && (c == '+' || c == '-') && (next == ' ' || next == c);
    const bool numbers = block && i > 0 && i == digits && (c == '.' || c == ')') && next == ' ';
    // "www." and "://" would become links.
    const bool links = (c == '.' && i >= 3 && line.substr(i - 3, 3) == U"www") ||
                       (c == ':' && line.substr(i + 1, 2) == U"//");
    const bool marks =
        c == '_' ? i == 0 || !is_word(line[i - 1]) || !is_word(next)
                 : c < 0x80 && std::string_view("\\`*[]<>|~&#$").find(static_cast<char>(c)) !=
                                   std::string_view::npos;
    if (starts || numbers || links || marks) out += '\\';
    append_utf8(out, c);
  }
  return out;
}

/// Text as code, between as many backticks as it takes. In a table `|` needs a backslash there too.
std::string code(std::string_view text, bool in_table = false) {
  std::string line = utf8_of(one_line(text));
  if (line.find_first_not_of(' ') == std::string::npos) return "-";
  std::size_t longest = 0, run = 0;
  for (const char c : line) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  if (line.front() == '`' || line.back() == '`') line = " " + line + " ";
  if (in_table) {
    for (std::size_t i = 0; (i = line.find('|', i)) != std::string::npos; i += 2) {
      line.insert(i, 1, '\\');
    }
  }
  const std::string fence(longest + 1, '`');
  return fence + line + fence;
}

struct TableColumn {
  std::string_view title;
  bool right = false;
};

std::string inline_text(std::string_view text) { return prose(text, false); }

using Cells = std::vector<std::string>;  // Markdown

class MarkdownWriter {
 public:
  explicit MarkdownWriter(const core::RunRecord& record) : record_(record) {}

  std::string text() {
    verdict();
    findings();
    replay();
    races();
    arms();
    configs();
    bench();
    for (const EvidenceTable& table : evidence_tables_of(record_)) evidence_table(table);
    errors();
    run();
    return std::move(text_);
  }

 private:
  /// Appends a block if it fits, with the reserve kept.
  bool add(std::string_view block) {
    if (text_.size() + block.size() + kReserve > kMarkdownLimit) return false;
    text_ += block;
    return true;
  }

  /// There is always room: a line for each part of the report.
  void note_left_out(std::size_t shown, std::size_t all, std::string_view what) {
    if (shown == all) return;
    text_ += fmt::format("\n_{} of {} {} left out here; `--json` and `--csv` hold them all._\n",
                         count_text(all - shown), count_text(all), what);
  }

  void verdict() {
    const core::Verdict& verdict = record_.verdict;
    std::string head = "## " + outcome_text(verdict.outcome);
    if (const core::Finding* first = leading_finding(verdict)) {
      head += verdict.outcome == core::Outcome::pass
                  ? fmt::format(" ({}: {})", core::name_of(first->severity),
                                code(core::name_of(first->finding)))
                  : " " + code(core::name_of(first->finding));
    }
    if (!record_.command.empty()) head += ": " + prose(record_.command);
    const std::string subject = subject_text(record_);
    if (!subject.empty()) head += " " + code(subject);
    add(head + "\n");
    const std::string headline = headline_of(record_);
    if (!headline.empty()) add("\n**" + prose(headline) + "**\n");
    std::string facts;
    for (const std::string& fact : key_facts_of(record_)) {
      facts += (facts.empty() ? "" : " - ") + prose(fact);
    }
    if (!facts.empty()) add("\n" + facts + "\n");
    std::string ran;
    if (!problem_text(record_).empty()) ran += code(problem_text(record_));
    if (!record_.config.empty()) ran += (ran.empty() ? "" : " with ") + code(record_.config);
    ran += fmt::format("{}{}; seed {}", ran.empty() ? "" : " on ", prose(backend_text(record_)),
                       record_.seed);
    if (record_.evidence.backend_is_model) {
      ran += ". A model: it shows possible orders, not how often a GPU takes them.";
    }
    add("\n" + ran + "\n");
    if (record_.evidence.interrupted) add("\n**Cut short: this is not the whole run.**\n");
  }

  void findings() {
    const auto& findings = record_.verdict.findings;
    if (findings.empty()) return;
    add("\n### Findings\n");
    std::size_t shown = 0;
    for (; shown < std::min(findings.size(), kMostItems); ++shown) {
      const core::Finding& finding = findings[shown];
      std::string block =
          fmt::format("\n**{} {}**: {}\n", core::name_of(finding.severity),
                      code(core::name_of(finding.finding)), prose(finding.headline));
      if (!finding.evidence.empty() || finding.runner_up) block += "\n";
      const std::size_t sentences = std::min(finding.evidence.size(), kMostItems);
      for (std::size_t i = 0; i < sentences; ++i) {
        block += "- " + prose(finding.evidence[i]) + "\n";
      }
      if (sentences < finding.evidence.size()) {
        block += fmt::format("- {} more sentences\n", finding.evidence.size() - sentences);
      }
      if (finding.runner_up) {
        block += "- not " + code(core::name_of(*finding.runner_up)) +
                 (finding.runner_up_reason.empty() ? "" : ": " + prose(finding.runner_up_reason)) +
                 "\n";
      }
      if (!finding.advice.empty()) block += "\n" + prose(finding.advice) + "\n";
      if (!add(block)) break;
    }
    note_left_out(shown, findings.size(), "findings");
  }

  void replay() {
    const auto& lines = record_.replay_lines;
    if (lines.empty()) return;
    add("\n### Replay\n");
    std::size_t shown = 0;
    for (; shown < std::min(lines.size(), kMostItems); ++shown) {
      // Commands are never cut and never broken: a block of its own each.
      std::string line = visible(lines[shown]);
      std::replace(line.begin(), line.end(), '\n', ' ');
      std::size_t longest = 2, run = 0;
      for (const char c : line) {
        run = c == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
      }
      const std::string fence(longest + 1, '`');
      const std::string label = replay_label(record_, lines[shown]);
      const std::string head = label.empty() ? "" : "\n" + prose(label) + ":\n";
      if (!add(head + "\n" + fence + "sh\n" + line + "\n" + fence + "\n")) break;
    }
    note_left_out(shown, lines.size(), "replay lines");
  }

  void races() {
    const auto& races = record_.evidence.races;
    if (races.empty()) return;
    add("\n### Races\n");
    std::size_t shown = 0;
    for (; shown < std::min(races.size(), kMostItems); ++shown) {
      const core::RaceReport& race = races[shown];
      std::string block = fmt::format("\n**{}**: {}; {}\n\n", kind_text(race.kind),
                                      code(memory_text(race)), prose(seen_text(race)));
      for (const core::AccessSite* site : {&race.first, &race.second}) {
        block += fmt::format("- {}", site->is_write ? "write" : "read");
        for (std::size_t i = 0; i < std::min(site->where.size(), kMostItems); ++i) {
          block += (i == 0 ? " at " : ", inlined at ") + code(place_text(site->where[i]));
        }
        if (!site->instruction.empty()) block += ": " + code(site->instruction);
        if (!site->actor.empty()) block += " by " + prose(site->actor);
        block += "\n";
      }
      if (!race.missing_edge.empty()) block += "\n" + prose(race.missing_edge) + "\n";
      if (!add(block)) break;
    }
    note_left_out(shown, races.size(), "races");
  }

  /// What failed comes first; otherwise the order of the record. Of each item, `stands_out` says
  /// whether it failed, and `cells_of` makes the Markdown of its cells; only rows that are shown
  /// are made.
  template <class Item, class StandsOut, class CellsOf>
  void table(std::string_view title, const std::vector<TableColumn>& columns,
             const std::vector<Item>& items, const StandsOut& stands_out, const CellsOf& cells_of,
             std::string_view footer = {}) {
    if (items.empty()) return;
    std::vector<const Item*> rows, others;
    for (const Item& item : items) (stands_out(item) ? rows : others).push_back(&item);
    const std::size_t bad = rows.size();
    rows.insert(rows.end(), others.begin(), others.end());
    const bool folded = rows.size() > kFoldedRows;
    const std::string_view close = "\n</details>\n";
    std::string head = fmt::format("\n### {}\n", prose(title));
    if (folded) {
      head += fmt::format("\n<details><summary>{}, {} of them not passed</summary>\n",
                          count_text(rows.size(), "row"), count_text(bad));
    }
    head += "\n|";
    for (const TableColumn& column : columns) head += " " + inline_text(column.title) + " |";
    head += "\n|";
    for (const TableColumn& column : columns) head += column.right ? " ---: |" : " --- |";
    head += "\n";
    if (!add(head)) {
      note_left_out(0, rows.size(), fmt::format("rows of \"{}\"", prose(title)));
      return;
    }
    std::size_t shown = 0;
    for (; shown < std::min(rows.size(), kMostRows); ++shown) {
      std::string line = "|";
      for (const std::string& cell : cells_of(*rows[shown])) line += " " + cell + " |";
      if (!add(line + "\n")) break;
    }
    if (folded) text_ += close;
    note_left_out(shown, rows.size(), "rows");
    if (!footer.empty()) add("\n" + prose(footer) + "\n");
  }

  static std::string standing_text(const Standing& standing) {
    if (standing.outcome == core::Outcome::pass) return "pass";
    const std::string name{core::name_of(standing.outcome)};
    return standing.outcome == core::Outcome::fail ? "**" + name + "**" : name;
  }
  static bool stands_out(const Standing& standing) {
    return standing.outcome != core::Outcome::pass && standing.outcome != core::Outcome::skipped;
  }
  static std::string worst_text(const core::TrialResult& result) {
    const WorstError worst = worst_error_of(result);
    return worst.compared == 0 ? "-" : inline_text(bound_text(worst.ratio));
  }

  static std::string note_text(const core::TrialResult& result) {
    const std::string remarks = remarks_text(result);
    return inline_text(remarks.empty() ? result.message : remarks);
  }

  void arms() {
    table(
        "Arms",
        {{"arm"},
         {"outcome"},
         {"failed", true},
         {"trials", true},
         {"raced", true},
         {"wrong values", true},
         {"rate", true},
         {"95 % interval", true},
         {"worst error", true},
         {"note"}},
        record_.evidence.arms,
        [](const core::ArmEvidence& arm) { return stands_out(standing_of(arm.result)); },
        [](const core::ArmEvidence& arm) -> Cells {
          const core::TrialResult& result = arm.result;
          std::string rate = "-", interval = "-";
          if (has_rate(arm)) {
            rate = share_text(result.failed, result.trials);
            interval =
                result.failed > 0 ? interval_text(arm.wilson95) : upper_bound_text(arm.upper95);
          }
          return {code(arm.perturbation.name, true),
                  standing_text(standing_of(result)),
                  count_text(result.failed),
                  count_text(result.trials),
                  count_text(result.raced),
                  worst_error_of(result).compared > 0 || result.wrong_values > 0
                      ? count_text(result.wrong_values)
                      : "-",
                  inline_text(rate),
                  inline_text(interval),
                  worst_text(result),
                  note_text(result)};
        });
  }

  void configs() {
    table(
        "Configurations",
        {{"problem"},
         {"config"},
         {"outcome"},
         {"failed", true},
         {"trials", true},
         {"worst error", true},
         {"note"}},
        record_.evidence.configs,
        [](const core::ConfigEvidence& cell) {
          return stands_out(standing_of(cell.result, cell.failed));
        },
        [](const core::ConfigEvidence& cell) -> Cells {
          return {code(cell.problem, true),
                  code(cell.config, true),
                  standing_text(standing_of(cell.result, cell.failed)),
                  count_text(cell.result.failed),
                  count_text(cell.result.trials),
                  worst_text(cell.result),
                  note_text(cell.result)};
        });
  }

  void bench() {
    table(
        "Timing",
        {{"problem"},
         {"program"},
         {"config"},
         {"us, graph", true},
         {"us, events", true},
         {"TB/s", true},
         {"x baseline", true},
         {"note"}},
        record_.bench, [](const core::BenchRow& row) { return row.contaminated; },
        [](const core::BenchRow& row) -> Cells {
          return {code(row.problem, true),
                  code(row.name, true),
                  code(row.config, true),
                  real_text(row.median_graph_us),
                  real_text(row.median_event_us),
                  real_text(row.tb_per_s),
                  real_text(row.ratio_to_baseline),
                  (row.contaminated ? "contaminated " : "") + inline_text(row.note)};
        });
  }

  void evidence_table(const EvidenceTable& from) {
    std::vector<TableColumn> columns;
    for (const auto& column : from.columns) columns.push_back({column.title, column.right});
    table(
        from.title, columns, from.rows, [](const EvidenceTable::Row& row) { return row.bad; },
        [](const EvidenceTable::Row& row) -> Cells {
          Cells cells;
          for (const std::string& cell : row.cells) {
            cells.push_back(cells.empty() ? code(cell, true) : inline_text(cell));
          }
          if (row.bad && !cells.empty()) cells.front() = "**" + cells.front() + "**";
          return cells;
        },
        from.footer);
  }

  void errors() {
    const std::vector<ErrorHistogram> histograms = error_histograms_of(record_);
    table(
        "Errors",
        {{"output"},
         {"error over bound"},
         {"in ulps"},
         {"beyond", true},
         {"counted", true},
         {"compared", true},
         {"which"}},
        histograms, [](const ErrorHistogram& h) { return h.beyond > 0; },
        [](const ErrorHistogram& h) -> Cells {
          const std::string beyond = count_text(h.beyond), in = counted_in_text(h);
          return {code(h.output, true),
                  code(ratio_bar(h, true), true),
                  code(ulp_bar(h, true), true),
                  h.beyond > 0 ? "**" + beyond + "**" : beyond,
                  count_text(h.counted),
                  count_text(h.compared),
                  in.empty() ? "all" : inline_text(in)};
        },
        bars_legend(true));
  }

  void run() {
    std::string block;
    for (const auto& [name, value] : run_facts_of(record_)) {
      const std::size_t end = std::min(value.find('\n'), value.size());
      block += "- " + prose(name) + ": " + prose(value.substr(0, end)) + "\n";
      for (std::size_t begin = end + 1; begin < value.size();) {  // a plan has a line for each arm
        const std::size_t stop = std::min(value.find('\n', begin), value.size());
        begin = std::min(value.find_first_not_of(' ', begin), stop);
        if (stop > begin) block += "  - " + prose(value.substr(begin, stop - begin)) + "\n";
        begin = stop + 1;
      }
    }
    if (!block.empty()) add("\n<details><summary>Run</summary>\n\n" + block + "\n</details>\n");
  }

  const core::RunRecord& record_;
  std::string text_;
};

}  // namespace

std::string to_markdown(const core::RunRecord& record) { return MarkdownWriter(record).text(); }

}  // namespace faultline::reports
