// SPDX-License-Identifier: Apache-2.0
// Error bound of y = A x accumulated in fp32, for the Eigen reference and the device oracle alike.
#pragma once

#include <faultline/reference/rounding.hpp>

namespace faultline::reference {

/// The numeric plan of one gemv launch.
struct GemvNumerics {
  double chain = 1;        ///< m: roundings on the longest path from a product to the stored sum
  double terms = 1;        ///< k
  bool mean_zero = false;  ///< inputs declared independent and mean-zero
};

/// Bound of a row as a linear function of its magnitude (|A| |x|)_i. Plain data, for the oracle.
struct GemvBound {
  double relative = 0.0;
  double absolute = 0.0;
};

/// lambda of the statistical bound lambda sqrt(m) u: 0 of 240,000 mean-zero rows exceeded it at 4.
inline constexpr double kGemvLambda = 4.0;

/// Coefficients for a plan:
///   ceiling      gamma_m: holds for every input and every order whose chains have m roundings
///   statistical  lambda sqrt(m) u: only for inputs declared independent and mean-zero, and never
///                above the ceiling, so from m > 16 on
/// plus the reference's own error, k 2^-53, and one underflow of 2^-149 per operation. Products of
/// 16-bit values are exact in fp32; those of f32 are rounded only with the sum, by fma.
/// Rounding y to its stored dtype is not part of the bound: acceptance is by interval.
GemvBound gemv_bound(const GemvNumerics& numerics);

/// The bound of one row. magnitude = sum_j |A_ij| |x_j|.
FAULTLINE_HD double gemv_row_bound(const GemvBound& bound, double magnitude) {
  return bound.relative * magnitude + bound.absolute;
}

}  // namespace faultline::reference
