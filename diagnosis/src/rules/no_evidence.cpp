// SPDX-License-Identifier: Apache-2.0
// no_evidence: the run cannot say what was asked. A failure that was seen before did not come back,
// an arm did not perturb as planned, or the backend cannot judge the kernel. Never a pass.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_no_evidence(const Facts& facts) {
  core::Finding finding;
  finding.finding = core::FindingClass::no_evidence;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.7;

  for (const core::TrialResult* result : facts.results) {
    const bool out_of_time = result->status == core::ExecutionStatus::out_of_time;
    if (!out_of_time && result->status != core::ExecutionStatus::unsupported) continue;
    const std::string reason = result->message.empty() ? "no reason given" : result->message;
    if (out_of_time) {
      // Its clock says how long the simulation takes, not how long the kernel does.
      if (finding.headline.empty()) {
        finding.headline = fmt::format("{}: {}", subject_text(facts.evidence), reason);
        finding.advice = "Raise --timeout, or choose a smaller problem.";
      }
      finding.evidence.push_back("not finished: " + reason);
      continue;
    }
    if (finding.headline.empty()) {
      finding.headline = fmt::format("{} cannot be judged by the {} backend: {}",
                                     subject_text(facts.evidence), facts.evidence.backend, reason);
    }
    finding.evidence.push_back("unsupported: " + reason);
  }
  for (const core::ArmEvidence* arm : facts.arms) {
    if (arm->result.overlap_proven) continue;
    if (finding.headline.empty()) {
      finding.headline = fmt::format("arm '{}' did not perturb as planned", arm->perturbation.name);
    }
    const core::Perturbation& p = arm->perturbation;
    const bool beside = p.free_sms > 0 || p.co_resident != core::CoResident::none;
    finding.evidence.push_back(fmt::format("arm '{}': it is not proven that {}{}{}", p.name,
                                           p.dirty_shared && !beside
                                               ? "all its shared memory was dirtied"
                                               : "its stress kernel ran beside the trials",
                                           arm->result.note.empty() ? "" : ": ", arm->result.note));
  }
  if (facts.evidence.mode == "replay" && !facts.evidence.backend_is_model && facts.failed == 0 &&
      facts.trials > 0) {
    if (finding.headline.empty()) {
      finding.headline = fmt::format("the failure of {} did not come back in {}",
                                     subject_text(facts.evidence), plural(facts.trials, "run"));
    }
    finding.evidence.push_back(fmt::format("0 of {} failed: its rate under this perturbation is {}",
                                           plural(facts.trials, "run"),
                                           upper_bound_text(facts.trials)));
  }
  if (finding.evidence.empty()) return std::nullopt;
  finding.runner_up = core::FindingClass::unknown;
  finding.runner_up_reason = "what was not provoked may still be there";
  return finding;
}

}  // namespace faultline::diagnosis
