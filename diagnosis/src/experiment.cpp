// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/experiment.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "facts.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

bool fixed_inputs_ran(const Facts& facts) {
  return std::any_of(facts.arms.begin(), facts.arms.end(), [](const core::ArmEvidence* arm) {
    return !arm->perturbation.fresh_inputs && arm->result.trials >= 2;
  });
}

bool memory_stress_tried(const core::Evidence& evidence) {
  return std::any_of(evidence.arms.begin(), evidence.arms.end(), [](const core::ArmEvidence& arm) {
    return arm.perturbation.co_resident == core::CoResident::memory_stress;
  });
}

/// Every ragged cell failed and no cell without a tail was tried.
bool only_ragged_sizes(const Facts& facts) {
  bool any = false;
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (cell->tile_k <= 0 || cell->reduction <= 0) return false;
    if (cell->reduction % cell->tile_k == 0) return false;
    any = any || cell->failed;
  }
  return any;
}

}  // namespace

std::string_view name_of(Experiment::Kind kind) {
  switch (kind) {
  case Experiment::Kind::repeat_fixed_inputs: return "repeat_fixed_inputs";
  case Experiment::Kind::memory_stress: return "memory_stress";
  case Experiment::Kind::race_check: return "race_check";
  case Experiment::Kind::config_sweep: return "config_sweep";
  case Experiment::Kind::whole_tiles: return "whole_tiles";
  case Experiment::Kind::more_trials: return "more_trials";
  }
  return "?";
}

std::optional<Experiment> next_experiment(const core::Evidence& evidence) {
  const Facts facts(evidence);
  if (evidence.interrupted || facts.trials == 0 || facts.any_race_error()) return std::nullopt;
  Experiment next;

  if (facts.any_wrong()) {
    if (only_ragged_sizes(facts)) {
      next.kind = Experiment::Kind::whole_tiles;
      next.reason =
          "only sizes that are not a multiple of the tile were tried: one that is decides "
          "between a tail and a wrong design";
      return next;
    }
    if (!facts.arms.empty() && !fixed_inputs_ran(facts)) {
      // Repeat under the arm that failed most often, with one input set.
      const core::ArmEvidence* most = facts.arms.front();
      for (const core::ArmEvidence* arm : facts.arms) {
        if (arm->result.wrong_values > most->result.wrong_values) most = arm;
      }
      next.kind = Experiment::Kind::repeat_fixed_inputs;
      next.perturbation = most->perturbation;
      next.perturbation.fresh_inputs = false;
      next.perturbation.name += "_fixed";
      next.trials = 200;
      next.reason = "every trial had new inputs: repeating one input set decides between the data "
                    "and the timing";
      return next;
    }
    if (!facts.configs.empty() && facts.arms.empty() && !facts.only_without_reference()) {
      next.kind = Experiment::Kind::repeat_fixed_inputs;
      next.trials = 18;
      next.reason =
          "every trial had new inputs: repeating one that failed decides between the data "
          "and the timing";
      return next;
    }
    if (!timing_dependence(facts).empty()) {
      if (evidence.backend_is_model) return std::nullopt;
      next.kind = Experiment::Kind::race_check;
      next.reason = "the failures depend on timing: the simulator's race check names both lines";
      return next;
    }
    std::set<std::string> configs;
    for (const core::ConfigEvidence* cell : facts.configs) configs.insert(cell->config);
    if (configs.size() < 2) {
      next.kind = Experiment::Kind::config_sweep;
      next.reason =
          "one config was tried: a sweep decides between a wrong config and a wrong design";
      return next;
    }
    return std::nullopt;
  }

  if (!evidence.backend_is_model && evidence.mode == "stress" && !memory_stress_tried(evidence)) {
    next.kind = Experiment::Kind::memory_stress;
    next.perturbation.name = "memory_stress";
    next.perturbation.co_resident = core::CoResident::memory_stress;
    next.trials = 1000;
    next.reason =
        "nothing failed, and memory traffic beside the trials, the strongest arm, has not "
        "run";
    return next;
  }
  return std::nullopt;
}

}  // namespace faultline::diagnosis
