// SPDX-License-Identifier: Apache-2.0
// Conversions between binary floating-point formats, bit-exact and without the host's rounding
// mode. The short forms used in inner loops are branch-free so that loops over 32 lanes vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace faultline::simulator {

enum class Rounding : std::uint8_t { nearest_even, toward_zero, down, up, nearest_away };

// A binary interchange format with an implicit leading bit.
struct FloatFormat {
  int mantissa_bits;  // stored bits
  int exponent_bits;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint64_t infinity() const {
    return ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  constexpr std::uint64_t sign() const {
    return std::uint64_t{1} << (mantissa_bits + exponent_bits);
  }
  constexpr std::uint64_t largest() const { return infinity() - 1; }
  constexpr std::uint64_t canonical_nan() const { return sign() - 1; }
};

inline constexpr FloatFormat kHalf{10, 5};
inline constexpr FloatFormat kBfloat16{7, 8};
inline constexpr FloatFormat kTf32{10, 8};
inline constexpr FloatFormat kSingle{23, 8};

// Rounds `value` to `format`. `value` may carry a sticky last bit (round to odd), so that rounding
// twice is exact. NaN gives the canonical NaN, as the hardware does.
std::uint64_t round_to_format(double value, FloatFormat format, Rounding rounding);

// Sum and fused product-sum in double, rounded to odd: a later rounding to fewer bits is exact.
double add_to_odd(double a, double b);
double multiply_add_to_odd(double exact_product, double c);

static inline float float_from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
static inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

static inline float from_bfloat16(std::uint16_t bits) {
  return float_from_bits(static_cast<std::uint32_t>(bits) << 16);
}

static inline std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

// After the branch-free conversions of the FP16 library (M. Dukhan): scale by powers of two.
static inline float from_half(std::uint16_t half) {
  const std::uint32_t shifted = static_cast<std::uint32_t>(half) << 16;
  const std::uint32_t sign = shifted & 0x80000000u;
  const std::uint32_t twice = shifted + shifted;
  const float normal = float_from_bits((twice >> 4) + (0xe0u << 23)) * 0x1.0p-112f;
  const float subnormal = float_from_bits((twice >> 17) | (126u << 23)) - 0.5f;
  return float_from_bits(sign | (twice < (1u << 27) ? bits_of(subnormal) : bits_of(normal)));
}

static inline std::uint16_t to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t twice = bits + bits;
  const float magnitude = float_from_bits(bits & 0x7fffffffu);
  float base = (magnitude * 0x1.0p+112f) * 0x1.0p-110f;
  std::uint32_t bias = twice & 0xff000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  base = float_from_bits((bias >> 1) + 0x07800000u) + base;
  const std::uint32_t rounded = bits_of(base);
  const std::uint32_t magnitude_bits = ((rounded >> 13) & 0x7c00u) + (rounded & 0x0fffu);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  return static_cast<std::uint16_t>(twice > 0xff000000u ? 0x7fffu : (sign | magnitude_bits));
}

}  // namespace faultline::simulator
