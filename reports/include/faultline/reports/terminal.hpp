// SPDX-License-Identifier: Apache-2.0
// The report that people read first: plain text for a terminal, a log or a mail.
#pragma once

#include <cstdio>
#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// How much of a record is printed.
enum class Verbosity { quiet, normal, verbose };

/// When ANSI colours are used. `automatic`: on a terminal that is not "dumb", unless NO_COLOR is
/// set.
enum class ColorMode { automatic, always, never };

struct TerminalOptions {
  int width = 80;      ///< columns; values below kMinimumWidth are raised to it
  bool color = false;  ///< ANSI escapes; without it the text holds no control character but '\n'
  bool unicode = false;
  Verbosity verbosity = Verbosity::normal;

  static constexpr int kMinimumWidth = 60;
  static constexpr int kMaximumWidth = 160;  ///< wider terminals get no longer lines
};

/// What suits `stream`: its width (COLUMNS wins, 80 when neither is known), colour by `mode` and
/// NO_COLOR (https://no-color.org), Unicode when LC_ALL, LC_CTYPE or LANG (the first one set) names
/// UTF-8.
TerminalOptions terminal_options_for(std::FILE* stream, ColorMode mode = ColorMode::automatic);

/// The report as text. Verdict first, replay lines last. No line is wider than options.width,
/// except commands to copy and tokens, which are never broken. Deterministic: no locale, no clock.
std::string render_terminal(const core::RunRecord& record, const TerminalOptions& options);

/// render_terminal to `stream`. A closed pipe is not an error; any other write error is an
/// EnvironmentError.
void print_terminal(const core::RunRecord& record, const TerminalOptions& options,
                    std::FILE* stream);

}  // namespace faultline::reports
