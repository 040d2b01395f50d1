// SPDX-License-Identifier: Apache-2.0
// The error hypotheses of a plan held against what its trials gave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/trial.hpp"
#include "faultline/stress/term_regression.hpp"

namespace faultline::stress::detail {

/// Fits to the captures of `results`, of the first two input sets; with nothing captured only what
/// could have been seen, with the inputs of `input_seed`. `captured` gives for each output of
/// `plan` its place in a capture, in order; empty: the same places. Where memory or another
/// resource runs out, that becomes a sentence in `trouble`: a hypothesis that cannot be evaluated
/// must not cost the run. Anything else that the plan's functions throw is a bug of the plan and
/// passes through.
TermRegression examine_terms(const core::TrialPlan& plan, core::DataMode data,
                             const std::vector<const core::TrialResult*>& results,
                             std::uint64_t input_seed, const std::vector<std::size_t>& captured,
                             std::string& trouble);

/// Add a regression to the evidence, under the names of its cell (both empty in a campaign).
void add_terms(core::Evidence& evidence, TermRegression regression, const std::string& problem,
               const std::string& config);

}  // namespace faultline::stress::detail
