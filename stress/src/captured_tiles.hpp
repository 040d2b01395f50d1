// SPDX-License-Identifier: Apache-2.0
// What a comparison on a device does not keep of a trial, found again on the host from captures.
#pragma once

#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

/// Compare the captures of a result whose outputs the host has not compared: the wrong tiles of
/// these trials (FailedTrial::wrong_tiles), and their errors in bins (OutputTotals::ratio_bins,
/// ulp_bins) unless
/// the device has counted them there. References are computed for the first 8 input sets; other
/// captures are left alone.
void add_captured_tiles(const core::TrialPlan& plan, core::DataMode data,
                        core::TrialResult& result);

}  // namespace faultline::stress::detail
