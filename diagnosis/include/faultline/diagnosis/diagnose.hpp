// SPDX-License-Identifier: Apache-2.0
// Evidence in, verdict out. Nothing here runs a kernel, reads a clock or a file.
#pragma once

#include <string_view>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::diagnosis {

/// The verdict on a run: outcome, one summary line, findings ranked by severity and confidence.
/// A pure function: equal evidence gives an equal verdict, and the order of arms, configs, races
/// and provenance entries does not matter. docs/verdicts.md states every rule. `cut_by` is how the
/// summary says what cut short a run that is marked as interrupted.
core::Verdict diagnose(const core::Evidence& evidence, std::string_view cut_by = "interrupted");

/// The classes that some rule can produce, in the order of the enumeration.
std::vector<core::FindingClass> produced_classes();

}  // namespace faultline::diagnosis
