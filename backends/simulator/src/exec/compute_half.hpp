// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and their packed forms. PTX ISA, "Half Precision Floating-Point Instructions".
// Sums, products and quotients are taken in f32 and rounded once more: with 24 >= 2p + 2 bits that
// equals one rounding. fma goes through a double rounded to odd.
#pragma once

#include "exec/compute_handlers.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

struct HalfType {
  static constexpr FloatFormat kFormat = kHalf;
  static float widen(u16 x) { return from_half(x); }
  static u16 narrow(float x) { return to_half(x); }
};
struct Bfloat16Type {
  static constexpr FloatFormat kFormat = kBfloat16;
  static float widen(u16 x) { return from_bfloat16(x); }
  static u16 narrow(float x) { return to_bfloat16(x); }
};

enum class HalfOp : u8 {
  add,
  subtract,
  multiply,
  fma,
  minimum,
  maximum,
  negate,
  absolute,
  ex2,
  tanh
};

template <class H>
static inline u16 half_flushed(u16 x) {
  return (x & H::kFormat.infinity()) == 0 ? static_cast<u16>(x & 0x8000u) : x;
}
template <class H>
static inline bool half_is_nan(u16 x) {
  return (x & 0x7fffu) > H::kFormat.infinity();
}

template <class H, HalfOp kOp>
static inline u16 half_apply(u16 a, u16 b, u16 c, FloatMode mode) {
  if constexpr (kOp == HalfOp::negate) return static_cast<u16>(a ^ 0x8000u);
  if constexpr (kOp == HalfOp::absolute) return static_cast<u16>(a & 0x7fffu);
  if (mode.flush_subnormals) {
    a = half_flushed<H>(a);
    b = half_flushed<H>(b);
    c = half_flushed<H>(c);
  }
  const float x = H::widen(a), y = H::widen(b);
  u16 result = 0;
  switch (kOp) {
  case HalfOp::add: result = H::narrow(x + y); break;
  case HalfOp::subtract: result = H::narrow(x - y); break;
  case HalfOp::multiply: result = H::narrow(x * y); break;
  case HalfOp::fma: {
    const double exact = static_cast<double>(x) * static_cast<double>(y);
    result = static_cast<u16>(
        round_to_format(multiply_add_to_odd(exact, static_cast<double>(H::widen(c))), H::kFormat,
                        Rounding::nearest_even));
    break;
  }
  case HalfOp::minimum:
  case HalfOp::maximum: {
    const float value = kOp == HalfOp::minimum ? minimum(x, y) : maximum(x, y);
    result = mode.propagate_nan && (x != x || y != y) ? 0x7fff : H::narrow(value);
    if (mode.xor_sign) result = static_cast<u16>((result & 0x7fff) | ((a ^ b) & 0x8000));
    break;
  }
  case HalfOp::ex2: result = H::narrow(approximate_ex2(x)); break;
  case HalfOp::tanh: result = H::narrow(approximate_tanh(x)); break;
  default: break;
  }
  if (mode.flush_subnormals) result = half_flushed<H>(result);
  if (mode.saturate) result = H::narrow(clamped_01(H::widen(result)));
  if (mode.relu && !half_is_nan<H>(result) && (result & 0x8000u)) result = 0;
  if (half_is_nan<H>(result)) result = 0x7fff;
  return result;
}

template <class H, HalfOp kOp>
static void half_scalar(u8* r, const Instruction& i, u32 mask) {
  u16* d = lanes_of<u16>(r, i.d[0]);
  const u16* a = lanes_of<u16>(r, i.s[0]);
  const u16* b = lanes_of<u16>(r, i.s[1] >= 0 ? i.s[1] : i.s[0]);
  const u16* c = lanes_of<u16>(r, i.s[2] >= 0 ? i.s[2] : i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = half_apply<H, kOp>(a[l], b[l], c[l], i.mode); });
}
template <class H, HalfOp kOp>
static void half_packed(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const u32* a = lanes_of<u32>(r, i.s[0]);
  const u32* b = lanes_of<u32>(r, i.s[1] >= 0 ? i.s[1] : i.s[0]);
  const u32* c = lanes_of<u32>(r, i.s[2] >= 0 ? i.s[2] : i.s[0]);
  for_each_lane(mask, [&](int l) {
    const u32 x = a[l], y = b[l], z = c[l];
    const u32 low =
        half_apply<H, kOp>(static_cast<u16>(x), static_cast<u16>(y), static_cast<u16>(z), i.mode);
    const u32 high = half_apply<H, kOp>(static_cast<u16>(x >> 16), static_cast<u16>(y >> 16),
                                        static_cast<u16>(z >> 16), i.mode);
    d[l] = high << 16 | low;
  });
}

template <class H>
static u32 half_compare_lanes(Comparison comparison, const u16* a, const u16* b, u32 stride,
                              bool flush) {
  u32 bits = 0;
  for (u32 l = 0; l < 32; ++l) {
    u16 p = a[l * stride], q = b[l * stride];
    if (flush) {
      p = half_flushed<H>(p);
      q = half_flushed<H>(q);
    }
    const float x = H::widen(p), y = H::widen(q);
    bool value = false;
    switch (comparison) {
    case Comparison::eq: value = compares<float, Comparison::eq>(x, y); break;
    case Comparison::ne: value = compares<float, Comparison::ne>(x, y); break;
    case Comparison::lt: value = x < y; break;
    case Comparison::le: value = x <= y; break;
    case Comparison::gt: value = x > y; break;
    case Comparison::ge: value = x >= y; break;
    case Comparison::equ: value = compares<float, Comparison::equ>(x, y); break;
    case Comparison::neu: value = !(x == y); break;
    case Comparison::ltu: value = !(x >= y); break;
    case Comparison::leu: value = !(x > y); break;
    case Comparison::gtu: value = !(x <= y); break;
    case Comparison::geu: value = !(x < y); break;
    case Comparison::num: value = x == x && y == y; break;
    case Comparison::nan: value = x != x || y != y; break;
    }
    bits |= static_cast<u32>(value) << l;
  }
  return bits;
}
// extra: the comparison. The packed form writes the low halves to d[0] and the high ones to d[1].
template <class H, bool kPacked>
static void half_compare(u8* r, const Instruction& i, u32 mask) {
  const auto comparison = static_cast<Comparison>(i.extra);
  const u16* a = lanes_of<u16>(r, i.s[0]);
  const u16* b = lanes_of<u16>(r, i.s[1]);
  const bool flush = i.mode.flush_subnormals;
  const u32 low = half_compare_lanes<H>(comparison, a, b, kPacked ? 2 : 1, flush);
  const u32 first = combined(r, i, low);
  u32 second = 0;
  if (i.d[1] >= 0) {
    second =
        combined(r, i, kPacked ? half_compare_lanes<H>(comparison, a + 1, b + 1, 2, flush) : ~low);
  }
  if (i.d[0] >= 0) assign(predicate_at(r, i.d[0]), mask, first);
  if (i.d[1] >= 0) assign(predicate_at(r, i.d[1]), mask, second);
}

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
