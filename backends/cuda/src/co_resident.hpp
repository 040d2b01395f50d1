// SPDX-License-Identifier: Apache-2.0
// A kernel beside the trials, and the proof that it was beside them: one that stresses memory or
// arithmetic, or one whose blocks hold multiprocessors so that the trials have fewer.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "device_kernels.hpp"
#include "faultline/core/perturbation.hpp"

namespace faultline::cuda {

class CoResidentKernel {
 public:
  /// Does the perturbation ask for one? Not for both: plan_arm() refuses that.
  static bool wanted(const core::Perturbation& perturbation) {
    return perturbation.co_resident != core::CoResident::none || perturbation.free_sms > 0;
  }

  /// Starts the kernel and waits until it runs on every multiprocessor that it is meant for, or as
  /// many as it gets. EnvironmentError when it does not start within 2 s.
  CoResidentKernel(const core::Perturbation& perturbation, DeviceKernels& kernels);
  CoResidentKernel(const CoResidentKernel&) = delete;
  ~CoResidentKernel();

  /// Call with the trials' stream drained. Proof of overlap since the last call: the kernel still
  /// runs although its own limit would have ended it, had the trials waited for it. Restarts it in
  /// good time.
  void checkpoint();
  bool overlap_proven() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  /// Multiprocessors where blocks of perturbation.free_sms were counted, the fewest at any time; 0:
  /// none are held.
  std::uint64_t held() const { return held_; }

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void stop();
  void count_held();
  std::uint32_t blocks_to_hold() const;

  core::Perturbation perturbation_;
  DeviceKernels& kernels_;
  Stream stream_, control_;
  DeviceMemory buffer_, flags_;  // flags: stop, started, then two sets of multiprocessors
  Clock::time_point started_at_{};
  bool running_ = false;
  std::uint64_t held_ = 0;
  std::string failure_;
};

/// What sets of multiprocessors, as bits, say: how many blocks held, and whether other blocks were
/// placed on those, too.
struct HeldMultiprocessors {
  std::uint32_t held = 0, free = 0;  ///< free: where other blocks were placed
  std::uint32_t shared = 0;          ///< in both sets
};
HeldMultiprocessors count_multiprocessors(std::span<const std::uint32_t> held,
                                          std::span<const std::uint32_t> found);

}  // namespace faultline::cuda
