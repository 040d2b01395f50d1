// SPDX-License-Identifier: Apache-2.0
// Element types and their exact conversions (host and device).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "faultline/core/hd.hpp"

#if !defined(__CUDACC__)
#include <optional>
#include <string_view>
#endif

namespace faultline::core {

/// IEEE binary16, bfloat16, binary32, binary64. The numeric values are part of the device ABI.
enum class Dtype : uint8_t { f16 = 0, bf16 = 1, f32 = 2, f64 = 3 };

/// Bytes of one element.
FAULTLINE_HD size_t size_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
}

/// Explicit mantissa bits (without the hidden bit): 10, 7, 23, 52.
FAULTLINE_HD int mantissa_bits(Dtype dtype) {
  switch (dtype) {
  case Dtype::f16: return 10;
  case Dtype::bf16: return 7;
  case Dtype::f32: return 23;
  case Dtype::f64: return 52;
  }
  return 0;
}

/// Exponent of the smallest normal number: -14, -126, -126, -1022.
FAULTLINE_HD int min_exponent(Dtype dtype) {
  return dtype == Dtype::f16 ? -14 : dtype == Dtype::f64 ? -1022 : -126;
}

/// Exponent of the largest finite number: 15, 127, 127, 1023.
FAULTLINE_HD int max_exponent(Dtype dtype) {
  return dtype == Dtype::f16 ? 15 : dtype == Dtype::f64 ? 1023 : 127;
}

FAULTLINE_HD uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
FAULTLINE_HD uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
FAULTLINE_HD double double_of(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
FAULTLINE_HD float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/// a * b rounded once: never contracted with a neighbouring addition, on either side.
FAULTLINE_HD double mul_rn(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Square root, correctly rounded: equal on host and device.
FAULTLINE_HD double sqrt_rn(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

/// 2^e as a double for -1074 <= e <= 1023; 0 below, infinity above. Exact.
FAULTLINE_HD double exp2_int(int e) {
  if (e < -1074) return 0.0;
  if (e > 1023) return double_of(0x7ff0000000000000ull);
  if (e < -1022) return double_of(1ull << (e + 1074));
  return double_of(static_cast<uint64_t>(e + 1023) << 52);
}

FAULTLINE_HD bool is_nan(double x) {
  return (bits_of(x) & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
}
FAULTLINE_HD bool is_inf(double x) {
  return (bits_of(x) & 0x7fffffffffffffffull) == 0x7ff0000000000000ull;
}
FAULTLINE_HD bool is_finite(double x) {
  return (bits_of(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
}

/// floor(log2|x|) of a finite nonzero double, subnormals included.
FAULTLINE_HD int exponent_of(double x) {
  uint64_t magnitude = bits_of(x) & 0x7fffffffffffffffull;
  int e = static_cast<int>(magnitude >> 52);
  if (e != 0) return e - 1023;
  int shift = 0;
  while (!(magnitude & (1ull << 51))) {
    magnitude <<= 1;
    ++shift;
  }
  return -1023 - shift;
}

/// Spacing of `dtype` numbers in the binade of x (subnormal spacing below the normal range).
/// x finite; ulp_at(d, 0) is the smallest subnormal.
FAULTLINE_HD double ulp_at(Dtype dtype, double x) {
  int e = x == 0.0 ? min_exponent(dtype) : exponent_of(x);
  if (e < min_exponent(dtype)) e = min_exponent(dtype);
  return exp2_int(e - mantissa_bits(dtype));
}

/// Unit roundoff u = 2^-(p), p = significand bits: half an ulp at 1. 2^-11, 2^-8, 2^-24, 2^-53.
FAULTLINE_HD double unit_roundoff(Dtype dtype) { return exp2_int(-mantissa_bits(dtype) - 1); }

/// Round to nearest, ties to even, onto the grid of `dtype`, straight from double (no double
/// rounding). Overflow gives infinity as IEEE 754 says; NaN stays NaN; the sign of zero is kept.
FAULTLINE_HD double round_to(Dtype dtype, double x) {
  if (dtype == Dtype::f64 || !is_finite(x) || x == 0.0) return x;
  const double spacing = ulp_at(dtype, x);
  // |x| / spacing < 2^25 and spacing is a power of two, so both operations below are exact except
  // for the one rounding that is wanted: adding and subtracting 1.5 * 2^52 rounds to an integer,
  // ties to even.
  const double scaled = x / spacing;
  const double magic = 6755399441055744.0;
  const double shifted = scaled + magic;
  const double rounded = (shifted - magic) * spacing;
  const double limit = (2.0 - exp2_int(-mantissa_bits(dtype))) * exp2_int(max_exponent(dtype));
  if (rounded > limit) return double_of(0x7ff0000000000000ull);
  if (rounded < -limit) return double_of(0xfff0000000000000ull);
  if (rounded == 0.0) return double_of(bits_of(x) & 0x8000000000000000ull);
  return rounded;
}

/// Exact value of an encoded element: low 16 bits for f16 and bf16, low 32 bits for f32.
FAULTLINE_HD double decode(Dtype dtype, uint64_t bits) {
  switch (dtype) {
  case Dtype::f64: return double_of(bits);
  case Dtype::f32: return static_cast<double>(float_of(static_cast<uint32_t>(bits)));
  case Dtype::bf16:
    return static_cast<double>(float_of(static_cast<uint32_t>(bits & 0xffffu) << 16));
  case Dtype::f16: break;
  }
  const uint64_t sign = (bits >> 15) & 1, e = (bits >> 10) & 31, m = bits & 1023;
  if (e == 31) return double_of(sign << 63 | 0x7ffull << 52 | m << 42);
  const double magnitude = e == 0
                               ? static_cast<double>(m) * exp2_int(-24)
                               : static_cast<double>(m + 1024) * exp2_int(static_cast<int>(e) - 25);
  return sign ? -magnitude : magnitude;
}

/// Encoding of round_to(dtype, x). NaN gives the canonical quiet NaN of the dtype.
FAULTLINE_HD uint64_t encode(Dtype dtype, double x) {
  if (dtype == Dtype::f64) return bits_of(x);
  const uint64_t sign = bits_of(x) >> 63;
  const double r = round_to(dtype, x);
  if (dtype == Dtype::f32) return is_nan(x) ? 0x7fc00000u : bits_of(static_cast<float>(r));
  if (dtype == Dtype::bf16) {
    return is_nan(x) ? 0x7fc0u : bits_of(static_cast<float>(r)) >> 16;
  }
  if (is_nan(x)) return 0x7e00u;
  if (is_inf(r)) return sign << 15 | 0x7c00u;
  if (r == 0.0) return sign << 15;
  const double magnitude = r < 0 ? -r : r;
  const int e = exponent_of(r);
  if (e < -14) return sign << 15 | static_cast<uint64_t>(magnitude * exp2_int(24));
  const uint64_t significand = static_cast<uint64_t>(magnitude * exp2_int(10 - e));
  return sign << 15 | static_cast<uint64_t>(e + 15) << 10 | (significand & 1023u);
}

/// Raw bits of element i of an array of `dtype` (bytes in host or device memory, naturally
/// aligned).
FAULTLINE_HD uint64_t load_bits(const void* data, size_t i, Dtype dtype) {
  if (dtype == Dtype::f64) return static_cast<const uint64_t*>(data)[i];
  if (dtype == Dtype::f32) return static_cast<const uint32_t*>(data)[i];
  return static_cast<const uint16_t*>(data)[i];
}
FAULTLINE_HD void store_bits(void* data, size_t i, Dtype dtype, uint64_t bits) {
  if (dtype == Dtype::f64)
    static_cast<uint64_t*>(data)[i] = bits;
  else if (dtype == Dtype::f32)
    static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(bits);
  else
    static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits);
}
FAULTLINE_HD double load_element(const void* data, size_t i, Dtype dtype) {
  return decode(dtype, load_bits(data, i, dtype));
}
FAULTLINE_HD void store_element(void* data, size_t i, Dtype dtype, double x) {
  store_bits(data, i, dtype, encode(dtype, x));
}

#if !defined(__CUDACC__)
/// "f16", "bf16", "f32", "f64": the names of problem lines.
std::string_view name_of(Dtype dtype);
/// Accepts f16|fp16|float16|half, bf16|bfloat16, f32|fp32|float32|float, f64|fp64|float64|double.
std::optional<Dtype> parse_dtype(std::string_view text);
#endif

}  // namespace faultline::core
