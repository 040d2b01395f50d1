// SPDX-License-Identifier: Apache-2.0
// Registers one subject, rms_norm, and hands over to faultline's own command line.
#include <Eigen/Core>
#include <cmath>

#include "faultline/app/main.hpp"
#include "faultline/reference/rounding.hpp"
#include "rms_norm_kernels_modules.hpp"

namespace core = faultline::core;
namespace kernels = faultline::kernels;
using faultline::reference::gamma_fp32;

namespace {

constexpr float kEpsilon = 1e-5f;

// Expected values and bounds, both in double. The bound says where the kernel rounds: a square
// passes through at most ceil(cols / 256) + 1 roundings in its thread, 5 in the warp and 8 across
// warps; the division and + epsilon are 2 more. So mean + epsilon is off by at most gamma_m, m =
// all of these, and the scale by 1 / sqrt(1 - gamma_m) and two roundings (root, reciprocal). The
// product with x rounds once more. Rounding the result itself belongs to acceptance, not to the
// bound.
std::vector<core::ReferenceTensor> reference(const std::vector<core::Tensor>& inputs) {
  const auto rows = inputs[0].shape[0], cols = inputs[0].shape[1];
  const std::vector<double> x_values = inputs[0].to_doubles(), w_values = inputs[1].to_doubles();
  using Matrix = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> x(x_values.data(), rows, cols);
  const Eigen::Map<const Eigen::Array<double, 1, Eigen::Dynamic>> w(w_values.data(), cols);

  core::ReferenceTensor y;
  y.expected.resize(static_cast<size_t>(rows * cols));
  y.bound.resize(y.expected.size());
  Eigen::Map<Matrix> expected(y.expected.data(), rows, cols), bound(y.bound.data(), rows, cols);
  const Eigen::ArrayXd scale =
      (x.square().rowwise().mean() + static_cast<double>(kEpsilon)).sqrt().inverse();
  expected = (x.colwise() * scale).rowwise() * w;
  const double u = core::unit_roundoff(core::Dtype::f32);
  const double sum = gamma_fp32(std::ceil(static_cast<double>(cols) / 256.0) + 1 + 5 + 8 + 2);
  bound = expected.abs() * (std::pow(1 + u, 3) / std::sqrt(1 - sum) - 1);
  return {y};
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  core::TrialPlan plan{
      .subject = "rms_norm", .variant = variant, .problem = problem, .config = config};
  core::BufferSpec x{.name = "x", .dtype = core::Dtype::f32, .shape = {rows, cols}};
  core::BufferSpec w{.name = "w", .dtype = core::Dtype::f32, .shape = {cols}};
  core::BufferSpec y{.name = "y",
                     .dtype = core::Dtype::f32,
                     .shape = {rows, cols},
                     .role = core::BufferRole::output};
  y.tiles = {.rows = rows, .cols = cols, .tile_rows = 1, .tile_cols = cols, .tile_axis = "one row"};
  plan.buffers = {x, w, y};
  plan.reference = reference;
  plan.program = [=](std::uint32_t) {
    core::LaunchOperation launch;
    launch.module = core::make_module(faultline::embedded::rms_norm());
    launch.entry = variant == "clean" ? "rms_norm_clean" : "rms_norm_missing_barrier";
    launch.grid = {static_cast<std::uint32_t>(rows), 1, 1};
    launch.block = {256, 1, 1};
    launch.arguments = {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                        core::scalar(static_cast<std::int32_t>(cols)), core::scalar(kEpsilon)};
    core::Program program{.name = "rms_norm"};
    program.add(launch);
    return program;
  };
  return plan;
}

core::ParameterSpec extent(const char* name, const char* description, const char* default_value) {
  core::ParameterSpec parameter;
  parameter.name = name;
  parameter.description = description;
  parameter.maximum = 65536;
  parameter.default_value = default_value;
  return parameter;
}

kernels::Subject rms_norm() {
  kernels::Subject subject;
  subject.name = "rms_norm";
  subject.description = "root-mean-square normalisation of rows, f32";
  subject.problem_domain.parameters = {extent("rows", "rows, one block each", "16"),
                                       extent("cols", "elements of a row", "1000")};
  subject.config_domain = [](const std::string&) { return core::Domain{}; };
  subject.configs = [](const core::Problem&, const std::string&) {
    return std::vector<core::Config>{core::Config{}};
  };
  // Around what the kernel's loop depends on: one column, and one off the 256 threads of a block.
  subject.verify_problems = [domain = subject.problem_domain](bool) {
    std::vector<core::Problem> problems;
    for (const char* line :
         {"rows=1 cols=1", "rows=3 cols=255", "rows=2 cols=257", "rows=16 cols=1000"}) {
      problems.push_back({"rms_norm", core::complete(domain, core::parse_assignments(line),
                                                     "problem of rms_norm")});
    }
    return problems;
  };
  subject.variants = {
      {.name = "clean", .description = "barrier between the partial sums and their readers"},
      {.name = "missing_barrier",
       .description = "no __syncthreads between the partial sums and their readers",
       .is_mutant = true,
       .clean_twin = "clean",
       .required_finding = core::FindingClass::race_shared}};
  subject.numeric_plan = [](const core::Problem&) {
    return std::vector<kernels::RoundingPoint>{
        {.name = "sum_c x[r][c]^2", .reduction = "cols: chain of a thread, warp tree, warps"},
        {.name = "1 / sqrt(mean + epsilon)"},
        {.name = "y[r][c]"}};
  };
  subject.plan = plan;
  subject.lengths = [](const core::Problem& problem, const std::string&, const core::Config&) {
    return kernels::TileLengths{.tile_k = 256,
                                .reduction = problem.values.integer("cols"),
                                .tile_rows = 1,
                                .rows = problem.values.integer("rows")};
  };
  subject.traffic_bytes = [](const core::Problem& problem) {
    const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
    return 4.0 * static_cast<double>(2 * rows * cols + cols);
  };
  return subject;
}

}  // namespace

int main(int argc, char** argv) {
  return faultline::app::run(argc, argv,
                             [](kernels::SubjectRegistry& registry) { registry.add(rms_norm()); });
}
