// SPDX-License-Identifier: Apache-2.0
// unknown: wrong values that no rule explains well enough. Says so and names the best candidate.
#include <algorithm>

#include <fmt/format.h>

#include "../readings.hpp"
#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

core::Finding unknown_finding(const Facts& facts, const core::Finding* rival) {
  core::Finding finding;
  finding.finding = core::FindingClass::unknown;
  finding.severity = core::Severity::error;
  finding.confidence = 0.3;
  finding.headline =
      fmt::format("{} is wrong, and the evidence does not say which kind of bug it is",
                  subject_text(facts.evidence));
  if (const std::optional<std::string> reading = common_reading(facts.evidence)) {
    finding.headline = fmt::format("{} is wrong: {}; which kind of bug does so is open",
                                   subject_text(facts.evidence), *reading);
  }
  finding.evidence.push_back(fmt::format("{} trials failed", share(facts.failed, facts.trials)));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  const auto& repeat = facts.evidence.repeat;
  if (repeat && repeat->repeats > 1 && repeat->distinct == 1) {
    finding.evidence.push_back(fmt::format("{} on the same inputs gave the same bits, so timing "
                                           "does not seem to matter",
                                           plural(repeat->repeats, "run")));
  }
  if (rival) {
    finding.runner_up = rival->finding;
    finding.runner_up_reason = "it fits best, but not well enough to say so: " + rival->headline;
  } else {
    finding.runner_up_reason = "no rule fits at all";
  }
  const bool sometimes =
      std::any_of(facts.results.begin(), facts.results.end(), [](const core::TrialResult* r) {
        return r->wrong_values > 0 && r->wrong_values < r->trials;
      });
  finding.advice = sometimes
                       ? "Some trials pass and some fail: run `faultline stress` on this problem, "
                         "which repeats one input set and tells data from timing."
                   : facts.configs.empty()
                       ? "Run `faultline verify` on this subject: a sweep over configs and sizes "
                         "separates the causes that fail every time."
                   : facts.evidence.mode != "stress"
                       ? "Run `faultline stress` on a failing problem: its experiments change one "
                         "thing at a time, the layout of the data and the order of calls among "
                         "them. Or widen the sweep: more configs, and sizes that are and are not "
                         "multiples of the tile."
                       : "Widen the sweep: more configs, and sizes that are and are not multiples "
                         "of the tile.";
  return finding;
}

}  // namespace faultline::diagnosis
