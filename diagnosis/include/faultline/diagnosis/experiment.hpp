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
    race_check,           ///< the same kernel on the simulator with race detection
    config_sweep,         ///< other configs of the same problem
    whole_tiles,          ///< a problem whose reduction is a multiple of the tile
    more_trials,          ///< the difference between two arms is not yet established
  };
  Kind kind = Kind::more_trials;
  core::Perturbation perturbation;  ///< for the kinds that stress/ runs as a further arm
  std::uint64_t trials = 0;         ///< suggested; 0 where it does not apply
  std::string reason;               ///< one sentence: what it would decide
  friend bool operator==(const Experiment&, const Experiment&) = default;
};

std::string_view name_of(Experiment::Kind kind);

/// The experiment that would separate the two likeliest explanations, or nothing when the evidence
/// already does or when no experiment known here would.
std::optional<Experiment> next_experiment(const core::Evidence& evidence);

}  // namespace faultline::diagnosis
