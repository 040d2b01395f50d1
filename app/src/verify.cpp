// SPDX-License-Identifier: Apache-2.0
// `faultline verify`: differential check over problems and configs.
#include "faultline/stress/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/reports/output.hpp"
#include "faultline/reports/visible.hpp"
#include "faultline/stress/stored_cases.hpp"
#include "memory.hpp"
#include "record.hpp"
#include "resume.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

/// "out.json" and "serial" -> "out.serial.json"
std::string path_of_variant(const std::string& path, const std::string& variant) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() /
          (whole.stem().string() + "." + variant + whole.extension().string()))
      .string();
}

/// Which of two exit codes a caller needs to see.
int worse(int a, int b) {
  using enum core::ExitCode;
  constexpr std::array kWorstFirst{error, fail, interrupted, inconclusive, skipped, pass};
  for (const core::ExitCode code : kWorstFirst) {
    if (a == static_cast<int>(code) || b == static_cast<int>(code)) return static_cast<int>(code);
  }
  return std::max(a, b);
}

/// Every cell, before the first runs. A config that the subject refuses is skipped later.
void require_memory_for_all(const Context& context, const kernels::ResolvedTrial& first,
                            const std::vector<core::Problem>& problems,
                            const core::BackendInfo& backend) {
  const std::string& variant = first.variant->name;
  const std::optional<std::uint64_t> available = available_memory();
  for (const core::Problem& problem : problems) {
    const auto configs = context.options.config.empty() ? first.subject->configs(problem, variant)
                                                        : std::vector<core::Config>{first.config};
    for (const core::Config& config : configs) {
      core::TrialPlan plan;
      try {
        plan = first.subject->plan(problem, variant, config);
        if (context.options.intermediates) plan = core::with_intermediates(plan);
      } catch (const core::UsageError&) {
        continue;
      }
      require_memory(plan, backend, race_mode(context.options), available);
    }
  }
}

/// A stop flag for a part of the work: set with another one, or when its own time is over.
class PartOfBudget {
 public:
  PartOfBudget(const std::atomic<bool>& all, double seconds)
      : watch_([this, &all, seconds](const std::stop_token& ended) {
          constexpr std::chrono::milliseconds kBetweenLooks(20);
          const auto started = std::chrono::steady_clock::now();
          while (!ended.stop_requested() && !over_) {
            const std::chrono::duration<double> elapsed =
                std::chrono::steady_clock::now() - started;
            if (all || elapsed.count() >= seconds) over_ = true;
            std::this_thread::sleep_for(kBetweenLooks);
          }
        }) {}
  const std::atomic<bool>& over() const { return over_; }

 private:
  std::atomic<bool> over_{false};
  std::jthread watch_;  ///< last, so that it ends first
};

/// The failing cases that the store has of the variant; of a run that is continued those that were
/// there when it was begun, as they were.
std::vector<store::FailingCase> cases_to_replay(Run& run, const core::Backend& backend,
                                                const kernels::ResolvedTrial& trial) {
  if (const auto before = run.cases_replayed_before()) return *before;
  std::vector<store::FailingCase> cases =
      run.store()->failing_cases(trial.subject->name, trial.variant->name, backend.info().name);
  // Those of a property may keep within the bound and break another law.
  std::erase_if(cases, [](const store::FailingCase& one) {
    return one.origin != "verify" && one.origin != "stress" && one.origin != "race";
  });
  run.note_cases(cases);
  return cases;
}

/// With --store: the stored failing cases of the variant, before anything else, and what each
/// shows. The sweep keeps half of --budget.
void replay_stored(const Context& context, Run& run, Work& work, core::Backend& backend,
                   const kernels::ResolvedTrial& trial) {
  if (!run.store()) return;
  const std::vector<store::FailingCase> cases = cases_to_replay(run, backend, trial);
  if (cases.empty()) return;
  constexpr std::uint64_t kRepeats = 200;  // on a device
  stress::RunOptions options = work.run_options();
  std::optional<PartOfBudget> part;
  if (context.options.budget_s > 0.0) {
    part.emplace(*options.stop, context.options.budget_s / 2);
    options.stop = &part->over();
  }
  const std::vector<stress::ReplayedCase> replayed =
      stress::replay_cases(backend, context.registry, cases, {.repeats = kRepeats, .run = options});
  work.clear();
  run.use_replayed(replayed);
  if (context.options.quiet || report_on_stdout(context.options)) return;
  const auto ran =
      std::count_if(replayed.begin(), replayed.end(),
                    [](const stress::ReplayedCase& one) { return !one.evidence.arms.empty(); });
  fmt::print("Replayed first: {} of {} stored failing case{} of {}@{}\n", ran, cases.size(),
             cases.size() == 1 ? "" : "s", trial.subject->name, trial.variant->name);
  for (const std::string& line : stress::to_lines(replayed)) {
    fmt::print("  {}\n", reports::visible(line));
  }
}

struct Verified {
  int exit_code = 0;
  bool interrupted = false;
};

Verified verify_variant(const Context& context) {
  const Options& options = context.options;
  const auto resolve = [&](const std::vector<core::Assignment::Value>& swept) {
    std::vector<core::Assignment::Value> values = options.problem_values();
    values.insert(values.end(), swept.begin(), swept.end());
    return kernels::resolve(context.registry, subject_and_variant(options), values,
                            options.config_values());
  };
  const auto swept = options.sweep_values();
  const auto first = resolve(swept.front());
  if (options.intermediates) core::with_intermediates(first.plan);  // UsageError: there are none
  std::vector<core::Problem> problems{first.problem};
  for (size_t i = 1; i < swept.size(); ++i) {
    core::Problem problem = resolve(swept[i]).problem;
    if (std::find(problems.begin(), problems.end(), problem) != problems.end()) {
      throw core::UsageError(fmt::format("--sweep {}: {} comes twice, and would count twice: give "
                                         "each value once",
                                         fmt::join(options.sweep, " --sweep "), problem.line()));
    }
    problems.push_back(std::move(problem));
  }
  Run run(context, "verify");
  auto backend = choose_backend(options.backend);
  run.use_backend(backend->info());

  const bool sweep =
      options.words.size() < 2 && options.sweep.empty() && first.subject->verify_problems;
  if (sweep) problems = first.subject->verify_problems(backend->info().is_model);
  require_memory_for_all(context, first, problems, backend->info());
  run.identify(first);
  if (sweep || problems.size() > 1) {
    run.record().problem = fmt::format("{} ({} problems)", first.subject->name, problems.size());
  }

  if (options.config.empty()) {
    std::set<std::string> configs;
    for (const core::Problem& problem : problems) {
      for (const core::Config& config : first.subject->configs(problem, first.variant->name)) {
        configs.insert(config.line());
      }
    }
    if (configs.size() > 1) run.record().config = fmt::format("{} configs", configs.size());
  }

  stress::VerifyOptions verify;
  if (options.trials > 0) verify.trials = options.trials;
  verify.seed = options.seed;
  verify.data = options.data_mode();
  verify.race = race_mode(options);
  verify.intermediates = options.intermediates;
  if (!options.config.empty()) verify.configs = {first.config};
  run.record().analysis_plan =
      fmt::format("{} problem{} x {}, {} trials each with new inputs and rotating poison; every "
                  "element within its bound",
                  problems.size(), problems.size() == 1 ? "" : "s",
                  verify.configs.empty() ? "all configs" : "one config", verify.trials);

  Work work(context);
  backend = run.keep_results(std::move(backend), work.run_options().stop);
  replay_stored(context, run, work, *backend, first);
  verify.run = work.run_options();
  verify.run.checkpoint = run.checkpoint();
  core::Evidence evidence =
      stress::run_verify(*backend, *first.subject, *first.variant, problems, verify);
  work.finish();
  const int exit_code = run.finish(std::move(evidence));
  return {exit_code, run.record().evidence.interrupted};
}

/// The exit code of a variant's run that was finished before --variant all was cut off, whose
/// record is shown again.
std::optional<int> finished_before(const Options& options) {
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::path(options.run_dir) / "run.json";
  if (holds_journal(options.run_dir) || !std::filesystem::exists(path, ignored)) {
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const core::RunRecord record = core::record_from_json(text);
  if (record.evidence.interrupted) return std::nullopt;
  show_record(record, options);
  return static_cast<int>(core::exit_code(record.verdict, options.fail_on_warning));
}

/// One run and one verdict for each clean variant; the exit code is the worst. A variant that
/// refuses what was asked is named and counts as skipped; when all do, that is a usage error.
int verify_all_variants(const Context& context) {
  const std::string& name = context.options.subject();
  if (name.find('@') != std::string::npos) {
    throw core::UsageError(fmt::format("--variant all covers every variant: give the subject as "
                                       "'{}', without '@'",
                                       name.substr(0, name.find('@'))));
  }
  for (const auto& [format, path] : context.options.reports) {
    if (path == "-") {
      throw core::UsageError(fmt::format("--variant all makes a {} report for each variant: name a "
                                         "file instead of '-'",
                                         format));
    }
    std::error_code none;
    const std::filesystem::file_status status = std::filesystem::status(path, none);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      throw core::UsageError(fmt::format("--variant all makes a {} report for each variant beside "
                                         "'{}', which is no file: name one",
                                         format, path));
    }
  }
  const std::string folder = context.options.run_dir;
  if (!folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    reports::check_writable(folder + "/run.json",
                            "Give --run a folder that can be made and written.");
  }
  const std::unique_ptr<store::Journal> journal = open_journal(context, "verify");
  const bool resumed = journal && !context.options.resume_dir.empty();
  const std::string line = resumed ? resumed_line(*journal) : context.command_line;
  const auto arguments = resumed ? arguments_of(*journal) : context.arguments;
  int exit_code = static_cast<int>(core::ExitCode::pass);
  std::string refused;
  std::size_t ran = 0;
  bool cut_off = false;
  for (const kernels::Variant& variant : context.registry.get(name).variants) {
    if (variant.is_mutant || context.stop) continue;
    Options options = context.options;
    options.variant = variant.name;
    for (auto& [format, path] : options.reports) path = path_of_variant(path, variant.name);
    if (!folder.empty()) options.run_dir = folder + "/" + variant.name;
    if (!options.resume_dir.empty()) {
      if (const std::optional<int> code = finished_before(options)) {
        exit_code = worse(exit_code, *code);
        ++ran;
        continue;
      }
      // One that was not begun begins now.
      options.resume_dir = holds_journal(options.run_dir) ? options.run_dir : "";
    }
    const Context one{options, context.registry, context.stop, line, arguments, true};
    try {
      const Verified verified = verify_variant(one);
      exit_code = worse(exit_code, verified.exit_code);
      ++ran;
      cut_off = cut_off || verified.interrupted;
    } catch (const core::UsageError& error) {
      // It refuses what was asked of all of them. What did not run is not green.
      fmt::print(stderr, "faultline: skipped {}@{}: {}\n", name, variant.name, error.what());
      refused = error.what();
      exit_code = worse(exit_code, static_cast<int>(core::ExitCode::skipped));
    }
  }
  if (ran == 0 && !refused.empty()) throw core::UsageError(refused);
  if (journal && !cut_off && !context.stop) journal->finish();
  if (journal && (cut_off || context.stop)) say_cut_off("verify", context.options);
  if (context.stop) exit_code = worse(exit_code, static_cast<int>(core::ExitCode::interrupted));
  return exit_code;
}

}  // namespace

int verify_command(const Context& context) {
  return context.options.variant == "all" ? verify_all_variants(context)
                                          : verify_variant(context).exit_code;
}

}  // namespace faultline::app
