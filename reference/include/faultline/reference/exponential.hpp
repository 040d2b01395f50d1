// SPDX-License-Identifier: Apache-2.0
// e^x in double, from IEEE operations alone: equal bits on every x86-64 host. A library's exp
// differs in the last bit between processors, and a replayed trial must give the same evidence.
#pragma once

#include <faultline/core/dtype.hpp>

namespace faultline::reference {

/// e^x with a relative error below 4e-16; 0 from -745.2 down, infinity from 709.79 up, NaN for NaN.
/// Method: x = n ln 2 + r with ln 2 in two parts (Cody and Waite), |r| <= 0.347, Taylor polynomial
/// of degree 13 (remainder 4e-18), times 2^n in two exact steps.
FAULTLINE_HD double exponential(double x) {
  if (core::is_nan(x)) {
    return x;
  }
  if (x > 709.79) {
    return core::double_of(0x7ff0000000000000ull);
  }
  if (x < -745.2) {
    return 0.0;
  }
  const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double n = core::mul_rn(x, 1.4426950408889634074) + magic - magic;
  // The high part of ln 2 has 32 significant bits, so n * high is exact for |n| < 2^20.
  const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;
  const double r = (x - core::mul_rn(n, high)) - core::mul_rn(n, low);
  double p = 1.0 / 6227020800.0;
  p = 1.0 / 479001600.0 + core::mul_rn(p, r);
  p = 1.0 / 39916800.0 + core::mul_rn(p, r);
  p = 1.0 / 3628800.0 + core::mul_rn(p, r);
  p = 1.0 / 362880.0 + core::mul_rn(p, r);
  p = 1.0 / 40320.0 + core::mul_rn(p, r);
  p = 1.0 / 5040.0 + core::mul_rn(p, r);
  p = 1.0 / 720.0 + core::mul_rn(p, r);
  p = 1.0 / 120.0 + core::mul_rn(p, r);
  p = 1.0 / 24.0 + core::mul_rn(p, r);
  p = 1.0 / 6.0 + core::mul_rn(p, r);
  p = 0.5 + core::mul_rn(p, r);
  p = 1.0 + (r + core::mul_rn(core::mul_rn(p, r), r));
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return p * core::exp2_int(half) * core::exp2_int(exponent - half);
}

}  // namespace faultline::reference
