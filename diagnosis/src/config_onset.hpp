// SPDX-License-Identifier: Apache-2.0
// A setting of the configs from some value of which on a sweep is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "facts.hpp"

namespace faultline::diagnosis {

struct ConfigOnset {
  std::string setting{};  ///< "chunk"
  std::int64_t least_failing = 0, largest_passing = 0;
};

/// The first numeric setting, by name, that is larger in every failing config of a problem than in
/// every passing one, over all problems of which some configs fail and some pass. Nothing when
/// there is none, or no such problem.
std::optional<ConfigOnset> config_onset(const Facts& facts);

}  // namespace faultline::diagnosis
