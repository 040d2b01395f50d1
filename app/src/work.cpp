// SPDX-License-Identifier: Apache-2.0
#include "work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "faultline/core/errors.hpp"

namespace faultline::app {
namespace {

reports::ProgressOptions progress_options(const Options& options) {
  reports::ProgressOptions progress = reports::progress_options_for(stderr);
  if (options.quiet) progress.enabled = false;
  if (options.color == "never") progress.color = false;
  return progress;
}

/// What the progress of a command counts.
const char* counted_in(Command command) {
  switch (command) {
  case Command::mutants: return "variants";
  case Command::explain:
  case Command::reduce: return "executions";
  default: return "trials";
  }
}

}  // namespace

Work::Work(const Context& context)
    : context_(context), progress_(stderr, progress_options(context.options)) {
  if (context.options.budget_s <= 0.0) return;
  watch_ = std::jthread([this, seconds = context.options.budget_s](const std::stop_token& over) {
    constexpr std::chrono::milliseconds kBetweenLooks(20);
    const auto started = std::chrono::steady_clock::now();
    while (!over.stop_requested() && !stop_) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
      if (context_.stop || elapsed.count() >= seconds) stop_ = true;
      std::this_thread::sleep_for(kBetweenLooks);
    }
  });
}

stress::RunOptions Work::run_options() {
  stress::RunOptions run;
  run.timeout_s = context_.options.timeout_s;
  run.stop = context_.options.budget_s > 0.0 ? &stop_ : &context_.stop;
  run.progress = [this, unit = counted_in(context_.options.command)](const stress::Progress& now) {
    progress_.update({.label = now.what,
                      .done = now.done,
                      .total = now.total,
                      .failed = now.failed,
                      .unit = unit});
  };
  return run;
}

std::string subject_and_variant(const Options& options) {
  const std::string& subject = options.subject();
  const size_t at = subject.find('@');
  if (options.variant == "all" || (at != std::string::npos && subject.substr(at + 1) == "all")) {
    throw core::UsageError(fmt::format(
        "this runs one variant, not all: name one of those that `faultline list {0}` prints; "
        "`faultline verify {0} --variant all` checks every clean one",
        subject.substr(0, at)));
  }
  if (options.variant.empty()) return subject;
  if (at == std::string::npos) return subject + "@" + options.variant;
  if (subject.substr(at + 1) != options.variant) {
    throw core::UsageError("two variants: '" + subject.substr(at + 1) + "' in " + subject +
                           " and --variant " + options.variant + "; give one");
  }
  return subject;
}

core::RaceMode race_mode(const Options& options) {
  if (options.no_race) return core::RaceMode::off;
  return options.lenient ? core::RaceMode::lenient : core::RaceMode::strict;
}

bool report_on_stdout(const Options& options) {
  return std::any_of(options.reports.begin(), options.reports.end(),
                     [](const auto& report) { return report.second == "-"; });
}

}  // namespace faultline::app
