// SPDX-License-Identifier: Apache-2.0
// Races between launches, copies and fills that neither stream order nor events order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backend/operation_order.hpp"
#include "faultline/core/execution.hpp"
#include "observe/touched_memory.hpp"

namespace faultline::simulator {

// What the steps that ran have touched, by step.
using TouchedBySteps = std::map<std::uint32_t, std::unique_ptr<TouchedMemory>>;

// Conflicts between steps that the program leaves unordered, whatever order they ran in. The step
// issued first is the first side of a report.
std::vector<core::RaceReport> find_stream_races(const core::Program& program,
                                                const OperationOrder& order,
                                                const TouchedBySteps& touched);

}  // namespace faultline::simulator
