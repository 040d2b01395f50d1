// SPDX-License-Identifier: Apache-2.0
// slow.dispatch: a call builds and loads code anew before it launches. A warning, from the program
// alone: no timing is needed to know that a cache is missing.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_slow_dispatch(const Facts& facts) {
  const core::Evidence& evidence = facts.evidence;
  if (evidence.reloading_launches == 0) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::slow_dispatch;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.9;
  finding.headline =
      fmt::format("each call of {} builds and loads its kernel anew", subject_text(evidence));
  finding.evidence.push_back(fmt::format("{} of {} of a call load their module first",
                                         count(evidence.reloading_launches),
                                         plural(evidence.launches, "launch")));
  finding.runner_up = core::FindingClass::timing_contaminated;
  finding.runner_up_reason =
      "the time goes into the dispatch of every call, not into a busy device";
  finding.advice = "Keep built kernels in a cache keyed by everything they depend on.";
  return finding;
}

}  // namespace faultline::diagnosis
