// SPDX-License-Identifier: Apache-2.0
// What a campaign will run, fixed and printed before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress {

struct PlannedArm {
  core::Perturbation perturbation;
  std::uint64_t trials = 0;
  std::string reason;  ///< what this arm is there for; why it has fewer trials than the others
};

/// The analysis plan of a campaign.
struct CampaignPlan {
  std::vector<PlannedArm> arms;       ///< most powerful first
  std::vector<std::string> left_out;  ///< arms that cannot apply here, with the reason
  std::uint64_t seed = 1;
  core::DataMode data = core::DataMode::normal;
  core::RaceMode race = core::RaceMode::strict;
  /// Each arm's trials are run in this many blocks, round-robin over the arms, so that drift of the
  /// machine does not look like a difference between arms.
  std::uint32_t rounds = 1;

  std::uint64_t total_trials() const;
};

struct PlanOptions {
  /// On a device: trials of each arm; arms that wait are given fewer, and the plan says so. On the
  /// simulator: trials in total, spread over the arms. 0: 1,000 per arm, 2,000 in total.
  std::uint64_t trials = 0;
  std::uint64_t seed = 1;
  core::DataMode data = core::DataMode::normal;
  core::RaceMode race = core::RaceMode::strict;
  std::vector<std::string> arms{};  ///< names of the arms to run; empty: all
};

/// The arms for this backend and subject. Pure. Which names there are depends on neither the number
/// of trials nor the names asked for. UsageError for a name that is none, or an arm that cannot run
/// here.
CampaignPlan default_plan(const core::BackendInfo& backend, const core::TrialPlan& plan,
                          const PlanOptions& options);

/// Why the blocks of a program cannot do with some of a device's multiprocessors; empty: they can.
/// Reads the PTX of what it launches.
std::string needs_all_multiprocessors(const core::Program& program);

/// One line an arm, then what was left out and how the result will be judged.
std::string to_text(const CampaignPlan& plan);

}  // namespace faultline::stress
