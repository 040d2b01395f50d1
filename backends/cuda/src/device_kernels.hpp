// SPDX-License-Identifier: Apache-2.0
// The backend's own kernels, loaded like any other module.
#pragma once

#include <utility>

#include "module_cache.hpp"
#include "trial_abi.hpp"

namespace faultline::cuda {

/// Launches kernels of trial_kernels.cu and stress_kernels.cu. Cheap to make; modules stay in the
/// cache.
class DeviceKernels {
 public:
  /// UnsupportedError when neither the sm_90a code nor the portable PTX fits this device.
  explicit DeviceKernels(ModuleCache& modules);

  /// Applies to every kernel launched from now on.
  void set_carveout(int percent);

  void prepare(const abi::PrepareParameters& parameters, cudaStream_t stream);
  void compare(const abi::CompareParameters& parameters, cudaStream_t stream);
  void advance(std::uint64_t* cursor, std::uint64_t trials, cudaStream_t stream);
  void fill(std::byte* data, std::uint64_t bytes, std::uint32_t word, cudaStream_t stream);
  /// Lays core::shared_poison_word() of the range's first trial over the shared memory of so many
  /// multiprocessors: one block on each, which takes all of it whatever the next launch takes. The
  /// blocks of that launch which run first get it, those of later waves what these left. Nothing
  /// else may run there. `meeting` is of launches that do not overlap.
  void dirty_shared(const abi::TrialRange& range, std::uint32_t multiprocessors,
                    abi::SharedMeeting* meeting, cudaStream_t stream);
  /// Adds to *sum a hash of `bytes` bytes.
  void hash(const std::byte* data, std::uint64_t bytes, std::uint64_t* sum, cudaStream_t stream);
  /// words: a power of two. `blocks`: on each multiprocessor.
  void stress_memory(std::uint32_t blocks, std::byte* buffer, std::uint64_t words,
                     std::uint32_t* stop, std::uint32_t* started, std::uint64_t limit_ns,
                     cudaStream_t stream);
  /// Of a block of either stress kernel.
  BlockNeeds stress_needs(bool memory) const;
  void stress_compute(std::byte* sink, std::uint32_t* stop, std::uint32_t* started,
                      std::uint64_t limit_ns, cudaStream_t stream);
  /// `blocks` blocks that leave no room on their multiprocessors. `held`: words of a bit set of
  /// abi::kMaxMultiprocessors bits.
  void hold_multiprocessors(std::uint32_t blocks, std::uint32_t* stop, std::uint32_t* started,
                            std::uint32_t* held, std::uint64_t limit_ns, cudaStream_t stream);
  /// Adds to such a set where small blocks are placed now.
  void find_multiprocessors(std::uint32_t* found, cudaStream_t stream);
  /// The stream does nothing else for so long.
  void block_stream(std::uint64_t ns, cudaStream_t stream);
  void read_once(const std::byte* data, std::uint64_t bytes, std::byte* sink, cudaStream_t stream);
  void copy_once(const std::byte* from, std::byte* to, std::uint64_t bytes, cudaStream_t stream);

  int multiprocessors() const { return multiprocessors_; }
  MultiprocessorSpace multiprocessor_space() const;

 private:
  /// Launches kThreads-wide blocks that may be scheduled before the stream's last kernel has ended
  /// (programmatic dependent launch); the kernel itself waits for it. Devices before compute
  /// capability 9 launch as usual.
  void launch_early(cudaKernel_t kernel, const char* name, dim3 grid, cudaStream_t stream,
                    void** arguments);
  template <class... Arguments>
  void launch(cudaKernel_t kernel, const char* name, dim3 grid, unsigned threads,
              std::uint32_t dynamic_shared_bytes, cudaStream_t stream, Arguments... arguments);

  ModuleCache& modules_;
  core::ModuleRef trial_module_, stress_module_;
  int multiprocessors_ = 1;
  std::uint32_t hold_bytes_ = 0;
  bool hopper_ = false;
  cudaKernel_t prepare_{}, compare_{}, advance_{}, fill_{}, hash_{}, dirty_{};
  cudaKernel_t stress_memory_{}, stress_compute_{}, read_once_{}, copy_once_{};
  cudaKernel_t hold_{}, find_{}, block_{};
};

}  // namespace faultline::cuda
