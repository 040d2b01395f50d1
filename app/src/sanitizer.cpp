// SPDX-License-Identifier: Apache-2.0
#include "sanitizer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "faultline/core/errors.hpp"

namespace faultline::app {

std::string find_sanitizer() {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  folders += ":/usr/local/cuda/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string program = folders.substr(begin, end - begin) + "/compute-sanitizer";
    if (end > begin && access(program.c_str(), X_OK) == 0) return program;
    begin = end + 1;
  }
  return {};
}

long reported_errors(std::string_view output) {
  const std::size_t at = output.rfind(" SUMMARY: ");
  if (at == output.npos) return -1;
  const std::string_view line = output.substr(at + 10, output.find('\n', at) - at - 10);
  const auto leading = [](std::string_view text) {
    long count = -1;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), count);
    return end.ec == std::errc() ? count : -1;
  };
  // "2 hazards displayed (1 error, 1 warning)"
  const std::size_t parenthesis = line.find('(');
  if (parenthesis == line.npos) return leading(line);
  const std::string_view inside = line.substr(parenthesis + 1);
  return inside.find(" error") == inside.npos ? leading(line) : leading(inside);
}

ToolReport read_tool(const ChildResult& child, double limit_s) {
  if (!child.started) return {-1, "could not be started"};
  if (child.timed_out) return {-1, fmt::format("did not end within {:.0f} s", limit_s)};
  if (child.stopped) return {-1, "was stopped"};
  const long errors = reported_errors(child.said);
  if (errors > 0) return {errors, fmt::format("{} error{}", errors, errors == 1 ? "" : "s")};
  if (child.signal != 0) return {-1, fmt::format("target ended by signal {}", child.signal)};
  const auto is = [&](core::ExitCode code) { return child.exit_code == static_cast<int>(code); };
  using enum core::ExitCode;
  if (!is(pass) && !is(fail) && !is(inconclusive)) {
    return {-1, fmt::format("target ended with exit code {}: {}", child.exit_code,
                            last_line(child.said))};
  }
  if (errors < 0) return {-1, "gave no summary: " + last_line(child.said)};
  return {0, "0 errors"};
}

core::KillCell run_sanitizer(const std::string& program, const kernels::ResolvedTrial& trial,
                             double limit_s, const std::atomic<bool>& stop) {
  core::KillCell cell;
  cell.detector = core::Detector::sanitizer;
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kTrials = 3;
  std::vector<std::string> arguments{"stress", trial.subject->name + "@" + trial.variant->name};
  for (const auto& [name, value] : trial.problem.values.values()) {
    arguments.push_back(name + "=" + value);
  }
  for (const auto& [name, value] : trial.config.values()) {
    arguments.insert(arguments.end(), {"--config", name + "=" + value});
  }
  arguments.insert(arguments.end(), {"--backend", "cuda", "--plan", "none", "--trials",
                                     std::to_string(kTrials), "--no-follow-ups", "--quiet"});
  std::string text;
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    if (stop.load()) break;
    const ChildResult child = run_child(arguments, limit_s, stop, {program, "--tool", tool});
    const ToolReport report = read_tool(child, limit_s);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", tool, report.said);
    if (report.errors < 0) continue;
    cell.ran = true;
    cell.trials += kTrials;
    if (report.errors > 0) cell.killed = true;
  }
  cell.outcome = !cell.ran     ? core::Outcome::skipped
                 : cell.killed ? core::Outcome::fail
                               : core::Outcome::pass;
  cell.note = std::move(text);
  cell.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return cell;
}

}  // namespace faultline::app
