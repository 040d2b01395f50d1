// SPDX-License-Identifier: Apache-2.0
// What the commands that run trials share: progress, Ctrl-C, --budget.
#pragma once

#include <atomic>
#include <thread>

#include "commands.hpp"
#include "faultline/reports/progress.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::app {

/// Progress on stderr and one stop flag fed by Ctrl-C and by the budget, which a thread of its own
/// watches: a trial may take longer than the budget.
class Work {
 public:
  explicit Work(const Context& context);
  /// Options for stress/; valid as long as this object.
  stress::RunOptions run_options();
  /// Erase the progress line before something is printed that is not the last word.
  void clear() { progress_.clear(); }
  /// Erase the progress line before anything else is printed.
  void finish() { progress_.finish(); }

 private:
  const Context& context_;
  reports::Progress progress_;
  std::atomic<bool> stop_{false};
  std::jthread watch_;  ///< with a budget; last, so that it ends first
};

/// `SUBJECT[@VARIANT]` with --variant folded in. UsageError when both are given and differ.
std::string subject_and_variant(const Options& options);

core::RaceMode race_mode(const Options& options);

/// Whether a report goes to standard output: it then stands there alone, so that pipes get one
/// format.
bool report_on_stdout(const Options& options);

}  // namespace faultline::app
