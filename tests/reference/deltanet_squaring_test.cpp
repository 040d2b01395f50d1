// SPDX-License-Identifier: Apache-2.0
// Repeated squaring: harmless with independent keys, and as bad as its powers are large.
#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet_squaring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "deltanet_inputs.hpp"

namespace faultline::reference {
namespace {

constexpr std::array kForward{DeltaOutput::o, DeltaOutput::hT};

DeltaInputs inputs_of(std::string_view regime) {
  for (const test::Regime& candidate : test::kRegimes) {
    if (regime == candidate.name) {
      return test::make_delta_inputs(
          candidate, {.shape = {.b = 1, .h = 2, .t = 100, .dk = 32, .dv = 48}, .states = true});
    }
  }
  throw core::UsageError("no such regime");
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double x : values) most = std::max(most, std::fabs(x));
  return most;
}

class SquaringSums : public ::testing::TestWithParam<Fp32Sums> {};

TEST_P(SquaringSums, AgreeWithTheDefinitionWhereKeysAreIndependent) {
  const DeltaInputs inputs = inputs_of("unit");
  const DeltaOutputs right = recurrent_forward(inputs);
  const DeltaOutputs squared = squaring_forward(inputs, 64, 1, GetParam());
  EXPECT_LT(test::relative_l2(squared.o, right.o), 1e-5);
  EXPECT_LT(test::relative_l2(squared.hT, right.hT), 1e-5);
}

TEST_P(SquaringSums, LoseWhatTheirPowersHoldWhereKeysAreEqual) {
  const DeltaInputs inputs = inputs_of("identical");
  const DeltaOutputs right = recurrent_forward(inputs);
  EXPECT_GT(test::relative_l2(squaring_forward(inputs, 64, 1, GetParam()).o, right.o), 1e-2);
  EXPECT_LT(test::relative_l2(squaring_forward(inputs, 8, 1, GetParam()).o, right.o), 1e-4);
}

TEST_P(SquaringSums, PredictTheSizeOfADrawThatTheyHaveNotSeen) {
  const DeltaInputs inputs = inputs_of("identical");
  const core::ErrorHypothesis hypothesis = squaring_hypothesis(inputs, 64, kForward, GetParam());
  EXPECT_EQ(hypothesis.left_out, "");
  EXPECT_EQ(hypothesis.kind, core::ErrorHypothesis::Kind::rounding);
  const DeltaOutputs right = recurrent_forward(inputs);
  const DeltaOutputs unseen = squaring_forward(inputs, 64, 12345, GetParam());
  double logs = 0.0, elements = 0.0;
  for (std::size_t o = 0; o < kForward.size(); ++o) {
    const std::vector<double>& sizes = hypothesis.effect[o];
    ASSERT_EQ(sizes.size(), right[kForward[o]].size());
    const double matters = 1e-3 * largest(sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < matters) continue;
      const double error = std::fabs(unseen[kForward[o]][i] - right[kForward[o]][i]);
      logs += std::log(std::max(error / sizes[i], 1e-3));
      elements += 1.0;
    }
  }
  const double ratio = std::exp(logs / elements + 0.635);
  EXPECT_GT(ratio, 0.1);
  EXPECT_LT(ratio, 4.0);
}

INSTANTIATE_TEST_SUITE_P(Of, SquaringSums,
                         ::testing::Values(Fp32Sums::nearest, Fp32Sums::truncated),
                         [](const auto& info) {
                           return info.param == Fp32Sums::nearest ? "nearest" : "truncated";
                         });

/// What is cut off adds up, what is rounded to nearest mostly cancels.
TEST(Squaring, TruncatedSumsLoseMore) {
  const DeltaInputs inputs = inputs_of("identical");
  const DeltaOutputs right = recurrent_forward(inputs);
  const double nearest = test::relative_l2(squaring_forward(inputs, 64, 1).o, right.o);
  const double truncated =
      test::relative_l2(squaring_forward(inputs, 64, 1, Fp32Sums::truncated).o, right.o);
  EXPECT_GT(truncated, 2.0 * nearest);
  std::printf("relative L2 of o: %g to nearest, %g truncated\n", nearest, truncated);
}

TEST(Squaring, IsTheSameInEveryRunAndRefusesNonsense) {
  const DeltaInputs inputs = inputs_of("unit");
  EXPECT_EQ(squaring_forward(inputs, 32, 7).o, squaring_forward(inputs, 32, 7).o);
  EXPECT_THROW(squaring_forward(inputs, 0, 7), core::UsageError);
  EXPECT_EQ(squaring_hypothesis(inputs, 32, kForward, Fp32Sums::nearest, 10).left_out,
            "not evaluated: too many values");
}

TEST(Squaring, GatedIsTheSameAlgebra) {
  const DeltaInputs inputs = inputs_of("unit, -0.1 U");
  ASSERT_TRUE(inputs.gated());
  const DeltaOutputs right = recurrent_forward(inputs);
  EXPECT_LT(test::relative_l2(squaring_forward(inputs, 32, 1).o, right.o), 1e-4);
}

}  // namespace
}  // namespace faultline::reference
