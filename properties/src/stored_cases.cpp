// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/stored_cases.hpp"

namespace faultline::properties {

core::TrialToken token_of(const kernels::SubjectRegistry& registry, const Case& c,
                          std::uint64_t trial) {
  core::TrialToken token;
  token.backend = c.backend;
  token.subject = c.problem.subject;
  token.variant = c.variant;
  token.problem = c.problem.values.line();
  token.config = c.config.line();
  token.seed = c.regime.seed;
  token.trial = trial;
  token.data = c.regime.data;
  token.perturbation.name = "verify";
  token.perturbation.fresh_inputs = true;
  token.race = c.race;
  const core::TrialPlan plan = registry.get(c.problem.subject).plan(c.problem, c.variant, c.config);
  for (const core::Operation& operation : plan.program(1).operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch || !launch->module) continue;
    token.module_hash = launch->module->hash;
    break;
  }
  return token;
}

std::optional<Case> case_of(const kernels::SubjectRegistry& registry,
                            const core::TrialToken& trial) {
  core::Perturbation of_a_case;
  of_a_case.name = "verify";
  of_a_case.fresh_inputs = true;
  if (!(trial.perturbation == of_a_case)) return std::nullopt;
  const kernels::ResolvedTrial resolved = kernels::resolve(
      registry, trial.subject + "@" + trial.variant, core::parse_assignments(trial.problem),
      core::parse_assignments(trial.config));
  Case c;
  c.problem = resolved.problem;
  c.variant = resolved.variant->name;
  c.config = resolved.config;
  c.regime = {trial.data, trial.seed};
  c.trials = trial.trial + 1;
  c.race = trial.race;
  c.backend = trial.backend;
  return c;
}

}  // namespace faultline::properties
