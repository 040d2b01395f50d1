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
  std::string said;  ///< the end of what it wrote to standard error, and of a tool's own output
};

/// Run this executable with these arguments for at most `limit_s`; past it, or when `stop` is set,
/// it is killed, with what it started. With `tool` (a program and its options) that is what is run,
/// on this executable. Standard output is discarded, but for that of a tool. FAULTLINE_STORE is not
/// handed on: a child keeps nothing in the user's store.
ChildResult run_child(const std::vector<std::string>& arguments, double limit_s,
                      const std::atomic<bool>& stop, const std::vector<std::string>& tool = {});

/// The last line of `text` that is not blank, at most `most` bytes of it.
std::string last_line(const std::string& text, std::size_t most = 200);

}  // namespace faultline::app
