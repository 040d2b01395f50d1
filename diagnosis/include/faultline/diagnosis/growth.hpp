// SPDX-License-Identifier: Apache-2.0
// How an output's error grows with the length of the sequence or reduction.
#pragma once

#include <vector>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

/// Relative L2 error of each output of each cell that ran, where the sweep has at least two lengths
/// of otherwise equal problems under one config. The length is the parameter that equals
/// ConfigEvidence::reduction in every cell. Ordered by output, config, other parameters and length.
std::vector<core::GrowthEvidence> growth_of(const std::vector<core::ConfigEvidence>& cells);

}  // namespace faultline::diagnosis
