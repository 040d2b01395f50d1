// SPDX-License-Identifier: Apache-2.0
// The store: what is written comes back; nothing is lost or half there; every file that cannot be
// used gets one sentence.
#include "faultline/store/store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "faultline/core/errors.hpp"
#include "faultline/store/journal.hpp"

namespace faultline::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

core::TrialToken token(std::uint64_t seed = 7) {
  core::TrialToken trial;
  trial.backend = "simulator";
  trial.subject = "gemv";
  trial.variant = "dropped_tail";
  trial.problem = "n=1 k=257 dtype=f16";
  trial.config = "stages=3";
  trial.seed = seed;
  trial.trial = 2;
  trial.perturbation.name = "verify";
  trial.perturbation.fresh_inputs = true;
  trial.module_hash = "0123456789abcdef";
  return trial;
}

FailingCase found(core::TrialToken trial = token()) {
  FailingCase one;
  one.trial = std::move(trial);
  one.origin = "verify";
  one.command = "faultline replay " + core::encode(one.trial);
  one.finding = "tail";
  one.reason = "the last elements are not added";
  one.failed = 2;
  one.trials = 3;
  return one;
}

core::RunRecord failed_run() {
  core::RunRecord record;
  record.command = "verify";
  record.subject = "gemv";
  record.variant = "dropped_tail";
  record.problem = "gemv n=1 k=257 dtype=f16";
  record.seed = ~0ull;
  record.provenance.started_at = "2026-01-02T03:04:05Z";
  record.provenance.backend.name = "simulator";
  record.provenance.command_line = "faultline verify 'gemv'; DROP TABLE runs; --";
  core::ConfigEvidence cell;
  cell.result.trials = 3;
  cell.result.failed = 2;
  record.evidence.configs.push_back(cell);
  record.verdict.outcome = core::Outcome::fail;
  record.verdict.summary = "fail(tail): it's the tail";
  core::Finding finding;
  finding.finding = core::FindingClass::tail;
  finding.headline = "the tail";
  finding.runner_up = core::FindingClass::accumulation;
  record.verdict.findings = {finding, finding};
  return record;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    std::string name = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~StoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const char* name = "store.db") const { return (folder_ / name).string(); }
  std::string bytes(const std::string& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(file, std::ios::binary) << text;
  }
  /// Any SQL on the file, by SQLite itself; the first column of the last row.
  std::string sql(const std::string& file, const std::string& text) const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    std::string last;
    const auto keep = [](void* to, int columns, char** values, char**) {
      *static_cast<std::string*>(to) = columns > 0 && values[0] ? values[0] : "NULL";
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), keep, &last, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
    return last;
  }
  /// The sentence of the EnvironmentError that `work` must throw.
  std::string refusal(const std::function<void()>& work) const {
    try {
      work();
    } catch (const core::EnvironmentError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::error);
      EXPECT_THAT(error.what(), AllOf(StartsWith("The store '"), Not(HasSubstr("\n"))));
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }

  std::filesystem::path folder_;
};

TEST_F(StoreTest, ARunComesBackAsItWas) {
  const core::RunRecord record = failed_run();
  {
    Store store(path());
    const std::int64_t run = store.begin_run(record);
    EXPECT_EQ(store.runs().front().finished_at, "");
    store.finish_run(run, record, {found()});
  }
  Store store(path(), {.access = Access::read});
  ASSERT_EQ(store.runs().size(), 1u);
  const RunSummary run = store.runs().front();
  EXPECT_EQ(run.command, "verify");
  EXPECT_EQ(run.variant, "dropped_tail");
  EXPECT_EQ(run.outcome, "fail");
  EXPECT_EQ(run.trials, 3u);
  EXPECT_EQ(run.failed, 2u);
  EXPECT_NE(run.finished_at, "");
  EXPECT_EQ(core::to_json(store.record(run.id)), core::to_json(record));
  EXPECT_EQ(sql(path(), "SELECT count(*) FROM findings WHERE class = 'tail' AND runner_up = "
                        "'accumulation'"),
            "2");
  EXPECT_EQ(sql(path(), "SELECT seed FROM runs"), "18446744073709551615");
  EXPECT_THROW(store.record(99), core::UsageError);
  EXPECT_THROW(store.failing_case(99), core::UsageError);
}

TEST_F(StoreTest, ACaseIsKeptOnceWithItsDates) {
  Store store(path());
  const std::int64_t first = store.begin_run(failed_run());
  store.update_run(first, failed_run(), {found()});  // a checkpoint
  store.finish_run(first, failed_run(), {found()});
  ASSERT_EQ(store.failing_cases("gemv", "dropped_tail", "simulator").size(), 1u);
  FailingCase kept = store.failing_cases().front();
  EXPECT_EQ(kept.times_seen, 1u);
  EXPECT_EQ(kept.trial, token());
  EXPECT_EQ(kept.command, found().command);
  EXPECT_EQ(kept.failed, 2u);
  EXPECT_EQ(kept.first_seen, kept.last_seen);
  EXPECT_EQ(kept.fixed_at, "");

  // Another build of the kernel: the same case, and the newer token.
  core::TrialToken rebuilt = token();
  rebuilt.module_hash = "fedcba9876543210";
  const std::int64_t second = store.begin_run(failed_run());
  store.finish_run(second, failed_run(), {found(rebuilt), found(token(8))});
  EXPECT_EQ(store.all_cases().size(), 2u);
  kept = store.failing_case(kept.id);
  EXPECT_EQ(kept.times_seen, 2u);
  EXPECT_EQ(kept.trial, rebuilt);

  // It passes, and is kept; then it fails again.
  store.update_cases({{kept.id, 0, 1}});
  EXPECT_THAT(store.failing_cases(), ElementsAre(testing::Field(&FailingCase::trial, token(8))));
  EXPECT_NE(store.failing_case(kept.id).fixed_at, "");
  EXPECT_EQ(store.failing_case(kept.id).times_seen, 2u);
  store.add_cases({found()});
  EXPECT_EQ(store.failing_case(kept.id).fixed_at, "");
  EXPECT_EQ(store.failing_case(kept.id).times_seen, 3u);
  store.update_cases({{kept.id, 0, 1}});
  store.update_cases({{kept.id, 1, 1}});
  EXPECT_EQ(store.failing_case(kept.id).fixed_at, "");
  EXPECT_EQ(store.failing_case(kept.id).times_seen, 4u);
  // A replay within a run that finds it, too: seen once more, not twice.
  const std::int64_t third = store.begin_run(failed_run());
  store.update_run(third, failed_run(), {found()});
  store.finish_run(third, failed_run(), {found()}, {{kept.id, 1, 1}});
  EXPECT_EQ(store.failing_case(kept.id).times_seen, 5u);
  EXPECT_TRUE(store.failing_cases("gemv", "register").empty());
  EXPECT_TRUE(store.failing_cases("gemv", "dropped_tail", "cuda").empty());
}

TEST_F(StoreTest, TheEndOfARunIsThereWholeOrNotAtAll) {
  Store store(path());
  const std::int64_t run = store.begin_run(failed_run());
  // The last of its statements fails, or the process is killed at it.
  sql(path(), "CREATE TRIGGER refuse BEFORE INSERT ON failing_cases "
              "BEGIN SELECT RAISE(ABORT, 'refused by a trigger'); END");
  core::RunRecord ended = failed_run();
  ended.verdict.outcome = core::Outcome::error;
  const auto nothing_of_it_is_there = [&] {
    EXPECT_EQ(sql(path(), "SELECT outcome FROM runs"), "fail");
    EXPECT_EQ(sql(path(), "SELECT finished_at FROM runs"), "NULL");
    EXPECT_EQ(sql(path(), "SELECT count(*) FROM findings"), "0");
    EXPECT_EQ(sql(path(), "PRAGMA integrity_check"), "ok");
  };
  EXPECT_THAT(refusal([&] { store.finish_run(run, ended, {found()}); }),
              HasSubstr("refused by a trigger"));
  nothing_of_it_is_there();

  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(+[](sqlite3* db, char**, const void*) {
      return sqlite3_create_function(
          db, "killed", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, nullptr,
          [](sqlite3_context*, int, sqlite3_value**) { kill(getpid(), SIGKILL); }, nullptr,
          nullptr);
    }));
    sql(path(), "DROP TRIGGER refuse; CREATE TRIGGER die BEFORE INSERT ON failing_cases "
                "BEGIN SELECT killed(); END");
    Store(path()).finish_run(run, ended, {found()});
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  nothing_of_it_is_there();
  sql(path(), "DROP TRIGGER die");
  store.finish_run(run, ended, {found()});
  EXPECT_EQ(sql(path(), "SELECT outcome FROM runs"), "error");
  EXPECT_EQ(sql(path(), "SELECT count(*) FROM findings"), "2");
}

TEST_F(StoreTest, ARunThatIsKilledKeepsWhatItHadDone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Store store(path());
    const std::int64_t run = store.begin_run(failed_run());
    store.update_run(run, failed_run(), {found()});
    kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  Store store(path());
  ASSERT_EQ(store.runs().size(), 1u);
  EXPECT_EQ(store.runs().front().finished_at, "");
  EXPECT_EQ(store.runs().front().failed, 2u);
  EXPECT_EQ(store.failing_cases().size(), 1u);
}

TEST_F(StoreTest, TheFileIsOneFileWhenItIsClosed) {
  { Store(path()).add_cases({found()}); }
  EXPECT_EQ(Store(path(), {.access = Access::read}).all_cases().size(), 1u);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre("store.db"));
}

TEST_F(StoreTest, FilesOfSomethingElseAreLeftAlone) {
  write(path("text"), std::string(200, 'x'));
  EXPECT_THAT(refusal([&] { Store store(path("text")); }), HasSubstr("it is no SQLite database"));
  EXPECT_EQ(bytes(path("text")), std::string(200, 'x'));
  sql(path("other"), "CREATE TABLE songs (title TEXT)");
  const std::string before = bytes(path("other"));
  EXPECT_THAT(refusal([&] { Store store(path("other")); }),
              HasSubstr("it is a database of something else (tables: songs)"));
  EXPECT_EQ(bytes(path("other")), before);
  { Store store(path()); }
  sql(path(), "PRAGMA user_version = 7");
  EXPECT_THAT(refusal([&] { Store store(path()); }),
              HasSubstr("written by a newer faultline (schema 7; this one knows schemas up to 1)"));
  write(path("empty"), "");
  Store(path("empty")).add_cases({found()});  // as mktemp makes it
  EXPECT_EQ(Store(path("empty")).all_cases().size(), 1u);
}

TEST_F(StoreTest, PlacesThatHoldNoFileAreRefused) {
  EXPECT_THAT(refusal([&] { Store store(path("no/such/folder")); }), HasSubstr("does not exist"));
  EXPECT_THAT(refusal([&] { Store store(folder_.string()); }), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal([&] { Store store("/dev/full"); }), HasSubstr("no regular file"));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { Store store(path("fifo")); }), HasSubstr("no regular file"));
  EXPECT_THAT(refusal([&] { Store store(path("absent"), {.access = Access::read}); }),
              HasSubstr("does not exist"));
  EXPECT_FALSE(std::filesystem::exists(path("absent")));
}

TEST_F(StoreTest, ADamagedFileIsSaidToBe) {
  {
    Store store(path());
    for (std::uint64_t seed = 0; seed < 100; ++seed) store.add_cases({found(token(seed))});
  }
  std::string damaged = bytes(path());
  // All but the first page, whose header says what the file is.
  for (std::size_t i = 4096; i < damaged.size(); ++i) damaged[i] = 'x';
  write(path(), damaged);
  EXPECT_THAT(refusal([&] { Store(path()).all_cases(); }), HasSubstr("it is damaged"));
  EXPECT_THAT(refusal([&] { Store(path()).add_cases({found()}); }), HasSubstr("it is damaged"));
}

TEST_F(StoreTest, AFullDiskAndALimitLoseNothing) {
  Store store(path(), {.max_pages = 20});
  store.add_cases({found()});
  core::RunRecord large = failed_run();
  large.analysis_plan = std::string(100000, 'p');
  EXPECT_THAT(refusal([&] { store.begin_run(large); }), HasSubstr("the disk is full"));
  EXPECT_EQ(store.all_cases().size(), 1u);
  store.add_cases({found(token(9))});  // and it goes on
  EXPECT_EQ(store.all_cases().size(), 2u);
  EXPECT_TRUE(store.runs().empty());

  // The end of a run of which only a part fits: nothing of it is there.
  const std::int64_t run = store.begin_run(failed_run());
  std::vector<FailingCase> many;
  for (std::uint64_t seed = 100; seed < 200; ++seed) many.push_back(found(token(seed)));
  EXPECT_THAT(refusal([&] { store.finish_run(run, failed_run(), many); }),
              HasSubstr("the disk is full"));
  EXPECT_EQ(store.runs().front().finished_at, "");
  EXPECT_EQ(store.all_cases().size(), 2u);

  // The limit of the process on the size of files, as `ulimit -f` sets it.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 60000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string sentence = refusal([&] { Store(path("b.db")).begin_run(large); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(sentence, HasSubstr("the limit on the size of files is reached"));
  EXPECT_TRUE(Store(path("b.db")).runs().empty());
}

TEST_F(StoreTest, AnotherWriterIsWaitedFor) {
  { Store store(path()); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  Store hurried(path(), {.wait_ms = 50});
  EXPECT_THAT(refusal([&] { hurried.add_cases({found()}); }),
              HasSubstr("another process has held it for more than 0.05 s"));
  EXPECT_TRUE(hurried.all_cases().empty());  // readers need not wait
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  });
  Store(path()).add_cases({found()});
  other.join();
  sqlite3_close(db);
  EXPECT_EQ(hurried.all_cases().size(), 1u);
}

TEST_F(StoreTest, SeveralProcessesOpenANewFileAtOnce) {
  // A writer keeps WAL mode from being set, for which SQLite does not wait by itself.
  write(path(), "");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_THAT(refusal([&] { Store store(path(), {.wait_ms = 50}); }),
              HasSubstr("another process has held it for more than 0.05 s"));
  std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  });
  Store(path()).add_cases({found()});
  writer.join();
  sqlite3_close(db);

  constexpr int kProcesses = 6;
  for (int round = 0; round < 4; ++round) {
    const std::string file = path(("new" + std::to_string(round)).c_str());
    const auto start = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(fork());
      ASSERT_GE(children.back(), 0);
      if (children.back() != 0) continue;
      std::this_thread::sleep_until(start);
      try {
        Store(file).add_cases({found(token(static_cast<std::uint64_t>(i)))});
      } catch (const core::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
      _exit(0);
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(Store(file).all_cases().size(), static_cast<std::size_t>(kProcesses));
  }
}

TEST_F(StoreTest, WhereThereIsNoWalModeNothingIsKept) {
  // Locks by files beside the database: no shared memory, and therefore no WAL mode.
  ASSERT_EQ(sqlite3_vfs_register(sqlite3_vfs_find("unix-dotfile"), 1), SQLITE_OK);
  const std::string sentence = refusal([&] { Store store(path()); });
  ASSERT_EQ(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
  EXPECT_THAT(sentence, HasSubstr("it cannot be put into WAL mode"));
}

TEST_F(StoreTest, NamesThatSqliteReadsOtherwiseAreFiles) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  for (const char* name : {":memory:", "file:a?mode=memory"}) {
    Store(name).add_cases({found()});
    EXPECT_TRUE(std::filesystem::exists(folder_ / name)) << name;
    EXPECT_EQ(Store(name).all_cases().size(), 1u) << name;
  }
  std::filesystem::current_path(before);
}

TEST_F(StoreTest, ACaseThatCannotBeReadLeavesTheOthers) {
  {
    Store store(path());
    store.add_cases({found(), found(token(8))});
  }
  sql(path(), "UPDATE failing_cases SET token = 'fl2.AAAA' WHERE seed = '7'");
  Store store(path());
  const std::vector<FailingCase> cases = store.failing_cases("gemv", "dropped_tail", "simulator");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].unreadable, "");
  EXPECT_EQ(cases[0].trial, token(8));
  EXPECT_THAT(cases[1].unreadable, HasSubstr("version 'fl2' is not known"));
  EXPECT_EQ(cases[1].trial.subject, "gemv");
  EXPECT_EQ(cases[1].trial.problem, token().problem);
  EXPECT_EQ(cases[1].trial.config, token().config);
  EXPECT_EQ(cases[1].trial.seed, 7u);
  // Found again, it has a token that can be read.
  store.add_cases({found()});
  EXPECT_EQ(store.failing_case(cases[1].id).unreadable, "");
}

TEST_F(StoreTest, APassKeepsTheRateAtWhichItFailed) {
  Store store(path());
  store.add_cases({found()});
  const std::int64_t id = store.failing_cases().front().id;
  store.update_cases({{id, 0, 200}});
  EXPECT_EQ(store.failing_case(id).failed, 2u);
  EXPECT_EQ(store.failing_case(id).trials, 3u);
  EXPECT_NE(store.failing_case(id).fixed_at, "");
  store.update_cases({{id, 5, 200}});
  EXPECT_EQ(store.failing_case(id).failed, 5u);
  EXPECT_EQ(store.failing_case(id).trials, 200u);
}

TEST_F(StoreTest, AReadOnlyFileIsSaidToBe) {
  Store(path()).add_cases({found()});
  std::filesystem::permissions(path(), std::filesystem::perms{0444});
  std::filesystem::permissions(folder_, std::filesystem::perms{0555});
  // The superuser may write any file, so that a child does it as nobody.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    const bool read = Store(path(), {.access = Access::read}).all_cases().size() == 1 &&
                      Store("/" + path(), {.access = Access::read}).all_cases().size() == 1;
    const std::string written = refusal([&] { Store store(path()); });
    const std::string made = refusal([&] { Store store(path("new.db")); });
    const bool said =
        read &&
        written.find("no permission to write, or a read-only file system") != std::string::npos &&
        made.find("no permission") != std::string::npos;
    _exit(said ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::permissions(folder_, std::filesystem::perms{0755});
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Store(path()).all_cases().size(), 1u);
}

class JournalTest : public StoreTest {
 protected:
  using Start = Journal::Start;
  std::string folder() const { return folder_.string(); }
  std::string file() const { return Journal::path_in(folder()); }
  /// Three entries, of which the second holds what separates.
  void write_three() const {
    Journal journal(folder(), Start::anew);
    journal.append({"trials", "first", "1"});
    journal.append({"row", "a\tb\\t", "{\n \"x\": \"\\n\"\n}"});
    journal.append({"trials", "third", std::string(1000, 'x')});
  }
  /// The one sentence of an error; empty when there is none.
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const core::EnvironmentError& error) {
      EXPECT_THAT(error.what(), AllOf(StartsWith("The journal '"), Not(HasSubstr("\n"))));
      return error.what();
    }
    return {};
  }
  std::size_t whole_entries() const { return Journal(folder(), Start::resumed).entries().size(); }
};

TEST_F(JournalTest, WhatIsWrittenComesBack) {
  write_three();
  {
    Journal journal(folder(), Start::resumed);
    ASSERT_EQ(journal.entries().size(), 3u);
    EXPECT_EQ(journal.entries()[1].key, "a\tb\\t");
    EXPECT_EQ(journal.entries()[1].value, "{\n \"x\": \"\\n\"\n}");
    journal.append({"trials", "fourth", ""});
    EXPECT_EQ(journal.entries().size(), 3u);  // what was there when it was opened
    EXPECT_EQ(Journal::read(folder()).size(), 4u);
    EXPECT_THAT(refusal([&] { Journal other(folder(), Start::resumed); }),
                HasSubstr("is held by another process"));
    EXPECT_THAT(refusal([&] { Journal other(folder(), Start::anew); }),
                HasSubstr("is held by another process"));
    EXPECT_TRUE(Journal::is_held(folder()));
    EXPECT_THAT(refusal([&] { Journal::require_free(folder()); }),
                HasSubstr("is held by another process"));
    EXPECT_THAT(refusal([&] { Journal::set_aside(folder()); }),
                HasSubstr("is held by another process"));
    EXPECT_TRUE(std::filesystem::exists(file()));
  }
  EXPECT_FALSE(Journal::is_held(folder()));
  Journal::require_free(folder());
  const std::string old = bytes(file());
  Journal journal(folder(), Start::anew);
  EXPECT_EQ(bytes(path("journal.previous.tsv")), old);
  EXPECT_EQ(bytes(file()), "");
  journal.finish();
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(Journal::read(folder()).empty());
  EXPECT_FALSE(Journal::is_held(folder()));
  Journal::set_aside(folder());  // there is none
  EXPECT_EQ(bytes(path("journal.previous.tsv")), old);
  write_three();
  Journal::set_aside(folder());
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_NE(bytes(path("journal.previous.tsv")), old);
}

TEST_F(JournalTest, LongValuesStayInTheFile) {
  std::string text;
  for (int i = 0; text.size() < 3 * Journal::kLongValue; ++i) text += std::to_string(i) + "\t\\\n";
  {
    Journal journal(folder(), Start::anew);
    journal.append({"trials", "long", text});
    journal.append({"trials", "as long as can be", std::string(Journal::kLongValue, 'x')});
    journal.append({"trials", "longer", std::string(Journal::kLongValue + 1, 'y')});
    EXPECT_EQ(journal.bytes(), std::filesystem::file_size(file()));
  }
  Journal journal(folder(), Start::resumed);
  ASSERT_EQ(journal.entries().size(), 3u);
  EXPECT_EQ(journal.entries()[0].value, "");
  EXPECT_EQ(journal.value_of(journal.entries()[0]), text);
  EXPECT_EQ(journal.entries()[1].value, std::string(Journal::kLongValue, 'x'));
  EXPECT_EQ(journal.value_of(journal.entries()[1]), journal.entries()[1].value);
  EXPECT_EQ(journal.entries()[2].value, "");
  EXPECT_EQ(journal.value_of(journal.entries()[2]), std::string(Journal::kLongValue + 1, 'y'));
  journal.append({"trials", "short", "z"});
  EXPECT_EQ(journal.value_of(journal.entries()[0]), text);
  EXPECT_EQ(Journal::read(folder()).size(), 4u);
}

TEST_F(JournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  write_three();
  const std::string whole = bytes(file());
  const std::size_t third = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = third; size < whole.size(); ++size) {
    write(file(), whole.substr(0, size));
    EXPECT_EQ(Journal::read(folder()).size(), 2u) << size;
  }
  for (const std::string& tail : {whole.substr(third, 40), whole.substr(third, 40) + "\n",
                                  std::string(5000, '\0'), std::string("\n\n\n")}) {
    write(file(), whole.substr(0, third) + tail);
    EXPECT_EQ(whole_entries(), 2u);
    EXPECT_EQ(bytes(file()), whole.substr(0, third));
  }
  Journal journal(folder(), Start::resumed);
  journal.append({"trials", "third", std::string(1000, 'x')});
  EXPECT_EQ(bytes(file()), whole);
}

TEST_F(JournalTest, DamageInFrontOfWholeLinesIsRefused) {
  write_three();
  const std::string whole = bytes(file());
  const std::size_t second = whole.find('\n') + 1;
  const std::size_t third = whole.rfind('\n', whole.size() - 2) + 1;
  // But for the newline of the second: the third is torn, too, without it.
  for (std::size_t at = 0; at < third - 1; at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write(file(), damaged);
    const std::string said = refusal([&] { Journal journal(folder(), Start::resumed); });
    EXPECT_THAT(said, HasSubstr(at < second ? "damaged at line 1" : "damaged at line 2")) << at;
    EXPECT_EQ(bytes(file()), damaged);
  }
  EXPECT_THAT(refusal([&] { Journal journal(path("absent"), Start::resumed); }),
              HasSubstr("No such file"));
}

TEST_F(JournalTest, AFullDiskLeavesTheEntriesBefore) {
  signal(SIGXFSZ, SIG_IGN);
  write_three();
  const std::string whole = bytes(file());
  Journal journal(folder(), Start::resumed);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = whole.size() + 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = refusal([&] {
    journal.append({"trials", "large", std::string(500, 'y')});
  });
  const bool fits = refusal([&] { journal.append({"trials", "small", ""}); }).empty();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(said, HasSubstr("may have to be done again"));
  EXPECT_TRUE(fits);
  EXPECT_EQ(Journal::read(folder()).size(), 4u);
  EXPECT_EQ(bytes(file()).substr(0, whole.size()), whole);
}

}  // namespace
}  // namespace faultline::store
