// SPDX-License-Identifier: Apache-2.0
// Laws of the comparison. Each stands for a false PASS that a real test suite has had.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/properties/floats.hpp"
#include "faultline/properties/integers.hpp"
#include "property_test.hpp"

namespace faultline::properties {
namespace {

using core::Dtype;
using core::ElementCheck;
using core::ElementClass;

constexpr std::uint64_t kNoPoison = 0xdeadbeefdeadbeefull;  // more bits than 16 or 32

const std::vector<Dtype> kStored{Dtype::f16, Dtype::bf16, Dtype::f32};

/// A reference value, a bound of any size and an element near the value or anywhere.
struct Comparison {
  Dtype dtype = Dtype::f32;
  double expected = 0.0, bound = 0.0;
  std::uint64_t got = 0;

  ElementCheck check() const { return core::check_element(dtype, got, expected, bound, kNoPoison); }
  double low() const { return core::round_to(dtype, expected - bound); }
  double high() const { return core::round_to(dtype, expected + bound); }
};

std::ostream& operator<<(std::ostream& out, const Comparison& c) {
  return out << rc::toString(ElementBits{c.dtype, c.got}) << " against " << c.expected << " +- "
             << c.bound;
}

/// Half of the elements lie near the reference, so that both outcomes are common.
Comparison make_comparison(FloatKind kind) {
  static const auto any = elements(kStored), finite = elements(kStored, FloatKind::finite);
  static const auto reals = elements({Dtype::f64}, FloatKind::finite);
  const ElementBits e = *(kind == FloatKind::any ? any : finite).generator;
  Comparison c{.dtype = e.dtype, .got = e.bits};
  const double scale = core::is_finite(e.value()) ? e.value() : 1.0;
  if (*rc::gen::arbitrary<bool>()) {
    const double ulp = core::ulp_at(c.dtype, scale);
    c.expected = scale + ulp * (*rc::gen::inRange(-64, 65)) / 16.0;
    c.bound = ulp * (*rc::gen::inRange(0, 65)) / 16.0;
  } else {
    c.expected = (*reals.generator).value();
    c.bound = std::fabs((*reals.generator).value());
  }
  return c;
}

/// As one value, so that a counterexample prints it whole.
Comparison draw_comparison(FloatKind kind) {
  return *rc::gen::exec([kind] { return make_comparison(kind); });
}

TEST(Comparator, AcceptsExactlyTheRoundingInterval) {
  check_property(3000, [&] {
    const Comparison c = draw_comparison(FloatKind::any);
    const double value = core::decode(c.dtype, c.got);
    const ElementCheck check = c.check();
    const bool inside = value >= c.low() && value <= c.high();
    RC_ASSERT((check.kind == ElementClass::accepted) == inside);
    RC_CLASSIFY(inside, "accepted");
  });
}

TEST(Comparator, RatioIsAtMostOneExactlyForAcceptedElements) {
  check_property(3000, [&] {
    const Comparison c = draw_comparison(FloatKind::any);
    const ElementCheck check = c.check();
    RC_ASSERT(!std::isnan(check.ratio) && !std::isnan(check.error) && !std::isnan(check.ulps));
    RC_ASSERT((check.ratio <= 1.0) == (check.kind == ElementClass::accepted));
  });
}

TEST(Comparator, WhatLiesBeyondTheBoundIsRejected) {
  check_property(3000, [&] {
    Comparison c = draw_comparison(FloatKind::finite);
    const bool above = *rc::gen::arbitrary<bool>();
    const double end = above ? c.high() : c.low();
    RC_PRE(core::is_finite(end));
    // The next number of the dtype outside the interval: by whole steps of the end's spacing, which
    // is the larger one when the step leaves the binade upwards.
    const int steps = *rc::gen::inRange(1, 9);
    const double spacing = core::ulp_at(c.dtype, end);
    const double beyond =
        core::round_to(c.dtype, above ? end + steps * spacing : end - steps * spacing);
    RC_PRE(beyond != end);
    c.got = core::encode(c.dtype, beyond);
    RC_ASSERT(core::is_failure(c.check().kind));
  });
}

TEST(Comparator, TheReferenceItselfIsAcceptedAtAnyBound) {
  check_property(1000, [&] {
    Comparison c = draw_comparison(FloatKind::finite);
    c.got = core::encode(c.dtype, c.expected);
    RC_ASSERT(c.check().kind == ElementClass::accepted);
    RC_ASSERT(c.check().ratio == 0.0);
  });
}

TEST(Comparator, IsMonotoneInTheBound) {
  check_property(3000, [&] {
    const Comparison c = draw_comparison(FloatKind::any);
    Comparison wider = c;
    wider.bound = c.bound * (1.0 + *rc::gen::inRange(0, 100) / 16.0);
    RC_PRE(core::is_finite(wider.bound));
    if (!core::is_failure(c.check().kind)) RC_ASSERT(!core::is_failure(wider.check().kind));
  });
}

TEST(Comparator, NaNIsNeverAccepted) {
  const auto any = elements();
  const auto bits = elements({Dtype::f64});
  check_property(3000, [&] {
    ElementBits e = *any.generator;
    if (!core::is_nan(e.value())) {
      e.bits = core::encode(e.dtype, std::numeric_limits<double>::quiet_NaN());
    }
    const double expected = (*bits.generator).value(), bound = (*bits.generator).value();
    const ElementCheck check = core::check_element(e.dtype, e.bits, expected, bound, kNoPoison);
    RC_ASSERT(core::is_failure(check.kind));
    RC_ASSERT(!(check.ratio <= 1.0));
  });
}

TEST(Comparator, InfinityIsAcceptedOnlyWhereTheIntervalEndsInIt) {
  check_property(1000, [&] {
    Comparison c = draw_comparison(FloatKind::finite);
    const double infinity = std::numeric_limits<double>::infinity();
    c.got = core::encode(c.dtype, infinity);
    RC_ASSERT(core::is_failure(c.check().kind) == (c.high() != infinity));
    c.got = core::encode(c.dtype, -infinity);
    RC_ASSERT(core::is_failure(c.check().kind) == (c.low() != -infinity));
  });
}

TEST(Comparator, PoisonIsRejectedUnlessItIsTheAnswer) {
  check_property(1000, [&] {
    Comparison c = draw_comparison(FloatKind::finite);
    const auto trial = *rc::gen::inRange<std::uint64_t>(0, 3);
    c.got = core::poison_bits(c.dtype, core::poison_word(trial));
    const ElementCheck check = core::check_element(c.dtype, c.got, c.expected, c.bound, c.got);
    const double value = core::decode(c.dtype, c.got);
    const bool inside = value >= c.low() && value <= c.high();
    RC_ASSERT(check.kind == (inside ? ElementClass::accepted : ElementClass::poison));
  });
}

TEST(Comparator, WithoutAReferenceNothingIsAccepted) {
  const auto stored = elements(kStored);
  const auto doubles = elements({Dtype::f64});
  check_property(2000, [&] {
    const ElementBits e = *stored.generator;
    const double expected = (*doubles.generator).value(), bound = (*doubles.generator).value();
    const bool usable = core::is_finite(expected) && core::is_finite(bound) && bound >= 0.0;
    const ElementCheck check = core::check_element(e.dtype, e.bits, expected, bound, kNoPoison);
    RC_ASSERT((check.kind == ElementClass::no_reference) == !usable);
  });
}

// ---- whole outputs ------------------------------------------------------------------------------

/// An output that is the rounded reference, cut into tiles of any shape.
struct Output {
  core::BufferSpec spec{};
  core::ReferenceTensor reference{};
  core::Tensor got{};

  core::OutputTotals compare() const {
    core::OutputTotals totals = core::make_output_totals(spec);
    core::compare_output(got, reference, spec.tiles,
                         core::Poison::plain(spec.dtype, core::poison_word(0)), totals);
    return totals;
  }
};

Output draw_output() {
  static const auto rows = tile_edges({1, 40, 1, {4, 16}}), cols = tile_edges({1, 24, 1, {8}});
  static const auto lengths = tile_edges({1, 20, 1, {4, 8, 16}});
  Output o;
  o.spec.name = "out";
  o.spec.dtype = *rc::gen::elementOf(kStored);
  o.spec.role = core::BufferRole::output;
  o.spec.tiles = {.rows = *rows.generator,
                  .cols = *cols.generator,
                  .tile_rows = *lengths.generator,
                  .tile_cols = *lengths.generator};
  o.spec.shape = {o.spec.tiles.rows, o.spec.tiles.cols};
  o.got = core::Tensor(o.spec.dtype, o.spec.shape);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (std::int64_t i = 0; i < o.got.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    // Distinct in double; in bf16 neighbours may round to the same number.
    const double value = 1.0 + static_cast<double>(i) / 64.0 +
                         static_cast<double>(core::element_bits(seed, index) >> 40) * 0x1p-34;
    o.reference.expected.push_back(value);
    o.reference.bound.push_back(0x1p-12);
    o.got.set(i, value);
  }
  return o;
}

TEST(OutputComparison, ACorrectOutputIsAcceptedWhole) {
  check_property(300, [&] {
    const core::OutputTotals totals = draw_output().compare();
    RC_ASSERT(totals.bad_elements == 0u);
    RC_ASSERT(totals.compared_elements > 0u);
  });
}

TEST(OutputComparison, AgreesWithTheElementRuleTileByTile) {
  static const auto stored = elements(kStored);
  check_property(300, [&] {
    Output o = draw_output();
    const auto changes = *rc::gen::inRange(0, 6);
    for (int c = 0; c < changes; ++c) {
      const auto at = *rc::gen::inRange<std::int64_t>(0, o.got.size());
      core::store_bits(o.got.bytes.data(), static_cast<std::size_t>(at), o.spec.dtype,
                       (*elements({o.spec.dtype}).generator).bits);
    }
    const core::OutputTotals totals = o.compare();
    std::vector<std::uint64_t> bad(static_cast<std::size_t>(o.spec.tiles.tile_count()), 0);
    std::uint64_t all = 0;
    double worst = 0.0;
    for (std::int64_t i = 0; i < o.got.size(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      const ElementCheck check = core::check_element(
          o.spec.dtype, o.got.bits(i), o.reference.expected[n], o.reference.bound[n],
          core::poison_bits(o.spec.dtype, core::poison_word(0)));
      worst = std::max(worst, check.ratio);
      if (!core::is_failure(check.kind)) continue;
      ++all;
      ++bad[static_cast<std::size_t>(o.spec.tiles.tile_of(i))];
    }
    RC_ASSERT(totals.bad_elements == all);
    RC_ASSERT(totals.compared_elements == static_cast<std::uint64_t>(o.got.size()));
    RC_ASSERT(totals.worst_ratio == worst);
    for (std::size_t t = 0; t < bad.size(); ++t) RC_ASSERT(totals.tiles[t].bad_elements == bad[t]);
  });
}

TEST(OutputComparison, PermutedTilesAreRejected) {
  check_property(300, [&] {
    Output o = draw_output();
    // Only the nearest number of the dtype is accepted: neighbouring elements are close in bf16.
    std::fill(o.reference.bound.begin(), o.reference.bound.end(), 0.0);
    const core::TileGeometry& tiles = o.spec.tiles;
    RC_PRE(tiles.tile_count() > 1);
    const auto a = *rc::gen::inRange<std::int64_t>(0, tiles.tile_count());
    const auto b = *rc::gen::inRange<std::int64_t>(0, tiles.tile_count());
    RC_PRE(a != b);
    const core::Tensor correct = o.got;
    const auto origin = [&](std::int64_t tile) {
      return std::pair(tile / tiles.tiles_across() * tiles.tile_rows,
                       tile % tiles.tiles_across() * tiles.tile_cols);
    };
    const auto [a_row, a_col] = origin(a);
    const auto [b_row, b_col] = origin(b);
    std::int64_t moved = 0;
    for (std::int64_t r = 0; r < tiles.tile_rows; ++r) {
      for (std::int64_t c = 0; c < tiles.tile_cols; ++c) {
        // Ragged tiles: what both have.
        if (std::max(a_row, b_row) + r >= tiles.rows || std::max(a_col, b_col) + c >= tiles.cols) {
          continue;
        }
        const std::int64_t at_a = (a_row + r) * tiles.cols + a_col + c;
        const std::int64_t at_b = (b_row + r) * tiles.cols + b_col + c;
        o.got.set(at_a, correct.at(at_b));
        o.got.set(at_b, correct.at(at_a));
        moved += correct.at(at_a) != correct.at(at_b) ? 1 : 0;
      }
    }
    RC_PRE(moved > 0);
    const core::OutputTotals totals = o.compare();
    RC_ASSERT(totals.tiles[static_cast<std::size_t>(a)].bad_elements > 0u);
    RC_ASSERT(totals.tiles[static_cast<std::size_t>(b)].bad_elements > 0u);
    RC_ASSERT(totals.bad_elements == static_cast<std::uint64_t>(2 * moved));
  });
}

TEST(OutputComparison, WhatDoesNotFitIsRefusedAndNotCounted) {
  check_property(200, [&] {
    const Output o = draw_output();
    core::OutputTotals totals = core::make_output_totals(o.spec);
    const std::size_t bytes = *rc::gen::inRange<std::size_t>(0, o.got.bytes.size());
    const std::span<const std::byte> part(o.got.bytes.data(), bytes);
    RC_ASSERT_THROWS_AS(
        core::compare_output(part, o.spec.dtype, o.reference, o.spec.tiles, core::Poison{}, totals),
        core::UsageError);
    RC_ASSERT(totals.compared_elements == 0u);
  });
}

TEST(OutputComparison, ZeroComparedElementsAreNeverGreen) {
  static const auto counts = tile_edges({1, 1000000, 1, {1000}});
  check_property(200, [&] {
    const Output o = draw_output();
    core::Evidence evidence;
    evidence.subject = "subject";
    evidence.backend = "simulator";
    evidence.mode = *rc::gen::element<std::string>("stress", "verify");
    core::TrialResult result;
    result.trials = static_cast<std::uint64_t>(*counts.generator);
    if (*rc::gen::arbitrary<bool>()) result.outputs = {core::make_output_totals(o.spec)};
    if (evidence.mode == "stress") {
      core::ArmEvidence arm;
      arm.result = result;
      evidence.arms.push_back(arm);
    } else {
      core::ConfigEvidence config;
      config.result = result;
      evidence.configs.push_back(config);
    }
    RC_ASSERT(diagnosis::diagnose(evidence).outcome != core::Outcome::pass);
  });
}

}  // namespace
}  // namespace faultline::properties
