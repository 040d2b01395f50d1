// SPDX-License-Identifier: Apache-2.0
// Sections of the terminal report that tell what was found.
#include <fmt/format.h>

#include <algorithm>

#include "numbers.hpp"
#include "terminal_report.hpp"
#include "text.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kRacesShown = 8;
constexpr std::size_t kStopsShown = 5;

}  // namespace

void TerminalReport::findings() {
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
void TerminalReport::excerpt(const core::SourceLocation& where) {
  const core::SourceExcerpt* excerpt = find_excerpt(record_, where.file, where.line);
  if (!excerpt) {
    return;
  }
  const auto source = [&](int line) {
    return printable(excerpt->lines[static_cast<std::size_t>(line - excerpt->first_line)],
                     page_.unicode());
  };
  const auto [first, end] = shown_lines(*excerpt, where.line);
  std::size_t indentation = std::string::npos;
  for (int line = first; line < end; ++line) {
    if (verbose_ || line == where.line) {
      indentation = std::min(indentation, source(line).find_first_not_of(' '));
    }
  }
  for (int line = first; line < end; ++line) {
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

void TerminalReport::labelled(std::string_view label, const Line& text) {
  Line line{{fmt::format("{:<{}}", label, kLabelEnd - 4), Style::dim, true}};
  line.insert(line.end(), text.begin(), text.end());
  page_.paragraph(line, 4, kLabelEnd);
}

void TerminalReport::site(const core::AccessSite& site) {
  labelled(site.is_write ? "write" : "read",
           {{site.actor.empty() ? "by an unknown actor" : site.actor, Style::bold},
            {site.async_proxy ? " (async proxy)" : " (generic proxy)"}});
  page_.paragraph({{site.instruction}}, kLabelEnd, kLabelEnd + 2);
  for (const auto& frame : site.where) {
    page_.paragraph({{place_text(frame)}}, kLabelEnd, kLabelEnd + 2);
    excerpt(frame);
  }
}

void TerminalReport::races() {
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
void TerminalReport::stops() {
  const std::vector<Stops> stops = stops_of(record_);
  if (stops.empty()) {
    return;
  }
  page_.heading("Not completed");
  const std::size_t shown = verbose_ ? stops.size() : std::min(stops.size(), kStopsShown);
  for (std::size_t s = 0; s < shown; ++s) {
    const Stops& stop = stops[s];
    page_.paragraph({{std::string(core::name_of(stop.status)), Style::yellow},
                     {fmt::format(" ({})", names_text(stop)), Style::dim},
                     {stop.message.empty() ? "" : ": " + stop.message}},
                    2, 4);
    const std::size_t lines =
        verbose_ ? stop.details.size() : std::min<std::size_t>(8, stop.details.size());
    for (std::size_t i = 0; i < lines; ++i) {
      page_.paragraph({{stop.details[i]}}, 6, 8);
    }
    if (lines < stop.details.size()) {
      page_.paragraph(
          {{fmt::format("{} more lines with -v", stop.details.size() - lines), Style::dim}}, 6, 6);
    }
  }
  if (shown < stops.size()) {
    page_.paragraph({{fmt::format("{} more with -v", stops.size() - shown), Style::dim}}, 2, 2);
  }
}

void TerminalReport::further_evidence() {
  const auto lines = further_evidence_of(record_);
  if (lines.empty()) {
    return;
  }
  page_.heading("Further evidence");
  for (const auto& line : lines) {
    page_.paragraph({{page_.glyph("\u2022 ", "- "), Style::dim, true}, {line}}, 2, 4);
  }
}

}  // namespace faultline::reports
