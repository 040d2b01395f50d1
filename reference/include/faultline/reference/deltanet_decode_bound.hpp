// SPDX-License-Identifier: Apache-2.0
// Error bounds of one (gated) delta-rule decode step computed in fp32: one set of formulas for the
// Eigen reference and the device oracle. Derivation: docs/reference.md, "Decode".
//
// Per (batch, head), i over DK, j over DV, a = e^g (ungated: 1, exactly), scale s:
//   r_j = sum_i S_ij k_i,  p_j = sum_i S_ij q_i,  u_j = beta (v_j - a r_j)
//   o_j = s (a p_j + (q.k) u_j),  S'_ij = a S_ij + k_i u_j
// They hold for decay before or after the sums, for o from the old or the new state, and for any
// order of summation whose chains are not longer than declared.
#pragma once

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/rounding.hpp>

namespace faultline::reference {

/// The numeric plan of one decode launch. Counts are of roundings to fp32 on the longest path.
struct DeltaDecodeNumerics {
  /// From a product S_ij k_i or S_ij q_i, through the decay, to the value that is subtracted from v
  /// or rounded to o.
  double state_chain = 1;
  double qk_chain = 1;  ///< from a product q_i k_i to the value that is rounded to o
  double terms = 1;     ///< DK
  bool gated = true;    ///< false: no exponential is taken
  core::Dtype update = core::Dtype::f32;  ///< dtype that u is rounded to; f32: not rounded again
};

/// Coefficients of a plan. Plain data: passed to the oracle.
struct DeltaDecodeBound {
  double state_relative = 0.0;  ///< gamma_state_chain + the reference's own error
  double qk_relative = 0.0;     ///< gamma_qk_chain + the reference's own error
  double absolute = 0.0;        ///< underflows of a sum
  int gated = 1;
  core::Dtype update = core::Dtype::f32;
};
DeltaDecodeBound delta_decode_bound(const DeltaDecodeNumerics& numerics);

/// e^g and its error: RN(g log2e), then ex2.approx, as derived for GlaRow.
struct DeltaDecay {
  double value = 1.0;
  double error = 0.0;
};
FAULTLINE_HD DeltaDecay delta_decay(const DeltaDecodeBound& bound, double g) {
  if (bound.gated == 0) {
    return {};
  }
  const double magnitude = g < 0 ? -g : g, value = exponential(g);
  return {value, value * (core::exp2_int(-22) + 1.25 * fp32_roundoff() * magnitude) +
                     core::exp2_int(-126)};
}

/// What depends on (j) alone: u_j and its error.
struct DeltaColumn {
  double update = 0.0;
  double error = 0.0;
};
/// read = r_j, read_magnitude = sum_i |S_ij| |k_i|.
FAULTLINE_HD DeltaColumn delta_column(const DeltaDecodeBound& bound, const DeltaDecay& decay,
                                      double beta, double v, double read, double read_magnitude) {
  const double u = fp32_roundoff(), own = 4.0 * reference_roundoff();
  const double gate = decay.value + decay.error, rate = beta < 0 ? -beta : beta;
  const double difference = v - core::mul_rn(decay.value, read);
  const double e = difference < 0 ? -difference : difference;
  const double read_error =
      (decay.error + bound.state_relative * gate) * read_magnitude + bound.absolute * (1.0 + gate);
  const double e_error = read_error + (u + own) * (e + read_error) + fp32_underflow();
  double error = rate * e_error;
  error += (u + own) * (rate * e + error) + fp32_underflow();
  if (bound.update != core::Dtype::f32) {
    error += 0.5 * core::ulp_at(bound.update, rate * e + error);
  }
  // The reference's own decayed read: absolute in the magnitude, not in the cancelled difference.
  error += rate * own * (decay.value * read_magnitude + (v < 0 ? -v : v));
  return {core::mul_rn(beta, difference), error};
}

/// Sums over i. qk = q.k, qk_magnitude = sum_i |q_i| |k_i|.
struct DeltaHeadSums {
  double qk = 0.0;
  double qk_magnitude = 0.0;
};

/// Bound of o_j. query_magnitude = sum_i |S_ij| |q_i|.
FAULTLINE_HD double delta_output_bound(const DeltaDecodeBound& bound, const DeltaDecay& decay,
                                       double scale, double query_magnitude,
                                       const DeltaHeadSums& sums, const DeltaColumn& column) {
  const double s = scale < 0 ? -scale : scale, gate = decay.value + decay.error;
  const double update = (column.update < 0 ? -column.update : column.update) + column.error;
  const double qk = sums.qk < 0 ? -sums.qk : sums.qk;
  // Four more roundings: a p (or a S), its sum with (q.k) u, that product, and the scale.
  const double extra = 4.0 * (fp32_roundoff() + reference_roundoff()) * (1.0 + 1.0e-6);
  const double from_state = (decay.error + (bound.state_relative + extra) * gate) * query_magnitude;
  const double from_write =
      qk * column.error + (bound.qk_relative + extra) * sums.qk_magnitude * update;
  return s * (from_state + from_write) + bound.absolute * (1.0 + s) * (1.0 + gate + update);
}

/// Bound of S'_ij = RN(RN(a S) + k u) or with either product fused: `state` is S_ij, `updated` is
/// S'_ij.
FAULTLINE_HD double delta_state_bound(const DeltaDecay& decay, double state, double k,
                                      double updated, const DeltaColumn& column) {
  const double u = fp32_roundoff() + 2.0 * reference_roundoff();
  const double s = state < 0 ? -state : state, key = k < 0 ? -k : k;
  const double result = updated < 0 ? -updated : updated;
  const double update = (column.update < 0 ? -column.update : column.update) + column.error;
  const double parts = decay.error * s + u * (decay.value + decay.error) * s +
                       key * (column.error + u * update) + 3.0 * fp32_underflow();
  return parts + u * (result + parts);
}

}  // namespace faultline::reference
