// SPDX-License-Identifier: Apache-2.0
#include "footprint.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

namespace faultline::stress::detail {
namespace {

using TilingKind = core::FootprintEvidence::Kind;
using Patterns = std::vector<std::vector<std::int64_t>>;

/// Patterns kept of one output: so many, and of so many elements in all, but one at least.
constexpr std::size_t kPatternsKept = 16;
constexpr std::int64_t kElementsKept = std::int64_t{1} << 22;
/// Below this many elements a block is hardly one, and their number says more than the tiling.
constexpr std::int64_t kSmallestBlock = 8;
constexpr double kContrast = 8.0;  ///< least density of hit blocks over that of clean ones
/// What one density for all hit blocks may lose against one for each: a share of the bits gained,
/// and so many more.
constexpr double kLackOfFit = 0.1, kSlackBits = 4.0;
/// Pairs of wrong elements in one row (or column) of a block over what chance gives, either way;
/// asked where chance gives at least so many.
constexpr double kLines = 3.0, kPairsExpected = 8.0;
constexpr double kShapeBits = 2.0;  ///< by which a shape that nothing suggests must be ahead

/// Bits to name each kind of tiling: the plan's own first. What is left is shared by other blocks.
constexpr double kBitsOfTile = 2.0, kBitsOfKnown = 4.0, kBitsOfOthers = 2.0, kBitsOfNull = 3.0;

/// lgamma and log2 of a library may give other last digits on other processors. What is compared
/// and stored must not: it is rounded to less than any limit here can tell.
double rounded(double bits) { return std::round(bits * 0x1p10) * 0x1p-10; }
constexpr double kLog10Of2 = 0.30102999566398120;

double log2_gamma(double x) { return std::lgamma(x) / std::log(2.0); }

/// Bits to say which `k` of `n` elements are wrong, without knowing how many to expect.
double content_bits(double k, double n) {
  const double log2_pi = std::log2(std::acos(-1.0));
  return n <= 0.0 ? 0.0
                  : log2_gamma(n + 1.0) + log2_pi - log2_gamma(k + 0.5) - log2_gamma(n - k + 0.5);
}

/// Bits to say which `h` of `b` blocks are hit.
double choice_bits(double h, double b) {
  return std::log2(b + 1.0) + log2_gamma(b + 1.0) - log2_gamma(h + 1.0) - log2_gamma(b - h + 1.0);
}

/// One way to cut an output.
struct Tiling {
  TilingKind kind = TilingKind::block;
  std::int64_t rows = 0, cols = 0;  ///< of a rectangle; both 0: see block_of_tile
  /// Of blocks that consist of tiles: which a tile belongs to.
  std::function<std::int64_t(std::int64_t)> block_of_tile{};
  std::int64_t row_period = 0, col_period = 0;  ///< of TilingKind::place: one of them
  std::size_t blocks = 0;
  double naming_bits = 0.0;

  bool rectangular() const { return !block_of_tile && row_period == 0 && col_period == 0; }
};

/// Every way in which this output is tried.
class Candidates {
 public:
  explicit Candidates(const core::BufferSpec& spec) : spec_(spec), g_(spec.tiles) {
    if (g_.rows * g_.cols != spec.elements()) g_ = {.rows = spec.elements()};
    add_rectangle(TilingKind::tile, g_.tile_rows, g_.tile_cols, kBitsOfTile);
    add_tiles();
    add_groups();
    for (const std::int64_t strip : {8, 16, 32}) {
      if (strip < g_.tile_rows) add_rectangle(TilingKind::strip, strip, g_.tile_cols, kBitsOfKnown);
    }
    add_rectangle(TilingKind::rows, 1, g_.cols, kBitsOfKnown);
    add_rectangle(TilingKind::columns, g_.rows, 1, kBitsOfKnown);
    add_places();
    add_others();
  }

  const core::TileGeometry& geometry() const { return g_; }
  const std::vector<Tiling>& all() const { return all_; }

 private:
  void add_rectangle(TilingKind kind, std::int64_t rows, std::int64_t cols, double bits) {
    rows = std::min(rows, g_.rows);
    cols = std::min(cols, g_.cols);
    const std::int64_t down = (g_.rows + rows - 1) / rows, across = (g_.cols + cols - 1) / cols;
    if (rows * cols < 2 || down * across < 2) return;
    for (const Tiling& known : all_) {
      if (known.rectangular() && known.rows == rows && known.cols == cols) return;
    }
    all_.push_back({.kind = kind,
                    .rows = rows,
                    .cols = cols,
                    .blocks = static_cast<std::size_t>(down * across),
                    .naming_bits = bits});
  }

  /// Blocks that consist of whole tiles, unless there is but one of them or each is one tile.
  void add_of_tiles(TilingKind kind, std::function<std::int64_t(std::int64_t)> block_of_tile) {
    std::int64_t blocks = 1;
    for (std::int64_t t = 0; t < g_.tile_count(); ++t) {
      blocks = std::max(blocks, block_of_tile(t) + 1);
    }
    if (blocks < 2 || blocks == g_.tile_count()) return;
    for (const Tiling& known : all_) {
      if (known.block_of_tile && same_blocks(known.block_of_tile, block_of_tile)) return;
    }
    all_.push_back({.kind = kind,
                    .block_of_tile = std::move(block_of_tile),
                    .blocks = static_cast<std::size_t>(blocks),
                    .naming_bits = kBitsOfKnown});
  }

  bool same_blocks(const auto& a, const auto& b) const {
    for (std::int64_t t = 0; t < g_.tile_count(); ++t) {
      if (a(t) != b(t)) return false;
    }
    return true;
  }

  void add_tiles() {
    const std::int64_t per_group = g_.tiles_per_group, across = g_.tiles_across();
    const auto position = [g = g_](std::int64_t t) { return g.position_of(t); };
    if (per_group > 1) {
      add_of_tiles(TilingKind::group, [=](std::int64_t t) { return t / per_group; });
      add_of_tiles(TilingKind::position, position);
      add_of_tiles(TilingKind::last_tile, [=](std::int64_t t) -> std::int64_t {
        return position(t) == per_group - 1 ? 1 : 0;
      });
    }
    if (const std::int64_t depth = g_.pipeline_depth; depth > 1) {
      const std::int64_t groups = per_group > 0 ? per_group : g_.tile_count();
      add_of_tiles(TilingKind::buffer,
                   [=](std::int64_t t) { return t / groups * depth + position(t) % depth; });
      add_of_tiles(TilingKind::buffer, [=](std::int64_t t) { return position(t) % depth; });
    }
    const std::int64_t down = g_.tiles_down();
    add_of_tiles(TilingKind::last_tile,
                 [=](std::int64_t t) -> std::int64_t { return t / across == down - 1 ? 1 : 0; });
    add_of_tiles(TilingKind::last_tile,
                 [=](std::int64_t t) -> std::int64_t { return t % across == across - 1 ? 1 : 0; });
  }

  /// One index of the leading axes is so many rows.
  void add_groups() {
    std::int64_t leading = 1;
    for (const std::int64_t extent : spec_.shape) {
      leading *= std::max<std::int64_t>(extent, 1);
      if (leading < 2 || g_.rows % leading != 0 || leading == g_.rows) continue;
      add_rectangle(TilingKind::group, g_.rows / leading, g_.cols, kBitsOfKnown);
    }
  }

  void add_place(bool of_rows, std::int64_t period) {
    const std::int64_t extent = of_rows ? g_.rows : g_.cols;
    if (period < 2 || extent < 2 * period) return;
    Tiling tiling{.kind = TilingKind::place,
                  .blocks = static_cast<std::size_t>(period),
                  .naming_bits = kBitsOfKnown + 1.0};
    (of_rows ? tiling.row_period : tiling.col_period) = period;
    all_.push_back(std::move(tiling));
  }

  void add_places() {
    std::vector<std::int64_t> periods{2, 4, 8, 16, 32};
    for (const bool of_rows : {true, false}) {
      const std::int64_t tile = of_rows ? g_.tile_rows : g_.tile_cols;
      add_place(of_rows, tile);
      for (const std::int64_t period : periods) {
        if (period != tile) add_place(of_rows, period);
      }
    }
  }

  /// Powers of two by powers of two, and by the whole extent.
  void add_others() {
    const auto sizes = [](std::int64_t extent) {
      std::vector<std::int64_t> all;
      for (std::int64_t size = 1; size < extent; size *= 2) all.push_back(size);
      all.push_back(extent);
      return all;
    };
    const std::size_t known = all_.size();
    for (const std::int64_t rows : sizes(g_.rows)) {
      for (const std::int64_t cols : sizes(g_.cols)) {
        if (rows * cols >= kSmallestBlock) add_rectangle(TilingKind::block, rows, cols, 0.0);
      }
    }
    const double others = static_cast<double>(std::max<std::size_t>(all_.size() - known, 1));
    for (std::size_t i = known; i < all_.size(); ++i) {
      all_[i].naming_bits = kBitsOfOthers + std::log2(others);
    }
  }

  const core::BufferSpec& spec_;
  core::TileGeometry g_;
  std::vector<Tiling> all_;
};

/// A tiling held against the patterns.
struct Fit {
  const Tiling* tiling = nullptr;
  double bits = 0.0;
  double limit = 0.0;  ///< blocks with a greater density count as hit
  double hit = 0.0;    ///< over all patterns
  double in_hit = 0.0, hit_size = 0.0;
  bool is_hit(std::uint32_t wrong, double size) const { return wrong > limit * size; }
};

/// How many elements of any rectangle are wrong in one pattern.
class Sums {
 public:
  Sums(const core::TileGeometry& g, const std::vector<std::int64_t>& pattern)
      : width_(g.cols + 1), sums_(static_cast<std::size_t>((g.rows + 1) * (g.cols + 1))) {
    for (const std::int64_t i : pattern) sums_[place(i / g.cols + 1, i % g.cols + 1)] = 1;
    for (std::int64_t row = 1; row <= g.rows; ++row) {
      std::uint32_t in_row = 0;
      for (std::int64_t col = 1; col <= g.cols; ++col) {
        in_row += sums_[place(row, col)];
        sums_[place(row, col)] = sums_[place(row - 1, col)] + in_row;
      }
    }
  }
  std::uint32_t of(std::int64_t row, std::int64_t col, std::int64_t row_end,
                   std::int64_t col_end) const {
    return sums_[place(row_end, col_end)] - sums_[place(row, col_end)] -
           sums_[place(row_end, col)] + sums_[place(row, col)];
  }

 private:
  std::size_t place(std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(row * width_ + col);
  }
  std::int64_t width_;
  std::vector<std::uint32_t> sums_;
};

/// Calls `visit(block, first row, first column, end of rows, end of columns)` for rectangles that
/// are cut row-major.
void for_each_rectangle(const core::TileGeometry& g, std::int64_t rows, std::int64_t cols,
                        auto visit) {
  std::size_t block = 0;
  for (std::int64_t row = 0; row < g.rows; row += rows) {
    for (std::int64_t col = 0; col < g.cols; col += cols) {
      visit(block++, row, col, std::min(row + rows, g.rows), std::min(col + cols, g.cols));
    }
  }
}

/// The blocks of one tiling. Of an output of n elements they may be n / kSmallestBlock, so one
/// tiling has them at a time.
struct Blocks {
  std::vector<double> sizes;          ///< elements of each block
  std::vector<std::uint32_t> counts;  ///< wrong ones of each block, pattern after pattern

  /// Calls `visit(wrong elements, size, block)`, pattern after pattern.
  void for_each(auto visit) const {
    for (std::size_t first = 0; first < counts.size(); first += sizes.size()) {
      for (std::size_t block = 0; block < sizes.size(); ++block) {
        visit(counts[first + block], sizes[block], block);
      }
    }
  }
};

std::vector<double> sizes_of(const Tiling& tiling, const core::TileGeometry& g) {
  std::vector<double> sizes(tiling.blocks);
  if (tiling.rectangular()) {
    for_each_rectangle(g, tiling.rows, tiling.cols,
                       [&](std::size_t block, auto row, auto col, auto row_end, auto col_end) {
                         sizes[block] = static_cast<double>((row_end - row) * (col_end - col));
                       });
  } else if (tiling.row_period > 0 || tiling.col_period > 0) {
    const bool of_rows = tiling.row_period > 0;
    const auto period = static_cast<std::int64_t>(tiling.blocks);
    for (std::int64_t i = 0; i < period; ++i) {
      const std::int64_t lines = ((of_rows ? g.rows : g.cols) - i + period - 1) / period;
      sizes[static_cast<std::size_t>(i)] = static_cast<double>(lines * (of_rows ? g.cols : g.rows));
    }
  } else {
    for_each_rectangle(
        g, g.tile_rows, g.tile_cols,
        [&](std::size_t tile, auto row, auto col, auto row_end, auto col_end) {
          sizes[static_cast<std::size_t>(tiling.block_of_tile(static_cast<std::int64_t>(tile)))] +=
              static_cast<double>((row_end - row) * (col_end - col));
        });
  }
  return sizes;
}

/// Wrong elements of each block, pattern after pattern.
std::vector<std::uint32_t> counts_of(const Tiling& tiling, const core::TileGeometry& g,
                                     const std::vector<Sums>& patterns) {
  std::vector<std::uint32_t> counts(tiling.blocks * patterns.size());
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    std::uint32_t* here = counts.data() + p * tiling.blocks;
    const Sums& sums = patterns[p];
    if (tiling.rectangular()) {
      for_each_rectangle(g, tiling.rows, tiling.cols,
                         [&](std::size_t block, auto row, auto col, auto row_end, auto col_end) {
                           here[block] = sums.of(row, col, row_end, col_end);
                         });
    } else if (tiling.row_period > 0) {
      for (std::int64_t row = 0; row < g.rows; ++row) {
        here[row % tiling.row_period] += sums.of(row, 0, row + 1, g.cols);
      }
    } else if (tiling.col_period > 0) {
      for (std::int64_t col = 0; col < g.cols; ++col) {
        here[col % tiling.col_period] += sums.of(0, col, g.rows, col + 1);
      }
    } else {
      for_each_rectangle(g, g.tile_rows, g.tile_cols,
                         [&](std::size_t tile, auto row, auto col, auto row_end, auto col_end) {
                           here[tiling.block_of_tile(static_cast<std::int64_t>(tile))] +=
                               sums.of(row, col, row_end, col_end);
                         });
    }
  }
  return counts;
}

/// The best split of the blocks into hit and clean ones; nothing when there is none.
std::optional<Fit> fit(const Tiling& tiling, const Blocks& blocks, double wrong, double elements) {
  double densest = 0.0;
  blocks.for_each([&](std::uint32_t count, double size, std::size_t) {
    if (count > 0) densest = std::max(densest, count / size);
  });
  constexpr double kLimits[] = {0.0, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2};
  std::optional<Fit> best;
  for (const double share : kLimits) {
    Fit f{.tiling = &tiling, .limit = share * densest};
    bool another_hit = false;  // than the last tile
    blocks.for_each([&](std::uint32_t count, double size, std::size_t block) {
      if (!f.is_hit(count, size)) return;
      f.hit += 1.0;
      f.in_hit += count;
      f.hit_size += size;
      another_hit = another_hit || block == 0;
    });
    const double in_clean = wrong - f.in_hit, clean_size = elements - f.hit_size;
    if (clean_size > 0.0 && kContrast * in_clean * f.hit_size > f.in_hit * clean_size) continue;
    f.bits = tiling.naming_bits + std::log2(static_cast<double>(std::size(kLimits))) +
             content_bits(f.in_hit, f.hit_size) + content_bits(in_clean, clean_size);
    if (tiling.kind == TilingKind::last_tile) {
      if (another_hit) continue;  // its name says which block is hit
    } else {
      f.bits += choice_bits(f.hit, static_cast<double>(blocks.counts.size()));
    }
    f.bits = rounded(f.bits);
    if (!best || f.bits < best->bits) best = f;
  }
  return best;
}

/// Are hit blocks about as full as each other? `gained`: bits that the tiling saves. What the plan
/// suggests need not be as even as chance: a torn tile is a tile.
bool evenly_filled(const Fit& f, const Blocks& blocks, double gained) {
  const double density = f.in_hit / f.hit_size;
  double own_bits = 0.0;  // with a density of its own for each
  double spread = 0.0;    // chi squared
  blocks.for_each([&](std::uint32_t count, double size, std::size_t) {
    if (!f.is_hit(count, size)) return;
    own_bits += content_bits(count, size);
    spread += std::pow(count - size * density, 2) / (size * density);
  });
  const bool of_plan = f.tiling->kind != TilingKind::block && f.tiling->kind != TilingKind::rows &&
                       f.tiling->kind != TilingKind::columns && f.tiling->kind != TilingKind::place;
  constexpr double kSpread = 1.5, kDeviations = 4.0;
  const double by_chance = f.hit * (1.0 - density);
  if (!of_plan && spread > kSpread * by_chance &&
      spread > by_chance + kDeviations * std::sqrt(2.0 * f.hit) * (1.0 - density)) {
    return false;
  }
  return content_bits(f.in_hit, f.hit_size) - own_bits <= kLackOfFit * gained + kSlackBits;
}

/// Blocks of a shape that nothing in the plan suggests, lying side by side: then it is a region
/// with an outline of its own that they cover, and other blocks would do as well.
bool covers_region(const Fit& f, const core::TileGeometry& g, const Blocks& of) {
  if (f.tiling->kind != TilingKind::block) return false;
  const auto across = static_cast<std::size_t>((g.cols + f.tiling->cols - 1) / f.tiling->cols);
  const auto& [sizes, counts] = of;
  const std::size_t blocks = sizes.size();
  double pairs = 0.0, both_hit = 0.0, one_hit = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t block = i % blocks;
    const bool hit = f.is_hit(counts[i], sizes[block]);
    const auto look = [&](std::size_t other) {
      const bool other_hit = f.is_hit(counts[i + other - block], sizes[other]);
      pairs += 1.0;
      both_hit += hit && other_hit;
      one_hit += hit != other_hit;
    };
    if ((block + 1) % across != 0) look(block + 1);
    if (block + across < blocks) look(block + across);
  }
  const double rate = f.hit / static_cast<double>(counts.size());
  const double both_expected = rate * rate * pairs;
  const double one_expected = 2.0 * rate * (1.0 - rate) * pairs;
  return (both_hit >= 2.0 && both_hit >= 2.5 * both_expected + 1.0) ||
         (one_expected >= kPairsExpected && one_hit < 0.6 * one_expected);
}

/// Do pairs of wrong elements lie in one row, or one column, of a block about as often as chance
/// has them? A diagonal or a hatching is none of the blocks that cover it.
bool without_lines(const Fit& f, const core::TileGeometry& g, const Patterns& patterns,
                   const Blocks& blocks) {
  if (!f.tiling->rectangular()) return true;
  const auto pairs = [](double n) { return 0.5 * n * (n - 1.0); };
  double row_pairs = 0.0, col_pairs = 0.0, row_expected = 0.0, col_expected = 0.0;
  const auto rows = static_cast<double>(f.tiling->rows), cols = static_cast<double>(f.tiling->cols);
  blocks.for_each([&](std::uint32_t count, double size, std::size_t) {
    if (!f.is_hit(count, size) || size < 2.0) return;
    row_expected += pairs(count) * (std::min(cols, size) - 1.0) / (size - 1.0);
    col_expected += pairs(count) * (std::min(rows, size) - 1.0) / (size - 1.0);
  });
  std::unordered_map<std::int64_t, std::uint32_t> in_row, in_col;
  for (const auto& pattern : patterns) {
    in_row.clear();
    in_col.clear();
    for (const std::int64_t element : pattern) {
      const std::int64_t row = element / g.cols, col = element % g.cols;
      ++in_row[row * g.cols + col / f.tiling->cols];
      ++in_col[row / f.tiling->rows * g.cols + col];
    }
    for (const auto& [line, n] : in_row) row_pairs += pairs(n);
    for (const auto& [line, n] : in_col) col_pairs += pairs(n);
  }
  const auto by_chance = [](double found, double expected) {
    return expected < kPairsExpected || (found <= kLines * expected && expected <= kLines * found);
  };
  return by_chance(row_pairs, row_expected) && by_chance(col_pairs, col_expected) &&
         by_chance(row_pairs + col_pairs, row_expected + col_expected);
}

std::int64_t rows_of(const Tiling& tiling) {
  return tiling.rectangular() ? tiling.rows : tiling.row_period;
}
std::int64_t cols_of(const Tiling& tiling) {
  return tiling.rectangular() ? tiling.cols : tiling.col_period;
}

core::FootprintEvidence infer(const core::BufferSpec& spec, const Patterns& patterns) {
  const Candidates candidates(spec);
  double wrong = 0.0;
  for (const auto& pattern : patterns) wrong += static_cast<double>(pattern.size());
  const double elements =
      static_cast<double>(spec.elements()) * static_cast<double>(patterns.size());

  core::FootprintEvidence evidence;
  evidence.output = spec.name;
  evidence.patterns = patterns.size();
  evidence.wrong = static_cast<std::uint64_t>(wrong);
  evidence.compared = static_cast<std::uint64_t>(elements);
  evidence.density = wrong / elements;
  evidence.kind = wrong >= 0.9 * elements ? TilingKind::everywhere : TilingKind::scattered;

  const double null_bits = rounded(kBitsOfNull + content_bits(wrong, elements));
  std::vector<Sums> sums;
  for (const auto& pattern : patterns) sums.emplace_back(candidates.geometry(), pattern);
  const auto blocks_of = [&](const Tiling& tiling) {
    return Blocks{sizes_of(tiling, candidates.geometry()),
                  counts_of(tiling, candidates.geometry(), sums)};
  };
  std::vector<Fit> fits;
  for (const Tiling& tiling : candidates.all()) {
    if (std::optional<Fit> f = fit(tiling, blocks_of(tiling), wrong, elements)) fits.push_back(*f);
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& a, const Fit& b) { return a.bits < b.bits; });
  const auto runner_up = [&](const Tiling* tiling, double bits) {
    if (tiling) {
      evidence.runner_up = tiling->kind;
      evidence.runner_up_rows = rows_of(*tiling);
      evidence.runner_up_cols = cols_of(*tiling);
    }
    evidence.log10_ratio = bits * kLog10Of2;
  };
  const bool beaten = !fits.empty() && null_bits - fits[0].bits >= Footprints::kLeastBits;
  if (!beaten) {
    runner_up(fits.empty() ? nullptr : fits[0].tiling,
              fits.empty() ? 0.0 : fits[0].bits - null_bits);
    return evidence;
  }
  // Of two that are as likely, the one that the plan suggests.
  if (fits.size() > 1 && fits[0].tiling->kind == TilingKind::block &&
      fits[1].tiling->kind != TilingKind::block && fits[1].bits - fits[0].bits < kShapeBits) {
    std::swap(fits[0], fits[1]);
  }
  const Fit& best = fits[0];
  const Blocks blocks = blocks_of(*best.tiling);
  // The next that cuts the output in another way.
  const auto other = std::find_if(fits.begin() + 1, fits.end(), [&](const Fit& f) {
    return f.tiling->kind != best.tiling->kind || f.tiling->blocks != best.tiling->blocks ||
           sizes_of(*f.tiling, candidates.geometry()) != blocks.sizes;
  });
  const double ahead =
      other == fits.end() ? null_bits - best.bits : std::min(other->bits, null_bits) - best.bits;
  // What describes them best and yet does not fit names no blocks.
  if (!evenly_filled(best, blocks, null_bits - best.bits) ||
      !without_lines(best, candidates.geometry(), patterns, blocks) ||
      covers_region(best, candidates.geometry(), blocks) ||
      (best.tiling->kind == TilingKind::block && ahead < kShapeBits)) {
    runner_up(best.tiling, 0.0);
    return evidence;
  }
  evidence.kind = best.tiling->kind;
  evidence.block_rows = rows_of(*best.tiling);
  evidence.block_cols = cols_of(*best.tiling);
  evidence.density = best.in_hit / best.hit_size;
  evidence.blocks = best.tiling->blocks;
  std::vector<std::uint32_t> times(best.tiling->blocks);
  blocks.for_each([&](std::uint32_t count, double size, std::size_t block) {
    times[block] += best.is_hit(count, size);
  });
  const std::uint32_t most = *std::max_element(times.begin(), times.end());
  constexpr std::size_t kNamed = 8;
  for (std::size_t block = 0; block < times.size(); ++block) {
    evidence.hit += times[block] > 0;
    if (times[block] == most && evidence.hit_blocks.size() < kNamed) {
      evidence.hit_blocks.push_back(static_cast<std::int64_t>(block));
    }
  }
  runner_up(other != fits.end() && other->bits < null_bits ? other->tiling : nullptr,
            std::max(ahead, 0.0));
  return evidence;
}

}  // namespace

Footprints::Footprints(const core::TrialPlan& plan)
    : plan_(plan), indices_(plan.output_indices()), outputs_(indices_.size()) {}

void Footprints::add(std::uint32_t o, std::vector<std::int64_t> wrong) {
  if (wrong.empty()) return;
  Output& output = outputs_[o];
  ++output.trials;
  if (std::find(output.patterns.begin(), output.patterns.end(), wrong) != output.patterns.end()) {
    return;
  }
  const auto kept = static_cast<std::int64_t>(output.patterns.size());
  if (kept > 0 && (output.patterns.size() == kPatternsKept ||
                   (kept + 1) * plan_.buffers[indices_[o]].elements() > kElementsKept)) {
    return;
  }
  output.patterns.push_back(std::move(wrong));
}

std::vector<core::FootprintEvidence> Footprints::result() const {
  std::vector<core::FootprintEvidence> all;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    if (outputs_[o].patterns.empty()) continue;
    all.push_back(infer(plan_.buffers[indices_[o]], outputs_[o].patterns));
    all.back().trials = outputs_[o].trials;
  }
  return all;
}

}  // namespace faultline::stress::detail
