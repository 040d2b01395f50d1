// SPDX-License-Identifier: Apache-2.0
// Error bound of C = sigmoid(alpha A B) accumulated in fp32, for the Eigen reference and the device
// oracle alike. Derivation: docs/tolerances.md, "gemm".
#pragma once

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/gemv_bound.hpp>
#include <faultline/reference/rounding.hpp>

namespace faultline::reference {

/// The numeric plan of one gemm launch. Of every element s = sum_k A_ik B_kj, x = alpha s.
struct GemmNumerics {
  double chain = 1;           ///< m: roundings on the longest path from a product to s
  double terms = 1;           ///< k
  bool mean_zero = false;     ///< inputs declared independent and mean-zero: see gemv_bound()
  bool tensor_cores = false;  ///< products and sums below 2^-126 may be flushed to zero
  double alpha = 1.0;         ///< as the kernel gets it: a float
  bool sigmoid = true;        ///< false: C = x
  /// dtype that x is stored in before the sigmoid is taken; f32: it stays in a register.
  core::Dtype logits = core::Dtype::f32;
};

/// Coefficients of a plan. Plain data, for the oracle.
struct GemmBound {
  double relative = 0.0;  ///< of the magnitude sum_k |A_ik| |B_kj|
  double absolute = 0.0;
  double alpha = 1.0;
  bool sigmoid = true;
  core::Dtype logits = core::Dtype::f32;
};
GemmBound gemm_bound(const GemmNumerics& numerics);

/// sigma(x) = 1 / (1 + e^-x), with a relative error below 2^-50 at either end.
FAULTLINE_HD double logistic(double x) {
  const double e = exponential(x < 0 ? x : -x);  // in (0, 1]: never overflows
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

/// How far the sigmoid moves at most when its argument moves by at most `shift` >= 0. With
/// sigma(b) - sigma(a) = sigma(b) sigma(-a) (1 - e^(a - b)) this is relative where sigma saturates,
/// and never above the Lipschitz bound shift / 4.
FAULTLINE_HD double logistic_shift(double x, double shift) {
  const double up = logistic(x + shift) * logistic(-x);
  const double down = logistic(x) * logistic(shift - x);
  const double largest = (up > down ? up : down) * (shift < 1.0 ? shift : 1.0);
  return largest < 0.25 * shift ? largest : 0.25 * shift;
}

struct GemmElement {
  double expected = 0.0, bound = 0.0;
};

/// One element. sum = s, magnitude = sum_k |A_ik| |B_kj|, in double.
///
/// x: the sum's error, one rounding of alpha s, then half an ulp of the dtype it is stored in.
/// sigmoid: y = RN(1 / RN(1 + e)), e = ex2(RN(-x log2e)). The exponent is off by at most 1.25 u |x|
/// (1.225 u and second-order terms), ex2.approx adds 2^-22 and may flush below 2^-126 (PTX ISA,
/// ex2): the relative error eta of e moves y by sigma(x) sigma(-x) eta, the two roundings by 2 u y.
/// 1 + 2^-16 covers the second order of these: eta <= 7e-6 wherever e is neither flushed nor
/// infinite, and there 2^-126 covers what is left of y or of 1 - y.
FAULTLINE_HD GemmElement gemm_element(const GemmBound& bound, double sum, double magnitude) {
  const double u = fp32_roundoff(), own = 4.0 * reference_roundoff();
  const double x = core::mul_rn(bound.alpha, sum);
  const double alpha = bound.alpha < 0 ? -bound.alpha : bound.alpha, size = x < 0 ? -x : x;
  const double of_sum = alpha * (bound.relative * magnitude + bound.absolute);
  double shift = of_sum + u * (size + of_sum) + own * size + fp32_underflow();
  if (!bound.sigmoid) {
    return {x, shift};
  }
  if (bound.logits != core::Dtype::f32 && core::is_finite(size + shift)) {
    shift += 0.5 * core::ulp_at(bound.logits, size + shift);
  }
  const double y = logistic(x), rest = logistic(-x);
  const double moved = logistic_shift(x, shift);
  const double eta = core::exp2_int(-22) + 1.25 * u * (size + shift);
  const double steepest = (y + moved) * (rest + moved);
  const double slope = steepest < 0.25 ? steepest : 0.25;
  const double evaluated = (slope * eta + 2.0 * u * (y + moved)) * (1.0 + core::exp2_int(-16));
  return {y, moved + evaluated + core::exp2_int(-50) * y + core::exp2_int(-126)};
}

}  // namespace faultline::reference
