// SPDX-License-Identifier: Apache-2.0
// From evidence to a finished run: verdict, record, reports, exit code.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "faultline/core/run_record.hpp"
#include "faultline/store/journal.hpp"
#include "faultline/store/store.hpp"
#include "faultline/stress/stored_cases.hpp"

namespace faultline::app {

/// Print the record, unless a report goes to standard output, and write the reports asked for.
/// EnvironmentError for the first of those that could not be written, after the others.
void show_record(const core::RunRecord& record, const Options& options);

/// How a run that was cut off is continued, on stderr unless --quiet.
void say_cut_off(const std::string& command, const Options& options);

/// Gathers one run. Construct before the work starts (it checks that every report can be written
/// and notes the time; with --run it replaces the record of an earlier run by one that says that
/// this run is not finished; with --store it opens the store), finish() after it.
class Run {
 public:
  Run(const Context& context, const char* command);

  core::RunRecord& record() { return record_; }
  /// Identity of what runs; modules give the hashes and the source excerpts. Before the trials: it
  /// writes the unfinished record anew.
  void identify(const kernels::ResolvedTrial& trial);
  /// Race mode of the trials, when it is not that of the options (replay).
  void use_race_mode(core::RaceMode race) { race_ = race; }
  void use_backend(const core::BackendInfo& info);
  void use_modules(const core::Program& program);

  /// The store of --store; nullptr without it.
  store::Store* store() { return store_.get(); }

  /// With --run or --resume, of a run that can be continued: what the run has finished; otherwise
  /// nullptr.
  store::Journal* journal() { return journal_.get(); }
  /// With a journal: the backend with a memory of what was run (stress::make_resumable()).
  /// `stop`: see there. Valid as long as this object.
  std::unique_ptr<core::Backend> keep_results(std::unique_ptr<core::Backend> backend,
                                              const std::atomic<bool>* stop);
  /// A run of --resume: the cases of the store that were replayed when it was begun, as they were
  /// then: the store may have changed since, or be another. Empty: this is none, or none were
  /// noted.
  std::optional<std::vector<store::FailingCase>> cases_replayed_before() const;
  void note_cases(const std::vector<store::FailingCase>& cases);
  /// identify_journal() with the record as it is now. Before any result: a journal that cannot say
  /// what it is of is given up, with a warning.
  void identify_results(const std::string& tools = {});

  /// With --run or --store: keeps the record of unfinished work on disk, as often as costs little.
  /// Otherwise empty.
  std::function<void(const core::Evidence&)> checkpoint();

  /// With --run: the record as it stands, marked as unfinished. Otherwise nothing.
  void write_unfinished() const;

  /// What stored cases showed that were replayed first: part of every verdict from here on, and
  /// kept at once.
  void use_replayed(std::vector<stress::ReplayedCase> replayed);

  /// Diagnose, add what stored cases showed, add excerpts and replay lines, print, write the
  /// reports and the store; the exit code.
  int finish(core::Evidence evidence);
  /// The same for a record whose verdict is already set (bench).
  int finish_with_verdict();

  /// What ended a run before its plan was done: "interrupted" (Ctrl-C), or "the budget of 2 s ran
  /// out".
  std::string cut_by() const;

 private:
  /// The diagnosis; its summary says when races were not looked for.
  core::Verdict judge(const core::Evidence& evidence,
                      std::string_view cut_by = "interrupted") const;
  void add_excerpts();
  void add_replay_lines();
  void say_what_one_trial_hides();
  /// The record without evidence, marked as unfinished.
  core::RunRecord unfinished() const;
  /// What came of the replayed cases, unless the store has it: once, since another process may see
  /// a case fail later. Of a run that is continued with another store, that store's own cases
  /// alone.
  std::vector<store::CaseResult> results_to_store() const;
  void keep_in_store(const core::RunRecord& so_far);
  void finish_in_store(bool say_so);
  /// Of a finished run the journal goes; of one that was cut off it stays.
  void close_journal();
  /// With a journal: a line more. One that cannot be written costs a warning, the first alone.
  void note(const store::JournalEntry& entry);
  void warn_of_journal(const std::string& what);

  const Context& context_;
  core::RunRecord record_;
  core::RaceMode race_;
  std::vector<core::ModuleRef> modules_;
  std::string must_get_;  ///< of a mutant: said where it passes
  std::unique_ptr<store::Journal> journal_;
  bool warned_of_journal_ = false;
  std::unique_ptr<store::Store> store_;
  std::int64_t stored_run_ = 0;  ///< 0: not begun
  std::vector<stress::ReplayedCase> replayed_;
  bool replayed_are_stored_ = false;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace faultline::app
