// SPDX-License-Identifier: Apache-2.0
// state: the subject writes to its inputs. The first call may well be right; the next one starts
// from something else.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_changed_input(const Facts& facts) {
  std::uint64_t checked = 0;
  const core::ChangedInput* first = nullptr;
  core::Finding finding;
  for (const core::TrialResult* result : facts.results) {
    checked += result->inputs_checked;
    for (const core::ChangedInput& changed : result->changed_inputs) {
      if (!first) first = &changed;
      const std::string text = fmt::format(
          "input '{}' no longer held what was laid there after {}: {}, the first at index {}",
          changed.name, plural(changed.trials, "trial"), plural(changed.elements, "element"),
          changed.first_element);
      if (finding.evidence.size() < 4) finding.evidence.push_back(text);
    }
  }
  if (!first) return std::nullopt;
  finding.finding = core::FindingClass::state;
  finding.severity = core::Severity::error;
  finding.confidence = 0.99;
  finding.headline = fmt::format("{} changes its input '{}': a second call starts from something "
                                 "else",
                                 subject_text(facts.evidence), first->name);
  finding.evidence.push_back(
      fmt::format("the inputs were compared after {}", plural(checked, "trial")));
  if (!facts.any_wrong()) {
    finding.evidence.push_back("every output of the call itself was right: a test that lays the "
                               "inputs down afresh each time sees nothing");
  }
  finding.runner_up = core::FindingClass::oob;
  finding.runner_up_reason = "a write that runs out of another buffer would hit its neighbours' "
                             "edges, not the body of an input";
  finding.advice = "Work on a copy, or declare the buffer as in-out and test two calls in a row.";
  return finding;
}

}  // namespace faultline::diagnosis
