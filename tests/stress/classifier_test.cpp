// SPDX-License-Identifier: Apache-2.0
// The classifier as a whole: a kernel that the host computes goes wrong in one of eleven ways, at
// random shapes, tiles and places, and the run (run_verify or run_campaign, captures, evidence,
// diagnosis) has to name the way. Two further ways are none of those that it knows, and must end
// as unknown. Nothing but the kernel differs between the kinds: subject, reference, bounds and
// named terms are the same for all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "faultline/core/backend.hpp"
#include "faultline/core/comparison.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"
#include "faultline/stress/campaign_plan.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/verify.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;

enum class Fault {
  missed_write,
  uninitialised,
  tail,
  config,
  systematic_offset,
  stale_tiles,
  special_values,
  accumulation,
  missing_term,
  layout,
  none,          ///< a right kernel whose rounding gives a power of two
  bit_flips,     ///< nobody looks for this one
  smooth_factor  ///< nor for this one
};

struct Kind {
  Fault fault;
  const char* name;
  FindingClass expected;
  bool on_campaign;  ///< half of its trials are campaigns; else all are sweeps
};

/// A defect of one config and one of certain sizes cannot show where there is one of them. What is
/// wrong in one way in every config is a systematic offset by definition, so the unknown kinds go
/// differently in each config of a sweep.
constexpr Kind kKinds[] = {
    {Fault::missed_write, "missed_write", FindingClass::missed_write, true},
    {Fault::uninitialised, "uninitialised", FindingClass::uninitialised, true},
    {Fault::tail, "tail", FindingClass::tail, false},
    {Fault::config, "config", FindingClass::config, false},
    {Fault::systematic_offset, "systematic_offset", FindingClass::systematic_offset, false},
    {Fault::stale_tiles, "stale tiles", FindingClass::race_async, true},
    {Fault::special_values, "special_values", FindingClass::special_values, true},
    {Fault::accumulation, "accumulation", FindingClass::accumulation, true},
    {Fault::missing_term, "missing_term", FindingClass::missing_term, true},
    {Fault::layout, "layout", FindingClass::layout, true},
    {Fault::none, "output_rounding", FindingClass::output_rounding, false},
    {Fault::bit_flips, "bit flips", FindingClass::unknown, true},
    {Fault::smooth_factor, "smooth factor", FindingClass::unknown, true},
};
/// FAULTLINE_CLASSIFIER_TRIALS and _FIRST: how many of each kind, and the number of the first. The
/// rules were shaped on the numbers below 40; others are a hold-out.
int from_environment(const char* name, int usual) {
  const char* text = std::getenv(name);
  const int value = text ? std::atoi(text) : usual;
  return value > 0 ? value : usual;
}
const int kTrialsEach = from_environment("FAULTLINE_CLASSIFIER_TRIALS", 8);
const int kFirst = from_environment("FAULTLINE_CLASSIFIER_FIRST", 0);

struct Region {
  std::int64_t row = 0, rows = 0, col = 0, cols = 0;
  bool holds(std::int64_t i, std::int64_t j) const {
    return i >= row && i < row + rows && j >= col && j < col + cols;
  }
};

/// What is drawn for one trial of the classifier: the shapes that it sweeps and how the kernel goes
/// wrong.
struct Draw {
  Fault fault = Fault::none;
  std::uint64_t seed = 0;
  core::Dtype dtype = core::Dtype::f32;
  std::int64_t rows = 0, ragged_rows = 0, cols = 0, pad = 0;
  std::vector<std::int64_t> lengths;  ///< whole, ragged, whole and long
  struct Setting {
    std::int64_t tile_k = 0, tile_rows = 0, stages = 0;
  };
  std::vector<Setting> settings;

  int form = 0;            ///< which of several defects of this kind
  Region region;           ///< where
  double level = 0.0;      ///< how much, in [0, 1)
  std::int64_t which = 0;  ///< a small number

  static Draw of(Fault fault, int number) {
    std::mt19937_64 engine(1000 * static_cast<std::uint64_t>(fault) +
                           static_cast<std::uint64_t>(number));
    const auto up_to = [&](std::int64_t low, std::int64_t high) {  // both included
      return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
    };
    Draw d;
    d.fault = fault;
    d.seed = engine();
    constexpr core::Dtype kAll[] = {core::Dtype::f32, core::Dtype::f16, core::Dtype::bf16};
    // Output rounding shows in 16 bits alone.
    d.dtype = kAll[fault == Fault::none ? up_to(1, 2) : up_to(0, 2)];
    d.rows = 8 * up_to(4, 5);  // more tiles of rows than a ring has buffers
    d.ragged_rows = d.rows - up_to(1, 3);
    d.cols = up_to(7, 16);
    d.pad = up_to(1, 8);
    const std::int64_t whole = 32 * up_to(1, 2);
    d.lengths = {whole, whole + up_to(33, 63), whole + 32 * up_to(3, 6)};
    std::vector<std::int64_t> tiles = {4, 8, 16, 32};
    std::shuffle(tiles.begin(), tiles.end(), engine);
    for (int c = 0; c < 3; ++c) {
      d.settings.push_back({tiles[static_cast<std::size_t>(c)], up_to(0, 1) ? 4 : 8, up_to(2, 3)});
    }
    d.lengths[1] |= 1;  // no multiple of any tile
    d.form = static_cast<int>(up_to(0, 3));
    d.region = {
        .row = up_to(0, d.ragged_rows - 4), .rows = 0, .col = up_to(0, d.cols - 2), .cols = 0};
    d.region.rows = up_to(2, d.ragged_rows - d.region.row);
    d.region.cols = up_to(1, d.cols - d.region.col);
    d.level = static_cast<double>(engine() >> 11) * 0x1p-53;
    d.which = up_to(0, 11);
    return d;
  }
};

// --- the subject: y = A B + bias + residual, rows of y `pad` elements apart ---

enum Input : std::size_t { kA, kB, kBias, kResidual };

struct Shape {
  std::int64_t rows, cols, pad, length;
  std::int64_t pitch() const { return cols + pad; }
  std::int64_t at(std::int64_t i, std::int64_t j) const { return i * pitch() + j; }
  explicit Shape(const core::Problem& problem)
      : rows(problem.values.integer("m")),
        cols(problem.values.integer("n")),
        pad(problem.values.integer("pad")),
        length(problem.values.integer("k")) {}
};

double product(const Shape& s, const std::vector<core::Tensor>& in, std::int64_t i,
               std::int64_t j) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < s.length; ++k) {
    sum += in[kA].at(i * s.length + k) * in[kB].at(k * s.cols + j);
  }
  return sum;
}

double added(const Shape& s, const std::vector<core::Tensor>& in, std::int64_t i, std::int64_t j) {
  return in[kBias].at(j) + in[kResidual].at(i * s.cols + j);
}

core::ReferenceTensor expected_output(const Shape& s, const std::vector<core::Tensor>& in) {
  core::ReferenceTensor y;
  const auto elements = static_cast<std::size_t>(s.rows * s.pitch());
  y.expected.assign(elements, 0.0);
  y.bound.assign(elements, core::must_stay_untouched());
  for (std::int64_t i = 0; i < s.rows; ++i) {
    for (std::int64_t j = 0; j < s.cols; ++j) {
      double magnitude = std::fabs(in[kBias].at(j)) + std::fabs(in[kResidual].at(i * s.cols + j));
      for (std::int64_t k = 0; k < s.length; ++k) {
        magnitude += std::fabs(in[kA].at(i * s.length + k) * in[kB].at(k * s.cols + j));
      }
      const auto n = static_cast<std::size_t>(s.at(i, j));
      y.expected[n] = product(s, in, i, j) + added(s, in, i, j);
      // gamma_m of a sum of m = k + 2 terms in fp32, whatever its order.
      y.bound[n] = static_cast<double>(s.length + 2) * 0x1p-24 * magnitude;
    }
  }
  return y;
}

double to_bf16(double x) { return core::round_to(core::Dtype::bf16, x); }

/// The product with its running sum in bf16, one addition for each tile of the reduction.
double low_precision_product(const Shape& s, const std::vector<core::Tensor>& in, std::int64_t i,
                             std::int64_t j, std::int64_t tile_k) {
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < s.length; begin += tile_k) {
    double part = 0.0;
    for (std::int64_t k = begin; k < std::min(begin + tile_k, s.length); ++k) {
      part += in[kA].at(i * s.length + k) * in[kB].at(k * s.cols + j);
    }
    sum = to_bf16(sum + part);
  }
  return sum;
}

std::vector<core::ErrorHypothesis> named_errors(const Shape& s, const std::vector<core::Tensor>& in,
                                                std::int64_t tile_k) {
  const auto elements = static_cast<std::size_t>(s.rows * s.pitch());
  std::vector<core::ErrorHypothesis> all(3);
  all[0].name = all[0].terms = "bias";
  all[1].name = all[1].terms = "residual";
  all[2].name = all[2].terms = "running sum in bf16";
  all[2].kind = core::ErrorHypothesis::Kind::low_precision;
  for (core::ErrorHypothesis& h : all) h.effect = {std::vector<double>(elements, 0.0)};
  for (std::int64_t i = 0; i < s.rows; ++i) {
    for (std::int64_t j = 0; j < s.cols; ++j) {
      const auto n = static_cast<std::size_t>(s.at(i, j));
      all[0].effect[0][n] = in[kBias].at(j);
      all[1].effect[0][n] = in[kResidual].at(i * s.cols + j);
      all[2].effect[0][n] = low_precision_product(s, in, i, j, tile_k) - product(s, in, i, j);
    }
  }
  return all;
}

/// Tiles of rows of A pass through a ring of buffers: a row of y computed from another tile's A.
std::vector<core::TileHypothesis> moved_tiles(const Shape& s, const std::vector<core::Tensor>& in,
                                              std::int64_t tile_rows) {
  const core::ReferenceTensor right = expected_output(s, in);
  std::vector<core::TileHypothesis> all;
  const std::int64_t tiles = (s.rows + tile_rows - 1) / tile_rows;
  for (std::int64_t destination = 0; destination < tiles; ++destination) {
    for (std::int64_t source = 0; source < tiles; ++source) {
      if (source == destination) continue;
      core::TileHypothesis h{0, destination, source, right.expected};
      for (std::int64_t r = 0; r < tile_rows; ++r) {
        const std::int64_t to = destination * tile_rows + r, from = source * tile_rows + r;
        if (to >= s.rows || from >= s.rows) continue;
        for (std::int64_t j = 0; j < s.cols; ++j) {
          const double moved = right.expected[static_cast<std::size_t>(s.at(from, j))];
          h.values[static_cast<std::size_t>(s.at(to, j))] =
              moved - added(s, in, from, j) + added(s, in, to, j);
        }
      }
      all.push_back(std::move(h));
    }
  }
  return all;
}

core::TrialPlan make_plan(const core::Problem& problem, const std::string& variant,
                          const core::Config& config) {
  const Shape s(problem);
  const core::Dtype dtype = problem.values.dtype();
  const std::int64_t tile_k = config.integer("tile_k"), tile_rows = config.integer("tile_rows");
  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers.resize(5);
  const auto input = [&](Input which, const char* name, core::Dtype type, core::Shape shape) {
    plan.buffers[which].name = name;
    plan.buffers[which].dtype = type;
    plan.buffers[which].shape = std::move(shape);
  };
  input(kA, "a", dtype, {s.rows, s.length});
  input(kB, "b", dtype, {s.length, s.cols});
  input(kBias, "bias", core::Dtype::f32, {s.cols});
  input(kResidual, "residual", core::Dtype::f32, {s.rows, s.cols});
  core::BufferSpec& y = plan.buffers.back();
  y.name = "y";
  y.dtype = dtype;
  y.shape = {s.rows, s.pitch()};
  y.role = core::BufferRole::output;
  y.tiles = {.rows = s.rows,
             .cols = s.pitch(),
             .tile_rows = tile_rows,
             .tile_cols = s.pitch(),
             .tiles_per_group = (s.rows + tile_rows - 1) / tile_rows,
             .pipeline_depth = static_cast<std::int32_t>(config.integer("stages")),
             .tile_axis = fmt::format("{} rows", tile_rows)};
  plan.program = [](std::uint32_t) {
    auto module = std::make_shared<core::Module>();
    module->hash = "0123456789abcdef";
    module->ptx = ".shared .align 16 .b8 tiles[4096];";
    core::LaunchOperation launch;
    launch.module = module;
    core::Program program;
    program.add(launch);
    return program;
  };
  plan.reference = [s](const std::vector<core::Tensor>& in) {
    return std::vector{expected_output(s, in)};
  };
  plan.error_hypotheses = [s, tile_k](const std::vector<core::Tensor>& in) {
    return named_errors(s, in, tile_k);
  };
  plan.hypotheses = [s, tile_rows](const std::vector<core::Tensor>& in) {
    return moved_tiles(s, in, tile_rows);
  };
  return plan;
}

core::Config make_config(const Draw::Setting& setting) {
  core::Config config;
  config.set("tile_k", setting.tile_k);
  config.set("tile_rows", setting.tile_rows);
  config.set("stages", setting.stages);
  return config;
}

core::Problem make_problem(const Draw& draw, std::int64_t rows, std::int64_t length) {
  core::Problem problem{"panel_product", {}};
  problem.values.set("m", rows);
  problem.values.set("n", draw.cols);
  problem.values.set("k", length);
  problem.values.set("pad", draw.pad);
  problem.values.set("dtype", std::string(core::name_of(draw.dtype)));
  return problem;
}

kernels::Subject make_subject(const Draw& draw) {
  kernels::Subject subject;
  subject.name = "panel_product";
  subject.description = "y = A B + bias + residual, with padding between the rows of y";
  for (const char* name : {"m", "n", "k", "pad"}) {
    core::ParameterSpec parameter;
    parameter.name = name;
    parameter.maximum = 4096;
    parameter.default_value = "8";
    subject.problem_domain.parameters.push_back(parameter);
  }
  core::ParameterSpec dtype;
  dtype.name = "dtype";
  dtype.kind = core::ParameterSpec::Kind::dtype;
  dtype.choices = {"f16", "bf16", "f32"};
  dtype.default_value = "f32";
  subject.problem_domain.parameters.push_back(dtype);
  subject.config_domain = [](const std::string&) { return core::Domain{}; };
  subject.configs = [draw](const core::Problem&, const std::string&) {
    std::vector<core::Config> all;
    for (const Draw::Setting& setting : draw.settings) all.push_back(make_config(setting));
    return all;
  };
  subject.verify_problems = [draw](bool) {
    std::vector<core::Problem> all;
    for (const std::int64_t length : draw.lengths) {
      all.push_back(make_problem(draw, draw.rows, length));
    }
    all.push_back(make_problem(draw, draw.ragged_rows, draw.lengths.front()));
    return all;
  };
  kernels::Variant variant;
  variant.name = "only";
  variant.description = subject.description;
  subject.variants = {variant};
  subject.numeric_plan = [](const core::Problem&) { return std::vector<kernels::RoundingPoint>{}; };
  subject.plan = make_plan;
  subject.lengths = [](const core::Problem& problem, const std::string&,
                       const core::Config& config) {
    return kernels::TileLengths{.tile_k = config.integer("tile_k"),
                                .reduction = problem.values.integer("k"),
                                .tile_rows = config.integer("tile_rows"),
                                .rows = problem.values.integer("m")};
  };
  subject.traffic_bytes = [](const core::Problem&) { return 0.0; };
  return subject;
}

// --- the kernel, and how it goes wrong ---

struct Launch {
  const core::TrialPlan& plan;
  const std::vector<core::Tensor>& in;
  std::uint32_t poison;    ///< the word that unwritten memory holds
  std::uint64_t schedule;  ///< what timing would decide: another number in every trial
};

class Kernel {
 public:
  Kernel(const Draw& draw, const Launch& launch)
      : d_(draw),
        launch_(launch),
        in_(launch.in),
        s_(launch.plan.problem),
        tile_k_(launch.plan.config.integer("tile_k")),
        tile_rows_(launch.plan.config.integer("tile_rows")),
        stages_(launch.plan.config.integer("stages")) {
    for (std::size_t c = 0; c < d_.settings.size(); ++c) {
      if (d_.settings[c].tile_k == tile_k_) config_ = static_cast<std::int64_t>(c);
    }
    if (d_.fault == Fault::stale_tiles) draw_stale_tile();
  }

  void run(core::Tensor& y) const {
    for (std::int64_t i = 0; i < s_.rows; ++i) {
      for (std::int64_t j = 0; j < s_.cols; ++j) {
        if (d_.fault == Fault::missed_write && is_missed(i, j)) continue;
        const std::int64_t place = place_of(i, j);
        if (place >= y.size()) continue;
        y.set(place, value(i, j));
        if (d_.fault == Fault::bit_flips) flip(y, i, place);
      }
    }
  }

 private:
  bool is(Fault fault, int form) const { return d_.fault == fault && d_.form == form; }
  bool here(Fault fault, std::int64_t i, std::int64_t j) const {
    return d_.fault == fault && d_.region.holds(i, j);
  }

  bool is_missed(std::int64_t i, std::int64_t j) const {
    switch (d_.form) {
    case 0: return d_.region.holds(i, j);
    case 1: return j >= s_.cols - 1 - d_.which % 3;
    case 2: return i % (2 + d_.which % 5) == 1;
    default: return i / 4 == 1 + d_.which % 4;
    }
  }

  std::int64_t place_of(std::int64_t i, std::int64_t j) const {
    if (d_.fault != Fault::layout) return s_.at(i, j);
    switch (d_.form) {
    case 0: return i * s_.cols + j;                                      // padding forgotten
    case 1: return i * (s_.pitch() + 1 + d_.which % 4) + j;              // another buffer's pitch
    case 2: return i * (s_.cols + (d_.which % 2 ? s_.pad / 2 : 0)) + j;  // padding halved
    default: return j * s_.rows + i;                                     // the other order
    }
  }

  /// Row of A that the multiplication reads for row i of y.
  std::int64_t row_read(std::int64_t i) const {
    if (stale_to_ >= 0 && i / tile_rows_ == stale_to_ && i % tile_rows_ >= stale_first_row_) {
      return std::min(stale_from_ * tile_rows_ + i % tile_rows_, s_.rows - 1);
    }
    const bool last_and_ragged =
        s_.rows % tile_rows_ != 0 && i / tile_rows_ == s_.rows / tile_rows_;
    if (is(Fault::tail, 3) && last_and_ragged) return i - 1;  // clamped too far
    if (is(Fault::config, 1) && is_bad_config() && i / 4 % 2 == 1) return (i + 1) % s_.rows;
    return i;
  }

  bool is_bad_config() const { return config_ == d_.which % 3; }

  float partial(std::int64_t row, std::int64_t j, std::int64_t begin, std::int64_t end) const {
    float sum = 0.0f;
    for (std::int64_t k = begin; k < end; ++k) {
      // An index that is off by one, in every config.
      const bool shifted = is(Fault::systematic_offset, 1) && d_.region.holds(row, j);
      const std::int64_t k_b = shifted ? (k + 1) % s_.length : k;
      sum += static_cast<float>(in_[kA].at(row * s_.length + k)) *
             static_cast<float>(in_[kB].at(k_b * s_.cols + j));
    }
    return sum;
  }

  /// A B, tile by tile of the reduction.
  float multiply(std::int64_t i, std::int64_t j) const {
    const std::int64_t row = row_read(i);
    const std::int64_t column =
        is(Fault::systematic_offset, 2) && d_.region.holds(i, j) ? s_.cols - 1 - j : j;
    const std::int64_t whole = s_.length / tile_k_ * tile_k_;
    float sum = 0.0f;
    for (std::int64_t begin = 0; begin < s_.length; begin += tile_k_) {
      const std::int64_t end = std::min(begin + tile_k_, s_.length);
      const bool rest = begin >= whole;
      if (d_.fault == Fault::tail && d_.form < 2 && rest) continue;  // whole tiles only
      if (is(Fault::config, 0) && is_bad_config() && begin == 0) continue;
      float part = partial(row, column, begin, end);
      if (is(Fault::tail, 2) && rest) part += part;
      sum += part;
      if (d_.fault == Fault::accumulation) sum = static_cast<float>(to_bf16(sum));
    }
    return sum;
  }

  float value(std::int64_t i, std::int64_t j) const {
    float sum = multiply(i, j);
    if (here(Fault::uninitialised, i, j)) sum += unwritten(i);
    if (d_.fault == Fault::special_values) sum = overflow(sum, i, j);

    float bias = static_cast<float>(in_[kBias].at(j));
    float residual = static_cast<float>(in_[kResidual].at(i * s_.cols + j));
    if (is(Fault::config, 3) && is_bad_config()) {
      bias = static_cast<float>(in_[kBias].at((j + 1) % s_.cols));
    }
    if (d_.fault == Fault::missing_term) {
      switch (d_.form) {
      case 0: bias = 0.0f; break;
      case 1: residual = 0.0f; break;
      case 2: (d_.which % 2 ? bias : residual) *= 2.0f; break;
      default: bias = residual = 0.0f; break;
      }
    }
    float y = sum + bias + residual;

    if (is(Fault::config, 2) && is_bad_config() && i % 4 == 0) y *= 1.25f;
    if (here(Fault::systematic_offset, i, j)) {
      if (d_.form == 0) y += 0.25f * static_cast<float>(1 + d_.which);
      if (d_.form == 3) y *= 1.5f;
    }
    if (d_.fault == Fault::smooth_factor) {
      const double phase = 2.0 * std::numbers::pi * static_cast<double>(config_) / 3.0;
      const double u = static_cast<double>(i) / static_cast<double>(s_.rows);
      const double v = static_cast<double>(j) / static_cast<double>(s_.cols);
      const double waves = static_cast<double>(1 + d_.which % 3);
      y *= static_cast<float>(1.0 + (0.05 + 0.3 * d_.level) *
                                        std::sin(2.0 * std::numbers::pi * waves * (u + v) + phase));
    }
    return y;
  }

  /// What is computed from memory that nobody wrote.
  float unwritten(std::int64_t i) const {
    const float found = core::float_of(launch_.poison);
    switch (d_.form) {
    case 0: return found;                                               // an accumulator
    case 1: return 0.0f * found;                                        // padding: NaN or nothing
    case 2: return static_cast<float>(launch_.poison & 0xffu) / 16.0f;  // a byte
    default: return static_cast<float>(launch_.poison >> (8 * (i % 4)) & 0x3fu);
    }
  }

  float overflow(float sum, std::int64_t i, std::int64_t j) const {
    // Where the threshold lies among the values, in their standard deviations.
    const float at = static_cast<float>((0.3 + d_.level) * std::sqrt(s_.length));
    switch (d_.form) {
    case 0: {
      const float e = std::exp(std::fabs(sum) * 88.7f / at);
      return sum * e / e;
    }
    case 1: {
      const float kept =
          std::max(0.0f, static_cast<float>(in_[kResidual].at(i * s_.cols + j)) + 1.0f);
      return sum * kept / kept;  // 0 / 0
    }
    case 2: {
      const float scaled = sum * 65504.0f / at;
      return std::fabs(scaled) > 65504.0f ? std::copysign(INFINITY, scaled) : sum;
    }
    default: return d_.region.holds(i, j) ? std::sqrt(-1.0f - sum * sum) : sum;
    }
  }

  void draw_stale_tile() {
    const std::int64_t tiles = (s_.rows + tile_rows_ - 1) / tile_rows_;
    std::mt19937_64 engine(launch_.schedule);
    const double rate = 0.25 + 0.65 * d_.level;
    if (static_cast<double>(engine() >> 11) * 0x1p-53 >= rate) return;
    stale_to_ = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(tiles - stages_));
    stale_from_ = stale_to_ + stages_;
    if (d_.form % 2 == 0) std::swap(stale_to_, stale_from_);
    // Some of the rows had arrived.
    stale_first_row_ = d_.form < 2 ? 0 : static_cast<std::int64_t>(engine() % 3);
  }

  void flip(core::Tensor& y, std::int64_t i, std::int64_t place) const {
    const std::uint64_t of_data = in_[kA].bits(i * s_.length) + 31 * in_[kB].bits(place % s_.cols);
    const std::uint64_t hash =
        core::mix64(of_data ^ d_.seed ^ core::mix64(static_cast<std::uint64_t>(config_)));
    const auto one_in = static_cast<std::uint64_t>(4.0 + 400.0 * d_.level * d_.level);
    if (hash % one_in != 0) return;
    const int bits = static_cast<int>(8 * core::size_of(y.dtype));
    // From the last but two of the mantissa up to the sign.
    const int low = 3,
              bit = low + static_cast<int>((hash >> 32) % static_cast<unsigned>(bits - low));
    core::store_bits(y.bytes.data(), static_cast<std::size_t>(place), y.dtype,
                     y.bits(place) ^ (std::uint64_t{1} << bit));
  }

  const Draw& d_;
  const Launch& launch_;
  const std::vector<core::Tensor>& in_;
  Shape s_;
  std::int64_t tile_k_, tile_rows_, stages_, config_ = 0;
  std::int64_t stale_to_ = -1, stale_from_ = -1, stale_first_row_ = 0;
};

/// Computes on the host what a device would. A model, so that campaigns run on its arms; it reports
/// no races, so that values have to tell them.
class HostBackend : public core::Backend {
 public:
  explicit HostBackend(Draw draw) : draw_(std::move(draw)) {
    info_.name = "simulator";
    info_.device = "host";
    info_.is_model = true;
  }
  const core::BackendInfo& info() const override { return info_; }
  core::BufferHandle allocate(const std::string&, std::size_t) override { return {}; }
  void release(core::BufferHandle) override {}
  void upload(core::BufferHandle, std::span<const std::byte>) override {}
  void download(core::BufferHandle, std::span<std::byte>) override {}
  void fill(core::BufferHandle, std::uint32_t) override {}
  core::ExecutionReport execute(const core::Program&, std::span<const core::BufferHandle>,
                                const core::Perturbation&, std::uint64_t, core::RaceMode) override {
    return {};
  }
  Timing time_program(const core::TrialPlan&, const TimingRequest&) override { return {}; }

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    core::TrialResult result;
    const core::BufferSpec& spec = plan.buffers.back();
    result.outputs = {core::make_output_totals(spec)};
    std::set<std::pair<std::uint64_t, std::uint64_t>> distinct;
    std::set<std::uint64_t> inputs_seen;
    std::vector<core::Tensor> inputs;
    core::ReferenceTensor reference;
    for (std::uint64_t n = 0; n < request.count; ++n) {
      const std::uint64_t trial = request.first_trial + n;
      const std::uint64_t seed =
          core::trial_seed(request.seed, request.perturbation.fresh_inputs ? trial : 0);
      if (inputs_seen.insert(seed).second) {
        inputs = stress::make_inputs(plan, request.data, seed);
        reference = plan.reference(inputs).front();
      }
      const std::uint32_t word = core::poison_word(trial);
      const core::PoisonMap poisons(plan.buffers);
      const std::size_t output = plan.buffers.size() - 1;
      core::Tensor y(spec.dtype, spec.shape);
      poisons.lay(output, word, y.bytes);
      const std::uint64_t schedule =
          core::mix64(core::trial_seed(request.seed, trial)) ^
          std::hash<std::string>{}(request.perturbation.name + plan.problem.line() +
                                   plan.config.line());
      Kernel(draw_, Launch{plan, inputs, word, schedule}).run(y);
      const std::uint64_t bad = core::compare_output(
          y, reference, spec.tiles, poisons.of(output, word), result.outputs.front());
      ++result.trials;
      distinct.insert({seed, core::output_hash(y, reference)});
      core::add_output_hash(result.output_hashes, seed, core::output_hash(y, reference));
      if (bad == 0) continue;
      ++result.failed;
      ++result.wrong_values;
      result.first_failed_trial = std::min(result.first_failed_trial, trial);
      core::FailedTrial failure;
      failure.trial = trial;
      failure.input_seed = seed;
      failure.bad_elements = bad;
      failure.bad_outputs = {0};
      result.failures.push_back(failure);
      if (result.captures.size() < request.capture_limit) {
        result.captures.push_back({trial, seed, word, {y}});
      }
    }
    result.input_sets = inputs_seen.size();
    result.distinct_outputs = distinct.size();
    return result;
  }

 private:
  Draw draw_;
  core::BackendInfo info_;
};

// --- judging ---

core::Verdict examine(const Draw& draw, bool campaign) {
  HostBackend backend(draw);
  const kernels::Subject subject = make_subject(draw);
  if (!campaign) {
    stress::VerifyOptions options;
    options.seed = draw.seed;
    // Enough for some sum to lie so near the middle of two 16-bit values that fp32 decides.
    if (draw.fault == Fault::none) options.trials = draw.dtype == core::Dtype::bf16 ? 240 : 24;
    return diagnosis::diagnose(stress::run_verify(backend, subject, subject.variants.front(),
                                                  subject.verify_problems(true), options));
  }
  kernels::ResolvedTrial trial;
  trial.subject = &subject;
  trial.variant = &subject.variants.front();
  trial.problem = subject.verify_problems(true).at(static_cast<std::size_t>(draw.which % 3));
  trial.config = make_config(draw.settings.front());
  trial.plan = subject.plan(trial.problem, trial.variant->name, trial.config);
  constexpr std::uint64_t kTrials = 96;
  const stress::CampaignPlan plan =
      stress::default_plan(backend.info(), trial.plan, {.trials = kTrials, .seed = draw.seed});
  return diagnosis::diagnose(stress::run_campaign(backend, trial, plan));
}

/// The class that the run ends with: its first error; of a pass, its first note.
std::string answer(const core::Verdict& verdict) {
  if (verdict.outcome == core::Outcome::fail || verdict.outcome == core::Outcome::pass) {
    for (const core::Finding& finding : verdict.findings) {
      if (verdict.outcome == core::Outcome::fail && finding.severity != core::Severity::error)
        continue;
      return std::string(core::name_of(finding.finding));
    }
  }
  return std::string(core::name_of(verdict.outcome));
}

TEST(Classifier, NamesElevenKindsAndOwnsToTheOthers) {
  std::map<std::string, std::map<std::string, int>> confusion;
  int right = 0, built = 0, owned = 0, foreign = 0;
  std::string misses;
  for (const Kind& kind : kKinds) {
    for (int number = kFirst; number < kFirst + kTrialsEach; ++number) {
      const Draw draw = Draw::of(kind.fault, number);
      const bool campaign = kind.on_campaign && number % 2 == 1;
      const core::Verdict verdict = examine(draw, campaign);
      const std::string got = answer(verdict);
      const bool hit = got == core::name_of(kind.expected) &&
                       (kind.fault == Fault::none) == (verdict.outcome == core::Outcome::pass);
      ++confusion[kind.name][got];
      (kind.expected == FindingClass::unknown ? foreign : built)++;
      if (hit) {
        (kind.expected == FindingClass::unknown ? owned : right)++;
        continue;
      }
      misses +=
          fmt::format("{} {} (form {}, {}, {}): {}\n", kind.name, number, draw.form,
                      core::name_of(draw.dtype), campaign ? "campaign" : "verify", verdict.summary);
    }
  }
  std::string table;
  for (const Kind& kind : kKinds) {
    table += fmt::format("  {:<18}", kind.name);
    for (const auto& [got, count] : confusion[kind.name])
      table += fmt::format(" {} {}", count, got);
    table += "\n";
  }
  fmt::print("{}right: {} of {}; unknown: {} of {}\n{}", table, right, built, owned, foreign,
             misses);
  EXPECT_EQ(built, 11 * kTrialsEach);
  EXPECT_EQ(foreign, 2 * kTrialsEach);
  EXPECT_GE(100 * right, 99 * built) << misses;
  EXPECT_EQ(owned, foreign) << misses;
}

}  // namespace
}  // namespace faultline::test
