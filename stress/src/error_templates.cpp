// SPDX-License-Identifier: Apache-2.0
#include "error_templates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "faultline/core/acceptance.hpp"

namespace faultline::stress::detail {
namespace {

using TemplateKind = core::TemplateEvidence::Kind;
using References = std::vector<core::ReferenceTensor>;

constexpr std::size_t kKept = 2;
/// Through fewer elements chance fits: then the whole output is looked at.
constexpr std::size_t kFewestElements = 32;
/// Tearing must explain so much more than the whole tile does.
constexpr double kTearingGains = 0.05;
/// Values looked at for all other tiles together, and steps of all sums with a slice changed.
constexpr std::int64_t kValues = std::int64_t{1} << 22, kSteps = std::int64_t{1} << 27;
constexpr std::int64_t kMostSlices = 64;

/// The elements of an output's worst tile that can be fitted, and their residuals in units of what
/// the comparison allows. Where tiles are too small or too large: those of the whole output, of a
/// large one kValues around its worst element.
class Region {
 public:
  Region(const core::BufferSpec& spec, const core::Tensor& got,
         const core::ReferenceTensor& reference, const core::ElementPoison& poison)
      : g_(spec.tiles), reference_(reference) {
    struct Tile {
      double weight = 0.0;  // of its residuals
      std::size_t size = 0;
    };
    const std::int64_t of_tile = std::min(g_.tile_rows, g_.rows) * std::min(g_.tile_cols, g_.cols);
    const bool by_tiles =
        of_tile >= static_cast<std::int64_t>(kFewestElements) && of_tile <= kValues;
    std::vector<Tile> tiles(by_tiles ? static_cast<std::size_t>(g_.tile_count()) : 0);
    double worst = -1.0;
    std::int64_t worst_element = 0;
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const std::optional<Checked> checked = check(spec, got, poison[i], i);
      if (!checked) continue;
      any_wrong_ = any_wrong_ || checked->wrong;
      const double square = checked->element.residual * checked->element.residual;
      if (square > worst) {
        worst = square;
        worst_element = i;
      }
      if (!by_tiles) continue;
      Tile& tile = tiles[static_cast<std::size_t>(g_.tile_of(i))];
      tile.weight += square;
      ++tile.size;
    }
    if (!any_wrong_) return;
    if (by_tiles) {
      const auto most =
          std::max_element(tiles.begin(), tiles.end(),
                           [](const Tile& a, const Tile& b) { return a.weight < b.weight; });
      if (most->size >= kFewestElements) tile_ = most - tiles.begin();
    }
    const auto keep = [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        const std::optional<Checked> checked = check(spec, got, poison[i], i);
        if (!checked) continue;
        elements_.push_back(checked->element);
        squares_ += checked->element.residual * checked->element.residual;
      }
    };
    if (tile_ < 0) {
      const std::int64_t first = std::clamp<std::int64_t>(
          worst_element - kValues / 2, 0, std::max<std::int64_t>(0, got.size() - kValues));
      keep(first, std::min(first + kValues, got.size()));
      return;
    }
    const std::int64_t row = tile_ / g_.tiles_across() * g_.tile_rows,
                       col = tile_ % g_.tiles_across() * g_.tile_cols;
    for (std::int64_t r = row; r < std::min(row + g_.tile_rows, g_.rows); ++r) {
      keep(r * g_.cols + col, r * g_.cols + std::min(col + g_.tile_cols, g_.cols));
    }
  }

  bool usable() const { return any_wrong_ && squares_ > 0.0 && std::isfinite(squares_); }
  std::int64_t tile() const { return tile_; }
  std::size_t size() const { return elements_.size(); }
  std::int64_t element(std::size_t i) const { return elements_[i].index; }
  double expected(std::size_t i) const {
    return reference_.expected[static_cast<std::size_t>(elements_[i].index)];
  }

  /// As small as the comparison can tell from zero.
  bool is_zero(std::size_t i) const {
    const Element& e = elements_[i];
    return std::fabs(expected(i) + e.residual * e.unit) <= e.unit;
  }

  /// R^2 of "the kernel gave `values`" (one for each element), torn where that explains more.
  void hold(core::TemplateEvidence what, const std::vector<double>& values, bool may_be_torn,
            std::vector<core::TemplateEvidence>& found) const {
    std::vector<std::pair<std::int64_t, double>> gains;  // of each row
    double gain = 0.0;
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      const Element& e = elements_[i];
      if (!std::isfinite(values[i])) return;
      const double rest = e.residual - (values[i] - expected(i)) / e.unit;
      const double g = e.residual * e.residual - rest * rest;
      gain += g;
      if (gains.empty() || gains.back().first != e.index / g_.cols) {
        gains.emplace_back(e.index / g_.cols, 0.0);
      }
      gains.back().second += g;
    }
    what.elements = elements_.size();
    what.tile = tile_;
    what.r_squared = gain / squares_;
    if (may_be_torn && tile_ >= 0) tear(what, gains);
    found.push_back(std::move(what));
  }

 private:
  struct Element {
    std::int64_t index = 0;
    double unit = 0.0, residual = 0.0;
  };
  struct Checked {
    Element element;
    bool wrong = false;
  };

  /// Nothing for an element that cannot be fitted.
  std::optional<Checked> check(const core::BufferSpec& spec, const core::Tensor& got,
                               std::uint64_t poison, std::int64_t i) const {
    const auto n = static_cast<std::size_t>(i);
    const double expected = reference_.expected[n], bound = reference_.bound[n], x = got.at(i);
    if (core::stays_untouched(bound) || !std::isfinite(expected) || !std::isfinite(bound) ||
        bound < 0.0 || !std::isfinite(x)) {
      return std::nullopt;
    }
    const core::ElementClass kind =
        core::check_element(spec.dtype, got.bits(i), expected, bound, poison).kind;
    if (kind == core::ElementClass::poison) return std::nullopt;
    const double unit =
        bound + 0.5 * core::ulp_at(spec.dtype, core::round_to(spec.dtype, expected));
    return Checked{{i, unit, (x - expected) / unit}, core::is_failure(kind)};
  }

  /// The rows, one after another, that gain most.
  void tear(core::TemplateEvidence& what,
            const std::vector<std::pair<std::int64_t, double>>& gains) const {
    double sum = 0.0, best = 0.0;
    std::int64_t begin = 0, first = 0, last = -1;
    for (const auto& [row, gain] : gains) {
      if (sum <= 0.0) {
        sum = 0.0;
        begin = row;
      }
      sum += gain;
      if (sum > best) {
        best = sum;
        first = begin;
        last = row;
      }
    }
    const std::int64_t rows = last - first + 1;
    if (last < 0 || rows == static_cast<std::int64_t>(gains.size()) ||
        best / squares_ < what.r_squared + kTearingGains) {
      return;
    }
    const std::int64_t tile_row = tile_ / g_.tiles_across() * g_.tile_rows;
    what.r_squared = best / squares_;
    what.first_row = first - tile_row;
    what.rows = rows;
  }

  core::TileGeometry g_;
  const core::ReferenceTensor& reference_;
  bool any_wrong_ = false;
  std::int64_t tile_ = -1;
  std::vector<Element> elements_;
  double squares_ = 0.0;
};

/// References of changed inputs: one slice of the reduction changed at a time.
class Slices {
 public:
  Slices(const core::TrialPlan& plan, const std::vector<core::Tensor>& inputs)
      : plan_(plan), inputs_(inputs) {
    const std::vector<std::uint32_t> indices = plan.input_indices();
    for (std::size_t n = 0; n < indices.size(); ++n) {
      const core::ReductionAxis& axis = plan.buffers[indices[n]].reduction;
      if (axis.extent <= 0 || axis.tile <= 0) continue;
      input_ = n;
      axis_ = axis;
      count_ = (axis.extent + axis.tile - 1) / axis.tile;
      break;
    }
    std::int64_t outputs = 0;
    for (const std::uint32_t o : plan.output_indices()) outputs += plan.buffers[o].elements();
    steps_ = outputs * std::max<std::int64_t>(axis_.extent, 1);
    if (count_ < 2 || count_ > kMostSlices || count_ * steps_ > kSteps) count_ = 0;
    budget_ = kSteps;
  }

  std::int64_t count() const { return count_; }
  std::int64_t length(std::int64_t s) const {
    return std::min(axis_.tile, axis_.extent - s * axis_.tile);
  }
  bool affords(std::int64_t references) const { return references * steps_ <= budget_; }

  /// Slice `s` times `factor`.
  References scaled(std::int64_t s, double factor) {
    return changed(s, [=](const core::Tensor& x, std::int64_t i) { return factor * x.at(i); });
  }
  /// Slice `other` where slice `s` belongs. Both are as long.
  References replaced(std::int64_t s, std::int64_t other) {
    const std::int64_t distance = (other - s) * axis_.tile * axis_.stride;
    return changed(s, [=](const core::Tensor& x, std::int64_t i) { return x.at(i + distance); });
  }

 private:
  References changed(std::int64_t s, auto value) {
    budget_ -= steps_;
    std::vector<core::Tensor> inputs = inputs_;
    core::Tensor& x = inputs[input_];
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const std::int64_t k = i / axis_.stride % axis_.extent;
      if (k / axis_.tile == s) x.set(i, value(inputs_[input_], i));
    }
    return plan_.reference(inputs);
  }

  const core::TrialPlan& plan_;
  const std::vector<core::Tensor>& inputs_;
  std::size_t input_ = 0;
  core::ReductionAxis axis_;
  std::int64_t count_ = 0, steps_ = 0, budget_ = 0;
};

/// The templates of one output.
class Bank {
 public:
  Bank(std::uint32_t o, const core::BufferSpec& spec, const Region& region,
       const TemplateSources& sources)
      : o_(o),
        g_(spec.tiles),
        output_(spec.name),
        dtype_(spec.dtype),
        region_(region),
        sources_(sources) {}

  auto values_of(const References& references) const {
    return [this, &references](std::size_t i) {
      return references[o_].expected[static_cast<std::size_t>(region_.element(i))];
    };
  }

  std::vector<core::TemplateEvidence> best(Slices& slices) {
    zeros();
    if (sources_.previous)
      hold({.kind = TemplateKind::previous_output}, values_of(*sources_.previous), true);
    other_tiles();
    for (const core::TileHypothesis& h : sources_.hypotheses) {
      if (h.output != o_ || h.source == h.destination) continue;
      hold(
          {.kind = TemplateKind::tile_input, .detail = h.destination, .other = h.source},
          [&](std::size_t i) { return h.values[static_cast<std::size_t>(region_.element(i))]; },
          true);
    }
    transposed();
    if (slices.count() > 0) sliced(slices);
    // Of templates that are the same, the first: a torn one only where it says more.
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.r_squared > b.r_squared; });
    if (found_.size() > kKept) found_.resize(kKept);
    return found_;
  }

 private:
  template <class Value>
  void hold(core::TemplateEvidence what, Value value, bool may_be_torn) {
    what.output = output_;
    std::vector<double> values(region_.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
    region_.hold(std::move(what), values, may_be_torn, found_);
  }

  double expected_at(std::int64_t element) const {
    return element < 0 || element >= g_.rows * g_.cols
               ? std::numeric_limits<double>::quiet_NaN()
               : sources_.expected[o_].expected[static_cast<std::size_t>(element)];
  }

  /// Only where there is a zero: of any values as large as the right ones, zeros would explain
  /// half.
  void zeros() {
    hold(
        {.kind = TemplateKind::zero},
        [&](std::size_t i) { return region_.is_zero(i) ? 0.0 : region_.expected(i); }, false);
  }

  void other_tiles() {
    const std::int64_t tile = region_.tile(), across = g_.tiles_across();
    if (tile < 0) return;
    const auto size = static_cast<std::int64_t>(region_.size());
    const std::int64_t step = std::max<std::int64_t>(1, g_.tile_count() * size / kValues);
    for (std::int64_t other = 0; other < g_.tile_count(); ++other) {
      // Every so many where there are very many, and all of the same group.
      const bool near = g_.tiles_per_group > 0
                            ? other / g_.tiles_per_group == tile / g_.tiles_per_group
                            : std::abs(other - tile) <= across;
      if (other == tile || (other % step != 0 && !near)) continue;
      const std::int64_t down = (other / across - tile / across) * g_.tile_rows;
      const std::int64_t right = (other % across - tile % across) * g_.tile_cols;
      hold(
          {.kind = TemplateKind::other_tile, .other = other},
          [&](std::size_t i) {
            const std::int64_t row = region_.element(i) / g_.cols + down;
            const std::int64_t col = region_.element(i) % g_.cols + right;
            return row < g_.rows && col < g_.cols ? expected_at(row * g_.cols + col)
                                                  : std::numeric_limits<double>::quiet_NaN();
          },
          true);
    }
  }

  void transposed() {
    if (g_.cols < 2 || g_.rows < 2) return;
    hold(
        {.kind = TemplateKind::transposed},
        [&](std::size_t i) {
          return expected_at(region_.element(i) % g_.cols * g_.rows + region_.element(i) / g_.cols);
        },
        false);
    // Within the tile, or within a group of rows that is square.
    const std::int64_t square = g_.tile_rows == g_.tile_cols ? g_.tile_rows : g_.cols;
    if (square == g_.rows || g_.cols % square != 0) return;
    hold(
        {.kind = TemplateKind::transposed},
        [&](std::size_t i) {
          const std::int64_t row = region_.element(i) / g_.cols, col = region_.element(i) % g_.cols;
          return expected_at((row - row % square + col % square) * g_.cols + col - col % square +
                             row % square);
        },
        false);
  }

  void sliced(Slices& slices) {
    const std::int64_t count = slices.count();
    const std::size_t n = region_.size();
    // What each slice adds, to each element.
    std::vector<std::vector<double>> adds;
    for (std::int64_t s = 0; s < count; ++s) {
      const References without = slices.scaled(s, 0.0);
      const auto value = values_of(without);
      hold({.kind = TemplateKind::slice_missing, .detail = s, .other = s}, value, false);
      std::vector<double> add(n);
      for (std::size_t i = 0; i < n; ++i) add[i] = region_.expected(i) - value(i);
      adds.push_back(std::move(add));
    }
    stale(slices);
    if (is_sum(adds)) {
      of_sums(adds);
    } else if (slices.affords(count)) {
      for (std::int64_t s = 0; s < count; ++s) {
        const References twice = slices.scaled(s, 2.0);
        hold({.kind = TemplateKind::slice_doubled, .detail = s}, values_of(twice), false);
      }
    }
  }

  /// All pairs where that can be afforded, else neighbours.
  void stale(Slices& slices) {
    const std::int64_t count = slices.count();
    std::int64_t reach = count - 1;
    while (reach > 1 && !slices.affords(2 * reach * count)) --reach;
    if (!slices.affords(2 * reach * count)) return;
    for (std::int64_t s = 0; s < count; ++s) {
      for (std::int64_t other = std::max<std::int64_t>(0, s - reach);
           other <= std::min(count - 1, s + reach); ++other) {
        if (other == s || slices.length(other) != slices.length(s)) continue;
        const References replaced = slices.replaced(s, other);
        hold({.kind = TemplateKind::slice_stale, .detail = s, .other = other}, values_of(replaced),
             false);
      }
    }
  }

  bool is_sum(const std::vector<std::vector<double>>& adds) const {
    for (std::size_t i = 0; i < region_.size(); ++i) {
      double sum = 0.0, magnitude = 0.0;
      for (const auto& add : adds) {
        sum += add[i];
        magnitude += std::fabs(add[i]);
      }
      if (std::fabs(sum - region_.expected(i)) > 1e-9 * magnitude) return false;
    }
    return true;
  }

  /// What needs no further reference where the output is the sum of what the slices add.
  void of_sums(const std::vector<std::vector<double>>& adds) {
    const auto count = static_cast<std::int64_t>(adds.size());
    const auto add = [&](std::int64_t s, std::size_t i) {
      return adds[static_cast<std::size_t>(s)][i];
    };
    for (std::int64_t s = 0; s < count; ++s) {
      hold(
          {.kind = TemplateKind::slice_doubled, .detail = s},
          [&](std::size_t i) { return region_.expected(i) + add(s, i); }, false);
      for (std::int64_t other = 0; other < count; ++other) {
        if (other == s) continue;
        hold(
            {.kind = TemplateKind::slice_stale, .detail = s, .other = other},
            [&](std::size_t i) { return region_.expected(i) - add(s, i) + add(other, i); }, false);
      }
      // All from one on, as of a loop that ends too early.
      if (s == 0 || s + 1 == count) continue;
      hold(
          {.kind = TemplateKind::slice_missing, .detail = s, .other = count - 1},
          [&](std::size_t i) {
            double sum = region_.expected(i);
            for (std::int64_t from = s; from < count; ++from) sum -= add(from, i);
            return sum;
          },
          false);
    }
    for (const auto& [kind, dtype] : {std::pair(TemplateKind::rounded_f16, core::Dtype::f16),
                                      std::pair(TemplateKind::rounded_bf16, core::Dtype::bf16)}) {
      hold(
          {.kind = kind},
          [&](std::size_t i) {
            double sum = 0.0;
            for (std::int64_t s = 0; s < count; ++s) sum = core::round_to(dtype, sum + add(s, i));
            return core::round_to(dtype_, sum);
          },
          false);
    }
  }

  std::uint32_t o_;
  core::TileGeometry g_;
  std::string output_;
  core::Dtype dtype_;
  const Region& region_;
  const TemplateSources& sources_;
  std::vector<core::TemplateEvidence> found_;
};

}  // namespace

ErrorTemplates::ErrorTemplates(const core::TrialPlan& plan)
    : plan_(plan),
      poisons_(plan.buffers),
      indices_(plan.output_indices()),
      found_(indices_.size()),
      examined_(indices_.size()) {}

bool ErrorTemplates::complete() const {
  return std::all_of(examined_.begin(), examined_.end(), [](bool done) { return done; });
}

void ErrorTemplates::add(const core::Capture& capture, const TemplateSources& sources) {
  if (complete()) return;
  std::optional<Slices> slices;
  for (std::uint32_t o = 0; o < indices_.size() && o < capture.outputs.size(); ++o) {
    const core::BufferSpec& spec = plan_.buffers[indices_[o]];
    const core::TileGeometry& g = spec.tiles;
    if (examined_[o] || g.rows * g.cols != spec.elements()) continue;
    const Region region(spec, capture.outputs[o], sources.expected[o],
                        core::ElementPoison(poisons_, indices_[o], capture.poison));
    if (!region.usable()) continue;
    examined_[o] = true;
    if (!slices) slices.emplace(plan_, sources.inputs);
    found_[o] = Bank(o, spec, region, sources).best(*slices);
  }
}

std::vector<core::TemplateEvidence> ErrorTemplates::result() const {
  std::vector<core::TemplateEvidence> all;
  for (const auto& output : found_) all.insert(all.end(), output.begin(), output.end());
  return all;
}

}  // namespace faultline::stress::detail
