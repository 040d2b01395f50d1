// SPDX-License-Identifier: Apache-2.0
// Laws of the statistics that rates and claims rest on.
#include <cmath>

#include "faultline/properties/integers.hpp"
#include "faultline/stress/statistics.hpp"
#include "property_test.hpp"

namespace faultline::properties {
namespace {

using core::Interval;
using stress::clopper_pearson_interval;
using stress::wilson_interval;

constexpr double kSlack = 1e-12;

/// Failures out of trials, both on edges of powers of ten.
struct Counts {
  std::uint64_t failures = 0, trials = 1;
  double rate() const { return static_cast<double>(failures) / static_cast<double>(trials); }
};

Counts draw_counts() {
  static const auto trials = tile_edges({1, 1000000, 1, {10, 100, 1000, 10000}});
  const std::int64_t n = *trials.generator;
  const std::int64_t k = *tile_edges({0, n, 1, {1, 10, 100}}).generator;
  return {static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(n)};
}

double draw_confidence() { return *rc::gen::element(0.5, 0.9, 0.95, 0.99, 0.999); }

using IntervalFunction = Interval (*)(std::uint64_t, std::uint64_t, double);

class Intervals : public testing::TestWithParam<IntervalFunction> {
 protected:
  Interval of(const Counts& c, double confidence) const {
    return GetParam()(c.failures, c.trials, confidence);
  }
};

TEST_P(Intervals, ContainTheObservedRate) {
  check_property(500, [&] {
    const Counts c = draw_counts();
    const Interval i = of(c, draw_confidence());
    RC_ASSERT(i.low >= 0.0 && i.high <= 1.0);
    RC_ASSERT(i.low <= c.rate() + kSlack && c.rate() <= i.high + kSlack);
    RC_ASSERT(i.low < i.high);
  });
}

TEST_P(Intervals, GrowWithTheConfidence) {
  check_property(500, [&] {
    const Counts c = draw_counts();
    const Interval narrow = of(c, 0.9), wide = of(c, 0.99);
    RC_ASSERT(wide.low <= narrow.low + kSlack && narrow.high <= wide.high + kSlack);
  });
}

TEST_P(Intervals, MoveUpWithTheFailures) {
  check_property(500, [&] {
    const Counts c = draw_counts();
    RC_PRE(c.failures < c.trials);
    const double confidence = draw_confidence();
    const Interval less = of(c, confidence), more = of({c.failures + 1, c.trials}, confidence);
    RC_ASSERT(less.low <= more.low + kSlack && less.high <= more.high + kSlack);
  });
}

TEST_P(Intervals, AreMirroredWhenFailuresAndSuccessesChangePlaces) {
  check_property(500, [&] {
    const Counts c = draw_counts();
    const double confidence = draw_confidence();
    const Interval i = of(c, confidence);
    const Interval mirrored = of({c.trials - c.failures, c.trials}, confidence);
    RC_ASSERT(std::fabs(i.low - (1.0 - mirrored.high)) < 1e-9);
    RC_ASSERT(std::fabs(i.high - (1.0 - mirrored.low)) < 1e-9);
  });
}

INSTANTIATE_TEST_SUITE_P(Wilson, Intervals, testing::Values(IntervalFunction{&wilson_interval}));
INSTANTIATE_TEST_SUITE_P(ClopperPearson, Intervals,
                         testing::Values(IntervalFunction{&clopper_pearson_interval}));

TEST(ZeroFailures, TheUpperBoundFallsWithTheTrialsAndIsNeverZero) {
  check_property(500, [&] {
    const Counts c = draw_counts();
    const double bound = stress::zero_failure_upper_bound(c.trials);
    RC_ASSERT(bound > 0.0 && bound <= 1.0);
    RC_ASSERT(stress::zero_failure_upper_bound(c.trials + 1) < bound);
    RC_ASSERT(bound <= 3.0 / static_cast<double>(c.trials));
    // The probability of seeing nothing at this rate is alpha.
    RC_ASSERT(std::fabs(std::exp(static_cast<double>(c.trials) * std::log1p(-bound)) - 0.05) <
              1e-9);
  });
}

// ---- the paired e-process -----------------------------------------------------------------------

std::pair<std::uint64_t, std::uint64_t> draw_pairs() {
  static const auto counts = tile_edges({0, 20000, 1, {10, 100, 1000}});
  const auto worse = static_cast<std::uint64_t>(*counts.generator);
  return {worse, static_cast<std::uint64_t>(*counts.generator)};
}

TEST(PairedEProcess, StartsAtOneAndIsSymmetric) {
  EXPECT_EQ(stress::paired_log_e(0, 0), 0.0);
  check_property(500, [&] {
    const auto [worse, better] = draw_pairs();
    const double log_e = stress::paired_log_e(worse, better);
    RC_ASSERT(std::isfinite(log_e));  // E itself is positive
    RC_ASSERT(std::fabs(log_e - stress::paired_log_e(better, worse)) < 1e-9);
  });
}

TEST(PairedEProcess, IsAMartingaleWhenTheRatesAreEqual) {
  // The next discordant pair goes either way with probability 1/2: the mean of E after it is E now.
  // This is what makes E >= 1/alpha a claim of level alpha however often one looks (Ville).
  check_property(500, [&] {
    const auto [worse, better] = draw_pairs();
    const double now = stress::paired_log_e(worse, better);
    const double up = stress::paired_log_e(worse + 1, better) - now;
    const double down = stress::paired_log_e(worse, better + 1) - now;
    RC_ASSERT(std::fabs(0.5 * std::exp(up) + 0.5 * std::exp(down) - 1.0) < 1e-6);
  });
}

TEST(PairedEProcess, GrowsWithTheImbalance) {
  check_property(500, [&] {
    const auto [worse, better] = draw_pairs();
    RC_PRE(worse >= better && better > 0);
    // The same number of pairs, one of them turned over.
    RC_ASSERT(stress::paired_log_e(worse + 1, better - 1) >
              stress::paired_log_e(worse, better) - 1e-9);
  });
}

TEST(Dependence, IsClaimedExactlyWhenTheEvidenceReachesOneOverAlpha) {
  check_property(500, [&] {
    const auto [worse, better] = draw_pairs();
    const std::uint64_t pairs =
        worse + better + static_cast<std::uint64_t>(*tile_edges({0, 1000000, 1, {}}).generator);
    RC_PRE(pairs > 0);
    const double alpha = *rc::gen::element(0.05, 0.01);
    const stress::DependenceClaim claim = stress::judge_dependence(pairs, worse, better, alpha);
    RC_ASSERT((claim.dependence == stress::Dependence::depends) ==
              (claim.log_e >= -std::log(alpha)));
    RC_ASSERT(claim.discordant_upper >=
              static_cast<double>(worse + better) / static_cast<double>(pairs) - kSlack);
    RC_ASSERT((claim.pairs_needed > 0) == (claim.dependence == stress::Dependence::underpowered));
  });
}

}  // namespace
}  // namespace faultline::properties
