// SPDX-License-Identifier: Apache-2.0
#include "prepared_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

template <class... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};
template <class... Callables>
Overloaded(Callables...) -> Overloaded<Callables...>;

std::uint64_t product(const std::array<std::uint32_t, 3>& extents) {
  return std::uint64_t{extents[0]} * extents[1] * extents[2];
}

/// For the kernel of a module that is about to be unloaded: TrialRequest::timeout_s unless asked
/// otherwise.
constexpr std::chrono::seconds kReloadWait{60};

dim3 to_dim3(const std::array<std::uint32_t, 3>& extents) {
  return {extents[0], extents[1], extents[2]};
}

}  // namespace

PreparedProgram::PreparedProgram(const core::Program& program,
                                 std::span<const BoundBuffer> bindings, ModuleCache& modules,
                                 int carveout_percent, FillWords fill)
    : name_(program.name), fill_(std::move(fill)) {
  const TensorMapEncoder encode = encode_tensor_map;
  std::set<std::uint32_t> captured;
  std::set<core::EventId> recorded;
  std::set<core::StreamId> used;
  std::optional<std::uint32_t> capturing;
  for (const auto& [stream, device] : program.devices) {
    if (device != 0) {
      throw core::UnsupportedError(
          fmt::format("program '{}' has stream {} on device {}: this backend drives one device; "
                      "the simulator runs it",
                      name_, stream, device));
    }
  }
  for (const core::Operation& operation : program.operations) {
    Step step{operation.id, operation.stream, {}};
    used.insert(operation.stream);
    if (operation.stream != 0 && !streams_.contains(operation.stream)) {
      streams_.emplace(operation.stream, Stream());
      joins_.emplace(operation.stream, Event());
    }
    std::visit(
        Overloaded{
            [&](const core::LaunchOperation& launch) {
              Launch prepared;
              prepared.entry = launch.entry;
              KernelOptions options;
              options.dynamic_shared_bytes = launch.dynamic_shared_bytes;
              options.cluster_blocks = static_cast<std::uint32_t>(product(launch.cluster));
              options.carveout_percent = carveout_percent;
              prepared.kernel = modules.kernel(launch.module, launch.entry, options);
              if (launch.reload_module) {
                if (capturing) {
                  throw core::UsageError(fmt::format(
                      "program '{}' reloads the module of '{}' inside capture {}: loading a "
                      "module would end the capture",
                      name_, launch.entry, *capturing));
                }
                prepared.reloaded.reset(new detail::ReloadedModule{launch.module, options,
                                                                   ModuleCache(modules.facts())});
              }
              prepared.config.gridDim = to_dim3(launch.grid);
              prepared.config.blockDim = to_dim3(launch.block);
              prepared.config.dynamicSmemBytes = launch.dynamic_shared_bytes;
              if (options.cluster_blocks > 1) {
                prepared.has_cluster = true;
                prepared.cluster.id = cudaLaunchAttributeClusterDimension;
                prepared.cluster.val.clusterDim = {launch.cluster[0], launch.cluster[1],
                                                   launch.cluster[2]};
              }
              prepared.shared_bytes =
                  needs_of(prepared.kernel, 1, launch.dynamic_shared_bytes).shared_bytes;
              prepared.place = launch_steps_.size();
              prepared.arguments = PackedArguments(launch.arguments, bindings, encode);
              launch_steps_[operation.id] = steps_.size();
              step.what = std::move(prepared);
            },
            [&](const core::CopyOperation& copy) {
              step.what = Copy{address_of(copy.destination, bindings, copy.bytes, "a copy"),
                               address_of(copy.source, bindings, copy.bytes, "a copy"), copy.bytes};
            },
            [&](const core::FillOperation& fill_operation) {
              step.what = Fill{
                  address_of(fill_operation.destination, bindings, fill_operation.bytes, "a fill"),
                  fill_operation.bytes, fill_operation.word};
            },
            [&](const core::EventRecordOperation& record) {
              if (!events_.contains(record.event)) {
                events_.emplace(record.event, Event());
              }
              recorded.insert(record.event);
              step.what = record;
            },
            [&](const core::EventWaitOperation& wait) {
              if (!recorded.contains(wait.event)) {
                throw core::UsageError(
                    fmt::format("program '{}' waits for event {}, which nothing before records",
                                name_, wait.event));
              }
              step.what = wait;
            },
            [&](const core::HostStepOperation& host) { step.what = host; },
            [&](const core::CaptureBeginOperation& begin) {
              if (capturing) {
                throw core::UsageError(
                    fmt::format("program '{}' begins capture {} inside capture {}", name_,
                                begin.graph, *capturing));
              }
              capturing = begin.graph;
              step.what = begin;
            },
            [&](const core::CaptureEndOperation& end) {
              if (capturing != end.graph) {
                throw core::UsageError(fmt::format(
                    "program '{}' ends capture {}, which it has not begun", name_, end.graph));
              }
              capturing.reset();
              captured.insert(end.graph);
              step.what = end;
            },
            [&](const core::ReplayOperation& replayed) {
              if (!captured.contains(replayed.graph)) {
                throw core::UsageError(
                    fmt::format("program '{}' replays graph {}, which nothing before captures",
                                name_, replayed.graph));
              }
              Replay prepared;
              prepared.graph = replayed.graph;
              for (const auto& [id, arguments] : replayed.changed_arguments) {
                if (!launch_steps_.contains(id)) {
                  throw core::UsageError(fmt::format(
                      "program '{}' changes arguments of operation {}, which is no launch", name_,
                      id));
                }
                prepared.changed.emplace_back(id, PackedArguments(arguments, bindings, encode));
              }
              step.what = std::move(prepared);
            }},
        operation.what);
    steps_.push_back(std::move(step));
  }
  if (capturing) {
    throw core::UsageError(fmt::format("program '{}' does not end capture {}", name_, *capturing));
  }
  used_streams_.assign(used.begin(), used.end());
  if (!streams_.empty()) {
    fork_ = std::make_unique<Event>();
  }
}

std::vector<BlockNeeds> PreparedProgram::block_needs() const {
  std::vector<BlockNeeds> needs;
  for (const Step& step : steps_) {
    const auto* launch = std::get_if<Launch>(&step.what);
    if (launch == nullptr) continue;
    const dim3& block = launch->config.blockDim;
    needs.push_back(
        needs_of(launch->kernel, block.x * block.y * block.z, launch->config.dynamicSmemBytes));
  }
  return needs;
}

std::size_t PreparedProgram::launches_with_shared_memory() const {
  return static_cast<std::size_t>(std::count_if(steps_.begin(), steps_.end(), [](const Step& s) {
    const auto* launch = std::get_if<Launch>(&s.what);
    return launch != nullptr && launch->shared_bytes > 0;
  }));
}

cudaStream_t PreparedProgram::stream_of(core::StreamId id, cudaStream_t main) {
  return id == 0 ? main : streams_.at(id).get();
}

cudaEvent_t PreparedProgram::event_of(core::EventId id) { return events_.at(id).get(); }

void PreparedProgram::launch(Launch& launch, cudaStream_t stream,
                             const BeforeLaunch& before_launch) {
  if (launch.reloaded) {
    detail::ReloadedModule& own = *launch.reloaded;
    wait_for(stream, reload_wait_);  // its kernel may still be running
    own.cache.unload(own.module);
    launch.kernel = own.cache.kernel(own.module, launch.entry, own.options);
  }
  if (before_launch && launch.shared_bytes > 0) {
    before_launch(launch.place, stream);
  }
  launch.config.stream = stream;
  launch.config.attrs = launch.has_cluster ? &launch.cluster : nullptr;
  launch.config.numAttrs = launch.has_cluster ? 1 : 0;
  const cudaError_t error = cudaLaunchKernelExC(
      &launch.config, reinterpret_cast<const void*>(launch.kernel), launch.arguments.pointers());
  if (error != cudaSuccess) {
    check_execution(
        error,
        fmt::format("launch of '{}' with grid ({}, {}, {}), block ({}, {}, {}) and {} bytes of "
                    "dynamic shared memory failed",
                    launch.entry, launch.config.gridDim.x, launch.config.gridDim.y,
                    launch.config.gridDim.z, launch.config.blockDim.x, launch.config.blockDim.y,
                    launch.config.blockDim.z, launch.config.dynamicSmemBytes));
  }
}

void PreparedProgram::replay(Replay& replay, cudaStream_t stream) {
  Captured& captured = graphs_.at(replay.graph);
  for (auto& [id, arguments] : replay.changed) {
    const auto node = captured.nodes.find(id);
    if (node == captured.nodes.end()) {
      throw core::UsageError(fmt::format(
          "program '{}' changes arguments of operation {}, which graph {} did not capture", name_,
          id, replay.graph));
    }
    const Launch& launch = std::get<Launch>(steps_[launch_steps_.at(id)].what);
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(launch.kernel);
    parameters.gridDim = launch.config.gridDim;
    parameters.blockDim = launch.config.blockDim;
    parameters.sharedMemBytes = static_cast<unsigned>(launch.config.dynamicSmemBytes);
    parameters.kernelParams = arguments.pointers();
    check_execution(
        cudaGraphExecKernelNodeSetParams(captured.graph.exec(), node->second, &parameters),
        fmt::format("cannot change the arguments of '{}' in graph {}", launch.entry, replay.graph));
  }
  check_execution(cudaGraphLaunch(captured.graph.exec(), stream),
                  fmt::format("cannot replay graph {}", replay.graph));
}

void PreparedProgram::issue(cudaStream_t main, const AfterLaunch& after_launch,
                            const StreamBlocker& blocker, const BeforeLaunch& before_launch) {
  const auto link = [](cudaEvent_t event, cudaStream_t from, cudaStream_t to) {
    check_execution(cudaEventRecord(event, from), "cannot record an event");
    check_execution(cudaStreamWaitEvent(to, event, 0), "cannot wait for an event");
  };
  const std::uint64_t chosen =
      blocker.block ? chosen_blocker(blocker.choice, used_streams_.size()) : 0;
  if (blocker.block && chosen == 0) {
    blocker.block(main);  // the others fork from it: all go on at the same moment
  }
  for (auto& [id, stream] : streams_) {
    link(fork_->get(), main, stream.get());
  }
  if (chosen > 0) {
    blocker.block(stream_of(used_streams_[chosen - 1], main));
  }
  bool capturing = false;
  Captured* capture = nullptr;
  cudaStream_t capture_stream = nullptr;
  for (Step& step : steps_) {
    cudaStream_t stream = stream_of(step.stream, main);
    std::visit(
        Overloaded{
            [&](Launch& prepared) {
              launch(prepared, stream, before_launch);
              if (capturing) {
                // The launch just captured is what the stream's next node would depend on.
                cudaStreamCaptureStatus status{};
                const cudaGraphNode_t* nodes = nullptr;
                std::size_t count = 0;
                check_execution(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes,
                                                         nullptr, &count),
                                "cannot query a capture");
                if (status == cudaStreamCaptureStatusActive && count == 1) {
                  capture->nodes[step.id] = nodes[0];
                }
              } else if (after_launch) {
                after_launch(stream);
              }
            },
            [&](Copy& copy) {
              check_execution(
                  cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream),
                  fmt::format("a copy of {} bytes failed", copy.bytes));
            },
            [&](Fill& fill) { fill_(fill.to, fill.bytes, fill.word, stream); },
            [&](core::EventRecordOperation& record) {
              check_execution(cudaEventRecord(event_of(record.event), stream),
                              "cannot record an event");
            },
            [&](core::EventWaitOperation& wait) {
              check_execution(cudaStreamWaitEvent(stream, event_of(wait.event), 0),
                              "cannot wait for an event");
            },
            [&](core::HostStepOperation& host) { host.step(); },
            [&](core::CaptureBeginOperation& begin) {
              // The graph of the call before goes first: a capture would not survive that.
              capture = &(graphs_[begin.graph] = Captured{});
              check_execution(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                              "cannot begin a capture");
              capture_stream = stream;
              capturing = true;
            },
            [&](core::CaptureEndOperation&) {
              cudaGraph_t graph = nullptr;
              capturing = false;
              check_execution(cudaStreamEndCapture(capture_stream, &graph), "cannot end a capture");
              capture->graph = Graph(graph);
            },
            [&](Replay& prepared) {
              replay(prepared, stream);
              if (after_launch) {
                after_launch(stream);
              }
            }},
        step.what);
  }
  for (auto& [id, stream] : streams_) {
    link(joins_.at(id).get(), stream.get(), main);
  }
}

}  // namespace faultline::cuda
