// SPDX-License-Identifier: Apache-2.0
// Footprints: wrong elements are laid over outputs of random shapes in blocks of a known tiling,
// and the tiling has to be found. Templates: one tile of a product is given the error of a known
// cause. What follows no blocks, and errors of no known cause, must end as scattered and unknown.
// The numbers from 3000 on are a hold-out: the limits were shaped on the others.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/footprint.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline {
namespace {

using Tiling = core::FootprintEvidence::Kind;
using Template = core::TemplateEvidence::Kind;

class Engine {
 public:
  explicit Engine(std::uint64_t seed) : engine_(core::mix64(seed)) {}
  std::int64_t up_to(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[up_to(0, static_cast<std::int64_t>(all.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

/// Draws of each kind: few, or as many as FAULTLINE_FOOTPRINT_DRAWS says.
int draws(int few) {
  const char* text = std::getenv("FAULTLINE_FOOTPRINT_DRAWS");
  return text ? std::atoi(text) : few;
}

// --- footprints ---

enum class Shape {
  tile,
  group,
  buffer,
  position,
  place,
  last_tile,
  strip,
  rows,
  columns,
  block,
  // and no blocks:
  scatter,
  triangle,
  disc,
  diagonal,
  gradient
};
constexpr Shape kBlocks[] = {Shape::tile,    Shape::group,     Shape::buffer, Shape::position,
                             Shape::place,   Shape::last_tile, Shape::strip,  Shape::rows,
                             Shape::columns, Shape::block};
constexpr Shape kNoBlocks[] = {Shape::scatter, Shape::triangle, Shape::disc, Shape::diagonal,
                               Shape::gradient};
const char* name_of(Shape shape) {
  constexpr const char* kNames[] = {"tile",      "group",    "buffer", "position", "place",
                                    "last_tile", "strip",    "rows",   "columns",  "block",
                                    "scatter",   "triangle", "disc",   "diagonal", "gradient"};
  return kNames[static_cast<int>(shape)];
}

struct Laid {
  core::TrialPlan plan;
  core::TrialResult result;
  Tiling kind = Tiling::scattered;
  std::int64_t rows = 0, cols = 0;  ///< of a block, where it is a rectangle
};

core::TrialPlan plan_of(const core::Shape& shape, const core::TileGeometry& tiles) {
  core::TrialPlan plan;
  plan.subject = "laid";
  plan.buffers.resize(1);
  plan.buffers[0].name = "y";
  plan.buffers[0].shape = shape;
  plan.buffers[0].role = core::BufferRole::output;
  plan.buffers[0].tiles = tiles;
  plan.reference = [n = static_cast<std::size_t>(tiles.rows * tiles.cols)](const auto&) {
    return std::vector{
        core::ReferenceTensor{std::vector<double>(n, 1.0), std::vector<double>(n, 1e-6)}};
  };
  return plan;
}

/// Adds a capture whose element (row, column) is wrong where `is_wrong` says so.
void capture(Laid& laid, const std::function<bool(std::int64_t, std::int64_t)>& is_wrong) {
  const core::BufferSpec& spec = laid.plan.buffers[0];
  core::Tensor y(spec.dtype, spec.shape);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    y.set(i, is_wrong(i / spec.tiles.cols, i % spec.tiles.cols) ? 2.5 : 1.0);
  }
  const std::uint64_t trial = laid.result.captures.size();
  laid.result.captures.push_back({trial, 7, core::poison_word(trial), {y}});
}

Laid lay(Shape shape, int number) {
  Engine engine(7919 * static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(shape));
  core::TileGeometry g;
  g.tile_rows = engine.one_of({8, 16, 32});
  g.tile_cols = engine.one_of({8, 16, 32});
  const bool grouped = shape == Shape::group || shape == Shape::buffer || shape == Shape::position;
  std::int64_t groups = engine.up_to(1, 3);
  if (shape == Shape::strip) {
    g.tile_rows = engine.one_of({32, 64});
    groups = 1;
  }
  std::int64_t down = engine.up_to(3, 5), across = engine.up_to(1, 3);
  if (shape == Shape::block) g.tile_cols = 32;
  if (grouped) {
    groups = engine.up_to(5, 8);
    across = 1;
    down = engine.up_to(4, 6);
    g.tile_rows = engine.one_of({8, 16});
    g.tiles_per_group = down;
    if (shape == Shape::buffer) g.pipeline_depth = static_cast<std::int32_t>(engine.up_to(2, 3));
  }
  g.rows = groups * down * g.tile_rows;
  g.cols = across * g.tile_cols;
  const bool ragged = !grouped && groups == 1 && engine.up_to(0, 2) == 0;
  if (ragged) g.rows -= engine.up_to(1, g.tile_rows / 2);
  Laid laid;
  laid.plan = plan_of({groups, g.rows / groups, g.cols}, g);
  if (groups * (g.rows / groups) != g.rows) laid.plan.buffers[0].shape = {g.rows, g.cols};

  const double density = engine.one_of({1.0, 0.97, 0.6, 0.3});
  const double rate = 0.15 + 0.3 * engine.unit();
  const std::int64_t captures = engine.up_to(2, 5);
  const auto wrong_here = [&](double d) { return d >= 1.0 || engine.unit() < d; };
  // Blocks are numbered from 0; each is hit at the rate, and some but not all are.
  const auto by_blocks = [&](std::int64_t blocks, auto block_of) {
    for (std::int64_t n = 0; n < captures; ++n) {
      std::vector<bool> hit(static_cast<std::size_t>(blocks));
      for (auto&& h : hit) h = engine.unit() < rate;
      const auto sure = static_cast<std::size_t>(engine.up_to(0, blocks - 1));
      hit[sure] = true;
      hit[(sure + 1 + static_cast<std::size_t>(engine.up_to(0, blocks - 2))) %
          static_cast<std::size_t>(blocks)] = false;
      capture(laid, [&](auto row, auto col) {
        return hit[static_cast<std::size_t>(block_of(row, col))] && wrong_here(density);
      });
    }
  };
  const auto by_rectangles = [&](Tiling kind, std::int64_t rows, std::int64_t cols) {
    laid.kind = kind;
    laid.rows = rows;
    laid.cols = cols;
    const std::int64_t wide = (g.cols + cols - 1) / cols;
    by_blocks((g.rows + rows - 1) / rows * wide,
              [=](auto row, auto col) { return row / rows * wide + col / cols; });
  };
  const auto tile_of = [&](auto row, auto col) { return g.tile_of(row * g.cols + col); };
  switch (shape) {
  case Shape::tile: by_rectangles(Tiling::tile, g.tile_rows, g.tile_cols); break;
  case Shape::group:
    laid.kind = Tiling::group;
    by_blocks(groups, [&](auto row, auto col) { return tile_of(row, col) / down; });
    break;
  case Shape::buffer:
    laid.kind = Tiling::buffer;
    by_blocks(groups * g.pipeline_depth, [&](auto row, auto col) {
      const std::int64_t tile = tile_of(row, col);
      return tile / down * g.pipeline_depth + tile % down % g.pipeline_depth;
    });
    break;
  case Shape::position:
    laid.kind = Tiling::position;
    by_blocks(down, [&](auto row, auto col) { return tile_of(row, col) % down; });
    break;
  case Shape::place:
    laid.kind = Tiling::place;
    laid.rows = g.tile_rows;
    by_blocks(g.tile_rows, [&](auto row, auto) { return row % g.tile_rows; });
    break;
  case Shape::last_tile:
    laid.kind = Tiling::last_tile;
    capture(laid, [&](auto row, auto) {
      return row / g.tile_rows == g.tiles_down() - 1 && wrong_here(density);
    });
    break;
  case Shape::strip: by_rectangles(Tiling::strip, engine.one_of({8, 16}), g.tile_cols); break;
  case Shape::rows: by_rectangles(Tiling::rows, 1, g.cols); break;
  case Shape::columns: by_rectangles(Tiling::columns, g.rows, 1); break;
  case Shape::block: by_rectangles(Tiling::block, engine.one_of({1, 2, 4}), 8); break;
  case Shape::scatter: {
    const double d = std::exp2(-8.0 * engine.unit());
    for (std::int64_t n = 0; n < captures; ++n) {
      capture(laid, [&](auto, auto) { return wrong_here(0.7 * d); });
    }
    break;
  }
  case Shape::triangle:
    capture(laid, [&](auto row, auto col) { return col * g.rows > row * g.cols; });
    break;
  case Shape::disc: {
    const double r = 0.2 + 0.25 * engine.unit(), x = 0.5 + 0.2 * engine.unit(),
                 y = 0.5 - 0.2 * engine.unit();
    capture(laid, [&](auto row, auto col) {
      return std::hypot((static_cast<double>(row) + 0.5) / static_cast<double>(g.rows) - x,
                        (static_cast<double>(col) + 0.5) / static_cast<double>(g.cols) - y) < r;
    });
    break;
  }
  case Shape::diagonal:
    capture(laid, [&](auto row, auto col) { return row % g.cols == col; });
    break;
  case Shape::gradient:
    for (std::int64_t n = 0; n < captures; ++n) {
      capture(laid, [&](auto row, auto) {
        return wrong_here(0.8 * static_cast<double>(row + 1) / static_cast<double>(g.rows + 1));
      });
    }
    break;
  }
  laid.result.trials = laid.result.failed = laid.result.wrong_values = laid.result.captures.size();
  return laid;
}

core::FootprintEvidence footprint_of(const Laid& laid) {
  const auto footprints =
      stress::examine_captures(laid.plan, core::DataMode::normal, {&laid.result}).footprints;
  return footprints.empty() ? core::FootprintEvidence{} : footprints[0];
}

std::string described(const Laid& laid, const core::FootprintEvidence& f) {
  const core::TileGeometry& g = laid.plan.buffers[0].tiles;
  return fmt::format(
      "{} x {} in tiles of {} x {}, {} captures, {} wrong: laid {} x {}, found {} {} "
      "x {} (density {:.2f}, {} of {}), runner-up {} {} x {}, 10^{:.1f}\n",
      g.rows, g.cols, g.tile_rows, g.tile_cols, laid.result.captures.size(), f.wrong, laid.rows,
      laid.cols, core::name_of(f.kind), f.block_rows, f.block_cols, f.density, f.hit, f.blocks,
      core::name_of(f.runner_up), f.runner_up_rows, f.runner_up_cols, f.log10_ratio);
}

class Footprints : public testing::TestWithParam<int> {};

TEST_P(Footprints, TheTilingIsFound) {
  const int each = draws(16);
  int right = 0, all = 0;
  std::string misses;
  for (const Shape shape : kBlocks) {
    for (int number = GetParam(); number < GetParam() + each; ++number) {
      const Laid laid = lay(shape, number);
      const core::FootprintEvidence f = footprint_of(laid);
      ++all;
      if (f.kind == laid.kind && (laid.rows == 0 || f.block_rows == laid.rows) &&
          (laid.cols == 0 || f.block_cols == laid.cols)) {
        ++right;
        EXPECT_GE(f.log10_ratio, 0.0);
        continue;
      }
      misses += fmt::format("{} {}: {}", name_of(shape), number, described(laid, f));
    }
  }
  fmt::print("footprints: {} of {} right\n{}", right, all, misses);
  EXPECT_GE(100 * right, 99 * all) << misses;
}

TEST_P(Footprints, WhatFollowsNoBlocksIsScattered) {
  const int each = draws(16);
  int right = 0, all = 0;
  std::string misses;
  for (const Shape shape : kNoBlocks) {
    for (int number = GetParam(); number < GetParam() + each; ++number) {
      const Laid laid = lay(shape, number);
      const core::FootprintEvidence f = footprint_of(laid);
      ++all;
      if (f.kind == Tiling::scattered || f.kind == Tiling::everywhere) {
        ++right;
        continue;
      }
      misses += fmt::format("{} {}: {}", name_of(shape), number, described(laid, f));
    }
  }
  fmt::print("no blocks: {} of {} right\n{}", right, all, misses);
  EXPECT_GE(100 * right, 99 * all) << misses;
}

INSTANTIATE_TEST_SUITE_P(ShapedAndHoldOut, Footprints, testing::Values(0, 3000));

// --- templates ---

/// C = A B with 8 rows a tile, the reduction in slices of 16.
constexpr std::int64_t kRows = 64, kCols = 16, kLength = 40, kTileRows = 16, kSlices = 5;

core::TrialPlan product() {
  core::TrialPlan plan;
  plan.subject = "product";
  plan.buffers.resize(3);
  plan.buffers[0].name = "A";
  plan.buffers[0].shape = {kRows, kLength};
  plan.buffers[0].reduction = {.extent = kLength, .stride = 1, .tile = kLength / kSlices};
  plan.buffers[1].name = "B";
  plan.buffers[1].shape = {kLength, kCols};
  plan.buffers[2].name = "C";
  plan.buffers[2].shape = {kRows, kCols};
  plan.buffers[2].role = core::BufferRole::output;
  plan.buffers[2].tiles = {
      .rows = kRows, .cols = kCols, .tile_rows = kTileRows, .tile_cols = kCols};
  plan.reference = [](const std::vector<core::Tensor>& in) {
    core::ReferenceTensor c;
    for (std::int64_t e = 0; e < kRows * kCols; ++e) {
      double sum = 0.0, magnitude = 0.0;
      for (std::int64_t k = 0; k < kLength; ++k) {
        const double x = in[0].at(e / kCols * kLength + k) * in[1].at(k * kCols + e % kCols);
        sum += x;
        magnitude += std::fabs(x);
      }
      c.expected.push_back(sum);
      c.bound.push_back(static_cast<double>(kLength) * 0x1p-24 * magnitude);
    }
    return std::vector{c};
  };
  return plan;
}

enum class Cause {
  missing,
  tail,
  doubled,
  stale,
  stale_one,
  previous,
  other_tile,
  transposed,
  zero,
  torn,
  f16,
  bf16,
  // and of no template:
  noise,
  factor,
  shuffled,
  offset
};
constexpr Cause kCauses[] = {
    Cause::missing,   Cause::tail,     Cause::doubled,    Cause::stale,
    Cause::stale_one, Cause::previous, Cause::other_tile, Cause::transposed,
    Cause::zero,      Cause::torn,     Cause::f16,        Cause::bf16,
    Cause::noise,     Cause::factor,   Cause::shuffled,   Cause::offset};

struct Planted {
  core::TrialResult result;
  core::TemplateEvidence what;
  bool nothing = false;
};

Planted plant(const core::TrialPlan& plan, Cause cause, int number) {
  Engine engine(104729 * static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(cause));
  const auto seed = static_cast<std::uint64_t>(engine.up_to(1, 1'000'000)),
             trial = std::uint64_t{4};
  const std::uint64_t input_seed = core::trial_seed(seed, trial);
  const auto inputs = stress::make_inputs(plan, core::DataMode::normal, input_seed);
  const auto before = plan.reference(
      stress::make_inputs(plan, core::DataMode::normal, core::trial_seed(seed, trial - 1)))[0];
  const core::ReferenceTensor reference = plan.reference(inputs)[0];
  // What slice `s` of A and slice `t` of B add to an element.
  const auto adds = [&](std::int64_t e, std::int64_t s, std::int64_t t) {
    constexpr std::int64_t kSlice = kLength / kSlices;
    double sum = 0.0;
    for (std::int64_t k = 0; k < kSlice; ++k) {
      sum += inputs[0].at(e / kCols * kLength + s * kSlice + k) *
             inputs[1].at((t * kSlice + k) * kCols + e % kCols);
    }
    return sum;
  };
  const std::int64_t tile = engine.up_to(0, kRows / kTileRows - 1);
  const std::int64_t other = (tile + engine.up_to(1, kRows / kTileRows - 1)) % (kRows / kTileRows);
  const std::int64_t s = engine.up_to(0, kSlices - 1),
                     r = (s + engine.up_to(1, kSlices - 1)) % kSlices,
                     from = engine.up_to(1, kSlices - 2);
  const std::int64_t first = engine.up_to(0, kTileRows - 4),
                     rows = engine.up_to(3, kTileRows - first - (first == 0 ? 1 : 0));
  std::vector<std::int64_t> shuffle(kTileRows * kCols);
  for (std::size_t i = 0; i < shuffle.size(); ++i) shuffle[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = shuffle.size(); i > 1; --i) {
    std::swap(shuffle[i - 1],
              shuffle[static_cast<std::size_t>(engine.up_to(0, static_cast<std::int64_t>(i) - 1))]);
  }
  const double factor = engine.one_of({1.25, 0.75, 1.5, 2.0});

  Planted planted;
  planted.nothing = cause == Cause::noise || cause == Cause::factor || cause == Cause::shuffled ||
                    cause == Cause::offset;
  const auto rounded = [&](std::int64_t e, core::Dtype dtype) {
    double sum = 0.0;
    for (std::int64_t n = 0; n < kSlices; ++n) sum = core::round_to(dtype, sum + adds(e, n, n));
    return sum;
  };
  const auto value = [&](std::int64_t e, double right) {
    const std::int64_t elsewhere = e + (other - tile) * kTileRows * kCols;
    const std::int64_t row = e / kCols, col = e % kCols, in_tile = row - tile * kTileRows;
    const auto expected = [&](std::int64_t i) {
      return reference.expected[static_cast<std::size_t>(i)];
    };
    switch (cause) {
    case Cause::missing: return right - adds(e, s, s);
    case Cause::tail: {
      double sum = right;
      for (std::int64_t n = from; n < kSlices; ++n) sum -= adds(e, n, n);
      return sum;
    }
    case Cause::doubled: return right + adds(e, s, s);
    case Cause::stale: return right - adds(e, s, s) + adds(e, r, r);
    case Cause::stale_one: return right - adds(e, s, s) + adds(e, r, s);
    case Cause::previous: return before.expected[static_cast<std::size_t>(e)];
    case Cause::other_tile: return expected(elsewhere);
    case Cause::transposed: return expected((tile * kTileRows + col) * kCols + in_tile);
    case Cause::zero: return 0.0;
    case Cause::torn:
      return in_tile >= first && in_tile < first + rows ? expected(elsewhere) : right;
    case Cause::f16: return rounded(e, core::Dtype::f16);
    case Cause::bf16: return rounded(e, core::Dtype::bf16);
    case Cause::noise: return right + 3.0 * (engine.unit() - 0.5);
    case Cause::factor: return factor * right;
    case Cause::shuffled:
      return expected(tile * kTileRows * kCols +
                      shuffle[static_cast<std::size_t>(e - tile * kTileRows * kCols)]);
    case Cause::offset: return right + 2.5;
    }
    return right;
  };
  core::TemplateEvidence& what = planted.what;
  what.tile = tile;
  switch (cause) {
  case Cause::missing: what.kind = Template::slice_missing, what.detail = what.other = s; break;
  case Cause::tail:
    what.kind = Template::slice_missing, what.detail = from, what.other = kSlices - 1;
    break;
  case Cause::doubled: what.kind = Template::slice_doubled, what.detail = s; break;
  case Cause::stale:
  case Cause::stale_one: what.kind = Template::slice_stale, what.detail = s, what.other = r; break;
  case Cause::previous: what.kind = Template::previous_output; break;
  case Cause::other_tile: what.kind = Template::other_tile, what.other = other; break;
  case Cause::transposed: what.kind = Template::transposed; break;
  case Cause::torn:
    what.kind = Template::other_tile, what.other = other;
    what.first_row = first, what.rows = rows;
    break;
  case Cause::f16: what.kind = Template::rounded_f16; break;
  case Cause::bf16: what.kind = Template::rounded_bf16; break;
  default: what.kind = Template::zero; break;
  }
  core::Tensor c(core::Dtype::f32, {kRows, kCols});
  for (std::int64_t e = 0; e < c.size(); ++e) {
    const auto n = static_cast<std::size_t>(e);
    const double right = reference.expected[n] + 0.6 * (engine.unit() - 0.5) * reference.bound[n];
    c.set(e, e / kCols / kTileRows == tile ? value(e, right) : right);
  }
  planted.result.trials = planted.result.failed = planted.result.wrong_values = 1;
  planted.result.captures = {{trial, input_seed, core::poison_word(trial), {c}}};
  return planted;
}

class Templates : public testing::TestWithParam<int> {};

TEST_P(Templates, NameTheCauseOrOwnThatItIsUnknown) {
  const int each = draws(8);
  const core::TrialPlan plan = product();
  int right = 0, all = 0;
  std::string misses;
  for (const Cause cause : kCauses) {
    for (int number = GetParam(); number < GetParam() + each; ++number) {
      const Planted planted = plant(plan, cause, number);
      const auto found =
          stress::examine_captures(plan, core::DataMode::normal, {&planted.result}).templates;
      ++all;
      ASSERT_EQ(found.size(), 2u);
      const core::TemplateEvidence &best = found[0], &laid = planted.what;
      const bool named = best.r_squared >= diagnosis::kNamedFrom;
      const bool same = best.kind == laid.kind && best.tile == laid.tile &&
                        best.detail == laid.detail && best.other == laid.other &&
                        best.first_row == laid.first_row && best.rows == laid.rows;
      if (planted.nothing ? !named : named && same) {
        ++right;
        continue;
      }
      misses += fmt::format("cause {} number {}: {} tile {} {} {} rows {} {} R^2 {}; laid {} {} {} "
                            "{} {} {}\n",
                            static_cast<int>(cause), number, core::name_of(best.kind), best.tile,
                            best.detail, best.other, best.first_row, best.rows, best.r_squared,
                            core::name_of(laid.kind), laid.tile, laid.detail, laid.other,
                            laid.first_row, laid.rows);
    }
  }
  fmt::print("templates: {} of {} right\n{}", right, all, misses);
  EXPECT_GE(100 * right, 99 * all) << misses;
}

INSTANTIATE_TEST_SUITE_P(ShapedAndHoldOut, Templates, testing::Values(0, 3000));

TEST(Templates, OfALargeOutputInSmallTilesAPartIsLookedAt) {
  constexpr std::int64_t kCovered = std::int64_t{1} << 22, kMore = 4096;
  Laid laid;
  laid.plan = plan_of({kCovered / kMore + 1, kMore}, {.rows = kCovered / kMore + 1, .cols = kMore});
  // The whole last row, which a part that begins with the first element would miss.
  capture(laid, [&](auto row, auto) { return row == kCovered / kMore; });
  const auto found =
      stress::examine_captures(laid.plan, core::DataMode::normal, {&laid.result}).templates;
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].tile, -1);
  EXPECT_EQ(found[0].elements, static_cast<std::uint64_t>(kCovered));
}

// --- words ---

core::Verdict verdict_of(const core::TrialResult& result, const stress::CaptureExamination& found) {
  core::Evidence evidence;
  evidence.subject = "product";
  evidence.mode = "stress";
  evidence.arms.resize(1);
  evidence.arms[0].result = result;
  core::OutputTotals output;
  output.name = "C";
  output.compared_elements = kRows * kCols;
  output.bad_elements = 256;
  output.bad_trials = 1;
  evidence.arms[0].result.outputs = {output};
  evidence.footprints = found.footprints;
  evidence.templates = found.templates;
  return diagnosis::diagnose(evidence);
}

TEST(FootprintWords, StandInTheFinding) {
  const core::TrialPlan plan = product();
  const Planted known = plant(plan, Cause::stale, 1), noise = plant(plan, Cause::noise, 3);
  const auto texts = [&](const Planted& p) {
    const auto found = stress::examine_captures(plan, core::DataMode::normal, {&p.result});
    const core::Verdict verdict = verdict_of(p.result, found);
    EXPECT_EQ(verdict.findings[0].finding, core::FindingClass::unknown);
    return verdict.findings[0].evidence;
  };
  EXPECT_THAT(texts(known),
              testing::Contains(testing::HasSubstr(fmt::format(
                  "footprint of C: its tiles of 16 x 16 (tile {} of 4)", known.what.tile))));
  EXPECT_THAT(texts(known), testing::Contains(testing::HasSubstr(fmt::format(
                                "C, tile {}: the error is that of slice {} of the reduction in the "
                                "place of slice {}: R^2 = 0.99",
                                known.what.tile, known.what.other, known.what.detail))));
  EXPECT_THAT(texts(noise), testing::Contains(testing::HasSubstr("unknown: no template explains")));
}

TEST(FootprintWords, TermsStandInTheSameBank) {
  core::Evidence evidence;
  evidence.templates = {{Template::other_tile, "dk", 3, 0, 2, 4, 8, 256, 0.62},
                        {Template::zero, "dk", 3, 0, 0, 0, 0, 256, 0.0}};
  EXPECT_EQ(diagnosis::template_text(evidence, "dk"),
            "tile 3: what belongs to tile 2 in rows 4 to 11 of the tile comes closest to the "
            "error, and leaves some of it: R^2 = 0.62; nothing else explains any of it");
  core::TermEvidence term;
  term.name = "A_inv";
  term.elements = 4096;
  term.outputs = {{"dk", 20.0, 900, -1.002, 0.9987}};
  evidence.terms = {term};
  EXPECT_EQ(diagnosis::template_text(evidence, "dk"),
            "over the output: the error is that of the term A_inv left out: R^2 = 0.998; next "
            "what belongs to tile 2 in rows 4 to 11 of the tile (tile 3): 0.62");
  // As many digits as it takes to tell the two apart.
  evidence.terms[0].outputs[0].r_squared = 0.99987;
  evidence.templates[0].r_squared = 0.99912;
  EXPECT_THAT(diagnosis::template_text(evidence, "dk"),
              testing::AllOf(testing::HasSubstr("R^2 = 0.9998; next"),
                             testing::EndsWith("(tile 3): 0.9991")));
  evidence.templates[0].r_squared = 0.99987;
  EXPECT_THAT(diagnosis::template_text(evidence, "dk"), testing::EndsWith("explains as much"));
  evidence.templates[0].r_squared = 0.62;
  evidence.terms[0].outputs[0].r_squared = 0.55;
  EXPECT_EQ(diagnosis::template_text(evidence, "dk"),
            "tile 3: what belongs to tile 2 in rows 4 to 11 of the tile comes closest to the "
            "error, and leaves some of it: R^2 = 0.62; next the term A_inv left out (over the "
            "output): 0.55");
  evidence.terms[0].outputs[0].r_squared = 0.3;
  evidence.templates[0].r_squared = 0.2;
  EXPECT_EQ(diagnosis::template_text(evidence, "dk"),
            "over the output: unknown: no template explains half of the error (best: the term "
            "A_inv left out, R^2 = 0.3)");
  EXPECT_EQ(diagnosis::template_text(evidence, "dv"), "");
  // One that is exact says more.
  evidence.readings = {{core::ErrorReading::Kind::offset, "dk", 256, 250, 1, 0, 0, 0.5}};
  EXPECT_EQ(diagnosis::template_text(evidence, "dk"), "");
}

}  // namespace
}  // namespace faultline
