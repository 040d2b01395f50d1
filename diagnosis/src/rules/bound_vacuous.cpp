// SPDX-License-Identifier: Apache-2.0
// bound_vacuous: the reference or the bound of some elements is not a number one can compare with.
#include <cmath>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_bound_vacuous(const Facts& facts) {
  core::Finding finding;
  finding.finding = core::FindingClass::bound_vacuous;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.8;
  for (const core::OutputTotals& output : facts.outputs) {
    // A finite value has an infinite error only where the reference or its bound is unusable.
    const bool unusable = output.bad_elements > output.not_finite + output.poison &&
                          std::isinf(output.worst_error) && output.not_finite == 0 &&
                          output.poison == 0;
    if (!unusable) continue;
    finding.evidence.push_back(
        fmt::format("{}: finite values with an infinite error: the reference is not finite there, "
                    "or its bound is negative or not finite",
                    output.name));
  }
  if (finding.evidence.empty()) return std::nullopt;
  finding.headline =
      fmt::format("the bound of {} says nothing about some elements", subject_text(facts.evidence));
  finding.runner_up = core::FindingClass::special_values;
  finding.runner_up_reason = "inputs that overflow the reference give the same picture";
  finding.advice = "Narrow the inputs, or repair the reference at these elements.";
  return finding;
}

}  // namespace faultline::diagnosis
