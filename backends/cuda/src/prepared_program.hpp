// SPDX-License-Identifier: Apache-2.0
// A program bound to buffers, resolved once and issued many times.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "arguments.hpp"
#include "faultline/core/program.hpp"
#include "module_cache.hpp"
#include "program_traits.hpp"
#include "runtime.hpp"

namespace faultline::cuda {

/// Fills with a 32-bit pattern on a stream (kernel of trial_kernels.cu).
using FillWords = std::function<void(std::byte* data, std::uint64_t bytes, std::uint32_t word,
                                     cudaStream_t stream)>;

/// Called after each launch that is not being captured, and after each graph replay.
using AfterLaunch = std::function<void(cudaStream_t stream)>;

/// Called in front of each launch that uses shared memory, also of one that is being captured:
/// `place`: of the launch among the program's.
using BeforeLaunch = std::function<void(std::size_t place, cudaStream_t stream)>;

/// Holds up streams in front of a program: all that it uses, or one of them.
struct StreamBlocker {
  std::function<void(cudaStream_t stream)> block;  ///< launches what the stream has to wait for
  std::uint64_t choice = 0;                        ///< chosen_blocker() of it says which streams
};
/// 0: all streams together; k: the k-th of `streams` alone. Rotates as `choice` grows; with one
/// stream there is nothing to rotate over.
inline std::uint64_t chosen_blocker(std::uint64_t choice, std::uint64_t streams) {
  return streams > 1 ? choice % (streams + 1) : 0;
}

namespace detail {

/// LaunchOperation::reload_module: the module is loaded anew before every launch, into a cache of
/// its own, so that nobody else's kernels go with it.
struct ReloadedModule {
  core::ModuleRef module;
  KernelOptions options;
  ModuleCache cache;
};
struct PreparedLaunch {
  std::string entry;
  std::unique_ptr<ReloadedModule> reloaded;
  cudaKernel_t kernel = nullptr;
  std::uint64_t shared_bytes = 0;  ///< of a block, static and dynamic
  std::size_t place = 0;           ///< among the program's launches
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute cluster{};
  bool has_cluster = false;
  PackedArguments arguments;
};
struct PreparedCopy {
  std::byte *to = nullptr, *from = nullptr;
  std::uint64_t bytes = 0;
};
struct PreparedFill {
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t word = 0;
};
struct PreparedReplay {
  std::uint32_t graph = 0;
  std::vector<std::pair<core::OperationId, PackedArguments>> changed;
};

}  // namespace detail

class PreparedProgram {
 public:
  /// UsageError for malformed programs: bad buffer, unknown graph or event, nested captures, a
  /// launch in a graph that reloads its module. UnsupportedError for streams of several devices.
  PreparedProgram(const core::Program& program, std::span<const BoundBuffer> bindings,
                  ModuleCache& modules, int carveout_percent, FillWords fill);
  PreparedProgram(PreparedProgram&&) = default;

  /// How long a launch that loads its module anew waits for the kernel that it is about to unload;
  /// at first 60 s.
  void set_reload_wait(std::chrono::duration<double> limit) { reload_wait_ = limit; }

  /// What a block of each launch takes of a multiprocessor.
  std::vector<BlockNeeds> block_needs() const;

  /// How many launches use shared memory, and how many there are.
  std::size_t launches_with_shared_memory() const;
  std::size_t launches() const { return launch_steps_.size(); }

  /// Issues every operation. Logical stream 0 is `stream`; the others fork from it at the beginning
  /// and join it at the end, so that work issued before and after the program is ordered with all
  /// of it.
  void issue(cudaStream_t stream, const AfterLaunch& after_launch = {},
             const StreamBlocker& blocker = {}, const BeforeLaunch& before_launch = {});

 private:
  using Launch = detail::PreparedLaunch;
  using Copy = detail::PreparedCopy;
  using Fill = detail::PreparedFill;
  using Replay = detail::PreparedReplay;
  using What = std::variant<Launch, Copy, Fill, core::EventRecordOperation,
                            core::EventWaitOperation, core::HostStepOperation,
                            core::CaptureBeginOperation, core::CaptureEndOperation, Replay>;
  struct Step {
    core::OperationId id;
    core::StreamId stream;
    What what;
  };
  struct Captured {
    Graph graph;
    std::map<core::OperationId, cudaGraphNode_t> nodes;
  };

  void launch(Launch& launch, cudaStream_t stream, const BeforeLaunch& before_launch);
  void replay(Replay& replay, cudaStream_t stream);
  cudaStream_t stream_of(core::StreamId id, cudaStream_t main);
  cudaEvent_t event_of(core::EventId id);

  std::string name_;
  std::vector<Step> steps_;
  std::map<core::StreamId, Stream> streams_;  // logical streams other than 0
  std::vector<core::StreamId> used_streams_;  // that have operations, ascending
  std::map<core::EventId, Event> events_;
  std::map<core::StreamId, Event> joins_;
  std::unique_ptr<Event> fork_;
  std::map<std::uint32_t, Captured> graphs_;
  std::map<core::OperationId, std::size_t> launch_steps_;
  FillWords fill_;
  std::chrono::duration<double> reload_wait_{60.0};
};

}  // namespace faultline::cuda
