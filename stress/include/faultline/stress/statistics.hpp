// SPDX-License-Identifier: Apache-2.0
// Statistics of failure rates. Sources and derivations: docs/statistics.md.
#pragma once

#include <cstdint>

#include "faultline/core/evidence.hpp"

namespace faultline::stress {

/// Wilson's score interval of a proportion: the interval that is shown. `confidence` in (0, 1).
/// No trials: [0, 1]. Throws std::invalid_argument when failures > trials.
core::Interval wilson_interval(std::uint64_t failures, std::uint64_t trials,
                               double confidence = 0.95);

/// Clopper-Pearson's exact interval for a number of trials fixed beforehand: the interval that is
/// claimed. Same conventions as wilson_interval.
core::Interval clopper_pearson_interval(std::uint64_t failures, std::uint64_t trials,
                                        double confidence = 0.95);

/// One-sided upper bound on a rate of which `trials` trials showed nothing: 1 - alpha^(1/trials),
/// about 3/trials at alpha = 0.05. No trials: 1.
double zero_failure_upper_bound(std::uint64_t trials, double alpha = 0.05);

/// Log of the e-value of the paired discordant test: of pairs that differ, `worse` failed under the
/// perturbation only and `better` without it only. With equal rates the e-value is above 1/alpha at
/// any time with a probability of at most alpha, however often one looks.
double paired_log_e(std::uint64_t worse, std::uint64_t better);

/// What may be said about "the failure rate depends on this perturbation".
enum class Dependence : std::uint8_t {
  depends,       ///< E >= 1/alpha
  no_evidence,   ///< enough pairs to have seen a difference of `smallest_difference`, and none seen
  underpowered,  ///< too few pairs to say anything
};

struct DependenceClaim {
  Dependence dependence = Dependence::underpowered;
  double log_e = 0.0;
  /// Upper bound, at 1 - alpha, on the share of pairs in which the two differ.
  double discordant_upper = 1.0;
  /// Underpowered: pairs still needed before a difference of `smallest_difference` would have
  /// shown.
  std::uint64_t pairs_needed = 0;
};

/// `pairs` pairs of trials, of which `worse + better` differ.
DependenceClaim judge_dependence(std::uint64_t pairs, std::uint64_t worse, std::uint64_t better,
                                 double alpha = 0.05, double smallest_difference = 0.005);

}  // namespace faultline::stress
