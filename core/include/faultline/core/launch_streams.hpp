// SPDX-License-Identifier: Apache-2.0
// Where the launches of a program run: may two of them be under way at the same time?
#pragma once

#include <set>
#include <variant>

#include "faultline/core/program.hpp"

namespace faultline::core {

/// Whether a program has launches in more than one stream. Those of a graph run in the stream that
/// replays it; a graph that was captured over several streams counts as several.
inline bool launches_in_several_streams(const Program& program) {
  std::set<StreamId> streams, captured;
  bool capturing = false, branching = false;
  for (const Operation& operation : program.operations) {
    if (std::holds_alternative<CaptureBeginOperation>(operation.what)) {
      capturing = true;
      captured.clear();
    } else if (std::holds_alternative<CaptureEndOperation>(operation.what)) {
      capturing = false;
    } else if (std::holds_alternative<LaunchOperation>(operation.what)) {
      (capturing ? captured : streams).insert(operation.stream);
      branching = branching || captured.size() > 1;
    } else if (std::holds_alternative<ReplayOperation>(operation.what)) {
      streams.insert(operation.stream);
    }
  }
  return branching || streams.size() > 1;
}

/// Why shared memory is not dirtied there: what does it lies beside no other block.
inline constexpr const char* kSeveralStreamsNotDirtied =
    "its launches are in several streams: a kernel that holds all shared memory in front of each "
    "would keep them from overlapping, and might wait for ever";

}  // namespace faultline::core
