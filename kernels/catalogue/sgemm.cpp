// SPDX-License-Identifier: Apache-2.0
// A write-after-read race on a shared-memory operand tile: the second barrier of the classic tiled
// matrix product is missing.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/gemv_bound.hpp>

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTile = 32;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

RowMajor matrix(const core::Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  return Eigen::Map<const RowMajor>(values.data(), tensor.shape[0], tensor.shape[1]);
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t m = problem.values.integer("m"), n = problem.values.integer("n"),
                     k = problem.values.integer("k");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("A", f32, {m, k}, normal()), input("B", f32, {k, n}, normal()),
                  output("C", f32, {m, n},
                         {.rows = m,
                          .cols = n,
                          .tile_rows = kTile,
                          .tile_cols = kTile,
                          .tile_axis = "32 x 32 of C (one block)"})});
  plan.buffers[0].reduction = {.extent = k, .stride = 1, .tile = kTile};
  plan.program = one_stream(
      "sgemm", {launch(detail::cached_module(embedded::sgemm()), "sgemm_" + variant,
                       {u32(detail::ceil_div(n, kTile)), u32(detail::ceil_div(m, kTile)), 1},
                       {kTile, kTile, 1},
                       {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                        core::scalar(i32(m)), core::scalar(i32(n)), core::scalar(i32(k))})});
  // One fma a term, zeros up to a whole tile among them.
  const reference::GemvBound bound =
      reference::gemv_bound({.chain = static_cast<double>(detail::ceil_div(k, kTile) * kTile),
                             .terms = static_cast<double>(k)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor a = matrix(inputs.at(0)), b = matrix(inputs.at(1));
    const RowMajor product = a * b, magnitude = a.cwiseAbs() * b.cwiseAbs();
    core::ReferenceTensor c;
    c.expected.assign(product.data(), product.data() + product.size());
    for (Eigen::Index i = 0; i < magnitude.size(); ++i) {
      c.bound.push_back(reference::gemv_row_bound(bound, magnitude.data()[i]));
    }
    return std::vector{std::move(c)};
  };
  return plan;
}

}  // namespace

Subject make_sgemm() {
  return make({.name = "sgemm",
               .description = "C = A B in fp32, 32 x 32 tiles staged in shared memory",
               .problem_domain = {{detail::integer_parameter("m", "rows of C", 1, 4096, 64),
                                   detail::integer_parameter("n", "columns of C", 1, 4096, 64),
                                   detail::integer_parameter("k", "reduction", 1, 4096, 96)}},
               .variants = {clean("tiled", "a barrier on either side of the use of a tile"),
                            mutant("missing_barrier", "tiled", core::FindingClass::race_shared,
                                   "no barrier between the last read of a tile and the next "
                                   "write to it",
                                   {{"m", "64"}, {"n", "64"}, {"k", "96"}})},
               .problems = {{}, {{"m", "33"}, {"n", "31"}, {"k", "65"}}, {{"k", "32"}}},
               .numeric_plan = {{.name = "sum_k A_ik B_kj",
                                 .stored = core::Dtype::f32,
                                 .accumulate = core::Dtype::f32,
                                 .reduction = "k: one fma chain"}},
               .plan = plan,
               .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
                 return TileLengths{.tile_k = kTile,
                                    .reduction = p.values.integer("k"),
                                    .tile_rows = kTile,
                                    .rows = p.values.integer("m")};
               }});
}

}  // namespace faultline::kernels::catalogue
