// SPDX-License-Identifier: Apache-2.0
// Bits, comparisons, moves and conversions. PTX ISA, "Logic and Shift", "Comparison and Selection",
// "Data Movement and Conversion" instructions.
#include "exec/effects.hpp"
#include "machine/address.hpp"
#include "program/decoder.hpp"

namespace faultline::simulator {

using ptx::Scalar;

bool Decoder::decode_logic() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  const bool unary = is_op("not") || is_op("cnot");
  if (*type == Scalar::pred) {
    if (is_op("cnot") || operand_count() != (unary ? 2u : 3u)) return false;
    const auto d = destination(operand(0), 0);
    const auto a = source(operand(1), Scalar::pred);
    if (!d || !a) return false;
    out_.d[0] = *d;
    out_.s[0] = *a;
    out_.sign_extend = operand(1).negated;
    if (unary) return compute({.op = ComputeOp::predicate_not});
    const auto b = source(operand(2), Scalar::pred);
    if (!b || operand(2).negated) return false;
    out_.s[1] = *b;
    return compute({.op = is_op("and")  ? ComputeOp::predicate_and
                          : is_op("or") ? ComputeOp::predicate_or
                                        : ComputeOp::predicate_xor});
  }
  ComputeOp op = ComputeOp::bit_and;
  if (is_op("or")) op = ComputeOp::bit_or;
  if (is_op("xor")) op = ComputeOp::bit_xor;
  if (is_op("not")) op = ComputeOp::bit_not;
  if (is_op("cnot")) op = ComputeOp::logical_not;
  return plain_operands(*type, unary ? 1 : 2) && compute({.op = op, .type = *type});
}

bool Decoder::decode_lop3() {
  const auto type = mods_.take_last_type();
  if (!type || *type != Scalar::b32 || operand_count() != 5) return false;
  if (operand(4).kind != ptx::Operand::Kind::immediate) return false;
  const auto d = destination(operand(0), 4);
  if (!d) return false;
  out_.d[0] = *d;
  for (std::size_t k = 0; k < 3; ++k) {
    const auto s = source(operand(k + 1), *type);
    if (!s) return false;
    out_.s[k] = *s;
  }
  out_.variant = static_cast<std::uint32_t>(operand(4).immediate & 0xff);
  return compute({.op = ComputeOp::lop3});
}

bool Decoder::decode_shift() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 3) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto n = source(operand(2), Scalar::u32);
  if (!d || !a || !n) return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *n;
  return compute(
      {.op = is_op("shl") ? ComputeOp::shift_left : ComputeOp::shift_right, .type = *type});
}

bool Decoder::decode_funnel() {
  const auto type = mods_.take_last_type();
  const std::string_view side = mods_.take_any({"l", "r"});
  const std::string_view mode = mods_.take_any({"clamp", "wrap"});
  if (!type || *type != Scalar::b32 || side.empty() || mode.empty() || !plain_operands(*type, 3))
    return false;
  out_.variant = mode == "clamp" ? 1 : 0;
  return compute({.op = side == "l" ? ComputeOp::funnel_left : ComputeOp::funnel_right});
}

bool Decoder::decode_prmt() {
  const auto type = mods_.take_last_type();
  std::string_view mode = mods_.take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  const auto type_before_mode = type ? std::optional<Scalar>{} : mods_.take_last_type();
  if ((!type && !type_before_mode) || !plain_operands(Scalar::b32, 3)) return false;
  constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (std::uint32_t k = 0; k < 7; ++k) {
    if (kModes[k] == mode) out_.variant = k;
  }
  return compute({.op = ComputeOp::permute});
}

bool Decoder::decode_bfe() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 4) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto p = source(operand(2), Scalar::u32);
  const auto n = source(operand(3), Scalar::u32);
  if (!d || !a || !p || !n) return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *p;
  out_.s[2] = *n;
  return compute({.op = ComputeOp::extract, .type = *type});
}

bool Decoder::decode_bfi() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 5) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto b = source(operand(2), *type);
  const auto p = source(operand(3), Scalar::u32);
  const auto n = source(operand(4), Scalar::u32);
  if (!d || !a || !b || !p || !n) return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *b;
  out_.s[2] = *p;
  out_.s[3] = *n;
  return compute({.op = ComputeOp::insert, .type = *type});
}

bool Decoder::decode_bit_count() {
  const auto type = mods_.take_last_type();
  if (!type) return false;
  const bool amount = mods_.take("shiftamt");
  if (is_op("brev"))
    return plain_operands(*type, 1) && compute({.op = ComputeOp::reverse_bits, .type = *type});
  ComputeOp op = ComputeOp::find_leading;
  if (is_op("popc")) op = ComputeOp::popcount;
  if (is_op("clz")) op = ComputeOp::count_leading_zeros;
  return plain_operands(*type, 1, 4) &&
         compute({.op = op, .type = *type, .integer_saturate = amount});
}

bool Decoder::decode_fns() {
  const auto type = mods_.take_last_type();
  return type && plain_operands(Scalar::b32, 3) && compute({.op = ComputeOp::find_nth_set});
}

bool Decoder::decode_bmsk() {
  const auto type = mods_.take_last_type();
  const std::string_view mode = mods_.take_any({"clamp", "wrap"});
  if (!type || mode.empty() || !plain_operands(Scalar::b32, 2)) return false;
  out_.variant = mode == "wrap" ? 1 : 0;
  return compute({.op = ComputeOp::bit_mask});
}

bool Decoder::decode_dp4a() {
  const auto b = mods_.take_last_type();
  const auto a = mods_.take_last_type();
  if (!a || !b || !plain_operands(Scalar::b32, 3)) return false;
  out_.variant = (ptx::is_signed(*a) ? 1u : 0u) | (ptx::is_signed(*b) ? 2u : 0u);
  return compute({.op = ComputeOp::dot4, .type = out_.variant ? Scalar::s32 : Scalar::u32});
}

namespace {

struct ComparisonName {
  std::string_view name;
  Comparison comparison;
};
constexpr ComparisonName kComparisons[] = {
    {"eq", Comparison::eq},   {"ne", Comparison::ne},   {"lt", Comparison::lt},
    {"le", Comparison::le},   {"gt", Comparison::gt},   {"ge", Comparison::ge},
    {"lo", Comparison::lt},   {"ls", Comparison::le},   {"hi", Comparison::gt},
    {"hs", Comparison::ge},   {"equ", Comparison::equ}, {"neu", Comparison::neu},
    {"ltu", Comparison::ltu}, {"leu", Comparison::leu}, {"gtu", Comparison::gtu},
    {"geu", Comparison::geu}, {"num", Comparison::num}, {"nan", Comparison::nan},
};

std::optional<Comparison> take_comparison(Modifiers& mods) {
  for (const ComparisonName& entry : kComparisons) {
    if (mods.take(entry.name)) return entry.comparison;
  }
  return std::nullopt;
}

Combine take_combine(Modifiers& mods) {
  if (mods.take("and")) return Combine::bit_and;
  if (mods.take("or")) return Combine::bit_or;
  if (mods.take("xor")) return Combine::bit_xor;
  return Combine::none;
}

}  // namespace

bool Decoder::decode_setp() {
  const auto type = mods_.take_last_type();
  const auto comparison = take_comparison(mods_);
  const Combine combine = take_combine(mods_);
  out_.mode.flush_subnormals = mods_.take("ftz");
  if (!type || !comparison) return false;
  if (operand_count() != (combine == Combine::none ? 3u : 4u)) return false;
  const ptx::Operand& result = operand(0);
  if (result.kind == ptx::Operand::Kind::reg) {
    const auto d = destination(result, 0);
    if (!d) return false;
    out_.d[0] = *d;
  }
  if (result.second_reg >= 0)
    out_.d[1] = current_->registers[static_cast<std::size_t>(result.second_reg)];
  const auto a = source(operand(1), *type);
  const auto b = source(operand(2), *type);
  if (!a || !b) return false;
  out_.s[0] = *a;
  out_.s[1] = *b;
  if (combine != Combine::none) {
    const auto c = source(operand(3), Scalar::pred);
    if (!c) return false;
    out_.s[2] = *c;
    out_.sign_extend = operand(3).negated;
    out_.variant = static_cast<std::uint32_t>(combine);
  }
  out_.extra = static_cast<std::uint32_t>(*comparison);
  return compute({.op = ComputeOp::compare, .type = *type, .comparison = *comparison});
}

bool Decoder::decode_set() {
  const auto from = mods_.take_last_type();
  const auto to = mods_.take_last_type();
  const auto comparison = take_comparison(mods_);
  const Combine combine = take_combine(mods_);
  out_.mode.flush_subnormals = mods_.take("ftz");
  if (!from || !to || !comparison || combine != Combine::none) return false;
  if (*to != Scalar::u32 && *to != Scalar::s32 && *to != Scalar::f32) return false;
  if (!plain_operands(*from, 2, 4)) return false;
  out_.width = *to == Scalar::f32 ? 1 : 4;
  return compute({.op = ComputeOp::compare_set, .type = *from, .comparison = *comparison});
}

bool Decoder::decode_selp() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 4) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto b = source(operand(2), *type);
  const auto p = source(operand(3), Scalar::pred);
  if (!d || !a || !b || !p) return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *b;
  out_.s[2] = *p;
  out_.sign_extend = operand(3).negated;
  return compute({.op = ComputeOp::select, .type = *type});
}

bool Decoder::decode_slct() {
  const auto selector = mods_.take_last_type();
  const auto type = mods_.take_last_type();
  if (mods_.take("ftz")) return false;
  if (!type || !selector || operand_count() != 4) return false;
  if (*selector != Scalar::s32 && *selector != Scalar::f32) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto b = source(operand(2), *type);
  const auto c = source(operand(3), *selector);
  if (!d || !a || !b || !c) return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *b;
  out_.s[2] = *c;
  return compute({.op = ComputeOp::select_sign, .type = *type, .source_type = *selector});
}

bool Decoder::decode_mov() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 2) return false;
  const int bytes = ptx::bytes_of(*type);
  const ptx::Operand& to = operand(0);
  const ptx::Operand& from = operand(1);
  if (*type == Scalar::pred) {
    const auto d = destination(to, 0);
    const auto a = source(from, Scalar::pred);
    if (!d || !a) return false;
    out_.d[0] = *d;
    out_.s[0] = *a;
    out_.sign_extend = from.negated;
    return compute({.op = ComputeOp::move_predicate});
  }
  const auto element_type = [&](std::size_t count) {
    return bytes / static_cast<int>(count) == 2 ? Scalar::b16 : Scalar::b32;
  };
  if (from.kind == ptx::Operand::Kind::vector) {
    const std::size_t count = from.elements.size();
    if (count < 2 || count > 4 || bytes % static_cast<int>(count) != 0) return false;
    const auto d = destination(to, bytes);
    if (!d) return false;
    out_.d[0] = *d;
    for (std::size_t k = 0; k < count; ++k) {
      const auto s = source(from.elements[k], element_type(count));
      if (!s) return false;
      out_.s[k] = *s;
    }
    return compute({.op = ComputeOp::pack, .type = *type, .source_type = element_type(count)});
  }
  if (to.kind == ptx::Operand::Kind::vector) {
    const std::size_t count = to.elements.size();
    if (count < 2 || count > 4 || bytes % static_cast<int>(count) != 0) return false;
    const auto s = source(from, *type);
    if (!s) return false;
    out_.s[0] = *s;
    for (std::size_t k = 0; k < count; ++k) {
      if (to.elements[k].kind == ptx::Operand::Kind::sink) continue;
      const auto d = destination(to.elements[k], ptx::bytes_of(element_type(count)));
      if (!d) return false;
      out_.d[k] = *d;
    }
    return compute({.op = ComputeOp::unpack, .type = *type, .source_type = element_type(count)});
  }
  const auto d = destination(to, bytes);
  if (!d) return false;
  out_.d[0] = *d;
  if (from.kind == ptx::Operand::Kind::symbol &&
      (from.symbol == "%clock" || from.symbol == "%clock64" || from.symbol == "%clock_hi" ||
       from.symbol == "%globaltimer" || from.symbol == "%globaltimer_lo" ||
       from.symbol == "%globaltimer_hi")) {
    out_.flow = Flow::hidden_effect;
    out_.width = static_cast<std::uint8_t>(bytes);
    out_.variant = from.symbol.ends_with("_hi") ? 1 : 0;
    out_.effect = effects::read_clock();
    return bytes == 4 || bytes == 8;
  }
  const auto s = source(from, *type);
  if (!s) return false;
  out_.s[0] = *s;
  return compute({.op = ComputeOp::move, .type = *type});
}

bool Decoder::decode_cvt() {
  const auto from = mods_.take_last_type();
  const auto to = mods_.take_last_type();
  if (!from || !to) return false;
  ComputeKey key{.op = ComputeOp::convert, .type = *to, .source_type = *from};
  const std::string_view integer = mods_.take_any({"rni", "rzi", "rmi", "rpi"});
  if (integer == "rni") key.to_integer = ConvertRounding::nearest_integer;
  if (integer == "rzi") key.to_integer = ConvertRounding::zero_integer;
  if (integer == "rmi") key.to_integer = ConvertRounding::down_integer;
  if (integer == "rpi") key.to_integer = ConvertRounding::up_integer;
  key.mode = take_float_mode();
  key.finite_saturate = mods_.take("satfinite");
  key.integer_saturate = key.mode.saturate && !ptx::is_float(*to);
  if (key.integer_saturate) key.mode.saturate = false;
  out_.mode = key.mode;
  if (*to == Scalar::f16x2 || *to == Scalar::bf16x2) {
    if (*from != Scalar::f32 || operand_count() != 3 || !plain_operands(*from, 2)) return false;
    key.op = ComputeOp::convert_pack;
    out_.variant = key.finite_saturate ? 1 : 0;
    return compute(key);
  }
  if (operand_count() != 2 || ptx::bytes_of(*from) == 0 || ptx::bytes_of(*to) == 0) return false;
  if (*from == Scalar::f16x2 || *from == Scalar::bf16x2 || *from == Scalar::b128) return false;
  const auto d = destination(operand(0), -1);
  if (!d) return false;
  out_.d[0] = *d;
  key.width = register_bytes(operand(0));
  if (is_register(1)) {
    out_.s[0] = current_->registers[static_cast<std::size_t>(operand(1).reg)];
    key.source_width = register_bytes(operand(1));
  } else {
    const auto s = source(operand(1), *from);
    if (!s) return false;
    out_.s[0] = *s;
    key.source_width = std::max(2, ptx::bytes_of(*from));
  }
  if (key.width < ptx::bytes_of(*to) || key.source_width < ptx::bytes_of(*from)) return false;
  out_.variant = static_cast<std::uint32_t>(*to) | static_cast<std::uint32_t>(*from) << 5 |
                 static_cast<std::uint32_t>(key.to_integer) << 10 |
                 static_cast<std::uint32_t>(key.integer_saturate) << 13 |
                 static_cast<std::uint32_t>(key.finite_saturate) << 14 |
                 static_cast<std::uint32_t>(key.width) << 15 |
                 static_cast<std::uint32_t>(key.source_width) << 19;
  return compute(key);
}

namespace {

std::optional<std::uint64_t> take_window(Modifiers& mods) {
  if (mods.take("global") || mods.take("const")) return 0;
  if (mods.take("shared") || mods.take("shared::cta") || mods.take("shared::cluster"))
    return kSharedWindow;
  if (mods.take("local")) return kLocalWindow;
  if (mods.take("param")) return std::uint64_t{0};
  return std::nullopt;
}

}  // namespace

// Generic addresses are windows: global and constant as they are, shared and local behind a base.
bool Decoder::decode_cvta() {
  const auto type = mods_.take_last_type();
  const bool to_space = mods_.take("to");
  const auto window = take_window(mods_);
  if (!type || !window || operand_count() != 2 || ptx::bytes_of(*type) != 8) return false;
  if (operand(1).kind == ptx::Operand::Kind::symbol && is_op("cvta")) {
    const auto d = destination(operand(0), 8);
    const auto s = source(operand(1), Scalar::u64);
    if (!d || !s) return false;
    out_.d[0] = *d;
    out_.s[0] = *s;
  } else if (!plain_operands(Scalar::u64, 1)) {
    return false;
  }
  if (*window == 0) return compute({.op = ComputeOp::move, .type = Scalar::u64});
  out_.s[1] = constant(*window, 8);
  return compute({.op = to_space ? ComputeOp::subtract : ComputeOp::add, .type = Scalar::u64});
}

bool Decoder::decode_isspacep() {
  if (operand_count() != 2) return false;
  const std::string_view space = mods_.take_any(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"});
  const auto d = destination(operand(0), 0);
  const auto s = source(operand(1), Scalar::u64);
  if (space.empty() || !d || !s) return false;
  out_.flow = Flow::hidden_effect;
  out_.d[0] = *d;
  out_.s[0] = *s;
  out_.space = space == "global"            ? Space::global
               : space == "local"           ? Space::local
               : space == "const"           ? Space::constant
               : space.starts_with("param") ? Space::param
                                            : Space::shared;
  out_.effect = effects::is_space();
  return true;
}

bool Decoder::decode_mapa() {
  const auto type = mods_.take_last_type();
  const bool shared = mods_.take("shared::cluster");
  if (!type || operand_count() != 3) return false;
  const auto d = destination(operand(0), ptx::bytes_of(*type));
  const auto a = source(operand(1), *type);
  const auto rank = source(operand(2), Scalar::u32);
  if (!d || !a || !rank || (!shared && ptx::bytes_of(*type) != 8)) return false;
  out_.flow = Flow::hidden_effect;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[1] = *rank;
  out_.width = static_cast<std::uint8_t>(ptx::bytes_of(*type));
  out_.space = shared ? Space::shared : Space::generic;
  out_.effect = effects::map_address();
  return true;
}

bool Decoder::decode_getctarank() {
  const auto type = mods_.take_last_type();
  const bool shared = mods_.take("shared::cluster");
  if (!type || operand_count() != 2) return false;
  const auto d = destination(operand(0), 4);
  const auto a = source(operand(1), *type);
  if (!d || !a) return false;
  out_.flow = Flow::hidden_effect;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.width = static_cast<std::uint8_t>(ptx::bytes_of(*type));
  out_.space = shared ? Space::shared : Space::generic;
  out_.effect = effects::cta_rank_of_address();
  return true;
}

}  // namespace faultline::simulator
