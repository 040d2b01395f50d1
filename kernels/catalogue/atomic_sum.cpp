// SPDX-License-Identifier: Apache-2.0
// A control: sums whose order changes from run to run are no bug, unless equal bits were promised.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/gemv_bound.hpp>

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kCols = 32;             // of a block
constexpr std::int64_t kRows = 4, kWarps = 8;  // of a warp, of a block

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {rows, cols}, {core::Distribution::wide, 0.0f, 1.0f}),
                  output("y", f32, {cols},
                         {.rows = 1,
                          .cols = cols,
                          .tile_rows = 1,
                          .tile_cols = kCols,
                          .tile_axis = "32 columns (a column of blocks)"})});
  plan.declared_deterministic = variant == "declared";
  const core::LaunchOperation sum =
      launch(detail::cached_module(embedded::atomic_sum()), "atomic_sum",
             {u32(detail::ceil_div(cols, kCols)), u32(detail::ceil_div(rows, kRows * kWarps)), 1},
             {kCols, kWarps, 1},
             {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(rows)),
              core::scalar(i32(cols))});
  plan.program =
      one_stream("atomic_sum",
                 {core::FillOperation{core::BufferArgument{1}, plan.buffers[1].bytes(), 0}, sum});
  // Whatever the order: a term passes its warp's additions and one for every warp.
  const reference::GemvBound bound =
      reference::gemv_bound({.chain = static_cast<double>(kRows + detail::ceil_div(rows, kRows)),
                             .terms = static_cast<double>(rows)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> values = inputs.at(0).to_doubles();
    const Eigen::Map<const RowMajor> x(values.data(), rows, cols);
    core::ReferenceTensor y;
    for (Eigen::Index c = 0; c < cols; ++c) {
      y.expected.push_back(x.col(c).sum());
      y.bound.push_back(reference::gemv_row_bound(bound, x.col(c).cwiseAbs().sum()));
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_atomic_sum() {
  return make(
      {.name = "atomic_sum",
       .description = "column sums by atomic additions of fp32, magnitudes from 2^-10 to 2^10",
       .problem_domain = {{detail::integer_parameter("rows", "rows", 1, 65536, 256),
                           detail::integer_parameter("cols", "columns", 1, 4096, 64)}},
       .variants = {clean("any_order", "declares that its last bits depend on the order"),
                    mutant("declared", "any_order", core::FindingClass::nondeterminism_benign,
                           "the same kernel, declared deterministic")},
       .problems = {{}, {{"rows", "1"}, {"cols", "1"}}, {{"rows", "33"}, {"cols", "33"}}},
       .numeric_plan = {{.name = "sum_r X_rc",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "rows: chains of 4, then atomics in any order"}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
