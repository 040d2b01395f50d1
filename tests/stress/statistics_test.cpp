// SPDX-License-Identifier: Apache-2.0
// Against published tables, closed forms, and simulation.
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "faultline/stress/statistics.hpp"

namespace faultline::stress {
namespace {

struct Published {
  std::uint64_t failures, trials;
  double wilson_low, wilson_high, exact_low, exact_high;
};

// Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17
// (1998), table I, methods 3 and 5.
constexpr Published kNewcombe[] = {
    {81, 263, 0.2553, 0.3662, 0.2527, 0.3676},
    {15, 148, 0.0624, 0.1605, 0.0579, 0.1617},
    {0, 20, 0.0, 0.1611, 0.0, 0.1684},
    {1, 29, 0.0061, 0.1718, 0.0009, 0.1776},
};

TEST(Intervals, AgreeWithNewcombesTable) {
  for (const Published& row : kNewcombe) {
    const core::Interval wilson = wilson_interval(row.failures, row.trials);
    EXPECT_NEAR(wilson.low, row.wilson_low, 6e-5);
    EXPECT_NEAR(wilson.high, row.wilson_high, 6e-5);
    const core::Interval exact = clopper_pearson_interval(row.failures, row.trials);
    EXPECT_NEAR(exact.low, row.exact_low, 6e-5);
    EXPECT_NEAR(exact.high, row.exact_high, 6e-5);
  }
}

TEST(Intervals, EndsAreExactAndMirrored) {
  for (std::uint64_t n : {1u, 7u, 1000u}) {
    EXPECT_EQ(wilson_interval(0, n).low, 0.0);
    EXPECT_EQ(wilson_interval(n, n).high, 1.0);
    EXPECT_EQ(clopper_pearson_interval(0, n).low, 0.0);
    EXPECT_EQ(clopper_pearson_interval(n, n).high, 1.0);
    for (std::uint64_t k = 0; k <= n; k += n / 7 + 1) {
      EXPECT_NEAR(wilson_interval(k, n).low, 1 - wilson_interval(n - k, n).high, 1e-12);
      EXPECT_NEAR(clopper_pearson_interval(k, n).low, 1 - clopper_pearson_interval(n - k, n).high,
                  1e-9);
    }
  }
  EXPECT_EQ(wilson_interval(0, 0), (core::Interval{0.0, 1.0}));
}

TEST(Intervals, ClopperPearsonInvertsTheBinomial) {
  // P(X >= k | low) = P(X <= k | high) = 0.025, the sums written out.
  auto tail = [](std::uint64_t k, std::uint64_t n, double p, bool upper) {
    double sum = 0.0;
    for (std::uint64_t i = upper ? k : 0; i <= (upper ? n : k); ++i) {
      const double x = static_cast<double>(i), m = static_cast<double>(n);
      sum += std::exp(std::lgamma(m + 1) - std::lgamma(x + 1) - std::lgamma(m - x + 1) +
                      x * std::log(p) + (m - x) * std::log1p(-p));
    }
    return sum;
  };
  for (std::uint64_t k : {1u, 3u, 17u, 39u}) {
    const core::Interval interval = clopper_pearson_interval(k, 40);
    EXPECT_NEAR(tail(k, 40, interval.low, true), 0.025, 1e-9);
    EXPECT_NEAR(tail(k, 40, interval.high, false), 0.025, 1e-9);
  }
}

TEST(Intervals, RefuseNonsense) {
  EXPECT_THROW(wilson_interval(2, 1), std::invalid_argument);
  EXPECT_THROW(clopper_pearson_interval(2, 1), std::invalid_argument);
  EXPECT_THROW(wilson_interval(1, 2, 1.0), std::invalid_argument);
}

TEST(ZeroFailures, BoundIsTheOneOfTheBinomial) {
  for (std::uint64_t n : {1u, 20u, 5000u, 1000000u}) {
    const double bound = zero_failure_upper_bound(n);
    EXPECT_NEAR(static_cast<double>(n) * std::log1p(-bound), std::log(0.05), 1e-9);
  }
  EXPECT_NEAR(zero_failure_upper_bound(5000), 5.99e-4, 1e-6);
  EXPECT_NEAR(zero_failure_upper_bound(1000000), 3e-6, 1e-8);
  EXPECT_EQ(zero_failure_upper_bound(0), 1.0);
}

TEST(PairedTest, ClosedFormsOfSmallCounts) {
  // E(b, 0) = 2^b (1 3 5 ... (2b-1)) / (2 4 6 ... 2b)
  EXPECT_NEAR(paired_log_e(0, 0), 0.0, 1e-12);
  EXPECT_NEAR(paired_log_e(1, 0), 0.0, 1e-12);
  EXPECT_NEAR(std::exp(paired_log_e(2, 0)), 1.5, 1e-12);
  EXPECT_NEAR(std::exp(paired_log_e(5, 0)), 7.875, 1e-11);
  EXPECT_NEAR(std::exp(paired_log_e(7, 0)), 26.8125, 1e-10);
  EXPECT_NEAR(std::exp(paired_log_e(1, 1)), 0.5, 1e-12);
  EXPECT_NEAR(paired_log_e(30, 4), paired_log_e(4, 30), 1e-12);
}

TEST(PairedTest, IsAMartingaleWhenTheRatesAreEqual) {
  for (std::uint64_t b = 0; b < 40; ++b) {
    for (std::uint64_t c = 0; c < 40; ++c) {
      const double next =
          0.5 * std::exp(paired_log_e(b + 1, c)) + 0.5 * std::exp(paired_log_e(b, c + 1));
      EXPECT_NEAR(next / std::exp(paired_log_e(b, c)), 1.0, 1e-10);
    }
  }
}

/// Pairs until E >= 20, or `limit`.
std::uint64_t pairs_until_claim(double without, double with, std::uint64_t limit,
                                std::mt19937_64& random) {
  std::bernoulli_distribution a(without), b(with);
  std::uint64_t worse = 0, better = 0;
  for (std::uint64_t n = 1; n <= limit; ++n) {
    const bool fails_without = a(random), fails_with = b(random);
    if (fails_with == fails_without) continue;
    (fails_with ? worse : better)++;
    if (paired_log_e(worse, better) >= std::log(20.0)) return n;
  }
  return limit + 1;
}

TEST(PairedTest, SeldomClaimsWhenNothingDependsThoughOneLooksAfterEveryPair) {
  std::mt19937_64 random(1);
  int claims = 0;
  constexpr int kRuns = 1000;
  for (int i = 0; i < kRuns; ++i) {
    if (pairs_until_claim(0.1, 0.1, 1000, random) <= 1000) ++claims;
  }
  EXPECT_LE(claims, 50);
}

TEST(PairedTest, FindsOneToTenPercentInAboutAHundredPairs) {
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> needed;
  for (int i = 0; i < 301; ++i) needed.push_back(pairs_until_claim(0.01, 0.1, 5000, random));
  std::nth_element(needed.begin(), needed.begin() + 150, needed.end());
  EXPECT_GT(needed[150], 80u);
  EXPECT_LT(needed[150], 160u);
}

TEST(Dependence, ThreeThingsCanBeSaidAndNeverNoEffect) {
  EXPECT_EQ(judge_dependence(1000, 100, 0).dependence, Dependence::depends);
  const DependenceClaim short_run = judge_dependence(100, 0, 0);
  EXPECT_EQ(short_run.dependence, Dependence::underpowered);
  EXPECT_GT(short_run.pairs_needed, 0u);
  const DependenceClaim long_run = judge_dependence(5000, 0, 0);
  EXPECT_EQ(long_run.dependence, Dependence::no_evidence);
  EXPECT_NEAR(long_run.discordant_upper, 6e-4, 1e-5);
}

}  // namespace
}  // namespace faultline::stress
