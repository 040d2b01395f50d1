// SPDX-License-Identifier: Apache-2.0
// The forward subjects of the DeltaNet family on the simulator: outputs and intermediates within
// their bounds, without races, in every regime, dtype and tiling, whatever the segments; mutants
// wrong in the outputs that their defect feeds; the declared weakness of repeated squaring.
#include "deltanet_support.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

using test::kUnit;
using test::registry;
using test::run;
using test::Values;
using test::with;
using test::wrong_outputs;
using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct Case {
  std::string subject;
  Values problem, config;
};

void expect_right(const Case& c) {
  const ResolvedTrial trial = resolve(registry(), c.subject, c.problem, c.config);
  SCOPED_TRACE(trial.problem.line() + " @" + trial.variant->name + " " + trial.config.line());
  const core::TrialResult result = run(core::with_intermediates(trial.plan));
  EXPECT_EQ(result.status, core::ExecutionStatus::completed) << result.message;
  EXPECT_EQ(result.raced, 0u);
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(result.outputs.size(), 7u);  // o, hT; x, w, u, h, v_new
  for (const core::OutputTotals& output : result.outputs) {
    EXPECT_GT(output.compared_elements, 0u) << output.name;
    EXPECT_EQ(output.bad_elements, 0u) << output.name << ": " << output.worst_ratio;
  }
}

TEST(DeltanetForward, OutputsAndIntermediatesAreRight) {
  for (const Case& c : {
           Case{"deltanet_fwd", with(kUnit, {{"t", "1"}}), {}},
           Case{"deltanet_fwd", {{"t", "64"}, {"dtype", "bf16"}}, {{"chunk", "32"}}},
           Case{"gated_deltanet_fwd",
                with(kUnit, {{"t", "65"}, {"h", "2"}, {"gate", "0.1"}, {"scale", "auto"}}),
                {{"chunk", "64"}}},
           Case{"gated_deltanet_fwd",
                with(kUnit, {{"t", "97"}, {"dtype", "f32"}, {"gate", "1"}}),
                {{"chunk", "32"}}},
       }) {
    expect_right(c);
  }
}

TEST(DeltanetForward, WideStatesHardKeysAndStrongGatesAreRight) {
  for (const Case& c : {
           Case{"gated_deltanet_fwd",
                {{"t", "70"},
                 {"dk", "128"},
                 {"dv", "64"},
                 {"dtype", "bf16"},
                 {"gate", "20"},
                 {"keys", "correlated"},
                 {"beta", "uniform"},
                 {"states", "random"}},
                {{"chunk", "32"}}},
           Case{"deltanet_fwd",
                {{"t", "66"},
                 {"dk", "128"},
                 {"dv", "128"},
                 {"keys", "identical"},
                 {"beta", "coin"},
                 {"states", "random"}},
                {{"chunk", "64"}}},
           Case{"deltanet_fwd",
                {{"t", "63"}, {"dv", "128"}, {"keys", "repeated"}, {"scale", "-0.5"}},
                {{"chunk", "64"}}},
       }) {
    expect_right(c);
  }
}

TEST(DeltanetForward, SegmentsAreJoinedByTheirTransitions) {
  for (const char* segments : {"2", "4"}) {
    expect_right(
        {"deltanet_fwd", with(kUnit, {{"t", "120"}}), {{"chunk", "32"}, {"segments", segments}}});
  }
  expect_right(
      {"gated_deltanet_fwd",
       with(kUnit,
            {{"t", "129"}, {"dk", "128"}, {"dtype", "bf16"}, {"gate", "0.01"}, {"scale", "auto"}}),
       {{"chunk", "64"}, {"segments", "3"}}});
}

TEST(DeltanetForward, SegmentsThatDoNotExistAreRefused) {
  const auto refusal = [](const Values& problem, const Values& config) -> std::string {
    try {
      resolve(registry(), "deltanet_fwd", problem, config);
    } catch (const core::UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({{"t", "128"}}, {{"segments", "3"}}), HasSubstr("2 chunks of 64"));
  EXPECT_THAT(refusal({{"t", "128"}, {"dtype", "f32"}}, {{"segments", "2"}}),
              HasSubstr("segments=1"));
  EXPECT_THAT(refusal({{"t", "128"}, {"dk", "128"}}, {{"chunk", "32"}, {"segments", "2"}}),
              HasSubstr("segments=1"));
}

/// Outputs and intermediates that a defect makes wrong, in the order of the plan.
struct Defect {
  const char* variant;
  bool gated;
  std::vector<std::string> wrong;
};

class DeltanetForwardMutants : public ::testing::TestWithParam<const char*> {};

TEST_P(DeltanetForwardMutants, AreWrongInWhatTheirDefectFeeds) {
  const std::string dtype = GetParam();
  for (const Defect& defect : {
           Defect{"strict_tril", false, {"o"}},
           Defect{"strict_tril", true, {"o"}},
           Defect{"w_scaled_outside", true, {"o", "hT", "w", "h", "v_new"}},
           Defect{"gamma_twice", true, {"o", "hT", "h", "v_new"}},
       }) {
    Values problem = with(kUnit, {{"t", "96"}, {"dtype", dtype}});
    if (defect.gated) {
      problem.push_back({"gate", "0.1"});
    }
    const ResolvedTrial trial = resolve(
        registry(), fmt::format("{}deltanet_fwd@{}", defect.gated ? "gated_" : "", defect.variant),
        problem, {{"chunk", "64"}});
    SCOPED_TRACE(trial.problem.line() + " @" + defect.variant);
    const core::TrialResult result = run(core::with_intermediates(trial.plan));
    EXPECT_EQ(result.status, core::ExecutionStatus::completed) << result.message;
    EXPECT_EQ(result.raced, 0u);
    EXPECT_THAT(wrong_outputs(result), ElementsAreArray(defect.wrong));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DeltanetForwardMutants, ::testing::Values("f16", "bf16", "f32"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DeltanetForward, Bf16StateIsWrongFromTheSecondChunkOn) {
  for (const char* dtype : {"f16", "f32"}) {
    const ResolvedTrial trial = resolve(registry(), "deltanet_fwd@bf16_state",
                                        with(kUnit, {{"t", "256"}, {"dtype", dtype}}), {});
    SCOPED_TRACE(trial.problem.line());
    const core::TrialResult result = run(trial.plan);
    EXPECT_EQ(result.raced, 0u);
    EXPECT_THAT(wrong_outputs(result), Contains("hT"));
    EXPECT_THAT(wrong_outputs(result), Contains("o"));
    ASSERT_EQ(result.outputs[0].name, "o");
    EXPECT_EQ(result.outputs[0].tiles[0].bad_elements, 0u);  // entered by the exact state
  }
}

TEST(DeltanetForward, SquaringIsRightForRandomKeysAndFailsForAlikeOnes) {
  for (const char* dtype : {"f16", "f32"}) {
    expect_right({"deltanet_fwd@squaring", with(kUnit, {{"t", "64"}, {"dtype", dtype}}), {}});
    const Values alike{{"t", "64"}, {"dtype", dtype}, {"keys", "identical"}, {"beta", "uniform"}};
    const core::TrialResult weak =
        run(resolve(registry(), "deltanet_fwd@squaring", alike, {}).plan);
    EXPECT_THAT(wrong_outputs(weak), Contains("o")) << dtype;
    const core::TrialResult twin = run(resolve(registry(), "deltanet_fwd", alike, {}).plan);
    EXPECT_EQ(twin.failed, 0u) << dtype;
  }
}

}  // namespace
}  // namespace faultline::kernels
