// SPDX-License-Identifier: Apache-2.0
// A source and a destination with pitches of their own: the pitch of either ignored, a view's
// address rounded down, and a store that runs into the padding.
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

enum Buffer : std::uint32_t { kX, kY, kSource };

/// X as it is, or, where there is something before or behind its rows, a copy of it with ones
/// there.
core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const std::int64_t pitch = detail::ceil_div(cols, kPitchElements) * kPitchElements;
  const std::int64_t before = problem.values.integer("src_before");
  const std::int64_t source_pitch = before + cols + problem.values.integer("src_behind");
  const bool contiguous = source_pitch == cols;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", core::Dtype::f32, {rows, cols}, normal()),
                  output("Y", core::Dtype::bf16, {rows, pitch},
                         {.rows = rows,
                          .cols = pitch,
                          .tile_rows = kTileRows,
                          .tile_cols = kTileCols,
                          .tile_axis = "8 rows x 64 columns of Y (one block)"})});
  const core::ModuleRef module = detail::cached_module(embedded::cast_copy());
  std::vector<Step> steps;
  core::BufferArgument source{kX, 0};
  if (!contiguous) {
    plan.buffers.push_back(workspace("source", core::Dtype::f32, {rows, source_pitch}));
    source = {kSource, static_cast<std::uint64_t>(before) * sizeof(float)};
    constexpr std::uint32_t kOne = 0x3f800000;
    steps.push_back(
        core::FillOperation{core::BufferArgument{kSource, 0}, plan.buffers[kSource].bytes(), kOne});
    steps.push_back(launch(module, "cast_copy_scatter", {u32(rows), 1, 1}, {128, 1, 1},
                           {core::BufferArgument{kX}, source, core::scalar(i32(cols)),
                            core::scalar(i32(source_pitch))}));
  }
  steps.push_back(launch(
      module, "cast_copy_" + variant,
      {u32(pitch / kTileCols), u32(detail::ceil_div(rows, kTileRows)), 1}, {32, kTileRows, 1},
      {source, core::BufferArgument{kY}, core::scalar(i32(rows)), core::scalar(i32(cols)),
       core::scalar(i32(source_pitch)), core::scalar(i32(pitch)), core::scalar(kScale)}));
  plan.program = one_stream("cast_copy", std::move(steps));
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
  using core::FindingClass;
  return make(
      {.name = "cast_copy",
       .description = "rows of fp32, scaled, cast to rows of bf16, in pitched buffers",
       .problem_domain =
           {{detail::integer_parameter("rows", "rows", 1, 4096, 10),
             detail::integer_parameter("cols",
                                       "columns; rows of Y begin every multiple of "
                                       "64",
                                       1, 4096, 100),
             detail::listed_parameter("src_before", "elements in front of the rows that are read",
                                      {0, 1, 2, 8}, 0),
             detail::listed_parameter("src_behind", "elements behind each row that is read",
                                      {0, 3, 28}, 0)}},
       .variants = {clean("pitched", "load and store masked by the row's length"),
                    mutant("ignored_pitch", "pitched", FindingClass::layout,
                           "the destination is written as if it were contiguous"),
                    mutant("ignored_source_pitch", "pitched", FindingClass::layout,
                           "the source is read as if it were contiguous", {{"src_behind", "28"}}),
                    mutant("aligned_down", "pitched", FindingClass::layout,
                           "the address of a row of the source is rounded down to 16 bytes, as "
                           "vector loads need it",
                           {{"src_before", "1"}}),
                    mutant("overrun", "pitched", FindingClass::oob,
                           "the store is guarded by the tile, not by the row: zeros in the "
                           "padding")},
       .problems = {{},
                    {{"rows", "1"}, {"cols", "1"}},
                    {{"rows", "17"}, {"cols", "65"}},
                    {{"cols", "128"}},
                    {{"cols", "65"}, {"src_before", "2"}, {"src_behind", "3"}}},
       .numeric_plan = {{.name = "Y = scale X", .stored = core::Dtype::bf16}},
       .plan = plan,
       .contiguous = {{"src_before", "0"}, {"src_behind", "0"}}});
}

}  // namespace faultline::kernels::catalogue
