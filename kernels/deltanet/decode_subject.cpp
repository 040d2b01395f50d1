// SPDX-License-Identifier: Apache-2.0
#include "deltanet/decode_subject.hpp"

#include "deltanet/family.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet_decode.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace faultline::kernels::deltanet {

namespace {

using core::Dtype;

constexpr std::uint32_t kWarp = 32;
constexpr std::int64_t kLaneColumns = 8;  // of a block of `lanes`
constexpr std::uint32_t kOracleBlock = 256;

const char* name_of_subject(bool gated) {
  return gated ? "gated_deltanet_decode" : "deltanet_decode";
}

/// Where buffers stand in the plan; ungated, those after beta move up by one. Bindings of the
/// oracle go on after them.
struct Bindings {
  explicit Bindings(bool gated)
      : state(gated ? 5 : 4),
        o(state + 1),
        new_state(state + 2),
        expected_o(state + 3),
        bound_o(state + 4),
        expected_new_state(state + 5),
        bound_new_state(state + 6) {}
  static constexpr std::uint32_t q = 0, k = 1, v = 2, beta = 3, g = 4;
  std::uint32_t state, o, new_state, expected_o, bound_o, expected_new_state, bound_new_state;
};

std::vector<Variant> variants() {
  return {
      {.name = "groups",
       .description = "lane groups: a thread holds one 16-byte chunk of a few rows"},
      {.name = "lanes",
       .description = "one warp a block, one element a load: 8 columns, 4 lanes a column"},
      {.name = "lane_folded",
       .description = "right and slow: 32 lanes fold onto 8 columns, every lane does all rows of "
                      "its column",
       .is_mutant = true,
       .clean_twin = "lanes",
       .required_finding = core::FindingClass::slow_lane_folded,
       .shows_at = {{"b", "1"}, {"h", "1"}, {"dk", "128"}, {"dv", "128"}, {"dtype", "bf16"}}},
  };
}

core::Domain domain_of(bool gated) {
  core::Domain domain = problem_domain({.gated = gated, .decode = true});
  for (core::ParameterSpec& parameter : domain.parameters) {
    if (parameter.name == "dtype") {
      parameter.default_value = "bf16";
      parameter.description = "element type of q, k, v, beta and o; g is fp32";
    }
    if (parameter.name == "states") {  // zero would leave nothing to read
      parameter.default_value = "random";
      parameter.description = "the state: normal or zero";
    }
  }
  domain.parameters.push_back(detail::choice_parameter(
      "state", "element type of the state: fp32, or that of the inputs", {"f32", "input"}));
  return domain;
}

/// The tiles that are built.
struct Tile {
  std::int64_t columns, group;
};
constexpr std::array kTiles{Tile{16, 16}, Tile{32, 16}, Tile{32, 32}, Tile{64, 16}};

core::Domain config_domain(const std::string& variant) {
  if (variant != "groups") {
    return {};
  }
  return {{
      detail::listed_parameter("v_tile", "columns of the state that a block updates", {16, 32, 64},
                               32),
      detail::listed_parameter("group", "threads that share 16 bytes of columns and split the rows",
                               {16, 32}, 16),
  }};
}

Dtype state_dtype_of(const core::Problem& problem) {
  return problem.values.text("state") == "f32" ? Dtype::f32 : problem.values.dtype();
}

/// The default first. 16-bit states: half a warp's worth of 16-byte chunks is enough in flight
/// whatever the number of heads. fp32: few heads want many small blocks, to reach every
/// multiprocessor; many heads want long rows, to reach the memory's bandwidth.
std::vector<core::Config> configs(const core::Problem& problem, const std::string& variant) {
  if (variant != "groups") {
    return {core::Config{}};
  }
  constexpr std::int64_t kManyBlocks = 4 * 132;  // several for each multiprocessor of an H200
  const Extents e = extents_of(problem);
  Tile preferred{32, 16};
  if (state_dtype_of(problem) == Dtype::f32) {
    preferred = e.heads() * (e.dv / 64) >= kManyBlocks ? Tile{64, 16} : Tile{16, 16};
  }
  std::vector<core::Config> all;
  const auto add = [&](const Tile& tile) {
    all.emplace_back(std::vector<core::Assignment::Value>{
        {"v_tile", fmt::format("{}", tile.columns)}, {"group", fmt::format("{}", tile.group)}});
  };
  add(preferred);
  for (const Tile& tile : kTiles) {
    if (tile.columns != preferred.columns || tile.group != preferred.group) {
      add(tile);
    }
  }
  return all;
}

/// How one block works: what the launch, the bound and the tile map follow from.
struct Geometry {
  std::int64_t columns = kLaneColumns;
  std::uint32_t threads = kWarp;
  std::int64_t rows = 0;   // of a thread: its fma chain
  std::int64_t lanes = 1;  // of a warp that split the rows: log2 of them additions
  std::int64_t warps = 1;
};

Geometry geometry_of(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t dk = problem.values.integer("dk");
  if (variant == "lane_folded") {
    return {.rows = dk};
  }
  if (variant == "lanes") {
    const std::int64_t lanes = kWarp / kLaneColumns;
    return {.rows = dk / lanes, .lanes = lanes};
  }
  const Tile tile{config.integer("v_tile"), config.integer("group")};
  const auto built = std::find_if(kTiles.begin(), kTiles.end(), [&](const Tile& t) {
    return t.columns == tile.columns && t.group == tile.group;
  });
  if (built == kTiles.end()) {
    throw core::UsageError(fmt::format(
        "v_tile={} group={} is not built. Use v_tile=16, 32 or 64 with group=16, or v_tile=32 "
        "with group=32",
        tile.columns, tile.group));
  }
  const std::int64_t elements =
      16 / static_cast<std::int64_t>(core::size_of(state_dtype_of(problem)));
  const std::int64_t chunks = tile.columns / elements;
  const std::int64_t threads = chunks * tile.group;
  return {.columns = tile.columns,
          .threads = static_cast<std::uint32_t>(threads),
          .rows = dk / tile.group,
          .lanes = kWarp / chunks,
          .warps = threads / kWarp};
}

/// Roundings on the way of a product S_ij k_i: one fma a row of a thread, a tree over lanes, a sum
/// over warps, the decay.
reference::DeltaDecodeBound bound_of(const Geometry& geometry, std::int64_t dk, bool gated) {
  std::int64_t tree = 0;
  while ((std::int64_t{1} << tree) < geometry.lanes) {
    ++tree;
  }
  const std::int64_t sums = geometry.rows + tree + geometry.warps;
  reference::DeltaDecodeNumerics numerics;
  numerics.state_chain = static_cast<double>(sums + 1);
  numerics.qk_chain = static_cast<double>(sums);
  numerics.terms = static_cast<double>(dk);
  numerics.gated = gated;
  return reference::delta_decode_bound(numerics);
}

core::ModuleRef module_of(Dtype dtype, bool mutant) {
  using namespace embedded;
  switch (dtype) {
  case Dtype::f16:
    return detail::cached_module(mutant ? deltanet_decode_f16_mutants() : deltanet_decode_f16());
  case Dtype::bf16:
    return detail::cached_module(mutant ? deltanet_decode_bf16_mutants() : deltanet_decode_bf16());
  default:
    return detail::cached_module(mutant ? deltanet_decode_f32_mutants() : deltanet_decode_f32());
  }
}

std::string entry_name(const std::string& subject, const std::string& variant,
                       const core::Config& config, Dtype dtype, Dtype state, std::int64_t dk) {
  const std::string tile = variant == "groups" ? fmt::format("_v{}_g{}", config.integer("v_tile"),
                                                             config.integer("group"))
                                               : "";
  return fmt::format("{}_{}{}_{}_s{}_dk{}", subject, variant, tile, core::name_of(dtype),
                     core::name_of(state), dk);
}

/// q k v beta [g] state | o new_state
std::vector<core::BufferSpec> buffers_of(const core::Problem& problem, bool gated,
                                         std::int64_t columns) {
  const Extents e = extents_of(problem);
  std::vector<core::BufferSpec> buffers;
  for (const char* name : {"q", "k", "v", "beta"}) {
    buffers.push_back(family_buffer(problem, name, 1));
  }
  if (gated) {
    buffers.push_back(family_buffer(problem, "g", 1));
  }
  core::BufferSpec state = family_buffer(problem, "h0", 1);
  state.name = "state";
  state.dtype = state_dtype_of(problem);
  state.pooled = true;
  core::BufferSpec o = family_buffer(problem, "o", 1);
  o.tiles = {.rows = e.heads(),
             .cols = e.dv,
             .tile_cols = columns,
             .tile_axis = fmt::format("{} columns of one head", columns)};
  core::BufferSpec new_state = state;
  new_state.name = "new_state";
  new_state.role = core::BufferRole::output;
  new_state.input = {};
  new_state.pooled = false;
  new_state.tiles = {.rows = e.heads() * e.dk,
                     .cols = e.dv,
                     .tile_rows = e.dk,
                     .tile_cols = columns,
                     .tile_axis = fmt::format("{} columns of one head", columns)};
  buffers.push_back(std::move(state));
  buffers.push_back(std::move(o));
  buffers.push_back(std::move(new_state));
  return buffers;
}

core::TrialPlan plan_of(bool gated, const core::Problem& problem, const std::string& variant,
                        const core::Config& config) {
  const Extents e = extents_of(problem);
  const Dtype dtype = problem.values.dtype(), state = state_dtype_of(problem);
  const float scale = scale_of(problem);
  const Geometry geometry = geometry_of(problem, variant, config);
  const reference::DeltaDecodeBound bound = bound_of(geometry, e.dk, gated);
  const Bindings at(gated);
  const std::int64_t blocks = e.heads() * (e.dv / geometry.columns);
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();
  if (blocks > kMaxBlocks) {
    throw core::UsageError(fmt::format("{} needs b*h*dv/v_tile = {} blocks; a grid holds {}",
                                       problem.subject, blocks, kMaxBlocks));
  }

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers = buffers_of(problem, gated, geometry.columns);
  plan.max_batch = static_cast<std::uint32_t>(kMaxBlocks / blocks);

  const auto gate = [gated]() -> core::Argument {
    return gated ? core::Argument{core::BufferArgument{Bindings::g}}
                 : core::Argument{core::scalar(std::int64_t{0})};
  };
  plan.program = [=, name = entry_name(problem.subject, variant, config, dtype, state, e.dk),
                  module = module_of(dtype, variant == "lane_folded")](std::uint32_t batch) {
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = name;
    launch.grid[0] = static_cast<std::uint32_t>(blocks) * batch;
    launch.block[0] = geometry.threads;
    for (const std::uint32_t buffer : {at.q, at.k, at.v, at.beta}) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(gate());
    for (const std::uint32_t buffer : {at.state, at.o, at.new_state}) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dv)));
    launch.arguments.push_back(core::scalar(scale));
    core::Program program;
    program.name = name;
    program.add(std::move(launch));
    return program;
  };

  plan.device_oracle = [=](std::uint32_t batch) {
    core::LaunchOperation launch;
    launch.module = detail::cached_module(embedded::oracle_deltanet_decode());
    launch.entry =
        fmt::format("oracle_deltanet_decode_{}_s{}", core::name_of(dtype), core::name_of(state));
    launch.grid[0] = static_cast<std::uint32_t>(e.heads()) * batch;
    launch.block[0] = kOracleBlock;
    for (const std::uint32_t buffer : {at.q, at.k, at.v, at.beta}) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(gate());
    for (const std::uint32_t buffer :
         {at.state, at.expected_o, at.bound_o, at.expected_new_state, at.bound_new_state}) {
      launch.arguments.push_back(core::BufferArgument{buffer});
    }
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dk)));
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(e.dv)));
    launch.arguments.push_back(core::scalar(static_cast<double>(scale)));
    launch.arguments.push_back(core::scalar(bound.state_relative));
    launch.arguments.push_back(core::scalar(bound.qk_relative));
    launch.arguments.push_back(core::scalar(bound.absolute));
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(bound.gated)));
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(bound.update)));
    core::Program program;
    program.name = "oracle_deltanet_decode";
    program.add(std::move(launch));
    return program;
  };

  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return reference::delta_decode({.q = inputs.at(at.q),
                                    .k = inputs.at(at.k),
                                    .v = inputs.at(at.v),
                                    .beta = inputs.at(at.beta),
                                    .g = gated ? &inputs.at(at.g) : nullptr,
                                    .state = inputs.at(at.state)},
                                   scale, bound);
  };
  return plan;
}

TileLengths lengths(const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
  const Extents e = extents_of(problem);
  return {.tile_k = geometry_of(problem, variant, config).rows,
          .reduction = e.dk,
          .tile_rows = e.dk,
          .rows = e.heads() * e.dk};
}

/// Every regime of the inputs, both widths, both states; more heads than one where it costs little.
std::vector<core::Problem> verify_problems(bool gated, bool small) {
  using Values = std::vector<core::Assignment::Value>;
  std::vector<Values> cases{
      {},
      {{"h", "3"}, {"dv", "128"}, {"state", "input"}, {"scale", "auto"}},
      {{"b", "2"}, {"dk", "128"}, {"keys", "unit"}, {"beta", "uniform"}, {"state", "input"}},
      {{"dk", "128"}, {"dv", "128"}, {"keys", "correlated"}, {"beta", "coin"}, {"scale", "-0.5"}},
      {{"b", "2"}, {"h", "2"}, {"keys", "identical"}, {"beta", "coin"}, {"state", "input"}},
      {{"dk", "128"}, {"dv", "128"}, {"keys", "repeated"}, {"beta", "uniform"}},
      {{"dv", "128"}, {"keys", "unit"}, {"states", "zero"}},
  };
  if (gated) {
    cases.push_back({{"keys", "unit"}, {"gate", "0"}});
    cases.push_back({{"dk", "128"}, {"gate", "20"}, {"state", "input"}});
    cases.push_back({{"dv", "128"}, {"keys", "unit"}, {"gate", "0.01"}, {"beta", "uniform"}});
  }
  if (!small) {
    cases.push_back({{"b", "2"}, {"h", "33"}, {"dk", "128"}, {"dv", "128"}});
    cases.push_back({{"b", "64"}, {"h", "32"}, {"dk", "128"}, {"dv", "128"}, {"keys", "unit"}});
    cases.push_back({{"b", "64"}, {"h", "32"}, {"state", "input"}, {"keys", "correlated"}});
  }
  const core::Domain domain = domain_of(gated);
  std::vector<core::Problem> problems;
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    for (Values values : cases) {
      values.emplace_back("dtype", dtype);
      problems.push_back(detail::make_problem(name_of_subject(gated), domain, std::move(values)));
    }
  }
  return problems;
}

std::vector<core::Problem> bench_problems(bool gated) {
  std::vector<core::Problem> problems;
  for (const char* b : {"1", "64"}) {
    for (const char* state : {"f32", "input"}) {
      problems.push_back(detail::make_problem(name_of_subject(gated), domain_of(gated),
                                              {{"b", b},
                                               {"h", "32"},
                                               {"dk", "128"},
                                               {"dv", "128"},
                                               {"dtype", "bf16"},
                                               {"state", state}}));
    }
  }
  return problems;
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem, bool gated) {
  const Dtype dtype = problem.values.dtype();
  std::vector<RoundingPoint> points;
  if (gated) {
    points.push_back({.name = "a = exp2(g * log2 e)", .stored = Dtype::f32, .reduction = ""});
  }
  const std::string decay = gated ? "a * " : "";
  points.push_back({.name = "r_j = sum_i S_ij k_i, p_j = sum_i S_ij q_i, q.k",
                    .stored = Dtype::f32,
                    .reduction = "dk: fma chain of a thread, tree of its lanes, sum over warps"});
  points.push_back({.name = fmt::format("u_j = beta * fma(-{}r_j, v_j)", decay),
                    .stored = Dtype::f32,
                    .reduction = ""});
  points.push_back({.name = fmt::format("S'_ij = fma(k_i, u_j, {}S_ij)", decay),
                    .stored = state_dtype_of(problem),
                    .reduction = ""});
  points.push_back({.name = fmt::format("o_j = scale * fma(q.k, u_j, {}p_j)", decay),
                    .stored = dtype,
                    .reduction = ""});
  return points;
}

}  // namespace

Subject make_decode_subject(bool gated) {
  Subject subject;
  subject.name = name_of_subject(gated);
  subject.description =
      gated ? "one decode step of the gated delta rule: u = beta (v - e^g S^T k), "
              "S' = e^g S + k u^T, o = scale * S'^T q"
            : "one decode step of the delta rule: u = beta (v - S^T k), S' = S + k u^T, "
              "o = scale * S'^T q";
  subject.problem_domain = domain_of(gated);
  subject.config_domain = config_domain;
  subject.configs = configs;
  subject.verify_problems = [gated](bool small) { return verify_problems(gated, small); };
  subject.bench_problems = [gated] { return bench_problems(gated); };
  subject.variants = variants();
  subject.numeric_plan = [gated](const core::Problem& problem) {
    return numeric_plan(problem, gated);
  };
  subject.plan = [gated](const core::Problem& problem, const std::string& variant,
                         const core::Config& config) {
    return plan_of(gated, problem, variant, config);
  };
  subject.lengths = lengths;
  subject.traffic_bytes = [gated](const core::Problem& problem) {
    return traffic_bytes_of(buffers_of(problem, gated, kLaneColumns));
  };
  return subject;
}

}  // namespace faultline::kernels::deltanet
