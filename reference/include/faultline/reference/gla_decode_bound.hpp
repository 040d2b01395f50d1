// SPDX-License-Identifier: Apache-2.0
// Error bounds of one GLA decode step computed in fp32 with storage dtype T: one set of formulas
// for the Eigen reference and the device oracle. Derivation: docs/tolerances.md, "gla_decode".
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
  double decay = 0.0;         ///< a_i
  double state_error = 0.0;   ///< error of S'_ij per |S_ij|
  double output_error = 0.0;  ///< error of sum_i x_i S_ij per |S_ij|
};

/// decay: a = ex2(RN(gk log2e)). The argument's relative error is at most 1.225 2^-24 (rounding of
/// the product 2^-24, of the constant log2e 0.224 2^-24), so a's is at most 1.25 2^-24 |gk|;
/// ex2.approx adds 2^-22 (PTX ISA, ex2) and may flush results below 2^-126 to zero.
///
/// query: one fp32 rounding of q a, then half an ulp of the dtype that it is stored in.
FAULTLINE_HD GlaRow gla_row(const GlaBound& bound, double q, double gk) {
  const double u = fp32_roundoff();
  const double gate = gk < 0 ? -gk : gk, magnitude = q < 0 ? -q : q;
  GlaRow row;
  row.decay = exponential(gk);
  const double decay_error =
      row.decay * (core::exp2_int(-22) + 1.25 * u * gate) + core::exp2_int(-126);
  // a S is rounded once, and so is the sum that it goes into.
  row.state_error = (decay_error + u * (row.decay + decay_error)) * (1.0 + u) +
                    3.0 * reference_roundoff() * row.decay;
  const double query = magnitude * row.decay;
  double query_error = magnitude * decay_error;
  query_error += u * (query + query_error) + fp32_underflow();
  if (bound.query != core::Dtype::f32) {
    query_error += 0.5 * core::ulp_at(bound.query, query + query_error);
  }
  row.output_error = query_error + bound.state_relative * (query + query_error);
  return row;
}

/// Bound of S'_ij = fma(k, v, RN(a S)): `state` is S_ij, `updated` is S'_ij, whose own rounding is
/// the second term.
FAULTLINE_HD double gla_state_bound(const GlaRow& row, double state, double updated) {
  const double s = state < 0 ? -state : state, result = updated < 0 ? -updated : updated;
  return row.state_error * s + (fp32_roundoff() + 3.0 * reference_roundoff()) * result +
         3.0 * fp32_underflow();
}

/// Sums over i that do not depend on j.
struct GlaHeadMagnitudes {
  double qk = 0.0;  ///< sum_i |q_i| |k_i|
  double q = 0.0;   ///< sum_i |q_i|
};

/// Bound of o_j. from_state = sum_i output_error_i |S_ij|, v = v_j.
FAULTLINE_HD double gla_output_bound(const GlaBound& bound, double scale, double from_state,
                                     const GlaHeadMagnitudes& head, double v) {
  const double s = scale < 0 ? -scale : scale, write = v < 0 ? -v : v;
  const double from_write = bound.qk_relative * head.qk * write;
  return s * (from_state + from_write + 2.0 * fp32_underflow() * head.q) +
         bound.absolute * (1.0 + s) * (1.0 + write);
}

}  // namespace faultline::reference
