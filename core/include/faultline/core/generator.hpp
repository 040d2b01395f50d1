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
};

/// The distribution of one tensor. Part of the device ABI (plain data).
struct InputSpec {
  Distribution distribution = Distribution::normal;
  float a = 0.0f;
  float b = 1.0f;
  friend bool operator==(const InputSpec& x, const InputSpec& y) {
    return x.distribution == y.distribution && x.a == y.a && x.b == y.b;
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
  case Distribution::normal: break;
  }
  const uint64_t r = element_bits(key, index);
  const int32_t sum =
      static_cast<int32_t>((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
  // Variance of the sum of four uniforms on {0..65535}: 4 (65536^2 - 1) / 12 = 37837.227^2.
  const double unit = static_cast<double>(sum - 131070) * static_cast<double>(2.6428996e-5f);
  return mul_rn(unit, static_cast<double>(spec.b)) + static_cast<double>(spec.a);
}

}  // namespace faultline::core
