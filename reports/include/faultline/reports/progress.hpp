// SPDX-License-Identifier: Apache-2.0
// Progress of long work: one updating line on a terminal, a heartbeat line otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

namespace faultline::reports {

struct ProgressOptions {
  bool enabled = true;    ///< false: prints nothing
  bool updating = false;  ///< terminal: rewrite one line; otherwise one line each heartbeat
  int width = 80;         ///< columns, of the updating line
  bool color = false;
  bool unicode = false;
  double update_s = 0.1;          ///< updating line: shortest time between two redraws
  double heartbeat_s = 10.0;      ///< heartbeat: time between two lines
  std::function<double()> clock;  ///< seconds, monotonic; empty: the steady clock
};

/// Options for `stream`: updating when it is a terminal that is not "dumb".
ProgressOptions progress_options_for(std::FILE* stream);

/// Where work stands.
struct ProgressState {
  std::string label;  ///< what is running: the arm or config
  std::uint64_t done = 0;
  std::uint64_t total = 0;  ///< 0: unknown; then neither share nor time left is shown
  std::uint64_t failed = 0;
  std::string unit = "trials";
};

/// Prints progress to `stream`. Never throws and never fails the work: a broken stream is ignored.
/// One thread.
class Progress {
 public:
  Progress(std::FILE* stream, ProgressOptions options);
  ~Progress();  ///< as finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Note the state; draws when it is due. Cheap enough to call after every trial.
  void update(const ProgressState& state);
  /// Erase the updating line, so that other text can be printed; the next update draws it again.
  void clear();
  /// The last word: erases the updating line. No more output after it.
  void finish();

  /// The text of a line for `state` after `elapsed_s`, at most `width` columns.
  static std::string line(const ProgressState& state, double elapsed_s, double per_second,
                          int width, bool unicode);

 private:
  double now() const;

  std::FILE* stream_;
  ProgressOptions options_;
  double started_ = 0.0;
  std::optional<double> last_drawn_;
  double rate_time_ = 0.0;  // start of the window that the rate is taken over
  std::uint64_t rate_done_ = 0;
  double rate_ = 0.0;
  bool line_shown_ = false;
  bool finished_ = false;
};

}  // namespace faultline::reports
