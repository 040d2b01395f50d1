// SPDX-License-Identifier: Apache-2.0
// Sections of the HTML report that tell what was found: findings, races with their sources, arms
// and configs that did not complete.
#include <fmt/format.h>

#include <algorithm>

#include "html_page.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kMostRaces = 40;  // each takes some 4 KB
constexpr std::size_t kMostStops = 100;

void write_frame(HtmlPage& page, const core::SourceLocation& where, bool innermost) {
  page.out.put("<div class=\"frame\"><p>");
  if (!innermost) {
    page.out.put("<span class=\"label\">inlined at</span> ");
  }
  page.out.put("<span class=\"mono\">");
  page.place(place_text(where));
  page.out.put("</span></p>\n");
  if (const core::SourceExcerpt* excerpt = find_excerpt(page.record, where.file, where.line)) {
    page.out.put("<pre role=\"group\" aria-label=\"Source of ", escaped(place_text(where, false)),
                 "\"><code>");
    const auto lines = shown_lines(*excerpt, where.line);
    const auto text_of = [&](int line) -> std::string_view {
      return excerpt->lines[static_cast<std::size_t>(line - excerpt->first_line)];
    };
    std::size_t indentation = std::string::npos;  // that all lines share
    for (int line = lines.first; line < lines.second; ++line) {
      indentation = std::min(indentation, text_of(line).find_first_not_of(' '));
    }
    for (int line = lines.first; line < lines.second; ++line) {
      const std::string_view text = text_of(line);
      if (line == where.line) {
        page.out.put("<span class=\"row marked\" aria-current=\"true\">");
      } else {
        page.out.put("<span class=\"row\">");
      }
      page.out.put("<span class=\"n\">", number(line), "</span>",
                   escaped(text.substr(std::min(text.size(), indentation))), "\n</span>");
    }
    page.out.put("</code></pre>\n");
  }
  page.out.put("</div>\n");
}

void write_site(HtmlPage& page, std::string_view ordinal, const core::AccessSite& site) {
  page.out.put("<div class=\"site\">\n<h4>", escaped(ordinal), ": ",
               escaped(site.is_write ? "write" : "read"), ", ",
               escaped(site.async_proxy ? "async" : "generic"), " proxy</h4>\n");
  if (!site.actor.empty()) {
    page.out.put("<p>by ", escaped(site.actor), "</p>\n");
  }
  page.out.put("<p class=\"mono\">", escaped(site.instruction), "</p>\n");
  for (std::size_t i = 0; i < site.where.size(); ++i) {
    write_frame(page, site.where[i], i == 0);
  }
  page.out.put("</div>\n");
}

}  // namespace

void write_findings(HtmlPage& page) {
  if (page.record.verdict.findings.empty()) {
    return;
  }
  page.open_section("findings", "Findings");
  for (const auto& finding : page.record.verdict.findings) {
    const Safe severity = escaped(core::name_of(finding.severity));
    page.out.put("<article class=\"finding s-", severity, "\">\n<h3>",
                 escaped(core::name_of(finding.finding)), " <span class=\"sev\">", severity,
                 "</span></h3>\n");
    if (!finding.headline.empty() && finding.headline != headline_of(page.record)) {
      page.out.put("<p>", escaped(finding.headline), "</p>\n");
    }
    page.bullets(finding.evidence, false);
    if (finding.runner_up) {
      page.out.put("<p><span class=\"label\">Runner-up</span> ",
                   escaped(core::name_of(*finding.runner_up)));
      if (!finding.runner_up_reason.empty()) {
        page.out.put(": ", escaped(finding.runner_up_reason));
      }
      page.out.put("</p>\n");
    }
    if (!finding.advice.empty()) {
      page.out.put("<p><span class=\"label\">Next</span> ", escaped(finding.advice), "</p>\n");
    }
    page.out.put("</article>\n");
  }
  page.close_section();
}

void write_races(HtmlPage& page) {
  const auto& races = page.record.evidence.races;
  if (races.empty()) {
    return;
  }
  page.open_section("races", "Races", "accesses that nothing orders");
  const std::size_t shown = std::min(races.size(), kMostRaces);
  for (std::size_t i = 0; i < shown; ++i) {
    const core::RaceReport& race = races[i];
    page.out.put("<article class=\"race\">\n<h3>", number(i + 1), ". ",
                 escaped(kind_text(race.kind)), ", ", escaped(memory_text(race)));
    if (race.note_only) {
      page.out.put(" <small>note</small>");
    }
    page.out.put("</h3>\n");
    if (!race.missing_edge.empty()) {
      page.out.put("<p><span class=\"label\">Missing</span> ", escaped(race.missing_edge),
                   "</p>\n");
    }
    page.out.put("<p class=\"muted\">", escaped(seen_text(race)), "</p>\n<div class=\"sites\">\n");
    write_site(page, "First", race.first);
    write_site(page, "Second", race.second);
    page.out.put("</div>\n</article>\n");
  }
  page.more(races.size() - shown);
  page.close_section();
}

void write_stops(HtmlPage& page) {
  const std::vector<Stops> stops = stops_of(page.record);
  if (stops.empty()) {
    return;
  }
  page.open_section("stopped", "Not completed");
  const std::size_t shown = std::min(stops.size(), kMostStops);
  for (std::size_t s = 0; s < shown; ++s) {
    const Stops& stop = stops[s];
    page.out.put("<p><span class=\"warn\">", escaped(core::name_of(stop.status)),
                 "</span> <span class=\"label\">(", escaped(names_text(stop)), ")</span> ",
                 escaped(stop.message), "</p>\n");
    page.bullets(stop.details, true);
  }
  page.more(stops.size() - shown);
  page.close_section();
}

void write_further_evidence(HtmlPage& page) {
  const auto lines = further_evidence_of(page.record);
  if (lines.empty()) {
    return;
  }
  page.open_section("further", "Further evidence");
  page.bullets(lines, true);
  page.close_section();
}

}  // namespace faultline::reports
