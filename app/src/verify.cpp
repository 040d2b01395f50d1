// SPDX-License-Identifier: Apache-2.0
// `faultline verify`: differential check over problems and configs.
#include "faultline/stress/verify.hpp"

#include <fmt/format.h>

#include "backend_choice.hpp"
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {

int verify_command(const Context& context) {
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
  Run run(context, "verify");
  const auto backend = choose_backend(options.backend);
  run.use_backend(backend->info());

  std::vector<core::Problem> problems{first.problem};
  for (size_t i = 1; i < swept.size(); ++i) problems.push_back(resolve(swept[i]).problem);
  const bool sweep =
      options.words.size() < 2 && options.sweep.empty() && first.subject->verify_problems;
  if (sweep) problems = first.subject->verify_problems(backend->info().is_model);
  run.identify(first);
  if (sweep || problems.size() > 1) {
    run.record().problem = fmt::format("{} ({} problems)", first.subject->name, problems.size());
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
  verify.run = work.run_options();
  core::Evidence evidence =
      stress::run_verify(*backend, *first.subject, *first.variant, problems, verify);
  work.finish();
  return run.finish(std::move(evidence));
}

}  // namespace faultline::app
