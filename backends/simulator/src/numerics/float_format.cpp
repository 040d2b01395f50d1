// SPDX-License-Identifier: Apache-2.0
#include "numerics/float_format.hpp"

#include <cmath>

namespace faultline::simulator {
namespace {

// Whether the kept value has to grow by one unit, given the bits cut off.
bool rounds_up(Rounding rounding, bool negative, bool odd, bool half, bool sticky) {
  switch (rounding) {
  case Rounding::nearest_even: return half && (sticky || odd);
  case Rounding::nearest_away: return half;
  case Rounding::toward_zero: return false;
  case Rounding::down: return negative && (half || sticky);
  case Rounding::up: return !negative && (half || sticky);
  }
  return false;
}

double with_odd_last_bit(double sum, double error) {
  if (error == 0.0 || !std::isfinite(sum)) return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (bits & 1) return sum;
  const bool away_from_zero = (error > 0.0) == (sum > 0.0);
  bits = away_from_zero ? bits + 1 : bits - 1;
  return std::bit_cast<double>(bits);
}

}  // namespace

std::uint64_t round_to_format(double value, FloatFormat format, Rounding rounding) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const std::uint64_t sign = negative ? format.sign() : 0;
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  constexpr std::uint64_t kInfinity = std::uint64_t{0x7ff} << 52;
  if (magnitude > kInfinity) return format.canonical_nan();
  if (magnitude == kInfinity) return sign | format.infinity();
  if (magnitude == 0) return sign;
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  std::uint64_t significand = magnitude & ((std::uint64_t{1} << 52) - 1);
  if (exponent == -1023) {  // a subnormal double: far below every smaller format
    exponent = -1022;
  } else {
    significand |= std::uint64_t{1} << 52;
  }
  const int smallest = 1 - format.bias();
  int cut = 52 - format.mantissa_bits;
  if (exponent < smallest) cut += smallest - exponent;
  if (cut > 63) cut = 63;
  const std::uint64_t kept = significand >> cut;
  const std::uint64_t lost = significand & ((std::uint64_t{1} << cut) - 1);
  const bool half = ((lost >> (cut - 1)) & 1) != 0;
  const bool sticky = (lost & ((std::uint64_t{1} << (cut - 1)) - 1)) != 0;
  std::uint64_t result = kept;
  if (exponent >= smallest) {
    result += static_cast<std::uint64_t>(exponent - smallest) << format.mantissa_bits;
  }
  if (rounds_up(rounding, negative, (kept & 1) != 0, half, sticky)) ++result;
  if (result >= format.infinity()) {
    const bool to_infinity =
        rounding == Rounding::nearest_even || rounding == Rounding::nearest_away ||
        (rounding == Rounding::up && !negative) || (rounding == Rounding::down && negative);
    result = to_infinity ? format.infinity() : format.largest();
  }
  return sign | result;
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double b_virtual = sum - a;
  const double error = (a - (sum - b_virtual)) + (b - b_virtual);  // Knuth's two-sum
  return with_odd_last_bit(sum, error);
}

double multiply_add_to_odd(double exact_product, double c) { return add_to_odd(exact_product, c); }

}  // namespace faultline::simulator
