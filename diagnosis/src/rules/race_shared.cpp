// SPDX-License-Identifier: Apache-2.0
// race.shared: threads of one CTA that access shared memory in no order (a missing or misplaced
// barrier). Told by a race report between two ordinary accesses, or, without race detection, by
// failures that depend on timing in an output that no software pipeline stands behind.
#include <fmt/format.h>

#include "../cures.hpp"
#include "../footprint.hpp"
#include "../words.hpp"
#include "race_reported.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_race_shared(const Facts& facts) {
  return reported_race(
      facts, core::FindingClass::race_shared,
      {core::FindingClass::race_async,
       "both accesses are made by threads themselves, none by an asynchronous copy",
       "Put a barrier (__syncthreads, __syncwarp, a named barrier) between the two lines for "
       "every thread that takes part."});
}

std::optional<core::Finding> find_race_shared_by_values(const Facts& facts) {
  if (!facts.any_wrong() || facts.any_race_error()) return std::nullopt;
  std::vector<std::string> timing = timing_dependence(facts);
  if (timing.empty()) return std::nullopt;
  // Where asynchronous units are at work, race.async speaks, with this class as its runner-up.
  if (!facts.evidence.asynchronous_instructions.empty()) return std::nullopt;
  // Several streams, or no shared memory: other rules speak.
  if (facts.evidence.streams > 1 || !facts.evidence.shared_memory) return std::nullopt;
  const std::vector<const core::OutputTotals*> wrong = wrong_outputs(facts);
  for (const core::OutputTotals* output : wrong) {
    if (output->geometry.pipeline_depth > 0) return std::nullopt;  // race.async speaks for these
  }

  core::Finding finding;
  finding.finding = core::FindingClass::race_shared;
  finding.severity = core::Severity::error;
  finding.confidence = 0.6;
  finding.headline =
      fmt::format("{} is wrong in some runs only, on the same inputs: accesses are not ordered",
                  subject_text(facts.evidence));
  finding.evidence = std::move(timing);
  for (const core::OutputTotals* output : wrong) {
    finding.evidence.push_back(wrong_output_text(*output));
    finding.evidence.push_back(wrong_place(facts, *output));
    std::string footprint = race_footprint_text(facts.evidence, *output);
    if (!footprint.empty()) finding.evidence.push_back(std::move(footprint));
  }
  if (facts.poison_share() > 0.5) {
    finding.evidence.push_back(
        "the wrong elements hold the poison, but not the same ones every time: a write that came "
        "late or was lost, not one that is missing from the code");
  }
  finding.runner_up = core::FindingClass::race_grid;
  finding.runner_up_reason =
      "values alone cannot tell shared memory from global memory between CTAs; a run with one CTA "
      "would";
  const Effect alone = effect_of(facts.evidence, core::ExperimentEvidence::Kind::one_block);
  if (is_no_cure(alone)) {
    finding.confidence = 0.8;
    finding.runner_up_reason = "between blocks nothing can race where there is one, and it fails";
  } else if (alone == Effect::cured) {
    finding.confidence = 0.55;
  }
  finding.advice = "Run `faultline race` on this problem: the simulator names both source lines.";
  return finding;
}

}  // namespace faultline::diagnosis
