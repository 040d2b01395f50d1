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
  page.out.put("<span class=\"mono\">", escaped(place_text(where)), "</span></p>\n");
  if (const core::SourceExcerpt* excerpt = find_excerpt(page.record, where.file, where.line)) {
    page.out.put("<pre tabindex=\"0\" role=\"group\" aria-label=\"Source of ",
                 escaped(place_text(where, false)), "\"><code>");
    int line = excerpt->first_line;
    for (const auto& text : excerpt->lines) {
      if (line == where.line) {
        page.out.put("<span class=\"row marked\" aria-current=\"true\">");
      } else {
        page.out.put("<span class=\"row\">");
      }
      page.out.put("<span class=\"n\">", number(line), "</span>", escaped(text), "\n</span>");
      ++line;
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
  std::size_t stopped = 0;
  const auto stop = [&](const std::string& name, const core::TrialResult& result) {
    if (result.status == core::ExecutionStatus::completed) {
      return;
    }
    if (++stopped == 1) {
      page.open_section("stopped", "Not completed");
    }
    if (stopped > kMostStops) {
      return;
    }
    page.out.put("<p><span class=\"warn\">", escaped(core::name_of(result.status)),
                 "</span> <span class=\"label\">(", escaped(name), ")</span> ",
                 escaped(result.message), "</p>\n");
    page.bullets(result.details, true);
  };
  for (const auto& arm : page.record.evidence.arms) {
    stop(arm.perturbation.name, arm.result);
  }
  for (const auto& config : page.record.evidence.configs) {
    stop(config.problem + "; " + config.config, config.result);
  }
  if (stopped > 0) {
    page.more(stopped - std::min(stopped, kMostStops));
    page.close_section();
  }
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
