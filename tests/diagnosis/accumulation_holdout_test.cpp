// SPDX-License-Identifier: Apache-2.0
// Defects that none of the limits of the accumulation rule was fitted to: sums over increasing
// lengths, in several low precisions and orders, and errors that are no accumulation. The inputs
// are drawn anew here, from seeds of their own; the rule sees the growth of the relative error
// alone.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evidence_builder.hpp"
#include "faultline/core/dtype.hpp"
#include "faultline/core/generator.hpp"
#include "faultline/diagnosis/diagnose.hpp"

namespace faultline::test {
namespace {

using core::Dtype;
using core::FindingClass;

double rounded(Dtype dtype, double x) { return core::round_to(dtype, x); }

/// The terms of one sum: products of two unit normals, or of uniforms in [0, 1) (one sign).
std::vector<double> terms(std::uint64_t seed, std::uint64_t row, std::int64_t length,
                          bool positive) {
  std::vector<double> all(static_cast<std::size_t>(length));
  const std::uint64_t key = core::mix64(core::mix64(seed) + row);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t a = core::mix64(key + 2 * i), b = core::mix64(key + 2 * i + 1);
    const double u = static_cast<double>(a >> 11) * 0x1p-53;
    const double v = static_cast<double>(b >> 11) * 0x1p-53;
    all[i] = positive ? u * v : core::unit_normal(a) * core::unit_normal(b);
  }
  return all;
}

/// A kernel's value of a sum.
using Sum = std::function<double(const std::vector<double>&, std::uint64_t row)>;

double exact(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double term : x) sum += term;
  return sum;
}

/// A running sum that is rounded to `dtype` after every `every` terms.
Sum running(Dtype dtype, std::size_t every) {
  return [=](const std::vector<double>& x, std::uint64_t) {
    double sum = 0.0, part = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      part += x[i];
      if ((i + 1) % every == 0 || i + 1 == x.size()) {
        sum = rounded(dtype, sum + part);
        part = 0.0;
      }
    }
    return sum;
  };
}

Sum off(std::function<double(double, const std::vector<double>&, std::uint64_t)> change) {
  return [=](const std::vector<double>& x, std::uint64_t row) { return change(exact(x), x, row); };
}

/// A sweep over lengths of a kernel that computes `sum` and stores it in fp32.
core::Evidence sweep(const Sum& sum, bool positive, std::uint64_t seed, std::int64_t shortest) {
  constexpr std::uint64_t kRowsTried = 64;
  core::Evidence e = clean_evidence("verify", true);
  for (std::int64_t length = shortest; length <= shortest * 64; length *= 4) {
    double errors = 0.0, values = 0.0, worst = 0.0;
    for (std::uint64_t row = 0; row < kRowsTried; ++row) {
      const std::vector<double> x =
          terms(seed + static_cast<std::uint64_t>(length), row, length, positive);
      double absolute = 0.0;
      for (const double term : x) absolute += std::fabs(term);
      const double right = exact(x), got = rounded(Dtype::f32, sum(x, row));
      // A kernel that sums in fp32 may be off by this.
      const double bound = 4.0 * std::sqrt(static_cast<double>(length)) * 0x1p-24 * absolute;
      worst = std::max(worst, std::fabs(got - right) / bound);
      errors += (got - right) * (got - right);
      values += right * right;
    }
    const bool wrong = worst > 1.0;
    core::ConfigEvidence c = cell(fmt::format("k={}", length), "threads=32", length, 1, wrong);
    e.configs.push_back(c);
    core::GrowthEvidence row;
    row.output = "new_state";
    row.config = "threads=32";
    row.length = length;
    row.relative_l2 = std::sqrt(errors / values);
    row.worst_ratio = worst;
    row.wrong = wrong;
    e.growth.push_back(row);
  }
  return e;
}

struct Defect {
  std::string name;
  Sum sum;
  bool accumulates;
};

std::vector<Defect> defects() {
  std::vector<Defect> all;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::size_t every : {1, 8, 32}) {
      all.push_back({fmt::format("running sum in {} every {}", core::name_of(dtype), every),
                     running(dtype, every), true});
    }
  }
  // Errors of one size whatever the length, or that no sum explains.
  all.push_back(
      {"constant offset", off([](double y, const auto&, auto) { return y + 0.5; }), false});
  all.push_back({"scale 1.1", off([](double y, const auto&, auto) { return 1.1 * y; }), false});
  all.push_back({"scale 1.001", off([](double y, const auto&, auto) { return 1.001 * y; }), false});
  all.push_back({"one row in sixteen off by a random amount",
                 off([](double y, const auto&, std::uint64_t row) {
                   return row % 16 == 3 ? y + core::unit_normal(core::mix64(row + 77)) : y;
                 }),
                 false});
  all.push_back({"the last term twice",
                 off([](double y, const std::vector<double>& x, auto) { return y + x.back(); }),
                 false});
  all.push_back({"the first eighth lost", off([](double y, const std::vector<double>& x, auto) {
                   for (std::size_t i = 0; i < x.size() / 8; ++i) y -= x[i];
                   return y;
                 }),
                 false});
  all.push_back({"inputs in bf16", off([](double, const std::vector<double>& x, auto) {
                   double sum = 0.0;
                   for (const double term : x) sum += rounded(Dtype::bf16, term);
                   return sum;
                 }),
                 false});
  return all;
}

/// Of everything that a comparison with an fp32 bound sees at all. What is no accumulation must
/// never be called one; what is one and grows by less than the rule asks for stays unnamed.
TEST(AccumulationHoldout, NothingElseIsCalledOneAndMostOfThemAre) {
  std::uint64_t named = 0, accumulating = 0, misnamed = 0, others = 0;
  for (const Defect& defect : defects()) {
    for (const bool positive : {false, true}) {
      for (const std::uint64_t seed : {9001u, 9002u, 9003u}) {
        for (const std::int64_t shortest : {32, 48}) {
          const core::Evidence e = sweep(defect.sum, positive, seed, shortest);
          bool wrong = false;
          for (const core::ConfigEvidence& c : e.configs) wrong = wrong || c.failed;
          if (!wrong) continue;
          const core::Verdict verdict = diagnosis::diagnose(e);
          const bool called = verdict.findings.at(0).finding == FindingClass::accumulation;
          (defect.accumulates ? accumulating : others)++;
          (defect.accumulates ? named : misnamed) += called;
          if (called != defect.accumulates) {
            std::string growth;
            for (const auto& row : e.growth) growth += fmt::format(" {:.3g}", row.relative_l2);
            fmt::print("{}{} of {}, seed {}: {};{}\n",
                       called ? "called one: " : "not named: ", defect.name,
                       positive ? "one sign" : "both signs", seed,
                       core::name_of(verdict.findings[0].finding), growth);
          }
        }
      }
    }
  }
  fmt::print("accumulations named: {} of {}; others called one: {} of {}\n", named, accumulating,
             misnamed, others);
  EXPECT_EQ(misnamed, 0u);
  EXPECT_GE(2 * named, accumulating);
}

}  // namespace
}  // namespace faultline::test
