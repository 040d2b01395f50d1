// SPDX-License-Identifier: Apache-2.0
// `faultline mutants`: every mutant against every detector.
#include "faultline/stress/mutants.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend_choice.hpp"
#include "child_process.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/stress/resumable.hpp"
#include "record.hpp"
#include "resume.hpp"
#include "sanitizer.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

/// Of one of compute-sanitizer's tools, which slow a kernel down some twenty times.
constexpr double kToolLimit = 120.0;

/// Beyond it a row is given up: a dozen detectors' time-outs and what trials and tools take.
double limit_of_row(const Options& options) {
  return 300.0 + 4.0 * kToolLimit + 12.0 * options.timeout_s;
}

/// A new folder that nobody else can have foreseen.
std::filesystem::path temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "faultline-mutants-XXXXXX").string();
  if (!mkdtemp(name.data())) {
    throw core::EnvironmentError(
        fmt::format("no temporary folder could be made as {}: the rows' processes leave their "
                    "records there; set TMPDIR to a folder that can be written",
                    name));
  }
  return name;
}

core::KillRow broken_row(const kernels::SubjectRegistry& registry, const std::string& name,
                         std::string why) {
  const auto at = name.find('@');
  const kernels::Subject& subject = registry.get(name.substr(0, at));
  const kernels::Variant& variant = *subject.find_variant(name.substr(at + 1));
  core::KillRow row = stress::start_row(subject, variant);
  core::KillCell cell;
  cell.ran = true;  // and broke: nobody is cleared by it
  cell.outcome = core::Outcome::error;
  cell.note = std::move(why);
  row.cells = {cell};
  return row;
}

/// On a device a kernel that hangs or faults takes the process's context with it: each row has a
/// process of its own.
core::KillMatrix run_in_children(const Context& context, const std::string& backend_name,
                                 const std::vector<std::string>& names,
                                 const stress::MutantOptions& mutants) {
  const stress::RunOptions& run = mutants.run;
  const Options& options = context.options;
  const std::filesystem::path folder = temporary_folder();
  core::KillMatrix matrix;
  for (std::size_t i = 0; i < names.size() && !run.stop->load(); ++i) {
    if (auto row = mutants.earlier_row ? mutants.earlier_row(names[i]) : std::nullopt) {
      matrix.rows.push_back(std::move(*row));
      continue;
    }
    if (run.progress) {
      run.progress({names[i], i, names.size(), matrix.mutants() - matrix.named_right()});
    }
    const std::string json = (folder / "row.json").string();
    std::filesystem::remove(json);
    std::vector<std::string> arguments{"mutants",   names[i],
                                       "--backend", backend_name,
                                       "--seed",    std::to_string(options.seed),
                                       "--timeout", fmt::format("{}s", options.timeout_s),
                                       "--json",    json};
    if (options.trials > 0) {
      arguments.insert(arguments.end(), {"--trials", std::to_string(options.trials)});
    }
    if (options.no_sanitizer) arguments.push_back("--no-sanitizer");
    const ChildResult child = run_child(arguments, limit_of_row(options), *run.stop);
    if (child.stopped) break;
    std::ostringstream text;
    text << std::ifstream(json).rdbuf();
    try {
      core::RunRecord record = core::record_from_json(text.str());
      const std::vector<core::KillRow>& rows = record.mutants.rows;
      const bool own = rows.size() == 1 && rows[0].subject + "@" + rows[0].variant == names[i] &&
                       record.provenance.backend.name == backend_name;
      if (!own) throw core::UsageError("not the row that was asked for");
      matrix.rows.push_back(rows[0]);
    } catch (const core::UsageError&) {
      std::string why =
          !child.started ? "no process could be started for it"
          : child.timed_out
              ? fmt::format("its process did not end within {:.0f} s", limit_of_row(options))
          : child.signal ? fmt::format("its process was ended by signal {}", child.signal)
                         : fmt::format("its process ended with exit code {}", child.exit_code);
      if (const std::string said = last_line(child.said); !said.empty()) why += ": " + said;
      matrix.rows.push_back(broken_row(context.registry, names[i], std::move(why)));
    }
    mutants.checkpoint(matrix);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return matrix;
}

}  // namespace

int mutants_command(const Context& context) {
  const Options& options = context.options;
  for (const auto& [given, flag] :
       {std::pair{!options.variant.empty(), "--variant"},
        std::pair{!options.config.empty(), "--config"},
        std::pair{options.data != "normal", "--data"}, std::pair{options.lenient, "--lenient"},
        std::pair{options.no_race, "--no-race"}}) {
    if (given) {
      throw core::UsageError(
          fmt::format("mutants takes no {}: each row runs at the problem, config "
                      "and data at which its mutant shows; name rows as "
                      "SUBJECT@VARIANT",
                      flag));
    }
  }
  const std::vector<std::string> names = stress::mutant_rows(context.registry, options.words);
  Run run(context, "mutants");
  const auto backend = choose_backend(options.backend);
  run.use_backend(backend->info());

  stress::MutantOptions mutants;
  mutants.subjects = options.words;
  mutants.seed = options.seed;
  mutants.tight_trials = mutants.stress_trials = options.trials;
  core::RunRecord& record = run.record();
  std::vector<std::string> asked;  // a name that is given twice is one
  for (const std::string& word : options.words) {
    if (std::find(asked.begin(), asked.end(), word) == asked.end()) asked.push_back(word);
  }
  record.subject = asked.empty() ? "all subjects" : fmt::format("{}", fmt::join(asked, ", "));
  record.analysis_plan =
      "each mutant where it shows, and each clean variant at the same problem: a tight loop, "
      "verify over all configs, the default campaign (these without the order of accesses), and "
      "the race check "
      "on the simulator; a mutant counts as named right when its required finding comes first";

  Work work(context);
  mutants.run = work.run_options();
  const std::string program = options.no_sanitizer ? "" : find_sanitizer();
  if (!program.empty()) {
    mutants.sanitizer = [program, stop = mutants.run.stop](const kernels::ResolvedTrial& trial) {
      return run_sanitizer(program, trial, kToolLimit, *stop);
    };
  }
  run.identify_results(program.empty() ? "without compute-sanitizer" : "with compute-sanitizer");
  mutants.checkpoint = [&, warned = false](const core::KillMatrix& so_far) mutable {
    record.mutants = so_far;
    try {
      if (run.journal()) stress::keep_row(*run.journal(), so_far.rows.back());
      run.write_unfinished();
    } catch (const core::EnvironmentError& error) {
      // The end of the run tries again, and fails it.
      if (!warned) fmt::print(stderr, "faultline: warning: no checkpoint: {}\n", error.what());
      warned = true;
    }
  };
  if (run.journal()) {
    mutants.earlier_row = [journal = run.journal()](const std::string& name) {
      return stress::kept_row(*journal, name);
    };
  }
  record.mutants = !backend->info().is_model && names.size() > 1
                       ? run_in_children(context, backend->info().name, names, mutants)
                       : stress::run_mutants(*backend, context.registry, mutants);
  work.finish();
  core::Evidence& evidence = record.evidence;
  evidence.subject = record.subject;
  evidence.backend = backend->info().name;
  evidence.backend_is_model = backend->info().is_model;
  evidence.mode = "mutants";
  evidence.interrupted = mutants.run.stop && mutants.run.stop->load();
  record.verdict = stress::judge_matrix(record.mutants, evidence.interrupted, run.cut_by());
  return run.finish_with_verdict();
}

}  // namespace faultline::app
