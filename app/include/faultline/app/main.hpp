// SPDX-License-Identifier: Apache-2.0
// The `faultline` command as a function, so that a project with its own subjects gets the whole
// command.
#pragma once

#include <functional>

#include "faultline/kernels/subject.hpp"

namespace faultline::app {

/// Adds subjects to the registry of one run of the command.
using RegisterSubjects = std::function<void(kernels::SubjectRegistry&)>;

/// Parse the command line, do what it says, print, and return the exit code (core::ExitCode).
/// `register_subjects` is called before anything else; subjects built into faultline come only if
/// it calls kernels::register_builtin_subjects(). Never throws: errors become one sentence on
/// stderr and an exit code.
int run(int argc, char** argv, const RegisterSubjects& register_subjects);

}  // namespace faultline::app
