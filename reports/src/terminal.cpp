// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cases.hpp"
#include "faultline/core/errors.hpp"
#include "numbers.hpp"
#include "stream.hpp"
#include "terminal_report.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

Style badge_of(core::Outcome outcome) {
  switch (outcome) {
  case core::Outcome::pass: return Style::pass_badge;
  case core::Outcome::fail:
  case core::Outcome::error: return Style::fail_badge;
  case core::Outcome::inconclusive:
  case core::Outcome::skipped: return Style::warn_badge;
  }
  return Style::plain;
}

// The value of the first of these that is set and not empty, as POSIX has it.
std::string locale_from_environment() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value && *value) {
      return value;
    }
  }
  return {};
}

}  // namespace

std::string TerminalReport::text(Verbosity verbosity) {
  verdict();
  if (verbosity != Verbosity::quiet) {
    context();
    findings();
    races();
    stops();
    tile_maps();
    provenance();
    evidence_tables();
    error_histograms();
    arms();
    configs();
    bench();
    accesses();
    further_evidence();
    run();
    replay();
  }
  return page_.text();
}

Style TerminalReport::style_of(core::Severity severity) {
  switch (severity) {
  case core::Severity::error: return Style::red;
  case core::Severity::warning: return Style::yellow;
  case core::Severity::note: return Style::dim;
  }
  return Style::plain;
}

void TerminalReport::verdict() {
  const core::Verdict& verdict = record_.verdict;
  Line line{{fmt::format(" {} ", outcome_text(verdict.outcome)), badge_of(verdict.outcome), true}};
  const bool passed = verdict.outcome == core::Outcome::pass;
  const core::Finding* leading = leading_finding(verdict);
  if (leading && !passed) {
    line.push_back({" ", Style::plain, true});  // the badge ends in a blank of its own
    line.push_back({std::string(core::name_of(leading->finding)), Style::bold});
  }
  if (!record_.command.empty() || !record_.subject.empty()) {
    line.push_back({line.size() == 1 ? " " : "  ", Style::plain, true});
    line.push_back({record_.command + " " + subject_text(record_)});
  }
  if (leading && passed) {
    line.push_back({"  ", Style::plain, true});
    line.push_back(
        {fmt::format("{}: {}", core::name_of(leading->severity), core::name_of(leading->finding)),
         style_of(leading->severity)});
  }
  page_.paragraph(line);
  const std::string headline = headline_of(record_);
  if (!headline.empty()) {
    page_.paragraph({{headline, Style::bold}});
  }
  if (record_.evidence.interrupted) {
    page_.paragraph({{"Cut short: the figures below cover what had finished.", Style::yellow}});
  }
}

void TerminalReport::fact(std::string_view name, const std::string& value) {
  if (!value.empty()) {
    constexpr int kIndent = 11;
    page_.paragraph({{fmt::format("  {:<9}", name), Style::dim, true}, {value}}, 0, kIndent);
  }
}

// A value of several lines (the analysis plan): its first line, and all of them when verbose.
void TerminalReport::lines_of_fact(std::string_view name, std::string_view value) {
  const size_t end = value.find('\n');
  const std::string_view rest = end == value.npos ? "" : value.substr(end + 1);
  if (!verbose_ || rest.empty()) {
    fact(name, std::string(value.substr(0, end)) + (rest.empty() ? "" : "; all of it with -v"));
    return;
  }
  fact(name, std::string(value.substr(0, end)));
  for (size_t begin = 0; begin < rest.size();) {
    const size_t stop = std::min(rest.find('\n', begin), rest.size());
    fact("", std::string(rest.substr(begin, stop - begin)));
    begin = stop + 1;
  }
}

void TerminalReport::context() {
  page_.blank();
  fact("problem", problem_text(record_));
  fact("config", record_.config);
  std::string ran = fmt::format("{}; seed {}", backend_text(record_), record_.seed);
  if (record_.provenance.duration_s > 0.0) {
    ran += "; " + duration_text(record_.provenance.duration_s);
  }
  fact("ran on", ran);
  if (record_.evidence.backend_is_model || record_.provenance.backend.is_model) {
    fact("", "a model: it shows possible orders, not how often a GPU takes them");
  }
  fact("result", fmt::format("{}", fmt::join(key_facts_of(record_), "; ")));
}

void TerminalReport::run() {
  const auto facts = run_facts_of(record_);
  if (facts.empty()) {
    return;
  }
  page_.heading("Run");
  for (const auto& [name, value] : facts) {
    lines_of_fact(name, value);
  }
}

void TerminalReport::replay() {
  if (record_.replay_lines.empty()) {
    return;
  }
  page_.heading("Replay");
  constexpr size_t kShown = 2;
  const auto& lines = record_.replay_lines;
  const size_t shown = verbose_ ? lines.size() : std::min(lines.size(), kShown);
  for (size_t i = 0; i < shown; ++i) {
    if (const std::string label = replay_label(record_, lines[i]); !label.empty()) {
      page_.paragraph({{label + ":", Style::dim}}, 2, 2);
    }
    page_.verbatim(lines[i], 2);
  }
  if (shown < lines.size()) {
    page_.paragraph({{fmt::format("{} more with -v", lines.size() - shown), Style::dim}}, 2, 2);
  }
}

bool is_capable_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && !(kind && std::strcmp(kind, "dumb") == 0);
}

TerminalOptions terminal_options_for(std::FILE* stream, ColorMode mode) {
  TerminalOptions options;
  const bool terminal = is_capable_terminal(stream);
  const char* no_color = std::getenv("NO_COLOR");
  switch (mode) {
  case ColorMode::automatic: options.color = terminal && !(no_color && *no_color); break;
  case ColorMode::always: options.color = true; break;
  case ColorMode::never: options.color = false; break;
  }
  std::string locale = locale_from_environment();
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  options.unicode =
      locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
  const char* columns = std::getenv("COLUMNS");
  winsize size{};
  if (columns && std::atoi(columns) > 0) {
    options.width = std::atoi(columns);
  } else if (terminal && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  options.width =
      std::clamp(options.width, TerminalOptions::kMinimumWidth, TerminalOptions::kMaximumWidth);
  return options;
}

std::string render_terminal(const core::RunRecord& record, const TerminalOptions& options) {
  return TerminalReport(record, options).text(options.verbosity);
}

void print_terminal(const core::RunRecord& record, const TerminalOptions& options,
                    std::FILE* stream) {
  const std::string text = render_terminal(record, options);
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (!written && errno != EPIPE) {
    throw core::EnvironmentError(fmt::format(
        "The report could not be written to the terminal or pipe: {}.", std::strerror(errno)));
  }
}

}  // namespace faultline::reports
