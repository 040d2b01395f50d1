// SPDX-License-Identifier: Apache-2.0
// Rounding of fp32 arrays onto a narrower grid: to nearest, or up and down at random.
#pragma once

#include <faultline/reference/deltanet_bounds.hpp>

#include <cstdint>

namespace faultline::reference {

/// How one run of the Monte Carlo rounds.
///
/// Stochastic: x lies between two neighbours on the grid; the one of larger magnitude is taken with
/// probability frac(x), its distance from the other in ulps: frac(x) > u with u = hash(seed, point,
/// x truncated to ulp/16). Equal values at one point round alike within a run, as they do on the
/// device; numbers on the grid never move; subnormals and overflow are those of the grid. All of it
/// is integer arithmetic on the bits, hence the same on every machine.
///
/// Grid::f32 moves x by d ulps, d the difference of two uniform numbers of {0, 1, 2, 3}, again by
/// the hash of x: 1.6 ulp rms, or 2.2 u |x| with u = 2^-24 and the mean significand 1.44. That is
/// the rms error of a sum of K = 64 products rounded one by one, 0.4 u sqrt(K / 2) = 2.3 u. Zeros
/// stay; its nearest is x itself.
class Rounding {
 public:
  static Rounding nearest() { return Rounding(false, 0); }
  static Rounding stochastic(std::uint64_t seed) { return Rounding(true, seed); }

  bool is_nearest() const { return !stochastic_; }
  /// destination[i] = source[i] rounded, i < count (any count); the two may be the same array.
  void operator()(RoundingPoint point, Grid grid, const float* source, float* destination,
                  std::int64_t count) const;

 private:
  Rounding(bool stochastic, std::uint64_t seed) : stochastic_(stochastic), seed_(seed) {}

  bool stochastic_;
  std::uint64_t seed_;
};

}  // namespace faultline::reference
