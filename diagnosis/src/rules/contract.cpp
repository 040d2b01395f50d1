// SPDX-License-Identifier: Apache-2.0
// contract: the inputs lie outside what the subject declares to accept. Right or wrong, the results
// say nothing about the kernel: the run is inconclusive.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_contract(const Facts& facts) {
  const std::vector<std::string>& violations = facts.evidence.contract_violations;
  if (violations.empty()) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::contract;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.95;
  finding.headline = fmt::format("the inputs lie outside what {} declares to accept: {}",
                                 subject_text(facts.evidence), violations.front());
  finding.evidence = violations;
  if (facts.any_wrong()) {
    finding.evidence.push_back(
        fmt::format("wrong values: {}", share(facts.wrong_values, facts.trials)));
  }
  finding.runner_up = core::FindingClass::vacuous;
  finding.runner_up_reason = "something was compared, but it cannot be held against the kernel";
  finding.advice = "Draw inputs inside the contract, or widen the contract and its bound.";
  return finding;
}

}  // namespace faultline::diagnosis
