// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace faultline::reports {
namespace {

TEST(Numbers, CountsHaveSeparators) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1276500), "1,276,500");
  EXPECT_EQ(count_text(1, "trial"), "1 trial");
  EXPECT_EQ(count_text(2, "trial"), "2 trials");
}

TEST(Numbers, ShareIsAnEndOnlyWhenItIsExactlyThat) {
  EXPECT_EQ(share_text(0, 5000), "0 %");
  EXPECT_EQ(share_text(5000, 5000), "100 %");
  EXPECT_EQ(share_text(4999, 5000), "99.980 %");
  EXPECT_EQ(share_text(999999999, 1000000000).substr(0, 3), "99.");
  EXPECT_EQ(share_text(1, 1000000000), "0.00000010 %");
  EXPECT_EQ(share_text(3, 0), "-");
  for (const std::uint64_t n : {10u, 1000u, 1000000u, 100000000u}) {
    EXPECT_NE(share_text(1, n), "0 %");
    EXPECT_NE(share_text(n - 1, n), "100 %") << n;
  }
}

TEST(Numbers, IntervalsAreRoundedOutwards) {
  EXPECT_EQ(interval_text({0.36549, 0.38651}), "36.5 .. 38.7 %");
  EXPECT_EQ(interval_text({0.0, 0.00061}), "0 .. 0.061 %");
  EXPECT_EQ(interval_text({0.9923, 1.0}), "99.23 .. 100 %");
  EXPECT_EQ(upper_bound_text(0.000599), "<= 0.060 %");
  EXPECT_EQ(upper_bound_text(1.0), "<= 100 %");
}

TEST(Numbers, RatioNeverCrossesTheBoundByRounding) {
  EXPECT_EQ(bound_text(0.26), "0.26 of bound");
  EXPECT_EQ(bound_text(1.0), "1 of bound");
  EXPECT_EQ(bound_text(1.004), "1.004 x bound");
  EXPECT_EQ(bound_text(0.9999), "0.9999 of bound");
  EXPECT_EQ(bound_text(1.0 + std::ldexp(1.0, -40)), "1.000000000001 x bound");
  EXPECT_EQ(bound_text(41.26), "41.3 x bound");
  EXPECT_EQ(bound_text(12345.0), "12,345 x bound");
  EXPECT_EQ(bound_text(0.0), "0 of bound");
  EXPECT_EQ(bound_text(std::numeric_limits<double>::infinity()), "not finite");
  EXPECT_EQ(bound_text(std::nan("")), "not finite");
}

TEST(Numbers, Durations) {
  EXPECT_EQ(duration_text(0.407), "0.41 s");
  EXPECT_EQ(duration_text(8.21), "8.2 s");
  EXPECT_EQ(duration_text(59.7), "1 min 00 s");
  EXPECT_EQ(duration_text(754.0), "12 min 34 s");
  EXPECT_EQ(duration_text(3780.0), "1 h 03 min");
  EXPECT_EQ(duration_text(-1.0), "?");
}

TEST(Numbers, SiUnits) {
  EXPECT_EQ(si_text(412.0), "412");
  EXPECT_EQ(si_text(34100.0), "34.1 k");
  EXPECT_EQ(si_text(2.3e6), "2.3 M");
  EXPECT_EQ(bytes_text(62914560.0), "62.9 MB");
}

}  // namespace
}  // namespace faultline::reports
