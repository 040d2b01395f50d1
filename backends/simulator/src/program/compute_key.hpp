// SPDX-License-Identifier: Apache-2.0
// Which register-only handler an instruction needs. The handlers are compiled twice, for plain
// x86-64 and for AVX2+FMA; both give the same bits, the second is several times faster.
#pragma once

#include "program/instruction.hpp"
#include "ptx/ast.hpp"

namespace faultline::simulator {

enum class ComputeOp : std::uint8_t {
  move,
  move_predicate,
  pack,
  unpack,
  add,
  subtract,
  multiply_low,
  multiply_high,
  multiply_wide,
  multiply24,
  mad_low,
  mad_high,
  mad_wide,
  mad24,
  sad,
  divide,
  remainder,
  absolute,
  negate,
  minimum,
  maximum,
  add_carry_out,
  add_carry_in,
  subtract_carry_out,
  subtract_carry_in,
  mad_carry_out,
  mad_carry_in,
  add_saturated,
  subtract_saturated,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  logical_not,
  lop3,
  shift_left,
  shift_right,
  funnel_left,
  funnel_right,
  permute,
  extract,
  insert,
  find_leading,
  popcount,
  count_leading_zeros,
  reverse_bits,
  find_nth_set,
  bit_mask,
  dot4,
  dot2,
  predicate_and,
  predicate_or,
  predicate_xor,
  predicate_not,
  compare,
  compare_set,
  select,
  select_sign,
  multiply,
  fused_multiply_add,
  square_root,
  reciprocal,
  copysign,
  test_class,
  ex2,
  lg2,
  sine,
  cosine,
  tanh,
  reciprocal_approximate,
  rsqrt_approximate,
  sqrt_approximate,
  divide_approximate,
  convert,
  convert_pack,
};

enum class Comparison : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};
enum class Combine : std::uint8_t { none, bit_and, bit_or, bit_xor };
enum class ConvertRounding : std::uint8_t {
  none,
  nearest_integer,
  zero_integer,
  down_integer,
  up_integer
};

struct ComputeKey {
  ComputeOp op;
  ptx::Scalar type = ptx::Scalar::b32;
  ptx::Scalar source_type = ptx::Scalar::b32;
  Comparison comparison = Comparison::eq;
  FloatMode mode = {};
  ConvertRounding to_integer = ConvertRounding::none;
  int width = 0;         // bytes of the destination register (conversions)
  int source_width = 0;  // bytes of the source register
  bool integer_saturate = false;
  bool finite_saturate = false;
};

// nullptr: this combination has no handler, the instruction is unsupported.
ComputeHandler select_compute(const ComputeKey& key);

// For tests: forces the plain x86-64 handlers from now on (true), or lets the machine decide.
void force_baseline_compute(bool forced);

}  // namespace faultline::simulator
