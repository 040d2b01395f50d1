// SPDX-License-Identifier: Apache-2.0
#include "timing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "arm_plan.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "prepare.hpp"
#include "prepared_program.hpp"

namespace faultline::cuda {

namespace {

constexpr unsigned kWarmUpReplays = 2;
constexpr unsigned kWarmUpLaunches = 8;
constexpr unsigned kEstimates = 3;  // single executions, to size the graph
constexpr std::chrono::seconds kLimit{60};

double elapsed_ns(const Event& begin, const Event& end) {
  float milliseconds = 0.0f;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cannot read a timing");
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace

core::Backend::Timing time_executions(const IssueOnSet& issue, std::uint64_t sets,
                                      std::uint64_t launches, unsigned samples, bool graphs,
                                      bool events, cudaStream_t stream) {
  core::Backend::Timing timing;
  timing.input_sets = sets;
  timing.graph_launches = graphs ? launches : 0;
  const Event begin(true), end(true);
  const auto time = [&](const auto& work) {
    check_execution(cudaEventRecord(begin.get(), stream), "cannot record an event");
    work();
    check_execution(cudaEventRecord(end.get(), stream), "cannot record an event");
    wait_for(stream, kLimit);
    return elapsed_ns(begin, end);
  };
  if (graphs) {
    cudaGraph_t captured = nullptr;
    check_execution(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                    "cannot begin a capture");
    try {
      for (std::uint64_t i = 0; i < launches; ++i) {
        issue(i % sets, stream);
      }
    } catch (...) {
      cudaStreamEndCapture(stream, &captured);
      if (captured != nullptr) {
        cudaGraphDestroy(captured);
      }
      throw;
    }
    check_execution(cudaStreamEndCapture(stream, &captured), "cannot end a capture");
    const Graph graph(captured);
    for (unsigned i = 0; i < kWarmUpReplays + samples; ++i) {
      const double ns = time([&] {
        check_execution(cudaGraphLaunch(graph.exec(), stream), "cannot replay the timed graph");
      });
      if (i >= kWarmUpReplays) {
        timing.graph_ns.push_back(ns / static_cast<double>(launches));
      }
    }
  }
  if (events) {
    for (unsigned i = 0; i < kWarmUpLaunches + samples; ++i) {
      const double ns = time([&] { issue(i % sets, stream); });
      if (i >= kWarmUpLaunches) {
        timing.event_ns.push_back(ns);
      }
    }
  }
  return timing;
}

std::uint64_t free_device_bytes() {
  std::size_t free_bytes = 0, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total), "cannot query device memory");
  return free_bytes;
}

core::Backend::Timing time_plan(const core::TrialPlan& plan,
                                const core::Backend::TimingRequest& request, ModuleCache& modules,
                                DeviceKernels& kernels) {
  if (request.samples == 0) {
    throw core::UsageError("0 timing samples were asked for");
  }
  const core::Program program = plan.program(1);
  const ProgramTraits traits = traits_of(program);
  // Only what is too large for a cache rotates: a vector that every block reads is hot in real use,
  // too.
  const bool some_pooled = std::any_of(plan.buffers.begin(), plan.buffers.end(),
                                       [](const auto& buffer) { return buffer.pooled; });
  const auto rotates = [&](const core::BufferSpec& buffer) {
    return buffer.role == core::BufferRole::input && (buffer.pooled || !some_pooled);
  };
  constexpr std::uint64_t kAlignment = 1024;
  const auto padded = [&](const core::BufferSpec& buffer) {
    return (buffer.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  };
  std::uint64_t rotated = 0, shared = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    (rotates(buffer) ? rotated : shared) += padded(buffer);
  }
  const DeviceMemory shared_memory(shared, "buffers");
  const std::uint64_t sets = timing_sets(rotated, request.cold, free_device_bytes() / 10 * 9);
  const DeviceMemory rotated_memory(rotated * sets, "rotating inputs");
  const Stream stream;
  check(cudaMemsetAsync(shared_memory.data(), 0, shared, stream.get()), "cannot clear buffers");

  const FillWords fill = [&kernels](std::byte* data, std::uint64_t bytes, std::uint32_t word,
                                    cudaStream_t s) { kernels.fill(data, bytes, word, s); };
  const std::vector<abi::PoisonSlot> poison = poison_slots(plan);
  std::vector<PreparedProgram> programs;
  for (std::uint64_t s = 0; s < sets; ++s) {
    std::byte* next_rotated = rotated_memory.data() + s * rotated;
    std::byte* next_shared = shared_memory.data();
    std::vector<BoundBuffer> buffers;
    for (const core::BufferSpec& buffer : plan.buffers) {
      std::byte*& next = rotates(buffer) ? next_rotated : next_shared;
      buffers.push_back({next, buffer.bytes()});
      next += padded(buffer);
    }
    abi::TrialRange range;
    range.campaign_seed = 1;
    range.first = s;
    prepare_buffers(plan, core::DataMode::normal, buffers, range, true, poison, kernels,
                    stream.get());
    programs.emplace_back(program, buffers, modules, kDefaultCarveout, fill);
  }
  wait_for(stream.get(), kLimit);
  const IssueOnSet issue = [&](std::uint64_t set, cudaStream_t s) { programs[set].issue(s); };
  const bool capturable = !traits.has_host_steps && !traits.has_captures && !traits.reloads_modules;
  std::uint64_t launches = 0;
  if (request.graph_launches > 0) {
    launches = (request.graph_launches + sets - 1) / sets * sets;
  } else {
    const core::Backend::Timing once =
        time_executions(issue, sets, 1, kEstimates, false, true, stream.get());
    launches = timing_launches(sets, rotated, median(once.event_ns));
  }
  return time_executions(issue, sets, launches, request.samples, capturable, true, stream.get());
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0.0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Bandwidth measure_bandwidth(unsigned samples) {
  ModuleCache modules(open_device());
  DeviceKernels kernels(modules);
  Bandwidth bandwidth;
  bandwidth.bytes = std::size_t{2} << 30;
  bandwidth.samples = samples;
  const DeviceMemory from(bandwidth.bytes, "the bandwidth measurement");
  const DeviceMemory to(bandwidth.bytes, "the bandwidth measurement");
  const Stream stream;
  check(cudaMemsetAsync(from.data(), 1, bandwidth.bytes, stream.get()), "cannot fill memory");
  const auto seconds = [&](const IssueOnSet& issue) {
    const core::Backend::Timing timing =
        time_executions(issue, 1, 1, samples, false, true, stream.get());
    return median(timing.event_ns) * 1e-9;
  };
  const auto bytes = static_cast<double>(bandwidth.bytes);
  bandwidth.read = bytes / seconds([&](std::uint64_t, cudaStream_t s) {
                     kernels.read_once(from.data(), bandwidth.bytes, to.data(), s);
                   });
  bandwidth.copy = 2.0 * bytes / seconds([&](std::uint64_t, cudaStream_t s) {
                     kernels.copy_once(from.data(), to.data(), bandwidth.bytes, s);
                   });
  bandwidth.memcpy_copy = 2.0 * bytes / seconds([&](std::uint64_t, cudaStream_t s) {
                            check_execution(cudaMemcpyAsync(to.data(), from.data(), bandwidth.bytes,
                                                            cudaMemcpyDeviceToDevice, s),
                                            "a copy failed");
                          });
  return bandwidth;
}

}  // namespace faultline::cuda
