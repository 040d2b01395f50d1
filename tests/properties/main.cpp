// SPDX-License-Identifier: Apache-2.0
// main() of the property suites: the environment is checked before any test starts.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "property_test.hpp"

namespace faultline::properties {
namespace {

SuiteSettings& mutable_settings() {
  static SuiteSettings settings;
  return settings;
}

}  // namespace

const SuiteSettings& suite_settings() { return mutable_settings(); }

}  // namespace faultline::properties

int main(int argc, char** argv) {
  namespace properties = faultline::properties;
  try {
    properties::SuiteSettings& settings = properties::mutable_settings();
    settings = properties::read_suite_settings(std::getenv("RC_PARAMS"),
                                               std::getenv("FAULTLINE_PROPERTY_CASES"));
    // RapidCheck reads its configuration from the environment, once.
    setenv("RC_PARAMS", settings.rc_params.c_str(), 1);
  } catch (const faultline::core::UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(faultline::core::ExitCode::usage);
  }
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (failed == 0 && run.test_to_run_count() == 0 && !testing::GTEST_FLAG(list_tests)) {
    std::fputs("no test was selected: nothing run is not success\n", stderr);
    return 1;
  }
  return failed;
}
