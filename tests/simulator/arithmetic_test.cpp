// SPDX-License-Identifier: Apache-2.0
// What single instructions compute.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "faultline/core/dtype.hpp"
#include "harness.hpp"
#include "numerics/approximate.hpp"
#include "numerics/float_format.hpp"
#include "program/compute_key.hpp"

namespace faultline::simulator::testing {
namespace {

std::uint64_t f(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t d(double x) { return std::bit_cast<std::uint64_t>(x); }

struct Case {
  const char* code;
  std::vector<std::uint64_t> operands;
  std::uint64_t expected;
  int bits = 32;
};

class OneInstruction : public ::testing::TestWithParam<Case> {};

TEST_P(OneInstruction, GivesTheValueOfThePtxIsa) {
  const Case& c = GetParam();
  EXPECT_EQ(evaluate_one(c.code, c.operands, c.bits), c.expected) << c.code;
}

constexpr std::uint64_t kM = 0xffffffffu;

INSTANTIATE_TEST_SUITE_P(
    Integer, OneInstruction,
    ::testing::Values(Case{"add.s32 %r9, %r0, %r1;", {0x7fffffff, 1}, 0x80000000u},
                      Case{"add.sat.s32 %r9, %r0, %r1;", {0x7fffffff, 1}, 0x7fffffffu},
                      Case{"sub.u32 %r9, %r0, %r1;", {0, 1}, kM},
                      Case{"mul.lo.u32 %r9, %r0, %r1;", {0x10001, 0x10001}, 0x20001u},
                      Case{"mul.hi.u32 %r9, %r0, %r1;", {kM, kM}, 0xfffffffeu},
                      Case{"mul.hi.s32 %r9, %r0, %r1;", {kM, 2}, kM},
                      Case{"mul.wide.s32 %rd9, %r0, %r1;", {kM, 3}, ~std::uint64_t{2}, 64},
                      Case{"mul.hi.u64 %rd9, %rd0, %rd1;", {~0ull, ~0ull}, ~0ull - 1, 64},
                      Case{"mad.lo.s32 %r9, %r0, %r1, %r2;", {3, 4, 5}, 17},
                      Case{"mad.wide.u32 %rd9, %r0, %r1, %rd2;", {kM, 2, 1}, 0x1ffffffffull, 64},
                      Case{"mad.hi.u32 %r9, %r0, %r1, %r2;", {kM, kM, 2}, 0},
                      Case{"div.s32 %r9, %r0, %r1;",
                           {static_cast<std::uint32_t>(-7), 2},
                           static_cast<std::uint32_t>(-3)},
                      Case{"rem.s32 %r9, %r0, %r1;", {static_cast<std::uint32_t>(-7), 2}, kM},
                      Case{"div.u64 %rd9, %rd0, %rd1;", {~0ull, 10}, ~0ull / 10, 64},
                      Case{"min.s32 %r9, %r0, %r1;", {kM, 1}, kM},
                      Case{"max.u32 %r9, %r0, %r1;", {kM, 1}, kM},
                      Case{"abs.s32 %r9, %r0;", {static_cast<std::uint32_t>(-5)}, 5},
                      Case{"neg.s32 %r9, %r0;", {5}, static_cast<std::uint32_t>(-5)},
                      Case{"sad.u32 %r9, %r0, %r1, %r2;", {3, 10, 100}, 107},
                      Case{"add.cc.u32 %r9, %r0, %r1; addc.u32 %r9, %r2, 0;", {kM, 1, 5}, 6},
                      Case{"sub.cc.u32 %r9, %r0, %r1; subc.u32 %r9, %r2, 0;", {0, 1, 5}, 4},
                      Case{"mul24.lo.u32 %r9, %r0, %r1;", {0xff000002, 3}, 6}));

INSTANTIATE_TEST_SUITE_P(
    Bits, OneInstruction,
    ::testing::Values(
        Case{"and.b32 %r9, %r0, %r1;", {0xf0f0, 0xff00}, 0xf000},
        Case{"not.b64 %rd9, %rd0;", {0}, ~0ull, 64}, Case{"cnot.b32 %r9, %r0;", {0}, 1},
        Case{"lop3.b32 %r9, %r0, %r1, %r2, 0x96;", {0xf0, 0xcc, 0xaa}, 0xf0u ^ 0xccu ^ 0xaau},
        Case{"lop3.b32 %r9, %r0, %r1, %r2, 0xe8;", {0xf0, 0xcc, 0xaa}, 0xe8},
        Case{"shl.b32 %r9, %r0, %r1;", {1, 40}, 0},
        Case{"shr.s32 %r9, %r0, %r1;", {0x80000000, 99}, kM},
        Case{"shr.u32 %r9, %r0, %r1;", {0x80000000, 31}, 1},
        Case{"shf.l.wrap.b32 %r9, %r0, %r1, %r2;", {0x80000000, 1, 1}, 3},
        Case{"shf.r.clamp.b32 %r9, %r0, %r1, %r2;", {5, 7, 50}, 7},
        Case{"prmt.b32 %r9, %r0, %r1, 0x3210;", {0x11223344, 0x55667788}, 0x11223344},
        Case{"prmt.b32 %r9, %r0, %r1, 0x7610;", {0x11223344, 0x55667788}, 0x55663344},
        Case{"prmt.b32 %r9, %r0, %r1, 0x000b;", {0x81223344, 0}, 0x444444ffu},
        Case{"bfe.u32 %r9, %r0, 8, 8;", {0x12345678}, 0x56},
        Case{"bfe.s32 %r9, %r0, 4, 4;", {0xf0}, kM},
        Case{"bfi.b32 %r9, %r0, %r1, 8, 8;", {0xab, 0x11111111}, 0x1111ab11},
        Case{"bfind.u32 %r9, %r0;", {0x100}, 8}, Case{"bfind.u32 %r9, %r0;", {0}, kM},
        Case{"bfind.shiftamt.u32 %r9, %r0;", {0x100}, 23},
        Case{"popc.b64 %r9, %rd0;", {0xff00ff00ff00ff00ull}, 32},
        Case{"clz.b32 %r9, %r0;", {1}, 31}, Case{"brev.b32 %r9, %r0;", {1}, 0x80000000u},
        Case{"bmsk.clamp.b32 %r9, %r0, %r1;", {4, 8}, 0xff0},
        Case{"fns.b32 %r9, %r0, 0, 2;", {0b1010100}, 4},
        Case{"dp4a.s32.s32 %r9, %r0, %r1, %r2;", {0xff010203, 0x01010101, 10}, 15},
        Case{"mov.b32 {%rs1, %rs2}, %r0; mov.b32 %r9, {%rs2, %rs1};", {0x12345678}, 0x56781234},
        Case{"mov.b64 {%r1, %r2}, %rd0; mov.b64 %rd9, {%r2, %r1};",
             {0x1122334455667788ull},
             0x5566778811223344ull,
             64}));

INSTANTIATE_TEST_SUITE_P(
    Compare, OneInstruction,
    ::testing::Values(
        Case{"setp.lt.s32 %p0, %r0, %r1; selp.b32 %r9, 1, 2, %p0;", {kM, 0}, 1},
        Case{"setp.lt.u32 %p0, %r0, %r1; selp.b32 %r9, 1, 2, %p0;", {kM, 0}, 2},
        Case{"setp.ne.f32 %p0, %r0, %r1; selp.b32 %r9, 1, 2, %p0;", {f(NAN), f(1)}, 2},
        Case{"setp.neu.f32 %p0, %r0, %r1; selp.b32 %r9, 1, 2, %p0;", {f(NAN), f(1)}, 1},
        Case{"setp.nan.f32 %p0, %r0, %r1; selp.b32 %r9, 1, 2, %p0;", {f(NAN), f(1)}, 1},
        Case{"setp.eq.u32 %p1|%p2, %r0, %r1; selp.b32 %r9, 1, 2, %p2;", {3, 4}, 1},
        Case{"setp.eq.u32 %p1, 1, 1; setp.eq.and.u32 %p0, %r0, %r1, !%p1; selp.b32 %r9, 1, 2, %p0;",
             {3, 3},
             2},
        Case{"set.eq.u32.u32 %r9, %r0, %r1;", {3, 3}, kM},
        Case{"set.lt.f32.s32 %r9, %r0, %r1;", {1, 2}, f(1.0f)},
        Case{"slct.b32.s32 %r9, %r0, %r1, %r2;", {1, 2, kM}, 2},
        Case{"setp.gt.f16 %p0, %rs0, %rs1; selp.b32 %r9, 1, 2, %p0;", {0x4000, 0x3c00}, 1},
        Case{"setp.lt.f16x2 %p1|%p2, %r0, %r1; selp.b32 %r9, 1, 2, %p2;",
             {0x3c004000, 0x40003c00},
             1}));

INSTANTIATE_TEST_SUITE_P(
    Float, OneInstruction,
    ::testing::Values(
        Case{"add.f32 %r9, %r0, %r1;", {f(1.5f), f(2.25f)}, f(3.75f)},
        Case{"add.rz.f32 %r9, %r0, %r1;", {f(1.0f), f(0x1.8p-24f)}, f(1.0f)},
        Case{"add.rp.f32 %r9, %r0, %r1;", {f(1.0f), f(0x1p-30f)}, f(1.0f + 0x1p-23f)},
        Case{"add.rm.f32 %r9, %r0, %r1;", {f(-1.0f), f(-0x1p-30f)}, f(-1.0f - 0x1p-23f)},
        Case{"mul.ftz.f32 %r9, %r0, %r1;", {f(0x1p-100f), f(-0x1p-30f)}, 0x80000000u},
        Case{"mul.f32 %r9, %r0, %r1;", {f(0x1p-100f), f(-0x1p-30f)}, f(-0x1p-130f)},
        Case{"add.sat.f32 %r9, %r0, %r1;", {f(1.0f), f(2.0f)}, f(1.0f)},
        Case{"add.f32 %r9, %r0, %r1;", {f(INFINITY), f(-INFINITY)}, 0x7fffffffu},
        Case{"fma.rn.f32 %r9, %r0, %r1, %r2;",
             {f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-1 - 0x1p-11f)},
             f(0x1p-24f)},
        Case{"fma.rn.f64 %rd9, %rd0, %rd1, %rd2;", {d(3), d(5), d(7)}, d(22), 64},
        Case{"min.f32 %r9, %r0, %r1;", {f(NAN), f(1)}, f(1)},
        Case{"min.NaN.f32 %r9, %r0, %r1;", {f(NAN), f(1)}, 0x7fffffffu},
        Case{"max.f32 %r9, %r0, %r1;", {f(-0.0f), f(0.0f)}, f(0.0f)},
        Case{"div.rn.f32 %r9, %r0, %r1;", {f(1), f(3)}, f(1.0f / 3.0f)},
        Case{"sqrt.rn.f64 %rd9, %rd0;", {d(2)}, d(std::sqrt(2.0)), 64},
        Case{"rcp.rn.f32 %r9, %r0;", {f(7)}, f(1.0f / 7.0f)},
        Case{"ex2.approx.f32 %r9, %r0;", {f(3)}, f(8)},
        Case{"ex2.approx.ftz.f32 %r9, %r0;", {f(-200)}, f(0)},
        Case{"lg2.approx.f32 %r9, %r0;", {f(8)}, f(3)},
        Case{"lg2.approx.f32 %r9, %r0;", {f(0)}, f(-INFINITY)},
        Case{"add.f16 %rs3, %rs0, %rs1; cvt.u32.u16 %r9, %rs3;", {0x3c00, 0x4000}, 0x4200},
        Case{"fma.rn.bf16x2 %r9, %r0, %r1, %r2;", {0x3f803f80, 0x40004000, 0x3f803f80}, 0x40404040},
        Case{"fma.rn.relu.f16x2 %r9, %r0, %r1, %r2;", {0x3c003c00, 0xbc003c00, 0}, 0x00003c00},
        Case{"copysign.f32 %r9, %r0, %r1;", {f(-0.0f), f(3)}, f(-3)},
        Case{"testp.subnormal.f32 %p0, %r0; selp.b32 %r9, 1, 2, %p0;", {1}, 1},
        Case{"testp.number.f32 %p0, %r0; selp.b32 %r9, 1, 2, %p0;", {f(NAN)}, 2},
        Case{"neg.bf16x2 %r9, %r0;", {0x3f80bf80}, 0xbf803f80u},
        Case{"abs.f16x2 %r9, %r0;", {0xbc00c000}, 0x3c004000}));

INSTANTIATE_TEST_SUITE_P(
    Convert, OneInstruction,
    ::testing::Values(
        Case{"cvt.rn.f32.s32 %r9, %r0;", {static_cast<std::uint32_t>(-16777217)}, f(-16777216.0f)},
        Case{"cvt.rz.f32.u32 %r9, %r0;", {kM}, f(4294967040.0f)},
        Case{"cvt.rni.s32.f32 %r9, %r0;", {f(2.5f)}, 2},
        Case{"cvt.rzi.s32.f32 %r9, %r0;", {f(-2.9f)}, static_cast<std::uint32_t>(-2)},
        Case{"cvt.rmi.s32.f32 %r9, %r0;", {f(-2.1f)}, static_cast<std::uint32_t>(-3)},
        Case{"cvt.rpi.s32.f32 %r9, %r0;", {f(2.1f)}, 3},
        Case{"cvt.rzi.s32.f32 %r9, %r0;", {f(3e9f)}, 0x7fffffffu},
        Case{"cvt.rzi.u32.f32 %r9, %r0;", {f(-1)}, 0},
        Case{"cvt.rzi.s32.f32 %r9, %r0;", {f(NAN)}, 0},
        Case{"cvt.rzi.s64.f32 %rd9, %r0;", {f(NAN)}, 0x8000000000000000ull, 64},
        Case{"cvt.sat.u8.s32 %r9, %r0;", {static_cast<std::uint32_t>(-5)}, 0},
        Case{"cvt.sat.u8.s32 %r9, %r0;", {300}, 255},
        Case{"cvt.s32.s8 %r9, %r0;", {0x80}, 0xffffff80u},
        Case{"cvt.u64.u32 %rd9, %r0;", {kM}, kM, 64},
        Case{"cvt.s64.s32 %rd9, %r0;", {kM}, ~0ull, 64},
        Case{"cvt.rn.f32.f64 %r9, %rd0;", {d(0.1)}, f(0.1f)},
        Case{"cvt.f64.f32 %rd9, %r0;", {f(0.1f)}, d(static_cast<double>(0.1f)), 64},
        Case{"cvt.rn.bf16x2.f32 %r9, %r0, %r1;", {f(1), f(2)}, 0x3f804000},
        Case{"cvt.rn.f16x2.f32 %r9, %r0, %r1;", {f(1), f(2)}, 0x3c004000},
        Case{"cvt.rn.satfinite.f16x2.f32 %r9, %r0, %r1;", {f(1e9f), f(-1e9f)}, 0x7bfffbffu},
        Case{"cvt.rn.relu.bf16x2.f32 %r9, %r0, %r1;", {f(-1), f(2)}, 0x00004000},
        Case{"cvt.rz.bf16.f32 %rs3, %r0; cvt.u32.u16 %r9, %rs3;", {0x3f80ffff}, 0x3f80},
        Case{"cvt.rna.tf32.f32 %r9, %r0;", {0x3f801000}, 0x3f802000},
        Case{"cvt.rn.f32.u64 %r9, %rd0;", {(1ull << 40) + (1ull << 16)}, f(0x1p40f)},
        Case{"cvt.rp.f32.u64 %r9, %rd0;", {(1ull << 40) + 1}, f(0x1p40f + 0x1p17f)},
        Case{"cvt.rn.f64.u64 %rd9, %rd0;", {~0ull}, d(0x1p64), 64}));

// All 65,536 values, and conversions back under every rounding, against core's own conversions.
TEST(Conversions, HalfFormatsAgreeWithCore) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const double expected_half = core::decode(core::Dtype::f16, h);
    const double expected_bf16 = core::decode(core::Dtype::bf16, h);
    if (expected_half == expected_half) {
      ASSERT_EQ(static_cast<double>(from_half(h)), expected_half) << bits;
      ASSERT_EQ(to_half(from_half(h)), h);
    }
    if (expected_bf16 == expected_bf16) {
      ASSERT_EQ(static_cast<double>(from_bfloat16(h)), expected_bf16) << bits;
      ASSERT_EQ(to_bfloat16(from_bfloat16(h)), h);
    }
  }
}

TEST(Conversions, ShortFormsEqualTheGeneralOne) {
  std::uint64_t state = 7;
  for (int k = 0; k < 400'000; ++k) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    auto bits = static_cast<std::uint32_t>(state >> 32);
    if (k % 3 == 0)
      bits = (bits & 0x807fffffu) | (95u + (bits >> 8) % 50) << 23;  // around half's range
    const float x = float_from_bits(bits);
    ASSERT_EQ(to_half(x), round_to_format(x, kHalf, Rounding::nearest_even)) << bits;
    ASSERT_EQ(to_bfloat16(x), round_to_format(x, kBfloat16, Rounding::nearest_even)) << bits;
    ASSERT_EQ(round_to_format(x, kSingle, Rounding::toward_zero), x == x ? bits : 0x7fffffffu);
    if (x == x) {
      ASSERT_EQ(to_half(x), core::encode(core::Dtype::f16, static_cast<double>(x))) << bits;
    }
  }
}

TEST(Approximations, StayWithinTwoUlpOfTheTruth) {
  for (int k = -4000; k <= 4000; ++k) {
    const float x = static_cast<float>(k) * 0.0311f;
    const auto close = [&](float got, double truth, double ulps) {
      const double unit = std::abs(truth) * 0x1p-23 + 0x1p-140;
      return std::abs(static_cast<double>(got) - truth) <= ulps * unit;
    };
    if (std::abs(x) < 120) {
      EXPECT_TRUE(close(approximate_ex2(x), std::exp2(static_cast<double>(x)), 1)) << x;
    }
    if (x > 0) {
      EXPECT_TRUE(close(approximate_lg2(x), std::log2(static_cast<double>(x)), 1)) << x;
    }
    EXPECT_TRUE(close(approximate_tanh(x), std::tanh(static_cast<double>(x)), 2)) << x;
    EXPECT_NEAR(static_cast<double>(approximate_sin(x)), std::sin(static_cast<double>(x)), 1e-7)
        << x;
    EXPECT_NEAR(static_cast<double>(approximate_cos(x)), std::cos(static_cast<double>(x)), 1e-7)
        << x;
  }
}

// The two builds of the handlers must agree in every bit, NaNs and signed zeros included.
TEST(InstructionSets, BaselineAndAvx2GiveTheSameBits) {
  const char* codes[] = {"add.f32 %r9, %r0, %r1;",
                         "sub.f32 %r9, %r0, %r1;",
                         "mul.f32 %r9, %r0, %r1;",
                         "fma.rn.f32 %r9, %r0, %r1, %r2;",
                         "fma.rz.f32 %r9, %r0, %r1, %r2;",
                         "add.rm.ftz.f32 %r9, %r0, %r1;",
                         "div.rn.f32 %r9, %r0, %r1;",
                         "sqrt.rn.f32 %r9, %r0;",
                         "ex2.approx.f32 %r9, %r0;",
                         "lg2.approx.f32 %r9, %r0;",
                         "sin.approx.f32 %r9, %r0;",
                         "rsqrt.approx.f32 %r9, %r0;",
                         "min.f32 %r9, %r0, %r1;",
                         "max.NaN.f32 %r9, %r0, %r1;",
                         "fma.rn.f16x2 %r9, %r0, %r1, %r2;",
                         "add.bf16x2 %r9, %r0, %r1;",
                         "cvt.rn.bf16x2.f32 %r9, %r0, %r1;",
                         "cvt.rn.f16x2.f32 %r9, %r0, %r1;",
                         "cvt.f32.f16 %r9, %rs0;",
                         "mul.hi.s32 %r9, %r0, %r1;",
                         "prmt.b32 %r9, %r0, %r1, %r2;",
                         "bfe.s32 %r9, %r0, %r1, %r2;",
                         "shf.l.wrap.b32 %r9, %r0, %r1, %r2;",
                         "setp.ltu.f32 %p0, %r0, %r1; selp.b32 %r9, %r0, %r1, %p0;",
                         "rem.u32 %r9, %r0, %r1;",
                         "cvt.rzi.s32.f32 %r9, %r0;"};
  std::uint64_t state = 3;
  const std::uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000,
                                   0x7fc00001, 1,          0x3f800000, 0x7fffffff};
  for (const char* code : codes) {
    std::vector<std::vector<std::uint64_t>> lanes;
    for (int l = 0; l < 32; ++l) {
      std::vector<std::uint64_t> operands;
      for (int k = 0; k < 3; ++k) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        operands.push_back((state >> 60) < 4 ? special[(state >> 40) & 7] : state >> 32);
      }
      lanes.push_back(operands);
    }
    force_baseline_compute(true);
    const auto baseline = evaluate(code, lanes);
    force_baseline_compute(false);
    const auto fast = evaluate(code, lanes);
    ASSERT_EQ(baseline.size(), 32u) << code;
    EXPECT_EQ(baseline, fast) << code;
  }
}

}  // namespace
}  // namespace faultline::simulator::testing
