// SPDX-License-Identifier: Apache-2.0
// The trial kernels' quick arithmetic against core's, on the host: the same code runs on the
// device.
#include "trial_arithmetic.hpp"

#include <gtest/gtest.h>

#include "faultline/core/comparison.hpp"

#include <cmath>
#include <limits>

namespace faultline::cuda::arithmetic {
namespace {

using core::mix64;

/// Doubles of all kinds: random bits, neighbours of D's numbers and of midpoints between them,
/// zero, infinities, NaN.
template <Dtype D>
double specimen(std::uint64_t i) {
  const std::uint64_t r = mix64(i), kind = mix64(r) % 8;
  if (kind == 0) {
    return core::double_of(r);
  }
  if (kind == 1) {
    const double special[] = {0.0,
                              -0.0,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::nan(""),
                              65504.0,
                              65520.0,
                              std::numeric_limits<double>::denorm_min(),
                              0x1p-24,
                              0x1p-25,
                              0x1p-133,
                              0x1p-149};
    return special[r % std::size(special)];
  }
  double x = core::decode(D, r);  // a number of D; now and then not finite
  if (!std::isfinite(x)) {
    return x;
  }
  const double ulp = core::ulp_at(D, x);
  if (kind >= 4) {
    x += 0.5 * ulp;
  }
  if (kind % 2 == 0) {
    x = std::nextafter(x, kind % 4 == 0 ? HUGE_VAL : -HUGE_VAL);
  }
  return x;
}

template <Dtype D>
void conversions_equal_cores() {
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    const double x = specimen<D>(i);
    ASSERT_EQ(encode<D>(x), core::encode(D, x)) << x;
    const auto bits = static_cast<Storage<D>>(mix64(i));
    ASSERT_EQ(core::bits_of(decode<D>(bits)), core::bits_of(core::decode(D, bits))) << bits;
    double rounded = 0.0;
    if (quick_round<D>(x, rounded) && !std::isnan(x)) {
      ASSERT_EQ(core::bits_of(rounded), core::bits_of(core::round_to(D, x))) << x;
    }
    const double y = core::decode(D, bits);
    if (D != Dtype::f64 && std::isfinite(y)) {
      ASSERT_EQ(inverse_ulp<D>(y), 1.0 / core::ulp_at(D, y)) << y;
      ASSERT_EQ(half_ulp<D>(y), 0.5 * core::ulp_at(D, y)) << y;
    }
  }
}

TEST(TrialArithmetic, ConversionsEqualCores) {
  conversions_equal_cores<Dtype::f16>();
  conversions_equal_cores<Dtype::bf16>();
  conversions_equal_cores<Dtype::f32>();
  conversions_equal_cores<Dtype::f64>();
}

template <Dtype D>
void quick_check_equals_the_rule() {
  constexpr std::uint64_t kPoison = 0x7b7f;
  std::uint64_t decided = 0, divided = 0;
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    const std::uint64_t r = mix64(i + 1'000'000'000);
    const double expected = specimen<D>(i);
    const double ulp = std::isfinite(expected) ? core::ulp_at(D, core::round_to(D, expected)) : 1.0;
    // From far below an ulp to several, and what no bound may be.
    double bound = std::ldexp(ulp, static_cast<int>(r % 24) - 20);
    if (r % 50 == 0) {
      const double odd[] = {0.0, -0.0, -1.0, HUGE_VAL, std::nan("")};
      bound = odd[r / 50 % std::size(odd)];
    }
    std::uint64_t got = core::encode(D, expected);
    switch (r >> 32 & 7) {
    case 0: got = mix64(r); break;
    case 1: got = kPoison; break;
    case 2:
    case 3: got += 1; break;
    case 4: got -= 1; break;
    case 5:
      got = core::encode(D, expected + bound * std::ldexp(1.0, -static_cast<int>(r & 3)));
      break;
    default: break;
    }
    const auto stored = static_cast<Storage<D>>(got);
    const core::ElementCheck rule = core::check_element(D, stored, expected, bound, kPoison);
    const double seen = r >> 40 & 1 ? 0.0 : static_cast<double>(r >> 41 & 0xff) / 256.0;
    const QuickCheck quick = quick_check<D>(stored, expected, bound, seen);
    if (!quick.decided) {
      continue;
    }
    ++decided;
    ASSERT_EQ(rule.kind, core::ElementClass::accepted) << expected << " " << bound << " " << got;
    ASSERT_EQ(quick.error, rule.error);
    ASSERT_EQ(quick.ulps, rule.ulps);
    if (rule.ratio > seen) {
      ASSERT_EQ(quick.ratio, rule.ratio) << expected << " " << bound << " " << got;
      ++divided;
    } else {
      ASSERT_TRUE(quick.ratio == 0.0 || quick.ratio == rule.ratio);
    }
    const double value = core::decode(D, stored), nearest = core::round_to(D, expected);
    ASSERT_EQ(quick.rounded_error, value == nearest ? 0.0 : std::fabs(value - nearest));
  }
  EXPECT_GT(decided, 50'000u);
  EXPECT_TRUE(D == Dtype::f64 || divided > 1'000u) << divided;
}

TEST(TrialArithmetic, QuickCheckDecidesOnlyAsTheRuleDoes) {
  quick_check_equals_the_rule<Dtype::f16>();
  quick_check_equals_the_rule<Dtype::bf16>();
  quick_check_equals_the_rule<Dtype::f32>();
  quick_check_equals_the_rule<Dtype::f64>();
}

TEST(TrialArithmetic, NormalDrawsEqualCores) {
  for (const auto& [a, b] : {std::pair{0.0f, 1.0f}, {-1.5f, 0.25f}, {0.0f, 1e-40f}, {3e4f, 2e4f}}) {
    core::InputSpec spec;
    spec.a = a;
    spec.b = b;
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      const std::uint64_t bits = core::element_bits(7, i);
      const double x = core::draw(spec, 7, i);
      ASSERT_EQ(draw_normal<Dtype::f16>(bits, a, b), core::encode(Dtype::f16, x));
      ASSERT_EQ(draw_normal<Dtype::bf16>(bits, a, b), core::encode(Dtype::bf16, x));
      ASSERT_EQ(draw_normal<Dtype::f32>(bits, a, b), core::encode(Dtype::f32, x));
      ASSERT_EQ(draw_normal<Dtype::f64>(bits, a, b), core::encode(Dtype::f64, x));
    }
  }
}

TEST(TrialArithmetic, ErrorBinsEqualCores) {
  const auto same = [](double error) {
    ASSERT_EQ(error_bin(error), core::error_bin(error)) << error;
  };
  for (std::uint64_t i = 0; i < 200'000; ++i) same(core::double_of(mix64(i) >> 1));
  for (int exponent = -1080; exponent < 1024; ++exponent) {
    const double power = std::ldexp(1.0, exponent);
    for (const double error : {power, std::nextafter(power, 0.0), std::nextafter(power, HUGE_VAL)})
      same(error);
  }
  for (const double error : {0.0, -0.0, HUGE_VAL, std::nan("")}) same(error);
}

}  // namespace
}  // namespace faultline::cuda::arithmetic
