// SPDX-License-Identifier: Apache-2.0
// Two defects of tiled reductions. mask_before_map: rows beyond the end are masked before an affine
// map, which makes its offset of them; reported for quantised and normalised reductions that are
// right at multiples of the tile. idle_parts: blocks that got no work return without writing their
// part, and the second pass sums it all the same; reported for split reductions that are wrong only
// for small inputs on large devices.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <algorithm>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kColumns = 128, kTileRows = 8;

core::Config splits_of(std::int64_t splits) {
  core::Config config;
  config.set("splits", splits);
  return config;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols"),
                     splits = config.integer("splits");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("X", f32, {rows, cols}, integers(8)), workspace("parts", f32, {splits, cols}),
       output("y", f32, {cols},
              {.cols = cols, .tile_cols = kColumns, .tile_axis = "128 columns (one block)"})});
  plan.buffers[0].reduction = {.extent = rows, .stride = cols, .tile = kTileRows};
  const core::ModuleRef module = detail::cached_module(embedded::colsum_affine());
  const std::uint32_t blocks = u32(detail::ceil_div(cols, kColumns));
  plan.program = one_stream(
      "colsum_affine",
      {launch(module, "colsum_affine_" + variant, {blocks, u32(splits), 1}, {kColumns, 1, 1},
              {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(rows)),
               core::scalar(i32(cols))}),
       launch(module, "colsum_affine_finish", {blocks, 1, 1}, {kColumns, 1, 1},
              {core::BufferArgument{1}, core::BufferArgument{2}, core::scalar(i32(splits)),
               core::scalar(i32(cols))})});
  // The map, the additions of a block, the additions of the parts.
  const std::int64_t tiles = detail::ceil_div(detail::ceil_div(rows, kTileRows), splits);
  const reference::GemvBound bound =
      reference::gemv_bound({.chain = static_cast<double>(1 + tiles * kTileRows + splits),
                             .terms = static_cast<double>(rows)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor x = matrix(inputs.at(0));
    const double unit = std::min(0.25, 2.0 * granularity(x));
    core::ReferenceTensor y;
    for (Eigen::Index c = 0; c < x.cols(); ++c) {
      const double offsets = 0.25 * static_cast<double>(rows);
      y.expected.push_back(2.0 * x.col(c).sum() + offsets);
      y.bound.push_back(sum_bound(bound, unit, 2.0 * x.col(c).cwiseAbs().sum() + offsets));
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_colsum_affine() {
  return make(
      {.name = "colsum_affine",
       .description = "y_c = sum_r (2 x_rc + 1/4) in fp32, in two passes over row tiles of 8",
       .problem_domain = {{detail::integer_parameter("rows", "rows of X", 1, 1 << 20, 64),
                           detail::integer_parameter("cols", "columns of X", 1, 1 << 20, 160)}},
       .variants = {clean("masked", "rows beyond the end count as 0 after the map; every block "
                                    "writes its part"),
                    mutant("mask_before_map", "masked", core::FindingClass::tail,
                           "rows beyond the end count as 0 before the map, so each adds its offset",
                           {{"rows", "61"}}),
                    mutant("idle_parts", "masked", core::FindingClass::uninitialised,
                           "blocks without a row tile return early, and the sum reads the parts "
                           "that they never wrote",
                           {{"rows", "8"}})},
       .problems = {{}, {{"rows", "61"}}, {{"rows", "8"}}, {{"rows", "3"}, {"cols", "5"}}},
       .numeric_plan = {{.name = "sum_r (2 x_rc + 1/4)",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "rows / splits: one chain of a thread, then serial over the "
                                      "splits"}},
       .plan = plan,
       .config_domain = {{detail::listed_parameter("splits", "blocks that share the rows",
                                                   {1, 2, 4, 8}, 4)}},
       .configs = {splits_of(4), splits_of(1)},
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.tile_k = kTileRows, .reduction = p.values.integer("rows")};
       }});
}

}  // namespace faultline::kernels::catalogue
