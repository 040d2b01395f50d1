// SPDX-License-Identifier: Apache-2.0
// A race that lenient mode reports as a note: much public code relies on an mbarrier alone where
// PTX formally wants a proxy fence. Never an error, never silent.
#include <fmt/format.h>

#include "../words.hpp"
#include "race_reported.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_race_note(const Facts& facts) {
  const core::RaceReport* note = nullptr;
  std::size_t notes = 0;
  for (const core::RaceReport& race : facts.races) {
    if (!race.note_only) continue;
    ++notes;
    if (!note) note = &race;
  }
  if (!note) return std::nullopt;

  core::Finding finding;
  finding.finding = class_of(*note);
  finding.severity = core::Severity::note;
  finding.confidence = 0.5;
  finding.headline = fmt::format("{} relies on more than PTX promises: {}",
                                 subject_text(facts.evidence), race_sentence(*note));
  finding.evidence.push_back("first: " + site_text(note->first));
  finding.evidence.push_back("second: " + site_text(note->second));
  if (!note->missing_edge.empty()) finding.evidence.push_back(note->missing_edge);
  if (note->missing_proxy_fence) {
    finding.evidence.push_back("only a fence.proxy.async between the two is missing");
  }
  if (notes > 1) finding.evidence.push_back(plural(notes - 1, "further pair") + " of lines");
  if (!facts.any_wrong() && facts.compared_elements > 0) {
    finding.evidence.push_back(
        fmt::format("no value was wrong in {}: on this backend the rate is {}",
                    plural(facts.trials, "trial"), upper_bound_text(facts.trials)));
  }
  finding.runner_up = core::FindingClass::no_evidence;
  finding.runner_up_reason =
      "lenient mode was asked for, which takes an mbarrier as ordering both proxies; strict mode "
      "reports this as an error";
  finding.advice = "Add the fence, or run without --lenient to have it counted.";
  return finding;
}

}  // namespace faultline::diagnosis
