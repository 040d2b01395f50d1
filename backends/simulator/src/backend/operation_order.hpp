// SPDX-License-Identifier: Apache-2.0
// What the operations of a program wait for: their stream, events, the graph they were captured in.
// Nothing else orders them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "faultline/core/perturbation.hpp"
#include "faultline/core/program.hpp"

namespace faultline::simulator {

// A launch, copy, fill or host step that is executed once. Replayed graphs stand here node by node.
struct Step {
  const core::Operation* operation = nullptr;  // of the program, which must stay alive
  // Of a launch: its own, or those that a replay changed.
  const std::vector<core::Argument>* arguments = nullptr;
  core::StreamId stream = 0;  // that it was issued to; of a replayed node: that of the replay
  bool replayed = false;
  std::uint32_t launch = 0;          // of a launch: its number among the launches
  std::vector<std::uint32_t> after;  // steps that must have ended before it starts, by index
};

// Steps in issue order, and the partial order between them (docs/memory-model.md, "Streams").
class OperationOrder {
 public:
  // Throws core::UsageError for programs that make no sense.
  explicit OperationOrder(const core::Program& program);

  std::span<const Step> steps() const { return steps_; }
  bool has_several_streams() const { return several_streams_; }
  // Whether one of two steps has ended before the other starts, in every schedule.
  bool ordered(std::uint32_t a, std::uint32_t b) const { return reaches(a, b) || reaches(b, a); }
  // An order in which the steps may run: round_robin the issue order, the other policies one drawn
  // from the seed.
  std::vector<std::uint32_t> schedule(core::SchedulePolicy policy, std::uint64_t seed) const;

 private:
  bool reaches(std::uint32_t from, std::uint32_t to) const {
    return from < to && (before_[to][from / 64] >> (from % 64) & 1) != 0;
  }

  std::vector<Step> steps_;
  std::vector<std::vector<std::uint64_t>> before_;  // of a step: a bit for each earlier one
  bool several_streams_ = false;
};

}  // namespace faultline::simulator
