// SPDX-License-Identifier: Apache-2.0
// The bound holds for what kernels do, over thousands of rows, and wrong results break it.
#include <faultline/reference/gemv.hpp>

#include "test_inputs.hpp"

#include <faultline/core/acceptance.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace faultline::reference {
namespace {

using core::Dtype;
using test::kNormal;
using test::make_input;

/// y_i in fp32 as a kernel with `threads` threads per row computes it: chunks of `chunk` elements
/// in turn, an fma chain each, a tree over 32 lanes, a serial sum over the warps.
float emulated_row(const std::vector<float>& a, const std::vector<float>& x, int threads,
                   int chunk) {
  std::vector<float> lanes(static_cast<std::size_t>(threads), 0.0f);
  const int k = static_cast<int>(a.size());
  for (int begin = 0, owner = 0; begin < k; begin += chunk, owner = (owner + 1) % threads) {
    float& sum = lanes[static_cast<std::size_t>(owner)];
    for (int j = begin; j < std::min(begin + chunk, k); ++j) {
      sum = std::fmaf(a[static_cast<std::size_t>(j)], x[static_cast<std::size_t>(j)], sum);
    }
  }
  float total = 0.0f;
  for (int warp = 0; warp < threads; warp += 32) {
    const int width = std::min(32, threads);
    for (int offset = width / 2; offset > 0; offset /= 2) {
      for (int lane = 0; lane < offset; ++lane) {
        lanes[static_cast<std::size_t>(warp + lane)] +=
            lanes[static_cast<std::size_t>(warp + lane + offset)];
      }
    }
    total += lanes[static_cast<std::size_t>(warp)];
  }
  return total;
}

double chain_of(int k, int threads, int chunk) {
  const int products = ((k + chunk - 1) / chunk + threads - 1) / threads * chunk;
  return std::min(k, products) + (threads == 1 ? 0 : 5 + threads / 32 - 1);
}

struct Outcome {
  std::int64_t rows = 0, alarms = 0;
  double worst = 0.0;
};

struct Regime {
  const char* name;
  core::InputSpec a, x;
};

constexpr Regime kRegimes[] = {
    {"normal", kNormal, kNormal},
    {"positive",
     {core::Distribution::uniform, 0.0f, 1.0f},
     {core::Distribution::uniform, 0.0f, 1.0f}},
    {"constant",
     {core::Distribution::constant, 1.1f, 0.0f},
     {core::Distribution::constant, 0.3f, 0.0f}},
    {"offset",
     {core::Distribution::normal, 3.0f, 0.01f},
     {core::Distribution::normal, -2.0f, 0.01f}},
    {"tiny", {core::Distribution::normal, 0.0f, 1e-7f}, {core::Distribution::normal, 0.0f, 1e-7f}},
};

Outcome run(const Regime& regime, Dtype dtype, Dtype stored, int k, int threads, int chunk,
            bool mean_zero, std::int64_t rows) {
  const GemvBound bound = gemv_bound({.chain = chain_of(k, threads, chunk),
                                      .terms = static_cast<double>(k),
                                      .mean_zero = mean_zero});
  Outcome outcome;
  for (std::int64_t first = 0; first < rows; first += 50) {
    const std::int64_t n = std::min<std::int64_t>(50, rows - first);
    const std::uint64_t seed = static_cast<std::uint64_t>(first + 1);
    const core::Tensor a = make_input(dtype, {n, k}, regime.a, seed, 0);
    const core::Tensor x = make_input(dtype, {k}, regime.x, seed, 1);
    const core::ReferenceTensor y = gemv(a, x, bound);
    std::vector<float> row(static_cast<std::size_t>(k)), vector(static_cast<std::size_t>(k));
    for (int j = 0; j < k; ++j) {
      vector[static_cast<std::size_t>(j)] = static_cast<float>(x.at(j));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (int j = 0; j < k; ++j) {
        row[static_cast<std::size_t>(j)] = static_cast<float>(a.at(i * k + j));
      }
      const std::uint64_t got = core::encode(stored, emulated_row(row, vector, threads, chunk));
      const auto at = static_cast<std::size_t>(i);
      const core::ElementCheck check =
          core::check_element(stored, got, y.expected[at], y.bound[at], ~0ull);
      ++outcome.rows;
      outcome.alarms += core::is_failure(check.kind);
      outcome.worst = std::max(outcome.worst, check.ratio);
    }
  }
  return outcome;
}

TEST(GemvBound, HoldsForEveryOrderAndRegime) {
  double worst = 0.0;
  for (const Regime& regime : kRegimes) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
      for (const int k : {1, 9, 256, 1025, 4096}) {
        for (const auto& [threads, chunk] : {std::pair{1, 1}, {32, 1}, {32, 8}, {128, 8}}) {
          const Outcome outcome = run(regime, dtype, dtype, k, threads, chunk, false, 50);
          EXPECT_EQ(outcome.alarms, 0) << fmt::format("{} {} k={} threads={} chunk={}", regime.name,
                                                      core::name_of(dtype), k, threads, chunk);
          worst = std::max(worst, outcome.worst);
        }
      }
    }
  }
  RecordProperty("worst_fraction_of_bound", fmt::format("{:.3f}", worst));
  EXPECT_GT(worst, 0.05) << "the ceiling is far from anything a kernel does: " << worst;
}

TEST(GemvBound, StatisticalBoundHoldsForMeanZeroInputs) {
  double worst = 0.0;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    for (const int k : {256, 4096}) {
      for (const auto& [threads, chunk] : {std::pair{1, 1}, {32, 8}}) {
        const Outcome outcome = run(kRegimes[0], dtype, Dtype::f32, k, threads, chunk, true, 1000);
        EXPECT_EQ(outcome.alarms, 0) << fmt::format("{} k={}", core::name_of(dtype), k);
        worst = std::max(worst, outcome.worst);
      }
    }
  }
  RecordProperty("worst_fraction_of_bound", fmt::format("{:.3f}", worst));
}

TEST(GemvBound, StatisticalIsNeverAboveTheCeiling) {
  for (double chain = 1; chain < 1e5; chain *= 1.7) {
    const GemvBound ceiling = gemv_bound({.chain = chain, .terms = 10});
    const GemvBound statistical = gemv_bound({.chain = chain, .terms = 10, .mean_zero = true});
    EXPECT_LE(statistical.relative, ceiling.relative);
    if (chain > 17) {
      EXPECT_LT(statistical.relative, ceiling.relative);
    }
  }
}

TEST(GemvBound, WithoutMeaningItAcceptsNothing) {
  // A chain as long as 1/u: gamma is infinite, and an infinite bound is no reference.
  const GemvBound bound = gemv_bound({.chain = 17e6, .terms = 17e6});
  const core::ElementCheck check = core::check_element(Dtype::f32, core::encode(Dtype::f32, 1.0),
                                                       1.0, gemv_row_bound(bound, 1.0), ~0ull);
  EXPECT_EQ(check.kind, core::ElementClass::no_reference);
}

/// How many of the outputs pass.
std::int64_t accepted(Dtype dtype, const std::vector<double>& outputs,
                      const core::ReferenceTensor& reference) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    count += !core::is_failure(core::check_element(dtype, core::encode(dtype, outputs[i]),
                                                   reference.expected[i], reference.bound[i], ~0ull)
                                   .kind);
  }
  return count;
}

TEST(GemvBound, NullOutputsAreRejected) {
  const std::int64_t n = 200, k = 3000;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    const core::Tensor a = make_input(dtype, {n, k}, kNormal, 5, 0);
    const core::Tensor x = make_input(dtype, {k}, kNormal, 5, 1);
    const core::ReferenceTensor y = gemv(a, x, gemv_bound({.chain = 120, .terms = 3000}));
    EXPECT_EQ(accepted(dtype, y.expected, y), n);
    EXPECT_EQ(accepted(dtype, std::vector<double>(n, 0.0), y), 0) << "zeros";
    EXPECT_LE(accepted(dtype, std::vector<double>(n, y.expected[0]), y), 2) << "constant";
    std::vector<double> shuffled = y.expected;
    std::rotate(shuffled.begin(), shuffled.begin() + 1, shuffled.end());
    EXPECT_LE(accepted(dtype, shuffled, y), 2) << "shuffled";
    std::vector<double> copy(n);
    for (std::int64_t i = 0; i < n; ++i) {
      copy[static_cast<std::size_t>(i)] = a.at(i * k);
    }
    EXPECT_LE(accepted(dtype, copy, y), 2) << "a column of A";
  }
}

TEST(GemvBound, OneMissingProductIsSeen) {
  const std::int64_t n = 200, k = 3000;
  const core::Tensor a = make_input(Dtype::f32, {n, k}, kNormal, 6, 0);
  const core::Tensor x = make_input(Dtype::f32, {k}, kNormal, 6, 1);
  const core::ReferenceTensor y = gemv(a, x, gemv_bound({.chain = 120, .terms = 3000}));
  std::vector<double> outputs = y.expected;
  for (std::int64_t i = 0; i < n; ++i) {
    outputs[static_cast<std::size_t>(i)] -= a.at(i * k + k - 1) * x.at(k - 1);
  }
  EXPECT_LE(accepted(Dtype::f32, outputs, y), n / 20);
}

}  // namespace
}  // namespace faultline::reference
