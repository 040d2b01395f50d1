// SPDX-License-Identifier: Apache-2.0
// Differential check over problems and configs.
#pragma once

#include <cstdint>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

struct VerifyOptions {
  std::uint64_t trials = 3;  ///< of each cell, new inputs in each: one of every poison pattern
  std::uint64_t seed = 1;
  core::DataMode data = core::DataMode::normal;
  core::RaceMode race = core::RaceMode::strict;
  std::vector<core::Config> configs;  ///< empty: all configs of each problem
  /// Compare the intermediates too, in the order of the algorithm (core::with_intermediates). A
  /// cell whose plan declares none is skipped.
  bool intermediates = false;
  /// The check that trivial outputs fail is made on problems with at most this many elements.
  std::int64_t null_check_elements = std::int64_t{1} << 24;
  RunOptions run;
};

/// Every config of every problem. A cell whose config the subject refuses is skipped with the
/// reason; a cell that breaks is recorded and the sweep goes on.
core::Evidence run_verify(core::Backend& backend, const kernels::Subject& subject,
                          const kernels::Variant& variant,
                          const std::vector<core::Problem>& problems,
                          const VerifyOptions& options = {});

/// Names of trivial outputs that the comparison of `plan` would accept: zeros, a constant, the
/// reference shuffled, an input, the result of other inputs. Empty is good.
std::vector<std::string> accepted_null_outputs(const core::TrialPlan& plan, core::DataMode data,
                                               std::uint64_t input_seed,
                                               std::uint64_t other_input_seed);

}  // namespace faultline::stress
