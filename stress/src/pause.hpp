// SPDX-License-Identifier: Apache-2.0
// A stop flag that a time limit raises, too.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace faultline::stress::detail {

/// Raises its flag once `limit_s` have passed since its construction or `stop` is raised; looks
/// about every 20 ms.
class Pause {
 public:
  /// With a limit of 0 the flag is never raised.
  Pause(const std::atomic<bool>* stop, double limit_s) : begin_(Clock::now()) {
    if (!(limit_s > 0.0)) return;
    watcher_ = std::jthread([this, stop, limit_s](const std::stop_token& done) {
      while (!done.stop_requested()) {
        if ((stop != nullptr && stop->load()) || seconds() >= limit_s) {
          flag_ = true;
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  const std::atomic<bool>* flag() const { return &flag_; }
  bool raised() const { return flag_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  std::atomic<bool> flag_{false};
  std::jthread watcher_{};  ///< last: joined before the flag goes
};

}  // namespace faultline::stress::detail
