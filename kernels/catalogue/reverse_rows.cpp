// SPDX-License-Identifier: Apache-2.0
// A pass that leaves part of a workspace unwritten, and a pass that copies from there what it
// finds: reported for permutations by way of a staging buffer, whose last row or group is missed.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTileRows = 8;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const core::Dtype f32 = core::Dtype::f32;
  const core::TileGeometry tiles{.rows = rows,
                                 .cols = cols,
                                 .tile_rows = kTileRows,
                                 .tile_cols = cols,
                                 .tile_axis = "8 rows (one block of the first pass)"};
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {rows, cols}, normal()), workspace("ws", f32, {rows, cols}),
                  output("Y", f32, {rows, cols}, tiles)});
  plan.buffers[1].tiles = tiles;
  const core::ModuleRef module = detail::cached_module(embedded::reverse_rows());
  const core::ScalarArgument row_count = core::scalar(i32(rows)), columns = core::scalar(i32(cols));
  plan.program = one_stream(
      "reverse_rows",
      {launch(module, "reverse_rows_" + variant, {u32(detail::ceil_div(rows, kTileRows)), 1, 1},
              {128, 1, 1}, {core::BufferArgument{0}, core::BufferArgument{1}, row_count, columns}),
       launch(module, "reverse_rows_gather", {u32(rows), 1, 1}, {128, 1, 1},
              {core::BufferArgument{1}, core::BufferArgument{2}, row_count, columns})});
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    const RowMajor reversed = matrix(inputs.at(0)).colwise().reverse();
    core::ReferenceTensor y;
    y.expected.assign(reversed.data(), reversed.data() + reversed.size());
    y.bound.assign(y.expected.size(), 0.0);  // copies
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_reverse_rows() {
  return make({.name = "reverse_rows",
               .description = "rows in reverse order, staged in a workspace",
               .problem_domain = {{detail::integer_parameter("rows", "rows", 1, 1 << 16, 61),
                                   detail::integer_parameter("cols", "columns", 1, 1 << 16, 200)}},
               .variants = {clean("staged", "every row is staged"),
                            mutant("short_stage", "staged", core::FindingClass::uninitialised,
                                   "the guard of the first pass leaves the last row out, and the "
                                   "second pass copies what the workspace holds there")},
               .problems = {{}, {{"rows", "64"}}, {{"rows", "1"}, {"cols", "1"}}},
               .numeric_plan = {{.name = "Y = X reversed", .stored = core::Dtype::f32}},
               .plan = plan});
}

}  // namespace faultline::kernels::catalogue
