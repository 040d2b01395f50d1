// SPDX-License-Identifier: Apache-2.0
// nondeterminism.benign: outputs differ bit by bit between runs on equal inputs, all within the
// derived bound. A note; an error when the subject declares itself deterministic.
#include <algorithm>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_benign_nondeterminism(const Facts& facts) {
  if (facts.any_wrong() || facts.any_race_error()) return std::nullopt;
  std::uint64_t sets = 0, distinct = 0;
  for (const core::TrialResult* result : facts.results) {
    if (result->distinct_outputs <= result->input_sets) continue;
    if (result->distinct_outputs - result->input_sets > distinct - sets || distinct == 0) {
      sets = result->input_sets;
      distinct = result->distinct_outputs;
    }
  }
  const auto& repeat = facts.evidence.repeat;
  if (distinct == 0 && !(repeat && repeat->distinct > 1)) return std::nullopt;

  const bool promised = facts.evidence.declared_deterministic;
  core::Finding finding;
  finding.finding = core::FindingClass::nondeterminism_benign;
  finding.severity = promised ? core::Severity::error : core::Severity::note;
  finding.confidence = promised ? 0.9 : 0.5;
  finding.headline =
      promised ? fmt::format("{} declares itself deterministic and gives different bits on equal "
                             "inputs",
                             subject_text(facts.evidence))
               : fmt::format("{} gives different bits on equal inputs, all within the bound",
                             subject_text(facts.evidence));
  if (distinct > 0) {
    finding.evidence.push_back(fmt::format("{} of inputs gave {} in one arm", plural(sets, "set"),
                                           plural(distinct, "different output")));
  }
  if (repeat && repeat->distinct > 1) {
    finding.evidence.push_back(fmt::format("{} on the same inputs gave {}",
                                           plural(repeat->repeats, "run"),
                                           plural(repeat->distinct, "different output")));
  }
  double worst = 0.0;
  for (const core::OutputTotals& output : facts.outputs)
    worst = std::max(worst, output.worst_ratio);
  finding.evidence.push_back(fmt::format(
      "every element of every run is within the bound (worst {} of it)", number(worst)));
  finding.runner_up = core::FindingClass::race_shared;
  finding.runner_up_reason = "a race may stay within the bound too; no race was reported and every "
                             "value is acceptable";
  finding.advice = promised ? "Fix the order of the summation, or declare the subject as not "
                              "deterministic."
                            : "";
  return finding;
}

}  // namespace faultline::diagnosis
