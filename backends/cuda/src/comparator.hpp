// SPDX-License-Identifier: Apache-2.0
// Outputs compared on the device, trial after trial, with figures that are read back once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device_kernels.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::cuda {

/// Chunk numbering of a list of tensors, shared by the prepare and compare kernels: first chunk of
/// each, then the total, beginning at `begin`; a chunk is up to `chunk` elements. `chunks` has one
/// entry more than `elements`.
void number_chunks(std::span<const std::uint64_t> elements, std::uint32_t chunk,
                   std::uint32_t begin, std::span<std::uint32_t> chunks);

/// Where one output of a launch and its reference lie.
struct ComparedOutput {
  const std::byte* data = nullptr;  ///< batch slices back to back
  const double* expected = nullptr;
  const double* bound = nullptr;
};

class Comparator {
 public:
  /// `outputs` in output order, at most abi::kMaxOutputs of them, and the poison of each, whatever
  /// its pattern. `histogram_every` as in core::TrialRequest; the next power of two counts.
  Comparator(std::vector<core::BufferSpec> outputs, std::span<const core::Poison> poison,
             std::uint32_t batch, std::uint32_t capture_limit, bool hash_outputs,
             std::uint32_t histogram_every, DeviceKernels& kernels);

  /// All figures to zero. Ordered in `stream`.
  void reset(cudaStream_t stream);

  /// One launch over range.batch trials. `shared_reference`: one trial's reference serves all
  /// slots.
  void compare(const abi::TrialRange& range, std::span<const ComparedOutput> outputs,
               bool shared_reference, cudaStream_t stream);

  /// Counters alone; waits for the stream.
  abi::Counters counters(cudaStream_t stream) const;

  /// Everything, into `result` (outputs, failures, captures, counts). `fixed_inputs`: input seeds
  /// are those of trial 0.
  void collect(const core::TrialRequest& request, bool fixed_inputs, core::TrialResult& result,
               cudaStream_t stream) const;

  std::uint64_t elements() const { return base_.elements; }

 private:
  std::vector<core::BufferSpec> outputs_;
  std::vector<std::uint64_t> elements_;  // of each output of one trial
  DeviceKernels& kernels_;
  abi::CompareParameters base_;
  DeviceMemory tiles_, accumulators_, histograms_, slots_, stamps_, totals_, captures_;
};

}  // namespace faultline::cuda
