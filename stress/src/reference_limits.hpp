// SPDX-License-Identifier: Apache-2.0
// What the reference of a plan cannot judge: outputs on which computing nothing would pass, bounds
// that fail a check of their own.
#pragma once

#include <cstdint>
#include <string>

#include "faultline/core/evidence.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

/// Elements of all buffers.
std::int64_t elements_of(const core::TrialPlan& plan);

/// A sentence for Evidence::not_examined of a plan that is too large for a check.
std::string not_examined_text(const std::string& what, const core::TrialPlan& plan,
                              std::int64_t element_limit);

/// Add to the evidence the trivial outputs (accepted_null_outputs()) that would pass at the plan's
/// problem, or that so many elements were too many to try them.
void try_null_outputs(const core::TrialPlan& plan, core::DataMode data, std::uint64_t seed,
                      std::int64_t element_limit, core::Evidence& evidence);

/// Add to the evidence what the plan says of its reference (TrialPlan::reference_notes) at the
/// inputs of `input_seed`; where it says nothing, the outputs that all zeros, or the reference
/// moved by one element, would pass, and those with a wide bound. When no output is left, a note
/// without an output says so. Plans of more than `element_limit` elements that say nothing of
/// themselves are not examined, which the evidence then says. What the plan's functions throw
/// becomes an unusable reference.
void add_reference_limits(core::Evidence& evidence, const core::TrialPlan& plan,
                          core::DataMode data, std::uint64_t input_seed, std::int64_t element_limit,
                          const std::string& problem, const std::string& config);

/// The same of the plan's intermediates, which are compared as outputs are.
void add_intermediate_limits(core::Evidence& evidence, const core::TrialPlan& base,
                             core::DataMode data, std::uint64_t input_seed,
                             std::int64_t element_limit, const std::string& problem,
                             const std::string& config);

}  // namespace faultline::stress::detail
