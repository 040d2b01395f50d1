// SPDX-License-Identifier: Apache-2.0
// Runs a campaign plan and collects the evidence.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign_plan.hpp"

namespace faultline::stress {

/// How far a run is. `done` and `failed` count trials over everything that the run covers.
struct Progress {
  std::string what;  ///< arm or config under way
  std::uint64_t done = 0, total = 0, failed = 0;
};

/// What every kind of run takes.
struct RunOptions {
  const std::atomic<bool>* stop = nullptr;        ///< set by Ctrl-C: finish the trial and return
  std::function<void(const Progress&)> progress;  ///< called from the running thread
  /// The evidence so far, after each block of trials and within long ones about every
  /// `checkpoint_every_s` (campaigns), after each cell (verify) or schedule (race); keep it, and a
  /// crash loses little. Costs a copy of the evidence each time.
  std::function<void(const core::Evidence&)> checkpoint;
  double checkpoint_every_s = 5.0;
  std::uint32_t capture_limit = 16;  ///< failing trials kept per arm or config
  double timeout_s = 60.0;           ///< of one execution
  bool experiments = true;           ///< campaigns: cures and knobs of what failed, at the end
  bool follow_ups = true;            ///< campaigns: further arms; without it only for what failed,
                                     ///< and none at all without `experiments` as well
};

/// Run all arms. An arm that throws is recorded with its reason and the others go on. When `stop`
/// is set, what was finished comes back as interrupted evidence. Up to two further arms that
/// diagnosis::next_experiment() asks for are run at the end (without `follow_ups` only once
/// something failed); their reason is in the arm's note. Then, where something failed, the cures
/// and knobs that it asks for (Evidence::experiments); a stop among these leaves the evidence
/// whole.
core::Evidence run_campaign(core::Backend& backend, const kernels::ResolvedTrial& trial,
                            const CampaignPlan& plan, const RunOptions& options = {});

}  // namespace faultline::stress
