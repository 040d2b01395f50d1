// SPDX-License-Identifier: Apache-2.0
// This command again, in a process of its own: what breaks a device for good breaks it there.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace faultline::app {

struct ChildResult {
  bool started = false, timed_out = false, stopped = false;
  int exit_code = -1;  ///< -1: ended by `signal`
  int signal = 0;
};

/// Run this executable with these arguments, its output discarded, for at most `limit_s`; past it,
/// or when `stop` is set, it is killed.
ChildResult run_child(const std::vector<std::string>& arguments, double limit_s,
                      const std::atomic<bool>& stop);

}  // namespace faultline::app
