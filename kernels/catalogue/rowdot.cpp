// SPDX-License-Identifier: Apache-2.0
// An asynchronous copy that nobody awaits: the groups of cp.async are committed inside the
// condition that requests the next tile, so that in the last pass "all but the newest" leaves out
// the tile that is read. Reported for double-buffered matrix products whose first and middle tiles
// are right and whose last one comes from two passes before.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kThreads = 128, kTile = 512, kWarps = 4;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), k = problem.values.integer("k");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {rows, k}, normal()), input("w", f32, {k}, normal()),
                  output("y", f32, {rows}, {.rows = rows, .tile_axis = "row of X (one block)"})});
  plan.buffers[0].reduction = {.extent = k, .stride = 1, .tile = kTile};
  plan.program =
      one_stream("rowdot", {launch(detail::cached_module(embedded::rowdot()), "rowdot_" + variant,
                                   {u32(rows), 1, 1}, {kThreads, 1, 1},
                                   {core::BufferArgument{0}, core::BufferArgument{1},
                                    core::BufferArgument{2}, core::scalar(i32(k))})});
  // Four fmas a thread and tile, the tree of a warp, the sum over the warps.
  const std::int64_t tiles = detail::ceil_div(k, kTile);
  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(tiles * kTile / kThreads + 5 + kWarps - 1),
       .terms = static_cast<double>(k)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor x = matrix(inputs.at(0)), w = matrix(inputs.at(1));
    const double unit = granularity(x) * granularity(w);
    core::ReferenceTensor y;
    for (Eigen::Index row = 0; row < x.rows(); ++row) {
      y.expected.push_back(x.row(row).dot(w.row(0)));
      y.bound.push_back(sum_bound(bound, unit, x.row(row).cwiseAbs().dot(w.row(0).cwiseAbs())));
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_rowdot() {
  return make(
      {.name = "rowdot",
       .description =
           "y = X w in fp32, a row per block, tiles of X by cp.async through two buffers",
       .problem_domain = {{detail::integer_parameter("rows", "rows of X", 1, 1 << 20, 8),
                           detail::integer_parameter("k", "columns of X", 4, 1 << 20, 2048, 4)}},
       .variants = {clean("double_buffered", "a group of copies is committed in every pass"),
                    mutant("unawaited_tile", "double_buffered", core::FindingClass::race_async,
                           "no group is committed in the last pass: its wait leaves the copies of "
                           "the last tile in flight",
                           {{"rows", "8"}, {"k", "2048"}})},
       .problems = {{},
                    {{"rows", "3"}, {"k", "1300"}},
                    {{"rows", "5"}, {"k", "512"}},
                    {{"rows", "1"}, {"k", "4"}}},
       .numeric_plan = {{.name = "sum_k X_rk w_k",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "k: fma chain of a thread, warp tree, serial over 4 warps"}},
       .plan = plan,
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.tile_k = kTile, .reduction = p.values.integer("k")};
       }});
}

}  // namespace faultline::kernels::catalogue
