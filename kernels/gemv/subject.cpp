// SPDX-License-Identifier: Apache-2.0
#include "gemv/subject.hpp"

#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/gemv.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace faultline::kernels::gemv {

namespace {

using core::Dtype;
using detail::ceil_div;

constexpr std::int64_t kWarp = 32;
constexpr std::uint32_t kOracleThreads = 256;

/// How a variant's work is laid out; a mutant has its clean twin's.
enum class Layout { register_only, shared_x, pipelined };

/// One entry of the .cu files.
struct Tiling {
  std::int64_t stages = 0;     ///< pipelined
  std::int64_t rows = 1;       ///< rows per block
  std::int64_t threads = 32;   ///< threads per row
  std::int64_t in_flight = 0;  ///< register: 16-byte loads in flight
  std::int64_t tile_k = 0;     ///< shared_x, pipelined
  bool vector = true;          ///< register: false forces the element path
};

struct VariantEntry {
  Variant variant;
  Layout layout;
  std::vector<Tiling> tilings;  ///< the first is the default
};

std::vector<Tiling> register_tilings() {
  return {{.rows = 1, .threads = 128, .in_flight = 4},
          {.rows = 1, .threads = 128, .in_flight = 7},
          {.rows = 1, .threads = 256, .in_flight = 4},
          {.rows = 2, .threads = 64, .in_flight = 4},
          {.rows = 4, .threads = 32, .in_flight = 4},
          {.rows = 1, .threads = 32, .in_flight = 4},
          {.rows = 32, .threads = 32, .in_flight = 2},
          {.rows = 32, .threads = 32, .in_flight = 1, .vector = false}};
}
/// The tile configs that wrong_config and missed_rows are built in.
std::vector<Tiling> tile_tilings() {
  return {{.rows = 4, .threads = 32, .in_flight = 4},
          {.rows = 2, .threads = 64, .in_flight = 4},
          {.rows = 1, .threads = 128, .in_flight = 4},
          {.rows = 1, .threads = 256, .in_flight = 4}};
}
std::vector<Tiling> wide_tilings() {
  return {{.rows = 32, .threads = 32, .in_flight = 2},
          {.rows = 32, .threads = 32, .in_flight = 1, .vector = false}};
}
std::vector<Tiling> shared_x_tilings() {
  return {{.rows = 4, .tile_k = 1024}, {.rows = 8, .tile_k = 1024}, {.rows = 8, .tile_k = 2048}};
}
std::vector<Tiling> pipelined_tilings() {
  return {{.stages = 3, .rows = 1, .threads = 128, .tile_k = 2048},
          {.stages = 2, .rows = 1, .threads = 128, .tile_k = 2048},
          {.stages = 1, .rows = 1, .threads = 128, .tile_k = 2048},
          {.stages = 3, .rows = 4, .threads = 32, .tile_k = 512},
          {.stages = 2, .rows = 4, .threads = 32, .tile_k = 512},
          {.stages = 1, .rows = 4, .threads = 32, .tile_k = 512}};
}

Variant clean(std::string name, std::string description) {
  Variant variant;
  variant.name = std::move(name);
  variant.description = std::move(description);
  return variant;
}

Variant mutant(std::string name, std::string twin, core::FindingClass finding,
               std::vector<core::Assignment::Value> shows_at, std::string description) {
  return {.name = std::move(name),
          .description = std::move(description),
          .is_mutant = true,
          .clean_twin = std::move(twin),
          .required_finding = finding,
          .shows_at = std::move(shows_at)};
}

const std::vector<VariantEntry>& variant_entries() {
  using core::FindingClass;
  static const std::vector<VariantEntry> entries{
      {clean("register", "a row is reduced by 32 to 256 threads straight from global memory"),
       Layout::register_only, register_tilings()},
      {clean("shared_x", "a warp per row; the block stages x in shared memory, tile by tile"),
       Layout::shared_x, shared_x_tilings()},
      {clean("pipelined", "tiles of A go through shared memory by cp.async, in 1 to 3 stages"),
       Layout::pipelined, pipelined_tilings()},
      {mutant("uncoalesced", "register", FindingClass::slow_uncoalesced,
              {{"n", "64"}, {"k", "1024"}},
              "right but slow: neighbouring threads read neighbouring rows, k elements apart"),
       Layout::register_only, wide_tilings()},
      {mutant("wrong_config", "register", FindingClass::config, {{"n", "64"}, {"k", "1024"}},
              "the epilogue's index fits one row a block: wrong where a block has several"),
       Layout::register_only, tile_tilings()},
      {mutant("missed_rows", "register", FindingClass::missed_write, {{"n", "64"}, {"k", "1024"}},
              "an off-by-one in the row guard: the last row tile is never written"),
       Layout::register_only, tile_tilings()},
      {mutant("missing_barrier", "shared_x", FindingClass::race_shared,
              {{"n", "64"}, {"k", "3000"}},
              "no barrier between the last read of a tile of x and the next write to it"),
       Layout::shared_x, shared_x_tilings()},
      {mutant("dropped_tail", "pipelined", FindingClass::tail, {{"n", "33"}, {"k", "3000"}},
              "the tile count is rounded down: elements of k after the last whole tile are lost"),
       Layout::pipelined, pipelined_tilings()},
      {mutant("stage_sentinel", "pipelined", FindingClass::systematic_offset,
              {{"n", "33"}, {"k", "2048"}},
              "a left-over path for stages = 0 runs too: the first 256 of k are added twice"),
       Layout::pipelined, pipelined_tilings()},
  };
  return entries;
}

const VariantEntry& entry_of(const std::string& variant) {
  for (const VariantEntry& entry : variant_entries()) {
    if (entry.variant.name == variant) {
      return entry;
    }
  }
  throw core::UsageError(fmt::format("unknown variant '{}' of gemv", variant));
}

core::Domain problem_domain() {
  return {{
      detail::integer_parameter("n", "rows of A", 1, std::int64_t{1} << 28, 1024),
      detail::integer_parameter("k", "columns of A", 1, std::int64_t{1} << 28, 1024),
      detail::dtype_parameter(Dtype::f16),
      detail::choice_parameter("inputs",
                               "what is declared of A and x; independent and mean_zero tightens "
                               "the bound (docs/tolerances.md)",
                               {"any", "mean_zero"}),
  }};
}

/// Sorted distinct values of one member over a variant's tilings.
std::vector<std::int64_t> values_of(const std::vector<Tiling>& tilings,
                                    std::int64_t Tiling::*member) {
  std::vector<std::int64_t> values;
  for (const Tiling& tiling : tilings) {
    values.push_back(tiling.*member);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

core::Domain config_domain(const std::string& variant) {
  const VariantEntry& entry = entry_of(variant);
  const Tiling& first = entry.tilings.front();
  const auto listed = [&](const char* name, const char* description, std::int64_t Tiling::*member) {
    return detail::listed_parameter(name, description, values_of(entry.tilings, member),
                                    first.*member);
  };
  const core::ParameterSpec rows = listed("rows", "rows per block", &Tiling::rows);
  const core::ParameterSpec threads = listed("threads", "threads per row", &Tiling::threads);
  switch (entry.layout) {
  case Layout::register_only:
    return {{rows, threads,
             listed("in_flight", "16-byte loads requested before the first is used",
                    &Tiling::in_flight),
             detail::choice_parameter("access", "16-byte chunks where rows allow it, or elements",
                                      {"vector", "element"})}};
  case Layout::shared_x:
    return {{rows, listed("tile_k", "elements of x staged at a time", &Tiling::tile_k)}};
  case Layout::pipelined: {
    core::ParameterSpec stages =
        detail::integer_parameter("stages", "tiles of A held in shared memory", 1, 3, first.stages);
    return {{std::move(stages), rows, threads,
             listed("tile_k", "columns of A per tile", &Tiling::tile_k)}};
  }
  }
  return {};
}

core::Config config_of(Layout layout, const Tiling& tiling) {
  core::Config config;
  if (layout == Layout::pipelined) {
    config.set("stages", tiling.stages);
  }
  config.set("rows", tiling.rows);
  if (layout != Layout::shared_x) {
    config.set("threads", tiling.threads);
  }
  if (layout == Layout::register_only) {
    config.set("in_flight", tiling.in_flight);
    config.set("access", tiling.vector ? "vector" : "element");
  } else {
    config.set("tile_k", tiling.tile_k);
  }
  return config;
}

std::int64_t chunk_of(Dtype dtype) { return 16 / static_cast<std::int64_t>(core::size_of(dtype)); }

/// Whole batches of 7 loads in every thread of a row: k = 7168 in 16-bit types.
bool prefers_seven_in_flight(const core::Problem& problem) {
  return problem.values.integer("k") % (7 * 128 * chunk_of(problem.values.dtype())) == 0;
}

std::vector<core::Config> configs(const core::Problem& problem, const std::string& variant) {
  const VariantEntry& entry = entry_of(variant);
  std::vector<core::Config> all;
  for (const Tiling& tiling : entry.tilings) {
    all.push_back(config_of(entry.layout, tiling));
  }
  if (variant == "register" && prefers_seven_in_flight(problem)) {
    std::swap(all[0], all[1]);
  }
  return all;
}

Tiling tiling_of(const std::string& variant, const core::Config& config) {
  const VariantEntry& entry = entry_of(variant);
  std::string known;
  for (const Tiling& tiling : entry.tilings) {
    const core::Config candidate = config_of(entry.layout, tiling);
    if (candidate == config) {
      return tiling;
    }
    known += (known.empty() ? "" : "; ") + candidate.line();
  }
  throw core::UsageError(fmt::format("gemv@{} is not built for config '{}'. Built: {}", variant,
                                     config.line(), known));
}

std::string entry_name(const VariantEntry& entry, const Tiling& t, Dtype dtype) {
  const std::string head = fmt::format("gemv_{}_{}", entry.variant.name, core::name_of(dtype));
  switch (entry.layout) {
  case Layout::register_only:
    return t.vector ? fmt::format("{}_r{}_t{}_u{}", head, t.rows, t.threads, t.in_flight)
                    : fmt::format("{}_r{}_t{}_element", head, t.rows, t.threads);
  case Layout::shared_x: return fmt::format("{}_r{}_k{}", head, t.rows, t.tile_k);
  case Layout::pipelined:
    return fmt::format("{}_s{}_r{}_t{}_k{}", head, t.stages, t.rows, t.threads, t.tile_k);
  }
  return head;
}

core::ModuleRef module_of(Dtype dtype, bool mutant) {
  using namespace embedded;
  switch (dtype) {
  case Dtype::f16: return detail::cached_module(mutant ? gemv_f16_mutants() : gemv_f16());
  case Dtype::bf16: return detail::cached_module(mutant ? gemv_bf16_mutants() : gemv_bf16());
  default: return detail::cached_module(mutant ? gemv_f32_mutants() : gemv_f32());
  }
}

/// Roundings on the longest path from a product to the stored sum: the fma chain of a thread, the
/// tree of a warp (5), the serial sum over a row's warps (whose first addition is to zero).
/// The uncoalesced mutant sums all threads of a row serially.
double chain_of(const VariantEntry& entry, const Tiling& t, std::int64_t k, Dtype dtype) {
  const std::int64_t chunk = chunk_of(dtype);
  // Elements of `length` columns that one of t.threads threads takes, in chunks or one by one.
  const auto share = [&](std::int64_t length) {
    return t.vector && k % chunk == 0 ? ceil_div(length / chunk, t.threads) * chunk
                                      : ceil_div(length, t.threads);
  };
  const std::int64_t products =
      t.tile_k == 0 ? share(k) : k / t.tile_k * share(t.tile_k) + share(k % t.tile_k);
  const std::int64_t sums =
      entry.variant.name == "uncoalesced" ? t.threads - 1 : 5 + (t.threads / kWarp - 1);
  return static_cast<double>(products + sums);
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const VariantEntry& entry = entry_of(variant);
  const Tiling tiling = tiling_of(variant, config);
  const std::int64_t n = problem.values.integer("n"), k = problem.values.integer("k");
  const Dtype dtype = problem.values.dtype();
  const reference::GemvBound bound =
      reference::gemv_bound({.chain = chain_of(entry, tiling, k, dtype),
                             .terms = static_cast<double>(k),
                             .mean_zero = problem.values.text("inputs") == "mean_zero"});

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers.resize(3);
  plan.buffers[0].name = "A";
  plan.buffers[0].shape = {n, k};
  plan.buffers[0].pooled = true;
  plan.buffers[0].reduction = {.extent = k, .stride = 1, .tile = 512};
  plan.buffers[1].name = "x";
  plan.buffers[1].shape = {k};
  plan.buffers[2].name = "y";
  plan.buffers[2].shape = {n};
  plan.buffers[2].role = core::BufferRole::output;
  plan.buffers[2].tiles = {.rows = n,
                           .tile_rows = tiling.rows,
                           .tile_axis = fmt::format("{} row{} of y (one block)", tiling.rows,
                                                    tiling.rows == 1 ? "" : "s")};
  for (core::BufferSpec& buffer : plan.buffers) {
    buffer.dtype = dtype;
  }

  plan.program = [=, name = entry_name(entry, tiling, dtype),
                  module = module_of(dtype, entry.variant.is_mutant)](std::uint32_t batch) {
    if (batch != 1) {
      throw core::UsageError(fmt::format("gemv runs one trial in a grid, not {}", batch));
    }
    core::Program program;
    program.name = name;
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = name;
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(n, tiling.rows));
    launch.block[0] = static_cast<std::uint32_t>(tiling.rows * tiling.threads);
    launch.arguments = {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                        core::scalar(static_cast<std::int32_t>(n)),
                        core::scalar(static_cast<std::int32_t>(k))};
    program.add(std::move(launch));
    return program;
  };

  plan.device_oracle = [=](std::uint32_t) {
    core::Program program;
    program.name = "oracle_gemv";
    core::LaunchOperation launch;
    launch.module = detail::cached_module(embedded::oracle_gemv());
    launch.entry = fmt::format("oracle_gemv_{}", core::name_of(dtype));
    launch.grid[0] = static_cast<std::uint32_t>(n);
    launch.block[0] = kOracleThreads;
    launch.arguments = {
        core::BufferArgument{0},     core::BufferArgument{1}, core::BufferArgument{3},
        core::BufferArgument{4},     core::scalar(k),         core::scalar(bound.relative),
        core::scalar(bound.absolute)};
    program.add(std::move(launch));
    return program;
  };

  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return std::vector{reference::gemv(inputs.at(0), inputs.at(1), bound)};
  };
  return plan;
}

TileLengths lengths(const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
  const Tiling tiling = tiling_of(variant, config);
  return {.tile_k = tiling.tile_k,
          .reduction = problem.values.integer("k"),
          .tile_rows = tiling.rows,
          .rows = problem.values.integer("n")};
}

double traffic_bytes(const core::Problem& problem) {
  const double n = static_cast<double>(problem.values.integer("n"));
  const double k = static_cast<double>(problem.values.integer("k"));
  return (n * k + n + k) * static_cast<double>(core::size_of(problem.values.dtype()));
}

/// Edges of the tiles of k (8 and 4 per chunk, 256, 512, 1024, 2048) and of the rows of a block
/// (1, 2, 4, 8, 32): one element, one below, at, one above, and a ragged last tile.
std::vector<core::Problem> verify_problems(bool small) {
  static constexpr std::array<std::array<std::int64_t, 2>, 15> kSmall{{{64, 1024},
                                                                       {1, 1},
                                                                       {1, 3000},
                                                                       {2, 7},
                                                                       {3, 8},
                                                                       {5, 9},
                                                                       {31, 256},
                                                                       {33, 255},
                                                                       {32, 257},
                                                                       {7, 511},
                                                                       {9, 1025},
                                                                       {4, 2047},
                                                                       {8, 2048},
                                                                       {17, 2056},
                                                                       {33, 3000}}};
  static constexpr std::array<std::array<std::int64_t, 2>, 7> kLarge{{{1024, 1024},
                                                                      {3001, 3000},
                                                                      {3001, 3001},
                                                                      {7168, 16384},
                                                                      {18432, 7168},
                                                                      {28672, 8192},
                                                                      {57344, 7168}}};
  const core::Domain domain = problem_domain();
  std::vector<core::Problem> problems;
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    const auto add = [&](const std::array<std::int64_t, 2>& shape) {
      problems.push_back(detail::make_problem(
          "gemv", domain,
          {{"n", std::to_string(shape[0])}, {"k", std::to_string(shape[1])}, {"dtype", dtype}}));
    };
    for (const auto& shape : kSmall) {
      add(shape);
    }
    if (!small) {
      for (const auto& shape : kLarge) {
        add(shape);
      }
    }
  }
  return problems;
}

std::vector<core::Problem> bench_problems() {
  const core::Domain domain = problem_domain();
  std::vector<core::Problem> problems;
  for (const char* dtype : {"f16", "bf16"}) {
    for (const auto& [n, k] : {std::pair{"7168", "16384"},
                               {"18432", "7168"},
                               {"28672", "8192"},
                               {"57344", "7168"},
                               {"1024", "1024"}}) {
      problems.push_back(
          detail::make_problem("gemv", domain, {{"n", n}, {"k", k}, {"dtype", dtype}}));
    }
  }
  return problems;
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem) {
  const Dtype dtype = problem.values.dtype();
  return {{.name = "A_ij * x_j",
           .stored = Dtype::f32,
           .accumulate = Dtype::f32,
           .reduction = "none: exact in f16 and bf16, fused with the sum in f32"},
          {.name = "sum_j A_ij x_j",
           .stored = Dtype::f32,
           .accumulate = Dtype::f32,
           .reduction = "k: fma chain of a thread, warp tree, serial over the warps of a row"},
          {.name = "y_i", .stored = dtype, .accumulate = Dtype::f32, .reduction = ""}};
}

}  // namespace

Subject make_subject() {
  Subject subject;
  subject.name = "gemv";
  subject.description = "y = A x, fp32 accumulation";
  subject.problem_domain = problem_domain();
  subject.config_domain = config_domain;
  subject.configs = configs;
  subject.verify_problems = verify_problems;
  subject.bench_problems = bench_problems;
  for (const VariantEntry& entry : variant_entries()) {
    subject.variants.push_back(entry.variant);
  }
  subject.numeric_plan = numeric_plan;
  subject.plan = plan;
  subject.lengths = lengths;
  subject.traffic_bytes = traffic_bytes;
  return subject;
}

}  // namespace faultline::kernels::gemv
