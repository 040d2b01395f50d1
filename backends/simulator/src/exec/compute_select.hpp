// SPDX-License-Identifier: Apache-2.0
// ComputeKey -> handler, for one instruction set.
#pragma once

#include "exec/compute_convert.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

using ptx::Scalar;

template <class Op>
static ComputeHandler integer_binary(Scalar type) {
  switch (type) {
  case Scalar::u16:
  case Scalar::b16: return binary<u16, Op>;
  case Scalar::s16: return binary<s16, Op>;
  case Scalar::u32:
  case Scalar::b32: return binary<u32, Op>;
  case Scalar::s32: return binary<s32, Op>;
  case Scalar::u64:
  case Scalar::b64: return binary<u64, Op>;
  case Scalar::s64: return binary<s64, Op>;
  default: return nullptr;
  }
}
// Where the sign does not matter, signed types use the unsigned handler: overflow wraps.
static Scalar as_unsigned(Scalar type) {
  switch (type) {
  case Scalar::s16: return Scalar::u16;
  case Scalar::s32: return Scalar::u32;
  case Scalar::s64: return Scalar::u64;
  default: return type;
  }
}
template <class Op>
static ComputeHandler integer_ternary(Scalar type) {
  switch (type) {
  case Scalar::u16:
  case Scalar::b16: return ternary<u16, Op>;
  case Scalar::s16: return ternary<s16, Op>;
  case Scalar::u32:
  case Scalar::b32: return ternary<u32, Op>;
  case Scalar::s32: return ternary<s32, Op>;
  case Scalar::u64:
  case Scalar::b64: return ternary<u64, Op>;
  case Scalar::s64: return ternary<s64, Op>;
  default: return nullptr;
  }
}
template <class Op>
static ComputeHandler bits_unary(Scalar type) {
  switch (ptx::bytes_of(type)) {
  case 2: return unary_raw<u16, Op>;
  case 4: return unary_raw<u32, Op>;
  case 8: return unary_raw<u64, Op>;
  default: return nullptr;
  }
}
template <class Op>
static ComputeHandler signed_unary(Scalar type) {
  switch (type) {
  case Scalar::s16: return unary_raw<s16, Op>;
  case Scalar::s32: return unary_raw<s32, Op>;
  case Scalar::s64: return unary_raw<s64, Op>;
  case Scalar::f32: return unary_raw<float, Op>;
  case Scalar::f64: return unary_raw<double, Op>;
  default: return nullptr;
  }
}
template <HalfOp kOp>
static ComputeHandler half_handler(Scalar type) {
  switch (type) {
  case Scalar::f16: return half_scalar<HalfType, kOp>;
  case Scalar::bf16: return half_scalar<Bfloat16Type, kOp>;
  case Scalar::f16x2: return half_packed<HalfType, kOp>;
  case Scalar::bf16x2: return half_packed<Bfloat16Type, kOp>;
  default: return nullptr;
  }
}
template <class Op, FloatOperation kOperation, HalfOp kHalfOp>
static ComputeHandler arithmetic(const ComputeKey& key) {
  const bool plain = key.mode.is_plain();
  if (key.type == Scalar::f32)
    return plain ? binary<float, Op> : float_general<float, kOperation, Op>;
  if (key.type == Scalar::f64)
    return plain ? binary<double, Op> : float_general<double, kOperation, Op>;
  if (ptx::is_float(key.type)) return half_handler<kHalfOp>(key.type);
  return integer_binary<Op>(as_unsigned(key.type));
}
template <class Op, HalfOp kHalfOp, bool kMaximum>
static ComputeHandler extremum(const ComputeKey& key) {
  const bool plain = key.mode.is_plain();
  if (key.type == Scalar::f32) return plain ? binary<float, Op> : extremum_general<float, kMaximum>;
  if (key.type == Scalar::f64)
    return plain ? binary<double, Op> : extremum_general<double, kMaximum>;
  if (ptx::is_float(key.type)) return half_handler<kHalfOp>(key.type);
  return plain ? integer_binary<Op>(key.type) : nullptr;
}
template <class Op>
static ComputeHandler special(const ComputeKey& key) {
  if (key.type != Scalar::f32) return nullptr;
  return key.mode.flush_subnormals ? unary_flushed<Op> : unary<float, Op>;
}

template <Comparison kComparison, bool kSet>
static ComputeHandler comparison_of(Scalar type) {
#define FAULTLINE_CHOOSE(T) (kSet ? compare_set<T, kComparison> : compare<T, kComparison>)
  switch (type) {
  case Scalar::u16:
  case Scalar::b16: return FAULTLINE_CHOOSE(u16);
  case Scalar::s16: return FAULTLINE_CHOOSE(s16);
  case Scalar::u32:
  case Scalar::b32: return FAULTLINE_CHOOSE(u32);
  case Scalar::s32: return FAULTLINE_CHOOSE(s32);
  case Scalar::u64:
  case Scalar::b64: return FAULTLINE_CHOOSE(u64);
  case Scalar::s64: return FAULTLINE_CHOOSE(s64);
  case Scalar::f32: return FAULTLINE_CHOOSE(float);
  case Scalar::f64: return FAULTLINE_CHOOSE(double);
  default: return nullptr;
  }
#undef FAULTLINE_CHOOSE
}
template <bool kSet>
static ComputeHandler comparison(const ComputeKey& key) {
  switch (key.comparison) {
  case Comparison::eq: return comparison_of<Comparison::eq, kSet>(key.type);
  case Comparison::ne: return comparison_of<Comparison::ne, kSet>(key.type);
  case Comparison::lt: return comparison_of<Comparison::lt, kSet>(key.type);
  case Comparison::le: return comparison_of<Comparison::le, kSet>(key.type);
  case Comparison::gt: return comparison_of<Comparison::gt, kSet>(key.type);
  case Comparison::ge: return comparison_of<Comparison::ge, kSet>(key.type);
  default: break;
  }
  if (!ptx::is_float(key.type)) return nullptr;
  switch (key.comparison) {
  case Comparison::equ: return comparison_of<Comparison::equ, kSet>(key.type);
  case Comparison::neu: return comparison_of<Comparison::neu, kSet>(key.type);
  case Comparison::ltu: return comparison_of<Comparison::ltu, kSet>(key.type);
  case Comparison::leu: return comparison_of<Comparison::leu, kSet>(key.type);
  case Comparison::gtu: return comparison_of<Comparison::gtu, kSet>(key.type);
  case Comparison::geu: return comparison_of<Comparison::geu, kSet>(key.type);
  case Comparison::num: return comparison_of<Comparison::num, kSet>(key.type);
  case Comparison::nan: return comparison_of<Comparison::nan, kSet>(key.type);
  default: return nullptr;
  }
}

static ComputeHandler convert_handler(const ComputeKey& key) {
  const bool exact_widths =
      key.width == ptx::bytes_of(key.type) && key.source_width == ptx::bytes_of(key.source_type);
  const bool plain = key.mode.is_plain() && !key.integer_saturate && !key.finite_saturate &&
                     key.to_integer == ConvertRounding::none;
  if (exact_widths && plain) {
    const Scalar to = key.type, from = key.source_type;
    if (to == Scalar::f32 && from == Scalar::f16) return convert_f32_from_half;
    if (to == Scalar::f32 && from == Scalar::bf16) return convert_f32_from_bfloat16;
    if (to == Scalar::f16 && from == Scalar::f32) return convert_half_from_f32<HalfType>;
    if (to == Scalar::bf16 && from == Scalar::f32) return convert_half_from_f32<Bfloat16Type>;
    if (to == Scalar::f32 && from == Scalar::s32) return convert_integer<float, s32>;
    if (to == Scalar::f32 && from == Scalar::u32) return convert_integer<float, u32>;
    if (to == Scalar::f64 && from == Scalar::f32) return unary_to_f64;
    const bool to_32 = to == Scalar::u32 || to == Scalar::s32;
    const bool to_64 = to == Scalar::u64 || to == Scalar::s64;
    const bool to_16 = to == Scalar::u16 || to == Scalar::s16;
    if (to_64 && from == Scalar::s32) return convert_integer<s64, s32>;
    if (to_64 && from == Scalar::u32) return convert_integer<u64, u32>;
    if (to_32 && (from == Scalar::u64 || from == Scalar::s64)) return convert_integer<u32, u64>;
    if (to_32 && from == Scalar::u16) return convert_integer<u32, u16>;
    if (to_32 && from == Scalar::s16) return convert_integer<s32, s16>;
    if (to_16 && (from == Scalar::u32 || from == Scalar::s32)) return convert_integer<u16, u32>;
  }
  return convert_general;
}

static ComputeHandler pack_handler(const ComputeKey& key, bool packing) {
  const int whole = ptx::bytes_of(key.type), part = ptx::bytes_of(key.source_type);
  if (whole == 4 && part == 2) return packing ? pack<u32, u16> : unpack<u32, u16>;
  if (whole == 8 && part == 4) return packing ? pack<u64, u32> : unpack<u64, u32>;
  if (whole == 8 && part == 2) return packing ? pack<u64, u16> : unpack<u64, u16>;
  return nullptr;
}

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
