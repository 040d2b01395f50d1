// SPDX-License-Identifier: Apache-2.0
// missed_write: the kernel never writes some elements. They still hold the poison, whatever the
// poison is, and they are the same ones in every trial; a set that varies is a race, not a missing
// store.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

namespace {

/// Trials of one arm or cell of which some are wrong and most are not.
const core::TrialResult* partly_wrong(const Facts& facts) {
  for (const core::TrialResult* result : facts.results) {
    if (result->wrong_values > 0 && result->wrong_values * 2 < result->trials) return result;
  }
  return nullptr;
}

}  // namespace

std::optional<core::Finding> find_missed_write(const Facts& facts) {
  const std::vector<const core::OutputTotals*> wrong = wrong_outputs(facts);
  if (wrong.empty() || facts.poison_share() < 0.99) return std::nullopt;
  if (!timing_dependence(facts).empty()) return std::nullopt;
  const bool fixed = same_tiles_every_time(facts);

  core::Finding finding;
  finding.finding = core::FindingClass::missed_write;
  finding.severity = core::Severity::error;
  finding.confidence = fixed ? 0.97 : 0.6;
  const core::TrialResult* partly = partly_wrong(facts);
  // A store that is missing is missing in every trial, unless the data decide.
  if (partly) finding.confidence = 0.45;
  const core::OutputTotals& worst = *wrong.front();
  const bool everything = worst.bad_elements == worst.compared_elements;
  finding.headline =
      everything ? fmt::format("{} never writes {}: every element still holds the poison",
                               subject_text(facts.evidence), worst.name)
                 : fmt::format("{} never writes part of {}: the elements still hold the poison",
                               subject_text(facts.evidence), worst.name);
  for (const core::OutputTotals* output : wrong) {
    finding.evidence.push_back(fmt::format("{}: {} wrong elements are bit-equal to what was laid "
                                           "down before the launch",
                                           output->name,
                                           share(output->poison, judged_wrong(*output))));
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  if (partly) {
    finding.evidence.push_back(
        fmt::format("{} of one kernel, problem and config are wrong",
                    share(partly->wrong_values, partly->trials) + " trials"));
  }
  finding.evidence.push_back(fixed
                                 ? "every failing trial misses the same tiles, under every poison "
                                   "and every perturbation"
                                 : "the missed tiles differ between trials");
  finding.runner_up = fixed ? core::FindingClass::uninitialised : core::FindingClass::race_async;
  finding.runner_up_reason =
      fixed ? "values computed from unwritten memory would follow the poison, these are the poison"
            : "a set of unwritten tiles that varies points to a store that is lost or late";
  finding.advice = "Compare the grid and the store's guard with the extent of the output.";
  return finding;
}

}  // namespace faultline::diagnosis
