// SPDX-License-Identifier: Apache-2.0
// A dispatch layer that keeps no built kernels: right results, and every call pays for building and
// loading the code.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr float kA = 1.5f, kB = -0.75f;
constexpr double kRoundoff = 0x1p-24;  // unit roundoff of fp32

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("x", f32, {n}, normal()), input("y0", f32, {n}, normal()),
                  output("y", f32, {n},
                         {.rows = 1,
                          .cols = n,
                          .tile_rows = 1,
                          .tile_cols = 256,
                          .tile_axis = "256 elements (a block)"})});
  core::LaunchOperation axpby =
      launch(detail::cached_module(embedded::dispatch()), "dispatch_axpby",
             {u32(detail::ceil_div(n, 256)), 1, 1}, {256, 1, 1},
             {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
              core::scalar(kA), core::scalar(kB), core::scalar(i32(n))});
  axpby.reload_module = variant == "rebuild_each_call";
  plan.program = one_stream("dispatch", {std::move(axpby)});
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> x = inputs.at(0).to_doubles(), y0 = inputs.at(1).to_doubles();
    const Eigen::Map<const Eigen::ArrayXd> x_map(x.data(), static_cast<Eigen::Index>(x.size()));
    const Eigen::Map<const Eigen::ArrayXd> y_map(y0.data(), static_cast<Eigen::Index>(y0.size()));
    const Eigen::ArrayXd expected = double{kA} * x_map + double{kB} * y_map;
    // One product is rounded (with an fma), or both: |b y0| u + |a x| u covers either, and half a
    // subnormal each where they underflow. The sum's own rounding is that of the output.
    constexpr double kUnderflow = 0x1p-149;
    const Eigen::ArrayXd bound =
        kRoundoff * ((double{kA} * x_map).abs() + (double{kB} * y_map).abs()) + kUnderflow;
    core::ReferenceTensor y;
    y.expected.assign(expected.data(), expected.data() + expected.size());
    y.bound.assign(bound.data(), bound.data() + bound.size());
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_dispatch() {
  return make({.name = "dispatch",
               .description = "y = a x + b y0 through a dispatch layer",
               .problem_domain = {{detail::integer_parameter("n", "elements", 1, 1 << 20, 1000)}},
               .variants = {clean("cached", "the kernel is built and loaded once"),
                            mutant("rebuild_each_call", "cached", core::FindingClass::slow_dispatch,
                                   "every call builds and loads the kernel anew")},
               .problems = {{}, {{"n", "1"}}, {{"n", "513"}}},
               .numeric_plan = {{.name = "y = a x + b y0", .stored = core::Dtype::f32}},
               .plan = plan});
}

}  // namespace faultline::kernels::catalogue
