// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/race.hpp"

#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "run_arm.hpp"

namespace faultline::stress {

core::Perturbation race_schedule(std::uint64_t i) {
  using enum core::SchedulePolicy;
  using core::CopyLateness;
  constexpr std::pair<core::SchedulePolicy, CopyLateness> kTable[kRaceSchedules] = {
      {random, CopyLateness::random},    {round_robin, CopyLateness::eager},
      {pct, CopyLateness::random},       {skew, CopyLateness::lazy},
      {round_robin, CopyLateness::lazy}, {random, CopyLateness::lazy},
      {pct, CopyLateness::lazy},         {skew, CopyLateness::random},
      {random, CopyLateness::eager},     {round_robin, CopyLateness::random},
      {pct, CopyLateness::eager},        {skew, CopyLateness::eager}};
  core::Perturbation schedule;
  std::tie(schedule.policy, schedule.lateness) = kTable[i % kRaceSchedules];
  schedule.name = fmt::format("{}_{}", name_of(schedule.policy), name_of(schedule.lateness));
  return schedule;
}

core::Evidence run_race(core::Backend& backend, const kernels::ResolvedTrial& trial,
                        const RaceOptions& options) {
  if (!backend.info().is_model) {
    throw core::UnsupportedError(
        fmt::format("race detection needs the simulator: {} reports no races; use --backend "
                    "simulator, or `faultline stress` to look for wrong values on the device",
                    backend.info().device));
  }
  detail::require_data_mode(options.data, trial.plan);
  core::Evidence evidence = detail::start_evidence(backend.info(), trial.plan, "race");
  std::uint64_t done = 0, failed = 0;
  for (std::uint64_t i = 0; i < kRaceSchedules && !detail::stopped(options.run); ++i) {
    core::TrialRequest request;
    request.seed = options.seed;
    request.count = options.trials / kRaceSchedules + (i < options.trials % kRaceSchedules ? 1 : 0);
    if (request.count == 0) continue;
    request.data = options.data;
    request.perturbation = race_schedule(i);
    request.race = options.mode;
    request.access_statistics = i == 0;
    request.capture_limit = options.run.capture_limit;
    request.timeout_s = options.run.timeout_s;
    request.stop = options.run.stop;
    if (options.run.progress) {
      options.run.progress({request.perturbation.name, done, options.trials, failed});
    }
    core::TrialResult result = detail::run_safely(backend, trial.plan, request);
    done += result.trials;
    failed += result.failed;
    evidence.arms.push_back(
        detail::make_arm(evidence.backend, trial.plan, request, std::move(result)));
    if (options.run.checkpoint) {
      core::Evidence so_far = evidence;
      so_far.interrupted = true;
      options.run.checkpoint(so_far);
    }
  }
  evidence.interrupted = detail::stopped(options.run);
  detail::finish_evidence(evidence, trial.plan, options.data, options.seed);
  return evidence;
}

}  // namespace faultline::stress
