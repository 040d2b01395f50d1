// SPDX-License-Identifier: Apache-2.0
// A destination with a pitch of its own: the pitch ignored, and a store that runs into the padding.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/acceptance.hpp>

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTileRows = 8, kTileCols = 64;
constexpr std::int64_t kPitchElements = 64;  // rows of bf16 begin at multiples of 128 bytes
constexpr float kScale = 0.125f;             // exact

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const std::int64_t pitch = detail::ceil_div(cols, kPitchElements) * kPitchElements;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", core::Dtype::f32, {rows, cols}, normal()),
                  output("Y", core::Dtype::bf16, {rows, pitch},
                         {.rows = rows,
                          .cols = pitch,
                          .tile_rows = kTileRows,
                          .tile_cols = kTileCols,
                          .tile_axis = "8 rows x 64 columns of Y (one block)"})});
  plan.program = one_stream(
      "cast_copy",
      {launch(detail::cached_module(embedded::cast_copy()), "cast_copy_" + variant,
              {u32(pitch / kTileCols), u32(detail::ceil_div(rows, kTileRows)), 1},
              {32, kTileRows, 1},
              {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(rows)),
               core::scalar(i32(cols)), core::scalar(i32(pitch)), core::scalar(kScale)})});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> x = inputs.at(0).to_doubles();
    RowMajor expected = RowMajor::Zero(rows, pitch);
    RowMajor bound = RowMajor::Constant(rows, pitch, core::must_stay_untouched());
    expected.leftCols(cols) = kScale * Eigen::Map<const RowMajor>(x.data(), rows, cols);
    bound.leftCols(cols).setZero();  // one rounding, which acceptance allows for
    core::ReferenceTensor y;
    y.expected.assign(expected.data(), expected.data() + expected.size());
    y.bound.assign(bound.data(), bound.data() + bound.size());
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_cast_copy() {
  return make({.name = "cast_copy",
               .description = "rows of fp32, scaled, cast to rows of bf16 in a pitched buffer",
               .problem_domain = {{detail::integer_parameter("rows", "rows", 1, 4096, 10),
                                   detail::integer_parameter("cols",
                                                             "columns; rows of Y begin "
                                                             "every multiple of 64",
                                                             1, 4096, 100)}},
               .variants = {clean("pitched", "load and store masked by the row's length"),
                            mutant("ignored_pitch", "pitched", core::FindingClass::layout,
                                   "the destination is written as if it were contiguous"),
                            mutant("overrun", "pitched", core::FindingClass::oob,
                                   "the store is guarded by the tile, not by the row: zeros in "
                                   "the padding")},
               .problems = {{},
                            {{"rows", "1"}, {"cols", "1"}},
                            {{"rows", "17"}, {"cols", "65"}},
                            {{"cols", "128"}}},
               .numeric_plan = {{.name = "Y = scale X", .stored = core::Dtype::bf16}},
               .plan = plan});
}

}  // namespace faultline::kernels::catalogue
