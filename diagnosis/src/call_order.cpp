// SPDX-License-Identifier: Apache-2.0
#include "call_order.hpp"

#include <algorithm>
#include <cmath>

#include "cures.hpp"
#include "faultline/diagnosis/experiment.hpp"

namespace faultline::diagnosis {
namespace {

using Change = core::ExperimentEvidence::Kind;

std::uint64_t judged(const core::TrialResult& result) {
  return result.trials - std::min(result.trials, result.abnormal);
}

/// ln of the probability that of f + s trials, s of them wrong, chance picks the s second calls.
double log_chance(std::uint64_t f, std::uint64_t s) {
  const auto first = static_cast<double>(f), second = static_cast<double>(s);
  return std::lgamma(first + 1.0) + std::lgamma(second + 1.0) - std::lgamma(first + second + 1.0);
}

const core::ArmEvidence* arm_named(const Facts& facts, const std::string& name) {
  const auto arm = std::find_if(facts.arms.begin(), facts.arms.end(),
                                [&](const auto* a) { return a->perturbation.name == name; });
  return arm == facts.arms.end() ? nullptr : *arm;
}

/// All of its trials are wrong but those of its first launch, which may have been the first call.
bool later_ones_wrong(const core::TrialResult& result) {
  const std::uint64_t right = judged(result) - std::min(judged(result), result.wrong_values);
  if (right == 0) return true;
  return right <= std::max<std::uint64_t>(result.batch, 1) && result.first_failed_trial == right;
}

struct Seen {
  CallOrder calls;
  bool some_right = false;    ///< a first call
  bool contradicted = false;  ///< a first call was wrong, or a later one right
};

Seen look(const Facts& facts) {
  Seen seen;
  CallOrder& calls = seen.calls;
  const core::Evidence& evidence = facts.evidence;
  bool some_wrong = false;
  for (const core::ArmEvidence* arm : facts.arms) {
    const core::Perturbation& p = arm->perturbation;
    const core::TrialResult& r = arm->result;
    if (judged(r) == 0) continue;
    some_wrong = some_wrong || r.wrong_values > 0;
    if (p.calls > 1) {
      calls.second_trials += judged(r);
      calls.second_wrong += r.wrong_values;
    } else if (evidence.backend_is_model || p.reload_module) {
      calls.first_trials += judged(r);
      calls.first_wrong += r.wrong_values;
    } else if (!later_ones_wrong(r)) {
      seen.contradicted = true;
    } else if (r.wrong_values < judged(r)) {
      seen.some_right = true;
    }
  }
  for (const core::ExperimentEvidence& row : evidence.experiments) {
    if (effect_of(row) == Effect::not_run) continue;
    if (row.kind == Change::second_call) {
      calls.second_trials += row.after_trials;
      calls.second_wrong += row.after_wrong;
    } else if (row.kind == Change::first_call) {
      calls.first_trials += row.after_trials;
      calls.first_wrong += row.after_wrong;
      const core::ArmEvidence* arm = arm_named(facts, row.baseline);
      if (arm && arm->perturbation.calls > 1) {
        calls.second_trials += row.before_trials;
        calls.second_wrong += row.before_wrong;
      }
    }
  }
  seen.contradicted = seen.contradicted || !some_wrong || calls.first_wrong > 0 ||
                      calls.second_wrong < calls.second_trials;
  seen.some_right = seen.some_right || calls.first_trials > calls.first_wrong;
  if (seen.contradicted) return seen;
  calls.decides = calls.first_trials > 0 && calls.second_trials > 0 &&
                  log_chance(calls.first_trials, calls.second_trials) < std::log(kChangeAlpha);
  calls.open = !calls.decides;
  return seen;
}

}  // namespace

CallOrder call_order(const Facts& facts) { return look(facts).calls; }

bool calls_explain_what_differs(const Facts& facts) {
  const Seen seen = look(facts);
  if (seen.calls.decides) return true;
  // Calls that go on from one another may differ, too; until it is known that they do, other bits
  // on equal inputs and poison count as a sign of timing.
  const auto& shape = facts.evidence.error_shape;
  const bool differ = shape && shape->same_poison_differing > 0;
  return seen.calls.open && seen.some_right && !differ;
}

}  // namespace faultline::diagnosis
