// SPDX-License-Identifier: Apache-2.0
// The environment of the suite is refused before any test starts, and property results are read
// right.
#include "faultline/properties/suite_settings.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/run_property.hpp"

namespace faultline::properties {
namespace {

using ::testing::HasSubstr;

std::string refusal(const char* rc_params, const char* cases = nullptr) {
  try {
    read_suite_settings(rc_params, cases);
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SuiteSettings, MisspeltKeysAreAnErrorWithTheAllowedOnes) {
  const std::string message = refusal("sed=3");
  EXPECT_THAT(message, HasSubstr("unknown key 'sed'"));
  EXPECT_THAT(message, HasSubstr("did you mean 'seed'?"));
  EXPECT_THAT(message, HasSubstr("max_success"));
  EXPECT_THAT(refusal("seed=3 maxsuccess=5"), HasSubstr("'maxsuccess'"));
  EXPECT_THAT(refusal("seed=3 seed=4"), HasSubstr("twice"));
}

TEST(SuiteSettings, MalformedValuesAreAnErrorNotTheEndOfTheProcess) {
  EXPECT_THAT(refusal("seed=three"), HasSubstr("malformed"));
  EXPECT_THAT(refusal("max_success=-1"), HasSubstr("RC_PARAMS"));
  EXPECT_THAT(refusal("max_success=0"), HasSubstr("RC_PARAMS"));
  EXPECT_THAT(refusal("reproduce=nonsense"), HasSubstr("malformed"));
  EXPECT_THAT(refusal("=5"), HasSubstr("RC_PARAMS"));
}

TEST(SuiteSettings, EveryKeyThatRapidCheckPrintsIsAllowed) {
  rc::detail::Configuration all;
  all.testParams = {
      .seed = 5, .maxSuccess = 7, .maxSize = 8, .maxDiscardRatio = 9, .disableShrinking = true};
  all.verboseProgress = all.verboseShrinking = true;
  all.reproduce["Suite/Name"] = {rc::Random(1), 3, {0, 1}};
  EXPECT_EQ(refusal(rc::detail::configToString(all).c_str()), "accepted");
}

TEST(SuiteSettings, ASeedIsSetUnlessGiven) {
  EXPECT_EQ(read_suite_settings(nullptr, nullptr).rc_params, "seed=20291");
  EXPECT_EQ(read_suite_settings("noshrink=1", nullptr).rc_params, "seed=20291 noshrink=1");
  EXPECT_EQ(read_suite_settings("seed=3", nullptr).rc_params, "seed=3");
}

TEST(SuiteSettings, CasesAreScaled) {
  EXPECT_EQ(scaled_cases(read_suite_settings(nullptr, nullptr), 30), 30);
  EXPECT_EQ(scaled_cases(read_suite_settings(nullptr, "1000"), 30), 300);
  EXPECT_EQ(scaled_cases(read_suite_settings(nullptr, "1"), 30), 1);
  EXPECT_EQ(scaled_cases(read_suite_settings("max_success=5", "1000"), 30), 0);
  for (const char* bad : {"", "0", "-3", "many", "10x", "1e3", "99999999999"}) {
    EXPECT_THAT(refusal(nullptr, bad), HasSubstr("FAULTLINE_PROPERTY_CASES")) << bad;
  }
}

/// Exit code of this executable under an environment, listing its tests only.
int exit_code_under(const std::string& environment) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return -1;
  const std::string command =
      environment + " '" + path.data() + "' --gtest_list_tests > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SuiteSettings, TheSuiteExitsWithTwo) {
  EXPECT_EQ(exit_code_under("RC_PARAMS='sed=3'"), 2);
  EXPECT_EQ(exit_code_under("RC_PARAMS='seed=three'"), 2);
  EXPECT_EQ(exit_code_under("FAULTLINE_PROPERTY_CASES=none"), 2);
  EXPECT_EQ(exit_code_under("RC_PARAMS='seed=3' FAULTLINE_PROPERTY_CASES=50"), 0);
}

TEST(RunProperty, TellsTheFourOutcomesApart) {
  const auto outcome_of = [](auto testable) { return run_property(testable).outcome; };
  EXPECT_EQ(outcome_of([] { *rc::gen::arbitrary<int>(); }), PropertyOutcome::held);
  EXPECT_EQ(outcome_of([] { RC_ASSERT(*rc::gen::arbitrary<int>() < 1); }),
            PropertyOutcome::falsified);
  EXPECT_EQ(outcome_of([] { throw std::runtime_error("thrown"); }), PropertyOutcome::falsified);
  EXPECT_EQ(outcome_of([] { RC_DISCARD("always"); }), PropertyOutcome::gave_up);
  EXPECT_EQ(run_property([] {}, {.cases = 0}).outcome, PropertyOutcome::broken);
}

TEST(RunProperty, GivesTheMinimalCounterexampleAndHowToReproduceIt) {
  const PropertyResult result = run_property([] {
    const int value = *rc::gen::arbitrary<int>();
    RC_ASSERT(value < 17);
  });
  ASSERT_EQ(result.outcome, PropertyOutcome::falsified);
  ASSERT_EQ(result.counterexample.size(), 1u);
  EXPECT_EQ(result.counterexample[0].second, "17");
  EXPECT_THAT(result.message, HasSubstr("17"));
}

TEST(RunProperty, IsAFunctionOfTheSeed) {
  const auto values = [](std::uint64_t seed) {
    std::string drawn;
    run_property([&] { drawn += std::to_string(*rc::gen::arbitrary<int>()) + " "; },
                 {.seed = seed});
    return drawn;
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
}

}  // namespace
}  // namespace faultline::properties
