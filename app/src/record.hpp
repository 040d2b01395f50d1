// SPDX-License-Identifier: Apache-2.0
// From evidence to a finished run: verdict, record, reports, exit code.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "faultline/core/run_record.hpp"

namespace faultline::app {

/// Gathers one run. Construct before the work starts (it checks that every report can be written
/// and notes the time), finish() after it.
class Run {
 public:
  Run(const Context& context, const char* command);

  core::RunRecord& record() { return record_; }
  /// Identity of what ran; modules give the hashes and the source excerpts.
  void identify(const kernels::ResolvedTrial& trial);
  void use_backend(const core::BackendInfo& info);
  void use_modules(const core::Program& program);

  /// With --run: keeps the record of unfinished work on disk, as often as costs little. Otherwise
  /// empty.
  std::function<void(const core::Evidence&)> checkpoint();

  /// Diagnose, add excerpts and replay lines, print, write the reports; the exit code.
  int finish(core::Evidence evidence);
  /// The same for a record whose verdict is already set (bench).
  int finish_with_verdict();

 private:
  void print(bool report_on_stdout) const;
  void add_excerpts();
  void add_replay_lines();

  const Context& context_;
  core::RunRecord record_;
  std::vector<core::ModuleRef> modules_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace faultline::app
