// SPDX-License-Identifier: Apache-2.0
// hang: a deadlock (simulator) or a time-out. crash: an illegal address, a barrier misuse, a trap.
#include <algorithm>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

bool is_hang(core::ExecutionStatus status) {
  return status == core::ExecutionStatus::deadlock || status == core::ExecutionStatus::timeout;
}
bool is_crash(core::ExecutionStatus status) { return status == core::ExecutionStatus::fault; }

std::optional<core::Finding> find_abnormal(const Facts& facts,
                                           bool (*wanted)(core::ExecutionStatus),
                                           core::FindingClass finding_class) {
  const core::TrialResult* first = nullptr;
  std::uint64_t ended_so = 0;
  for (const core::TrialResult* result : facts.results) {
    std::uint64_t here = 0;
    for (const core::FailedTrial& failure : result->failures) {
      if (wanted(failure.status)) ++here;
    }
    if (wanted(result->status)) here = std::max<std::uint64_t>(here, 1);
    if (here == 0) continue;
    ended_so += here;
    if (!first || (first->message.empty() && !result->message.empty())) first = result;
  }
  if (!first) return std::nullopt;

  const bool hang = finding_class == core::FindingClass::hang;
  core::Finding finding;
  finding.finding = finding_class;
  finding.severity = core::Severity::error;
  finding.confidence = 1.0;
  finding.headline = fmt::format(
      "{} {}: {}", subject_text(facts.evidence), hang ? "does not come to an end" : "faults",
      first->message.empty() ? "the backend gave no further detail" : first->message);
  finding.evidence.push_back(fmt::format("{}{} of {} ended so",
                                         ended_so < facts.trials ? "at least " : "",
                                         count(ended_so), plural(facts.trials, "trial")));
  constexpr std::size_t kDetails = 8;
  for (std::size_t i = 0; i < first->details.size() && i < kDetails; ++i) {
    finding.evidence.push_back(first->details[i]);
  }
  finding.runner_up = hang ? core::FindingClass::race_async : core::FindingClass::oob;
  finding.runner_up_reason =
      hang ? "a lost or doubled barrier phase also shows as a race in other schedules"
           : "an address outside its buffer is the commonest cause of a fault";
  finding.advice = hang ? "Compare what each waiting warp waits for with who should arrive there."
                        : "Look at the address and the line first.";
  return finding;
}

}  // namespace

std::optional<core::Finding> find_abnormal_hang(const Facts& facts) {
  return find_abnormal(facts, is_hang, core::FindingClass::hang);
}
std::optional<core::Finding> find_abnormal_crash(const Facts& facts) {
  return find_abnormal(facts, is_crash, core::FindingClass::crash);
}

}  // namespace faultline::diagnosis
