// SPDX-License-Identifier: Apache-2.0
// special_values: NaN or Inf where the inputs and the expected values are finite, whatever lay in
// the output before: something overflowed or was divided by zero on the way.
#include <algorithm>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_special_values(const Facts& facts) {
  if (!facts.any_wrong()) return std::nullopt;
  std::uint64_t not_finite = 0, bad = 0;
  for (const core::OutputTotals& output : facts.outputs) {
    not_finite += output.not_finite;
    bad += judged_wrong(output);
  }
  if (not_finite == 0) return std::nullopt;
  // Memory that nobody wrote gives NaN too, but not under every poison: some are finite.
  constexpr std::uint64_t kPoisons = 3;
  // A result of one or two trials saw one or two poisons and cannot say, but it can object.
  bool whatever_the_poison = false, objection = false;
  for (const core::TrialResult* result : facts.results) {
    if (result->wrong_values == 0) continue;
    objection = objection || result->failed < result->trials;
    if (result->trials < kPoisons) continue;
    const bool every_trial = poison_pattern(*result) == PoisonPattern::every_trial;
    whatever_the_poison = whatever_the_poison || every_trial;
    objection = objection || !every_trial;
  }
  whatever_the_poison = whatever_the_poison && !objection;
  // Not all: what overflows grew first, and what it grew through is wrong and finite.
  const bool most = not_finite * 2 >= bad;

  core::Finding finding;
  finding.finding = core::FindingClass::special_values;
  finding.severity = core::Severity::error;
  finding.confidence = most && whatever_the_poison ? 0.6 : most ? 0.5 : 0.4;
  const std::vector<const core::OutputTotals*> wrong = wrong_outputs(facts);
  finding.headline = fmt::format("{} overflows or divides by zero on the way to {}",
                                 subject_text(facts.evidence), wrong.front()->name);
  finding.evidence.push_back(
      fmt::format("{} wrong elements are NaN or Inf; the inputs and the expected values are finite",
                  share(not_finite, bad)));
  if (whatever_the_poison) {
    finding.evidence.push_back("every trial fails, whatever value the outputs held before");
  }
  for (const core::OutputTotals* output : wrong) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  finding.runner_up = core::FindingClass::uninitialised;
  finding.runner_up_reason = "memory that was never written may hold NaN, too";
  finding.advice = "Compare the intermediates (--intermediates): the first that is not finite "
                   "names the step.";
  return finding;
}

}  // namespace faultline::diagnosis
