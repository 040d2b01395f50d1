// SPDX-License-Identifier: Apache-2.0
// A shared tile that is written by rows and read by columns, with a pitch that is a multiple of the
// number of banks: right, and each read takes 32 passes. The classic of transposes and of unpadded
// operand tiles.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTile = 32, kBlockRows = 8;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t m = problem.values.integer("m"), n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("A", f32, {m, n}, normal()), output("B", f32, {n, m},
                                                 {.rows = n,
                                                  .cols = m,
                                                  .tile_rows = kTile,
                                                  .tile_cols = kTile,
                                                  .tile_axis = "32 x 32 of B (one block)"})});
  plan.program = one_stream(
      "transpose", {launch(detail::cached_module(embedded::transpose()), "transpose_" + variant,
                           {u32(detail::ceil_div(n, kTile)), u32(detail::ceil_div(m, kTile)), 1},
                           {kTile, kBlockRows, 1},
                           {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(m)),
                            core::scalar(i32(n))})});
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    const RowMajor b = matrix(inputs.at(0)).transpose();
    core::ReferenceTensor tensor;
    tensor.expected.assign(b.data(), b.data() + b.size());
    tensor.bound.assign(tensor.expected.size(), 0.0);  // a copy
    return std::vector{std::move(tensor)};
  };
  return plan;
}

}  // namespace

Subject make_transpose() {
  return make(
      {.name = "transpose",
       .description = "B = A^T in fp32 by way of a 32 x 32 tile in shared memory",
       .problem_domain = {{detail::integer_parameter("m", "rows of A", 1, 1 << 16, 64),
                           detail::integer_parameter("n", "columns of A", 1, 1 << 16, 96)}},
       .variants = {clean("padded", "rows of the tile are 33 words apart"),
                    mutant("unpadded", "padded", core::FindingClass::slow_bank_conflicts,
                           "rows of the tile are 32 words apart: a column lies in one bank",
                           {{"m", "64"}, {"n", "96"}})},
       .problems = {{}, {{"m", "33"}, {"n", "31"}}, {{"m", "2"}, {"n", "3"}}},
       .numeric_plan = {{.name = "B", .stored = core::Dtype::f32, .accumulate = core::Dtype::f32}},
       .plan = plan,
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.tile_rows = kTile, .rows = p.values.integer("n")};
       }});
}

}  // namespace faultline::kernels::catalogue
