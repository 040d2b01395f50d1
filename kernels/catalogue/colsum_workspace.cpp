// SPDX-License-Identifier: Apache-2.0
// A race between launches on two streams: a library keeps one workspace for all its callers.
#include "catalogue/subjects.hpp"

#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kParts = 16;  // blocks of the first launch
constexpr float kShifts[2] = {1,
                              1000};  // of the two calls: the values say whose partials they hold

enum Buffer : std::uint32_t { kX0, kX1, kY0, kY1, kWorkspace0, kWorkspace1 };

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const core::Dtype f32 = core::Dtype::f32;
  const core::TileGeometry tiles{.rows = 1,
                                 .cols = cols,
                                 .tile_rows = 1,
                                 .tile_cols = 128,
                                 .tile_axis = "128 columns (one block of the second launch)"};
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("x0", f32, {rows, cols}, integers(8)), input("x1", f32, {rows, cols}, integers(8)),
       output("y0", f32, {cols}, tiles), output("y1", f32, {cols}, tiles),
       workspace("workspace0", f32, {kParts, cols}), workspace("workspace1", f32, {kParts, cols})});
  plan.program = [=](std::uint32_t) {
    const core::ModuleRef module = detail::cached_module(embedded::colsum_workspace());
    core::Program program;
    program.name = "colsum_workspace";
    for (std::uint32_t call = 0; call < 2; ++call) {
      const core::StreamId stream = call + 1;
      const std::uint32_t partials =
          variant == "shared_workspace" ? kWorkspace0 : kWorkspace0 + call;
      program.add(launch(module, "colsum_partials", {u32(kParts), 1, 1}, {256, 1, 1},
                         {core::BufferArgument{kX0 + call}, core::scalar(kShifts[call]),
                          core::BufferArgument{partials}, core::scalar(i32(rows)),
                          core::scalar(i32(cols))}),
                  stream);
      program.add(launch(module, "colsum_total", {u32(detail::ceil_div(cols, 128)), 1, 1},
                         {128, 1, 1},
                         {core::BufferArgument{partials}, core::BufferArgument{kY0 + call},
                          core::scalar(i32(kParts)), core::scalar(i32(cols))}),
                  stream);
    }
    return program;
  };
  // The addition of the shift, those of a block, those of the parts.
  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(1 + detail::ceil_div(rows, kParts) + kParts),
       .terms = static_cast<double>(rows)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    std::vector<core::ReferenceTensor> references;
    for (std::size_t call = 0; call < 2; ++call) {
      const RowMajor input = matrix(inputs.at(call));
      const RowMajor x = (input.array() + double{kShifts[call]}).matrix();
      // Integers by default, and below 2^24 at every step (rows <= 16384): exact in fp32.
      const double unit = std::min(granularity(input), 1.0);
      core::ReferenceTensor y;
      for (Eigen::Index c = 0; c < x.cols(); ++c) {
        y.expected.push_back(x.col(c).sum());
        y.bound.push_back(sum_bound(bound, unit, x.col(c).cwiseAbs().sum()));
      }
      references.push_back(std::move(y));
    }
    return references;
  };
  return plan;
}

}  // namespace

Subject make_colsum_workspace() {
  return make(
      {.name = "colsum_workspace",
       .description = "column sums of two matrices, two calls on two streams",
       .problem_domain = {{detail::integer_parameter("rows", "rows of a matrix", 1, 16384, 32),
                           detail::integer_parameter("cols", "columns", 1, 4096, 192)}},
       .variants = {clean("own_workspace", "each call has a workspace of its own"),
                    mutant("shared_workspace", "own_workspace", core::FindingClass::race_stream,
                           "both calls use the workspace that the library caches for the device")},
       .problems = {{}, {{"rows", "37"}, {"cols", "131"}}, {{"rows", "1"}, {"cols", "1"}}},
       .numeric_plan = {{.name = "partial sums of x + shift",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "every 16th row: one chain of additions"},
                        {.name = "their total",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "16 parts: one chain"}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
