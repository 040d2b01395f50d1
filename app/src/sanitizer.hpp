// SPDX-License-Identifier: Apache-2.0
// compute-sanitizer's tools over the launches of one variant.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "faultline/core/kill_matrix.hpp"
#include "faultline/kernels/subject.hpp"

namespace faultline::app {

/// Where the program is: on the PATH, or with the toolkit. Empty: nowhere.
std::string find_sanitizer();

/// What one tool reported, from its summary line: "ERROR SUMMARY: 3 errors", "RACECHECK SUMMARY: 1
/// hazard displayed (1 error, 0 warnings)". -1: there is no such line.
long reported_errors(std::string_view output);

/// memcheck, racecheck, initcheck and synccheck, each over a few trials of a tight loop in its own
/// process. A tool names no class of faultline's: what it reports kills, and is never the right
/// name. Beyond `limit_s` a tool is given up.
core::KillCell run_sanitizer(const std::string& program, const kernels::ResolvedTrial& trial,
                             double limit_s, const std::atomic<bool>& stop);

}  // namespace faultline::app
