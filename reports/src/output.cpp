// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "faultline/core/errors.hpp"

namespace faultline::reports {
namespace {

std::string reason_of(int error) {
  switch (error) {
  case ESPIPE: return "it is a named pipe (FIFO), which would wait for its reader";
  case ENOSPC: return "the disk is full";
  case EDQUOT: return "the disk quota is used up";
  case ENOENT: return "its folder does not exist";
  case EACCES:
  case EPERM: return "no permission";
  case EROFS: return "the file system is read-only";
  case EISDIR: return "it is a folder";
  case ENOTDIR: return "a part of its path is not a folder";
  default: return std::strerror(error);
  }
}

constexpr std::string_view kReportAdvice =
    "Give a path that can be written, or - for standard output.";

[[noreturn]] void fail(const std::string& path, int error,
                       std::string_view advice = kReportAdvice) {
  throw core::EnvironmentError(
      fmt::format("Cannot write '{}': {}. {}", path, reason_of(error), advice));
}

using Parts = std::initializer_list<std::string_view>;

// Everything, or errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_all(int descriptor, Parts parts) {
  for (const std::string_view part : parts) {
    if (const int error = write_all(descriptor, part); error != 0) {
      return error;
    }
  }
  return 0;
}

void write_in_place(const std::string& path, Parts parts) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) {
    fail(path, errno);
  }
  int error = write_all(descriptor, parts);
  if (::close(descriptor) != 0 && error == 0) {
    error = errno;
  }
  if (error != 0) {
    fail(path, error);
  }
}

void write_standard_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (errno != EPIPE) {  // the reader had enough, as `head` does
      fail("-", errno != 0 ? errno : EIO);
    }
  }
}

// /dev/stdout and the like name an open file, not a place: a file renamed over it would not reach
// the reader.
bool names_open_file(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.rfind("/dev/fd/", 0) == 0 ||
         path.rfind("/proc/", 0) == 0;
}

// Where the file really lies: links are followed, also to a file that is not there yet.
std::string target_of(const std::string& path) {
  if (names_open_file(path)) {
    return path;
  }
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::error_code error;
  fs::path target = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, error); ++i) {
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target.string();
}

enum class Kind { absent, regular, folder, pipe, special };
Kind kind_of(const std::string& path) {
  if (names_open_file(path)) {
    return Kind::special;
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Kind::absent;
  }
  return S_ISREG(status.st_mode)    ? Kind::regular
         : S_ISDIR(status.st_mode)  ? Kind::folder
         : S_ISFIFO(status.st_mode) ? Kind::pipe
                                    : Kind::special;
}

// An open temporary file in the folder of `target`.
struct Temporary {
  int descriptor = -1;
  std::vector<char> name;
};
Temporary open_temporary(const std::string& path, const std::string& target,
                         std::string_view advice) {
  const std::string pattern = target + ".XXXXXX";
  Temporary temporary{-1, {pattern.begin(), pattern.end()}};
  temporary.name.push_back('\0');
  temporary.descriptor = ::mkostemp(temporary.name.data(), O_CLOEXEC);
  if (temporary.descriptor < 0) {
    fail(path, errno, advice);
  }
  return temporary;
}

// Permissions of the file that is replaced, or what a new file would have got.
mode_t mode_for(const std::string& target) {
  struct stat status {};
  if (::stat(target.c_str(), &status) == 0) {
    return status.st_mode & 07777;
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void write_file(const std::string& path, Parts parts, const std::string& shown,
                std::string_view advice) {
  const std::string target = target_of(path);
  switch (kind_of(target)) {
  case Kind::folder: fail(shown, EISDIR, advice);
  case Kind::pipe: fail(shown, ESPIPE, advice);
  case Kind::special: write_in_place(target, parts); return;
  case Kind::absent:
  case Kind::regular: break;
  }
  Temporary temporary = open_temporary(path, target, advice);
  int error = write_all(temporary.descriptor, parts);
  if (error == 0 && ::fchmod(temporary.descriptor, mode_for(target)) != 0) {
    error = errno;
  }
  if (error == 0 && ::fsync(temporary.descriptor) != 0) {
    error = errno;  // a full disk or a lost server may show only here
  }
  if (::close(temporary.descriptor) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && ::rename(temporary.name.data(), target.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(temporary.name.data());
    fail(shown, error, advice);
  }
}

}  // namespace

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    write_standard_output(text);
  } else {
    write_file(path, {text}, path, kReportAdvice);
  }
}

void write_output(const std::string& path, std::initializer_list<std::string_view> parts,
                  const std::string& shown) {
  write_file(path, parts, shown, "Give a path that can be written, or make room.");
}

void check_writable(const std::string& path, std::string_view wanted_advice) {
  if (path == "-") {
    return;
  }
  const std::string_view advice = wanted_advice.empty() ? kReportAdvice : wanted_advice;
  const std::string target = target_of(path);
  switch (kind_of(target)) {
  case Kind::folder: fail(path, EISDIR, advice);
  case Kind::pipe: fail(path, ESPIPE, advice);
  case Kind::special:
    if (::access(target.c_str(), W_OK) != 0) {
      fail(path, errno, advice);
    }
    return;
  case Kind::absent:
  case Kind::regular: break;
  }
  const Temporary temporary = open_temporary(path, target, advice);
  ::close(temporary.descriptor);
  ::unlink(temporary.name.data());
}

}  // namespace faultline::reports
