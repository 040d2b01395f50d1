// SPDX-License-Identifier: Apache-2.0
// layout: what fails every time is right when the same data lie back to back, or at other
// addresses. Nothing needs to be written where it must not: a view that is read wrongly is enough.
#include <fmt/format.h>

#include "../cures.hpp"
#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_layout_by_change(const Facts& facts) {
  using Change = core::ExperimentEvidence::Kind;
  if (!facts.any_wrong() || !timing_dependence(facts).empty()) return std::nullopt;
  const Effect contiguous = effect_of(facts.evidence, Change::contiguous),
               moved = effect_of(facts.evidence, Change::offset);
  const bool by_layout = contiguous == Effect::cured;
  const bool by_address = moved == Effect::cured || moved == Effect::lowered;
  // That the layout does not matter leaves the address alone, which is the plainest there is.
  if (!by_layout && (!by_address || is_no_cure(contiguous))) return std::nullopt;

  core::Finding finding;
  finding.finding = core::FindingClass::layout;
  finding.severity = core::Severity::error;
  finding.confidence = by_layout ? 0.92 : 0.65;
  finding.headline =
      by_layout
          ? fmt::format("{} is wrong only where its data are not contiguous: a pitch, an offset or "
                        "an alignment is taken for another one",
                        subject_text(facts.evidence))
          : fmt::format("{} is wrong or right by where its buffers begin: it expects another "
                        "alignment",
                        subject_text(facts.evidence));
  finding.evidence.push_back(
      experiment_text(facts.evidence, by_layout ? Change::contiguous : Change::offset));
  if (by_layout && by_address) {
    finding.evidence.push_back(
        "it depends on where buffers begin, too: an alignment is relied on, or "
        "rounded to");
  } else if (by_layout && is_no_cure(moved)) {
    finding.evidence.push_back(
        "buffers that begin 16 bytes further on are no better: a distance or "
        "an offset counts, or an alignment of 16 bytes at most");
  }
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  finding.runner_up = by_layout ? core::FindingClass::index32 : core::FindingClass::oob;
  finding.runner_up_reason =
      by_layout ? "an index that wraps goes away with the distance of rows, too, but leaves the "
                  "rows before right"
                : "what lies beyond a buffer also changes with its address";
  finding.advice = "Compare every address in the kernel with the pitch and the offset that it is "
                   "given, and vector loads with the alignment that a view may have.";
  return finding;
}

}  // namespace faultline::diagnosis
