// SPDX-License-Identifier: Apache-2.0
// Runs, findings and failing cases in one SQLite file (docs/store.md has the schema). What failed
// is kept with all that reruns it, so that the next run can begin with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"
#include "faultline/core/token.hpp"

namespace faultline::store {

/// The layout that this build reads and writes (PRAGMA user_version).
inline constexpr int kSchemaVersion = 1;

/// A trial that failed, and what became of it. Two cases are the same when their origins and their
/// trials are, the build of the kernel apart.
struct FailingCase {
  std::int64_t id = 0;       ///< given by the store
  core::TrialToken trial{};  ///< subject, variant, problem, config, data, seed, schedule, ...
  std::string origin{};      ///< "verify", "stress", "race", or the property that found it
  std::string command{};     ///< reruns it, "faultline replay fl1..."
  std::string finding{};     ///< class of the first error of the run that found it
  std::string reason{};      ///< its headline
  std::uint64_t failed = 0;  ///< of `trials`, where it was last seen failing
  std::uint64_t trials = 0;
  std::string first_seen{}, last_seen{};  ///< failing; UTC, ISO 8601
  std::uint64_t times_seen = 0;
  std::string fixed_at{};  ///< when it was found to pass; empty: it failed when last tried
  /// Not empty: why the token cannot be read (another faultline wrote it). Of `trial` only the
  /// subject, variant, problem, config, backend and seed are known, and it cannot be run.
  std::string unreadable{};
};

/// What replaying a stored case showed.
struct CaseResult {
  std::int64_t id = 0;
  std::uint64_t failed = 0, trials = 0;
};

/// One run in short; record() has all of it.
struct RunSummary {
  std::int64_t id = 0;
  std::string command{}, subject{}, variant{}, problem{}, config{}, backend{};
  std::string started_at{};
  std::string finished_at{};  ///< empty: it did not end; what it had done is there
  std::string outcome{};      ///< "pass", "fail", ...
  std::string summary{};
  std::uint64_t trials = 0, failed = 0;
};

enum class Access : std::uint8_t {
  write,  ///< the file is made when it is not there
  read,   ///< it must be there; nothing is changed
};

struct StoreOptions {
  Access access = Access::write;
  int wait_ms = 5000;           ///< for another process that is writing
  std::uint64_t max_pages = 0;  ///< of 4 KiB: more is refused as a full disk is; 0: no limit
};

/// An open store. Every change is one transaction of SQLite in WAL mode: after kill -9 or a power
/// cut it is there whole or not at all. Several processes may use one file; a Store belongs to one
/// thread at a time.
///
/// Errors (EnvironmentError, exit 3) are one sentence with the path, the reason and what to do: no
/// permission, read-only, full disk, locked by another process, damaged, not SQLite, a database of
/// something else, or of a newer faultline.
class Store {
 public:
  explicit Store(std::string path, const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& path() const;

  /// A run that has begun, as far as its record says; its number.
  std::int64_t begin_run(const core::RunRecord& record);
  /// What an unfinished run has done so far, in place of what was kept of it, and what became of
  /// stored cases that it replayed: one that failed again counts as seen again, one that did not is
  /// fixed, with the date. Give each result once: another process may have seen the case since.
  void update_run(std::int64_t run, const core::RunRecord& so_far,
                  const std::vector<FailingCase>& cases,
                  const std::vector<CaseResult>& replayed = {});
  /// The same at the end of a run.
  void finish_run(std::int64_t run, const core::RunRecord& record,
                  const std::vector<FailingCase>& cases,
                  const std::vector<CaseResult>& replayed = {});

  /// Failing cases outside a run (a property suite).
  void add_cases(const std::vector<FailingCase>& cases);
  void update_cases(const std::vector<CaseResult>& replayed);

  /// Newest first.
  std::vector<RunSummary> runs() const;
  /// UsageError when there is no such run.
  core::RunRecord record(std::int64_t run) const;

  /// Cases that failed when they were last tried, the one seen last first. An empty name: any.
  std::vector<FailingCase> failing_cases(const std::string& subject = {},
                                         const std::string& variant = {},
                                         const std::string& backend = {}) const;
  /// The fixed ones too.
  std::vector<FailingCase> all_cases() const;
  /// UsageError when there is no such case.
  FailingCase failing_case(std::int64_t id) const;

 private:
  class Database;
  std::unique_ptr<Database> database_;
};

}  // namespace faultline::store
