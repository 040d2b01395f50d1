// SPDX-License-Identifier: Apache-2.0
// missed_write: the kernel never writes some elements. They still hold the poison, whatever the
// poison is, and they are the same ones in every trial; a set that varies is a race, not a missing
// store, and so is one that is missed in some runs only, unless the inputs decide in which.
#include <algorithm>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

namespace {

/// Of one kernel, problem and config some trials are wrong and some are not.
const core::TrialResult* partly_wrong(const Facts& facts) {
  for (const core::TrialResult* result : facts.results) {
    if (result->wrong_values > 0 && result->wrong_values < result->trials) return result;
  }
  return nullptr;
}

/// Which trials are wrong follows their inputs: those of a failure fail every time, or the same
/// trials fail in arms that have nothing but the inputs in common.
bool data_decide(const Facts& facts) {
  const auto always = [](const core::ArmEvidence* arm) {
    return arm->result.trials > 0 && arm->result.wrong_values == arm->result.trials;
  };
  if (facts.evidence.mode == "verify") {
    return !facts.arms.empty() && std::all_of(facts.arms.begin(), facts.arms.end(), always);
  }
  bool baseline = false, like_it = false;
  for (const core::ArmEvidence* arm : facts.arms) {
    if (!arm->perturbation.fresh_inputs || arm->result.wrong_values == 0) continue;
    const bool unperturbed = arm->perturbation.name == "fresh_inputs";
    baseline |= unperturbed;
    like_it |= !unperturbed && arm->failed_here_only + arm->failed_there_only == 0;
  }
  return baseline && like_it;
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
  // A store that is missing is missing in every trial, unless the data decide.
  const core::TrialResult* partly = partly_wrong(facts);
  if (partly && !data_decide(facts)) finding.confidence = 0.45;
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
        fmt::format("{} are wrong, the same ones whenever their inputs come "
                    "again: the data decide",
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
