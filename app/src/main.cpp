// SPDX-License-Identifier: Apache-2.0
#include "faultline/app/main.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>

#include "commands.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::app {
namespace {

std::atomic<bool> g_stop{false};

// First Ctrl-C: finish the trial at hand and report; second: leave at once.
extern "C" void on_interrupt(int) {
  if (g_stop.exchange(true)) _exit(static_cast<int>(core::ExitCode::interrupted));
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe (| head) must not kill a campaign; writes fail and are checked instead.
  signal(SIGPIPE, SIG_IGN);
}

std::string joined(int argc, char** argv) {
  std::string line = "faultline";
  for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
  return line;
}

int dispatch(const Context& context) {
  switch (context.options.command) {
  case Command::list: return list_command(context);
  case Command::verify: return verify_command(context);
  case Command::stress: return stress_command(context);
  case Command::race: return race_command(context);
  case Command::replay: return replay_command(context);
  case Command::bench: return bench_command(context);
  case Command::reference: return reference_command(context);
  case Command::doctor: return doctor_command(context);
  case Command::completion: return completion_command(context);
  case Command::none: break;
  }
  return static_cast<int>(core::ExitCode::usage);
}

int fail(core::ExitCode code, const char* what) {
  fmt::print(stderr, "faultline: {}\n", what);
  return static_cast<int>(code);
}

}  // namespace

int run(int argc, char** argv, const RegisterSubjects& register_subjects) {
  try {
    install_signal_handlers();
    const Parsed parsed = parse_command_line(argc, argv);
    if (parsed.exit_code) return *parsed.exit_code;
    kernels::SubjectRegistry registry;
    if (register_subjects) register_subjects(registry);
    const int code = dispatch(Context{parsed.options, registry, g_stop, joined(argc, argv)});
    if (fflush(stdout) != 0 && code == 0) {
      return fail(core::ExitCode::error, "standard output could not be written");
    }
    return code;
  } catch (const core::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(core::ExitCode::error, "out of memory: try a smaller problem or fewer trials");
  } catch (const std::exception& error) {
    return fail(core::ExitCode::error, error.what());
  }
}

}  // namespace faultline::app
