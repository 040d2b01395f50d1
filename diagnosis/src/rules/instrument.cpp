// SPDX-License-Identifier: Apache-2.0
// The instrument itself is at fault: a launch failed, or the oracle on the device and the reference
// on the host disagree. Nothing said about the kernel can be relied on; the outcome is error.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_instrument_trouble(const Facts& facts) {
  constexpr double kGate = 1e-12;  // device oracle against host reference, relative
  core::Finding finding;
  finding.finding = core::FindingClass::unknown;
  finding.severity = core::Severity::error;
  finding.confidence = 1.0;
  for (const core::TrialResult* result : facts.results) {
    if (!(result->gate_worst <= kGate) || result->status == core::ExecutionStatus::error) {
      const std::string reason =
          result->status == core::ExecutionStatus::error
              ? (result->message.empty() ? "the backend gave no reason" : result->message)
              : fmt::format(
                    "the device oracle and the host reference differ by {} (relative), more "
                    "than {}",
                    number(result->gate_worst), number(kGate));
      if (finding.headline.empty()) {
        finding.headline =
            fmt::format("the run of {} broke: {}", subject_text(facts.evidence), reason);
      }
      finding.evidence.push_back(reason);
    }
  }
  if (finding.evidence.empty()) return std::nullopt;
  finding.runner_up_reason = "the kernel was not judged where this happened";
  finding.advice = "Run `faultline doctor`, then this run again.";
  return finding;
}

}  // namespace faultline::diagnosis
