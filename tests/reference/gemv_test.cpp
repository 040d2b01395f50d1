// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/gemv.hpp>

#include "test_inputs.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace faultline::reference {
namespace {

using core::Dtype;
using test::kNormal;
using test::make_input;

struct Naive {
  std::vector<long double> value, magnitude;
};

Naive naive_gemv(const core::Tensor& a, const core::Tensor& x) {
  const std::int64_t n = a.shape[0], k = a.shape[1];
  Naive y;
  for (std::int64_t i = 0; i < n; ++i) {
    long double value = 0.0L, magnitude = 0.0L;
    for (std::int64_t j = 0; j < k; ++j) {
      const long double product = static_cast<long double>(a.at(i * k + j)) * x.at(j);
      value += product;
      magnitude += std::abs(product);
    }
    y.value.push_back(value);
    y.magnitude.push_back(magnitude);
  }
  return y;
}

TEST(GemvReference, AgreesWithTripleLoopInLongDouble) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{
      {1, 1}, {1, 3000}, {3000, 1}, {3, 7}, {31, 256}, {33, 255}, {65, 1025}, {40, 3001}};
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    for (const auto& [n, k] : shapes) {
      SCOPED_TRACE(fmt::format("{} n={} k={}", core::name_of(dtype), n, k));
      const core::Tensor a = make_input(dtype, {n, k}, kNormal, 7, 0);
      const core::Tensor x = make_input(dtype, {k}, kNormal, 7, 1);
      const GemvBound bound = gemv_bound({.chain = 40, .terms = static_cast<double>(k)});
      const core::ReferenceTensor y = gemv(a, x, bound);
      const Naive expected = naive_gemv(a, x);
      ASSERT_EQ(y.expected.size(), static_cast<std::size_t>(n));
      ASSERT_EQ(y.bound.size(), static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < y.expected.size(); ++i) {
        const double magnitude = static_cast<double>(expected.magnitude[i]);
        EXPECT_LE(std::abs(static_cast<double>(y.expected[i] - expected.value[i])),
                  static_cast<double>(k) * reference_roundoff() * magnitude);
        const double wanted = gemv_row_bound(bound, magnitude);
        EXPECT_NEAR(y.bound[i], wanted, 1e-12 * wanted);
      }
    }
  }
}

TEST(GemvReference, SpecialValuesAreKept) {
  core::Tensor a(Dtype::f16, {3, 2}), x(Dtype::f16, {2});
  a.set(0, 65504.0);
  a.set(1, 5.9604644775390625e-8);  // smallest subnormal
  a.set(2, INFINITY);
  a.set(4, NAN);
  x.set(0, 65504.0);
  x.set(1, 5.9604644775390625e-8);
  const core::ReferenceTensor y = gemv(a, x, gemv_bound({.chain = 2, .terms = 2}));
  EXPECT_EQ(y.expected[0], 65504.0 * 65504.0 + std::ldexp(1.0, -48));
  EXPECT_EQ(y.expected[1], INFINITY);
  EXPECT_TRUE(std::isnan(y.expected[2]));
}

TEST(GemvReference, RowsDoNotDependOnTheThreads) {
  // Large enough for several threads; a row alone is worked on by one.
  const std::int64_t n = 1500, k = 4099;
  const core::Tensor a = make_input(Dtype::bf16, {n, k}, kNormal, 3, 0);
  const core::Tensor x = make_input(Dtype::bf16, {k}, kNormal, 3, 1);
  const GemvBound bound = gemv_bound({.chain = 40, .terms = static_cast<double>(k)});
  const core::ReferenceTensor whole = gemv(a, x, bound);
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{64}, std::int64_t{1472}}) {
    const std::int64_t rows = std::min<std::int64_t>(64, n - first);
    core::Tensor part(Dtype::bf16, {rows, k});
    std::copy_n(a.bytes.begin() + first * k * 2, rows * k * 2, part.bytes.begin());
    const core::ReferenceTensor y = gemv(part, x, bound);
    for (std::int64_t i = 0; i < rows; ++i) {
      ASSERT_EQ(y.expected[static_cast<std::size_t>(i)],
                whole.expected[static_cast<std::size_t>(first + i)]);
      ASSERT_EQ(y.bound[static_cast<std::size_t>(i)],
                whole.bound[static_cast<std::size_t>(first + i)]);
    }
  }
}

TEST(GemvReference, WrongShapesAreRefused) {
  const GemvBound bound = gemv_bound({});
  EXPECT_THROW(gemv(core::Tensor(Dtype::f16, {4, 5}), core::Tensor(Dtype::f16, {4}), bound),
               core::UsageError);
  EXPECT_THROW(gemv(core::Tensor(Dtype::f16, {20}), core::Tensor(Dtype::f16, {4}), bound),
               core::UsageError);
}

}  // namespace
}  // namespace faultline::reference
