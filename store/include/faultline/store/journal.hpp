// SPDX-License-Identifier: Apache-2.0
// What a run has finished so far, so that one that was cut off can be continued.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::store {

/// One thing that was finished. What kinds there are, and what their keys and values mean, is the
/// business of who writes them.
struct JournalEntry {
  std::string kind{}, key{}, value{};  ///< any text
  /// Of one that was read with a value of more than Journal::kLongValue bytes: where in the file
  /// the value stands, which is then not in `value`; Journal::value_of() reads it.
  std::uint64_t value_at = 0, value_bytes = 0;
};

/// A file that only grows, of lines
///
///     CHECKSUM <tab> KIND <tab> KEY <tab> VALUE <newline>
///
/// with \t, \n and \\ for a tab, a newline and a backslash. After kill -9, a full disk or a power
/// cut the last lines may be torn: they are cut off when the journal is opened, and what they held
/// is done again. A line that is damaged in front of one that is whole refuses the file.
///
/// Errors (EnvironmentError, exit 3) are one sentence with the path, the reason and what to do: no
/// permission, full disk, damaged, or held by another process.
class Journal {
 public:
  enum class Start : std::uint8_t {
    anew,     ///< one that is there is renamed to journal.previous.tsv
    resumed,  ///< it must be there
  };
  /// The file `folder`/journal.tsv. It is this process's alone until it is destroyed.
  Journal(const std::string& folder, Start start);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  static std::string path_in(const std::string& folder);
  /// The entries of a journal that is left as it is, torn lines apart, without long values. Empty
  /// when there is none.
  static std::vector<JournalEntry> read(const std::string& folder);

  /// Whether another process, or another Journal of this one, has the journal of `folder`: the run
  /// there is not over.
  static bool is_held(const std::string& folder);
  /// EnvironmentError when it is.
  static void require_free(const std::string& folder);
  /// Renames the journal of `folder`, if there is one, to journal.previous.tsv. EnvironmentError,
  /// and nothing is renamed, when it is held.
  static void set_aside(const std::string& folder);

  /// In memory there are keys and short values only.
  static constexpr std::uint64_t kLongValue = 64 << 10;
  /// The value of one of entries(). EnvironmentError when a long one cannot be read.
  std::string value_of(const JournalEntry& entry) const;
  /// Of the file.
  std::uint64_t bytes() const { return size_; }

  const std::string& path() const { return path_; }
  /// What was there when it was opened, in order.
  const std::vector<JournalEntry>& entries() const { return entries_; }

  /// After an error the file is as it was before, and may be appended to again.
  void append(const JournalEntry& entry);
  /// The run is finished: removes the file.
  void finish();

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::vector<JournalEntry> entries_;
  std::chrono::steady_clock::time_point synced_{};
};

}  // namespace faultline::store
