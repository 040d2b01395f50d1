// SPDX-License-Identifier: Apache-2.0
// Conversions against arithmetic that is written another way: std::frexp, std::ldexp and
// std::nearbyint, and the hardware's own conversion to float.
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "../../core/src/fast_convert.hpp"
#include "faultline/core/dtype.hpp"

namespace faultline::core {
namespace {

constexpr Dtype kAll[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64};
const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Format {
  int mantissa, min_exponent, max_exponent;
};
Format format_of(Dtype dtype) {
  switch (dtype) {
  case Dtype::f16: return {10, -14, 15};
  case Dtype::bf16: return {7, -126, 127};
  case Dtype::f32: return {23, -126, 127};
  case Dtype::f64: return {52, -1022, 1023};
  }
  return {};
}

/// Round to nearest even by scaling to integers with the library.
double independent_round(Dtype dtype, double x) {
  const Format format = format_of(dtype);
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int quantum = std::max(exponent - 1, format.min_exponent) - format.mantissa;
  // Scaling by a power of two is exact here: |x| / 2^quantum < 2^53, or it is below 1 and the
  // scaled value is at least as large as x.
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  const double largest = std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa), format.max_exponent);
  if (std::fabs(rounded) > largest) return std::copysign(kInf, x);
  return std::copysign(rounded, x);
}

void expect_same(double a, double b, Dtype dtype, double x) {
  if (std::isnan(a) && std::isnan(b)) return;
  ASSERT_EQ(bits_of(a), bits_of(b))
      << name_of(dtype) << " of " << std::hexfloat << x << ": " << a << " and " << b;
}

/// Values around everything that can go wrong, for a dtype.
std::vector<double> special_values(Dtype dtype) {
  const Format format = format_of(dtype);
  std::vector<double> values{0.0, -0.0, kInf, -kInf, kNan};
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double points[] = {
      tiny,
      std::numeric_limits<double>::min(),
      std::numeric_limits<double>::max(),
      std::ldexp(1.0, format.min_exponent),                        // smallest normal
      std::ldexp(1.0, format.min_exponent - format.mantissa),      // smallest subnormal
      std::ldexp(1.0, format.min_exponent - format.mantissa - 1),  // half of it: a tie with 0
      std::ldexp(3.0, format.min_exponent - format.mantissa - 1),  // a tie between subnormals
      std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa), format.max_exponent),      // largest
      std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa - 1), format.max_exponent),  // tie with inf
      1.0,
      1.0 + std::ldexp(1.0, -format.mantissa - 1),  // a tie, goes down
      1.0 + std::ldexp(3.0, -format.mantissa - 1),  // a tie, goes up
      2.0 - std::ldexp(1.0, -format.mantissa - 1),  // a tie that carries into the exponent
  };
  for (const double point : points) {
    for (const double x : {point, std::nextafter(point, 0.0), std::nextafter(point, kInf)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  return values;
}

/// Random bit patterns, half of them with an exponent near the dtype's range.
std::vector<double> random_values(Dtype dtype, int count) {
  const Format format = format_of(dtype);
  std::mt19937_64 engine(20240607);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t bits = engine();
    if (i % 2 == 0) {
      values.push_back(double_of(bits));
      continue;
    }
    const int low = std::max(format.min_exponent - format.mantissa - 3, -1074);
    const int span = std::min(format.max_exponent + 2, 1023) - low;
    const int exponent = low + static_cast<int>(bits % static_cast<unsigned>(span + 1));
    double x = std::ldexp(1.0 + static_cast<double>(engine() >> 12) * 0x1p-52, exponent);
    // Every third one lies exactly between two numbers of the grid.
    if (i % 3 == 0) {
      const double q = std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.mantissa);
      x = std::floor(x / q) * q + q / 2;
    }
    values.push_back(bits >> 63 ? -x : x);
  }
  return values;
}

TEST(Dtype, NamesAndAliases) {
  for (const Dtype dtype : kAll) EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  EXPECT_EQ(parse_dtype("half"), Dtype::f16);
  EXPECT_EQ(parse_dtype("bfloat16"), Dtype::bf16);
  EXPECT_EQ(parse_dtype("float"), Dtype::f32);
  EXPECT_EQ(parse_dtype("fp64"), Dtype::f64);
  for (const char* bad : {"", "f8", "F16", "f16 ", "int"}) EXPECT_FALSE(parse_dtype(bad)) << bad;
}

TEST(Dtype, HalfDecodesAsTheStandardSays) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double want = exponent == 31  ? (mantissa ? kNan : kInf)
                  : exponent == 0 ? std::ldexp(mantissa, -24)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
    if (bits >> 15) want = -want;
    const double got = decode(Dtype::f16, bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(is_nan(got)) << bits;
    } else {
      ASSERT_EQ(bits_of(got), bits_of(want)) << bits;
    }
  }
}

template <Dtype D>
void round_trip_all_patterns() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = decode(D, bits);
    const auto stored = static_cast<std::uint16_t>(bits);
    if (is_nan(value)) {
      ASSERT_TRUE(is_nan(decode(D, encode(D, value)))) << bits;
      ASSERT_TRUE(is_nan(detail::fast_decode<D>(stored))) << bits;
    } else {
      ASSERT_EQ(encode(D, value), bits);
      ASSERT_EQ(bits_of(round_to(D, value)), bits_of(value)) << bits;
      ASSERT_EQ(bits_of(detail::fast_decode<D>(stored)), bits_of(value)) << bits;
      ASSERT_EQ(detail::fast_encode<D>(value), bits);
    }
    // Garbage above the element's bits is ignored.
    ASSERT_EQ(bits_of(decode(D, 0xabcd0000u | bits)), bits_of(value));
  }
}

TEST(Dtype, HalfRoundTripsExhaustively) { round_trip_all_patterns<Dtype::f16>(); }
TEST(Dtype, BfloatRoundTripsExhaustively) { round_trip_all_patterns<Dtype::bf16>(); }

/// Between two neighbours of the grid: below the middle goes down, above goes up, the middle to
/// even.
template <Dtype D>
void ties_between_all_neighbours(std::uint32_t infinity_bits) {
  for (std::uint32_t bits = 0; bits + 1 < infinity_bits; ++bits) {
    const double low = decode(D, bits), high = decode(D, bits + 1), middle = (low + high) / 2;
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    const std::uint32_t sign = 0x8000;
    ASSERT_EQ(encode(D, middle), even);
    ASSERT_EQ(encode(D, -middle), even | sign);
    ASSERT_EQ(encode(D, std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(encode(D, std::nextafter(middle, kInf)), bits + 1);
    ASSERT_EQ(detail::fast_encode<D>(middle), even);
    ASSERT_EQ(detail::fast_encode<D>(-middle), even | sign);
    ASSERT_EQ(detail::fast_encode<D>(std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(detail::fast_encode<D>(std::nextafter(middle, kInf)), bits + 1);
  }
}

TEST(Dtype, HalfTiesExhaustively) { ties_between_all_neighbours<Dtype::f16>(0x7c00); }
TEST(Dtype, BfloatTiesExhaustively) { ties_between_all_neighbours<Dtype::bf16>(0x7f80); }

TEST(Dtype, RoundsAsIndependentArithmeticDoes) {
  for (const Dtype dtype : kAll) {
    for (const double x : special_values(dtype)) {
      expect_same(round_to(dtype, x), independent_round(dtype, x), dtype, x);
    }
    for (const double x : random_values(dtype, 200000)) {
      expect_same(round_to(dtype, x), independent_round(dtype, x), dtype, x);
    }
  }
}

TEST(Dtype, FloatRoundsAsTheHardwareDoes) {
  ASSERT_EQ(std::fegetround(), FE_TONEAREST);
  auto values = special_values(Dtype::f32);
  const auto more = random_values(Dtype::f32, 500000);
  values.insert(values.end(), more.begin(), more.end());
  for (const double x : values) {
    const float hardware = static_cast<float>(x);
    expect_same(round_to(Dtype::f32, x), static_cast<double>(hardware), Dtype::f32, x);
    if (!std::isnan(x)) {
      ASSERT_EQ(encode(Dtype::f32, x), bits_of(hardware)) << x;
    }
  }
}

template <Dtype D>
void quick_conversions_agree() {
  auto values = special_values(D);
  const auto more = random_values(D, 300000);
  values.insert(values.end(), more.begin(), more.end());
  for (const double x : values) {
    expect_same(detail::fast_round<D>(x), round_to(D, x), D, x);
    ASSERT_EQ(detail::fast_encode<D>(x), encode(D, x)) << std::hexfloat << x;
    ASSERT_EQ(bits_of(detail::fast_decode<D>(static_cast<detail::Storage<D>>(encode(D, x)))),
              bits_of(decode(D, encode(D, x))))
        << std::hexfloat << x;
  }
}

TEST(Dtype, QuickConversionsEqualTheCommonOnes) {
  quick_conversions_agree<Dtype::f16>();
  quick_conversions_agree<Dtype::bf16>();
  quick_conversions_agree<Dtype::f32>();
  quick_conversions_agree<Dtype::f64>();
}

TEST(Dtype, NanStaysNanAndIsCanonical) {
  const double signalling = double_of(0xfff0000000000001ull);
  EXPECT_EQ(encode(Dtype::f16, signalling), 0x7e00u);
  EXPECT_EQ(encode(Dtype::bf16, kNan), 0x7fc0u);
  EXPECT_EQ(encode(Dtype::f32, -kNan), 0x7fc00000u);
}

TEST(Dtype, OverflowSubnormalsAndSignedZero) {
  EXPECT_EQ(round_to(Dtype::f16, 65504.0), 65504.0);
  EXPECT_EQ(round_to(Dtype::f16, 65519.99), 65504.0);
  EXPECT_EQ(round_to(Dtype::f16, 65520.0), kInf);
  EXPECT_EQ(round_to(Dtype::f16, -1e300), -kInf);
  EXPECT_EQ(round_to(Dtype::f16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(bits_of(round_to(Dtype::f16, -0x1p-25)), bits_of(-0.0));
  EXPECT_EQ(round_to(Dtype::f16, 0x1.8p-24), 0x1p-23);
  EXPECT_EQ(encode(Dtype::f16, -0.0), 0x8000u);
  EXPECT_EQ(encode(Dtype::bf16, -0.0), 0x8000u);
  EXPECT_EQ(encode(Dtype::bf16, -1e-300), 0x8000u);
  // Straight from double: by way of float this would be a tie and go to 1.
  EXPECT_EQ(round_to(Dtype::bf16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
}

TEST(Dtype, UlpIsTheDistanceOfNeighbours) {
  for (std::uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const double low = decode(Dtype::f16, bits);
    ASSERT_EQ(ulp_at(Dtype::f16, low), decode(Dtype::f16, bits + 1) - low) << bits;
    ASSERT_EQ(ulp_at(Dtype::f16, -low), ulp_at(Dtype::f16, low));
  }
  for (std::uint32_t bits = 0; bits + 1 < 0x7f80; ++bits) {
    const double low = decode(Dtype::bf16, bits);
    ASSERT_EQ(ulp_at(Dtype::bf16, low), decode(Dtype::bf16, bits + 1) - low) << bits;
  }
  for (const double x : random_values(Dtype::f64, 20000)) {
    if (std::isfinite(x)) {
      ASSERT_EQ(ulp_at(Dtype::f64, x), std::nextafter(std::fabs(x), kInf) - std::fabs(x)) << x;
    }
  }
  EXPECT_EQ(ulp_at(Dtype::f16, 0.0), 0x1p-24);
  EXPECT_EQ(ulp_at(Dtype::f16, 128.0), 0.125);
  EXPECT_EQ(ulp_at(Dtype::f16, 256.0), 0.25);
  EXPECT_EQ(unit_roundoff(Dtype::f16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(Dtype::bf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(Dtype::f32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(Dtype::f64), 0x1p-53);
}

TEST(Dtype, PowersOfTwo) {
  for (int e = -1080; e <= 1030; ++e) ASSERT_EQ(exp2_int(e), std::ldexp(1.0, e)) << e;
  for (const double x : random_values(Dtype::f64, 20000)) {
    if (std::isfinite(x) && x != 0) {
      ASSERT_EQ(exponent_of(x), std::ilogb(x)) << x;
    }
  }
}

}  // namespace
}  // namespace faultline::core
