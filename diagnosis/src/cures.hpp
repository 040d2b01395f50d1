// SPDX-License-Identifier: Apache-2.0
// What cures and knobs did (Evidence::experiments), for the rules and in words.
#pragma once

#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/diagnosis/experiment.hpp"

namespace faultline::diagnosis {

/// The effect of the one experiment of a kind; Effect::not_run when there is none.
Effect effect_of(const core::Evidence& evidence, core::ExperimentEvidence::Kind kind);
/// It still failed: in spite of the change, perhaps more or less often.
bool is_no_cure(Effect effect);

/// The sentence of the one experiment of a kind; empty when it did not run.
std::string experiment_text(const core::Evidence& evidence, core::ExperimentEvidence::Kind kind);

/// A sentence for each that ran, cures first: "cured by one block in each launch (n=16): 0 of 60
/// trials wrong, against 31 of 200 in 'memory_stress'".
std::vector<std::string> experiment_texts(const core::Evidence& evidence);

}  // namespace faultline::diagnosis
