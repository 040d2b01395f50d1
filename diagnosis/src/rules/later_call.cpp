// SPDX-License-Identifier: Apache-2.0
// state: the first call of a freshly loaded module is right, and the next one on the same buffers
// is wrong, every time.
#include <fmt/format.h>

#include "../call_order.hpp"
#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_wrong_later_call(const Facts& facts) {
  const CallOrder calls = call_order(facts);
  if (!calls.decides) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::state;
  finding.severity = core::Severity::error;
  finding.confidence = 0.95;
  finding.headline = fmt::format("{} is right when it is called first and wrong when it is called "
                                 "again: something of the first call is left behind",
                                 subject_text(facts.evidence));
  finding.evidence.push_back(
      fmt::format("first call of a freshly loaded module: {} trials wrong; second call, its "
                  "outputs laid down anew: {} wrong",
                  share(calls.first_wrong, calls.first_trials),
                  share(calls.second_wrong, calls.second_trials)));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  const bool unwritten = facts.poison_share() >= 0.99;
  finding.runner_up = unwritten ? core::FindingClass::missed_write : core::FindingClass::race_grid;
  finding.runner_up_reason =
      unwritten ? "the wrong elements still hold what was laid there, but a first call writes them"
                : "a race would not spare every first call and hit every later one";
  finding.advice = "Look for what outlives a call: a __device__ variable, a counter, a flag or a "
                   "workspace that the call expects as it was at first. Reset it before or after "
                   "each call.";
  return finding;
}

}  // namespace faultline::diagnosis
