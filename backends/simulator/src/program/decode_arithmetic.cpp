// SPDX-License-Identifier: Apache-2.0
// Integer and floating-point arithmetic. PTX ISA, "Integer Arithmetic", "Extended-Precision",
// "Floating-Point" and "Half Precision" instructions.
#include "program/decoder.hpp"

namespace faultline::simulator {

using ptx::Scalar;

bool Decoder::decode_add_sub() {
  const bool subtract = is_op("sub");
  const auto type = mods_.take_last_type();
  if (!type) return false;
  if (mods_.take("cc")) {
    out_.s[3] = carry_;
    const bool ok = plain_operands(*type, 2);
    return ok && compute({.op = subtract ? ComputeOp::subtract_carry_out : ComputeOp::add_carry_out,
                          .type = *type});
  }
  out_.mode = take_float_mode();
  if (!plain_operands(*type, 2)) return false;
  if (!ptx::is_float(*type)) {
    if (out_.mode.saturate) {
      return *type == Scalar::s32 &&
             compute({.op = subtract ? ComputeOp::subtract_saturated : ComputeOp::add_saturated,
                      .type = *type});
    }
    if (!out_.mode.is_plain()) return false;
  }
  return compute(
      {.op = subtract ? ComputeOp::subtract : ComputeOp::add, .type = *type, .mode = out_.mode});
}

bool Decoder::decode_carry() {
  const auto type = mods_.take_last_type();
  const bool carry_out = mods_.take("cc");
  if (!type || ptx::is_float(*type) || ptx::bytes_of(*type) < 4 || !plain_operands(*type, 2))
    return false;
  out_.s[3] = carry_;
  return compute({.op = is_op("subc") ? ComputeOp::subtract_carry_in : ComputeOp::add_carry_in,
                  .type = *type,
                  .integer_saturate = carry_out});
}

bool Decoder::decode_mul() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  if (ptx::is_float(*type)) {
    out_.mode = take_float_mode();
    return plain_operands(*type, 2) &&
           compute({.op = ComputeOp::multiply, .type = *type, .mode = out_.mode});
  }
  const std::string_view part = mods_.take_any({"lo", "hi", "wide"});
  if (part == "wide") {
    return plain_operands(*type, 2, 2 * ptx::bytes_of(*type)) &&
           compute({.op = ComputeOp::multiply_wide, .type = *type});
  }
  if (part.empty() || !plain_operands(*type, 2)) return false;
  return compute(
      {.op = part == "hi" ? ComputeOp::multiply_high : ComputeOp::multiply_low, .type = *type});
}

bool Decoder::decode_mul24() {
  const auto type = mods_.take_last_type();
  if (!type || !mods_.take("lo") || (*type != Scalar::u32 && *type != Scalar::s32)) return false;
  const bool mad = is_op("mad24");
  return plain_operands(*type, mad ? 3 : 2) &&
         compute({.op = mad ? ComputeOp::mad24 : ComputeOp::multiply24, .type = *type});
}

bool Decoder::decode_mad() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  if (ptx::is_float(*type)) {
    if (is_op("madc") || (*type != Scalar::f32 && *type != Scalar::f64)) return false;
    out_.mode = take_float_mode();
    return plain_operands(*type, 3) &&
           compute({.op = ComputeOp::fused_multiply_add, .type = *type, .mode = out_.mode});
  }
  const std::string_view part = mods_.take_any({"lo", "hi", "wide"});
  const bool carry_in = is_op("madc");
  const bool carry_out = mods_.take("cc");
  if (part == "wide") {
    if (carry_in || carry_out || operand_count() != 4) return false;
    const int bytes = ptx::bytes_of(*type);
    const auto d = destination(operand(0), 2 * bytes);
    const auto a = source(operand(1), *type);
    const auto b = source(operand(2), *type);
    const auto c = source(operand(3), bytes == 2 ? Scalar::b32 : Scalar::b64);
    if (!d || !a || !b || !c) return false;
    out_.d[0] = *d;
    out_.s = {*a, *b, *c, kNoRegister, kNoRegister, kNoRegister, kNoRegister, kNoRegister};
    return compute({.op = ComputeOp::mad_wide, .type = *type});
  }
  if (part.empty() || !plain_operands(*type, 3)) return false;
  if (carry_in || carry_out) {
    if (ptx::bytes_of(*type) < 4) return false;
    out_.s[3] = carry_;
    return compute({.op = carry_in ? ComputeOp::mad_carry_in : ComputeOp::mad_carry_out,
                    .type = *type,
                    .source_width = part == "hi" ? 1 : 0,
                    .integer_saturate = carry_out});
  }
  return compute({.op = part == "hi" ? ComputeOp::mad_high : ComputeOp::mad_low, .type = *type});
}

bool Decoder::decode_plain_ternary() {
  const auto type = mods_.take_last_type();
  return type && plain_operands(*type, 3) && compute({.op = ComputeOp::sad, .type = *type});
}

bool Decoder::decode_fma() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  out_.mode = take_float_mode();
  if (ptx::bytes_of(*type) != 8 && *type != Scalar::f32 &&
      out_.mode.rounding != Rounding::nearest_even)
    return false;
  return plain_operands(*type, 3) &&
         compute({.op = ComputeOp::fused_multiply_add, .type = *type, .mode = out_.mode});
}

bool Decoder::decode_div() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  if (!ptx::is_float(*type))
    return plain_operands(*type, 2) && compute({.op = ComputeOp::divide, .type = *type});
  const bool approximate = mods_.take("approx") || mods_.take("full");
  out_.mode = take_float_mode();
  if (*type != Scalar::f32 && *type != Scalar::f64) return false;
  return plain_operands(*type, 2) &&
         compute({.op = approximate ? ComputeOp::divide_approximate : ComputeOp::divide,
                  .type = *type,
                  .mode = out_.mode});
}

bool Decoder::decode_rem() {
  const auto type = mods_.take_last_type();
  return type && !ptx::is_float(*type) && plain_operands(*type, 2) &&
         compute({.op = ComputeOp::remainder, .type = *type});
}

bool Decoder::decode_sign() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  out_.mode.flush_subnormals = mods_.take("ftz");
  return plain_operands(*type, 1) &&
         compute({.op = is_op("abs") ? ComputeOp::absolute : ComputeOp::negate,
                  .type = *type,
                  .mode = out_.mode});
}

bool Decoder::decode_extremum() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  out_.mode = take_float_mode();
  if (mods_.take("xorsign") && mods_.take("abs")) return false;  // |a| vs |b|: not modelled yet
  const auto op = is_op("min") ? ComputeOp::minimum : ComputeOp::maximum;
  if (ptx::is_float(*type) && operand_count() == 4)
    return false;  // three-input form of later targets
  if (!ptx::is_float(*type) && out_.mode.relu) return false;
  return plain_operands(*type, 2) && compute({.op = op, .type = *type, .mode = out_.mode});
}

bool Decoder::decode_sqrt() {
  const auto type = mods_.take_last_type();
  const bool approximate = mods_.take("approx");
  out_.mode = take_float_mode();
  if (!type || (*type != Scalar::f32 && *type != Scalar::f64)) return false;
  return plain_operands(*type, 1) &&
         compute({.op = approximate ? ComputeOp::sqrt_approximate : ComputeOp::square_root,
                  .type = *type,
                  .mode = out_.mode});
}

bool Decoder::decode_rcp() {
  const auto type = mods_.take_last_type();
  const bool approximate = mods_.take("approx");
  out_.mode = take_float_mode();
  if (!type || (*type != Scalar::f32 && *type != Scalar::f64)) return false;
  const bool as_f32 = approximate && *type == Scalar::f32;
  return plain_operands(*type, 1) &&
         compute({.op = as_f32 ? ComputeOp::reciprocal_approximate : ComputeOp::reciprocal,
                  .type = *type,
                  .mode = out_.mode});
}

bool Decoder::decode_approximate() {
  const auto type = mods_.take_last_type();
  if (!type || !mods_.take("approx")) return false;
  out_.mode.flush_subnormals = mods_.take("ftz");
  if (*type != Scalar::f32 && *type != Scalar::f64 && !is_op("ex2") && !is_op("tanh")) return false;
  ComputeOp op = ComputeOp::ex2;
  if (is_op("lg2")) op = ComputeOp::lg2;
  if (is_op("sin")) op = ComputeOp::sine;
  if (is_op("cos")) op = ComputeOp::cosine;
  if (is_op("tanh")) op = ComputeOp::tanh;
  if (is_op("rsqrt")) op = ComputeOp::rsqrt_approximate;
  if (*type == Scalar::f64 && op != ComputeOp::rsqrt_approximate) return false;
  return plain_operands(*type, 1) && compute({.op = op, .type = *type, .mode = out_.mode});
}

bool Decoder::decode_copysign() {
  const auto type = mods_.take_last_type();
  return type && (*type == Scalar::f32 || *type == Scalar::f64) && plain_operands(*type, 2) &&
         compute({.op = ComputeOp::copysign, .type = *type});
}

bool Decoder::decode_testp() {
  constexpr std::string_view kClasses[] = {"finite",     "infinite", "number",
                                           "notanumber", "normal",   "subnormal"};
  const auto type = mods_.take_last_type();
  if (!type || (*type != Scalar::f32 && *type != Scalar::f64) || operand_count() != 2) return false;
  for (std::uint32_t k = 0; k < 6; ++k) {
    if (!mods_.take(kClasses[k])) continue;
    out_.variant = k;
    const auto d = destination(operand(0), 0);
    const auto a = source(operand(1), *type);
    if (!d || !a) return false;
    out_.d[0] = *d;
    out_.s[0] = *a;
    return compute({.op = ComputeOp::test_class, .type = *type});
  }
  return false;
}

}  // namespace faultline::simulator
