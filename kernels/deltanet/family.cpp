// SPDX-License-Identifier: Apache-2.0
#include "deltanet/family.hpp"

#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace faultline::kernels::deltanet {

namespace {

using core::Distribution;
using core::InputSpec;

constexpr std::int64_t kStateTileRows = 16;

core::ParameterSpec real_parameter(std::string name, std::string description, double minimum,
                                   double maximum, std::string default_value,
                                   std::vector<std::string> words = {}) {
  core::ParameterSpec spec;
  spec.name = std::move(name);
  spec.kind = core::ParameterSpec::Kind::real;
  spec.description = std::move(description);
  spec.real_minimum = minimum;
  spec.real_maximum = maximum;
  spec.choices = std::move(words);
  spec.default_value = std::move(default_value);
  return spec;
}

InputSpec spec_of(Distribution distribution, double a, double b) {
  return {distribution, static_cast<float>(a), static_cast<float>(b)};
}

InputSpec rows_of(Distribution distribution, std::int64_t row, std::int64_t group) {
  return {distribution, 0.0f, 1.0f, static_cast<std::int32_t>(row),
          static_cast<std::int32_t>(group)};
}

/// Each regime is there for what it brings out: `small` is the usual forgiving test, `unit` keeps
/// states of order one over long sequences, `correlated` and `identical` make A ill-conditioned,
/// `repeated` gives sums of one sign.
InputSpec input_of(const core::Problem& problem, const Extents& e, std::string_view name) {
  const std::string& keys = problem.values.text("keys");
  const InputSpec small = spec_of(Distribution::normal, 0.0, 0.1);
  const InputSpec normal = spec_of(Distribution::normal, 0.0, 1.0);
  if (name == "q") {
    return keys == "small" ? small : rows_of(Distribution::unit_row, e.dk, e.t);
  }
  if (name == "k") {
    const Distribution distribution = keys == "correlated"  ? Distribution::common_row
                                      : keys == "identical" ? Distribution::identical_row
                                                            : Distribution::unit_row;
    return keys == "small" ? small : rows_of(distribution, e.dk, e.t);
  }
  if (name == "v" || name == "do") {
    return keys == "small"      ? small
           : keys == "repeated" ? rows_of(Distribution::repeated_row, e.dv, e.t)
                                : normal;
  }
  if (name == "beta") {
    const std::string& beta = problem.values.text("beta");
    return beta == "coin"   ? spec_of(Distribution::coin, 0.0, 1.0)
           : beta == "half" ? spec_of(Distribution::uniform, 0.0, 0.5)
                            : spec_of(Distribution::uniform, 0.0, 1.0);
  }
  if (name == "g") {
    const double magnitude = problem.values.real("gate");
    return magnitude == 0.0 ? spec_of(Distribution::constant, 0.0, 0.0)
                            : spec_of(Distribution::uniform, -magnitude, 0.0);
  }
  if (problem.values.text("states") == "zero") {
    return spec_of(Distribution::constant, 0.0, 0.0);
  }
  return keys == "small" ? small : normal;
}

/// Tiles of a head, 0 where a tile would reach into the next one.
std::int64_t tiles_of_head(std::int64_t rows, std::int64_t tile_rows) {
  return rows % tile_rows == 0 ? rows / tile_rows : 0;
}

}  // namespace

Extents extents_of(const core::Problem& problem) {
  Extents e;
  e.b = problem.values.integer("b");
  e.h = problem.values.integer("h");
  e.t = problem.values.has("t") ? problem.values.integer("t") : 1;
  e.dk = problem.values.integer("dk");
  e.dv = problem.values.integer("dv");
  return e;
}

float scale_of(const core::Problem& problem) {
  return problem.values.text("scale") == "auto"
             ? static_cast<float>(1.0 /
                                  std::sqrt(static_cast<double>(problem.values.integer("dk"))))
             : static_cast<float>(problem.values.real("scale"));
}

core::Domain problem_domain(const DomainOptions& options) {
  core::Domain domain;
  const auto add = [&](core::ParameterSpec spec) { domain.parameters.push_back(std::move(spec)); };
  add(detail::integer_parameter("b", "batch", 1, 1024, 1));
  add(detail::integer_parameter("h", "heads", 1, 1024, 1));
  if (!options.decode) {
    add(detail::integer_parameter("t", "length of the sequence", 1, 1 << 20, 128));
  }
  add(detail::listed_parameter("dk", "width of a key, rows of the state", {64, 128}, 64));
  add(detail::listed_parameter("dv", "width of a value, columns of the state", {64, 128}, 64));
  core::ParameterSpec dtype = detail::dtype_parameter(core::Dtype::f16);
  dtype.description = "element type of q, k, v, beta and o; states and gates are fp32";
  add(std::move(dtype));
  add(real_parameter("scale", "factor of o; auto is dk^-1/2", -1024.0, 1024.0, "1", {"auto"}));
  add(detail::choice_parameter("keys", "how q, k, v and do are drawn (kernels/deltanet/README.md)",
                               {"small", "unit", "correlated", "identical", "repeated"}));
  add(detail::choice_parameter("beta", "uniform on [0, 0.5), uniform on [0, 1), or 0 and 1",
                               {"half", "uniform", "coin"}));
  if (options.gated) {
    add(real_parameter("gate", "m: g is uniform on [-m, 0); 0: no decay", 0.0, 20.0, "1"));
  }
  add(detail::choice_parameter("states", "h0 and dhT: zero or normal", {"zero", "random"}));
  return domain;
}

core::BufferSpec family_buffer(const core::Problem& problem, std::string_view name,
                               std::int64_t chunk) {
  const Extents e = extents_of(problem);
  const core::Dtype dtype = problem.values.dtype();
  core::BufferSpec buffer;
  buffer.name = std::string(name);
  buffer.dtype = dtype;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool timed = problem.values.has("t");
  const auto per_row = [&](std::int64_t width) {
    core::Shape shape{e.b, e.h};
    if (timed) {
      shape.push_back(e.t);
    }
    if (width > 0) {
      shape.push_back(width);
    }
    return shape;
  };
  std::int64_t rows = e.heads() * e.t, cols = 1, tile_rows = chunk;
  if (is({"q", "k", "dq", "dk"})) {
    buffer.shape = per_row(cols = e.dk);
  } else if (is({"v", "o", "do", "dv"})) {
    buffer.shape = per_row(cols = e.dv);
  } else if (is({"beta", "g", "dbeta", "dg"})) {
    buffer.shape = per_row(0);
    if (!is({"beta"})) {
      buffer.dtype = core::Dtype::f32;
    }
    buffer.exponent = is({"g"});
  } else if (is({"h0", "hT", "dhT", "dh0"})) {
    buffer.shape = {e.b, e.h, e.dk, e.dv};
    buffer.dtype = core::Dtype::f32;
    rows = e.heads() * e.dk;
    cols = e.dv;
    tile_rows = kStateTileRows;
  } else {
    throw core::UsageError(fmt::format("the DeltaNet family has no tensor '{}'", name));
  }
  if (is({"q", "k", "v", "beta", "g", "h0", "do", "dhT"})) {
    buffer.role = core::BufferRole::input;
    buffer.input = input_of(problem, e, name);
    return buffer;
  }
  buffer.role = core::BufferRole::output;
  buffer.tiles = {.rows = rows,
                  .cols = cols,
                  .tile_rows = std::min(tile_rows, rows),
                  .tile_cols = cols,
                  .tiles_per_group = tiles_of_head(rows / e.heads(), tile_rows),
                  .tile_axis = tile_rows == kStateTileRows ? "16 rows of dk" : "one chunk"};
  return buffer;
}

core::BufferSpec workspace_buffer(std::string name, core::Dtype dtype, core::Shape shape,
                                  std::int64_t tile_rows, std::string tile_axis) {
  core::BufferSpec buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.shape = std::move(shape);
  buffer.role = core::BufferRole::workspace;
  const std::int64_t cols = buffer.shape.back(), rows = buffer.elements() / cols;
  const std::int64_t heads = buffer.shape.at(0) * buffer.shape.at(1);
  buffer.tiles = {.rows = rows,
                  .cols = cols,
                  .tile_rows = std::min(tile_rows, rows),
                  .tile_cols = cols,
                  .tiles_per_group = tiles_of_head(rows / heads, tile_rows),
                  .tile_axis =
                      tile_axis.empty() ? fmt::format("{} rows", tile_rows) : std::move(tile_axis)};
  return buffer;
}

std::uint32_t index_of(const std::vector<core::BufferSpec>& buffers, std::string_view name) {
  const auto found = std::find_if(buffers.begin(), buffers.end(),
                                  [&](const core::BufferSpec& b) { return b.name == name; });
  if (found == buffers.end()) {
    throw core::UsageError(fmt::format("this plan has no buffer '{}'", name));
  }
  return static_cast<std::uint32_t>(found - buffers.begin());
}

reference::DeltaInputs inputs_of(const std::vector<core::BufferSpec>& buffers,
                                 const std::vector<core::Tensor>& inputs, float scale) {
  reference::DeltaTensors tensors;
  std::size_t next = 0;
  for (const core::BufferSpec& buffer : buffers) {
    if (buffer.role != core::BufferRole::input) {
      continue;
    }
    const core::Tensor* tensor = &inputs.at(next++);
    const std::pair<std::string_view, const core::Tensor**> slots[] = {
        {"q", &tensors.q}, {"k", &tensors.k},   {"v", &tensors.v},    {"beta", &tensors.beta},
        {"g", &tensors.g}, {"h0", &tensors.h0}, {"do", &tensors.d_o}, {"dhT", &tensors.dhT}};
    for (const auto& [name, slot] : slots) {
      if (buffer.name == name) {
        *slot = tensor;
      }
    }
  }
  return reference::delta_inputs(tensors, scale);
}

std::vector<core::ReferenceTensor> references_of(const reference::DeltaBounds& bounds,
                                                 const std::vector<std::string>& names) {
  std::vector<core::ReferenceTensor> tensors;
  for (const std::string& name : names) {
    tensors.push_back(bounds.at(name));
  }
  return tensors;
}

std::vector<core::ReferenceNote> notes_of(const reference::DeltaBounds& bounds,
                                          const std::vector<std::string>& names) {
  using Kind = core::ReferenceNote::Kind;
  std::vector<core::ReferenceNote> notes;
  for (const reference::BoundFigures& f : bounds.report.outputs) {
    if (std::find(names.begin(), names.end(), f.name) == names.end()) {
      continue;
    }
    if (!(f.forms_difference <= reference::kFormsAgree)) {
      notes.push_back({f.name, Kind::unusable,
                       fmt::format("the recurrence and the chunkwise form of {} differ by {:.1e} "
                                   "of its largest element, they must agree to {:.0e}",
                                   f.name, f.forms_difference, reference::kFormsAgree)});
    }
    if (f.not_finite > 0) {
      notes.push_back({f.name, Kind::unusable,
                       fmt::format("{} of {} elements of {} have no finite bound: the numeric plan "
                                   "overflows or divides by zero",
                                   f.not_finite, f.elements, f.name)});
    } else if (f.unsound()) {
      notes.push_back({f.name, Kind::unusable,
                       fmt::format("rounded to nearest, the numeric plan is off by {:.2f} of the "
                                   "bound of {} at element {} (limit {}): its roundings do not "
                                   "average out",
                                   f.twin_ratio, f.name, f.twin_index, reference::kTwinLimit)});
    } else if (f.blind()) {
      notes.push_back(
          {f.name, Kind::blind,
           f.rejects_zero >= reference::kSeenShare
               ? fmt::format("{} moved by one element would be accepted, but for {:.1f} % of its "
                             "elements",
                             f.name, 100.0 * f.rejects_shuffled)
               : fmt::format("an all-zero {} would be accepted, but for {:.1f} % of its elements: "
                             "it is below rounding",
                             f.name, 100.0 * f.rejects_zero)});
    }
    if (f.not_finite == 0 && f.wide()) {
      notes.push_back({f.name, Kind::wide,
                       fmt::format("the error expected of {} is {:.1f} % of its size", f.name,
                                   100.0 * f.relative_scale)});
    }
  }
  return notes;
}

std::vector<std::string> names_of(const std::vector<core::BufferSpec>& buffers,
                                  const std::vector<std::uint32_t>& indices) {
  std::vector<std::string> names;
  for (const std::uint32_t index : indices) {
    names.push_back(buffers.at(index).name);
  }
  return names;
}

double traffic_bytes_of(const std::vector<core::BufferSpec>& buffers) {
  double bytes = 0.0;
  for (const core::BufferSpec& buffer : buffers) {
    if (buffer.role != core::BufferRole::workspace) {
      bytes += static_cast<double>(buffer.bytes());
    }
  }
  return bytes;
}

std::vector<core::Problem> sequence_verify_problems(const std::string& subject, bool gated,
                                                    bool small) {
  struct Case {
    const char *b, *h, *t, *dk, *dv, *dtype, *scale, *keys, *beta, *gate, *states;
  };
  static constexpr std::array kSmall{
      Case{"1", "1", "1", "64", "64", "f16", "1", "small", "half", "1", "random"},
      Case{"1", "1", "64", "64", "64", "bf16", "auto", "unit", "uniform", "0.01", "random"},
      Case{"1", "2", "65", "64", "64", "f16", "auto", "unit", "uniform", "0.1", "zero"},
      Case{"1", "1", "100", "128", "64", "bf16", "1", "small", "half", "1", "random"},
      Case{"1", "1", "100", "64", "128", "f16", "1", "correlated", "uniform", "0", "random"},
      Case{"1", "1", "130", "128", "128", "f16", "auto", "identical", "coin", "20", "random"},
      Case{"2", "1", "192", "64", "64", "bf16", "-0.5", "repeated", "uniform", "0.01", "random"},
      Case{"1", "1", "97", "64", "64", "f32", "1", "small", "half", "1", "random"},
      Case{"1", "1", "70", "128", "64", "f32", "auto", "correlated", "uniform", "0.1", "random"},
  };
  static constexpr std::array kLarge{
      Case{"2", "4", "2048", "64", "64", "f16", "1", "small", "half", "1", "zero"},
      Case{"2", "4", "2000", "128", "128", "f16", "auto", "unit", "uniform", "0.01", "random"},
      Case{"2", "4", "1024", "128", "128", "bf16", "auto", "correlated", "uniform", "0", "random"},
      Case{"1", "16", "777", "64", "128", "bf16", "1", "unit", "coin", "0.1", "random"},
      Case{"1", "4", "500", "128", "64", "f32", "1", "unit", "uniform", "0.01", "random"},
  };
  const core::Domain domain = problem_domain({.gated = gated});
  std::vector<core::Problem> problems;
  const auto add = [&](const Case& c) {
    std::vector<core::Assignment::Value> values{
        {"b", c.b},       {"h", c.h},          {"t", c.t},         {"dk", c.dk},
        {"dv", c.dv},     {"dtype", c.dtype},  {"scale", c.scale}, {"keys", c.keys},
        {"beta", c.beta}, {"states", c.states}};
    if (gated) {
      values.push_back({"gate", c.gate});
    }
    problems.push_back(detail::make_problem(subject, domain, std::move(values)));
  };
  std::for_each(kSmall.begin(), kSmall.end(), add);
  if (!small) {
    std::for_each(kLarge.begin(), kLarge.end(), add);
  }
  return problems;
}

std::vector<core::Problem> sequence_bench_problems(const std::string& subject, bool gated) {
  const core::Domain domain = problem_domain({.gated = gated});
  std::vector<core::Problem> problems;
  for (const char* d : {"64", "128"}) {
    for (const char* dtype : {"f16", "bf16"}) {
      for (const char* t : {"2048", "4096", "8192", "16384"}) {
        problems.push_back(detail::make_problem(
            subject, domain,
            {{"b", "2"}, {"h", "4"}, {"t", t}, {"dk", d}, {"dv", d}, {"dtype", dtype}}));
      }
    }
  }
  return problems;
}

}  // namespace faultline::kernels::deltanet
