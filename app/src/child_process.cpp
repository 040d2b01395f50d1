// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>

extern char** environ;

namespace faultline::app {
namespace {

constexpr std::size_t kKept = 1 << 16;

/// Append what the pipe holds now; keep the end.
void drain(int pipe, std::string& text) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = read(pipe, bytes.data(), bytes.size());
    if (count <= 0) return;
    text.append(bytes.data(), static_cast<std::size_t>(count));
    if (text.size() > 2 * kKept) text.erase(0, text.size() - kKept);
  }
}

/// Ours, without the store: what a child finds is this run's, which keeps it or does not.
std::vector<char*> environment_of_child() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with("FAULTLINE_STORE=")) continue;
    variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, double limit_s,
                      const std::atomic<bool>& stop, const std::vector<std::string>& tool) {
  ChildResult result;
  std::vector<std::string> words = tool;
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  words.push_back(tool.empty() ? "faultline" : self);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (tool.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  // A process group of its own: a tool has children that must go with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const std::vector<char*> variables = environment_of_child();
  pid_t child = 0;
  const int failed = tool.empty() ? posix_spawn(&child, "/proc/self/exe", &actions, &attributes,
                                                argv.data(), variables.data())
                                  : posix_spawnp(&child, tool[0].c_str(), &actions, &attributes,
                                                 argv.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return result;
  }
  result.started = true;

  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    drain(ends[0], result.said);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.stopped = stop.load();
    result.timed_out = !result.stopped && seconds > limit_s;
    if (result.stopped || result.timed_out) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  drain(ends[0], result.said);
  close(ends[0]);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::string last_line(const std::string& text, std::size_t most) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return {};
  const std::size_t begin = text.find_last_of('\n', end);
  const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
  return text.substr(from, std::min(end + 1 - from, most));
}

}  // namespace faultline::app
