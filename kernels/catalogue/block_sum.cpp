// SPDX-License-Identifier: Apache-2.0
// Partial sums in shared memory of which a short row leaves some unwritten: warps without a column
// return to the barrier before they write theirs, and all of them are summed. Reported for block
// reductions and softmaxes that are right for long rows, and for short ones as long as shared
// memory happens to hold zeros.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kThreads = 128, kWarps = 4, kRun = 64;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), k = problem.values.integer("k");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {rows, k}, integers(8)),
                  output("y", f32, {rows}, {.rows = rows, .tile_axis = "row of X (one block)"})});
  plan.buffers[0].reduction = {.extent = k, .stride = 1, .tile = kRun};
  plan.program = one_stream(
      "block_sum",
      {launch(detail::cached_module(embedded::block_sum()), "block_sum_" + variant,
              {u32(rows), 1, 1}, {kThreads, 1, 1},
              {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(k))})});
  // Two additions a lane and run, the tree of a warp, the sum over the warps.
  const std::int64_t runs = detail::ceil_div(k, kWarps * kRun);
  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(2 * runs + 5 + kWarps - 1), .terms = static_cast<double>(k)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor x = matrix(inputs.at(0));
    const double unit = granularity(x);
    core::ReferenceTensor y;
    for (Eigen::Index row = 0; row < x.rows(); ++row) {
      y.expected.push_back(x.row(row).sum());
      y.bound.push_back(sum_bound(bound, unit, x.row(row).cwiseAbs().sum()));
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_block_sum() {
  return make(
      {.name = "block_sum",
       .description = "row sums in fp32, a row per block, whose warps add up through shared memory",
       .problem_domain = {{detail::integer_parameter("rows", "rows of X", 1, 1 << 20, 8),
                           detail::integer_parameter("k", "columns of X", 1, 1 << 20, 300)}},
       .variants = {clean("zeroed_partials", "a warp without a column writes a partial sum of 0"),
                    mutant("unset_partials", "zeroed_partials", core::FindingClass::uninitialised,
                           "warps without a column write no partial sum, and the sum reads what "
                           "shared memory holds in its place",
                           {{"k", "100"}})},
       .problems =
           {{}, {{"k", "100"}}, {{"rows", "3"}, {"k", "1000"}}, {{"rows", "1"}, {"k", "1"}}},
       .numeric_plan = {{.name = "sum_k X_rk",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "k: chain of a lane, warp tree, serial over 4 warps"}},
       .plan = plan,
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.tile_k = kRun, .reduction = p.values.integer("k")};
       }});
}

}  // namespace faultline::kernels::catalogue
