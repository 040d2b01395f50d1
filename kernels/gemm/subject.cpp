// SPDX-License-Identifier: Apache-2.0
#include "gemm/subject.hpp"

#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/gemm.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace faultline::kernels::gemm {

namespace {

using core::Dtype;
using detail::ceil_div;

constexpr std::uint32_t kA = 0, kB = 1, kC = 2, kLogits = 3;  // buffers
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMmaStep = 16;  // of k
constexpr std::int64_t kPassThreads = 256;
constexpr std::int64_t kOracleThreads = 256, kOracleTile = 64;

/// One instantiation of the .cu files.
struct Tiling {
  std::int64_t m, n, k;  ///< the tile of C, the length of a k-tile
  std::int64_t stages;
  std::int64_t warps;

  friend bool operator==(const Tiling&, const Tiling&) = default;
};

constexpr Tiling kSmall{64, 64, 32, 3, 4}, kMedium{128, 128, 32, 4, 8}, kDeep{128, 128, 64, 3, 4},
    kWide{128, 256, 32, 4, 8};
constexpr Tiling kSmallF32{64, 64, 16, 3, 4}, kMediumF32{128, 128, 16, 3, 8};

std::vector<Tiling> tilings_of(Dtype dtype, bool mutant) {
  if (dtype == Dtype::f32) {
    return {kSmallF32, kMediumF32};
  }
  return mutant ? std::vector<Tiling>{kSmall, kMedium}
                : std::vector<Tiling>{kSmall, kMedium, kDeep, kWide};
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = [] {
    Variant fused, unfused;
    fused.name = "fused";
    fused.description = "multistage cp.async pipeline, epilogue in registers";
    unfused.name = "unfused";
    unfused.description = "the same product stored to a workspace, then a pass for the epilogue";
    const auto mutant = [](std::string name, core::FindingClass finding, std::string hypothesis,
                           std::string description) {
      return Variant{.name = std::move(name),
                     .description = std::move(description),
                     .is_mutant = true,
                     .clean_twin = "fused",
                     .required_finding = finding,
                     .hypothesis = std::move(hypothesis),
                     .shows_at = {{"m", "64"}, {"n", "64"}, {"k", "96"}}};
    };
    return std::vector<Variant>{
        std::move(fused), std::move(unfused),
        mutant("missing_barrier", core::FindingClass::race_async, "",
               "no barrier after wait_group, which waits for the calling thread's copies alone"),
        mutant("epilogue_before_accumulate", core::FindingClass::wrong_term, "epilogue_per_tile",
               "the sigmoid is applied to each k-tile's partial sum, before these are added")};
  }();
  return all;
}

const Variant& variant_of(const std::string& name) {
  for (const Variant& variant : variants()) {
    if (variant.name == name) {
      return variant;
    }
  }
  throw core::UsageError(fmt::format("unknown variant '{}' of gemm", name));
}

core::Domain problem_domain() {
  constexpr std::int64_t kLongest = std::int64_t{1} << 20;
  core::ParameterSpec alpha;
  alpha.name = "alpha";
  alpha.kind = core::ParameterSpec::Kind::real;
  alpha.description =
      "factor of A B; auto is k^-1/2 before a sigmoid, which larger sums saturate, 1 without";
  alpha.real_minimum = -1024.0;
  alpha.real_maximum = 1024.0;
  alpha.choices = {"auto"};
  alpha.default_value = "auto";
  return {{
      detail::integer_parameter("m", "rows of A and C", 1, kLongest, 128),
      detail::integer_parameter("n", "columns of B and C", 1, kLongest, 128),
      detail::integer_parameter("k", "columns of A, rows of B", 1, kLongest, 128),
      detail::dtype_parameter(Dtype::f16),
      std::move(alpha),
      detail::choice_parameter("epilogue", "what is applied to alpha A B", {"sigmoid", "none"}),
      detail::choice_parameter("inputs",
                               "what is declared of A and B; independent and mean_zero tightens "
                               "the bound (docs/tolerances.md)",
                               {"any", "mean_zero"}),
  }};
}

struct Extents {
  std::int64_t m, n, k;
};

Extents extents_of(const core::Problem& problem) {
  return {problem.values.integer("m"), problem.values.integer("n"), problem.values.integer("k")};
}

bool has_sigmoid(const core::Problem& problem) {
  return problem.values.text("epilogue") == "sigmoid";
}

/// As the kernel gets it.
float alpha_of(const core::Problem& problem) {
  if (problem.values.text("alpha") != "auto") {
    return static_cast<float>(problem.values.real("alpha"));
  }
  return has_sigmoid(problem)
             ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(extents_of(problem).k)))
             : 1.0f;
}

core::Config config_of(const Tiling& tiling) {
  core::Config config;
  config.set("tile_m", tiling.m);
  config.set("tile_n", tiling.n);
  config.set("tile_k", tiling.k);
  config.set("stages", tiling.stages);
  return config;
}

/// Every value over all dtypes; not every combination is built.
core::Domain config_domain(const std::string& variant) {
  std::vector<Tiling> all = tilings_of(Dtype::f16, variant_of(variant).is_mutant);
  for (const Tiling& tiling : tilings_of(Dtype::f32, variant_of(variant).is_mutant)) {
    all.push_back(tiling);
  }
  const auto listed = [&](const char* name, const char* description, std::int64_t Tiling::*member) {
    std::vector<std::int64_t> values;
    for (const Tiling& tiling : all) {
      values.push_back(tiling.*member);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return detail::listed_parameter(name, description, values, all.front().*member);
  };
  return {{listed("tile_m", "rows of C per block", &Tiling::m),
           listed("tile_n", "columns of C per block", &Tiling::n),
           listed("tile_k", "length of k per pipeline step", &Tiling::k),
           listed("stages", "k-tiles held in shared memory", &Tiling::stages)}};
}

/// The largest tiles that still make as many blocks as a Hopper GPU has multiprocessors first, then
/// the others.
std::vector<Tiling> preferred_tilings(const core::Problem& problem, const std::string& variant) {
  constexpr std::int64_t kMultiprocessors = 132;
  const Extents e = extents_of(problem);
  std::vector<Tiling> all = tilings_of(problem.values.dtype(), variant_of(variant).is_mutant);
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const bool larger = all[i].m * all[i].n > all[best].m * all[best].n;
    if (larger && ceil_div(e.m, all[i].m) * ceil_div(e.n, all[i].n) >= kMultiprocessors) best = i;
  }
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(best),
              all.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  return all;
}

/// A sweep leaves out tiles of which half or more would always be idle; they can be asked for.
std::vector<core::Config> configs(const core::Problem& problem, const std::string& variant) {
  const Extents e = extents_of(problem);
  std::vector<core::Config> all;
  for (const Tiling& tiling : preferred_tilings(problem, variant)) {
    const bool smallest = tiling == kSmall || tiling == kSmallF32;
    if (smallest || (2 * e.m > tiling.m && 2 * e.n > tiling.n)) {
      all.push_back(config_of(tiling));
    }
  }
  return all;
}

Tiling tiling_of(const core::Problem& problem, const std::string& variant,
                 const core::Config& config) {
  std::string known;
  for (const Tiling& tiling : preferred_tilings(problem, variant)) {
    const core::Config candidate = config_of(tiling);
    if (candidate == config) {
      return tiling;
    }
    known += (known.empty() ? "" : "; ") + candidate.line();
  }
  throw core::UsageError(fmt::format("gemm@{} is not built for config '{}' in {}. Built: {}",
                                     variant, config.line(), core::name_of(problem.values.dtype()),
                                     known));
}

core::ModuleRef module_of(Dtype dtype, bool mutant) {
  using namespace embedded;
  if (mutant) {
    return detail::cached_module(gemm_mutants());
  }
  switch (dtype) {
  case Dtype::f16: return detail::cached_module(gemm_f16());
  case Dtype::bf16: return detail::cached_module(gemm_bf16());
  default: return detail::cached_module(gemm_f32());
  }
}

/// shared_bytes() of gemm_kernels.cuh: the slots, which a tile of 16-bit results may outgrow.
std::uint32_t shared_bytes(const Tiling& t, Dtype dtype) {
  const auto element = static_cast<std::int64_t>(core::size_of(dtype));
  const std::int64_t slots = t.stages * (t.m * t.k + t.k * t.n) * element;
  const std::int64_t result = dtype == Dtype::f32 ? 0 : t.m * t.n * element;
  return static_cast<std::uint32_t>(std::max(slots, result));
}

/// Roundings from a product to the sum: one fma each in f32, where zeros beyond k change nothing;
/// 16 for a tensor-core step of 16 (docs/tolerances.md, "gla_decode").
double chain_of(std::int64_t k, Dtype dtype) {
  return static_cast<double>(dtype == Dtype::f32 ? k : ceil_div(k, kMmaStep) * kMmaStep);
}

core::LaunchOperation product_launch(const Extents& e, const Tiling& tiling, core::ModuleRef module,
                                     std::string entry, std::uint32_t destination, Dtype dtype,
                                     float alpha, bool sigmoid) {
  core::LaunchOperation launch;
  launch.module = std::move(module);
  launch.entry = std::move(entry);
  launch.grid[0] = static_cast<std::uint32_t>(ceil_div(e.m, tiling.m) * ceil_div(e.n, tiling.n));
  launch.block[0] = static_cast<std::uint32_t>(tiling.warps * kWarp);
  launch.dynamic_shared_bytes = shared_bytes(tiling, dtype);
  launch.arguments = {core::BufferArgument{kA},
                      core::BufferArgument{kB},
                      core::BufferArgument{destination},
                      core::scalar(static_cast<std::int32_t>(e.m)),
                      core::scalar(static_cast<std::int32_t>(e.n)),
                      core::scalar(static_cast<std::int32_t>(e.k)),
                      core::scalar(alpha),
                      core::scalar(static_cast<std::int32_t>(sigmoid))};
  return launch;
}

core::LaunchOperation sigmoid_launch(std::int64_t elements, core::ModuleRef module, Dtype dtype) {
  const std::int64_t chunk = 16 / static_cast<std::int64_t>(core::size_of(dtype));
  core::LaunchOperation launch;
  launch.module = std::move(module);
  launch.entry = fmt::format("gemm_sigmoid_{}", core::name_of(dtype));
  launch.grid[0] = static_cast<std::uint32_t>(ceil_div(elements, kPassThreads * chunk));
  launch.block[0] = static_cast<std::uint32_t>(kPassThreads);
  launch.arguments = {core::BufferArgument{kLogits}, core::BufferArgument{kC},
                      core::scalar(elements)};
  return launch;
}

/// The part of C that comes from the first k-tile: whether a tile left out would be seen at all,
/// which bounds that grow with k hide sooner or later.
core::ErrorHypothesis first_k_tile(const core::Tensor& a, const core::Tensor& b,
                                   const reference::GemmBound& bound, std::int64_t tile_k) {
  constexpr double kOperations = 0x1p31;
  const std::int64_t rows = a.shape[0], k = a.shape[1];
  core::ErrorHypothesis hypothesis;
  hypothesis.name = "first_k_tile";
  hypothesis.terms = "sum over the first k-tile of A_ik B_kj";
  hypothesis.effect.resize(1);
  if (static_cast<double>(a.size()) * static_cast<double>(b.shape[1]) > kOperations) {
    hypothesis.left_out = "not evaluated: too many values";
    return hypothesis;
  }
  core::Tensor rest = a;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < tile_k; ++j) rest.set(i * k + j, 0.0);
  }
  hypothesis.effect[0] = reference::gemm(a, b, bound).expected;
  const std::vector<double> without = reference::gemm(rest, b, bound).expected;
  for (std::size_t i = 0; i < without.size(); ++i) hypothesis.effect[0][i] -= without[i];
  return hypothesis;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant_name,
                     const core::Config& config) {
  const Variant& variant = variant_of(variant_name);
  const Tiling tiling = tiling_of(problem, variant_name, config);
  const Extents e = extents_of(problem);
  const Dtype dtype = problem.values.dtype();
  const bool sigmoid = has_sigmoid(problem);
  // Without an epilogue there is nothing to take out of the kernel.
  const bool two_passes = variant_name == "unfused" && sigmoid;
  const float alpha = alpha_of(problem);
  const reference::GemmNumerics numerics{.chain = chain_of(e.k, dtype),
                                         .terms = static_cast<double>(e.k),
                                         .mean_zero = problem.values.text("inputs") == "mean_zero",
                                         .tensor_cores = dtype != Dtype::f32,
                                         .alpha = alpha,
                                         .sigmoid = sigmoid,
                                         .logits = two_passes ? dtype : Dtype::f32};
  const reference::GemmBound bound = reference::gemm_bound(numerics);

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant_name;
  plan.problem = problem;
  plan.config = config;
  plan.buffers.resize(two_passes ? 4 : 3);
  plan.buffers[kA].name = "A";
  plan.buffers[kA].shape = {e.m, e.k};
  plan.buffers[kA].pooled = true;
  plan.buffers[kA].reduction = {.extent = e.k, .stride = 1, .tile = tiling.k};
  plan.buffers[kB].name = "B";
  plan.buffers[kB].shape = {e.k, e.n};
  plan.buffers[kB].pooled = true;
  const core::TileGeometry tiles{.rows = e.m,
                                 .cols = e.n,
                                 .tile_rows = tiling.m,
                                 .tile_cols = tiling.n,
                                 .tile_axis =
                                     fmt::format("{} x {} of C (one block)", tiling.m, tiling.n)};
  for (std::uint32_t i = kC; i < plan.buffers.size(); ++i) {
    plan.buffers[i].name = i == kC ? "C" : "logits";
    plan.buffers[i].role = i == kC ? core::BufferRole::output : core::BufferRole::workspace;
    plan.buffers[i].shape = {e.m, e.n};
    plan.buffers[i].tiles = tiles;
  }
  for (core::BufferSpec& buffer : plan.buffers) {
    buffer.dtype = dtype;
  }

  const std::string entry =
      fmt::format("gemm_{}_{}_m{}_n{}_k{}_s{}", variant.is_mutant ? variant_name : "fused",
                  core::name_of(dtype), tiling.m, tiling.n, tiling.k, tiling.stages);
  plan.program = [=, module = module_of(dtype, variant.is_mutant)](std::uint32_t batch) {
    if (batch != 1) {
      throw core::UsageError(fmt::format("gemm runs one trial in a grid, not {}", batch));
    }
    core::Program program;
    program.name = entry;
    program.add(product_launch(e, tiling, module, entry, two_passes ? kLogits : kC, dtype, alpha,
                               sigmoid && !two_passes));
    if (two_passes) {
      program.add(sigmoid_launch(e.m * e.n, module, dtype));
    }
    return program;
  };

  plan.device_oracle = [=,
                        buffers = static_cast<std::uint32_t>(plan.buffers.size())](std::uint32_t) {
    core::LaunchOperation launch;
    launch.module = detail::cached_module(embedded::oracle_gemm());
    launch.entry = fmt::format("oracle_gemm_{}", core::name_of(dtype));
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(e.n, kOracleTile));
    launch.grid[1] = static_cast<std::uint32_t>(ceil_div(e.m, kOracleTile));
    launch.block[0] = static_cast<std::uint32_t>(kOracleThreads);
    launch.arguments = {core::BufferArgument{kA},
                        core::BufferArgument{kB},
                        core::BufferArgument{buffers},
                        core::BufferArgument{buffers + 1},
                        core::scalar(e.m),
                        core::scalar(e.n),
                        core::scalar(e.k),
                        core::scalar(bound.relative),
                        core::scalar(bound.absolute),
                        core::scalar(bound.alpha),
                        core::scalar(static_cast<std::int32_t>(bound.sigmoid)),
                        core::scalar(static_cast<std::int32_t>(bound.logits))};
    core::Program program;
    program.name = "oracle_gemm";
    program.add(std::move(launch));
    return program;
  };

  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return std::vector{reference::gemm(inputs.at(kA), inputs.at(kB), bound)};
  };
  if (two_passes) {
    plan.intermediates = {kLogits};
    reference::GemmNumerics of_logits = numerics;
    of_logits.sigmoid = false;
    plan.intermediate_reference =
        [bound = reference::gemm_bound(of_logits)](const std::vector<core::Tensor>& inputs) {
          return std::vector{reference::gemm(inputs.at(kA), inputs.at(kB), bound)};
        };
  }
  // Where the form changes nothing only a mutant of it has to hear so.
  const bool per_tile = variant.is_mutant || (sigmoid && e.k > tiling.k);
  if (per_tile || e.k > tiling.k) {
    plan.error_hypotheses = [=](const std::vector<core::Tensor>& inputs) {
      const core::Tensor &a = inputs.at(kA), &b = inputs.at(kB);
      std::vector<core::ErrorHypothesis> all;
      if (per_tile) all.push_back(reference::gemm_epilogue_per_tile(a, b, bound, tiling.k));
      if (e.k > tiling.k) all.push_back(first_k_tile(a, b, bound, tiling.k));
      return all;
    };
  }
  return plan;
}

TileLengths lengths(const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
  const Tiling tiling = tiling_of(problem, variant, config);
  const Extents e = extents_of(problem);
  return {.tile_k = tiling.k, .reduction = e.k, .tile_rows = tiling.m, .rows = e.m};
}

double traffic_bytes(const core::Problem& problem) {
  const Extents e = extents_of(problem);
  const double m = static_cast<double>(e.m), n = static_cast<double>(e.n),
               k = static_cast<double>(e.k);
  return (m * k + k * n + m * n) * static_cast<double>(core::size_of(problem.values.dtype()));
}

core::Problem sized(const char* dtype, const std::array<std::int64_t, 3>& mnk,
                    const core::Assignment::Value& other = {"epilogue", "sigmoid"}) {
  return detail::make_problem("gemm", problem_domain(),
                              {{"m", std::to_string(mnk[0])},
                               {"n", std::to_string(mnk[1])},
                               {"k", std::to_string(mnk[2])},
                               {"dtype", dtype},
                               other});
}

/// Edges of the tiles of C (64, 128, 256), of k (16, 32, 64) and of 16-byte chunks (4, 8): one
/// element, one below, at and one above, fewer k-tiles than stages and more, rows that are aligned
/// in one operand only. Then what is not the default: one each.
std::vector<core::Problem> verify_problems(bool small) {
  static constexpr std::array<std::array<std::int64_t, 3>, 9> kSmall{{{64, 64, 96},
                                                                      {1, 1, 1},
                                                                      {3, 5, 7},
                                                                      {63, 65, 33},
                                                                      {65, 72, 31},
                                                                      {9, 63, 64},
                                                                      {128, 128, 16},
                                                                      {129, 136, 40},
                                                                      {1, 257, 200}}};
  static constexpr std::array<std::array<std::int64_t, 3>, 3> kLarge{
      {{1024, 1024, 1024}, {1023, 1025, 1021}, {1000, 2056, 5000}}};
  std::vector<core::Problem> problems;
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    for (const auto& mnk : kSmall) {
      problems.push_back(sized(dtype, mnk));
    }
    if (small) continue;
    for (const auto& mnk : kLarge) {
      problems.push_back(sized(dtype, mnk));
    }
  }
  problems.push_back(sized("f16", {65, 24, 100}, {"epilogue", "none"}));
  problems.push_back(sized("bf16", {33, 40, 72}, {"alpha", "-0.3"}));
  problems.push_back(sized("f32", {40, 33, 200}, {"inputs", "mean_zero"}));
  return problems;
}

std::vector<core::Problem> bench_problems() {
  std::vector<core::Problem> problems;
  for (const char* dtype : {"f16", "bf16"}) {
    for (const std::int64_t size : {1024, 2048, 4096, 8192}) {
      problems.push_back(sized(dtype, {size, size, size}));
    }
  }
  problems.push_back(sized("f32", {4096, 4096, 4096}));
  return problems;
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem) {
  const Dtype dtype = problem.values.dtype();
  const bool tensor_cores = dtype != Dtype::f32;
  std::vector<RoundingPoint> points{
      {.name = "s_ij = sum_k A_ik B_kj",
       .stored = Dtype::f32,
       .accumulate = Dtype::f32,
       .reduction = tensor_cores ? "k: tensor-core steps of 16" : "k: one fma chain"},
      {.name = "x_ij = alpha s_ij (unfused: stored as C_ij is)",
       .stored = Dtype::f32,
       .accumulate = Dtype::f32,
       .reduction = ""}};
  if (has_sigmoid(problem)) {
    points.push_back({.name = "y_ij = 1 / (1 + ex2(-x_ij log2e))",
                      .stored = Dtype::f32,
                      .accumulate = Dtype::f32,
                      .reduction = ""});
  }
  points.push_back({.name = "C_ij", .stored = dtype, .accumulate = Dtype::f32, .reduction = ""});
  return points;
}

}  // namespace

Subject make_subject() {
  Subject subject;
  subject.name = "gemm";
  subject.description = "C = sigmoid(alpha A B), fp32 accumulation, epilogue fused";
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

}  // namespace faultline::kernels::gemm
