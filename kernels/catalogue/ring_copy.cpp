// SPDX-License-Identifier: Apache-2.0
// A hang: the barrier of a bulk copy expects a whole tile where the last one is shorter.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTile = 256, kTilesOfBlock = 4;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("x", f32, {n}, normal()), output("y", f32, {n},
                                                         {.rows = 1,
                                                          .cols = n,
                                                          .tile_rows = 1,
                                                          .tile_cols = kTile,
                                                          .tiles_per_group = kTilesOfBlock,
                                                          .pipeline_depth = 2,
                                                          .tile_axis = "256 elements"})});
  plan.program = one_stream(
      "ring_copy",
      {launch(detail::cached_module(embedded::ring_copy()), "ring_copy_" + variant,
              {u32(detail::ceil_div(n, kTile * kTilesOfBlock)), 1, 1}, {128, 1, 1},
              {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(n))})});
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    core::ReferenceTensor y{inputs.at(0).to_doubles(), {}};
    for (double& value : y.expected) value *= 0.5;
    y.bound.assign(y.expected.size(), 0.0);  // a power of two: exact
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_ring_copy() {
  return make(
      {.name = "ring_copy",
       .description = "y = x / 2 through a two-stage ring of bulk copies",
       .problem_domain = {{detail::integer_parameter("n", "elements", 4, 1 << 20, 1000, 4)}},
       .variants = {clean("exact_bytes", "each barrier expects what its copy brings"),
                    mutant("expects_too_much", "exact_bytes", core::FindingClass::hang,
                           "the barrier of the last, shorter tile expects a whole one",
                           {{"n", "1000"}})},
       .problems = {{}, {{"n", "4"}}, {{"n", "1024"}}, {{"n", "2308"}}},
       .numeric_plan = {{.name = "y = x / 2", .stored = core::Dtype::f32}},
       .plan = plan,
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.tile_rows = kTile, .rows = p.values.integer("n")};
       }});
}

}  // namespace faultline::kernels::catalogue
