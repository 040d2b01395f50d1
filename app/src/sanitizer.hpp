// SPDX-License-Identifier: Apache-2.0
// compute-sanitizer's tools over the launches of one variant.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "child_process.hpp"
#include "faultline/core/kill_matrix.hpp"
#include "faultline/kernels/subject.hpp"

namespace faultline::app {

/// Where the program is: on the PATH, or with the toolkit. Empty: nowhere.
std::string find_sanitizer();

/// What one tool reported, from its summary line: "ERROR SUMMARY: 3 errors", "RACECHECK SUMMARY: 1
/// hazard displayed (1 error, 0 warnings)"; warnings are none. -1: there is no such line.
long reported_errors(std::string_view output);

/// What one tool's process showed. `errors` -1: nothing, for the reason that `said` gives. No
/// errors is a result only of a target that did its work: it ended in time and by itself, with the
/// exit code of a verdict.
struct ToolReport {
  long errors = -1;
  std::string said{};
};
ToolReport read_tool(const ChildResult& child, double limit_s);

/// memcheck, racecheck, initcheck and synccheck, each over a few trials of a tight loop in its own
/// process. A tool names no class of faultline's: what it reports kills, and is never the right
/// name. Beyond `limit_s` a tool is given up.
core::KillCell run_sanitizer(const std::string& program, const kernels::ResolvedTrial& trial,
                             double limit_s, const std::atomic<bool>& stop);

}  // namespace faultline::app
