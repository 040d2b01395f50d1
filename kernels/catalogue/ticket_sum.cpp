// SPDX-License-Identifier: Apache-2.0
// A counter in a variable of the module that a call does not reset: the first call is right, no
// later one is.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kRows = 16;  // of a block
constexpr std::uint32_t kThreads = 64;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const std::int64_t blocks = detail::ceil_div(rows, kRows);
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("X", f32, {rows, cols}, integers(8)), workspace("parts", f32, {blocks, cols}),
       output("y", f32, {cols}, {.cols = cols, .tile_cols = 64, .tile_axis = "64 columns"})});
  plan.buffers[0].reduction = {.extent = rows, .stride = cols, .tile = kRows};
  plan.program =
      one_stream("ticket_sum",
                 {launch(detail::cached_module(embedded::ticket_sum()), "ticket_sum_" + variant,
                         {u32(blocks), 1, 1}, {kThreads, 1, 1},
                         {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                          core::scalar(i32(rows)), core::scalar(i32(cols))})});
  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(kRows + blocks), .terms = static_cast<double>(rows)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor x = matrix(inputs.at(0));
    const double unit = granularity(x);
    core::ReferenceTensor y;
    for (Eigen::Index c = 0; c < x.cols(); ++c) {
      y.expected.push_back(x.col(c).sum());
      y.bound.push_back(sum_bound(bound, unit, x.col(c).cwiseAbs().sum()));
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_ticket_sum() {
  return make(
      {.name = "ticket_sum",
       .description = "column sums in fp32, added up by the block that is done last",
       .problem_domain = {{detail::integer_parameter("rows", "rows of X", 1, 65536, 60),
                           detail::integer_parameter("cols", "columns of X", 1, 4096, 80)}},
       .variants = {clean("reset", "the last block sets the counter of done blocks back to 0"),
                    mutant("not_reset", "reset", core::FindingClass::state,
                           "the counter of done blocks goes on counting: in a later call no block "
                           "takes itself for the last one, and nothing is written")},
       .problems = {{}, {{"rows", "1"}, {"cols", "1"}}, {{"rows", "129"}, {"cols", "5"}}},
       .numeric_plan = {{.name = "sum_r x_rc",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "16 rows: one chain of a thread, then serial over the "
                                      "blocks"}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
