// SPDX-License-Identifier: Apache-2.0
// The command line as data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "faultline/core/problem.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::app {

enum class Command {
  none,
  list,
  verify,
  stress,
  race,
  mutants,
  replay,
  explain,
  reduce,
  report,
  compare,
  bench,
  reference,
  doctor,
  completion
};

struct Options {
  Command command = Command::none;
  std::vector<std::string> words;  ///< SUBJECT or FILE or TOKEN, then k=v
  std::string backend = "auto";
  std::string variant;
  std::vector<std::string> config;  ///< k=v, also comma-separated
  std::vector<std::string> sweep;   ///< verify: k=v1,v2,...
  bool intermediates = false;       ///< verify
  std::uint64_t seed = 1;
  std::string data = "normal";
  std::string plan;          ///< names of arms, comma-separated; empty: the default plan
  std::uint64_t trials = 0;  ///< 0 only when not given
  double budget_s = 0.0;     ///< 0: none
  double timeout_s = 60.0;
  bool lenient = false;
  bool no_race = false;
  bool no_sanitizer = false;
  bool no_follow_ups = false;
  bool fail_on_warning = false;
  bool quiet = false;
  int verbosity = 0;
  std::string color = "auto";
  int width = 0;  ///< 0: from the terminal
  std::string run_dir;
  std::string resume_dir;  ///< of --resume; `run_dir` is the same folder then
  std::string store;       ///< file of --store or FAULTLINE_STORE; empty: nothing is stored
  std::map<std::string, std::string> reports;  ///< format -> path or "-"
  std::uint64_t schedules = 0;                 ///< race: how many; 0 = default
  std::uint64_t samples = 0;                   ///< bench
  bool hot = false;                            ///< bench: same buffers in every execution
  std::uint32_t graph_launches = 0;            ///< bench: 0 = chosen
  std::uint64_t executions = 0;                ///< explain, reduce; 0 = default
  std::uint64_t repeats = 0;                   ///< replay, reduce on CUDA
  // race FILE.ptx
  std::string entry;
  std::string grid = "1", block = "32";
  std::uint32_t shared_bytes = 0;
  std::vector<std::string> arguments;
  // reference
  std::string inputs_dir, outputs_dir;
  std::string layout = "bhtd";  ///< of the user's files: bhtd or bthd
  std::string drop;             ///< terms of the adjoint to leave out
  std::string completion_shell;

  core::DataMode data_mode() const;
  std::vector<core::Assignment::Value> problem_values() const;  ///< words after the first, as pairs
  std::vector<core::Assignment::Value> config_values() const;
  /// Every combination of the values of --sweep; one empty combination without it.
  std::vector<std::vector<core::Assignment::Value>> sweep_values() const;
  const std::string& subject() const;  ///< first word; UsageError when missing
};

/// Outcome of parsing: options, or text already printed and an exit code.
struct Parsed {
  Options options;
  std::optional<int> exit_code;
};
Parsed parse_command_line(int argc, char** argv);
/// The options of a command line given word by word, without the program's name.
Options options_of(std::vector<std::string> arguments);

/// What of the options decides the result of a run, a line each ("--seed 1"): not what is printed,
/// nor how long it may take.
std::vector<std::string> deciding_lines(const Options& options);
/// Whether an argument is, or begins with, a word or flag of deciding_lines().
bool is_deciding(const std::string& argument);

/// "60s", "5m", "2h", "500ms", "45" (seconds). UsageError otherwise.
double parse_duration(const std::string& text);

}  // namespace faultline::app
