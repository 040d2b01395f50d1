// SPDX-License-Identifier: Apache-2.0
// Files that the command reads.
#pragma once

#include <filesystem>
#include <string_view>

namespace faultline::app {

/// UsageError, naming the file and what it is instead, unless `path` is a regular file or a link to
/// one: opening a pipe would wait for its writer for ever. `what` is e.g. "PTX file". A file that
/// is not there, or a link to nothing, is an EnvironmentError when `missing_is_usage` is false.
void require_regular_file(const std::filesystem::path& path, std::string_view what,
                          bool missing_is_usage = false);

}  // namespace faultline::app
