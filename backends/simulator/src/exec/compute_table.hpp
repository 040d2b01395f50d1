// SPDX-License-Identifier: Apache-2.0
// The big switch of one instruction set. Included by exactly two sources, see compute_key.hpp.
#pragma once

#include "exec/compute_select.hpp"

namespace faultline::simulator {
namespace FAULTLINE_ISA {

static ComputeHandler select_bits(const ComputeKey& key) {
  const int bytes = ptx::bytes_of(key.type);
  switch (key.op) {
  case ComputeOp::move: return bits_unary<Move>(key.type);
  case ComputeOp::move_predicate: return predicate_logic<4>;
  case ComputeOp::predicate_and: return predicate_logic<0>;
  case ComputeOp::predicate_or: return predicate_logic<1>;
  case ComputeOp::predicate_xor: return predicate_logic<2>;
  case ComputeOp::predicate_not: return predicate_logic<3>;
  case ComputeOp::pack: return pack_handler(key, true);
  case ComputeOp::unpack: return pack_handler(key, false);
  case ComputeOp::bit_and: return integer_binary<And>(key.type);
  case ComputeOp::bit_or: return integer_binary<Or>(key.type);
  case ComputeOp::bit_xor: return integer_binary<Xor>(key.type);
  case ComputeOp::bit_not: return bits_unary<Not>(key.type);
  case ComputeOp::logical_not: return bits_unary<LogicalNot>(key.type);
  case ComputeOp::lop3: return lop3;
  case ComputeOp::shift_left:
    return bytes == 2   ? shift<u16, ShiftLeft>
           : bytes == 4 ? shift<u32, ShiftLeft>
                        : shift<u64, ShiftLeft>;
  case ComputeOp::shift_right:
    switch (key.type) {
    case Scalar::s16: return shift<s16, ShiftRight>;
    case Scalar::s32: return shift<s32, ShiftRight>;
    case Scalar::s64: return shift<s64, ShiftRight>;
    default:
      return bytes == 2   ? shift<u16, ShiftRight>
             : bytes == 4 ? shift<u32, ShiftRight>
                          : shift<u64, ShiftRight>;
    }
  case ComputeOp::funnel_left: return funnel<true>;
  case ComputeOp::funnel_right: return funnel<false>;
  case ComputeOp::permute: return permute;
  case ComputeOp::extract:
    switch (key.type) {
    case Scalar::u32: return extract<u32>;
    case Scalar::s32: return extract<s32>;
    case Scalar::u64: return extract<u64>;
    case Scalar::s64: return extract<s64>;
    default: return nullptr;
    }
  case ComputeOp::insert: return bytes == 4 ? insert<u32> : bytes == 8 ? insert<u64> : nullptr;
  case ComputeOp::find_leading: {
    const bool amount = key.integer_saturate;  // .shiftamt
    switch (key.type) {
    case Scalar::u32:
      return amount ? unary_to_u32<u32, FindLeading<true>> : unary_to_u32<u32, FindLeading<false>>;
    case Scalar::s32:
      return amount ? unary_to_u32<s32, FindLeading<true>> : unary_to_u32<s32, FindLeading<false>>;
    case Scalar::u64:
      return amount ? unary_to_u32<u64, FindLeading<true>> : unary_to_u32<u64, FindLeading<false>>;
    case Scalar::s64:
      return amount ? unary_to_u32<s64, FindLeading<true>> : unary_to_u32<s64, FindLeading<false>>;
    default: return nullptr;
    }
  }
  case ComputeOp::popcount:
    return bytes == 4 ? unary_to_u32<u32, Popcount> : unary_to_u32<u64, Popcount>;
  case ComputeOp::count_leading_zeros:
    return bytes == 4 ? unary_to_u32<u32, CountLeadingZeros> : unary_to_u32<u64, CountLeadingZeros>;
  case ComputeOp::reverse_bits:
    return bytes == 4 ? unary_raw<u32, ReverseBits> : unary_raw<u64, ReverseBits>;
  case ComputeOp::find_nth_set: return find_nth_set;
  case ComputeOp::bit_mask: return bit_mask;
  case ComputeOp::dot4: return key.type == Scalar::s32 ? dot4<s32> : dot4<u32>;
  case ComputeOp::select:
    return bytes == 2 ? select<u16> : bytes == 4 ? select<u32> : bytes == 8 ? select<u64> : nullptr;
  case ComputeOp::select_sign:
    if (key.source_type == Scalar::f32)
      return bytes == 4 ? select_sign<u32, float> : select_sign<u64, float>;
    return bytes == 4   ? select_sign<u32, s32>
           : bytes == 8 ? select_sign<u64, s32>
                        : select_sign<u16, s32>;
  case ComputeOp::compare:
    switch (key.type) {
    case Scalar::f16: return half_compare<HalfType, false>;
    case Scalar::bf16: return half_compare<Bfloat16Type, false>;
    case Scalar::f16x2: return half_compare<HalfType, true>;
    case Scalar::bf16x2: return half_compare<Bfloat16Type, true>;
    default: return comparison<false>(key);
    }
  case ComputeOp::compare_set: return comparison<true>(key);
  default: return nullptr;
  }
}

static ComputeHandler select_integer(const ComputeKey& key) {
  const bool wide = ptx::bytes_of(key.type) == 8;
  switch (key.op) {
  case ComputeOp::multiply_low: return integer_binary<Multiply>(as_unsigned(key.type));
  case ComputeOp::multiply_high: return integer_binary<MultiplyHigh>(key.type);
  case ComputeOp::multiply_wide:
    switch (key.type) {
    case Scalar::u16: return multiply_wide<u32, u16>;
    case Scalar::s16: return multiply_wide<s32, s16>;
    case Scalar::u32: return multiply_wide<u64, u32>;
    case Scalar::s32: return multiply_wide<s64, s32>;
    default: return nullptr;
    }
  case ComputeOp::mad_wide:
    switch (key.type) {
    case Scalar::u16: return mad_wide<u32, u16>;
    case Scalar::s16: return mad_wide<u32, s16>;
    case Scalar::u32: return mad_wide<u64, u32>;
    case Scalar::s32: return mad_wide<u64, s32>;
    default: return nullptr;
    }
  case ComputeOp::multiply24:
    return key.type == Scalar::s32 ? binary<s32, Multiply24> : binary<u32, Multiply24>;
  case ComputeOp::mad24: return key.type == Scalar::s32 ? ternary<s32, Mad24> : ternary<u32, Mad24>;
  case ComputeOp::mad_low: return integer_ternary<MadLow>(as_unsigned(key.type));
  case ComputeOp::mad_high: return integer_ternary<MadHigh>(key.type);
  case ComputeOp::sad: return integer_ternary<Sad>(key.type);
  case ComputeOp::divide:
    if (!ptx::is_float(key.type)) return integer_binary<Divide>(key.type);
    if (key.type == Scalar::f32)
      return key.mode.is_plain() ? binary<float, Divide>
                                 : float_general<float, FloatOperation::divide, Divide>;
    return key.mode.is_plain() ? binary<double, Divide>
                               : float_general<double, FloatOperation::divide, Divide>;
  case ComputeOp::remainder: return integer_binary<Remainder>(key.type);
  case ComputeOp::add_saturated: return saturated_s32<false>;
  case ComputeOp::subtract_saturated: return saturated_s32<true>;
  case ComputeOp::add_carry_out:
    return wide ? add_with_carry<u64, false, false, true> : add_with_carry<u32, false, false, true>;
  case ComputeOp::add_carry_in:
    if (key.integer_saturate)
      return wide ? add_with_carry<u64, false, true, true> : add_with_carry<u32, false, true, true>;
    return wide ? add_with_carry<u64, false, true, false> : add_with_carry<u32, false, true, false>;
  case ComputeOp::subtract_carry_out:
    return wide ? add_with_carry<u64, true, false, true> : add_with_carry<u32, true, false, true>;
  case ComputeOp::subtract_carry_in:
    if (key.integer_saturate)
      return wide ? add_with_carry<u64, true, true, true> : add_with_carry<u32, true, true, true>;
    return wide ? add_with_carry<u64, true, true, false> : add_with_carry<u32, true, true, false>;
  case ComputeOp::mad_carry_out:  // source_width 1: .hi
    if (key.source_width)
      return wide ? mad_with_carry<u64, true, false, true> : mad_with_carry<u32, true, false, true>;
    return wide ? mad_with_carry<u64, false, false, true> : mad_with_carry<u32, false, false, true>;
  case ComputeOp::mad_carry_in:
    if (key.source_width) {
      if (key.integer_saturate)
        return wide ? mad_with_carry<u64, true, true, true> : mad_with_carry<u32, true, true, true>;
      return wide ? mad_with_carry<u64, true, true, false> : mad_with_carry<u32, true, true, false>;
    }
    if (key.integer_saturate)
      return wide ? mad_with_carry<u64, false, true, true> : mad_with_carry<u32, false, true, true>;
    return wide ? mad_with_carry<u64, false, true, false> : mad_with_carry<u32, false, true, false>;
  default: return nullptr;
  }
}

static ComputeHandler select_float(const ComputeKey& key) {
  const bool plain = key.mode.is_plain();
  switch (key.op) {
  case ComputeOp::add: return arithmetic<Add, FloatOperation::add, HalfOp::add>(key);
  case ComputeOp::subtract:
    return arithmetic<Subtract, FloatOperation::subtract, HalfOp::subtract>(key);
  case ComputeOp::multiply:
    return ptx::is_float(key.type)
               ? arithmetic<Multiply, FloatOperation::multiply, HalfOp::multiply>(key)
               : nullptr;
  case ComputeOp::minimum: return extremum<Minimum, HalfOp::minimum, false>(key);
  case ComputeOp::maximum: return extremum<Maximum, HalfOp::maximum, true>(key);
  case ComputeOp::negate:
    if (key.type == Scalar::f32 && key.mode.flush_subnormals) return unary_flushed<Negate>;
    if (auto half = half_handler<HalfOp::negate>(key.type)) return half;
    return signed_unary<Negate>(key.type);
  case ComputeOp::absolute:
    if (key.type == Scalar::f32 && key.mode.flush_subnormals) return unary_flushed<Absolute>;
    if (auto half = half_handler<HalfOp::absolute>(key.type)) return half;
    return signed_unary<Absolute>(key.type);
  case ComputeOp::fused_multiply_add:
    if (key.type == Scalar::f32)
      return plain ? ternary<float, FusedMultiplyAdd>
                   : float_general<float, FloatOperation::multiply_add, FusedMultiplyAdd>;
    if (key.type == Scalar::f64)
      return plain ? ternary<double, FusedMultiplyAdd>
                   : float_general<double, FloatOperation::multiply_add, FusedMultiplyAdd>;
    return half_handler<HalfOp::fma>(key.type);
  case ComputeOp::square_root:
    if (key.type == Scalar::f32)
      return plain ? unary<float, SquareRoot>
                   : float_general<float, FloatOperation::square_root, SquareRoot>;
    if (key.type == Scalar::f64)
      return plain ? unary<double, SquareRoot>
                   : float_general<double, FloatOperation::square_root, SquareRoot>;
    return nullptr;
  case ComputeOp::reciprocal:
    if (key.type == Scalar::f32)
      return plain ? unary<float, Reciprocal> : reciprocal_general<float>;
    if (key.type == Scalar::f64)
      return plain ? unary<double, Reciprocal> : reciprocal_general<double>;
    return nullptr;
  case ComputeOp::ex2:
    if (key.type == Scalar::f32) return special<Ex2>(key);
    return half_handler<HalfOp::ex2>(key.type);
  case ComputeOp::copysign:
    return key.type == Scalar::f32 ? binary<float, CopySign> : binary<double, CopySign>;
  case ComputeOp::test_class:
    return key.type == Scalar::f32 ? test_class<float> : test_class<double>;
  case ComputeOp::tanh:
    if (key.type == Scalar::f32) return special<Tanh>(key);
    return half_handler<HalfOp::tanh>(key.type);
  case ComputeOp::lg2: return special<Lg2>(key);
  case ComputeOp::sine: return special<Sine>(key);
  case ComputeOp::cosine: return special<Cosine>(key);
  case ComputeOp::reciprocal_approximate: return special<ReciprocalApproximate>(key);
  case ComputeOp::rsqrt_approximate:
    return key.type == Scalar::f64 ? unary<double, RsqrtApproximate>
                                   : special<RsqrtApproximate>(key);
  case ComputeOp::sqrt_approximate: return special<SquareRoot>(key);
  case ComputeOp::divide_approximate:
    if (key.type != Scalar::f32) return nullptr;
    return key.mode.flush_subnormals ? binary_flushed<DivideApproximate>
                                     : binary<float, DivideApproximate>;
  case ComputeOp::convert: return convert_handler(key);
  case ComputeOp::convert_pack: {
    const bool simple = plain && !key.finite_saturate;
    if (key.type == Scalar::f16x2)
      return simple ? convert_packed<HalfType> : convert_packed_general<HalfType>;
    if (key.type == Scalar::bf16x2)
      return simple ? convert_packed<Bfloat16Type> : convert_packed_general<Bfloat16Type>;
    return nullptr;
  }
  default: return nullptr;
  }
}

ComputeHandler select_compute(const ComputeKey& key) {
  if (ComputeHandler handler = select_bits(key)) return handler;
  if (ComputeHandler handler = select_integer(key)) return handler;
  return select_float(key);
}

}  // namespace FAULTLINE_ISA
}  // namespace faultline::simulator
