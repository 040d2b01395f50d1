// SPDX-License-Identifier: Apache-2.0
// Cures and knobs: what failed, run again with one thing changed.
#pragma once

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress::detail {

/// Run what diagnosis::next_experiment() asks for, until it asks for no more or the run is stopped:
/// a row of Evidence::experiments for each. False when a stop left some out, or cut one short. What
/// does not apply here gets a row with the reason. `plan` is the trial's, with its reference kept.
bool run_experiments(core::Backend& backend, const kernels::ResolvedTrial& trial,
                     const core::TrialPlan& plan, const CampaignPlan& campaign,
                     const RunOptions& options, core::Evidence& evidence);

}  // namespace faultline::stress::detail
