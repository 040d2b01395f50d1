// SPDX-License-Identifier: Apache-2.0
// Findings for code scanning: SARIF 2.1.0 (OASIS).
#pragma once

#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One run. Rules are the finding classes that occur; results are the findings, a race finding once
/// for each pair of sites. Both sites are related locations and the two threads of a code flow.
/// `partialFingerprints` holds kFingerprintName: a hash of class, files, functions and instructions
/// without line numbers, so that a finding stays itself while the code around it moves.
std::string to_sarif(const core::RunRecord& record);

inline constexpr const char* kFingerprintName = "faultlineSites/v1";

}  // namespace faultline::reports
