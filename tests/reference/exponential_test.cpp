// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/exponential.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace faultline::reference {
namespace {

TEST(Exponential, AgreesWithLongDouble) {
  double worst = 0.0;
  for (double x = -708.0; x < 709.0; x += 0.00731) {
    const long double expected = std::exp(static_cast<long double>(x));
    const double error = static_cast<double>(std::abs(exponential(x) - expected) / expected);
    worst = std::max(worst, error);
  }
  for (double x = -1.0; x < 1.0; x += 0.0000217) {
    const long double expected = std::exp(static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::abs(exponential(x) - expected) / expected));
  }
  EXPECT_LT(worst, 4e-16);
}

TEST(Exponential, KnownValues) {
  EXPECT_EQ(exponential(0.0), 1.0);
  EXPECT_EQ(exponential(-0.0), 1.0);
  EXPECT_EQ(exponential(-746.0), 0.0);
  EXPECT_EQ(exponential(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(exponential(710.0), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<double>::quiet_NaN())));
  // Subnormal results keep an absolute error of an ulp.
  EXPECT_NEAR(exponential(-740.0) / 5e-324,
              static_cast<double>(std::exp(-740.0L) / 4.94065645841246544177e-324L), 1.0);
}

}  // namespace
}  // namespace faultline::reference
