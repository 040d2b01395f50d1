// SPDX-License-Identifier: Apache-2.0
// One function per command; each returns the exit code.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "faultline/kernels/subject.hpp"
#include "options.hpp"

namespace faultline::app {

/// What every command gets.
struct Context {
  const Options& options;
  const kernels::SubjectRegistry& registry;
  const std::atomic<bool>& stop;  ///< set by Ctrl-C
  std::string command_line;
  std::vector<std::string> arguments{};  ///< the same word by word, without the program
  bool is_part = false;                  ///< of --variant all, which has the last word
};

int list_command(const Context& context);
int verify_command(const Context& context);
int stress_command(const Context& context);
int race_command(const Context& context);
int mutants_command(const Context& context);
int replay_command(const Context& context);
int explain_command(const Context& context);
int reduce_command(const Context& context);
int report_command(const Context& context);
int compare_command(const Context& context);
int bench_command(const Context& context);
int reference_command(const Context& context);
int doctor_command(const Context& context);
int completion_command(const Context& context);

}  // namespace faultline::app
