// SPDX-License-Identifier: Apache-2.0
// The simulator as a faultline backend.
#pragma once

#include <cstdint>
#include <memory>

#include "faultline/core/backend.hpp"

namespace faultline::simulator {

struct SimulatorSettings {
  /// Visible operations of one launch before it counts as a timeout.
  std::uint64_t step_budget = 200'000'000;
  std::uint32_t pct_depth = 3;
  /// Wall-clock limit of one execute(); trials have TrialRequest::timeout_s. Where a run meets it
  /// depends on this machine, so it is generous: what ends at all ends long before.
  double timeout_s = 60.0;
};

/// What race detection keeps of global memory: so many bytes for each cell, which is as wide as the
/// accesses, one word at most. For estimates of memory.
inline constexpr std::uint64_t kRaceCellBytes = 4, kRaceStateBytesPerCell = 64;

/// Never fails: the simulator needs nothing but this processor. Reports are the same, byte for byte
/// (elapsed time apart), on every x86-64 machine.
std::unique_ptr<core::Backend> make_simulator_backend(const SimulatorSettings& settings = {});

}  // namespace faultline::simulator
