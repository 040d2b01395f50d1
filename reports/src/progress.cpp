// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "faultline/reports/terminal.hpp"
#include "numbers.hpp"
#include "stream.hpp"
#include "text.hpp"

namespace faultline::reports {
namespace {

constexpr double kRateWindow = 2.0;       // seconds that the rate is averaged over, at least
constexpr std::uint64_t kRateCount = 20;  // and of how many; fewer may be unlike the rest
constexpr int kLogWidth = 200;

}  // namespace

ProgressOptions progress_options_for(std::FILE* stream) {
  const TerminalOptions terminal = terminal_options_for(stream);
  ProgressOptions options;
  options.updating = is_capable_terminal(stream);
  options.width = terminal.width;
  options.color = terminal.color;
  options.unicode = terminal.unicode;
  return options;
}

Progress::Progress(std::FILE* stream, ProgressOptions options)
    : stream_(stream), options_(std::move(options)) {
  started_ = rate_time_ = now();
}

Progress::~Progress() { finish(); }

double Progress::now() const {
  if (options_.clock) {
    return options_.clock();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Progress::line(const ProgressState& state, double elapsed_s, double per_second,
                           int width, bool unicode) {
  const bool known = state.total > 0;
  const double share =
      known ? std::min(1.0, static_cast<double>(state.done) / static_cast<double>(state.total))
            : 0.0;
  std::string facts = known
                          ? fmt::format("{:3.0f} %  {}/{} {}", std::floor(100.0 * share),
                                        count_text(state.done), count_text(state.total), state.unit)
                          : fmt::format("{} {}", count_text(state.done), state.unit);
  if (state.failed > 0) {
    facts += fmt::format(", {} failed", count_text(state.failed));
  }
  std::string timing;
  if (per_second > 0.0) {
    timing = fmt::format("  {}/s", si_text(per_second));
    if (known && state.done < state.total) {
      timing += fmt::format(
          "  {} left", duration_text(static_cast<double>(state.total - state.done) / per_second));
    }
  }
  if (elapsed_s >= 0.0 && (!known || per_second <= 0.0 || state.done >= state.total)) {
    timing += fmt::format("  {}", duration_text(elapsed_s));
  }
  // What matters less goes first when there is no room: the label is shortened, then the timing
  // left out.
  if (static_cast<int>(facts.size() + timing.size()) > width) {
    timing.clear();
  }
  std::string label = printable(state.label, unicode);
  const int room = width - static_cast<int>(facts.size() + timing.size()) - 2;
  if (columns_of(label) > room) {
    const std::string ellipsis = unicode ? "\u2026" : "...";
    const auto keep = static_cast<std::size_t>(std::max(0, room - columns_of(ellipsis)));
    std::string cut;
    for (const char32_t c : decode_utf8(label).substr(0, keep)) {
      append_utf8(cut, c);
    }
    label = keep > 0 ? cut + ellipsis : "";
  }
  return label.empty() ? facts + timing : label + "  " + facts + timing;
}

void Progress::update(const ProgressState& state) {
  if (!options_.enabled || finished_) {
    return;
  }
  const double time = now();
  const double period = options_.updating ? options_.update_s : options_.heartbeat_s;
  // The first heartbeat comes after one period: short work stays silent in a log.
  const double last = last_drawn_.value_or(options_.updating ? started_ - period : started_);
  if (state.done < rate_done_) {  // a new arm counts from zero again
    rate_done_ = state.done;
    rate_time_ = time;
    rate_ = 0.0;
  }
  const double window = time - rate_time_;
  if (window >= kRateWindow || (rate_ <= 0.0 && window > 0.2)) {
    rate_ = static_cast<double>(state.done - rate_done_) / window;
    if (window >= kRateWindow && state.done - rate_done_ >= kRateCount) {
      rate_done_ = state.done;
      rate_time_ = time;
    }
  }
  if (time - last < period) {
    return;
  }
  last_drawn_ = time;
  const double elapsed = time - started_;
  if (options_.updating) {
    // One column is left free: a full line makes some terminals wrap.
    const std::string text = line(state, elapsed, rate_, options_.width - 1, options_.unicode);
    std::fputs(("\r" + text + "\x1b[K").c_str(), stream_);
    line_shown_ = true;
  } else {
    std::fputs((line(state, elapsed, rate_, kLogWidth, options_.unicode) + "\n").c_str(), stream_);
  }
  std::fflush(stream_);
}

void Progress::clear() {
  if (line_shown_) {
    std::fputs("\r\x1b[K", stream_);
    std::fflush(stream_);
    line_shown_ = false;
    last_drawn_.reset();
  }
}

void Progress::finish() {
  if (!finished_) {
    clear();
    finished_ = true;
  }
}

}  // namespace faultline::reports
