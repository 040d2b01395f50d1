// SPDX-License-Identifier: Apache-2.0
#include "numerics/approximate.hpp"

namespace faultline::simulator {
namespace {

constexpr double kPiOver2High = 1.57079632673412561417e+00;
constexpr double kPiOver2Middle = 6.07710050630396597660e-11;
constexpr double kPiOver2Low = 2.02226624879595063154e-21;
constexpr float kNan = std::bit_cast<float>(0x7fffffffu);

double sine_series(double t) {  // |t| <= pi/4
  const double s = t * t;
  double p = -1.0 / 1307674368000.0;
  p = p * s + 1.0 / 6227020800.0;
  p = p * s - 1.0 / 39916800.0;
  p = p * s + 1.0 / 362880.0;
  p = p * s - 1.0 / 5040.0;
  p = p * s + 1.0 / 120.0;
  p = p * s - 1.0 / 6.0;
  p = p * s + 1.0;
  return p * t;
}

double cosine_series(double t) {  // |t| <= pi/4
  const double s = t * t;
  double p = 1.0 / 20922789888000.0;
  p = p * s - 1.0 / 87178291200.0;
  p = p * s + 1.0 / 479001600.0;
  p = p * s - 1.0 / 3628800.0;
  p = p * s + 1.0 / 40320.0;
  p = p * s - 1.0 / 720.0;
  p = p * s + 1.0 / 24.0;
  p = p * s - 0.5;
  return p * s + 1.0;
}

// sin(x + quadrant * pi/2), by Cody-Waite reduction; good for |x| up to about 1e8.
double sine_of(double x, int quadrant) {
  const double n = __builtin_nearbyint(x * 0.636619772367581343076);
  const double t = ((x - n * kPiOver2High) - n * kPiOver2Middle) - n * kPiOver2Low;
  const int q = static_cast<int>(static_cast<std::int64_t>(n) + quadrant) & 3;
  const double value = (q & 1) ? cosine_series(t) : sine_series(t);
  return (q & 2) ? -value : value;
}

}  // namespace

double log2_double(double x) {
  auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | (std::uint64_t{1023} << 52));
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  // log2(m) = 2/ln 2 * atanh(z), z = (m-1)/(m+1), |z| < 0.1716
  const double z = (m - 1.0) / (m + 1.0);
  const double s = z * z;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 1; k -= 2) p = p * s + 1.0 / k;
  return static_cast<double>(exponent) + 2.88539008177792681472 * z * p;
}

float approximate_lg2(float x) {
  if (x != x || x < 0.0f) return kNan;
  if (x == 0.0f) return -__builtin_inff();
  if (x == __builtin_inff()) return x;
  return static_cast<float>(log2_double(static_cast<double>(x)));
}

float approximate_sin(float x) {
  if (!(x - x == 0.0f)) return kNan;
  if (x == 0.0f) return x;
  return static_cast<float>(sine_of(static_cast<double>(x), 0));
}

float approximate_cos(float x) {
  if (!(x - x == 0.0f)) return kNan;
  return static_cast<float>(sine_of(static_cast<double>(x), 1));
}

float approximate_tanh(float x) {
  if (x != x) return kNan;
  const double a = x < 0 ? -static_cast<double>(x) : static_cast<double>(x);
  double value;
  if (a < 0.125) {
    const double s = a * a;  // the series of tanh; the next term is below 2^-40
    value =
        a * (1.0 + s * (-1.0 / 3.0 +
                        s * (2.0 / 15.0 + s * (-17.0 / 315.0 +
                                               s * (62.0 / 2835.0 + s * (-1382.0 / 155925.0))))));
  } else if (a > 20.0) {
    value = 1.0;
  } else {
    const double e = exp2_double(a * 2.88539008177792681472);
    value = (e - 1.0) / (e + 1.0);
  }
  return static_cast<float>(x < 0 ? -value : value);
}

}  // namespace faultline::simulator
