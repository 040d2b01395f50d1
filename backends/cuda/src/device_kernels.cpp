// SPDX-License-Identifier: Apache-2.0
#include "device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "faultline_cuda_kernels_modules.hpp"

namespace faultline::cuda {

namespace {

constexpr unsigned kStressThreads = 256;
constexpr std::uint32_t kMeetingLimitNs = 20'000;

}  // namespace

DeviceKernels::DeviceKernels(ModuleCache& modules)
    : modules_(modules), multiprocessors_(modules.facts().multiprocessors) {
  const DeviceFacts& facts = modules.facts();
  const bool hopper = facts.compute_major == 9 && facts.compute_minor == 0;
  hopper_ = hopper;
  trial_module_ =
      core::make_module(hopper ? embedded::trial_kernels() : embedded::trial_kernels_compute_80());
  stress_module_ = core::make_module(hopper ? embedded::stress_kernels()
                                            : embedded::stress_kernels_compute_80());
  set_carveout(KernelOptions{}.carveout_percent);
}

void DeviceKernels::set_carveout(int percent) {
  KernelOptions options;
  options.carveout_percent = percent;
  prepare_ = modules_.kernel(trial_module_, "faultline_prepare", options);
  compare_ = modules_.kernel(trial_module_, "faultline_compare", options);
  advance_ = modules_.kernel(trial_module_, "faultline_advance", options);
  fill_ = modules_.kernel(trial_module_, "faultline_fill", options);
  hash_ = modules_.kernel(trial_module_, "faultline_hash", options);
  stress_memory_ = modules_.kernel(stress_module_, "faultline_stress_memory", options);
  stress_compute_ = modules_.kernel(stress_module_, "faultline_stress_compute", options);
  read_once_ = modules_.kernel(stress_module_, "faultline_read_once", options);
  copy_once_ = modules_.kernel(stress_module_, "faultline_copy_once", options);
  find_ = modules_.kernel(stress_module_, "faultline_find_multiprocessors", options);
  block_ = modules_.kernel(stress_module_, "faultline_block_stream", options);
  hold_bytes_ = static_cast<std::uint32_t>(modules_.facts().shared_per_block);
  // All of it, and of the multiprocessor as well: a block has 1 KiB beside what it asks for.
  KernelOptions all;
  all.dynamic_shared_bytes = hold_bytes_;
  all.carveout_percent = 100;
  hold_ = modules_.kernel(stress_module_, "faultline_hold_multiprocessor", all);
  dirty_ = modules_.kernel(trial_module_, "faultline_dirty_shared", all);
}

void DeviceKernels::launch_early(cudaKernel_t kernel, const char* name, dim3 grid,
                                 cudaStream_t stream, void** arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(abi::kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = hopper_ ? 1 : 0;
  const cudaError_t error =
      cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
  if (error != cudaSuccess) {
    check_execution(error,
                    fmt::format("launch of '{}' with grid ({}, {}) failed", name, grid.x, grid.y));
  }
}

template <class... Arguments>
void DeviceKernels::launch(cudaKernel_t kernel, const char* name, dim3 grid, unsigned threads,
                           std::uint32_t dynamic_shared_bytes, cudaStream_t stream,
                           Arguments... arguments) {
  void* pointers[] = {&arguments...};
  const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                                             dim3(threads), pointers, dynamic_shared_bytes, stream);
  if (error != cudaSuccess) {
    check_execution(error,
                    fmt::format("launch of '{}' with grid ({}, {}) failed", name, grid.x, grid.y));
  }
}

void DeviceKernels::prepare(const abi::PrepareParameters& p, cudaStream_t stream) {
  const std::uint32_t chunks = p.poisoned_chunks[p.poisoned_count];
  if (chunks != 0) {
    void* arguments[] = {const_cast<abi::PrepareParameters*>(&p)};
    launch_early(prepare_, "faultline_prepare", dim3(chunks, p.range.batch), stream, arguments);
  }
}

void DeviceKernels::compare(const abi::CompareParameters& p, cudaStream_t stream) {
  void* arguments[] = {const_cast<abi::CompareParameters*>(&p)};
  launch_early(compare_, "faultline_compare", dim3(p.chunks[p.output_count], p.range.batch), stream,
               arguments);
}

void DeviceKernels::advance(std::uint64_t* cursor, std::uint64_t trials, cudaStream_t stream) {
  launch(advance_, "faultline_advance", dim3(1), 1, 0, stream, cursor, trials);
}

void DeviceKernels::fill(std::byte* data, std::uint64_t bytes, std::uint32_t word,
                         cudaStream_t stream) {
  if (bytes == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(bytes / 4 / 1024, 1, 8 * static_cast<unsigned>(multiprocessors_)));
  launch(fill_, "faultline_fill", dim3(blocks), 256, 0, stream, data, bytes, word);
}

void DeviceKernels::hash(const std::byte* data, std::uint64_t bytes, std::uint64_t* sum,
                         cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(bytes / 4 / 1024, 1, 8 * static_cast<unsigned>(multiprocessors_)));
  launch(hash_, "faultline_hash", dim3(blocks), 256, 0, stream, data, bytes, sum);
}

void DeviceKernels::dirty_shared(const abi::TrialRange& range, std::uint32_t multiprocessors,
                                 abi::SharedMeeting* meeting, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  abi::DirtySharedParameters p;
  p.range = range;
  p.bytes = hold_bytes_ / 16 * 16;
  p.limit_ns = kMeetingLimitNs;
  p.meeting = meeting;
  launch(dirty_, "faultline_dirty_shared", dim3(multiprocessors), kThreads, p.bytes, stream, p);
}

BlockNeeds DeviceKernels::stress_needs(bool memory) const {
  return needs_of(memory ? stress_memory_ : stress_compute_, kStressThreads, 0);
}

MultiprocessorSpace DeviceKernels::multiprocessor_space() const {
  const DeviceFacts& facts = modules_.facts();
  return {static_cast<std::uint32_t>(facts.threads_per_multiprocessor),
          static_cast<std::uint64_t>(facts.registers_per_multiprocessor),
          facts.shared_per_multiprocessor, facts.shared_reserved_per_block};
}

void DeviceKernels::stress_memory(std::uint32_t blocks, std::byte* buffer, std::uint64_t words,
                                  std::uint32_t* stop, std::uint32_t* started,
                                  std::uint64_t limit_ns, cudaStream_t stream) {
  launch(stress_memory_, "faultline_stress_memory",
         dim3(blocks * static_cast<unsigned>(multiprocessors_)), kStressThreads, 0, stream, buffer,
         words, stop, started, limit_ns);
}

void DeviceKernels::stress_compute(std::byte* sink, std::uint32_t* stop, std::uint32_t* started,
                                   std::uint64_t limit_ns, cudaStream_t stream) {
  launch(stress_compute_, "faultline_stress_compute", dim3(static_cast<unsigned>(multiprocessors_)),
         kStressThreads, 0, stream, sink, stop, started, limit_ns);
}

void DeviceKernels::hold_multiprocessors(std::uint32_t blocks, std::uint32_t* stop,
                                         std::uint32_t* started, std::uint32_t* held,
                                         std::uint64_t limit_ns, cudaStream_t stream) {
  launch(hold_, "faultline_hold_multiprocessor", dim3(blocks), 32, hold_bytes_, stream, stop,
         started, held, limit_ns);
}

void DeviceKernels::find_multiprocessors(std::uint32_t* found, cudaStream_t stream) {
  // Twice as many as can be resident, should one or the other end early.
  constexpr unsigned kBlocksOfOne = 64;
  constexpr std::uint64_t kStayNs = 20'000;
  launch(find_, "faultline_find_multiprocessors",
         dim3(kBlocksOfOne * static_cast<unsigned>(multiprocessors_)), 32, 0, stream, found,
         kStayNs);
}

void DeviceKernels::block_stream(std::uint64_t ns, cudaStream_t stream) {
  launch(block_, "faultline_block_stream", dim3(1), 32, 0, stream, ns);
}

void DeviceKernels::read_once(const std::byte* data, std::uint64_t bytes, std::byte* sink,
                              cudaStream_t stream) {
  launch(read_once_, "faultline_read_once", dim3(4 * static_cast<unsigned>(multiprocessors_)), 512,
         0, stream, data, bytes / 16, sink);
}

void DeviceKernels::copy_once(const std::byte* from, std::byte* to, std::uint64_t bytes,
                              cudaStream_t stream) {
  launch(copy_once_, "faultline_copy_once", dim3(4 * static_cast<unsigned>(multiprocessors_)), 512,
         0, stream, from, to, bytes / 16);
}

}  // namespace faultline::cuda
