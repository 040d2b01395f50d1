// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "run_arm.hpp"
#include "seeds.hpp"

namespace faultline::stress {

namespace {

/// Of a trial whose later call is wrong: some trials of one call beside as many like it, which tell
/// what a call leaves behind from what each gets wrong.
core::ExperimentEvidence first_calls(core::Backend& backend, const core::TrialPlan& plan,
                                     core::TrialRequest request) {
  // Five of each beside the one replayed are enough for CallOrder::decides.
  request.count = std::max<std::uint64_t>(request.count, 5);
  if (backend.info().is_model) {
    ++request.first_trial;
  } else {
    // A model loads modules anew for each trial by itself: elsewhere only the first of a loop would
    // be the first call.
    request.perturbation.reload_module = true;
  }
  request.capture_limit = 0;
  core::ExperimentEvidence row;
  row.kind = core::ExperimentEvidence::Kind::first_call;
  row.change = "one call in each trial";
  row.baseline = request.perturbation.name;
  const core::TrialResult before = detail::run_safely(backend, plan, request);
  request.perturbation.calls = 1;
  const core::TrialResult after = detail::run_safely(backend, plan, request);
  row.before_trials = before.trials - std::min(before.trials, before.abnormal);
  row.before_wrong = before.wrong_values;
  row.after_trials = after.trials - std::min(after.trials, after.abnormal);
  row.after_wrong = after.wrong_values;
  if (after.trials < request.count || after.abnormal > 0) {
    row.left_out = after.message.empty() ? after.note : after.message;
    if (row.left_out.empty()) row.left_out = "not all of its trials ended";
  }
  return row;
}

}  // namespace

std::uint64_t seed_for_inputs(std::uint64_t input_seed) {
  return detail::unmix64(detail::unmix64(input_seed) ^ detail::trial_code(0));
}

Replay replay(core::Backend& backend, const kernels::SubjectRegistry& registry,
              const core::TrialToken& token, const ReplayOptions& options) {
  if (backend.info().name != token.backend) {
    throw core::UsageError(
        fmt::format("this token was made by the {} backend and cannot be replayed on {}: use "
                    "--backend {}",
                    token.backend, backend.info().name, token.backend));
  }
  Replay replay;
  replay.trial = kernels::resolve(registry, token.subject + "@" + token.variant,
                                  core::parse_assignments(token.problem),
                                  core::parse_assignments(token.config));
  const core::TrialPlan& plan = replay.trial.plan;
  const std::string hash = detail::module_hash(plan);
  if (hash != token.module_hash) {
    replay.warning = fmt::format("the token was made with kernel build {}, this is {}: the trial "
                                 "may behave otherwise",
                                 token.module_hash.empty() ? "(unknown)" : token.module_hash,
                                 hash.empty() ? "(unknown)" : hash);
  }

  core::TrialRequest request;
  request.seed = token.seed;
  request.first_trial = token.trial;
  request.data = token.data;
  request.perturbation = token.perturbation;
  request.race = token.race;
  request.capture_limit = options.run.capture_limit;
  request.timeout_s = options.run.timeout_s;
  request.stop = options.run.stop;
  if (!backend.info().is_model) {
    if (request.perturbation.fresh_inputs) {
      request.seed = seed_for_inputs(core::trial_seed(token.seed, token.trial));
      request.perturbation.fresh_inputs = false;
    }
    request.first_trial = 0;
    request.count = options.repeats;
  }
  if (options.run.progress) {
    request.progress = [&](std::uint64_t done, std::uint64_t failed) {
      options.run.progress({request.perturbation.name, done, request.count, failed});
    };
  }
  replay.evidence = detail::start_evidence(backend.info(), plan, "replay");
  core::TrialResult result = detail::run_safely(backend, plan, request);
  request.progress = nullptr;
  const bool later_call_wrong = request.perturbation.calls > 1 && result.wrong_values > 0;
  replay.evidence.arms.push_back(
      detail::make_arm(replay.evidence.backend, plan, request, std::move(result)));
  replay.evidence.interrupted = detail::stopped(options.run);
  detail::finish_evidence(replay.evidence, plan, token.data, token.seed, options.templates);
  if (later_call_wrong && !detail::stopped(options.run)) {
    replay.evidence.experiments.push_back(first_calls(backend, plan, request));
  }
  return replay;
}

}  // namespace faultline::stress
