// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/race.hpp"

#include <array>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "run_arm.hpp"

namespace faultline::stress {

core::Evidence run_race(core::Backend& backend, const kernels::ResolvedTrial& trial,
                        const RaceOptions& options) {
  if (!backend.info().is_model) {
    throw core::UnsupportedError(
        fmt::format("race detection needs the simulator: {} reports no races; use --backend "
                    "simulator, or `faultline stress` to look for wrong values on the device",
                    backend.info().device));
  }
  using core::CopyLateness;
  using core::SchedulePolicy;
  struct Schedule {
    SchedulePolicy policy;
    CopyLateness lateness;
  };
  constexpr std::array kSchedules{Schedule{SchedulePolicy::random, CopyLateness::random},
                                  Schedule{SchedulePolicy::round_robin, CopyLateness::eager},
                                  Schedule{SchedulePolicy::pct, CopyLateness::random},
                                  Schedule{SchedulePolicy::skew, CopyLateness::lazy}};

  core::Evidence evidence = detail::start_evidence(backend.info(), trial.plan, "race");
  std::uint64_t done = 0, failed = 0;
  for (std::size_t i = 0; i < kSchedules.size() && !detail::stopped(options.run); ++i) {
    core::TrialRequest request;
    request.seed = options.seed;
    request.count =
        options.trials / kSchedules.size() + (i < options.trials % kSchedules.size() ? 1 : 0);
    if (request.count == 0) continue;
    request.data = options.data;
    request.perturbation.policy = kSchedules[i].policy;
    request.perturbation.lateness = kSchedules[i].lateness;
    request.perturbation.name =
        fmt::format("{}_{}", name_of(kSchedules[i].policy), name_of(kSchedules[i].lateness));
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
  }
  evidence.interrupted = detail::stopped(options.run);
  detail::finish_evidence(evidence, trial.plan, options.data);
  return evidence;
}

}  // namespace faultline::stress
