// SPDX-License-Identifier: Apache-2.0
// Perturbations and trial tokens, in all their fields.
#pragma once

#include <iosfwd>

#include "faultline/core/perturbation.hpp"
#include "faultline/core/token.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::core {

// What counterexamples print: RapidCheck looks for this name beside the type.
void showValue(const Perturbation& perturbation, std::ostream& out);
void showValue(const TrialToken& token, std::ostream& out);

}  // namespace faultline::core

namespace faultline::properties {

/// Any combination of fields, those that no backend can honour together included; arm names hold
/// blanks, separators and control characters. Shrinks fields towards their defaults.
ValueDomain<core::Perturbation> perturbations();

/// Those that change what the simulator does: policy, copy lateness, fresh inputs.
ValueDomain<core::Perturbation> simulator_perturbations();

/// Tokens with arbitrary text, numbers of 64 bits and perturbations. Prints as the token.
ValueDomain<core::TrialToken> trial_tokens();

}  // namespace faultline::properties
