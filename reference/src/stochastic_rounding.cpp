// SPDX-License-Identifier: Apache-2.0
#include "stochastic_rounding.hpp"

#include "vector_dispatch.hpp"

#include <faultline/core/dtype.hpp>
#include <faultline/core/generator.hpp>

#include <algorithm>
#include <cstring>

namespace faultline::reference {

namespace {

constexpr std::uint32_t kSign = 0x80000000u, kExponent = 0x7f800000u;
constexpr std::uint32_t kHalfOverflow = 0x477fe000u;  // 65504, the largest f16
constexpr std::uint32_t kHalfNormal = 0x38800000u;    // 2^-14, the smallest normal f16

constexpr int kHalfDropped = 13;

/// Mantissa bits of fp32 that a grid lacks.
int dropped_bits(Grid grid) {
  switch (grid) {
  case Grid::f16: return kHalfDropped;
  case Grid::tf32: return 13;
  case Grid::bf16: return 16;
  case Grid::f32:
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

/// In each lane 32 bits that look random; the finaliser "lowbias32" with a second key half-way.
FAULTLINE_INLINE void hash(WordLanes& x, const Array& a) {
  x ^= a.first_key;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x += a.second_key;
  x *= 0x846ca68bu;
  x ^= x >> 16;
}

/// Adding r * 2^dropped / 2^32 to the magnitude's bits and cutting the dropped ones off carries
/// into the next number of the grid, and the next binade, with probability frac(x). That holds for
/// the subnormals of fp32, bf16 and tf32 too, whose grids are prefixes of fp32's. f16's subnormals
/// are multiples of 2^-24, with an ulp/16 of 2^-28 whatever the binade of fp32; |x| 2^24 < 2^10 has
/// a spacing of at most 2^-14, so that adding a multiple of 2^-13 is exact.
template <bool kHalf>
FAULTLINE_INLINE void step(WordLanes& bits, const Array& a) {
  const int cell_shift = a.dropped > 4 ? a.dropped - 4 : 0;
  const WordLanes sign = bits & kSign, magnitude = bits ^ sign;
  WordLanes random = bits >> cell_shift;
  if constexpr (kHalf) {
    const WordLanes subnormal = reinterpret_cast<WordLanes>(magnitude < kHalfNormal);
    const FloatLanes steps = reinterpret_cast<FloatLanes>(magnitude & subnormal) * 0x1p24f;
    const WordLanes small_cell =
        reinterpret_cast<WordLanes>(__builtin_convertvector(steps * 16.0f, IntLanes)) | sign;
    random = (small_cell & subnormal) | (random & ~subnormal);
    hash(random, a);
    random >>= 32 - kHalfDropped;
    const FloatLanes up =
        __builtin_convertvector(reinterpret_cast<IntLanes>(random), FloatLanes) * 0x1p-13f;
    const IntLanes whole = __builtin_convertvector(steps + up, IntLanes);
    const FloatLanes small = __builtin_convertvector(whole, FloatLanes) * 0x1p-24f;
    WordLanes rounded = (magnitude + random) & ~((1u << kHalfDropped) - 1);
    rounded = rounded > kHalfOverflow ? kExponent : rounded;
    rounded = (reinterpret_cast<WordLanes>(small) & subnormal) | (rounded & ~subnormal);
    bits = (magnitude > kExponent ? magnitude : rounded) | sign;  // NaN stays
  } else {
    hash(random, a);
    const WordLanes rounded = (magnitude + (random >> (32 - a.dropped))) & ~((1u << a.dropped) - 1);
    bits = (magnitude > kExponent ? magnitude : rounded) | sign;
  }
}

/// Grid::f32: d ulps up or down, d the difference of two random numbers of 0 .. 3. Zeros and
/// subnormals, infinities and NaN stay.
FAULTLINE_INLINE void perturb(WordLanes& bits, const Array& a) {
  constexpr std::uint32_t kSmallestNormal = 0x00800000u;
  const WordLanes sign = bits & kSign, magnitude = bits ^ sign;
  WordLanes random = bits;
  hash(random, a);
  const WordLanes moved = magnitude + (random >> 30) - (random >> 28 & 3u);
  const WordLanes kept = magnitude < kSmallestNormal ? magnitude : moved;
  bits = (magnitude >= kExponent ? magnitude : kept) | sign;
}

/// To nearest, ties to even.
template <bool kHalf>
FAULTLINE_INLINE void to_nearest(WordLanes& bits, const Array& a) {
  const std::uint32_t mask = (1u << a.dropped) - 1;
  const WordLanes sign = bits & kSign, magnitude = bits ^ sign;
  WordLanes rounded = (magnitude + (mask >> 1) + ((magnitude >> a.dropped) & 1u)) & ~mask;
  if constexpr (kHalf) {
    const WordLanes subnormal = reinterpret_cast<WordLanes>(magnitude < kHalfNormal);
    const FloatLanes steps = reinterpret_cast<FloatLanes>(magnitude & subnormal) * 0x1p24f;
    const FloatLanes shifted = steps + 0x1.8p23f;  // 1.5 2^23: rounds to an integer
    const FloatLanes small = (shifted - 0x1.8p23f) * 0x1p-24f;
    rounded = rounded > kHalfOverflow ? kExponent : rounded;
    rounded = (reinterpret_cast<WordLanes>(small) & subnormal) | (rounded & ~subnormal);
  }
  bits = (magnitude > kExponent ? magnitude : rounded) | sign;
}

template <auto kRound>
FAULTLINE_INLINE void for_lanes(const Array& a) {
  std::int64_t i = 0;
  WordLanes bits;
  for (; i + kLaneCount <= a.count; i += kLaneCount) {
    std::memcpy(&bits, a.source + i, sizeof bits);
    kRound(bits, a);
    std::memcpy(a.destination + i, &bits, sizeof bits);
  }
  if (i < a.count) {
    const std::size_t rest = static_cast<std::size_t>(a.count - i) * sizeof(float);
    bits = WordLanes{};
    std::memcpy(&bits, a.source + i, rest);
    kRound(bits, a);
    std::memcpy(a.destination + i, &bits, rest);
  }
}

FAULTLINE_DISPATCH(step_f16, for_lanes<step<true>>, (const Array& a), (a))
FAULTLINE_DISPATCH(step_prefix, for_lanes<step<false>>, (const Array& a), (a))
FAULTLINE_DISPATCH(perturb_f32, for_lanes<perturb>, (const Array& a), (a))
FAULTLINE_DISPATCH(nearest_f16, for_lanes<to_nearest<true>>, (const Array& a), (a))
FAULTLINE_DISPATCH(nearest_prefix, for_lanes<to_nearest<false>>, (const Array& a), (a))

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
  switch (grid) {
  case Grid::none: break;
  case Grid::f32: perturb_f32(array); break;
  case Grid::f16: stochastic_ ? step_f16(array) : nearest_f16(array); break;
  case Grid::bf16:
  case Grid::tf32: stochastic_ ? step_prefix(array) : nearest_prefix(array); break;
  }
}

}  // namespace faultline::reference
