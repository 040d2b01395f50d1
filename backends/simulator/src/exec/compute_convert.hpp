// SPDX-License-Identifier: Apache-2.0
// cvt. PTX ISA, "Data Movement and Conversion Instructions: cvt". Common conversions have their own
// loops; the rest goes lane by lane through a general form that reads its parameters at run time.
#pragma once

#include "exec/compute_half.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

template <class D, class S>
static void convert_integer(u8* r, const Instruction& i, u32 mask) {
  D* d = lanes_of<D>(r, i.d[0]);
  const S* a = lanes_of<S>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = static_cast<D>(a[l]); });
}
static void unary_to_f64(u8* r, const Instruction& i, u32 mask) {
  double* d = lanes_of<double>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = canonical(static_cast<double>(a[l])); });
}
static void convert_f32_from_half(u8* r, const Instruction& i, u32 mask) {
  float* d = lanes_of<float>(r, i.d[0]);
  const u16* a = lanes_of<u16>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = from_half(a[l]); });
}
static void convert_f32_from_bfloat16(u8* r, const Instruction& i, u32 mask) {
  float* d = lanes_of<float>(r, i.d[0]);
  const u16* a = lanes_of<u16>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = from_bfloat16(a[l]); });
}
template <class H>
static void convert_half_from_f32(u8* r, const Instruction& i, u32 mask) {
  u16* d = lanes_of<u16>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  for_each_lane(mask, [&](int l) { d[l] = H::narrow(a[l]); });
}
// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
template <class H>
static void convert_packed(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  const float* b = lanes_of<float>(r, i.s[1]);
  for_each_lane(mask,
                [&](int l) { d[l] = static_cast<u32>(H::narrow(a[l])) << 16 | H::narrow(b[l]); });
}
template <class H>
static void convert_packed_general(u8* r, const Instruction& i, u32 mask) {
  u32* d = lanes_of<u32>(r, i.d[0]);
  const float* a = lanes_of<float>(r, i.s[0]);
  const float* b = lanes_of<float>(r, i.s[1]);
  const auto one = [&](float x) {
    auto bits =
        static_cast<u32>(round_to_format(static_cast<double>(x), H::kFormat, i.mode.rounding));
    const u32 magnitude = bits & 0x7fffu;
    if (i.variant && magnitude == H::kFormat.infinity())
      bits = (bits & 0x8000u) | static_cast<u32>(H::kFormat.largest());
    if (i.mode.relu && magnitude <= H::kFormat.infinity() && (bits & 0x8000u)) bits = 0;
    return bits;
  };
  for_each_lane(mask, [&](int l) { d[l] = one(a[l]) << 16 | one(b[l]); });
}

// Parameters of the general form, packed into Instruction::variant.
struct ConvertParameters {
  ptx::Scalar to, from;
  ConvertRounding to_integer;
  bool integer_saturate, finite_saturate;
  int to_width, from_width;
};
static inline ConvertParameters unpack_parameters(u32 v) {
  return {static_cast<ptx::Scalar>(v & 31),
          static_cast<ptx::Scalar>((v >> 5) & 31),
          static_cast<ConvertRounding>((v >> 10) & 7),
          ((v >> 13) & 1) != 0,
          ((v >> 14) & 1) != 0,
          static_cast<int>((v >> 15) & 15),
          static_cast<int>((v >> 19) & 15)};
}

static inline u64 load_lane(const u8* r, RegisterOffset offset, int width, int lane) {
  u64 value = 0;
  std::memcpy(&value, r + offset + width * lane, static_cast<std::size_t>(width));
  return value;
}
static inline void store_lane(u8* r, RegisterOffset offset, int width, int lane, u64 value) {
  std::memcpy(r + offset + width * lane, &value, static_cast<std::size_t>(width));
}
static inline u64 extended(u64 bits, int bytes, bool is_signed) {
  if (bytes >= 8) return bits;
  const int shift = 64 - 8 * bytes;
  return is_signed ? static_cast<u64>(static_cast<s64>(bits << shift) >> shift)
                   : bits << shift >> shift;
}
static inline double rounded_to_integer(double x, ConvertRounding rounding) {
  switch (rounding) {
  case ConvertRounding::nearest_integer: return __builtin_nearbyint(x);
  case ConvertRounding::zero_integer: return __builtin_trunc(x);
  case ConvertRounding::down_integer: return __builtin_floor(x);
  case ConvertRounding::up_integer: return __builtin_ceil(x);
  case ConvertRounding::none: return x;
  }
  return x;
}

static inline u64 float_to_integer(double x, const ConvertParameters& p) {
  const int bits = 8 * ptx::bytes_of(p.to);
  if (x != x) {
    const bool wide = p.from == ptx::Scalar::f64 || bits == 64;
    return wide ? u64{1} << (bits - 1) : 0;
  }
  x = rounded_to_integer(x, p.to_integer == ConvertRounding::none ? ConvertRounding::zero_integer
                                                                  : p.to_integer);
  if (ptx::is_signed(p.to)) {
    const double limit = bits == 64 ? 0x1p63 : static_cast<double>(s64{1} << (bits - 1));
    if (x >= limit) return static_cast<u64>((u64{1} << (bits - 1)) - 1);
    if (x < -limit) return static_cast<u64>(0) - (u64{1} << (bits - 1));
    return static_cast<u64>(static_cast<s64>(x));
  }
  const double limit = bits == 64 ? 0x1p64 : static_cast<double>(u64{1} << bits);
  if (x >= limit) return bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  return x <= 0 ? 0 : static_cast<u64>(x);
}

static inline u64 integer_to_integer(u64 value, const ConvertParameters& p) {
  if (!p.integer_saturate) return value;
  const int bits = 8 * ptx::bytes_of(p.to);
  const bool from_signed = ptx::is_signed(p.from), to_signed = ptx::is_signed(p.to);
  const s64 sv = static_cast<s64>(value);
  if (to_signed) {
    const s64 high = bits == 64 ? INT64_MAX : (s64{1} << (bits - 1)) - 1;
    const s64 low = -high - 1;
    if (from_signed) return static_cast<u64>(sv > high ? high : sv < low ? low : sv);
    return value > static_cast<u64>(high) ? static_cast<u64>(high) : value;
  }
  const u64 high = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  if (from_signed && sv < 0) return 0;
  return value > high ? high : value;
}

static inline u64 double_to_float(double x, const ConvertParameters& p, FloatMode mode) {
  if (p.to_integer != ConvertRounding::none) x = rounded_to_integer(x, p.to_integer);
  if (mode.saturate) x = x != x ? 0.0 : clamped_01(x);
  if (p.to == ptx::Scalar::f64) return std::bit_cast<u64>(canonical(x));
  const FloatFormat format = p.to == ptx::Scalar::f16    ? kHalf
                             : p.to == ptx::Scalar::bf16 ? kBfloat16
                             : p.to == ptx::Scalar::tf32 ? kTf32
                                                         : kSingle;
  u64 bits = round_to_format(x, format, mode.rounding);
  const u64 magnitude = bits & (format.sign() - 1);
  if (p.finite_saturate && magnitude == format.infinity())
    bits = (bits & format.sign()) | format.largest();
  if (mode.relu && magnitude <= format.infinity() && (bits & format.sign())) bits = 0;
  if (p.to == ptx::Scalar::tf32) bits <<= 13;
  if (p.to == ptx::Scalar::f32 && mode.flush_subnormals && (bits & 0x7f800000u) == 0)
    bits &= 0x80000000u;
  return bits;
}

static inline double integer_to_double_odd(u64 value, bool is_signed) {
  const double x =
      is_signed ? directed_from_signed(Rounding::toward_zero, static_cast<s64>(value), double{})
                : directed_from_unsigned(Rounding::toward_zero, value, double{});
  // Exact below 2^53; above, a sticky last bit keeps the second rounding right.
  const bool negative = is_signed && static_cast<s64>(value) < 0;
  const u64 magnitude = negative ? u64{0} - value : value;
  const double positive = negative ? -x : x;
  if (positive < 0x1p53 || positive >= 0x1p64) return x;
  if (static_cast<u64>(positive) == magnitude) return x;
  return std::bit_cast<double>(std::bit_cast<u64>(x) | 1);
}

static u64 convert_value(u64 raw, const ConvertParameters& p, FloatMode mode) {
  const int from_bytes = ptx::bytes_of(p.from);
  if (!ptx::is_float(p.from)) {
    const u64 value = extended(raw, from_bytes, ptx::is_signed(p.from));
    if (!ptx::is_float(p.to)) return integer_to_integer(value, p);
    if (p.to == ptx::Scalar::f64) {
      return std::bit_cast<u64>(
          ptx::is_signed(p.from)
              ? directed_from_signed(mode.rounding, static_cast<s64>(value), double{})
              : directed_from_unsigned(mode.rounding, value, double{}));
    }
    return double_to_float(integer_to_double_odd(value, ptx::is_signed(p.from)), p, mode);
  }
  double x = 0;
  switch (p.from) {
  case ptx::Scalar::f16: x = static_cast<double>(from_half(static_cast<u16>(raw))); break;
  case ptx::Scalar::bf16: x = static_cast<double>(from_bfloat16(static_cast<u16>(raw))); break;
  case ptx::Scalar::f64: x = std::bit_cast<double>(raw); break;
  default: {
    const float f = float_from_bits(static_cast<u32>(raw));
    x = static_cast<double>(mode.flush_subnormals ? flushed(f) : f);
  }
  }
  if (ptx::is_float(p.to)) return double_to_float(x, p, mode);
  return float_to_integer(x, p);
}

static void convert_general(u8* r, const Instruction& i, u32 mask) {
  const ConvertParameters p = unpack_parameters(i.variant);
  const int to_bytes = ptx::bytes_of(p.to);
  for (u32 rest = mask; rest; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    u64 value = convert_value(load_lane(r, i.s[0], p.from_width, l), p, i.mode);
    if (!ptx::is_float(p.to)) value = extended(value, to_bytes, ptx::is_signed(p.to));
    store_lane(r, i.d[0], p.to_width, l, value);
  }
}

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
