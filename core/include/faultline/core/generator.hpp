// SPDX-License-Identifier: Apache-2.0
// Counter-based inputs: the value of an element is a pure function of (seed, tensor, index), in
// integer arithmetic and one float multiplication, so host and device agree bit for bit and any
// trial can be regenerated alone.
#pragma once

#include "faultline/core/dtype.hpp"

namespace faultline::core {

/// How the elements of an input are drawn. `a` and `b` as stated; everything is rounded once to the
/// dtype.
enum class Distribution : uint8_t {
  normal = 0,     ///< Irwin-Hall sum of four 16-bit uniforms: mean a, standard deviation b, |x - a|
                  ///< <= 3.47 b
  uniform = 1,    ///< uniform on [a, b)
  small_int = 2,  ///< integers uniform on {-trunc(a), ..., trunc(a)}: exact in any summation order
                  ///< when small
  constant = 3,   ///< a everywhere
  index = 4,      ///< address-coded: a + b * (index mod 2048)
  coin = 5,       ///< a or b, each with probability 1/2
  // Rows of `row` consecutive elements; n is a row of unit normals of its own, c a row of unit
  // normals shared by the `group` consecutive rows around it. |.| is the Euclidean norm.
  unit_row = 6,       ///< b n / |n|: rows of norm b
  common_row = 7,     ///< b m / |m| with m = n / |n| + c / |c|: half a common direction
  identical_row = 8,  ///< b c / |c|: one direction in the whole group
  repeated_row = 9,   ///< a + b c: one normal row, repeated in the whole group
  // Coded data: what was read can be told from the value.
  digits = 10,  ///< 4^s / a with s = (index / row mod group) / a mod 8: slice s of `a` consecutive
                ///< steps along an axis of extent `group` and stride `row` adds exactly 4^s
  epoch = 11,   ///< one integer in [1, 256] for a whole tensor of a trial: epoch_code() of its key
  wide = 12,    ///< a + b n 2^e: unit normals n, exponents e uniform on {-8..8}
  edge = 13,  ///< 0, -0, +-b, +-3 b, +-a, +-1 and unit normals, a fifth each: subnormals (small b)
              ///< and large values (a) among ordinary ones
};

/// Distributions whose elements depend on the row they stand in: InputSpec::row must be positive.
FAULTLINE_HD bool is_row_distribution(Distribution d) {
  return d == Distribution::unit_row || d == Distribution::common_row ||
         d == Distribution::identical_row || d == Distribution::repeated_row;
}

/// The distribution of one tensor. Part of the device ABI (plain data).
struct InputSpec {
  Distribution distribution = Distribution::normal;
  float a = 0.0f;
  float b = 1.0f;
  int32_t row = 0;    ///< row distributions: elements of a row
  int32_t group = 1;  ///< row distributions: rows that share a direction
  friend bool operator==(const InputSpec& x, const InputSpec& y) {
    return x.distribution == y.distribution && x.a == y.a && x.b == y.b && x.row == y.row &&
           x.group == y.group;
  }
};

/// Bijective 64-bit finaliser (Stafford's variant 13 of MurmurHash3's, as in SplitMix64).
FAULTLINE_HD uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Key of one tensor in one trial.
FAULTLINE_HD uint64_t tensor_key(uint64_t seed, uint32_t tensor) {
  return mix64(seed + 0x9e3779b97f4a7c15ull * (static_cast<uint64_t>(tensor) + 1));
}

/// 64 uniform bits for element `index` of the tensor with that key.
FAULTLINE_HD uint64_t element_bits(uint64_t key, uint64_t index) {
  return mix64(key + 0xd1342543de82ef95ull * (index + 1));
}

/// Seed of trial number `trial` of a campaign with base seed `seed`.
FAULTLINE_HD uint64_t trial_seed(uint64_t seed, uint64_t trial) {
  return mix64(mix64(seed) ^ mix64(trial + 0x632be59bd9b4e019ull));
}

/// The integer in [1, 256], exact in every dtype, that marks one tensor of one trial (its
/// tensor_key()), so that stale data name the trial they come from.
FAULTLINE_HD int32_t epoch_code(uint64_t key) {
  return 1 + static_cast<int32_t>(mix64(key ^ 0x9f3c7a2de61b5488ull) >> 56);
}

/// Irwin-Hall: mean 0, standard deviation 1. The variance of the sum of four uniforms on {0..65535}
/// is 4 (65536^2 - 1) / 12 = 37837.227^2.
FAULTLINE_HD double unit_normal(uint64_t bits) {
  const int32_t sum = static_cast<int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                           (bits >> 32 & 0xffff) + (bits >> 48));
  return static_cast<double>(sum - 131070) * static_cast<double>(2.6428996e-5f);
}

/// Key of the rows that a group shares.
FAULTLINE_HD uint64_t group_key(uint64_t key) { return mix64(key ^ 0xa0761d6478bd642full); }

/// Norm of the `row` unit normals from `first` on. Products and sums in the order of the index.
FAULTLINE_HD double row_norm(uint64_t key, uint64_t first, int32_t row) {
  double sum = 0.0;
  for (int32_t j = 0; j < row; ++j) {
    const double x = unit_normal(element_bits(key, first + static_cast<uint64_t>(j)));
    sum += mul_rn(x, x);
  }
  return sqrt_rn(sum);
}

/// x / norm; 0 for a row of zeros.
FAULTLINE_HD double over_norm(double x, double norm) { return norm > 0.0 ? x / norm : 0.0; }

/// One element of a row distribution. Costs a pass over the row or two: generate_input() keeps the
/// norms instead.
FAULTLINE_HD double draw_in_row(const InputSpec& spec, uint64_t key, uint64_t index) {
  const uint64_t row = static_cast<uint64_t>(spec.row);
  const uint64_t first = index / row * row, column = index % row;
  const uint64_t shared_first = index / row / static_cast<uint64_t>(spec.group) * row;
  const uint64_t shared_key = group_key(key);
  const double own = unit_normal(element_bits(key, index));
  const double shared = unit_normal(element_bits(shared_key, shared_first + column));
  const double a = static_cast<double>(spec.a), b = static_cast<double>(spec.b);
  switch (spec.distribution) {
  case Distribution::unit_row: return mul_rn(b, over_norm(own, row_norm(key, first, spec.row)));
  case Distribution::identical_row:
    return mul_rn(b, over_norm(shared, row_norm(shared_key, shared_first, spec.row)));
  case Distribution::repeated_row: return mul_rn(shared, b) + a;
  default: break;
  }
  const double own_norm = row_norm(key, first, spec.row);
  const double shared_norm = row_norm(shared_key, shared_first, spec.row);
  double sum = 0.0;
  for (uint64_t j = 0; j < row; ++j) {
    const double m =
        over_norm(unit_normal(element_bits(key, first + j)), own_norm) +
        over_norm(unit_normal(element_bits(shared_key, shared_first + j)), shared_norm);
    sum += mul_rn(m, m);
  }
  return mul_rn(b,
                over_norm(over_norm(own, own_norm) + over_norm(shared, shared_norm), sqrt_rn(sum)));
}

/// The element's value before rounding to its dtype. Sums of products are either exact or kept
/// apart by mul_rn, so that contraction to a fused multiply-add cannot change a bit.
FAULTLINE_HD double draw(const InputSpec& spec, uint64_t key, uint64_t index) {
  switch (spec.distribution) {
  case Distribution::constant: return spec.a;
  case Distribution::index:
    return static_cast<double>(spec.a) +
           static_cast<double>(spec.b) * static_cast<double>(index % 2048);
  case Distribution::small_int: {
    const int64_t n = static_cast<int64_t>(spec.a);
    const uint64_t r = (element_bits(key, index) >> 32) * static_cast<uint64_t>(2 * n + 1);
    return static_cast<double>(static_cast<int64_t>(r >> 32) - n);
  }
  case Distribution::uniform: {
    // 24 random bits times the width; mul_rn keeps the product apart from the addition.
    const double u = static_cast<double>(element_bits(key, index) >> 40) * exp2_int(-24);
    const double width = static_cast<double>(spec.b) - static_cast<double>(spec.a);
    return mul_rn(u, width) + static_cast<double>(spec.a);
  }
  case Distribution::digits: {
    const uint64_t tile = static_cast<uint64_t>(spec.a);
    const uint64_t step =
        index / static_cast<uint64_t>(spec.row) % static_cast<uint64_t>(spec.group);
    return exp2_int(static_cast<int>(2 * (step / tile % 8))) / static_cast<double>(spec.a);
  }
  case Distribution::epoch: return epoch_code(key);
  case Distribution::wide: {
    const uint64_t bits = element_bits(key, index);
    const int exponent = static_cast<int>((mix64(bits) >> 32) * 17 >> 32) - 8;
    return mul_rn(mul_rn(unit_normal(bits), exp2_int(exponent)), static_cast<double>(spec.b)) +
           static_cast<double>(spec.a);
  }
  case Distribution::edge: {
    const uint64_t bits = element_bits(key, index);
    const uint64_t choice = (mix64(bits) >> 32) * 10 >> 32;
    const double sign = bits >> 63 != 0 ? -1.0 : 1.0;
    switch (choice / 2) {
    case 0: return mul_rn(sign, 0.0);
    case 1: return mul_rn(sign, mul_rn(choice % 2 != 0 ? 3.0 : 1.0, static_cast<double>(spec.b)));
    case 2: return mul_rn(sign, choice % 2 != 0 ? 1.0 : static_cast<double>(spec.a));
    default: return unit_normal(bits);
    }
  }
  case Distribution::coin:
    return element_bits(key, index) >> 63 != 0 ? static_cast<double>(spec.b)
                                               : static_cast<double>(spec.a);
  case Distribution::unit_row:
  case Distribution::common_row:
  case Distribution::identical_row:
  case Distribution::repeated_row: return draw_in_row(spec, key, index);
  case Distribution::normal: break;
  }
  const double unit = unit_normal(element_bits(key, index));
  return mul_rn(unit, static_cast<double>(spec.b)) + static_cast<double>(spec.a);
}

}  // namespace faultline::core
