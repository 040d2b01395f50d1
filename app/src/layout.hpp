// SPDX-License-Identifier: Apache-2.0
// Lines of the commands that print no report.
#pragma once

#include <string>
#include <string_view>

#include "options.hpp"

namespace faultline::app {

/// Columns of standard output: --width, else the terminal's, 80 in a pipe.
int columns(const Options& options);

/// `text` with lines of at most `width` columns, broken at blanks. What is continued stands under
/// the last column of its line, which two blanks begin, or 4 columns in. A line with a word that
/// does not fit - a command to copy - is left whole.
std::string wrapped(std::string_view text, int width);

}  // namespace faultline::app
