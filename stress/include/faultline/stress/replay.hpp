// SPDX-License-Identifier: Apache-2.0
// Rerun one trial from its token.
#pragma once

#include <cstdint>
#include <string>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/core/token.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

struct ReplayOptions {
  std::uint64_t repeats = 1000;  ///< on a device; the simulator runs the one trial
  RunOptions run;
  bool templates = true;  ///< as of examine_captures()
};

struct Replay {
  kernels::ResolvedTrial trial;
  core::Evidence evidence;
  std::string warning;  ///< not empty when another build of the kernel made the token
};

/// On the simulator: the trial itself, the same evidence byte for byte. On a device: the trial's
/// inputs and perturbation `repeats` times, for a rate with its interval. Where a later call of a
/// trial is wrong, trials of one call and of several are held against each other, too. UsageError
/// when the token names another backend or something that this build does not know.
Replay replay(core::Backend& backend, const kernels::SubjectRegistry& registry,
              const core::TrialToken& token, const ReplayOptions& options = {});

/// A campaign seed whose trial 0 has the input seed `input_seed`: trial_seed(result, 0) ==
/// input_seed.
std::uint64_t seed_for_inputs(std::uint64_t input_seed);

}  // namespace faultline::stress
