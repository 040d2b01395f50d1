// SPDX-License-Identifier: Apache-2.0
//
// main() of the suites that need a GPU. When every test was skipped the exit code is 77, which
// CTest shows as "Skipped"; the reason is the tests' own GTEST_SKIP message. A suite in which no
// test was selected fails: nothing run is not success.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kExitSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (failed != 0) {
    return failed;
  }
  if (run.test_to_run_count() == 0) {
    std::fputs("no test was selected: nothing run is not success\n", stderr);
    return 1;
  }
  return run.skipped_test_count() == run.test_to_run_count() ? kExitSkipped : 0;
}
