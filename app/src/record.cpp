// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "faultline/app/version.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/reports/output.hpp"
#include "faultline/reports/renderer.hpp"
#include "faultline/reports/terminal.hpp"
#include "faultline/stress/resumable.hpp"
#include "resume.hpp"
#include "whole_number.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

constexpr int kExcerptMargin = 3;      // lines of source before and after the marked one
constexpr size_t kMaxReplayLines = 2;  // the rest are in the record, arm by arm

// Kinds of the journal's lines.
constexpr const char* kReplaysStored = "replays_stored";
constexpr const char* kCases = "cases";  ///< value: cases_to_text() of those replayed first

bool can_be_resumed(std::string_view command) {
  return command == "verify" || command == "stress" || command == "race" || command == "mutants";
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

/// The record in a folder of --run.
void write_record(const std::string& folder, const core::RunRecord& record) {
  const std::string path = folder + "/run.json";
  reports::write_output(path, {core::to_json(record)}, path);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// Whether the store has this very case, the build of its kernel apart, under its number.
bool has_case(const store::Store& store, const store::FailingCase& wanted) {
  try {
    core::TrialToken there = store.failing_case(wanted.id).trial;
    there.module_hash = wanted.trial.module_hash;
    return there == wanted.trial;
  } catch (const core::UsageError&) {
    return false;
  }
}

reports::ColorMode color_mode(const std::string& text) {
  return text == "always"  ? reports::ColorMode::always
         : text == "never" ? reports::ColorMode::never
                           : reports::ColorMode::automatic;
}

}  // namespace

Run::Run(const Context& context, const char* command)
    : context_(context),
      race_(race_mode(context.options)),
      started_(std::chrono::steady_clock::now()) {
  for (const auto& [format, path] : context.options.reports) {
    if (path != "-") reports::check_writable(path);
  }
  if (!context.options.run_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(context.options.run_dir, error);
    reports::check_writable(context.options.run_dir + "/run.json",
                            "Give --run a folder that can be made and written.");
    if (can_be_resumed(command)) journal_ = open_journal(context, command);
  }
  if (!context.options.store.empty()) {
    store_ = std::make_unique<store::Store>(context.options.store);
  }
  record_.command = command;
  record_.seed = context.options.seed;
  record_.provenance.faultline_version = kVersion;
  record_.provenance.started_at =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
  record_.provenance.host = host_name();
  record_.provenance.command_line = context.command_line;
  if (journal_ && !context.options.resume_dir.empty()) {
    record_.provenance.command_line = resumed_line(*journal_);
  }
  if (journal_) {
    for (const store::JournalEntry& entry : journal_->entries()) {
      if (entry.kind == kStoredRun && store_ && entry.value == absolute(store_->path())) {
        stored_run_ = whole_number(entry.key).value_or(0);
      }
      if (entry.kind == kReplaysStored) replayed_are_stored_ = true;
    }
  }
  // Of a run that is continued there is more on disk than could be written now.
  if (context.options.resume_dir.empty()) write_unfinished();
}

std::unique_ptr<core::Backend> Run::keep_results(std::unique_ptr<core::Backend> backend,
                                                 const std::atomic<bool>* stop) {
  if (!journal_) return backend;
  return stress::make_resumable(std::move(backend), *journal_, stop,
                                [this](const std::string& what) { warn_of_journal(what); });
}

void Run::warn_of_journal(const std::string& what) {
  if (!warned_of_journal_) fmt::print(stderr, "faultline: warning: {}\n", what);
  warned_of_journal_ = true;
}

void Run::note(const store::JournalEntry& entry) {
  if (!journal_) return;
  try {
    journal_->append(entry);
  } catch (const core::EnvironmentError& error) {
    warn_of_journal(error.what());
  }
}

void Run::identify_results(const std::string& tools) {
  if (!journal_) return;
  try {
    identify_journal(*journal_, record_, tools);
  } catch (const core::EnvironmentError& error) {
    warn_of_journal(error.what());
    journal_->finish();
    journal_.reset();
  }
}

std::optional<std::vector<store::FailingCase>> Run::cases_replayed_before() const {
  if (!journal_) return std::nullopt;
  for (const store::JournalEntry& entry : journal_->entries()) {
    if (entry.kind == kCases) return cases_from_text(journal_->value_of(entry));
  }
  return std::nullopt;
}

void Run::note_cases(const std::vector<store::FailingCase>& cases) {
  note({kCases, "", cases_to_text(cases)});
}

void Run::close_journal() {
  if (!journal_) return;
  if (!record_.evidence.interrupted && !context_.stop) {
    journal_->finish();
    return;
  }
  if (!context_.is_part) say_cut_off(record_.command, context_.options);
}

core::RunRecord Run::unfinished() const {
  core::RunRecord partial = record_;
  if (partial.subject.empty() && !context_.options.words.empty()) {
    partial.subject = context_.options.words.front();
  }
  partial.evidence = {};
  partial.evidence.subject = partial.subject;
  partial.evidence.variant = partial.variant;
  partial.evidence.problem = partial.problem;
  partial.evidence.backend = partial.provenance.backend.name;
  partial.evidence.mode = partial.command;
  partial.evidence.interrupted = true;
  partial.verdict = judge(partial.evidence);
  stress::add_replayed(replayed_, partial.evidence, partial.verdict);
  return partial;
}

// An older run.json would otherwise outlive a run that is killed, and speak for it.
void Run::write_unfinished() const {
  if (context_.options.run_dir.empty()) return;
  write_record(context_.options.run_dir, unfinished());
}

std::vector<store::CaseResult> Run::results_to_store() const {
  if (replayed_are_stored_) return {};
  std::vector<store::CaseResult> results = stress::results_of(replayed_);
  std::erase_if(results, [this](const store::CaseResult& result) {
    return std::none_of(replayed_.begin(), replayed_.end(), [&](const stress::ReplayedCase& one) {
      return one.stored.id == result.id && has_case(*store_, one.stored);
    });
  });
  return results;
}

void Run::use_replayed(std::vector<stress::ReplayedCase> replayed) {
  replayed_ = std::move(replayed);
  if (replayed_.empty()) return;
  try {
    write_unfinished();
    keep_in_store(unfinished());
  } catch (const core::Error& error) {
    // The end of the run tries again, and fails it.
    fmt::print(stderr, "faultline: warning: the replays are not kept yet: {}\n", error.what());
  }
}

void Run::keep_in_store(const core::RunRecord& so_far) {
  if (!store_) return;
  if (stored_run_ == 0) {
    stored_run_ = store_->begin_run(so_far);
    note({kStoredRun, std::to_string(stored_run_), absolute(store_->path())});
  }
  store_->update_run(stored_run_, so_far, stress::failing_cases_of(so_far), results_to_store());
  if (replayed_.empty() || replayed_are_stored_) return;
  replayed_are_stored_ = true;
  note({kReplaysStored, "", ""});
}

void Run::finish_in_store(bool say_so) {
  if (!store_) return;
  if (stored_run_ == 0) stored_run_ = store_->begin_run(record_);
  const std::vector<store::FailingCase> cases = stress::failing_cases_of(record_);
  store_->finish_run(stored_run_, record_, cases, results_to_store());
  if (!say_so) return;
  fmt::print("stored: run {} in {}{}\n", stored_run_, store_->path(),
             cases.empty() ? ""
                           : fmt::format("; {} failing case{}, which verify replays first",
                                         cases.size(), cases.size() == 1 ? "" : "s"));
}

core::Verdict Run::judge(const core::Evidence& evidence, std::string_view cut_by) const {
  core::Verdict verdict = diagnosis::diagnose(evidence, cut_by);
  if (race_ == core::RaceMode::off && evidence.backend_is_model) {
    verdict.summary += "; races were not looked for (--no-race)";
  }
  return verdict;
}

void Run::identify(const kernels::ResolvedTrial& trial) {
  record_.subject = trial.subject->name;
  record_.variant = trial.variant->name;
  record_.problem = trial.problem.line();
  record_.config = trial.config.line();
  if (const kernels::Variant& variant = *trial.variant; variant.is_mutant) {
    must_get_ = fmt::format("{}@{} is a mutant, which must get {}", record_.subject, variant.name,
                            variant.required_finding ? core::name_of(*variant.required_finding)
                                                     : "no finding");
    if (!variant.shows_at.empty()) {
      must_get_ += fmt::format(", and shows at {}", core::Assignment(variant.shows_at).line());
    }
  }
  use_modules(trial.plan.program(1));
  identify_results();
  if (context_.options.resume_dir.empty()) write_unfinished();
  keep_in_store(unfinished());
}

void Run::use_backend(const core::BackendInfo& info) { record_.provenance.backend = info; }

void Run::use_modules(const core::Program& program) {
  for (const auto& operation : program.operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch || !launch->module) continue;
    const auto same = [&](const core::ModuleRef& m) { return m->hash == launch->module->hash; };
    if (std::any_of(modules_.begin(), modules_.end(), same)) continue;
    modules_.push_back(launch->module);
    record_.module_hashes.emplace_back(launch->module->name, launch->module->hash);
  }
}

void Run::add_excerpts() {
  const auto excerpt_of = [&](const core::SourceLocation& where) {
    for (const auto& have : record_.excerpts) {
      if (have.file == where.file && have.marked_line == where.line) return;
    }
    for (const auto& module : modules_) {
      core::SourceExcerpt excerpt{.file = where.file, .marked_line = where.line};
      excerpt.first_line = std::max(1, where.line - kExcerptMargin);
      for (int line = excerpt.first_line; line <= where.line + kExcerptMargin; ++line) {
        excerpt.lines.push_back(core::source_line(*module, where.file, line));
      }
      const auto text = [](const std::string& line) { return !line.empty(); };
      if (std::none_of(excerpt.lines.begin(), excerpt.lines.end(), text)) continue;
      record_.excerpts.push_back(std::move(excerpt));
      return;
    }
  };
  for (const auto& race : record_.evidence.races) {
    for (const auto* site : {&race.first, &race.second}) {
      for (const auto& where : site->where) excerpt_of(where);
    }
  }
  for (const auto& access : record_.evidence.accesses) {
    if (access.ideal_sectors > 0 && access.sectors >= 4 * access.ideal_sectors)
      excerpt_of(access.where);
  }
}

void Run::add_replay_lines() {
  struct Line {
    const std::string* token;
    double worst;  ///< error over bound of wrong values; 0: what is wrong is something else
  };
  std::vector<Line> lines;
  const auto add = [&](const std::string& token, const core::TrialResult& result) {
    if (token.empty()) return;
    double worst = 0.0;
    for (const core::OutputTotals& output : result.outputs) {
      if (output.bad_elements > 0 && !(output.worst_ratio <= worst)) worst = output.worst_ratio;
    }
    lines.push_back({&token, std::isnan(worst) ? HUGE_VAL : worst});
  };
  for (const auto& arm : record_.evidence.arms) add(arm.token, arm.result);
  // Those of arms go first: what diagnosis asked for belongs to the failure.
  const size_t arms = lines.size();
  for (const auto& config : record_.evidence.configs) add(config.token, config.result);
  const auto worst_first = [](const Line& a, const Line& b) { return a.worst > b.worst; };
  const auto middle = lines.begin() + static_cast<std::ptrdiff_t>(arms);
  std::stable_sort(lines.begin(), middle, worst_first);
  std::stable_sort(middle, lines.end(), worst_first);
  for (size_t i = 0; i < std::min(lines.size(), kMaxReplayLines); ++i) {
    record_.replay_lines.push_back("faultline replay " + *lines[i].token);
  }
}

// A class that rests on a sweep or on experiments cannot be read from one of its trials.
void Run::say_what_one_trial_hides() {
  if (record_.command != "replay") return;
  for (core::Finding& finding : record_.verdict.findings) {
    if (finding.finding != core::FindingClass::unknown) continue;
    finding.evidence.push_back(fmt::format(
        "one trial: the classes that a sweep over problems and configs shows (tail, config) are "
        "not read from it, nor what changing one thing at a time shows (layout); `faultline verify "
        "{0}@{1}` names the former, `faultline stress {0}@{1}` at this problem the latter",
        record_.subject, record_.variant));
    return;
  }
}

std::function<void(const core::Evidence&)> Run::checkpoint() {
  if (context_.options.run_dir.empty() && !store_) return {};
  // Small records are written each time; large ones cost at most a twentieth of the run.
  static constexpr int kShare = 20;
  return [this, next = std::chrono::steady_clock::time_point(),
          warned = false](const core::Evidence& evidence) mutable {
    const auto begin = std::chrono::steady_clock::now();
    if (begin < next) return;
    core::RunRecord partial = record_;
    partial.evidence = evidence;
    partial.verdict = judge(evidence);
    stress::add_replayed(replayed_, partial.evidence, partial.verdict);
    for (auto& arm : partial.evidence.arms) arm.result.captures.clear();
    try {
      if (!context_.options.run_dir.empty()) {
        write_record(context_.options.run_dir, partial);
      }
      keep_in_store(partial);
    } catch (const core::Error& error) {
      // The work goes on: the whole record is written at the end, and fails the run if it cannot
      // be.
      if (!warned) fmt::print(stderr, "faultline: warning: no checkpoint: {}\n", error.what());
      warned = true;
    }
    const auto end = std::chrono::steady_clock::now();
    next = end + kShare * (end - begin);
  };
}

int Run::finish(core::Evidence evidence) {
  record_.evidence = std::move(evidence);
  record_.verdict = judge(record_.evidence, cut_by());
  stress::add_replayed(replayed_, record_.evidence, record_.verdict);
  if (record_.verdict.outcome == core::Outcome::pass && !must_get_.empty()) {
    record_.verdict.summary += "; " + must_get_;
  }
  say_what_one_trial_hides();
  add_excerpts();
  add_replay_lines();
  return finish_with_verdict();
}

void say_cut_off(const std::string& command, const Options& options) {
  if (options.quiet) return;
  fmt::print(stderr, "faultline: cut off; `faultline {} --resume {}` continues it\n", command,
             options.run_dir);
}

void show_record(const core::RunRecord& record, const Options& options) {
  // One output that cannot be written must not cost the others: try all, then raise the first.
  std::exception_ptr first_error;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const core::Error&) {
      if (!first_error) first_error = std::current_exception();
    }
  };
  const bool on_stdout = report_on_stdout(options);
  if (!on_stdout) {
    auto terminal = reports::terminal_options_for(stdout, color_mode(options.color));
    if (options.width > 0) terminal.width = options.width;
    terminal.verbosity = options.quiet           ? reports::Verbosity::quiet
                         : options.verbosity > 0 ? reports::Verbosity::verbose
                                                 : reports::Verbosity::normal;
    attempt([&] { reports::print_terminal(record, terminal, stdout); });
  }
  for (const auto& [format, path] : options.reports) {
    attempt([&] {
      reports::write_report(record, *reports::find_renderer(format), path);
      if (path != "-" && !on_stdout && !options.quiet) {
        fmt::print("{} report: {}\n", format, path);
      }
    });
  }
  if (first_error) std::rethrow_exception(first_error);
}

std::string Run::cut_by() const {
  const double budget_s = context_.options.budget_s;
  return budget_s > 0.0 && !context_.stop ? fmt::format("the budget of {:.4g} s ran out", budget_s)
                                          : std::string("interrupted");
}

int Run::finish_with_verdict() {
  const Options& options = context_.options;
  if (record_.evidence.interrupted) {
    // A failure's headline is that of its finding: the plan says what was left undone.
    std::string& plan = record_.analysis_plan;
    plan.insert(std::min(plan.find('\n'), plan.size()), "; cut short: " + cut_by());
  }
  record_.provenance.duration_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();

  const core::ExitCode exit_code = core::exit_code(record_.verdict, options.fail_on_warning);
  if (exit_code != core::exit_code(record_.verdict)) {
    record_.verdict.summary +=
        fmt::format("; exit {}: a warning, and --fail-on warning", static_cast<int>(exit_code));
  }

  // One output that cannot be written must not cost the others: try all, then raise the first.
  std::exception_ptr first_error;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const core::Error&) {
      if (!first_error) first_error = std::current_exception();
    }
  };
  if (!options.run_dir.empty()) {
    attempt([&] { write_record(options.run_dir, record_); });
  }
  attempt([&] { show_record(record_, options); });
  attempt([&] { finish_in_store(!report_on_stdout(options) && !options.quiet); });
  if (!first_error) attempt([&] { close_journal(); });
  if (first_error) std::rethrow_exception(first_error);
  if (record_.evidence.interrupted && context_.stop) {
    return static_cast<int>(core::ExitCode::interrupted);
  }
  return static_cast<int>(exit_code);
}

}  // namespace faultline::app
