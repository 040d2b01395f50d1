// SPDX-License-Identifier: Apache-2.0
// Files that are there whole or not at all.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace faultline::reports {

/// Replace the file `path` by `text` in one step: a temporary file beside it is written, synced and
/// renamed, so that a reader sees the old file or the new one. A symbolic link is followed; what is
/// not a regular file (/dev/stdout, /dev/fd/3, /dev/full) is written in place. "-" is standard
/// output. Throws EnvironmentError with path and reason: missing folder, no permission, full disk,
/// a folder of that name, or a named pipe, which would wait for its reader.
void write_output(const std::string& path, std::string_view text);
/// The same for a text in parts, which are written one behind the other; the error calls the file
/// `shown`.
void write_output(const std::string& path, std::initializer_list<std::string_view> parts,
                  const std::string& shown);

/// Check before hours of work that `path` can be written, without changing what is there.
/// Throws EnvironmentError as write_output() would; `advice` stands at the end of its message.
void check_writable(const std::string& path, std::string_view advice = {});

}  // namespace faultline::reports
