// SPDX-License-Identifier: Apache-2.0
#include "gate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace faultline::cuda {
namespace {

using Values = std::vector<double>;

TEST(Gate, EqualTensorsDifferByNothing) {
  const Values v{1.0, -2.0, 0.0}, b{0.1, 0.2, 0.0};
  EXPECT_EQ(gate_difference(v, b, v, b).worst, 0.0);
}

TEST(Gate, ValuesAreRelativeToTheTensorAndBoundsToTheElement) {
  const Values v{100.0, 1.0}, b{1.0, 1e-6};
  const GateDifference value = gate_difference(Values{100.0, 1.0 + 1e-9}, b, v, b);
  EXPECT_NEAR(value.worst, 1e-11, 1e-14);
  EXPECT_EQ(value.index, 1u);
  EXPECT_FALSE(value.in_bound);
  const GateDifference bound = gate_difference(v, Values{1.0, 1.1e-6}, v, b);
  EXPECT_NEAR(bound.worst, 0.1, 1e-9);
  EXPECT_TRUE(bound.in_bound);
}

TEST(Gate, NothingIsNoAgreement) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Values one{1.0}, zero{0.0};
  EXPECT_EQ(gate_difference({}, {}, {}, {}).worst, infinity);
  EXPECT_EQ(gate_difference(one, one, Values{1.0, 2.0}, Values{1.0, 2.0}).worst, infinity);
  EXPECT_EQ(gate_difference(Values{nan}, one, one, one).worst, infinity);
  EXPECT_EQ(gate_difference(Values{nan}, one, Values{nan}, one).worst, infinity);
  EXPECT_EQ(gate_difference(one, Values{nan}, one, one).worst, infinity);
  EXPECT_EQ(gate_difference(one, one, zero, one).worst, infinity);  // all zero against not zero
  EXPECT_EQ(gate_difference(one, one, one, zero).worst, infinity);
}

}  // namespace
}  // namespace faultline::cuda
