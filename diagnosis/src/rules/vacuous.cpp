// SPDX-License-Identifier: Apache-2.0
// vacuous: the test would pass whatever the kernel did. Either a trivial output (zeros, a constant,
// a shuffled reference) is acceptable too, or nothing was compared.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_vacuous(const Facts& facts) {
  core::Finding finding;
  finding.finding = core::FindingClass::vacuous;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.8;
  finding.runner_up = core::FindingClass::bound_vacuous;

  bool completed = false;
  for (const core::TrialResult* result : facts.results) {
    completed = completed || (result->trials > result->abnormal &&
                              result->status == core::ExecutionStatus::completed);
  }
  // A race check of a bare PTX file has no reference: it speaks of races only.
  const bool compared_nothing =
      completed && facts.compared_elements == 0 && facts.evidence.mode != "race";
  if (compared_nothing) {
    finding.headline =
        fmt::format("no element of {} was compared with a reference", subject_text(facts.evidence));
    finding.evidence.push_back(
        fmt::format("{} ended normally with 0 compared elements", plural(facts.trials, "trial")));
    finding.runner_up_reason = "there was no bound to judge";
    return finding;
  }
  if (facts.evidence.null_outputs_accepted.empty()) return std::nullopt;
  finding.headline = fmt::format("the comparison of {} would also accept an output that computes "
                                 "nothing",
                                 subject_text(facts.evidence));
  for (const std::string& fake : facts.evidence.null_outputs_accepted) {
    finding.evidence.push_back("accepted: " + fake);
  }
  finding.runner_up_reason = "a bound that is too wide and a reference that is trivial look alike "
                             "here";
  finding.advice = "Use inputs whose result differs from these outputs, or a tighter bound.";
  return finding;
}

std::optional<core::Finding> find_not_examined(const Facts& facts) {
  const std::vector<std::string>& skipped = facts.evidence.not_examined;
  if (skipped.empty()) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::vacuous;
  finding.severity = core::Severity::note;
  finding.confidence = 0.3;
  finding.headline =
      fmt::format("{} of the test of {} {} not made", plural(skipped.size(), "check"),
                  subject_text(facts.evidence), skipped.size() == 1 ? "was" : "were");
  constexpr std::size_t kNamed = 6;
  for (std::size_t i = 0; i < skipped.size() && i < kNamed; ++i) {
    finding.evidence.push_back("not made: " + skipped[i]);
  }
  if (skipped.size() > kNamed) {
    finding.evidence.push_back(plural(skipped.size() - kNamed, "further check"));
  }
  finding.runner_up = core::FindingClass::bound_vacuous;
  finding.runner_up_reason = "a check that is left out and one that would have failed look alike";
  finding.advice = "Where size is the reason, run a smaller problem of the same kind.";
  return finding;
}

}  // namespace faultline::diagnosis
