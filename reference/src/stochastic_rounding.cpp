// SPDX-License-Identifier: Apache-2.0
#include "stochastic_rounding.hpp"

#include "vector_dispatch.hpp"

#include <faultline/core/dtype.hpp>
#include <faultline/core/generator.hpp>

#include <algorithm>

namespace faultline::reference {

namespace {

constexpr std::uint32_t kSign = 0x80000000u, kExponent = 0x7f800000u;
constexpr std::uint32_t kHalfOverflow = 0x477fe000u;  // 65504, the largest f16
constexpr std::uint32_t kHalfNormal = 0x38800000u;    // 2^-14, the smallest normal f16

/// Mantissa bits of fp32 that a grid lacks.
int dropped_bits(Grid grid) {
  switch (grid) {
  case Grid::f16:
  case Grid::tf32: return 13;
  case Grid::bf16: return 16;
  case Grid::f32: return 2;
  case Grid::none: break;
  }
  return 0;
}

struct Array {
  const float* source;
  float* destination;
  std::int64_t count;
  int dropped;
  std::uint32_t first_key, second_key;
};

/// 32 bits that look random; the finaliser "lowbias32" with a second key half-way.
FAULTLINE_INLINE std::uint32_t hash(std::uint32_t x, const Array& a) {
  x ^= a.first_key;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x += a.second_key;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// The loops are written without branches, so that the compiler makes vectors of them.

/// Adding r * 2^dropped / 2^32 to the magnitude's bits and cutting the dropped ones off carries
/// into the next number of the grid, and the next binade, with probability frac(x). That holds for
/// the subnormals of fp32, bf16 and tf32 too, whose grids are prefixes of fp32's.
template <bool kHalf>
FAULTLINE_INLINE void step_body(const Array& a) {
  const std::uint32_t mask = (1u << a.dropped) - 1;
  const int cell_shift = std::max(a.dropped - 4, 0);
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::uint32_t bits = core::bits_of(a.source[i]);
    const std::uint32_t magnitude = bits & ~kSign;
    std::uint32_t random = hash(bits >> cell_shift, a);
    std::uint32_t rounded = (magnitude + (random >> (32 - a.dropped))) & ~mask;
    if constexpr (kHalf) {
      // Subnormal f16: multiples of 2^-24. |x| 2^24 < 2^10 has a spacing of at most 2^-14, so that
      // adding a multiple of 2^-13 below 1 is exact.
      const float steps = core::float_of(magnitude) * 0x1p24f;
      const float clamped = magnitude < kHalfNormal ? steps : 0.0f;
      // The cell of a subnormal: ulp/16 is 2^-28 here, whatever the binade of fp32.
      const std::uint32_t cell =
          static_cast<std::uint32_t>(static_cast<std::int32_t>(clamped * 16.0f)) | (bits & kSign);
      const std::uint32_t subnormal_random = hash(cell, a);
      const float up = static_cast<float>(static_cast<std::int32_t>(subnormal_random >> 19));
      const float cut = static_cast<float>(static_cast<std::int32_t>(clamped + up * 0x1p-13f));
      const std::uint32_t subnormal = core::bits_of(cut * 0x1p-24f);
      rounded = rounded > kHalfOverflow ? kExponent : rounded;
      rounded = magnitude < kHalfNormal ? subnormal : rounded;
    }
    rounded = magnitude > kExponent ? magnitude : rounded;  // NaN
    a.destination[i] = core::float_of(rounded | (bits & kSign));
  }
}

/// To nearest, ties to even.
template <bool kHalf>
FAULTLINE_INLINE void nearest_body(const Array& a) {
  const std::uint32_t mask = (1u << a.dropped) - 1;
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::uint32_t bits = core::bits_of(a.source[i]);
    const std::uint32_t magnitude = bits & ~kSign;
    std::uint32_t rounded = (magnitude + (mask >> 1) + (magnitude >> a.dropped & 1u)) & ~mask;
    if constexpr (kHalf) {
      const float steps = core::float_of(magnitude) * 0x1p24f;
      const float clamped = magnitude < kHalfNormal ? steps : 0.0f;
      const float whole =
          (clamped + 0x1.8p23f) - 0x1.8p23f;  // adding 1.5 2^23 rounds to an integer
      const std::uint32_t subnormal = core::bits_of(whole * 0x1p-24f);
      rounded = rounded > kHalfOverflow ? kExponent : rounded;
      rounded = magnitude < kHalfNormal ? subnormal : rounded;
    }
    rounded = magnitude > kExponent ? magnitude : rounded;  // NaN
    a.destination[i] = core::float_of(rounded | (bits & kSign));
  }
}

FAULTLINE_DISPATCH(step_f16, step_body<true>, (const Array& a), (a))
FAULTLINE_DISPATCH(step_prefix, step_body<false>, (const Array& a), (a))
FAULTLINE_DISPATCH(nearest_f16, nearest_body<true>, (const Array& a), (a))
FAULTLINE_DISPATCH(nearest_prefix, nearest_body<false>, (const Array& a), (a))

}  // namespace

void Rounding::operator()(RoundingPoint point, Grid grid, const float* source, float* destination,
                          std::int64_t count) const {
  if (grid == Grid::none || (grid == Grid::f32 && !stochastic_)) {
    if (source != destination) {
      std::copy_n(source, count, destination);
    }
    return;
  }
  const std::uint64_t key = core::tensor_key(seed_, static_cast<std::uint32_t>(point));
  const Array array{.source = source,
                    .destination = destination,
                    .count = count,
                    .dropped = dropped_bits(grid),
                    .first_key = static_cast<std::uint32_t>(key),
                    .second_key = static_cast<std::uint32_t>(key >> 32)};
  if (stochastic_) {
    grid == Grid::f16 ? step_f16(array) : step_prefix(array);
  } else {
    grid == Grid::f16 ? nearest_f16(array) : nearest_prefix(array);
  }
}

}  // namespace faultline::reference
