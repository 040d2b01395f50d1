// SPDX-License-Identifier: Apache-2.0
// Building blocks of rounding-error bounds (N. Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., section 3.1). Derivations: docs/tolerances.md.
#pragma once

#include <faultline/core/dtype.hpp>

namespace faultline::reference {

/// Unit roundoff of fp32, 2^-24, and of the references themselves, 2^-53.
FAULTLINE_HD double fp32_roundoff() { return core::exp2_int(-24); }
FAULTLINE_HD double reference_roundoff() { return core::exp2_int(-53); }

/// Absolute error of one fp32 operation whose result is subnormal: half of 2^-149, rounded up.
FAULTLINE_HD double fp32_underflow() { return core::exp2_int(-149); }

/// gamma_m = m u / (1 - m u), u = 2^-24: the relative error of m roundings to fp32 in a row.
/// Infinity when m u >= 1: nothing can be promised then.
FAULTLINE_HD double gamma_fp32(double m) {
  const double mu = m * fp32_roundoff();
  return mu < 1.0 ? mu / (1.0 - mu) : core::double_of(0x7ff0000000000000ull);
}

}  // namespace faultline::reference
