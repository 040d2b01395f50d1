// SPDX-License-Identifier: Apache-2.0
// Footprints and templates as evidence of a finding.
#pragma once

#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

/// Sentences about each output, "footprint of y: ...". Those that say that there is nothing to say
/// only where `all` asks for them.
std::vector<std::string> footprint_texts(const core::Evidence& evidence, bool all);

/// What the footprint of an output says about a race inside blocks against one between them: parts
/// of its tiles are wrong, or whole ones. Empty where it says neither.
std::string race_footprint_text(const core::Evidence& evidence, const core::OutputTotals& output);

}  // namespace faultline::diagnosis
