// SPDX-License-Identifier: Apache-2.0
// Operators lifted to 32 lanes, and the handlers that need more than one operator.
#pragma once

#include <emmintrin.h>

#include <cstring>

#include "exec/compute_operators.hpp"
#include "exec/lanes.hpp"
#include "program/compute_key.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

template <class T, class Op>
static void unary(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = canonical(Op::apply(a[l])); });
}
// Bits move untouched: no NaN becomes canonical.
template <class T, class Op>
static void unary_raw(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = Op::apply(a[l]); });
}
template <class T, class Op>
static void unary_to_u32(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = Op::apply(a[l]); });
}
template <class T, class Op>
static void binary(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  for_each_lane(mask, [&](int l) { d[l] = canonical(Op::apply(a[l], b[l])); });
}
template <class T, class Op>
static void shift(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const u32* n = lanes_of<u32>(r, i.s[1]);
  for_each_lane(mask, [&](int l) { d[l] = Op::apply(a[l], n[l]); });
}
template <class T, class Op>
static void ternary(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  const T* c = lanes_of<T>(r, i.s[2]);
  for_each_lane(mask, [&](int l) { d[l] = canonical(Op::apply(a[l], b[l], c[l])); });
}
template <class D, class S>
static void multiply_wide(u8* r, const Instruction& i, u32 mask) {
  D* d = lanes_of<D>(r, i.d[0]);
  const S* a = lanes_of<S>(r, i.s[0]);
  const S* b = lanes_of<S>(r, i.s[1]);
  for_each_lane(mask, [&](int l) { d[l] = static_cast<D>(a[l]) * static_cast<D>(b[l]); });
}
template <class D, class S>
static void mad_wide(u8* r, const Instruction& i, u32 mask) {
  D* d = lanes_of<D>(r, i.d[0]);
  const S* a = lanes_of<S>(r, i.s[0]);
  const S* b = lanes_of<S>(r, i.s[1]);
  const D* c = lanes_of<D>(r, i.s[2]);
  for_each_lane(mask, [&](int l) { d[l] = static_cast<D>(a[l]) * static_cast<D>(b[l]) + c[l]; });
}

// f32 and f64 arithmetic with any modifier: slower, read at run time.
template <class T, FloatOperation kOperation, class Op>
static void float_general(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1] >= 0 ? i.s[1] : i.s[0]);
  const T* c = lanes_of<T>(r, i.s[2] >= 0 ? i.s[2] : i.s[0]);
  const FloatMode mode = i.mode;
  for_each_lane(mask, [&](int l) {
    T x = a[l], y = b[l], z = c[l], result;
    if constexpr (std::is_same_v<T, float>) {
      if (mode.flush_subnormals) {
        x = flushed(x);
        y = flushed(y);
        z = flushed(z);
      }
    }
    if (mode.rounding == Rounding::nearest_even) {
      if constexpr (kOperation == FloatOperation::multiply_add)
        result = Op::apply(x, y, z);
      else if constexpr (kOperation == FloatOperation::square_root)
        result = Op::apply(x);
      else
        result = Op::apply(x, y);
    } else {
      result = directed(kOperation, mode.rounding, x, y, z);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (mode.flush_subnormals) result = flushed(result);
    }
    if (mode.saturate) result = clamped_01(result);
    d[l] = canonical(result);
  });
}
template <class T>
static void reciprocal_general(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  for_each_lane(mask, [&](int l) {
    T x = a[l];
    if constexpr (std::is_same_v<T, float>) x = i.mode.flush_subnormals ? flushed(x) : x;
    T result = i.mode.rounding == Rounding::nearest_even
                   ? T(1) / x
                   : directed(FloatOperation::divide, i.mode.rounding, T(1), x, T(0));
    if constexpr (std::is_same_v<T, float>)
      result = i.mode.flush_subnormals ? flushed(result) : result;
    d[l] = canonical(result);
  });
}
template <class Op>
static void unary_flushed(u8* r, const Instruction& i, u32 mask) {
  float* d = lanes_of<float>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = canonical(flushed(Op::apply(flushed(a[l])))); });
}
template <class Op>
static void binary_flushed(u8* r, const Instruction& i, u32 mask) {
  float* d = lanes_of<float>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  const float* b = lanes_of<float>(r, i.s[1]);
  for_each_lane(mask,
                [&](int l) { d[l] = canonical(flushed(Op::apply(flushed(a[l]), flushed(b[l])))); });
}
template <class T, bool kMaximum>
static void extremum_general(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  for_each_lane(mask, [&](int l) {
    T x = a[l], y = b[l];
    if constexpr (std::is_same_v<T, float>) {
      if (i.mode.flush_subnormals) {
        x = flushed(x);
        y = flushed(y);
      }
    }
    T result = kMaximum ? maximum(x, y) : minimum(x, y);
    if (i.mode.propagate_nan && (x != x || y != y)) result = std::numeric_limits<T>::quiet_NaN();
    if (i.mode.xor_sign)
      result = std::copysign(result, std::signbit(x) != std::signbit(y) ? T(-1) : T(1));
    d[l] = canonical(result);
  });
}

// ---- predicates -------------------------------------------------------------------------------
static inline u32& predicate_at(u8* r, RegisterOffset offset) { return *lanes_of<u32>(r, offset); }
static inline void assign(u32& p, u32 mask, u32 value) { p = (p & ~mask) | (value & mask); }

template <class T, Comparison kComparison>
static inline bool compares(T a, T b) {
  switch (kComparison) {
  case Comparison::eq: return a == b;
  case Comparison::ne: return std::is_floating_point_v<T> ? (a < b || a > b) : a != b;
  case Comparison::lt: return a < b;
  case Comparison::le: return a <= b;
  case Comparison::gt: return a > b;
  case Comparison::ge: return a >= b;
  case Comparison::equ: return !(a < b || a > b);
  case Comparison::neu: return !(a == b);
  case Comparison::ltu: return !(a >= b);
  case Comparison::leu: return !(a > b);
  case Comparison::gtu: return !(a <= b);
  case Comparison::geu: return !(a < b);
  case Comparison::num: return a == a && b == b;
  case Comparison::nan: return a != a || b != b;
  }
  return false;
}
template <class T, Comparison kComparison>
static u32 compare_lanes(const T* a, const T* b, bool flush) {
  alignas(32) u8 flags[32];
  if constexpr (std::is_same_v<T, float>) {
    if (flush) {
      for (int l = 0; l < 32; ++l)
        flags[l] = compares<T, kComparison>(flushed(a[l]), flushed(b[l])) ? 0xff : 0;
    } else {
      for (int l = 0; l < 32; ++l) flags[l] = compares<T, kComparison>(a[l], b[l]) ? 0xff : 0;
    }
  } else {
    for (int l = 0; l < 32; ++l) flags[l] = compares<T, kComparison>(a[l], b[l]) ? 0xff : 0;
  }
  const auto* halves = reinterpret_cast<const __m128i*>(flags);
  return static_cast<u32>(_mm_movemask_epi8(halves[0])) |
         static_cast<u32>(_mm_movemask_epi8(halves[1])) << 16;
}
static inline u32 combined(const u8* r, const Instruction& i, u32 value) {
  if (i.s[2] < 0) return value;
  u32 c;
  std::memcpy(&c, r + i.s[2], 4);
  if (i.sign_extend) c = ~c;  // `!c`
  switch (static_cast<Combine>(i.variant)) {
  case Combine::bit_and: return value & c;
  case Combine::bit_or: return value | c;
  case Combine::bit_xor: return value ^ c;
  case Combine::none: break;
  }
  return value;
}
template <class T, Comparison kComparison>
static void compare(u8* r, const Instruction& i, u32 mask) {
  const u32 value = compare_lanes<T, kComparison>(lanes_of<T>(r, i.s[0]), lanes_of<T>(r, i.s[1]),
                                                  i.mode.flush_subnormals);
  const u32 first = combined(r, i, value);
  const u32 second = i.d[1] >= 0 ? combined(r, i, ~value) : 0;
  if (i.d[0] >= 0) assign(predicate_at(r, i.d[0]), mask, first);
  if (i.d[1] >= 0) assign(predicate_at(r, i.d[1]), mask, second);
}
template <class T, Comparison kComparison>
static void compare_set(u8* r, const Instruction& i, u32 mask) {
  const u32 value =
      combined(r, i,
               compare_lanes<T, kComparison>(lanes_of<T>(r, i.s[0]), lanes_of<T>(r, i.s[1]),
                                             i.mode.flush_subnormals));
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32 truth = i.width == 1 ? 0x3f800000u : 0xffffffffu;  // width 1: an f32 destination
  for_each_lane(mask, [&](int l) { d[l] = (value >> l) & 1 ? truth : 0; });
}
template <class T>
static void test_class(u8* r, const Instruction& i, u32 mask) {
  const T* a = lanes_of<T>(r, i.s[0]);
  u32 value = 0;
  for (u32 l = 0; l < 32; ++l) {
    const T x = a[l];
    const bool is_nan = x != x;
    const bool is_infinite = !is_nan && x - x != T(0);
    const T magnitude = Absolute::apply(x);
    const bool is_normal = magnitude >= std::numeric_limits<T>::min() && !is_infinite && !is_nan;
    const bool answers[6] = {!is_nan && !is_infinite,
                             is_infinite,
                             !is_nan,
                             is_nan,
                             is_normal,
                             magnitude > T(0) && magnitude < std::numeric_limits<T>::min()};
    value |= static_cast<u32>(answers[i.variant]) << l;
  }
  assign(predicate_at(r, i.d[0]), mask, value);
}
template <class T>
static void select(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  u32 p = predicate_at(r, i.s[2]);
  if (i.sign_extend) p = ~p;
  for_each_lane(mask, [&](int l) { d[l] = (p >> l) & 1 ? a[l] : b[l]; });
}
template <class T, class C>
static void select_sign(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  const C* c = lanes_of<C>(r, i.s[2]);
  for_each_lane(mask, [&](int l) { d[l] = c[l] >= C(0) ? a[l] : b[l]; });
}
template <int kOperation>  // 0 and, 1 or, 2 xor, 3 not, 4 move
static void predicate_logic(u8* r, const Instruction& i, u32 mask) {
  u32 a = predicate_at(r, i.s[0]);
  if (i.sign_extend) a = ~a;
  const u32 b = i.s[1] >= 0 ? predicate_at(r, i.s[1]) : 0;
  const u32 value = kOperation == 0   ? a & b
                    : kOperation == 1 ? a | b
                    : kOperation == 2 ? a ^ b
                    : kOperation == 3 ? ~a
                                      : a;
  assign(predicate_at(r, i.d[0]), mask, value);
}

// ---- bits -------------------------------------------------------------------------------------
template <class T>
static void extract(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const u32* p = lanes_of<u32>(r, i.s[1]);
  const u32* n = lanes_of<u32>(r, i.s[2]);
  for_each_lane(mask, [&](int l) { d[l] = Extract::apply(a[l], p[l], n[l]); });
}
template <class T>
static void insert(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  const u32* p = lanes_of<u32>(r, i.s[2]);
  const u32* n = lanes_of<u32>(r, i.s[3]);
  for_each_lane(mask, [&](int l) { d[l] = Insert::apply(a[l], b[l], p[l], n[l]); });
}
static void lop3(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1]);
  const u32* c = lanes_of<u32>(r, i.s[2]);
  u32 term[8];
  for (u32 k = 0; k < 8; ++k) term[k] = (i.variant >> k) & 1 ? 0xffffffffu : 0;
  for_each_lane(mask, [&](int l) {
    const u32 x = a[l], y = b[l], z = c[l];
    d[l] = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) |
           (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
           (term[6] & x & y & ~z) | (term[7] & x & y & z);
  });
}
template <bool kLeft>
static void funnel(u8* r, const Instruction& i, u32 mask) {  // variant 1: clamp, 0: wrap
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1]);
  const u32* c = lanes_of<u32>(r, i.s[2]);
  for_each_lane(mask, [&](int l) {
    const u32 n = i.variant ? (c[l] < 32 ? c[l] : 32) : c[l] & 31;
    const u64 both = static_cast<u64>(b[l]) << 32 | a[l];
    d[l] = static_cast<u32>(kLeft ? both >> (32 - n) : both >> n);
  });
}
static void permute(u8* r, const Instruction& i,
                    u32 mask) {  // prmt, default mode and the six others
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1]);
  const u32* c = lanes_of<u32>(r, i.s[2]);
  for_each_lane(mask, [&](int l) {
    const u64 bytes = static_cast<u64>(b[l]) << 32 | a[l];
    const u32 s = c[l] & 3;
    u32 selector = c[l];
    switch (i.variant) {
    case 1: selector = (s + 3) << 12 | (s + 2) << 8 | (s + 1) << 4 | s; break;  // f4e
    case 2:
      selector = ((s + 5) & 7) << 12 | ((s + 6) & 7) << 8 | ((s + 7) & 7) << 4 | s;
      break;                                                                               // b4e
    case 3: selector = s * 0x1111u; break;                                                 // rc8
    case 4: selector = 3u << 12 | (s > 2 ? s : 2) << 8 | (s > 1 ? s : 1) << 4 | s; break;  // ecl
    case 5: selector = s << 12 | (s < 2 ? s : 2) << 8 | (s < 1 ? s : 1) << 4; break;       // ecr
    case 6: selector = (s & 1) ? 0x3232u : 0x1010u; break;                                 // rc16
    default: break;
    }
    u32 result = 0;
    for (int k = 0; k < 4; ++k) {
      const u32 nibble = (selector >> (4 * k)) & 15;
      u32 byte = static_cast<u32>(bytes >> (8 * (nibble & 7))) & 0xff;
      if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
      result |= byte << (8 * k);
    }
    d[l] = result;
  });
}
static void find_nth_set(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* base = lanes_of<u32>(r, i.s[1]);
  const s32* n = lanes_of<s32>(r, i.s[2]);
  for_each_lane(mask, [&](int l) {
    d[l] = 0xffffffffu;
    s32 left = n[l];
    const int step = left < 0 ? -1 : 1;
    if (left == 0) {
      if ((a[l] >> (base[l] & 31)) & 1) d[l] = base[l];
      return;
    }
    left = left < 0 ? -left : left;
    for (int bit = static_cast<int>(base[l] & 31); bit >= 0 && bit < 32; bit += step) {
      if (((a[l] >> bit) & 1) && --left == 0) {
        d[l] = static_cast<u32>(bit);
        return;
      }
    }
  });
}
static void bit_mask(u8* r, const Instruction& i, u32 mask) {  // bmsk; variant 1: wrap, 0: clamp
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1]);
  for_each_lane(mask, [&](int l) {
    const u32 position = i.variant ? a[l] & 31 : (a[l] < 32 ? a[l] : 32);
    const u32 length = i.variant ? b[l] & 31 : (b[l] < 32 ? b[l] : 32);
    const u64 ones = (u64{1} << length) - 1;
    d[l] = static_cast<u32>(ones << position);
  });
}
template <class T>
static void dot4(u8* r, const Instruction& i,
                 u32 mask) {  // variant: bit 0 a signed, bit 1 b signed
  T* d = lanes_of<T>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1]);
  const T* c = lanes_of<T>(r, i.s[2]);
  for_each_lane(mask, [&](int l) {
    u32 sum = static_cast<u32>(c[l]);
    for (int k = 0; k < 4; ++k) {
      const u32 x = (a[l] >> (8 * k)) & 0xff, y = (b[l] >> (8 * k)) & 0xff;
      const s32 xs = i.variant & 1 ? static_cast<s8>(x) : static_cast<s32>(x);
      const s32 ys = i.variant & 2 ? static_cast<s8>(y) : static_cast<s32>(y);
      sum += static_cast<u32>(xs * ys);
    }
    d[l] = static_cast<T>(sum);
  });
}

// ---- carry chains: one carry bit a lane, in the register d[1] / s[3]
// -----------------------------
template <class T, bool kSubtract, bool kCarryIn, bool kCarryOut>
static void add_with_carry(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  u32& carry = predicate_at(r, i.s[3]);
  u32 out = carry;
  for_each_lane(mask, [&](int l) {
    const unsigned __int128 in = kCarryIn ? (carry >> l) & 1 : 0;
    const unsigned __int128 wide = kSubtract ? static_cast<unsigned __int128>(a[l]) - b[l] - in
                                             : static_cast<unsigned __int128>(a[l]) + b[l] + in;
    d[l] = static_cast<T>(wide);
    const u32 bit = static_cast<u32>(wide >> (8 * sizeof(T))) & 1;
    out = (out & ~(1u << l)) | bit << l;
  });
  if (kCarryOut) carry = out;
}
template <class T, bool kHigh, bool kCarryIn, bool kCarryOut>
static void mad_with_carry(u8* r, const Instruction& i, u32 mask) {
  T* d = lanes_of<T>(r, i.d[0]);
  const T* a = lanes_of<T>(r, i.s[0]);
  const T* b = lanes_of<T>(r, i.s[1]);
  const T* c = lanes_of<T>(r, i.s[2]);
  u32& carry = predicate_at(r, i.s[3]);
  u32 out = carry;
  for_each_lane(mask, [&](int l) {
    const T product = kHigh ? MultiplyHigh::apply(a[l], b[l]) : static_cast<T>(a[l] * b[l]);
    const unsigned __int128 wide =
        static_cast<unsigned __int128>(product) + c[l] + (kCarryIn ? (carry >> l) & 1 : 0);
    d[l] = static_cast<T>(wide);
    out = (out & ~(1u << l)) | (static_cast<u32>(wide >> (8 * sizeof(T))) & 1) << l;
  });
  if (kCarryOut) carry = out;
}
template <bool kSubtract>
static void saturated_s32(u8* r, const Instruction& i, u32 mask) {
  s32* d = lanes_of<s32>(r, i.d[0]);
  const s32* a = lanes_of<s32>(r, i.s[0]);
  const s32* b = lanes_of<s32>(r, i.s[1]);
  for_each_lane(mask, [&](int l) {
    const s64 wide = kSubtract ? s64{a[l]} - b[l] : s64{a[l]} + b[l];
    d[l] = static_cast<s32>(wide > 2147483647      ? 2147483647
                            : wide < -2147483648LL ? -2147483648LL
                                                   : wide);
  });
}

// ---- vectors in registers -----------------------------------------------------------------------
template <class D, class E>
static void pack(u8* r, const Instruction& i, u32 mask) {
  constexpr int kCount = sizeof(D) / sizeof(E);
  D* d = lanes_of<D>(r, i.d[0]);
  const E* e[kCount];
  for (int k = 0; k < kCount; ++k) e[k] = lanes_of<E>(r, i.s[k]);
  for_each_lane(mask, [&](int l) {
    D value = 0;
    for (int k = 0; k < kCount; ++k) value |= static_cast<D>(e[k][l]) << (8 * sizeof(E) * k);
    d[l] = value;
  });
}
template <class D, class E>
static void unpack(u8* r, const Instruction& i, u32 mask) {
  constexpr int kCount = sizeof(D) / sizeof(E);
  alignas(64) D source[32];
  std::memcpy(source, r + i.s[0], sizeof source);  // a destination may be the source itself
  for (int k = 0; k < kCount; ++k) {
    if (i.d[k] < 0) continue;
    E* e = lanes_of<E>(r, i.d[k]);
    for_each_lane(mask, [&](int l) { e[l] = static_cast<E>(source[l] >> (8 * sizeof(E) * k)); });
  }
}

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
