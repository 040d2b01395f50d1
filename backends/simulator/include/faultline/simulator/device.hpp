// SPDX-License-Identifier: Apache-2.0
// A simulated device: global memory, and launches of PTX kernels on it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/execution.hpp"
#include "faultline/core/perturbation.hpp"
#include "faultline/core/trial.hpp"
#include "faultline/simulator/module.hpp"
#include "faultline/simulator/schedule.hpp"

namespace faultline::simulator {

class Observer;

struct LaunchSpec {
  Module module;
  std::string entry;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  ///< packed as Module::parameters() says
};

struct Options {
  core::SchedulePolicy policy = core::SchedulePolicy::round_robin;
  core::CopyLateness lateness = core::CopyLateness::random;
  std::uint64_t seed = 1;  ///< of every decision
  core::RaceMode race = core::RaceMode::strict;
  std::uint64_t step_budget = 200'000'000;  ///< visible operations and backward branches
  /// Wall-clock limit, looked at now and then; none: only the budget ends
  /// a launch that does not end.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::uint32_t pct_depth = 3;
  /// What shared and local memory hold at first, word by word.
  std::uint32_t unwritten_shared = 0xcdcdcdcd, unwritten_local = 0xcdcdcdcd;
  bool access_statistics = false;
  bool record = false;               ///< keep the decisions in LaunchReport::schedule
  const Schedule* replay = nullptr;  ///< follow these decisions, then the policy
  Observer* observer = nullptr;      ///< one more analysis of the events (observe/observer.hpp)
};

struct LaunchReport {
  core::ExecutionStatus status = core::ExecutionStatus::completed;
  std::string message;               ///< why it did not complete: one sentence
  std::vector<std::string> details;  ///< deadlock: one line per blocked warp
  std::vector<core::RaceReport> races;
  std::vector<core::AccessStatistics> accesses;
  std::uint64_t thread_instructions = 0;
  std::uint64_t warp_instructions = 0;
  std::uint64_t visible_steps = 0;
  std::string output;  ///< what printf wrote
  Schedule schedule;   ///< with Options::record
  std::string token;   ///< policy, lateness and seed: "random/lazy/17"
};

/// Not thread-safe: one device per thread. Memory errors of the caller throw core::UsageError.
class Device {
 public:
  Device();
  ~Device();
  Device(Device&&) noexcept;
  Device& operator=(Device&&) noexcept;

  /// A device address, 256-byte aligned, with unmapped space around it. The name stands in reports.
  std::uint64_t allocate(std::string name, std::size_t bytes);
  void release(std::uint64_t address);
  /// What is allocated from now on begins so many bytes behind the boundary of 256.
  void set_offset(std::size_t bytes);
  /// The variables of all modules hold what they held when their module was loaded.
  void reset_module_variables();
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  void read(std::uint64_t address, std::span<std::byte> bytes) const;
  void fill(std::uint64_t address, std::size_t bytes, std::uint32_t word);
  /// The name that the allocation holding this address was given; empty outside every one.
  std::string name_at(std::uint64_t address) const;
  /// Direct view of one allocation, for hosts that compare in place.
  std::span<std::byte> bytes(std::uint64_t address);

  /// Runs one launch to its end. What the kernel does wrong is in the report. Throws ParseError and
  /// core::UsageError (bad geometry or parameter size) for what the caller does wrong.
  LaunchReport launch(const LaunchSpec& spec, const Options& options);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace faultline::simulator
