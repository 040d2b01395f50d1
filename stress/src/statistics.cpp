// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>

namespace faultline::stress {
namespace {

void check_counts(std::uint64_t failures, std::uint64_t trials, double confidence) {
  if (failures > trials) {
    throw std::invalid_argument("an interval of a rate needs failures <= trials, not " +
                                std::to_string(failures) + " of " + std::to_string(trials));
  }
  if (!(confidence > 0.0 && confidence < 1.0)) {
    throw std::invalid_argument("a confidence lies strictly between 0 and 1, not at " +
                                std::to_string(confidence));
  }
}

double log_beta(double a, double b) {
  using boost::math::lgamma;
  return lgamma(a) + lgamma(b) - lgamma(a + b);
}

}  // namespace

core::Interval wilson_interval(std::uint64_t failures, std::uint64_t trials, double confidence) {
  check_counts(failures, trials, confidence);
  if (trials == 0) return {0.0, 1.0};
  const double n = static_cast<double>(trials);
  const double p = static_cast<double>(failures) / n;
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + confidence / 2);
  const double denominator = 1.0 + z * z / n;
  const double centre = (p + z * z / (2 * n)) / denominator;
  const double half = z / denominator * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  // At the ends the formula gives exactly 0 and 1 but for rounding.
  return {failures == 0 ? 0.0 : std::max(0.0, centre - half),
          failures == trials ? 1.0 : std::min(1.0, centre + half)};
}

core::Interval clopper_pearson_interval(std::uint64_t failures, std::uint64_t trials,
                                        double confidence) {
  check_counts(failures, trials, confidence);
  if (trials == 0) return {0.0, 1.0};
  const double tail = (1.0 - confidence) / 2;
  const double k = static_cast<double>(failures), n = static_cast<double>(trials);
  core::Interval interval{0.0, 1.0};
  if (failures > 0) {
    interval.low = boost::math::quantile(boost::math::beta_distribution<>(k, n - k + 1), tail);
  }
  if (failures < trials) {
    interval.high = boost::math::quantile(boost::math::beta_distribution<>(k + 1, n - k), 1 - tail);
  }
  return interval;
}

double zero_failure_upper_bound(std::uint64_t trials, double alpha) {
  if (trials == 0) return 1.0;
  return -std::expm1(std::log(alpha) / static_cast<double>(trials));
}

double paired_log_e(std::uint64_t worse, std::uint64_t better) {
  const double b = static_cast<double>(worse), c = static_cast<double>(better);
  return log_beta(b + 0.5, c + 0.5) - log_beta(0.5, 0.5) + (b + c) * std::log(2.0);
}

DependenceClaim judge_dependence(std::uint64_t pairs, std::uint64_t worse, std::uint64_t better,
                                 double alpha, double smallest_difference) {
  DependenceClaim claim;
  claim.log_e = paired_log_e(worse, better);
  const std::uint64_t differing = worse + better;
  claim.discordant_upper = differing == 0
                               ? zero_failure_upper_bound(pairs, alpha)
                               : clopper_pearson_interval(differing, pairs, 1 - 2 * alpha).high;
  if (claim.log_e >= -std::log(alpha)) {
    claim.dependence = Dependence::depends;
    return claim;
  }
  // The shortest one-sided run of differing pairs that reaches 1/alpha, and the pairs in which a
  // difference of `smallest_difference` gives that many on average.
  std::uint64_t run = 1;
  while (paired_log_e(run, 0) < -std::log(alpha)) ++run;
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(run) / smallest_difference));
  claim.dependence = pairs >= wanted ? Dependence::no_evidence : Dependence::underpowered;
  claim.pairs_needed = pairs >= wanted ? 0 : wanted - pairs;
  return claim;
}

}  // namespace faultline::stress
