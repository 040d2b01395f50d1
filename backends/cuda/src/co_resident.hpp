// SPDX-License-Identifier: Apache-2.0
// A kernel beside the trials, and the proof that it was beside them: one that stresses memory or
// arithmetic, or one whose blocks hold multiprocessors so that the trials have fewer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

  /// How long it runs when nothing ends it.
  static constexpr std::chrono::seconds kLimit{8};
  /// It is started anew at this age: well before, so that ending by itself means that the trials
  /// had to wait for it.
  static constexpr std::chrono::seconds kRestartAfter{3};
  /// The longest that one launch may take beside it for that to hold.
  static constexpr double kLongestLaunch = 4.5;
  /// Of a stress kernel on each multiprocessor, where there is room.
  static std::uint32_t usual_blocks(core::CoResident kind) {
    return kind == core::CoResident::memory_stress ? 3 : 1;
  }

  /// `blocks`: of a stress kernel on each multiprocessor, usual_blocks() or fewer. Starts the
  /// kernel and waits until it runs on every multiprocessor that it is meant for, or as many as it
  /// gets. EnvironmentError when it does not start within 2 s.
  CoResidentKernel(const core::Perturbation& perturbation, std::uint32_t blocks,
                   DeviceKernels& kernels);
  CoResidentKernel(const CoResidentKernel&) = delete;
  ~CoResidentKernel();

  /// Call with the trials' stream drained. Proof of overlap since the last call: the kernel still
  /// runs although its own limit would have ended it, had the trials waited for it. Restarts it in
  /// good time.
  void checkpoint();
  /// Call with nothing issued since the last checkpoint, when that took its time: starts the kernel
  /// anew where its end is near. That it has ended meanwhile says nothing about the trials.
  void renew();
  bool overlap_proven() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  /// Multiprocessors where blocks of perturbation.free_sms were counted, the fewest at any time; 0:
  /// none are held.
  std::uint64_t held() const { return held_.value_or(0); }

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void stop();
  void count_held();
  std::uint32_t blocks_to_hold() const;

  core::Perturbation perturbation_;
  std::uint32_t blocks_;
  DeviceKernels& kernels_;
  Stream stream_, control_;
  DeviceMemory buffer_, flags_;  // flags: stop, started, then two sets of multiprocessors
  Clock::time_point started_at_{};
  bool running_ = false;
  std::optional<std::uint64_t> held_;
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
/// Why that does not prove that `wanted` multiprocessors were held; empty: it does. Other blocks
/// must have been placed somewhere, or nothing was looked at.
std::string why_not_held(const HeldMultiprocessors& count, std::uint32_t wanted);

}  // namespace faultline::cuda
