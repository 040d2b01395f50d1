// SPDX-License-Identifier: Apache-2.0
// How an arm's perturbation is carried out: batch, pool and graph sizes. Pure arithmetic, no CUDA.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/trial.hpp"

namespace faultline::cuda {

struct DeviceLimits {
  int multiprocessors = 1;
  std::uint64_t free_bytes = 0;
  std::uint64_t shared_per_multiprocessor = 228 * 1024;
};

struct ArmPlan {
  bool skipped = false;
  std::string note;              ///< why skipped, or what differs from the request
  std::uint32_t batch = 1;       ///< trials in one launch
  std::uint64_t launches = 0;    ///< groups of `batch` trials; the last may be smaller
  std::uint64_t input_sets = 1;  ///< sets of `batch` trials' inputs that launches rotate over
  std::uint32_t launches_per_graph = 0;  ///< 0: no graph
  bool fresh_inputs = false;
  bool oracle_per_launch = false;   ///< the reference is made anew before each launch
  bool references_per_set = false;  ///< made for a whole round of sets before its trials
  /// Errors are counted by size in trials that are multiples of this, a power of two; 0: in none.
  /// With many trials in a launch rarer than asked for, in at most every eighth launch: the block
  /// that counts is the last to end.
  std::uint32_t histogram_every = 0;
  int carveout_percent = 50;  ///< shared-memory carve-out of everything that runs
};

/// Bytes of one trial's inputs, of its outputs and workspaces, and of its references (expected and
/// bound of every output element in double).
std::uint64_t input_bytes(const core::TrialPlan& plan);
std::uint64_t output_and_workspace_bytes(const core::TrialPlan& plan);
std::uint64_t reference_bytes(const core::TrialPlan& plan);

/// UsageError when the plan or the request is malformed: no program, no outputs, zero trials, an
/// empty output.
ArmPlan plan_arm(const core::TrialPlan& plan, const core::TrialRequest& request,
                 const DeviceLimits& device);

/// What one block takes of a multiprocessor.
struct BlockNeeds {
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;     ///< of a thread
  std::uint64_t shared_bytes = 0;  ///< static and dynamic
};
/// What a multiprocessor has.
struct MultiprocessorSpace {
  std::uint32_t threads = 2048;
  std::uint64_t registers = 65536;
  std::uint64_t shared_bytes = 228 * 1024;
  std::uint64_t reserved_bytes = 1024;  ///< shared memory of every block beside its own
};
/// How many blocks of a stress kernel, `most` at most, leave room for one block of each of the
/// subject's launches; 0: with a single one some launch would wait until it ends. Registers go to
/// warps in units of 256 (CUDA C++ Programming Guide, compute capabilities), and the warps of a
/// block to the four partitions of a multiprocessor in turn, each with a quarter of the registers:
/// six warps of 168 leave room for 2 blocks of 8 warps of 32, though not all registers are taken.
/// Seen on an H200: beside 3 such blocks a kernel waited until they ended.
std::uint32_t stress_blocks_beside(const std::vector<BlockNeeds>& subject, const BlockNeeds& stress,
                                   std::uint32_t most, const MultiprocessorSpace& space);

/// How many times as long as on `multiprocessors` a launch of so many blocks takes on `free` of
/// them, at most.
double slow_down(std::uint64_t blocks, std::uint64_t multiprocessors, std::uint64_t free);

/// How many launches may be under way beside a kernel that has to be started anew every few
/// seconds: as many as take about a tenth of a second, found by trying.
class LaunchQueue {
 public:
  void issued() { ++under_way_; }
  bool empty() const { return under_way_ == 0; }
  /// All have ended, and how long they took is not known.
  void cleared() { under_way_ = 0; }
  bool full() const { return under_way_ >= limit_; }
  /// All have ended, `seconds` after the first of them was issued.
  void drained(double seconds) {
    constexpr std::uint64_t kMost = 1 << 20;
    if (seconds > 0.2) {
      limit_ = std::max<std::uint64_t>(limit_ / 4, 1);
    } else if (seconds < 0.05) {
      limit_ = std::min(2 * limit_, kMost);
    }
    under_way_ = 0;
  }

 private:
  std::uint64_t limit_ = 1, under_way_ = 0;
};

/// Input sets for cold timing: at least 3, and at least 700 MB together, as far as `free_bytes`
/// reach; 1 when hot.
std::uint64_t timing_sets(std::uint64_t rotated_bytes, bool cold, std::uint64_t free_bytes);
/// Executions in one timed graph: a multiple of the sets, 64 at least unless 8 GiB of reads need
/// fewer, or that many executions of `execution_ns` (0: not known) would take more than 100 ms.
std::uint64_t timing_launches(std::uint64_t sets, std::uint64_t rotated_bytes,
                              double execution_ns = 0.0);

}  // namespace faultline::cuda
