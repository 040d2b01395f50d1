// SPDX-License-Identifier: Apache-2.0
#include "gla_decode/subject.hpp"

#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/gla_decode.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace faultline::kernels::gla_decode {

namespace {

using core::Dtype;
using detail::ceil_div;

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kStages = 2;
constexpr std::uint32_t kBlock = 256;
/// Inner extent of a box of the tensor map: one 128-byte swizzled row.
constexpr std::int64_t kPanelBytes = 128;

/// Where buffers stand in the plan. Bindings of the oracle go on after them.
enum Binding : std::uint32_t {
  kQ,
  kK,
  kV,
  kGk,
  kState,
  kO,
  kNewState,
  kExpectedO,
  kBoundO,
  kExpectedNewState,
  kBoundNewState
};

enum class Consumer { serial, mma, scalar };

Variant clean(std::string name, std::string description) {
  Variant variant;
  variant.name = std::move(name);
  variant.description = std::move(description);
  return variant;
}

Variant race(std::string name, std::string twin, std::string description) {
  return {.name = std::move(name),
          .description = std::move(description),
          .is_mutant = true,
          .clean_twin = std::move(twin),
          .required_finding = core::FindingClass::race_async,
          .shows_at = {{"b", "1"}, {"h", "1"}, {"dk", "64"}, {"dv", "64"}, {"dtype", "bf16"}}};
}

/// The kernel that most is said of. Its warning is true, and left as it is.
Variant pipelined() {
  Variant variant =
      clean("pipelined", "two passes, each a two-stage pipeline between a producer and a consumer "
                         "warpgroup; tensor cores in f16 and bf16");
  variant.known_warnings = {core::FindingClass::slow_bank_conflicts};
  variant.known_reason = "one bulk copy lays a tile's rows side by side without a swizzle, and "
                         "ldmatrix reads them 128 bytes apart; the copies, not shared memory, take "
                         "the time";
  return variant;
}

Variant early_release() {
  Variant variant =
      race("early_release", "pipelined",
           "a stage is released before its ldmatrix reads have returned: no proxy fence");
  variant.model_only = "on hardware an arrival overtakes the reads too rarely for a short run";
  return variant;
}

std::vector<Variant> variants() {
  return {
      pipelined(),
      clean("scalar", "pipelined with plain loads and fma instead of ldmatrix and mma"),
      clean("serial", "the definition: no pipeline, no asynchronous copy"),
      race("shared_buffer", "pipelined",
           "pass 2 loads into pass 1's stages behind barriers of its own"),
      race("shared_buffer_scalar", "scalar", "shared_buffer with the scalar consumer"),
      early_release(),
  };
}

core::Domain problem_domain() {
  core::ParameterSpec scale;
  scale.name = "scale";
  scale.kind = core::ParameterSpec::Kind::real;
  scale.description = "factor of o; auto is dk^-1/2";
  scale.real_minimum = -1024.0;
  scale.real_maximum = 1024.0;
  scale.choices = {"auto"};
  scale.default_value = "auto";
  return {{
      detail::integer_parameter("b", "batch", 1, 65535, 1),
      detail::integer_parameter("h", "heads", 1, 1024, 1),
      detail::integer_parameter("dk", "rows of the state", 16, 256, 64, kTileRows),
      detail::listed_parameter("dv", "columns of the state", {64, 128}, 64),
      detail::dtype_parameter(Dtype::bf16),
      std::move(scale),
  }};
}

core::Domain config_domain(const std::string& variant) {
  if (variant == "serial") {
    return {};
  }
  return {{
      detail::choice_parameter("copy",
                               "how a state tile reaches shared memory: cp.async.bulk, or "
                               "cp.async.bulk.tensor with a 128-byte swizzle",
                               {"bulk", "tensor"}),
      detail::choice_parameter("producer",
                               "who fills q_tile and arrives: 128 threads, or one "
                               "thread that only copies",
                               {"warpgroup", "thread"}),
  }};
}

std::vector<core::Config> configs(const core::Problem&, const std::string& variant) {
  if (variant == "serial") {
    return {core::Config{}};
  }
  std::vector<core::Config> all;
  for (const char* copy : {"bulk", "tensor"}) {
    for (const char* producer : {"warpgroup", "thread"}) {
      all.emplace_back(
          std::vector<core::Assignment::Value>{{"copy", copy}, {"producer", producer}});
    }
  }
  return all;
}

struct Extents {
  std::int64_t b, h, dk, dv;
  std::int64_t heads() const { return b * h; }
};

Extents extents_of(const core::Problem& problem) {
  return {problem.values.integer("b"), problem.values.integer("h"), problem.values.integer("dk"),
          problem.values.integer("dv")};
}

/// As the kernel gets it.
float scale_of(const core::Problem& problem) {
  return problem.values.text("scale") == "auto"
             ? static_cast<float>(1.0 /
                                  std::sqrt(static_cast<double>(problem.values.integer("dk"))))
             : static_cast<float>(problem.values.real("scale"));
}

Consumer consumer_of(const std::string& variant, Dtype dtype) {
  if (variant == "serial") {
    return Consumer::serial;
  }
  const bool scalar = variant == "scalar" || variant == "shared_buffer_scalar";
  return scalar || dtype == Dtype::f32 ? Consumer::scalar : Consumer::mma;
}

/// Longest paths of fp32 roundings.
///
/// From a product x_i S_ij to o:
/// - mma: 16 per tensor-core step of one tile (its 17 addends are cut at 2^-25 of the largest and
///   the sum at 2^-23, together below 16 u); scale; the final fma
/// - scalar: an fma per row of a thread, the sum of two threads when dv = 64; scale; the final fma
/// - serial: a_i S_ij and u_ij, an fma per row of a thread, the sum over 256/dv threads; scale
///
/// From q_i k_i: an fma per 32 rows, 5 of the warp's tree, scale, the final fma (serial: as above).
reference::GlaNumerics numerics_of(Consumer consumer, const Extents& e, Dtype dtype) {
  reference::GlaNumerics numerics;
  numerics.terms = static_cast<double>(e.dk);
  if (consumer == Consumer::serial) {
    const std::int64_t groups = kBlock / e.dv;
    numerics.state_chain = static_cast<double>(2 + ceil_div(e.dk, groups) + groups - 1 + 1);
    numerics.qk_chain = numerics.state_chain;
    return numerics;
  }
  const std::int64_t partials = 128 / e.dv;
  const std::int64_t sums = consumer == Consumer::mma ? e.dk : e.dk / partials + (partials - 1);
  numerics.state_chain = static_cast<double>(sums + 2);
  numerics.qk_chain = static_cast<double>(ceil_div(e.dk, 32) + 5 + 2);
  numerics.query = dtype;
  return numerics;
}

core::ModuleRef module_of(Dtype dtype, bool mutant) {
  using namespace embedded;
  switch (dtype) {
  case Dtype::f16:
    return detail::cached_module(mutant ? gla_decode_f16_mutants() : gla_decode_f16());
  case Dtype::bf16:
    return detail::cached_module(mutant ? gla_decode_bf16_mutants() : gla_decode_bf16());
  default: return detail::cached_module(mutant ? gla_decode_f32_mutants() : gla_decode_f32());
  }
}

std::string entry_name(const std::string& variant, const core::Config& config, Dtype dtype,
                       std::int64_t dv) {
  const std::string tail = fmt::format("{}_dv{}", core::name_of(dtype), dv);
  return variant == "serial" ? fmt::format("gla_decode_serial_{}", tail)
                             : fmt::format("gla_decode_{}_{}_{}_{}", variant, config.text("copy"),
                                           config.text("producer"), tail);
}

/// The state as a matrix [rows, dv] whose boxes are one panel of one tile.
core::TensorMapArgument state_map(Dtype dtype, std::int64_t rows, std::int64_t dv) {
  const std::int64_t element = static_cast<std::int64_t>(core::size_of(dtype));
  core::TensorMapArgument map;
  map.buffer = kState;
  map.dtype = dtype;
  map.rank = 2;
  map.dims[0] = static_cast<std::uint64_t>(dv);
  map.dims[1] = static_cast<std::uint64_t>(rows);
  map.strides_bytes[0] = static_cast<std::uint64_t>(dv * element);
  map.box[0] = static_cast<std::uint32_t>(kPanelBytes / element);
  map.box[1] = static_cast<std::uint32_t>(kTileRows);
  map.swizzle = core::TensorMapArgument::Swizzle::bytes_128;
  return map;
}

std::vector<core::BufferSpec> buffers_of(const Extents& e, Dtype dtype) {
  const core::InputSpec normal{core::Distribution::normal, 0.0f, 1.0f};
  const core::InputSpec gate{core::Distribution::uniform, -1.0f, 0.0f};
  const core::Shape keys{e.b, e.h, e.dk}, values{e.b, e.h, e.dv}, states{e.b, e.h, e.dk, e.dv};
  const auto input = [&](const char* name, const core::Shape& shape, const core::InputSpec& spec) {
    core::BufferSpec buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.shape = shape;
    buffer.input = spec;
    return buffer;
  };
  const auto output = [&](const char* name, const core::Shape& shape, core::TileGeometry tiles) {
    core::BufferSpec buffer = input(name, shape, {});
    buffer.role = core::BufferRole::output;
    buffer.tiles = std::move(tiles);
    return buffer;
  };
  std::vector<core::BufferSpec> buffers{input("q", keys, normal), input("k", keys, normal),
                                        input("v", values, normal), input("gk", keys, gate),
                                        input("state", states, normal)};
  buffers[kState].pooled = true;
  buffers[kGk].exponent = true;
  buffers.push_back(
      output("o", values,
             {.rows = e.heads(), .cols = e.dv, .tile_cols = e.dv, .tile_axis = "one head of o"}));
  buffers.push_back(output("new_state", states,
                           {.rows = e.heads() * e.dk,
                            .cols = e.dv,
                            .tile_rows = kTileRows,
                            .tile_cols = e.dv,
                            .tiles_per_group = e.dk / kTileRows,
                            .pipeline_depth = static_cast<std::int32_t>(kStages),
                            .tile_axis = "16 rows of dk"}));
  return buffers;
}

reference::GlaInputs inputs_of(const std::vector<core::Tensor>& inputs) {
  return {.q = inputs.at(kQ),
          .k = inputs.at(kK),
          .v = inputs.at(kV),
          .gk = inputs.at(kGk),
          .state = inputs.at(kState)};
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const Extents e = extents_of(problem);
  const Dtype dtype = problem.values.dtype();
  const float scale = scale_of(problem);
  if (variant == "early_release" && dtype == Dtype::f32) {
    throw core::UsageError(
        "gla_decode@early_release is not built for dtype=f32: its defect lies in "
        "ldmatrix, which takes 16-bit elements. Use dtype=bf16 or dtype=f16");
  }
  constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  if (e.heads() * e.dk > kMaxRows) {
    throw core::UsageError(
        fmt::format("gla_decode counts state rows in 32 bits: b*h*dk = {} must be at most {}",
                    e.heads() * e.dk, kMaxRows));
  }
  const std::vector<Variant> known = variants();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const Variant& v) { return v.name == variant; });
  if (found == known.end()) {
    throw core::UsageError(fmt::format("unknown variant '{}' of gla_decode", variant));
  }
  const reference::GlaBound bound =
      reference::gla_bound(numerics_of(consumer_of(variant, dtype), e, dtype));

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers = buffers_of(e, dtype);
  plan.max_batch = static_cast<std::uint32_t>(kMaxRows / (e.heads() * e.dk));

  const bool tensor_copy = config.has("copy") && config.text("copy") == "tensor";
  plan.program = [=, name = entry_name(variant, config, dtype, e.dv),
                  module = module_of(dtype, found->is_mutant)](std::uint32_t batch) {
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = name;
    launch.grid[0] = static_cast<std::uint32_t>(e.heads()) * batch;
    launch.block[0] = kBlock;
    for (std::uint32_t buffer = kQ; buffer <= kNewState; ++buffer) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dk)));
    launch.arguments.push_back(core::scalar(scale));
    if (tensor_copy) {
      launch.arguments.push_back(state_map(dtype, e.heads() * e.dk * batch, e.dv));
    }
    core::Program program;
    program.name = name;
    program.add(std::move(launch));
    return program;
  };

  plan.device_oracle = [=](std::uint32_t batch) {
    core::LaunchOperation launch;
    launch.module = detail::cached_module(embedded::oracle_gla_decode());
    launch.entry = fmt::format("oracle_gla_decode_{}", core::name_of(dtype));
    launch.grid[0] = static_cast<std::uint32_t>(e.heads()) * batch;
    launch.block[0] = kBlock;
    for (const std::uint32_t buffer :
         {kQ, kK, kV, kGk, kState, kExpectedO, kBoundO, kExpectedNewState, kBoundNewState}) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dk)));
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dv)));
    launch.arguments.push_back(core::scalar(static_cast<double>(scale)));
    launch.arguments.push_back(core::scalar(bound.state_relative));
    launch.arguments.push_back(core::scalar(bound.qk_relative));
    launch.arguments.push_back(core::scalar(bound.absolute));
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(bound.query)));
    core::Program program;
    program.name = "oracle_gla_decode";
    program.add(std::move(launch));
    return program;
  };

  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return reference::gla_decode(inputs_of(inputs), scale, bound);
  };
  plan.hypotheses = [=](const std::vector<core::Tensor>& inputs) {
    return reference::gla_decode_hypotheses(inputs_of(inputs), scale, kTileRows, kStages);
  };
  return plan;
}

TileLengths lengths(const core::Problem& problem, const std::string&, const core::Config&) {
  const Extents e = extents_of(problem);
  return {.tile_k = kTileRows, .reduction = e.dk, .tile_rows = kTileRows, .rows = e.heads() * e.dk};
}

double traffic_bytes(const core::Problem& problem) {
  const Extents e = extents_of(problem);
  const std::int64_t elements = e.heads() * (2 * e.dk * e.dv + 3 * e.dk + 2 * e.dv);
  return static_cast<double>(elements) * static_cast<double>(core::size_of(problem.values.dtype()));
}

/// dk of 1, 2, 3, 4, 5 and 16 tiles: fewer than the stages, as many, odd, several rounds; 1 to 3
/// heads.
std::vector<core::Problem> verify_problems(bool small) {
  struct Shape {
    const char *b, *h, *dk, *dv, *scale;
  };
  static constexpr std::array kSmall{
      Shape{"1", "1", "64", "64", "auto"},  Shape{"1", "1", "16", "64", "auto"},
      Shape{"1", "2", "32", "128", "auto"}, Shape{"2", "1", "48", "64", "1"},
      Shape{"1", "3", "80", "128", "-0.5"}, Shape{"1", "1", "256", "64", "auto"},
  };
  static constexpr std::array kLarge{
      Shape{"2", "4", "64", "64", "auto"},
      Shape{"4", "33", "128", "128", "auto"},
      Shape{"8", "16", "256", "128", "auto"},
      Shape{"64", "32", "64", "64", "auto"},
  };
  const core::Domain domain = problem_domain();
  std::vector<core::Problem> problems;
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    const auto add = [&](const Shape& s) {
      problems.push_back(detail::make_problem("gla_decode", domain,
                                              {{"b", s.b},
                                               {"h", s.h},
                                               {"dk", s.dk},
                                               {"dv", s.dv},
                                               {"dtype", dtype},
                                               {"scale", s.scale}}));
    };
    std::for_each(kSmall.begin(), kSmall.end(), add);
    if (!small) {
      std::for_each(kLarge.begin(), kLarge.end(), add);
    }
  }
  return problems;
}

std::vector<core::Problem> bench_problems() {
  return {detail::make_problem("gla_decode", problem_domain(), {{"b", "2"}, {"h", "4"}})};
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem) {
  const Dtype dtype = problem.values.dtype();
  return {
      {.name = "a_i = exp2(gk_i * log2 e)", .stored = Dtype::f32, .reduction = ""},
      {.name = "x_i = q_i * a_i (not in serial)", .stored = dtype, .reduction = ""},
      {.name = "sum_i x_i S_ij (serial: sum_i q_i u_ij)",
       .stored = Dtype::f32,
       .reduction = "dk: tensor-core steps of 16, or an fma chain"},
      {.name = "q . k", .stored = Dtype::f32, .reduction = "dk: fma chain of a lane, warp tree"},
      {.name = "o_j = scale * sum + (scale * q.k) * v_j", .stored = dtype, .reduction = ""},
      {.name = "S'_ij = fma(k_i, v_j, a_i * S_ij)", .stored = dtype, .reduction = ""},
  };
}

}  // namespace

Subject make_subject() {
  Subject subject;
  subject.name = "gla_decode";
  subject.description = "one decode step of gated linear attention: S' = diag(e^gk) S + k v^T, "
                        "o = scale * S'^T q";
  subject.problem_domain = problem_domain();
  subject.config_domain = config_domain;
  subject.configs = configs;
  subject.verify_problems = verify_problems;
  subject.bench_problems = bench_problems;
  subject.variants = variants();
  subject.numeric_plan = numeric_plan;
  subject.plan = plan;
  subject.lengths = lengths;
  subject.traffic_bytes = traffic_bytes;
  return subject;
}

}  // namespace faultline::kernels::gla_decode
