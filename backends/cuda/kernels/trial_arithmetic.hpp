// SPDX-License-Identifier: Apache-2.0
// Conversions and the acceptance rule with the dtype known at compile time, for loops over whole
// tensors on the device. Equal bit for bit to core's dtype.hpp, generator.hpp and acceptance.hpp,
// which tests/cuda checks on the host; only quicker: no divisions, no loops over exponents.
#pragma once

#include "faultline/core/acceptance.hpp"
#include "faultline/core/generator.hpp"
#include "trial_abi.hpp"

namespace faultline::cuda::arithmetic {

using core::Dtype;

template <Dtype D>
struct Format;
template <>
struct Format<Dtype::f16> {
  using Storage = uint16_t;
  static constexpr int kMantissaBits = 10, kMinExponent = -14, kMaxExponent = 15;
};
template <>
struct Format<Dtype::bf16> {
  using Storage = uint16_t;
  static constexpr int kMantissaBits = 7, kMinExponent = -126, kMaxExponent = 127;
};
template <>
struct Format<Dtype::f32> {
  using Storage = uint32_t;
  static constexpr int kMantissaBits = 23, kMinExponent = -126, kMaxExponent = 127;
};
template <>
struct Format<Dtype::f64> {
  using Storage = uint64_t;
  static constexpr int kMantissaBits = 52, kMinExponent = -1022, kMaxExponent = 1023;
};
template <Dtype D>
using Storage = typename Format<D>::Storage;

/// core::decode().
template <Dtype D>
FAULTLINE_HD double decode(Storage<D> bits) {
  if constexpr (D == Dtype::f64) {
    return core::double_of(static_cast<uint64_t>(bits));
  } else if constexpr (D == Dtype::f32) {
    return static_cast<double>(core::float_of(static_cast<uint32_t>(bits)));
  } else if constexpr (D == Dtype::bf16) {
    return static_cast<double>(core::float_of(static_cast<uint32_t>(bits) << 16));
  } else {
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude - 0x0400u < 0x7800u) {  // a normal number: move the fields and the bias
      const uint32_t high = (bits & 0x8000u) << 16 | ((magnitude << 10) + ((1023u - 15u) << 20));
      return core::double_of(static_cast<uint64_t>(high) << 32);
    }
    return core::decode(Dtype::f16, bits);
  }
}

/// |x| lies where rounding to D's grid is rounding of the mantissa alone: a normal result, no
/// overflow.
template <Dtype D>
FAULTLINE_HD bool rounds_by_mantissa(uint64_t bits) {
  constexpr uint32_t kLow = static_cast<uint32_t>(Format<D>::kMinExponent + 1023) << 20;
  constexpr uint32_t kHigh = static_cast<uint32_t>(Format<D>::kMaxExponent + 1023) << 20;
  return (static_cast<uint32_t>(bits >> 32) & 0x7fffffffu) - kLow < kHigh - kLow;
}

/// Ties to even on the integer representation; a carry into the exponent is the right answer.
template <Dtype D>
FAULTLINE_HD uint64_t round_mantissa(uint64_t bits) {
  constexpr int kDropped = 52 - Format<D>::kMantissaBits;
  constexpr uint64_t kHalf = (1ull << (kDropped - 1)) - 1;
  return (bits + kHalf + (bits >> kDropped & 1)) & ~((1ull << kDropped) - 1);
}

/// core::encode().
template <Dtype D>
FAULTLINE_HD Storage<D> encode(double x) {
  const uint64_t bits = core::bits_of(x);
  if constexpr (D == Dtype::f64) {
    return bits;
  } else if constexpr (D == Dtype::f32) {
    return core::is_nan(x) ? 0x7fc00000u : core::bits_of(static_cast<float>(x));
  } else {
    if (rounds_by_mantissa<D>(bits)) {
      // Everything kept is in the high word: 20 - mantissa bits are dropped from it.
      constexpr int kDropped = 20 - Format<D>::kMantissaBits;
      constexpr uint32_t kBias = static_cast<uint32_t>(1023 - Format<D>::kMaxExponent)
                                 << Format<D>::kMantissaBits;
      const uint32_t high = static_cast<uint32_t>(round_mantissa<D>(bits) >> 32);
      return static_cast<Storage<D>>((high >> 31) << 15 |
                                     (((high & 0x7fffffffu) >> kDropped) - kBias));
    }
    return static_cast<Storage<D>>(core::encode(D, x));
  }
}

/// core::round_to() where that is finite and a matter of the mantissa alone, or x is zero; else
/// false.
template <Dtype D>
FAULTLINE_HD bool quick_round(double x, double& rounded) {
  if constexpr (D == Dtype::f64) {
    rounded = x;
    return core::is_finite(x);
  } else if constexpr (D == Dtype::f32) {
    const float narrow = static_cast<float>(x);
    rounded = static_cast<double>(narrow);
    return (core::bits_of(narrow) & 0x7f800000u) != 0x7f800000u;
  } else {
    const uint64_t bits = core::bits_of(x);
    const bool by_mantissa = rounds_by_mantissa<D>(bits);
    rounded = by_mantissa ? core::double_of(round_mantissa<D>(bits)) : x;
    return by_mantissa || bits << 1 == 0;
  }
}

/// Biased exponent of a finite number of D's grid, D's smallest normal one below that.
template <Dtype D>
FAULTLINE_HD uint32_t biased_exponent(double x) {
  constexpr uint32_t kLowest = static_cast<uint32_t>(Format<D>::kMinExponent + 1023);
  const uint32_t exponent = static_cast<uint32_t>(core::bits_of(x) >> 52) & 0x7ffu;
  return exponent < kLowest ? kLowest : exponent;
}
/// 1 / core::ulp_at(D, x), exact: multiplying by it equals the division. D is not f64.
template <Dtype D>
FAULTLINE_HD double inverse_ulp(double x) {
  const uint32_t exponent = 2046u + Format<D>::kMantissaBits - biased_exponent<D>(x);
  return core::double_of(static_cast<uint64_t>(exponent) << 52);
}
/// core::ulp_at(D, x) / 2. D is not f64.
template <Dtype D>
FAULTLINE_HD double half_ulp(double x) {
  const uint32_t exponent = biased_exponent<D>(x) - Format<D>::kMantissaBits - 1;
  return core::double_of(static_cast<uint64_t>(exponent) << 52);
}

/// 16 bytes, the widest store.
struct alignas(16) Vector {
  uint32_t words[4];
};
/// The raw element `bits` repeated.
template <Dtype D>
FAULTLINE_HD Vector repeated(uint64_t bits) {
  const uint32_t low = static_cast<uint32_t>(bits);
  const uint32_t even = sizeof(Storage<D>) == 2 ? low | low << 16 : low;
  const uint32_t odd = sizeof(Storage<D>) == 8 ? static_cast<uint32_t>(bits >> 32) : even;
  return {{even, odd, even, odd}};
}

/// One thread's part of poisoning the elements begin..end of one trial, where `threads` share the
/// work: core::PoisonMap::lay(). `trial` is where the trial's elements begin, and elements of a
/// vector are stored by `store(address, vector)` where they are aligned and all of one tile.
template <Dtype D, class Store>
FAULTLINE_HD void lay_poison(const abi::PoisonSlot& tensor, uint32_t word, Storage<D>* trial,
                             uint64_t begin, uint64_t end, uint32_t thread, uint32_t threads,
                             Store&& store) {
  using T = Storage<D>;
  constexpr uint64_t kPerVector = sizeof(Vector) / sizeof(T);
  core::Poison poison = abi::poison_of(tensor, word);
  poison.dtype = D;  // known when this is compiled
  const uint64_t first = poison.bits(0);
  const bool by_tile = tensor.has_tiles;
  const bool wide = tensor.elements >> 31 != 0;
  const bool aligned = reinterpret_cast<uintptr_t>(trial + begin) % sizeof(Vector) == 0;
  const uint64_t tail = aligned ? begin + (end - begin) / kPerVector * kPerVector : begin;
  const auto bits_at = [&](uint64_t i) {
    return by_tile ? poison.bits(abi::tile_run(tensor.tiles, i, wide).tile) : first;
  };
  Vector vector = repeated<D>(first);
  for (uint64_t i = begin + kPerVector * thread; i < tail; i += kPerVector * threads) {
    if (by_tile) {
      const abi::TileRun run = abi::tile_run(tensor.tiles, i, wide);
      if (run.end < i + kPerVector) {
        for (uint64_t j = i; j < i + kPerVector; ++j) trial[j] = static_cast<T>(bits_at(j));
        continue;
      }
      vector = repeated<D>(poison.bits(run.tile));
    }
    store(trial + i, vector);
  }
  for (uint64_t i = tail + thread; i < end; i += threads) trial[i] = static_cast<T>(bits_at(i));
}

/// What is known of an accepted element without the whole rule.
struct QuickCheck {
  bool decided = false;  ///< accepted, and the figures below hold; else ask core::check_element()
  bool nearest = false;  ///< got is RN(expected): ratio and rounded error are 0
  double error = 0.0;    ///< as ElementCheck
  double ulps = 0.0;     ///< as ElementCheck
  /// As ElementCheck when that is above `ratio_seen`, else either that or 0.
  double ratio = 0.0;
  double rounded_error = 0.0;  ///< |value - RN(expected)|
};

/// core::check_element() for elements that are accepted and ordinary, nearly all there are.
/// `ratio_seen`: ratios up to it are of no interest, so no division is spent on them.
template <Dtype D>
FAULTLINE_HD QuickCheck quick_check(Storage<D> got, double expected, double bound,
                                    double ratio_seen) {
  QuickCheck r;
  const auto magnitude = [](double x) {
    return core::double_of(core::bits_of(x) & 0x7fffffffffffffffull);
  };
  const double value = decode<D>(got);
  double nearest;
  // The bound is +0 or positive, and finite: its high word is below infinity's.
  if (!quick_round<D>(expected, nearest) ||
      static_cast<uint32_t>(core::bits_of(bound) >> 32) >= 0x7ff00000u) {
    return r;
  }
  r.error = magnitude(value - expected);
  if (core::bits_of(value) == core::bits_of(nearest)) {
    // Rounding is monotonic: RN(expected) lies in the interval. `nearest` is finite, so `value` is.
    r.decided = r.nearest = true;
    if constexpr (D != Dtype::f64) r.ulps = core::mul_rn(r.error, inverse_ulp<D>(nearest));
    return r;
  }
  if constexpr (D != Dtype::f64) {
    double low, high;  // finite, so that a value between them is; no NaN passes
    if (bound > 0.0 && quick_round<D>(expected - bound, low) &&
        quick_round<D>(expected + bound, high) && value >= low && value <= high) {
      r.decided = true;
      r.ulps = core::mul_rn(r.error, inverse_ulp<D>(nearest));
      r.rounded_error = magnitude(value - nearest);
      const double half = half_ulp<D>(value);
      if (r.error > half) {
        const double beyond = r.error - half;
        // The margin covers the rounding of the product.
        if (beyond >= core::mul_rn(core::mul_rn(ratio_seen, bound), 1.0 - 0x1p-50)) {
          r.ratio = beyond < bound ? beyond / bound : 1.0;
        }
      }
    }
  }
  return r;
}

/// core::error_bin().
FAULTLINE_HD uint32_t error_bin(double error) {
  if (!(error > 0.0)) return error == 0.0 ? 0 : abi::kErrorBins - 1;
  const uint64_t bits = core::bits_of(error);
  const int exponent =
      static_cast<int>(bits >> 52) - 1023 + ((bits & 0xfffffffffffffull) != 0 ? 1 : 0);
  if (exponent > 1023) return abi::kErrorBins - 1;
  const int bin = exponent - abi::kLowestErrorExponent + 1;
  constexpr int kLast = static_cast<int>(abi::kErrorBins) - 2;
  return static_cast<uint32_t>(bin < 1 ? 1 : bin > kLast ? kLast : bin);
}

/// core::encode(D, core::draw(spec, key, index)) where `bits` are core::element_bits(key, index)
/// and the distribution is normal.
template <Dtype D>
FAULTLINE_HD Storage<D> draw_normal(uint64_t bits, double a, double b) {
  const uint32_t low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
  const int32_t sum =
      static_cast<int32_t>((low & 0xffffu) + (low >> 16) + (high & 0xffffu) + (high >> 16));
  const double unit =
      core::mul_rn(static_cast<double>(sum - 131070), static_cast<double>(2.6428996e-5f));
  return encode<D>(core::mul_rn(unit, b) + a);
}

}  // namespace faultline::cuda::arithmetic
