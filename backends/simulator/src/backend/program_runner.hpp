// SPDX-License-Identifier: Apache-2.0
// core::Program -> launches, copies and fills on a simulated device.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "backend/operation_order.hpp"
#include "backend/stream_races.hpp"
#include "faultline/core/backend.hpp"
#include "faultline/simulator/device.hpp"

namespace faultline::simulator {

struct RunSettings {
  core::SchedulePolicy policy = core::SchedulePolicy::random;
  core::CopyLateness lateness = core::CopyLateness::random;
  std::uint64_t seed = 1;
  core::RaceMode race = core::RaceMode::strict;
  bool access_statistics = false;
  std::uint64_t step_budget = 200'000'000;
  std::uint32_t pct_depth = 3;
  // What shared and local memory hold at first, word by word.
  std::uint32_t unwritten_shared = 0xcdcdcdcd, unwritten_local = 0xcdcdcdcd;
  double timeout_s = 60.0;  // of the whole program, wall clock
};

class ProgramRunner {
 public:
  explicit ProgramRunner(Device& device) : device_(device) {}

  // Operations one after another, each finished before the next starts, in an order that streams
  // and events allow: see OperationOrder. What they leave unordered is looked at for races (unless
  // those are off). Throws core::UsageError for programs that make no sense.
  core::ExecutionReport run(const core::Program& program,
                            std::span<const core::BufferHandle> bindings,
                            const RunSettings& settings);

 private:
  const Module& module_for(const core::ModuleRef& module);
  void launch(const core::LaunchOperation& operation, std::span<const core::Argument> arguments,
              std::span<const core::BufferHandle> bindings, const RunSettings& settings,
              std::uint64_t ordinal, Observer* observer, core::ExecutionReport& report);
  void execute(const Step& step, std::span<const core::BufferHandle> bindings,
               const RunSettings& settings, TouchedMemory* touched, core::ExecutionReport& report);

  Device& device_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  // of the run under way
  // Keyed by identity; the reference keeps the key alive.
  std::map<const core::Module*, std::pair<core::ModuleRef, Module>> modules_;
};

// Adds `from` to `into`: equal races (kind, buffer and both source positions) become one.
void merge_races(std::vector<core::RaceReport>& into, const std::vector<core::RaceReport>& from);
void merge_accesses(std::vector<core::AccessStatistics>& into,
                    const std::vector<core::AccessStatistics>& from);

}  // namespace faultline::simulator
