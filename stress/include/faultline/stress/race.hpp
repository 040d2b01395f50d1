// SPDX-License-Identifier: Apache-2.0
// A short race check on the simulator: happens-before detection needs one schedule, a few more give
// the values a chance to go wrong too.
#pragma once

#include <cstdint>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

/// Every policy with every lateness. The first four differ most.
inline constexpr std::uint64_t kRaceSchedules = 12;
/// Policy, lateness and name ("random_lazy") of schedule `i`; repeats after kRaceSchedules.
core::Perturbation race_schedule(std::uint64_t i);

struct RaceOptions {
  std::uint64_t trials = 4;  ///< spread over the schedules, one each before any gets a second
  std::uint64_t seed = 1;
  core::DataMode data = core::DataMode::normal;
  core::RaceMode mode = core::RaceMode::strict;
  RunOptions run;
};

/// Throws UnsupportedError on a backend that is not a model: a device reports no races.
core::Evidence run_race(core::Backend& backend, const kernels::ResolvedTrial& trial,
                        const RaceOptions& options = {});

}  // namespace faultline::stress
