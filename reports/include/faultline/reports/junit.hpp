// SPDX-License-Identifier: Apache-2.0
// The report that CI systems count tests from: JUnit XML as Maven Surefire writes it.
#pragma once

#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One <testsuite> by Surefire's schema (maven-surefire-plugin, surefire-test-report.xsd): a
/// test case "verdict", then one for each arm, cell of a sweep, bench row or row of the kill
/// matrix.
///
/// What failed has <failure>; what could not be judged has <error> (an inconclusive run is never
/// green), what was left out <skipped>. A case that failed in some of its trials only, in a run
/// that passes all the same, has <flakyFailure>: readers count it as passed and show it as flaky.
/// Characters that XML 1.0 does not admit are made visible. Deterministic, but for durations.
std::string to_junit(const core::RunRecord& record);

}  // namespace faultline::reports
