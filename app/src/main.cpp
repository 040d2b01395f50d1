// SPDX-License-Identifier: Apache-2.0
#include "faultline/app/main.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "commands.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/store/journal.hpp"
#include "resume.hpp"
#include "run_folder.hpp"

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
  // A terminal that is closed ends a run as Ctrl-C does, unless nohup was asked for.
  struct sigaction inherited {};
  if (sigaction(SIGHUP, nullptr, &inherited) != 0 || inherited.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
  // A closed pipe (| head) must not kill a campaign; writes fail and are checked instead.
  signal(SIGPIPE, SIG_IGN);
  // Likewise a limit on the size of files.
  signal(SIGXFSZ, SIG_IGN);
}

// A report opened while standard output is closed would get its number, and then what is printed.
// What stands in for it cannot be written, so that printing fails and is reported.
void hold_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    const int other_way = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", other_way) != descriptor) return;
  }
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
  case Command::mutants: return mutants_command(context);
  case Command::replay: return replay_command(context);
  case Command::explain: return explain_command(context);
  case Command::reduce: return reduce_command(context);
  case Command::report: return report_command(context);
  case Command::compare: return compare_command(context);
  case Command::bench: return bench_command(context);
  case Command::reference: return reference_command(context);
  case Command::doctor: return doctor_command(context);
  case Command::completion: return completion_command(context);
  case Command::none: break;
  }
  return static_cast<int>(core::ExitCode::usage);
}

// The last thing to do: when standard error is closed or full, the exit code still says it.
int fail(core::ExitCode code, const std::string& what) {
  std::fprintf(stderr, "faultline: %s\n", what.c_str());
  return static_cast<int>(code);
}

// 0, or the exit code of an error when what was printed did not arrive. A reader that had enough,
// as `head` has, is none.
int check_standard_output() {
  std::cout.flush();
  if (fflush(stdout) == 0 && ferror(stdout) == 0 && std::cout.good()) return 0;
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) return 0;
  return fail(core::ExitCode::error, "standard output could not be written");
}

Parsed parse(int argc, char** argv) {
  try {
    return parse_command_line(argc, argv);
  } catch (const core::UsageError& error) {
    // A script that looks into the folder afterwards must not find the result of another run.
    const std::string folder = run_folder_of(argc, argv);
    if (folder.empty() || store::Journal::is_held(folder)) throw;
    if (!set_old_record_aside(folder, false)) throw;
    throw core::UsageError(
        fmt::format("{}; nothing ran, and the earlier record in {} is now run.previous.json",
                    error.what(), folder));
  }
}

int run_command(const Context& context) {
  const Options& options = context.options;
  const bool had_record = !options.run_dir.empty() && options.resume_dir.empty() &&
                          set_old_record_aside(options.run_dir, options.variant == "all");
  try {
    return dispatch(context);
  } catch (const core::UsageError& error) {
    if (!had_record) throw;
    throw core::UsageError(fmt::format("{}; the earlier record in {} is now run.previous.json",
                                       error.what(), options.run_dir));
  }
}

}  // namespace

int run(int argc, char** argv, const RegisterSubjects& register_subjects) {
  try {
    hold_standard_streams();
    install_signal_handlers();
    const Parsed parsed = parse(argc, argv);
    if (parsed.exit_code)
      return *parsed.exit_code == 0 ? check_standard_output() : *parsed.exit_code;
    kernels::SubjectRegistry registry;
    if (register_subjects) register_subjects(registry);
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const Options options =
        parsed.options.resume_dir.empty() ? parsed.options : continued(parsed.options, arguments);
    const int code = run_command(Context{options, registry, g_stop, joined(argc, argv), arguments});
    const int lost = check_standard_output();  // an error is worse than any verdict
    return lost == 0 ? code : lost;
  } catch (const core::Error& error) {
    // What Ctrl-C cut short could not be judged.
    const bool stopped = g_stop && error.code() == core::ExitCode::inconclusive;
    return fail(stopped ? core::ExitCode::interrupted : error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(core::ExitCode::error, "out of memory: take a smaller problem or fewer trials");
  } catch (const std::length_error&) {
    return fail(core::ExitCode::error,
                "out of memory: something larger than any memory was asked for; take a smaller "
                "problem");
  } catch (const std::system_error& error) {
    // fmt::print() throws when a full buffer cannot be written.
    if (ferror(stdout) != 0) return check_standard_output();
    return fail(core::ExitCode::error, error.what());
  } catch (const std::exception& error) {
    return fail(core::ExitCode::error, error.what());
  }
}

}  // namespace faultline::app
