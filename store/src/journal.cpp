// SPDX-License-Identifier: Apache-2.0
#include "faultline/store/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"

namespace faultline::store {
namespace {

constexpr std::size_t kChecksumDigits = 16;

[[noreturn]] void fail(const std::string& path, int error, std::string_view advice) {
  throw core::EnvironmentError(fmt::format(
      "The journal '{}': {}. {}", path,
      error == ENOSPC || error == EDQUOT ? "the disk is full" : std::strerror(error), advice));
}

std::uint64_t checksum(std::string_view text) {
  std::uint64_t sum = core::mix64(text.size());
  for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    sum = core::mix64(sum ^ word);
  }
  return sum;
}

void add_escaped(std::string& line, std::string_view text) {
  for (const char c : text) {
    switch (c) {
    case '\\': line += "\\\\"; break;
    case '\t': line += "\\t"; break;
    case '\n': line += "\\n"; break;
    default: line += c;
    }
  }
}

std::string unescaped(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char c = text[++i];
    plain += c == 't' ? '\t' : c == 'n' ? '\n' : c;
  }
  return plain;
}

std::string to_line(const JournalEntry& entry) {
  std::string rest;
  rest.reserve(entry.kind.size() + entry.key.size() + entry.value.size() + 16);
  add_escaped(rest, entry.kind);
  rest += '\t';
  add_escaped(rest, entry.key);
  rest += '\t';
  add_escaped(rest, entry.value);
  return fmt::format("{:016x}\t{}\n", checksum(rest), rest);
}

/// Without its newline; empty when it is damaged. `at`: where in the file the line begins.
std::optional<JournalEntry> from_line(std::string_view line, std::uint64_t at) {
  if (line.size() <= kChecksumDigits || line[kChecksumDigits] != '\t') return std::nullopt;
  const std::string_view rest = line.substr(kChecksumDigits + 1);
  if (line.substr(0, kChecksumDigits) != fmt::format("{:016x}", checksum(rest))) {
    return std::nullopt;
  }
  const std::size_t first = rest.find('\t');
  const std::size_t second = first == rest.npos ? rest.npos : rest.find('\t', first + 1);
  if (second == rest.npos) return std::nullopt;
  JournalEntry entry{.kind = unescaped(rest.substr(0, first)),
                     .key = unescaped(rest.substr(first + 1, second - first - 1))};
  const std::string_view value = rest.substr(second + 1);
  if (value.size() <= Journal::kLongValue) {
    entry.value = unescaped(value);
  } else {
    entry.value_at = at + kChecksumDigits + 1 + second + 1;
    entry.value_bytes = value.size();
  }
  return entry;
}

/// The lines of a file, of which one at a time is in memory.
class Lines {
 public:
  Lines(int descriptor, const std::string& path) : descriptor_(descriptor), path_(path) {}

  /// On to the next line; false when there is none.
  bool next() {
    text_.erase(0, size_);
    begin_ += size_;
    std::size_t searched = 0;
    std::size_t newline = text_.find('\n');
    while (newline == text_.npos) {
      searched = text_.size();
      if (!read_more()) break;
      newline = text_.find('\n', searched);
    }
    whole_ = newline != text_.npos;
    size_ = whole_ ? newline + 1 : text_.size();
    return size_ > 0;
  }
  /// Whether it ends with a newline, which is no part of line().
  bool is_whole() const { return whole_; }
  std::string_view line() const { return std::string_view(text_).substr(0, size_ - whole_); }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return begin_ + size_; }

 private:
  bool read_more() {
    std::array<char, 1 << 16> block;
    while (true) {
      const ssize_t got = ::pread(descriptor_, block.data(), block.size(),
                                  static_cast<off_t>(begin_ + text_.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(path_, errno, "Begin anew with --run.");
      text_.append(block.data(), static_cast<std::size_t>(got));
      return got > 0;
    }
  }

  int descriptor_;
  const std::string& path_;
  std::string text_;
  std::uint64_t begin_ = 0;
  std::size_t size_ = 0;  ///< of the line, at the beginning of text_
  bool whole_ = false;
};

struct Contents {
  std::vector<JournalEntry> entries;
  std::uint64_t whole_bytes = 0;  ///< up to the first torn line
};

Contents parse(int descriptor, const std::string& path) {
  Contents contents;
  std::size_t torn_line = 0;  // from 1
  std::size_t number = 0;
  for (Lines lines(descriptor, path); lines.next();) {
    ++number;
    std::optional<JournalEntry> entry;
    if (lines.is_whole()) entry = from_line(lines.line(), lines.begin());
    if (entry && torn_line > 0) {
      throw core::EnvironmentError(
          fmt::format("The journal '{}' is damaged at line {}, in front of lines that are whole: "
                      "what it held cannot be trusted. Begin anew with --run.",
                      path, torn_line));
    }
    if (entry) {
      contents.entries.push_back(std::move(*entry));
      contents.whole_bytes = lines.end();
    } else if (torn_line == 0) {
      torn_line = number;
    }
  }
  return contents;
}

[[noreturn]] void fail_held(const std::string& path) {
  throw core::EnvironmentError(
      fmt::format("The journal '{}' is held by another process, whose run is not over: wait for "
                  "it, or give --run another folder.",
                  path));
}

/// EnvironmentError when another process holds the file.
void lock(int descriptor, const std::string& path) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(descriptor);
  if (error == EWOULDBLOCK) fail_held(path);
  fail(path, error, "Give --run another folder.");
}

void rename_to_previous(const std::string& folder) {
  const std::string path = Journal::path_in(folder);
  if (::rename(path.c_str(), (folder + "/journal.previous.tsv").c_str()) != 0) {
    fail(path, errno, "Give --run another folder.");
  }
}

int open_file(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) fail(path, errno, "Give --run a folder that can be written.");
  return descriptor;
}

}  // namespace

std::string Journal::path_in(const std::string& folder) { return folder + "/journal.tsv"; }

std::vector<JournalEntry> Journal::read(const std::string& folder) {
  const std::string path = path_in(folder);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (descriptor < 0) fail(path, errno, "Begin anew with --run.");
  try {
    std::vector<JournalEntry> entries = parse(descriptor, path).entries;
    ::close(descriptor);
    return entries;
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

std::string Journal::value_of(const JournalEntry& entry) const {
  if (entry.value_bytes == 0) return entry.value;
  std::string text(entry.value_bytes, '\0');
  for (std::size_t got = 0; got < text.size();) {
    const ssize_t now = ::pread(descriptor_, text.data() + got, text.size() - got,
                                static_cast<off_t>(entry.value_at + got));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) fail(path_, now < 0 ? errno : EIO, "Begin anew with --run.");
    got += static_cast<std::size_t>(now);
  }
  return unescaped(text);
}

bool Journal::is_held(const std::string& folder) {
  const int descriptor = ::open(path_in(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

void Journal::require_free(const std::string& folder) {
  if (is_held(folder)) fail_held(path_in(folder));
}

void Journal::set_aside(const std::string& folder) {
  const std::string path = path_in(folder);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && errno == ENOENT) return;
  if (descriptor < 0) fail(path, errno, "Give --run another folder.");
  lock(descriptor, path);
  try {
    rename_to_previous(folder);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

Journal::Journal(const std::string& folder, Start start) : path_(path_in(folder)) {
  if (start == Start::anew) {
    descriptor_ = open_file(path_, O_RDWR | O_CREAT);
    lock(descriptor_, path_);
    struct stat status {};
    if (fstat(descriptor_, &status) == 0 && status.st_size > 0) {
      try {
        rename_to_previous(folder);
      } catch (...) {
        ::close(descriptor_);
        throw;
      }
      ::close(descriptor_);
      descriptor_ = open_file(path_, O_RDWR | O_CREAT | O_EXCL);
      lock(descriptor_, path_);
    }
    return;
  }
  descriptor_ = open_file(path_, O_RDWR);
  lock(descriptor_, path_);
  try {
    Contents contents = parse(descriptor_, path_);
    entries_ = std::move(contents.entries);
    size_ = contents.whole_bytes;
    if (ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) {
      fail(path_, errno, "Begin anew with --run.");
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::append(const JournalEntry& entry) {
  constexpr std::chrono::seconds kBetweenSyncs(1);
  const std::string line = to_line(entry);
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t now = ::pwrite(descriptor_, line.data() + written, line.size() - written,
                                 static_cast<off_t>(size_ + written));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) {
      const int error = errno;
      // What was written of the line is torn; were it left, the next one would be behind it.
      if (written > 0 && ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) {
        fail(path_, errno, "What comes now is not kept.");
      }
      fail(path_, error, "What comes now may have to be done again by --resume.");
    }
    written += static_cast<std::size_t>(now);
  }
  size_ += line.size();
  const auto now = std::chrono::steady_clock::now();
  if (now - synced_ < kBetweenSyncs) return;
  fdatasync(descriptor_);
  synced_ = now;
}

void Journal::finish() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    fail(path_, errno, "Remove it: the run is finished.");
  }
}

}  // namespace faultline::store
