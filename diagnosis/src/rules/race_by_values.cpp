// SPDX-License-Identifier: Apache-2.0
// race.stream and race.grid without race reports: timing decides, and what the program is made of
// says where. Two streams leave launches unordered; kernels without shared memory and without
// asynchronous copies can race in global memory alone.
#include <fmt/format.h>

#include "../cures.hpp"
#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

using Change = core::ExperimentEvidence::Kind;

/// Timing decides, on equal inputs; nothing when it does not or a race was reported.
std::optional<core::Finding> timed(const Facts& facts, core::FindingClass finding_class) {
  if (!facts.any_wrong() || facts.any_race_error()) return std::nullopt;
  if (!facts.evidence.asynchronous_instructions.empty()) return std::nullopt;
  std::vector<std::string> timing = timing_dependence(facts);
  if (timing.empty()) return std::nullopt;
  core::Finding finding;
  finding.finding = finding_class;
  finding.severity = core::Severity::error;
  finding.confidence = 0.65;
  finding.evidence = std::move(timing);
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  finding.advice = "Run `faultline race` on this problem: the simulator names both source lines.";
  return finding;
}

}  // namespace

std::optional<core::Finding> find_race_stream_by_values(const Facts& facts) {
  if (facts.evidence.streams < 2) return std::nullopt;
  std::optional<core::Finding> finding = timed(facts, core::FindingClass::race_stream);
  if (!finding) return std::nullopt;
  finding->headline = fmt::format("{} is wrong in some runs only, on the same inputs: a call uses "
                                  "{} streams, and something between them is not ordered",
                                  subject_text(facts.evidence), facts.evidence.streams);
  finding->runner_up = facts.evidence.shared_memory ? core::FindingClass::race_shared
                                                    : core::FindingClass::race_grid;
  finding->runner_up_reason = "a race inside one launch may show under overlap alone: that it goes "
                              "away under full synchronisation would not tell them apart";
  switch (effect_of(facts.evidence, Change::serialised)) {
  case Effect::cured:
    finding->confidence = 0.9;
    finding->runner_up_reason = "a race inside one launch would fail under the same contention "
                                "when the launches no longer overlap, and none did";
    break;
  case Effect::unchanged:
  case Effect::raised:
    finding->confidence = 0.3;  // it fails as often where no two launches overlap
    break;
  default: break;
  }
  return finding;
}

std::optional<core::Finding> find_race_grid_by_values(const Facts& facts) {
  if (facts.evidence.streams > 1) return std::nullopt;
  const Effect alone = effect_of(facts.evidence, Change::one_block);
  if (facts.evidence.shared_memory && alone != Effect::cured) return std::nullopt;
  std::optional<core::Finding> finding = timed(facts, core::FindingClass::race_grid);
  if (!finding) return std::nullopt;
  finding->headline = fmt::format("{} is wrong in some runs only, on the same inputs: its blocks "
                                  "are not ordered in global memory",
                                  subject_text(facts.evidence));
  if (facts.evidence.shared_memory) {
    finding->runner_up = core::FindingClass::race_shared;
    finding->runner_up_reason =
        "one block has the same shared memory, and its warps less company: that it passes is no "
        "proof";
    return finding;
  }
  finding->evidence.push_back("no kernel of a call has shared memory or asynchronous copies, and "
                              "one stream orders the launches");
  finding->runner_up = core::FindingClass::uninitialised;
  finding->runner_up_reason = "what depends on unwritten memory follows the poison, not the timing";
  if (is_no_cure(alone)) finding->confidence = 0.5;  // blocks were not needed for it
  return finding;
}

}  // namespace faultline::diagnosis
