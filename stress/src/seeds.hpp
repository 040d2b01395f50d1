// SPDX-License-Identifier: Apache-2.0
// Seeds of trials, backwards: from the seed of a trial's inputs to that of its campaign.
#pragma once

#include <cstdint>

#include "faultline/core/generator.hpp"

namespace faultline::stress::detail {

inline std::uint64_t invert_xor_shift(std::uint64_t y, int shift) {
  std::uint64_t x = y;
  for (int known = shift; known < 64; known += shift) x = y ^ (x >> shift);
  return x;
}

/// Inverse modulo 2^64 of an odd number: Newton's iteration doubles the right bits each time.
inline std::uint64_t inverse(std::uint64_t a) {
  std::uint64_t x = a;
  for (int i = 0; i < 5; ++i) x *= 2 - a * x;
  return x;
}

/// unmix64(core::mix64(x)) == x.
inline std::uint64_t unmix64(std::uint64_t z) {
  z = invert_xor_shift(z, 31) * inverse(0x94d049bb133111ebull);
  z = invert_xor_shift(z, 27) * inverse(0xbf58476d1ce4e5b9ull);
  return invert_xor_shift(z, 30);
}

/// core::trial_seed(seed, i) = mix64(mix64(seed) ^ c_i); any known seed gives c_i.
inline std::uint64_t trial_code(std::uint64_t trial) {
  return unmix64(core::trial_seed(0, trial)) ^ core::mix64(0);
}

}  // namespace faultline::stress::detail
