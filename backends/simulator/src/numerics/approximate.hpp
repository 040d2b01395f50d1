// SPDX-License-Identifier: Apache-2.0
// The approximate functions of PTX (ex2, lg2, sin, cos, tanh, ...). The hardware's bits are not
// specified; these are accurate to about one unit in the last place of f32 and, which matters here,
// the same on every x86-64 machine: plain IEEE double operations, no libm, no contraction.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace faultline::simulator {

// 2^x for |x| < 1020, in double. x = n + f with |f| <= 1/2; Taylor series of e^(f ln 2), whose
// 14th term is below 2^-60.
static inline double exp2_double(double x) {
  const double shifter = 0x1.8p52;
  const double rounded = (x + shifter) - shifter;
  const double t = (x - rounded) * 0.693147180559945309417;
  double p = 1.0 / 6227020800.0;
  p = p * t + 1.0 / 479001600.0;
  p = p * t + 1.0 / 39916800.0;
  p = p * t + 1.0 / 3628800.0;
  p = p * t + 1.0 / 362880.0;
  p = p * t + 1.0 / 40320.0;
  p = p * t + 1.0 / 5040.0;
  p = p * t + 1.0 / 720.0;
  p = p * t + 1.0 / 120.0;
  p = p * t + 1.0 / 24.0;
  p = p * t + 1.0 / 6.0;
  p = p * t + 0.5;
  p = p * t + 1.0;
  p = p * t + 1.0;
  const auto n = static_cast<std::int32_t>(rounded);
  const auto scale = std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
  return p * scale;
}

static inline float approximate_ex2(float x) {
  const double clamped = x > 200.0f ? 200.0 : (x > -200.0f ? static_cast<double>(x) : -200.0);
  const auto value = static_cast<float>(exp2_double(clamped));
  return x == x ? value : std::bit_cast<float>(0x7fffffffu);
}

double log2_double(double x);  // x positive and finite
float approximate_lg2(float x);
float approximate_sin(float x);
float approximate_cos(float x);
float approximate_tanh(float x);

static inline float approximate_rcp(float x) {
  return static_cast<float>(1.0 / static_cast<double>(x));
}
static inline float approximate_rsqrt(float x) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}

}  // namespace faultline::simulator
