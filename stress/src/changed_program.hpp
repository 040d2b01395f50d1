// SPDX-License-Identifier: Apache-2.0
// Perturbations that change the program itself: its streams, its graphs, its PTX,
// how often it is called.
#pragma once

#include <string>

#include "faultline/core/perturbation.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

bool changes_program(const core::Perturbation& perturbation);

/// What is left for a backend to do.
core::Perturbation for_backend(core::Perturbation perturbation);

/// The plan whose program is changed as the perturbation says. UnsupportedError when nothing would
/// change, with the reason: no graph to be issued step by step, no site for a delay. UsageError for
/// a number of calls that is none. With several calls the plan has a workspace more behind its
/// other buffers, in which what is laid in its outputs is kept.
core::TrialPlan with_changed_program(core::TrialPlan plan, const core::Perturbation& perturbation);

}  // namespace faultline::stress::detail
