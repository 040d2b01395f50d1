// SPDX-License-Identifier: Apache-2.0
// Error bounds of one GLA decode step computed in fp32 with storage dtype T: one set of formulas for the
// Eigen reference and the device oracle. Derivation: docs/tolerances.md, "gla_decode".
//
// Per (batch, head), i over DK, j over DV, a_i = e^gk_i, x_i = q_i a_i, s = scale:
//   S'_ij = a_i S_ij + k_i v_j
//   o_j   = s sum_i q_i S'_ij = s sum_i x_i S_ij + s (q.k) v_j
#pragma once

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/rounding.hpp>

namespace faultline::reference {

/// The numeric plan of one gla_decode launch. Counts are of roundings to fp32 on the longest path.
struct GlaNumerics {
  double state_chain = 1;  ///< from a product x_i S_ij to the value that is rounded to o
  double qk_chain = 1;     ///< from a product q_i k_i (or k_i v_j) to the same
  double terms = 1;        ///< DK
  /// dtype that x_i = q_i a_i is stored in before it meets the state; f32: not rounded again.
  core::Dtype query = core::Dtype::f32;
};

/// Coefficients of a plan. Plain data: passed to the oracle.
struct GlaBound {
  double state_relative = 0.0;  ///< gamma_state_chain + the reference's own error
  double qk_relative = 0.0;     ///< gamma_qk_chain + the reference's own error
  double absolute = 0.0;        ///< underflows of the sums
  core::Dtype query = core::Dtype::f32;
};
GlaBound gla_bound(const GlaNumerics& numerics);

/// What depends on (i) alone.
struct GlaRow {
  double decay = 0.0;        ///< a_i
  double decay_error = 0.0;  ///< |computed a_i - a_i| is at most this
  double query = 0.0;        ///< x_i
  double query_error = 0.0;  ///< |stored x_i - x_i| is at most this
};

/// decay: a = ex2(RN(gk log2e)). The argument's relative error is at most 1.225 2^-24 (rounding of the
/// product 2^-24, of the constant log2e 0.224 2^-24), so a's is at most 1.25 2^-24 |gk|; ex2.approx adds
/// 2^-22 (PTX ISA, ex2) and may flush results below 2^-126 to zero.
/// query: one fp32 rounding, then half an ulp of the dtype it is stored in.
FAULTLINE_HD GlaRow gla_row(const GlaBound& bound, double q, double gk) {
  GlaRow row;
  const double gate = gk < 0 ? -gk : gk, magnitude = q < 0 ? -q : q;
  row.decay = exponential(gk);
  row.decay_error =
      row.decay * (core::exp2_int(-22) + 1.25 * fp32_roundoff() * gate) + core::exp2_int(-126);
  row.query = q * row.decay;
  const double x = magnitude * row.decay;
  row.query_error = magnitude * row.decay_error;
  row.query_error += fp32_roundoff() * (x + row.query_error) + fp32_underflow();
  if (bound.query != core::Dtype::f32) {
    row.query_error += 0.5 * core::ulp_at(bound.query, x + row.query_error);
  }
  return row;
}

/// Bound of S'_ij = fma(k, v, RN(a S)): `updated` is S'_ij, `state` is S_ij.
FAULTLINE_HD double gla_state_bound(const GlaRow& row, double state, double updated) {
  const double s = state < 0 ? -state : state, result = updated < 0 ? -updated : updated;
  double error = s * row.decay_error;
  error += fp32_roundoff() * (s * row.decay + error) + fp32_underflow();
  return error + fp32_roundoff() * (result + error) + fp32_underflow() +
         3.0 * reference_roundoff() * (s * row.decay + result);
}

/// Sums of magnitudes that o_j's bound needs.
struct GlaMagnitudes {
  double state = 0.0;        ///< sum_i |x_i| |S_ij|
  double query_error = 0.0;  ///< sum_i query_error_i |S_ij|
};
/// The same for what does not depend on j.
struct GlaHeadMagnitudes {
  double qk = 0.0;  ///< sum_i |q_i| |k_i|
  double q = 0.0;   ///< sum_i |q_i|
};

/// Bound of o_j. `v` is v_j.
FAULTLINE_HD double gla_output_bound(const GlaBound& bound, double scale, const GlaMagnitudes& column,
                                     const GlaHeadMagnitudes& head, double v) {
  const double s = scale < 0 ? -scale : scale, write = v < 0 ? -v : v;
  const double from_state =
      column.query_error + bound.state_relative * (column.state + column.query_error);
  const double from_write = bound.qk_relative * head.qk * write;
  return s * (from_state + from_write + 2.0 * fp32_underflow() * head.q) +
         bound.absolute * (1.0 + s) * (1.0 + write);
}

}  // namespace faultline::reference
