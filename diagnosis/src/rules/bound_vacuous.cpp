// SPDX-License-Identifier: Apache-2.0
// bound_vacuous: the reference or the bound of some elements is not a number one can compare with.
// It speaks for those elements alone: the wrong ones beside them are explained by other rules.
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
    if (output.no_reference == 0) continue;
    finding.evidence.push_back(fmt::format(
        "{}: {} of {} compared have a reference that is not finite, or a bound that is "
        "negative or not finite",
        output.name, plural(output.no_reference, "element"), count(output.compared_elements)));
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
