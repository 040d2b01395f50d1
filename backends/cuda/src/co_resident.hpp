// SPDX-License-Identifier: Apache-2.0
// A stress kernel beside the trials, and the proof that it was beside them.
#pragma once

#include <chrono>
#include <string>

#include "device_kernels.hpp"
#include "faultline/core/perturbation.hpp"

namespace faultline::cuda {

class CoResidentStress {
 public:
  /// Starts the kernel and waits until it runs on every multiprocessor, or as many as it gets.
  /// EnvironmentError when it does not start within 2 s.
  CoResidentStress(core::CoResident kind, DeviceKernels& kernels);
  CoResidentStress(const CoResidentStress&) = delete;
  ~CoResidentStress();

  /// Call with the trials' stream drained. Proof of overlap since the last call: the stress kernel
  /// still runs although its own limit would have ended it, had the trials waited for it. Restarts
  /// it in good time.
  void checkpoint();
  bool overlap_proven() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void stop();

  core::CoResident kind_;
  DeviceKernels& kernels_;
  Stream stream_, control_;
  DeviceMemory buffer_, flags_;  // flags: stop, started
  Clock::time_point started_at_{};
  bool running_ = false;
  std::string failure_;
};

}  // namespace faultline::cuda
