// SPDX-License-Identifier: Apache-2.0
// What one lane computes, per operation. PTX ISA, "Integer Arithmetic Instructions" to "Half
// Precision Floating-Point Instructions".
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "numerics/approximate.hpp"
#include "numerics/directed_rounding.hpp"
#include "numerics/float_format.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// The hardware returns one NaN whatever the operands; hosts differ in which payload they keep.
static inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
static inline double canonical(double x) {
  return x == x ? x : std::bit_cast<double>(0x7ff8000000000000ull);
}
template <class T>
requires std::is_integral_v<T>
static inline T canonical(T x) { return x; }

static inline float flushed(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
static inline float clamped_01(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline double clamped_01(double x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }

template <class T>
static inline T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;  // -0 is below +0
  }
  return a < b ? a : b;
}
template <class T>
static inline T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, u16>)
      return static_cast<T>(static_cast<u32>(a) * b);
    else
      return static_cast<T>(a * b);
  }
};
struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(-1);  // unspecified by PTX; what the hardware gives
      if constexpr (std::is_signed_v<T>) {
        if (b == -1)
          return static_cast<T>(std::make_unsigned_t<T>(0) -
                                static_cast<std::make_unsigned_t<T>>(a));
      }
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return minimum(a, b);
  }
};
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return maximum(a, b);
  }
};
struct MultiplyHigh {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 64);
    } else {
      using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
      return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
    }
  }
};
struct Multiply24 {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      const s64 x = static_cast<s32>(static_cast<u32>(a) << 8) >> 8;
      const s64 y = static_cast<s32>(static_cast<u32>(b) << 8) >> 8;
      return static_cast<T>(x * y);
    } else {
      return static_cast<T>(static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu));
    }
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <class T>
  static T apply(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct Move {
  template <class T>
  static T apply(T a) {
    return a;
  }
};
struct Negate {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_floating_point_v<T>)
      return -a;
    else
      return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
  }
};
struct Absolute {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return std::bit_cast<float>(std::bit_cast<u32>(a) & 0x7fffffffu);
    else if constexpr (std::is_same_v<T, double>)
      return std::bit_cast<double>(std::bit_cast<u64>(a) << 1 >> 1);
    else
      return a < 0 ? Negate::apply(a) : a;
  }
};
struct ShiftLeft {
  template <class T>
  static T apply(T a, u32 n) {
    return n >= 8 * sizeof(T) ? T(0) : static_cast<T>(a << n);
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, u32 n) {
    if (n >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> n);
  }
};
struct MadLow {
  template <class T>
  static T apply(T a, T b, T c) {
    return static_cast<T>(Multiply::apply(a, b) + c);
  }
};
struct MadHigh {
  template <class T>
  static T apply(T a, T b, T c) {
    using U = std::make_unsigned_t<T>;  // the sum wraps
    return static_cast<T>(static_cast<U>(MultiplyHigh::apply(a, b)) + static_cast<U>(c));
  }
};
struct Mad24 {
  template <class T>
  static T apply(T a, T b, T c) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(Multiply24::apply(a, b)) + static_cast<U>(c));
  }
};
struct CopySign {  // the sign of a on the value of b
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(b, a);
  }
};
struct Sad {
  template <class T>
  static T apply(T a, T b, T c) {
    using U = std::make_unsigned_t<T>;
    const U difference = a < b ? static_cast<U>(static_cast<U>(b) - static_cast<U>(a))
                               : static_cast<U>(static_cast<U>(a) - static_cast<U>(b));
    return static_cast<T>(static_cast<U>(c) + difference);
  }
};
struct FusedMultiplyAdd {
  static float apply(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double apply(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
struct SquareRoot {
  static float apply(float a) { return __builtin_sqrtf(a); }
  static double apply(double a) { return __builtin_sqrt(a); }
};
struct Reciprocal {
  template <class T>
  static T apply(T a) {
    return T(1) / a;
  }
};
struct Ex2 {
  static float apply(float a) { return approximate_ex2(a); }
};
struct Lg2 {
  static float apply(float a) { return approximate_lg2(a); }
};
struct Sine {
  static float apply(float a) { return approximate_sin(a); }
};
struct Cosine {
  static float apply(float a) { return approximate_cos(a); }
};
struct Tanh {
  static float apply(float a) { return approximate_tanh(a); }
};
struct ReciprocalApproximate {
  static float apply(float a) { return approximate_rcp(a); }
};
struct RsqrtApproximate {
  static float apply(float a) { return approximate_rsqrt(a); }
  static double apply(double a) { return 1.0 / __builtin_sqrt(a); }
};
struct DivideApproximate {
  static float apply(float a, float b) {
    return static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
  }
};
struct Popcount {
  template <class T>
  static u32 apply(T a) {
    return static_cast<u32>(__builtin_popcountll(a));
  }
};
struct CountLeadingZeros {
  template <class T>
  static u32 apply(T a) {
    return static_cast<u32>(std::countl_zero(a));
  }
};
struct ReverseBits {
  template <class T>
  static T apply(T a) {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      result = static_cast<T>(result | (((a >> i) & 1) << (8 * sizeof(T) - 1 - i)));
    return result;
  }
};
template <bool kShiftAmount>
struct FindLeading {
  template <class T>
  static u32 apply(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a);
    if (std::is_signed_v<T> && a < 0) bits = static_cast<U>(~bits);
    if (bits == 0) return 0xffffffffu;
    const u32 position =
        static_cast<u32>(8 * sizeof(T) - 1) - static_cast<u32>(std::countl_zero(bits));
    return kShiftAmount ? static_cast<u32>(8 * sizeof(T) - 1) - position : position;
  }
};
struct Extract {
  template <class T>
  static T apply(T a, u32 position, u32 length) {
    constexpr u32 kTop = 8 * sizeof(T) - 1;
    position &= 0xff;
    length &= 0xff;
    const bool sign = std::is_signed_v<T> && length != 0 &&
                      ((a >> (position + length - 1 < kTop ? position + length - 1 : kTop)) & 1);
    T result = 0;
    using U = std::make_unsigned_t<T>;
    for (u32 i = 0; i <= kTop; ++i) {
      const bool bit = i < length && position + i <= kTop ? ((a >> (position + i)) & 1) != 0 : sign;
      if (bit) result = static_cast<T>(static_cast<U>(result) | (U(1) << i));
    }
    return result;
  }
};
struct Insert {
  template <class T>
  static T apply(T a, T b, u32 position, u32 length) {
    constexpr u32 kBits = 8 * sizeof(T);
    position &= 0xff;
    length &= 0xff;
    if (position >= kBits || length == 0) return b;
    const T ones = length >= kBits ? static_cast<T>(-1) : static_cast<T>((T(1) << length) - 1);
    const T field = static_cast<T>(ones << position);
    return static_cast<T>((b & ~field) | ((a << position) & field));
  }
};

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
