// SPDX-License-Identifier: Apache-2.0
// Asking a long computation to stop, however deep it is: Ctrl-C and budgets.
#pragma once

#include <atomic>

namespace faultline::core {

/// Thrown by throw_if_stopped(), and caught where the scope was opened: no error, and no result.
class Stopped {};

/// While it lives, throw_if_stopped() in this thread looks at `stop`. nullptr: nothing stops.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* stop) : outer_(current_) { current_ = stop; }
  ~StopScope() { current_ = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// Of this thread, to be handed to threads that work for it.
  static const std::atomic<bool>* current() { return current_; }

 private:
  static inline thread_local const std::atomic<bool>* current_ = nullptr;
  const std::atomic<bool>* outer_;
};

/// To be called every few milliseconds by what makes inputs, references and trials.
inline void throw_if_stopped() {
  const std::atomic<bool>* stop = StopScope::current();
  if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Stopped();
}

}  // namespace faultline::core
