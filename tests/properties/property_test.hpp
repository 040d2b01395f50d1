// SPDX-License-Identifier: Apache-2.0
// How a property becomes a GoogleTest case. Inside a property only RC_ASSERT and exceptions count:
// EXPECT_ and ASSERT_ neither fail nor shrink it.
#pragma once

#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "faultline/properties/run_property.hpp"
#include "faultline/properties/suite_settings.hpp"

namespace faultline::properties {

/// Read by main() before any test starts.
const SuiteSettings& suite_settings();

/// Check `testable` in `usual` cases (scaled by FAULTLINE_PROPERTY_CASES). Giving up and running no
/// case fail. With `reproduce` in RC_PARAMS the properties that it does not name are skipped.
template <typename Testable>
void check_property(int usual, Testable&& testable) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string id = std::string(test.test_suite_name()) + "/" + test.name();
  if (suite_settings().reproducing && rc::detail::configuration().reproduce.count(id) == 0) {
    GTEST_SKIP() << "RC_PARAMS reproduces other properties";
  }
  const PropertyResult result = run_configured_property(id, std::forward<Testable>(testable),
                                                        scaled_cases(suite_settings(), usual));
  if (result.outcome != PropertyOutcome::held) FAIL() << result.message;
}

}  // namespace faultline::properties
