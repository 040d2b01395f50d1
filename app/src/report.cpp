// SPDX-License-Identifier: Apache-2.0
// `faultline report RUN` and `faultline compare RUN RUN`: runs that are over.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/reports/visible.hpp"
#include "faultline/store/store.hpp"
#include "faultline/stress/compare.hpp"
#include "input_file.hpp"
#include "record.hpp"
#include "store_choice.hpp"
#include "whole_number.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLast = "last-";

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Whether the word names a stored run: "7", "last", "last-1", also one that no store can hold.
/// "last-night" is a folder.
bool is_run_number(std::string_view word) {
  return word == "last" || is_digits(word) ||
         (word.starts_with('-') && is_digits(word.substr(1))) ||
         (word.starts_with(kLast) && is_digits(word.substr(kLast.size())));
}

/// One line of what may be somebody else's text: its control characters do nothing to a terminal.
void print_line(const std::string& text) {
  std::string line;
  for (const char c : reports::visible(text)) {
    if (c == '\n') {
      line += "[U+000A]";
    } else {
      line += c;
    }
  }
  fmt::print("{}\n", line);
}

/// "7" is run 7, "last" the newest, "last-1" the one before.
std::int64_t run_number(const store::Store& store, const std::string& word) {
  if (const auto number = whole_number(word)) return *number;
  std::int64_t back = word == "last" ? 0 : -1;
  if (word.starts_with(kLast)) {
    back = whole_number(std::string_view(word).substr(kLast.size())).value_or(-1);
  }
  const std::vector<store::RunSummary> runs = store.runs();
  if (back < 0 || static_cast<std::size_t>(back) >= runs.size()) {
    throw core::UsageError(fmt::format("'{}': the store '{}' holds {} run{}; `faultline report "
                                       "--store {}` lists them",
                                       word, store.path(), runs.size(), runs.size() == 1 ? "" : "s",
                                       store.path()));
  }
  return runs[static_cast<std::size_t>(back)].id;
}

core::RunRecord read_record_file(const fs::path& path) {
  require_regular_file(path, "run.json of --run or the file of --json");
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) {
    throw core::EnvironmentError(fmt::format("{}: cannot be read", path.string()));
  }
  try {
    return core::record_from_json(text);
  } catch (const core::UsageError& error) {
    throw core::UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

core::RunRecord load_run(const Options& options, const std::string& word) {
  std::error_code ignored;
  const bool by_number = is_run_number(word);
  if (by_number && !options.store.empty()) {
    const store::Store store(options.store, {.access = store::Access::read});
    return store.record(run_number(store, word));
  }
  if (!fs::is_directory(word, ignored)) {
    if (by_number && !fs::exists(word, ignored)) {
      throw core::UsageError(fmt::format("'{}' is no folder and no file: the number of a stored "
                                         "run needs --store FILE",
                                         word));
    }
    return read_record_file(word);
  }
  const fs::path record = fs::path(word) / "run.json";
  if (!fs::exists(record, ignored)) {
    std::string below;
    for (fs::directory_iterator entry(word, ignored), end; entry != end; entry.increment(ignored)) {
      if (!fs::exists(entry->path() / "run.json", ignored)) continue;
      below += (below.empty() ? "; give one of " : ", ") + entry->path().string();
    }
    throw core::UsageError(fmt::format("{} has no run.json, which --run writes{}", word, below));
  }
  return read_record_file(record);
}

/// EnvironmentError when the file of --store cannot be used, though no word names a run in it.
void check_store(const Options& options) {
  if (!is_store_given(options)) return;
  const store::Store store(options.store, {.access = store::Access::read});
}

void list_store(const std::string& path) {
  const store::Store store(path, {.access = store::Access::read});
  const std::vector<store::RunSummary> runs = store.runs();
  print_line(
      fmt::format("{}: {} run{}, newest first", path, runs.size(), runs.size() == 1 ? "" : "s"));
  for (const store::RunSummary& run : runs) {
    print_line(fmt::format("  {:>5}  {}  {} {}{}{}  {}{}: {} of {} failed", run.id, run.started_at,
                           run.command, run.subject, run.variant.empty() ? "" : "@", run.variant,
                           run.outcome, run.finished_at.empty() ? " (did not finish)" : "",
                           run.failed, run.trials));
  }
  const std::vector<store::FailingCase> cases = store.all_cases();
  fmt::print("{} failing case{}, seen last first\n", cases.size(), cases.size() == 1 ? "" : "s");
  for (const store::FailingCase& one : cases) {
    print_line(fmt::format("  {:>5}  {}@{} {}  {}; seen {} time{}, last {}{}", one.id,
                           one.trial.subject, one.trial.variant,
                           diagnosis::cell_text(one.trial.problem, one.trial.config),
                           one.finding.empty() ? "no class" : one.finding, one.times_seen,
                           one.times_seen == 1 ? "" : "s", one.last_seen,
                           one.fixed_at.empty() ? "" : "; fixed " + one.fixed_at));
    print_line(fmt::format(
        "         {}", one.unreadable.empty() ? one.command : "cannot be run: " + one.unreadable));
  }
}

}  // namespace

int report_command(const Context& context) {
  const Options& options = context.options;
  if (options.words.empty() && !options.store.empty()) {
    list_store(options.store);
    return static_cast<int>(core::ExitCode::pass);
  }
  if (options.words.size() != 1) {
    throw core::UsageError("report takes one RUN: a folder of --run, a JSON report, or the number "
                           "of a run with --store FILE");
  }
  check_store(options);
  show_record(load_run(options, options.words.front()), options);
  return static_cast<int>(core::ExitCode::pass);
}

int compare_command(const Context& context) {
  const Options& options = context.options;
  if (options.words.size() != 2) {
    throw core::UsageError("compare takes two RUNs, the earlier one first: folders of --run, JSON "
                           "reports, or numbers of runs with --store FILE");
  }
  check_store(options);
  std::vector<core::RunRecord> runs;
  std::string missing;
  core::ExitCode code = core::ExitCode::error;
  for (const std::string& word : options.words) {  // both are named when both cannot be read
    try {
      runs.push_back(load_run(options, word));
    } catch (const core::Error& error) {
      if (missing.empty()) code = error.code();
      missing += (missing.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!missing.empty()) throw core::Error(code, missing);
  const stress::RunComparison comparison = stress::compare_runs(runs[0], runs[1]);
  if (!options.quiet) {
    for (const bool later : {false, true}) {
      const core::RunRecord& run = runs[later];
      std::string_view problem = run.problem;  // it begins with the subject
      if (problem.starts_with(run.subject)) problem.remove_prefix(run.subject.size());
      print_line(fmt::format("{:8} {} {}{}{}{}: {}", later ? "after" : "before", run.command,
                             run.subject, run.variant.empty() ? "" : "@", run.variant, problem,
                             core::name_of(run.verdict.outcome)));
    }
  }
  for (const stress::RunChange& change : comparison.changes) {
    if (options.quiet && change.kind != stress::RunChange::Kind::worse) continue;
    print_line(fmt::format("{:8} {}", stress::name_of(change.kind), change.text));
  }
  if (comparison.worse()) {
    if (!options.quiet) fmt::print("worse: exit code 1\n");
    return static_cast<int>(core::ExitCode::fail);
  }
  if (comparison.compared == 0) {
    throw core::UnsupportedError(
        "the runs have no arm, cell or row in common, so nothing else was compared");
  }
  if (!options.quiet) {
    fmt::print("{} in {} rate{}, findings, errors and outcome\n",
               comparison.changes.empty() ? "no difference" : "nothing got worse", comparison.rates,
               comparison.rates == 1 ? "" : "s");
  }
  return static_cast<int>(core::ExitCode::pass);
}

}  // namespace faultline::app
