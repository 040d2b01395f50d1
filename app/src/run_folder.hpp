// SPDX-License-Identifier: Apache-2.0
// The folder of --run: the record of an earlier run never speaks for this one, and is not lost.
#pragma once

#include <string>

namespace faultline::app {

/// The folder that --run names on a command line that need not be valid; "" when there is none.
std::string run_folder_of(int argc, char** argv);

/// Renames run.json of `folder`, if there is one, to run.previous.json (of which one is kept); with
/// `and_below` also those of the folders in it, one a variant. Whether there was any.
/// EnvironmentError, and nothing is renamed, when a run in one of them is not over, and when it
/// cannot be renamed.
bool set_old_record_aside(const std::string& folder, bool and_below);

}  // namespace faultline::app
