// SPDX-License-Identifier: Apache-2.0
// Which experiment would tell most next. Pure; stress/ runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

struct Experiment {
  enum class Kind : std::uint8_t {
    repeat_fixed_inputs,  ///< same inputs, many times: does it fail every time?
    memory_stress,        ///< memory traffic beside the trials: the strongest arm not yet run
    blocker,              ///< streams held up in front of each trial, of a call that has several
    second_call,          ///< each trial calls twice, and the second call is judged
    race_check,           ///< the same kernel on the simulator with race detection
    config_sweep,         ///< other configs of the same problem
    whole_tiles,          ///< a problem whose reduction is a multiple of the tile
    more_trials,          ///< the difference between two arms is not yet established
    change,               ///< a failing arm with one thing changed: `change` says what
  };
  Kind kind = Kind::more_trials;
  core::Perturbation perturbation;  ///< for the kinds that stress/ runs
  std::uint64_t trials = 0;         ///< suggested; 0 where it does not apply
  std::string reason;               ///< one sentence: what it would decide
  /// Of `change`: which cure or knob, in words where the perturbation says what, and the arm that
  /// it is compared with. Problem, config and variant are for stress/ to find.
  core::ExperimentEvidence::Kind change = core::ExperimentEvidence::Kind::knob;
  std::string change_text, baseline;
  friend bool operator==(const Experiment&, const Experiment&) = default;
};

std::string_view name_of(Experiment::Kind kind);

/// The experiment that would separate the two likeliest explanations, or nothing when the evidence
/// already does or when no experiment known here would. Cures and knobs come after the others,
/// each once: what Evidence::experiments has a row of is not asked for again.
std::optional<Experiment> next_experiment(const core::Evidence& evidence);

/// Changes that are tried at most, and what is left of 0.05 for the claim about each.
inline constexpr int kMostChanges = 16;
inline constexpr double kChangeAlpha = 0.05 / kMostChanges;

/// Trials at most with few multiprocessors left, for each of these: a trial may take as many times
/// as long as the device has multiprocessors for each one left.
inline constexpr std::uint64_t kTrialsOfEachFree = 100;

/// What a cure or knob did to the rate of wrong values, 0.05 being shared among all changes.
enum class Effect : std::uint8_t {
  not_run,
  cured,      ///< nothing failed, and so many trials would hardly have passed before
  lowered,    ///< the intervals of 1 - kChangeAlpha do not meet
  raised,     ///< likewise
  unchanged,  ///< it fails, and the intervals meet
  open,       ///< nothing failed, in too few trials to say so
};
Effect effect_of(const core::ExperimentEvidence& experiment);

}  // namespace faultline::diagnosis
