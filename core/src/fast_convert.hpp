// SPDX-License-Identifier: Apache-2.0
// Conversions with the dtype known at compile time, for loops over whole tensors on the host. Equal
// bit for bit to decode(), encode() and ulp_at() of dtype.hpp, which the tests check; only quicker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "faultline/core/dtype.hpp"

namespace faultline::core::detail {

template <Dtype D>
using Storage =
    std::conditional_t<D == Dtype::f64, std::uint64_t,
                       std::conditional_t<D == Dtype::f32, std::uint32_t, std::uint16_t>>;

template <Dtype D>
constexpr int kMantissaBits = D == Dtype::f64   ? 52
                              : D == Dtype::f32 ? 23
                              : D == Dtype::f16 ? 10
                                                : 7;
template <Dtype D>
constexpr int kMinExponent = D == Dtype::f64   ? -1022
                             : D == Dtype::f16 ? -14
                                               : -126;
template <Dtype D>
constexpr int kMaxExponent = D == Dtype::f64   ? 1023
                             : D == Dtype::f16 ? 15
                                               : 127;

/// Element i of packed bytes that need not be aligned.
template <Dtype D>
inline Storage<D> load(const std::byte* data, std::size_t i) {
  Storage<D> bits;
  std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
  return bits;
}
template <Dtype D>
inline void store(std::byte* data, std::size_t i, Storage<D> bits) {
  std::memcpy(data + i * sizeof bits, &bits, sizeof bits);
}

template <Dtype D>
inline double fast_decode(Storage<D> bits) {
  if constexpr (D == Dtype::f64) {
    return double_of(bits);
  } else if constexpr (D == Dtype::f32) {
    return static_cast<double>(float_of(bits));
  } else if constexpr (D == Dtype::bf16) {
    return static_cast<double>(float_of(static_cast<std::uint32_t>(bits) << 16));
  } else {
    const std::uint64_t magnitude = bits & 0x7fffu;
    if (magnitude - 0x0400u <
        0x7800u) {  // a normal number: move the fields and the exponent's bias
      return double_of(static_cast<std::uint64_t>(bits & 0x8000u) << 48 |
                       ((magnitude << 42) + (static_cast<std::uint64_t>(1023 - 15) << 52)));
    }
    return decode(Dtype::f16, bits);
  }
}

/// x lies where rounding to D's grid is rounding of the mantissa alone: a normal result, no
/// overflow.
template <Dtype D>
inline bool rounds_by_mantissa(std::uint64_t bits) {
  constexpr std::uint64_t kLow = static_cast<std::uint64_t>(kMinExponent<D> + 1023) << 52;
  constexpr std::uint64_t kHigh = static_cast<std::uint64_t>(kMaxExponent<D> + 1023) << 52;
  return (bits & 0x7fffffffffffffffull) - kLow < kHigh - kLow;
}

/// Ties to even on the integer representation; a carry into the exponent is the right answer.
template <Dtype D>
inline std::uint64_t round_mantissa(std::uint64_t bits) {
  constexpr int kDropped = 52 - kMantissaBits<D>;
  constexpr std::uint64_t kHalf = (1ull << (kDropped - 1)) - 1;
  return (bits + kHalf + (bits >> kDropped & 1)) >> kDropped << kDropped;
}

template <Dtype D>
inline Storage<D> fast_encode(double x) {
  const std::uint64_t bits = bits_of(x);
  if constexpr (D == Dtype::f64) {
    return bits;
  } else if constexpr (D == Dtype::f32) {
    return is_nan(x) ? 0x7fc00000u : bits_of(static_cast<float>(x));
  } else {
    if (rounds_by_mantissa<D>(bits)) {
      constexpr int kDropped = 52 - kMantissaBits<D>;
      constexpr std::uint64_t kBias = static_cast<std::uint64_t>(1024 - (kMaxExponent<D> + 1))
                                      << kMantissaBits<D>;
      const std::uint64_t rounded = round_mantissa<D>(bits);
      return static_cast<Storage<D>>((rounded >> 63) << 15 |
                                     (((rounded & 0x7fffffffffffffffull) >> kDropped) - kBias));
    }
    return static_cast<Storage<D>>(encode(D, x));
  }
}

template <Dtype D>
inline double fast_round(double x) {
  if constexpr (D == Dtype::f64) {
    return x;
  } else if constexpr (D == Dtype::f32) {
    return static_cast<double>(static_cast<float>(x));
  } else {
    const std::uint64_t bits = bits_of(x);
    return rounds_by_mantissa<D>(bits) ? double_of(round_mantissa<D>(bits)) : round_to(D, x);
  }
}

}  // namespace faultline::core::detail
