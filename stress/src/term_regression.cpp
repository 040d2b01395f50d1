// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/term_regression.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/visibility.hpp"

namespace faultline::stress {
namespace {

using core::ErrorHypothesis;
using core::TermEvidence;

/// <e,e> and <e,r> of an effect e and the residual r.
struct Projection {
  double effect_squared = 0.0, effect_residual = 0.0;

  void add(double effect, double residual) {
    effect_squared += effect * effect;
    effect_residual += effect * residual;
  }
  void add(const Projection& other) {
    effect_squared += other.effect_squared;
    effect_residual += other.effect_residual;
  }
  double coefficient() const {
    return effect_squared > 0.0 ? effect_residual / effect_squared : 0.0;
  }
  double r_squared(double residual_squared) const {
    return residual_squared > 0.0 ? coefficient() * effect_residual / residual_squared : 0.0;
  }
};

/// How residuals compare with a predicted size of random sign. Residuals and sizes in units of what
/// the comparison allows.
struct SizeFit {
  /// Of an element that is predicted to move by less than this, its bound says more.
  static constexpr double kMatters = 0.25;
  /// Largest error over its root mean square, as in the bounds of Monte Carlo arithmetic.
  static constexpr double kReach = 7.0;

  std::uint64_t elements = 0;
  double log_sum = 0.0;        ///< of |residual| / size
  double log_floor_sum = 0.0;  ///< of what a right kernel may be off by, in the mean, over size
  double unexplained = 0.0;    ///< squares of what reaches beyond the bound and the size

  void add(double size, double residual) {
    const double magnitude = std::fabs(residual);
    if (!std::isfinite(size)) return;  // anything may happen
    const double beyond = magnitude - 1.0 - kReach * size;
    if (beyond > 0.0) unexplained += beyond * beyond;
    if (size < kMatters) return;
    constexpr double kExact = 1e-3;  // an exact hit must not decide the mean of logarithms
    ++elements;
    log_sum += std::log(std::max(magnitude / size, kExact));
    log_floor_sum -= std::log(kReach * size);
  }
  void add(const SizeFit& other) {
    elements += other.elements;
    log_sum += other.log_sum;
    log_floor_sum += other.log_floor_sum;
    unexplained += other.unexplained;
  }
  /// Size found over size predicted, by the mean of logarithms: that of |z|, z normal, is -0.635.
  double ratio() const {
    return elements > 0 ? std::exp(log_sum / static_cast<double>(elements) + 0.635) : 0.0;
  }
  double standard_error() const {
    constexpr double kSpread = 1.11;  // of the logarithm of |z|
    return elements > 0 ? ratio() * kSpread / std::sqrt(static_cast<double>(elements)) : 0.0;
  }
  double explained(double residual_squared) const {
    constexpr double kAboveHealthy = 2.0;
    if (elements == 0 || !(residual_squared > 0.0)) return 0.0;
    const double floor = std::exp(log_floor_sum / static_cast<double>(elements));
    if (ratio() < kAboveHealthy * floor) return 0.0;
    return std::max(0.0, 1.0 - unexplained / residual_squared);
  }
};

/// Inner products over the elements of one output, or of several.
struct Moments {
  explicit Moments(std::size_t hypotheses)
      : whole(hypotheses),
        first_rows(hypotheses),
        last_rows(hypotheses),
        sizes(hypotheses),
        cross(hypotheses * hypotheses) {}

  std::uint64_t elements = 0, excluded = 0, wrong = 0;
  double residual_squared = 0.0;
  std::vector<Projection> whole, first_rows, last_rows;
  std::vector<SizeFit> sizes;  ///< of hypotheses that predict a size alone
  std::vector<double> cross;   ///< <e_i, e_j>, both triangles

  void add(const Moments& other) {
    elements += other.elements;
    excluded += other.excluded;
    wrong += other.wrong;
    residual_squared += other.residual_squared;
    for (std::size_t h = 0; h < whole.size(); ++h) {
      whole[h].add(other.whole[h]);
      first_rows[h].add(other.first_rows[h]);
      last_rows[h].add(other.last_rows[h]);
      sizes[h].add(other.sizes[h]);
    }
    for (std::size_t i = 0; i < cross.size(); ++i) cross[i] += other.cross[i];
  }
};

/// Root mean square over 16 elements of a row: one draw of roundings says little of an element.
std::vector<double> smoothed(const std::vector<double>& effect, std::int64_t cols) {
  constexpr std::size_t kTogether = 16;
  std::vector<double> sizes(effect.size());
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(cols, 1));
  for (std::size_t begin = 0; begin < effect.size();) {
    const std::size_t left_in_row = width - begin % width;
    const std::size_t end =
        std::min(begin + (width > 1 ? std::min(kTogether, left_in_row) : kTogether), effect.size());
    double squares = 0.0;
    for (std::size_t i = begin; i < end; ++i) squares += effect[i] * effect[i];
    const double size = std::sqrt(squares / static_cast<double>(end - begin));
    std::fill(sizes.begin() + static_cast<std::ptrdiff_t>(begin),
              sizes.begin() + static_cast<std::ptrdiff_t>(end), size);
    begin = end;
  }
  return sizes;
}

/// Where a row lies in its chunk. Chunks start anew in each group, which may be ragged.
struct ChunkRows {
  std::int64_t rows_of_group = 1, chunk = 1;

  explicit ChunkRows(const core::TileGeometry& tiles) {
    chunk = std::max<std::int64_t>(tiles.tile_rows, 1);
    const std::int64_t groups =
        tiles.tiles_per_group > 0 && tiles.tile_count() % tiles.tiles_per_group == 0
            ? std::max<std::int64_t>(tiles.tile_count() / tiles.tiles_per_group, 1)
            : 1;
    rows_of_group = tiles.rows % groups == 0 ? tiles.rows / groups : tiles.rows;
  }
  bool first(std::int64_t row) const { return row % rows_of_group % chunk == 0; }
  bool last(std::int64_t row) const {
    const std::int64_t here = row % rows_of_group;
    return here % chunk == chunk - 1 || here == rows_of_group - 1;
  }
};

class Regression {
 public:
  explicit Regression(const std::vector<ExaminedTrial>& trials)
      : trials_(trials),
        hypotheses_(trials.front().hypotheses),
        outputs_(trials.front().outputs),
        by_output_(outputs_.size(), Moments(hypotheses_.size())),
        visibility_(hypotheses_.size(), std::vector<double>(outputs_.size(), 0.0)) {
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) {
      if (predicts_size(h) || hypotheses_[h].kind == ErrorHypothesis::Kind::low_precision) {
        compared_by_size_.push_back(h);
      }
    }
  }

  TermRegression run() {
    for (const ExaminedTrial& trial : trials_) {
      if (trial.outputs.size() != outputs_.size() ||
          trial.hypotheses.size() != hypotheses_.size()) {
        throw core::UsageError(fmt::format(
            "term regression: one trial has {} outputs and {} hypotheses, another {} and {}",
            outputs_.size(), hypotheses_.size(), trial.outputs.size(), trial.hypotheses.size()));
      }
      for (std::size_t o = 0; o < outputs_.size(); ++o) add_output(trial, o);
    }
    Moments joint(hypotheses_.size());
    for (const Moments& moments : by_output_) {
      if (moments.wrong > 0) joint.add(moments);
    }
    TermRegression result;
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) result.terms.push_back(term(h, joint));
    if (joint.elements > 0) {
      for (const std::size_t size : {2, 3}) {
        if (auto best = best_combination(joint, size)) {
          result.combinations.push_back(std::move(*best));
        }
      }
    }
    return result;
  }

 private:
  void add_output(const ExaminedTrial& trial, std::size_t o) {
    const ExaminedOutput& output = trial.outputs[o];
    const std::vector<double>& expected = output.reference->expected;
    const std::vector<double>& bound = output.reference->bound;
    std::vector<std::size_t> present;  // hypotheses with any effect here, those of a size apart
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) {
      const std::vector<double>& effect = effect_of(trial, h, o);
      if (effect.empty()) continue;
      if (effect.size() != expected.size()) {
        throw core::UsageError(
            fmt::format("error hypothesis '{}' predicts {} elements of '{}', which has {}",
                        hypotheses_[h].name, effect.size(), output.name, expected.size()));
      }
      if (!predicts_size(h)) present.push_back(h);
    }
    std::vector<std::vector<double>> sizes(hypotheses_.size());
    for (const std::size_t h : compared_by_size_) {
      sizes[h] = predicts_size(h) ? effect_of(trial, h, o)
                                  : smoothed(effect_of(trial, h, o), output.tiles.cols);
    }
    const std::vector<double> allowed = core::allowed_errors(output.dtype, *output.reference);
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) {
      double& seen = visibility_[h][o];
      seen = std::max(seen, core::visibility(allowed, effect_of(trial, h, o)));
    }
    if (!output.got) return;
    Moments& moments = by_output_[o];
    const ChunkRows rows(output.tiles);
    const std::int64_t cols = std::max<std::int64_t>(output.tiles.cols, 1);
    std::vector<double> effects(hypotheses_.size(), 0.0);
    const auto unwritten = [&output](std::size_t i) {
      const bool by_tile = output.poison.has_tiles;
      const std::int64_t tile = by_tile ? output.tiles.tile_of(static_cast<std::int64_t>(i)) : 0;
      return output.poison.bits(static_cast<std::uint64_t>(tile));
    };
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double scale = allowed[i];  // the unit of residuals and effects
      if (std::isnan(scale)) {
        ++moments.excluded;
        continue;
      }
      bool finite = scale > 0.0;
      for (const std::size_t h : present) {
        effects[h] = trial.hypotheses[h].effect[o][i] / scale;
        finite = finite && std::isfinite(effects[h]);
      }
      const core::ElementCheck check =
          core::check_element(output.dtype, output.got->bits(static_cast<std::int64_t>(i)),
                              expected[i], bound[i], unwritten(i));
      moments.wrong += core::is_failure(check.kind);
      const double residual = (output.got->at(static_cast<std::int64_t>(i)) - expected[i]) / scale;
      if (!finite || !std::isfinite(residual) || check.kind == core::ElementClass::poison) {
        ++moments.excluded;
        continue;
      }
      ++moments.elements;
      moments.residual_squared += residual * residual;
      for (const std::size_t h : compared_by_size_) {
        moments.sizes[h].add(sizes[h].empty() ? 0.0 : sizes[h][i] / scale, residual);
      }
      const std::int64_t row = static_cast<std::int64_t>(i) / cols;
      const bool first = rows.first(row), last = rows.last(row);
      for (const std::size_t h : present) {
        const double effect = effects[h];
        moments.whole[h].add(effect, residual);
        if (first) moments.first_rows[h].add(effect, residual);
        if (last) moments.last_rows[h].add(effect, residual);
        for (const std::size_t other : present) {
          moments.cross[h * hypotheses_.size() + other] += effect * effects[other];
        }
      }
    }
  }

  const std::vector<double>& effect_of(const ExaminedTrial& trial, std::size_t h,
                                       std::size_t o) const {
    static const std::vector<double> kNone;
    const std::vector<std::vector<double>>& effect = trial.hypotheses[h].effect;
    return o < effect.size() ? effect[o] : kNone;
  }

  bool predicts_size(std::size_t h) const {
    return hypotheses_[h].kind == ErrorHypothesis::Kind::rounding;
  }
  double coefficient(const Moments& moments, std::size_t h) const {
    return predicts_size(h) ? moments.sizes[h].ratio() : moments.whole[h].coefficient();
  }
  double r_squared(const Moments& moments, std::size_t h) const {
    return predicts_size(h) ? moments.sizes[h].explained(moments.residual_squared)
                            : moments.whole[h].r_squared(moments.residual_squared);
  }

  TermEvidence term(std::size_t h, const Moments& joint) const {
    TermEvidence evidence;
    evidence.name = hypotheses_[h].name;
    evidence.terms = hypotheses_[h].terms;
    evidence.kind = hypotheses_[h].kind;
    evidence.left_out = hypotheses_[h].left_out;
    for (const double seen : visibility_[h])
      evidence.visibility = std::max(evidence.visibility, seen);
    if (joint.wrong == 0) return evidence;

    const double total = joint.residual_squared;
    evidence.elements = joint.elements;
    evidence.excluded = joint.excluded;
    evidence.coefficient = coefficient(joint, h);
    evidence.r_squared = r_squared(joint, h);
    if (predicts_size(h)) {
      evidence.standard_error = joint.sizes[h].standard_error();
    } else if (joint.elements > 1 && joint.whole[h].effect_squared > 0.0) {
      const double unexplained = std::max(0.0, total * (1.0 - evidence.r_squared));
      evidence.standard_error = std::sqrt(unexplained / static_cast<double>(joint.elements - 1) /
                                          joint.whole[h].effect_squared);
    }
    evidence.size_ratio = joint.sizes[h].ratio();
    evidence.size_explained = joint.sizes[h].explained(total);
    evidence.first_row_coefficient = joint.first_rows[h].coefficient();
    evidence.first_row_r_squared = joint.first_rows[h].r_squared(total);
    evidence.last_row_coefficient = joint.last_rows[h].coefficient();
    evidence.last_row_r_squared = joint.last_rows[h].r_squared(total);
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const Moments& here = by_output_[o];
      core::TermOutputEvidence output;
      output.output = outputs_[o].name;
      output.visibility = visibility_[h][o];
      output.wrong = here.wrong;
      if (here.wrong > 0) {
        output.coefficient = coefficient(here, h);
        output.r_squared = r_squared(here, h);
      }
      evidence.outputs.push_back(std::move(output));
    }
    return evidence;
  }

  /// Least squares on the hypotheses of `chosen` by Gaussian elimination with pivoting on the
  /// diagonal; nothing when two of them are the same direction.
  std::optional<core::TermCombinationEvidence> fit(const Moments& joint,
                                                   const std::vector<std::size_t>& chosen) const {
    const std::size_t n = chosen.size(), all = hypotheses_.size();
    std::vector<double> matrix(n * n), right(n);
    for (std::size_t i = 0; i < n; ++i) {
      right[i] = joint.whole[chosen[i]].effect_residual;
      for (std::size_t j = 0; j < n; ++j)
        matrix[i * n + j] = joint.cross[chosen[i] * all + chosen[j]];
    }
    // A direction of which the others leave less than this is theirs.
    constexpr double kOwnShare = 1e-6;
    for (std::size_t i = 0; i < n; ++i) {
      const double whole = joint.whole[chosen[i]].effect_squared;
      if (!(whole > 0.0) || !(matrix[i * n + i] > kOwnShare * whole)) return std::nullopt;
      for (std::size_t k = i + 1; k < n; ++k) {
        const double factor = matrix[k * n + i] / matrix[i * n + i];
        for (std::size_t j = i; j < n; ++j) matrix[k * n + j] -= factor * matrix[i * n + j];
        right[k] -= factor * right[i];
      }
    }
    core::TermCombinationEvidence combination;
    combination.coefficients.resize(n);
    for (std::size_t i = n; i-- > 0;) {
      double sum = right[i];
      for (std::size_t j = i + 1; j < n; ++j) {
        sum -= matrix[i * n + j] * combination.coefficients[j];
      }
      combination.coefficients[i] = sum / matrix[i * n + i];
    }
    double explained = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      combination.names.push_back(hypotheses_[chosen[i]].name);
      explained += combination.coefficients[i] * joint.whole[chosen[i]].effect_residual;
    }
    combination.r_squared = joint.residual_squared > 0.0 ? explained / joint.residual_squared : 0.0;
    return combination;
  }

  std::optional<core::TermCombinationEvidence> best_combination(const Moments& joint,
                                                                std::size_t size) const {
    std::vector<std::size_t> terms;
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) {
      const bool moves = joint.whole[h].effect_squared > 0.0;
      if (moves && hypotheses_[h].kind == ErrorHypothesis::Kind::term) terms.push_back(h);
    }
    if (terms.size() < size) return std::nullopt;
    std::optional<core::TermCombinationEvidence> best;
    std::vector<bool> picked(terms.size(), false);
    std::fill_n(picked.begin(), size, true);
    do {
      std::vector<std::size_t> chosen;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        if (picked[i]) chosen.push_back(terms[i]);
      }
      auto candidate = fit(joint, chosen);
      if (candidate && (!best || candidate->r_squared > best->r_squared)) best = candidate;
    } while (std::prev_permutation(picked.begin(), picked.end()));
    return best;
  }

  const std::vector<ExaminedTrial>& trials_;
  const std::vector<ErrorHypothesis>& hypotheses_;  ///< of the first trial: names and kinds
  const std::vector<ExaminedOutput>& outputs_;      ///< of the first trial: names
  std::vector<Moments> by_output_;
  std::vector<std::vector<double>> visibility_;  ///< [hypothesis][output]
  std::vector<std::size_t> compared_by_size_;
};

}  // namespace

TermRegression regress_terms(const std::vector<ExaminedTrial>& trials) {
  if (trials.empty() || trials.front().hypotheses.empty()) return {};
  return Regression(trials).run();
}

}  // namespace faultline::stress
