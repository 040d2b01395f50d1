// SPDX-License-Identifier: Apache-2.0
// Cases and the trials that a store keeps of them.
#pragma once

#include <optional>
#include <string>

#include "faultline/core/token.hpp"
#include "faultline/properties/cases.hpp"

namespace faultline::properties {

/// Trial `trial` of a case, as check_case() runs it.
core::TrialToken token_of(const kernels::SubjectRegistry& registry, const Case& c,
                          std::uint64_t trial);

/// The case that has this trial: with as many trials as it takes. Empty when it is none that
/// check_case() runs (another perturbation). UsageError when this build does not know its subject,
/// or its problem is outside the domain now.
std::optional<Case> case_of(const kernels::SubjectRegistry& registry,
                            const core::TrialToken& trial);

}  // namespace faultline::properties
