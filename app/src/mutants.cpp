// SPDX-License-Identifier: Apache-2.0
// `faultline mutants`: every mutant against every detector.
#include "faultline/stress/mutants.hpp"

#include <fmt/format.h>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {

int mutants_command(const Context& context) {
  const Options& options = context.options;
  Run run(context, "mutants");
  const auto backend = choose_backend(options.backend);
  run.use_backend(backend->info());

  stress::MutantOptions mutants;
  mutants.subjects = options.words;
  mutants.seed = options.seed;
  mutants.tight_trials = mutants.stress_trials = options.trials;
  core::RunRecord& record = run.record();
  record.subject =
      options.words.empty() ? "all subjects" : fmt::format("{}", fmt::join(options.words, ", "));
  record.analysis_plan =
      "each mutant where it shows, and each clean variant at the same problem: a tight loop, "
      "verify "
      "over all configs, the default campaign (these by values alone), and the race check on the "
      "simulator; a mutant counts as named right when its required finding comes first";

  Work work(context);
  mutants.run = work.run_options();
  record.mutants = stress::run_mutants(*backend, context.registry, mutants);
  work.finish();
  core::Evidence& evidence = record.evidence;
  evidence.subject = record.subject;
  evidence.backend = backend->info().name;
  evidence.backend_is_model = backend->info().is_model;
  evidence.mode = "mutants";
  evidence.interrupted = mutants.run.stop && mutants.run.stop->load();
  record.verdict = stress::judge_matrix(record.mutants, evidence.interrupted);
  return run.finish_with_verdict();
}

}  // namespace faultline::app
