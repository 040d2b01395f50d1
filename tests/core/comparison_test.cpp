// SPDX-License-Identifier: Apache-2.0
// The comparator is what everything stands on: what must not pass, does not.
#include "faultline/core/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::core {
namespace {

constexpr Dtype kAll[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64};
const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();
/// A poison that equals none of the values compared here.
constexpr std::uint32_t kPoison = 0xffffffffu;

ElementClass kind_of(Dtype dtype, double got, double expected, double bound) {
  return check_element(dtype, encode(dtype, got), expected, bound, poison_bits(dtype, kPoison))
      .kind;
}

/// One output of `rows` x `cols`, its reference and its right answer.
struct Case {
  BufferSpec spec;
  ReferenceTensor reference;
  Tensor right;

  OutputTotals totals() const { return make_output_totals(spec); }
  std::uint64_t compare(const Tensor& got, OutputTotals& totals) const {
    return compare_output(got, reference, spec.tiles, Poison::plain(spec.dtype, kPoison), totals,
                          spec.shape);
  }
};

Case make_case(Dtype dtype, std::int64_t rows = 32, std::int64_t cols = 24) {
  Case c;
  c.spec.name = "y";
  c.spec.dtype = dtype;
  c.spec.shape = {rows, cols};
  c.spec.role = BufferRole::output;
  c.spec.tiles = {.rows = rows, .cols = cols, .tile_rows = 16, .tile_cols = 16};
  c.right = Tensor(dtype, c.spec.shape);
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double expected = 4.0 + normal(engine);
    c.reference.expected.push_back(expected);
    c.reference.bound.push_back(1e-3 * std::fabs(expected));
    c.right.set(i, expected);
  }
  return c;
}

TEST(Acceptance, RightAnswersPass) {
  for (const Dtype dtype : kAll) {
    const Case c = make_case(dtype);
    OutputTotals totals = c.totals();
    EXPECT_EQ(c.compare(c.right, totals), 0u);
    EXPECT_EQ(totals.bad_trials, 0u);
    EXPECT_EQ(totals.compared_elements, c.reference.expected.size());
    EXPECT_EQ(totals.worst_ratio, 0.0);
    EXPECT_LE(totals.worst_ulps, 0.5);
    EXPECT_EQ(totals.worst_rounded_error, 0.0);
  }
}

TEST(Acceptance, EveryFakeOutputFails) {
  for (const Dtype dtype : kAll) {
    const Case c = make_case(dtype);
    const auto fails = [&](const char* what, auto&& fill) {
      Tensor fake = c.right;
      for (std::int64_t i = 0; i < fake.size(); ++i) fill(fake, i);
      OutputTotals totals = c.totals();
      EXPECT_GT(c.compare(fake, totals), 0u) << what << " as " << name_of(dtype);
      EXPECT_EQ(totals.bad_trials, 1u) << what;
      EXPECT_GT(totals.worst_ratio, 1.0) << what;
      return totals;
    };
    const auto count = c.reference.expected.size();
    OutputTotals totals = fails("zeros", [](Tensor& t, std::int64_t i) { t.set(i, 0.0); });
    EXPECT_EQ(totals.bad_elements, count);
    totals = fails("NaN", [](Tensor& t, std::int64_t i) { t.set(i, kNan); });
    EXPECT_EQ(totals.bad_elements, count);
    EXPECT_EQ(totals.not_finite, count);
    EXPECT_EQ(totals.worst_error, kInf);
    totals = fails("infinity", [](Tensor& t, std::int64_t i) { t.set(i, i % 2 ? kInf : -kInf); });
    EXPECT_EQ(totals.not_finite, count);
    totals = fails("poison", [&](Tensor& t, std::int64_t i) {
      store_bits(t.bytes.data(), static_cast<std::size_t>(i), dtype, poison_bits(dtype, kPoison));
    });
    EXPECT_EQ(totals.poison, count);
    EXPECT_EQ(totals.not_finite, 0u) << "poison is counted as poison alone";
    fails("constant", [](Tensor& t, std::int64_t i) { t.set(i, 4.0); });
    fails("shifted by one", [&](Tensor& t, std::int64_t i) {
      t.set(i, c.reference.expected[static_cast<std::size_t>(i + 1) % count]);
    });
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
    fails("shuffled", [&](Tensor& t, std::int64_t i) {
      t.set(i, c.reference.expected[order[static_cast<std::size_t>(i)]]);
    });
    fails("one NaN among right values", [](Tensor& t, std::int64_t i) {
      if (i == 100) t.set(i, kNan);
    });
    fails("negated", [&](Tensor& t, std::int64_t i) { t.set(i, -t.at(i)); });
  }
}

TEST(Acceptance, EveryPoisonIsRecognisedInEveryDtype) {
  for (const Dtype dtype : kAll) {
    for (std::uint64_t trial = 0; trial < 6; ++trial) {
      const std::uint64_t poison = poison_bits(dtype, poison_word(trial));
      EXPECT_NE(poison, 0u);
      EXPECT_EQ(check_element(dtype, poison, 1.0, 1e-3, poison).kind, ElementClass::poison)
          << name_of(dtype) << " trial " << trial;
    }
  }
}

TEST(Acceptance, WhatMustStayUntouchedIsAcceptedOnlyWithThePoison) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    for (std::uint64_t trial = 0; trial < 3; ++trial) {
      const std::uint64_t poison = poison_bits(dtype, poison_word(trial));
      const auto check = [&](std::uint64_t got) {
        return check_element(dtype, got, 1.0, must_stay_untouched(), poison);
      };
      EXPECT_EQ(check(poison).kind, ElementClass::accepted);
      EXPECT_EQ(check(poison ^ 1).kind, ElementClass::overwritten);
      EXPECT_EQ(check(encode(dtype, 1.0)).kind, ElementClass::overwritten);
      EXPECT_EQ(check(poison ^ 1).ratio, kInf);
    }
  }
  EXPECT_FALSE(stays_untouched(-kInf));
  EXPECT_FALSE(stays_untouched(std::numeric_limits<double>::quiet_NaN()));
}

TEST(Comparison, UntouchedElementsAreNoPartOfErrorsOrHashes) {
  BufferSpec output;
  output.name = "y";
  output.dtype = Dtype::f32;
  output.shape = {2, 3};
  output.tiles = {.rows = 2, .cols = 3, .tile_rows = 1, .tile_cols = 3, .tile_axis = "row"};
  ReferenceTensor reference{{1, 2, 9, 3, 4, 9},
                            {0, 0, must_stay_untouched(), 0, 0, must_stay_untouched()}};
  std::uint64_t hash = 0;
  for (std::uint64_t trial = 0; trial < 3; ++trial) {
    const std::uint64_t poison = poison_bits(Dtype::f32, poison_word(trial));
    Tensor got(Dtype::f32, {2, 3});
    const double values[] = {1, 2, 0, 3, 4, 0};
    for (std::int64_t i = 0; i < 6; ++i) got.set(i, values[i]);
    for (const std::int64_t i : {2, 5})
      store_bits(got.bytes.data(), static_cast<std::size_t>(i), Dtype::f32, poison);
    OutputTotals totals = make_output_totals(output);
    EXPECT_EQ(compare_output(got, reference, output.tiles,
                             Poison::plain(Dtype::f32, poison_word(trial)), totals),
              0u);
    EXPECT_EQ(totals.worst_error, 0.0);
    EXPECT_EQ(totals.sum_squared_expected, 1.0 + 4.0 + 9.0 + 16.0);
    if (trial == 0) hash = output_hash(got, reference);
    EXPECT_EQ(output_hash(got, reference), hash);
    got.set(5, 7.0);
    EXPECT_EQ(compare_output(got, reference, output.tiles,
                             Poison::plain(Dtype::f32, poison_word(trial)), totals),
              1u);
    EXPECT_EQ(totals.tiles[1].bad_elements, 1u);
    EXPECT_EQ(totals.tiles[1].first_bad_index, 5);
  }
}

TEST(Acceptance, NothingCanBeSaidWithoutAReference) {
  for (const Dtype dtype : kAll) {
    EXPECT_EQ(kind_of(dtype, 1.0, kNan, 1.0), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, 1.0, kInf, 1.0), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, 1.0, 1.0, kNan), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, 1.0, 1.0, kInf), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, 1.0, 1.0, -1e-9), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, 1.0, 1.0, -kInf), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, kNan, kNan, 1.0), ElementClass::no_reference);
    EXPECT_EQ(kind_of(dtype, kInf, kInf, 1.0), ElementClass::no_reference);
    EXPECT_TRUE(is_failure(ElementClass::no_reference));
    EXPECT_EQ(kind_of(dtype, 1.0, 1.0, -0.0), ElementClass::accepted);

    // And through the whole comparison, though every value is right.
    for (const double spoiled : {kNan, kInf, -1.0}) {
      Case c = make_case(dtype);
      c.reference.bound[5] = spoiled;
      OutputTotals totals = c.totals();
      EXPECT_EQ(c.compare(c.right, totals), 1u);
      EXPECT_EQ(totals.tiles[0].first_bad_index, 5);
    }
    Case c = make_case(dtype);
    c.reference.expected[5] = kNan;
    OutputTotals totals = c.totals();
    EXPECT_EQ(c.compare(c.right, totals), 1u);
  }
}

TEST(Acceptance, BoundZeroTakesTheNearestNumberOnly) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    const double expected = 1.0 + 0x1p-30, ulp = ulp_at(dtype, 1.0);
    EXPECT_EQ(kind_of(dtype, 1.0, expected, 0.0), ElementClass::accepted);
    EXPECT_EQ(kind_of(dtype, 1.0 + ulp, expected, 0.0), ElementClass::out_of_bound);
    EXPECT_EQ(kind_of(dtype, 1.0 - ulp / 2, expected, 0.0), ElementClass::out_of_bound);
    EXPECT_EQ(kind_of(dtype, -0.0, 0.0, 0.0), ElementClass::accepted) << "zeros compare equal";
  }
}

TEST(Acceptance, EndsOfTheIntervalBelongToIt) {
  std::mt19937_64 engine(11);
  for (const Dtype dtype : kAll) {
    for (int i = 0; i < 20000; ++i) {
      const double expected = std::ldexp(static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5,
                                         static_cast<int>(engine() % 20) - 10);
      const double bound = std::fabs(expected) * std::ldexp(1.0, -static_cast<int>(engine() % 16));
      const double low = round_to(dtype, expected - bound);
      const double high = round_to(dtype, expected + bound);
      ASSERT_EQ(kind_of(dtype, low, expected, bound), ElementClass::accepted);
      ASSERT_EQ(kind_of(dtype, high, expected, bound), ElementClass::accepted);
      // One number of the grid further out, on either side.
      const double above = high + (high < 0 ? ulp_at(dtype, high * 0.75) : ulp_at(dtype, high));
      const double below = low - (low > 0 ? ulp_at(dtype, low * 0.75) : ulp_at(dtype, low));
      if (round_to(dtype, above) > high) {
        const auto check = check_element(dtype, encode(dtype, above), expected, bound, ~0ull);
        ASSERT_EQ(check.kind, ElementClass::out_of_bound);
        ASSERT_GT(check.ratio, 1.0);
      }
      if (round_to(dtype, below) < low) {
        ASSERT_EQ(kind_of(dtype, below, expected, bound), ElementClass::out_of_bound);
      }
    }
  }
}

TEST(Acceptance, InfinityPassesOnlyWhereTheIntervalReachesIt) {
  EXPECT_EQ(kind_of(Dtype::f16, kInf, 65504.0, 1.0), ElementClass::infinite);
  EXPECT_EQ(kind_of(Dtype::f16, kInf, 65519.0, 1.0), ElementClass::accepted);
  EXPECT_EQ(kind_of(Dtype::f16, kInf, 1e6, 0.0), ElementClass::accepted);
  EXPECT_EQ(kind_of(Dtype::f16, -kInf, 1e6, 1.0), ElementClass::infinite);
  EXPECT_EQ(kind_of(Dtype::f16, 65504.0, 1e6, 1.0), ElementClass::out_of_bound);
}

TEST(Comparison, WhatDoesNotFitIsRefused) {
  const Case c = make_case(Dtype::f16);
  const auto refused = [&](const Tensor& got, const ReferenceTensor& reference,
                           const TileGeometry& geometry, const char* what) {
    OutputTotals totals = c.totals();
    EXPECT_THROW(compare_output(got, reference, geometry, Poison{}, totals, c.spec.shape),
                 UsageError)
        << what;
    EXPECT_EQ(totals.compared_elements, 0u) << what;
    EXPECT_EQ(totals.bad_trials, 0u) << what;
  };
  const auto tiles = c.spec.tiles;
  refused(Tensor(Dtype::f16, {24, 32}), c.reference, tiles, "transposed shape");
  refused(Tensor(Dtype::f16, {32, 23}), c.reference, tiles, "one column short");
  refused(Tensor(Dtype::f16, {0, 24}), c.reference, tiles, "empty output");
  refused(Tensor(Dtype::bf16, {32, 24}), c.reference, tiles, "other dtype of the same size");
  refused(Tensor(Dtype::f32, {32, 24}), c.reference, tiles, "other dtype");
  refused(c.right, ReferenceTensor{}, tiles, "empty reference");
  ReferenceTensor no_bounds = c.reference;
  no_bounds.bound.pop_back();
  refused(c.right, no_bounds, tiles, "a bound missing");
  Tensor truncated = c.right;
  truncated.bytes.pop_back();
  refused(truncated, c.reference, tiles, "a byte missing");
  for (auto member : {&TileGeometry::rows, &TileGeometry::cols, &TileGeometry::tile_rows,
                      &TileGeometry::tile_cols}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{5}}) {
      TileGeometry wrong = tiles;
      wrong.*member = value;
      refused(c.right, c.reference, wrong, "geometry");
    }
  }
  // Nothing to compare: shape, reference and geometry agree, and it still is no comparison.
  BufferSpec empty = c.spec;
  empty.shape = {0, 24};
  OutputTotals totals;
  totals.dtype = Dtype::f16;
  EXPECT_THROW(
      compare_output(Tensor(Dtype::f16, {0}), {}, {.rows = 0, .cols = 0}, Poison{}, totals),
      UsageError);
}

/// The plain loop that compare_output() must equal.
OutputTotals plain_totals(const Case& c, const Tensor& got) {
  OutputTotals totals = c.totals();
  std::vector<bool> tile_bad(totals.tiles.size());
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    const double expected = c.reference.expected[n];
    const ElementCheck check =
        check_element(c.spec.dtype, got.bits(i), expected, c.reference.bound[n],
                      poison_bits(c.spec.dtype, kPoison));
    const auto t = static_cast<std::size_t>(c.spec.tiles.tile_of(i));
    TileTotals& tile = totals.tiles[t];
    tile.worst_ratio = std::max(tile.worst_ratio, check.ratio);
    tile.worst_ulps = std::max(tile.worst_ulps, check.ulps);
    totals.worst_ratio = std::max(totals.worst_ratio, check.ratio);
    totals.worst_ulps = std::max(totals.worst_ulps, check.ulps);
    totals.worst_error = std::max(totals.worst_error, check.error);
    std::vector<std::uint64_t> ratio_bin(error_bin(check.ratio) + 1),
        ulp_bin(error_bin(check.ulps) + 1);
    ratio_bin.back() = ulp_bin.back() = 1;
    if (!stays_untouched(c.reference.bound[n])) {
      add_bins(totals.ratio_bins, ratio_bin);
      add_bins(totals.ulp_bins, ulp_bin);
    }
    if (std::isfinite(check.error)) {
      totals.sum_squared_error += check.error * check.error;
      totals.sum_squared_expected += expected * expected;
    }
    const double nearest = round_to(c.spec.dtype, expected);
    const double rounded = got.at(i) == nearest ? 0.0 : std::fabs(got.at(i) - nearest);
    totals.worst_rounded_error =
        std::max(totals.worst_rounded_error,
                 std::isnan(rounded) || check.kind == ElementClass::no_reference ? kInf : rounded);
    if (!is_failure(check.kind)) continue;
    const bool not_finite =
        check.kind == ElementClass::not_a_number || check.kind == ElementClass::infinite;
    ++tile.bad_elements, ++totals.bad_elements;
    tile.not_finite += not_finite, totals.not_finite += not_finite;
    tile.poison += check.kind == ElementClass::poison;
    totals.poison += check.kind == ElementClass::poison;
    tile.no_reference += check.kind == ElementClass::no_reference;
    totals.no_reference += check.kind == ElementClass::no_reference;
    if (tile.first_bad_index < 0) tile.first_bad_index = i;
    tile_bad[t] = true;
  }
  for (std::size_t t = 0; t < tile_bad.size(); ++t) totals.tiles[t].bad_trials = tile_bad[t];
  totals.bad_trials = totals.bad_elements > 0;
  totals.compared_elements = static_cast<std::uint64_t>(got.size());
  return totals;
}

TEST(Comparison, EqualsTheRuleElementByElement) {
  std::mt19937_64 engine(5);
  for (const Dtype dtype : kAll) {
    for (int round = 0; round < 60; ++round) {
      // Ragged in both directions; values, references and bounds from tame to hostile.
      Case c = make_case(dtype, 37, 29);
      Tensor got = c.right;
      for (std::int64_t i = 0; i < got.size(); ++i) {
        const auto n = static_cast<std::size_t>(i);
        double& expected = c.reference.expected[n];
        double& bound = c.reference.bound[n];
        if (round % 3 == 1) {  // any magnitude, results within a few bounds
          expected = std::ldexp(expected, static_cast<int>(engine() % 300) - 150);
          bound = std::fabs(expected) * std::ldexp(1.0, -static_cast<int>(engine() % 14));
        } else if (round % 3 == 2) {  // any bits
          if (engine() % 4 == 0) expected = double_of(engine());
          if (engine() % 4 == 0) bound = double_of(engine());
        }
        const double step = (static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5) * 2.5;
        got.set(i, expected + step * bound);
        if (engine() % 64 == 0) store_bits(got.bytes.data(), n, dtype, engine());
        if (engine() % 64 == 0) {
          store_bits(got.bytes.data(), n, dtype, poison_bits(dtype, kPoison));
        }
      }
      OutputTotals totals = c.totals();
      const std::uint64_t bad = c.compare(got, totals);
      const OutputTotals want = plain_totals(c, got);
      ASSERT_EQ(bad, want.bad_elements);
      ASSERT_EQ(totals.bad_elements, want.bad_elements);
      ASSERT_EQ(totals.bad_trials, want.bad_trials);
      ASSERT_EQ(totals.not_finite, want.not_finite);
      ASSERT_EQ(totals.poison, want.poison);
      ASSERT_EQ(totals.no_reference, want.no_reference);
      ASSERT_EQ(totals.worst_ratio, want.worst_ratio);
      ASSERT_EQ(totals.worst_ulps, want.worst_ulps);
      ASSERT_EQ(totals.worst_error, want.worst_error);
      ASSERT_EQ(totals.worst_rounded_error, want.worst_rounded_error);
      for (const auto sum :
           {&OutputTotals::sum_squared_error, &OutputTotals::sum_squared_expected}) {
        const double all = want.*sum;  // hostile values may overflow when squared
        ASSERT_TRUE(totals.*sum == all || std::fabs(totals.*sum - all) <= 1e-12 * all)
            << totals.*sum << " " << all;
      }
      ASSERT_EQ(totals.compared_elements, want.compared_elements);
      ASSERT_EQ(totals.tiles, want.tiles) << name_of(dtype) << " round " << round;
      ASSERT_EQ(totals.ratio_bins, want.ratio_bins) << name_of(dtype) << " round " << round;
      ASSERT_EQ(totals.ulp_bins, want.ulp_bins) << name_of(dtype) << " round " << round;
    }
  }
}

TEST(Comparison, RelativeL2IsPooledOverTrialsAndLeavesOutWhatIsNotFinite) {
  const Case c = make_case(Dtype::f32);
  OutputTotals totals = c.totals();
  EXPECT_EQ(totals.relative_l2(), 0.0);
  Tensor got = c.right;
  double error = 0.0, expected = 0.0;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const double want = c.reference.expected[static_cast<std::size_t>(i)];
    got.set(i, 1.25 * want);
    const double off = got.at(i) - want;
    error += off * off;
    expected += want * want;
  }
  c.compare(got, totals);
  EXPECT_NEAR(totals.relative_l2(), std::sqrt(error / expected), 1e-12);
  EXPECT_NEAR(totals.relative_l2(), 0.25, 1e-6);
  const double once = totals.relative_l2();
  got.set(0, kInf);
  c.compare(got, totals);
  EXPECT_NEAR(totals.relative_l2(), once, 1e-3);
  OutputTotals zero;
  zero.sum_squared_error = 1.0;
  EXPECT_EQ(zero.relative_l2(), kInf);
}

TEST(Comparison, BinsEndAtPowersOfTwoThatBelongToThem) {
  EXPECT_EQ(error_bin(0.0), 0u);
  EXPECT_EQ(error_bin(5e-324), 1u);
  for (std::size_t bin = 1; bin + 2 < kErrorBins; ++bin) {
    const double end = error_bin_limit(bin);
    EXPECT_EQ(error_bin(end), bin);
    EXPECT_EQ(error_bin(std::nextafter(end, kInf)), bin + 1);
  }
  EXPECT_EQ(error_bin_limit(1), 0x1p-10);
  EXPECT_EQ(error_bin_limit(error_bin(1.0)), 1.0);  // accepted and rejected part here
  EXPECT_EQ(error_bin(1e300), kErrorBins - 2);
  EXPECT_EQ(error_bin(kInf), kErrorBins - 1);
  EXPECT_EQ(error_bin(std::nan("")), kErrorBins - 1);
}

TEST(Comparison, NamesTheWrongTilesOfATrial) {
  const Case c = make_case(Dtype::bf16);
  Tensor wrong = c.right;
  wrong.set(24 * 20 + 3, 100.0);  // row 20, column 3: tile row 1, tile column 0
  OutputTotals totals = c.totals();
  std::vector<WrongTile> tiles;
  for (const Tensor& got : {c.right, wrong}) {
    compare_output(got, c.reference, c.spec.tiles, Poison{}, totals, c.spec.shape, &tiles);
  }
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].tile, 2);
  EXPECT_EQ(tiles[0].bad_elements, 1u);
  EXPECT_EQ(tiles[0].worst_ratio, totals.tiles[2].worst_ratio);
}

TEST(Failures, KeepWrongTilesWholeOrNotAtAll) {
  TrialResult result;
  FailedTrial failure;
  failure.wrong_tiles.resize(TrialResult::kWrongTilesKept / 2 - 1);
  for (int i = 0; i < 3; ++i) add_failure(result, failure);
  failure.wrong_tiles.resize(2);
  for (int i = 0; i < 2; ++i) add_failure(result, failure);
  std::vector<std::size_t> kept;
  for (const FailedTrial& f : result.failures) kept.push_back(f.wrong_tiles.size());
  constexpr std::size_t kHalf = TrialResult::kWrongTilesKept / 2 - 1;
  EXPECT_EQ(kept, (std::vector<std::size_t>{kHalf, kHalf, 0, 2, 0}));
  for (std::size_t i = 0; i < TrialResult::kFailuresKept; ++i) add_failure(result, {});
  EXPECT_EQ(result.failures.size(), TrialResult::kFailuresKept);
}

TEST(Comparison, AccumulatesOverTrials) {
  const Case c = make_case(Dtype::bf16);
  Tensor wrong = c.right;
  wrong.set(24 * 20 + 3, 100.0);  // row 20, column 3: tile row 1, tile column 0
  OutputTotals totals = c.totals();
  for (int trial = 0; trial < 5; ++trial) c.compare(trial % 2 ? wrong : c.right, totals);
  EXPECT_EQ(totals.compared_elements, 5u * 32 * 24);
  EXPECT_EQ(totals.bad_trials, 2u);
  EXPECT_EQ(totals.bad_elements, 2u);
  ASSERT_EQ(totals.tiles.size(), 4u);
  EXPECT_EQ(totals.tiles[2].bad_trials, 2u);
  EXPECT_EQ(totals.tiles[2].first_bad_index, 24 * 20 + 3);
  for (const std::size_t good : {0, 1, 3}) EXPECT_EQ(totals.tiles[good].bad_trials, 0u);
  EXPECT_EQ(totals.worst_error_expected, c.reference.expected[24 * 20 + 3]);
}

TEST(Comparison, HashSeesEveryBitAndEveryPlace) {
  for (const Dtype dtype : kAll) {
    Case c = make_case(dtype);
    const std::uint64_t hash = output_hash(c.right);
    // The sum may be taken in any order, as atomic additions on a device do.
    std::uint64_t backwards = 0;
    for (std::int64_t i = c.right.size(); i-- > 0;) {
      backwards += output_hash_term(c.right.bits(i), static_cast<std::uint64_t>(i));
    }
    EXPECT_EQ(hash, backwards);
    Tensor flipped = c.right;
    flipped.bytes[17] ^= std::byte{4};
    EXPECT_NE(output_hash(flipped), hash);
    Tensor swapped = c.right;
    const std::uint64_t first = swapped.bits(0);
    store_bits(swapped.bytes.data(), 0, dtype, swapped.bits(1));
    store_bits(swapped.bytes.data(), 1, dtype, first);
    EXPECT_NE(output_hash(swapped), hash);
  }
  EXPECT_NE(combine_output_hash(1, 2), combine_output_hash(2, 1));
}

}  // namespace
}  // namespace faultline::core
