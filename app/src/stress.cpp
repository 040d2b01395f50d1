// SPDX-License-Identifier: Apache-2.0
// `faultline stress`: a campaign of trials under perturbations.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "memory.hpp"
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

// The arms that --plan names.
std::vector<std::string> arm_names(const std::string& names) {
  std::vector<std::string> wanted;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    if (end == begin && !names.empty()) {
      throw core::UsageError(fmt::format("--plan '{}': the name of an arm is empty: write "
                                         "ARM,ARM,... without a comma too many",
                                         names));
    }
    if (end > begin) wanted.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return wanted;
}

}  // namespace

int stress_command(const Context& context) {
  const Options& options = context.options;
  const std::vector<std::string> arms = arm_names(options.plan);
  const auto trial = kernels::resolve(context.registry, subject_and_variant(options),
                                      options.problem_values(), options.config_values());
  Run run(context, "stress");
  auto backend = choose_backend(options.backend);
  require_memory(trial.plan, backend->info(), race_mode(options));
  run.use_backend(backend->info());
  run.identify(trial);

  stress::CampaignPlan plan = stress::default_plan(backend->info(), trial.plan,
                                                   {.trials = options.trials,
                                                    .seed = options.seed,
                                                    .data = options.data_mode(),
                                                    .race = race_mode(options),
                                                    .arms = arms});
  run.record().analysis_plan = stress::to_text(plan);
  if (options.no_follow_ups) {
    run.record().analysis_plan += "These arms alone: no further ones and no experiments "
                                  "(--no-follow-ups).\n";
  }
  if (options.verbosity > 0) {
    fmt::print(stderr, "{}\n", run.record().analysis_plan);
  } else if (backend->info().is_model && !plan.left_out.empty() && !options.quiet) {
    fmt::print(stderr, "{0} of {1} arms have no trial: --trials {1} gives each one\n",
               plan.left_out.size(), plan.left_out.size() + plan.arms.size());
  }

  Work work(context);
  stress::RunOptions run_options = work.run_options();
  run_options.checkpoint = run.checkpoint();
  run_options.follow_ups = run_options.experiments = !options.no_follow_ups;
  backend = run.keep_results(std::move(backend), run_options.stop);
  core::Evidence evidence = stress::run_campaign(*backend, trial, plan, run_options);
  work.finish();
  return run.finish(std::move(evidence));
}

}  // namespace faultline::app
