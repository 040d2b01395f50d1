// SPDX-License-Identifier: Apache-2.0
// A captured graph keeps the scalar arguments of its capture: a later call that does not update
// them gets the result of the first one's.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

namespace faultline::kernels::catalogue {

namespace {

constexpr float kScales[2] = {0.75f, 0.1875f};  // of the call that is captured, and of the next one

enum Buffer : std::uint32_t { kX, kFirst, kSecond, kStatic };

std::vector<double> scaled(const core::Tensor& x, float scale) {
  std::vector<double> values = x.to_doubles();
  for (double& value : values) value *= double{scale};
  return values;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  const core::TileGeometry tiles{.rows = 1,
                                 .cols = n,
                                 .tile_rows = 1,
                                 .tile_cols = 256,
                                 .tile_axis = "256 elements (a block)"};
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("x", f32, {n}, normal()), output("first", f32, {n}, tiles),
                  output("second", f32, {n}, tiles), workspace("static_y", f32, {n})});
  plan.program = [=](std::uint32_t) {
    const auto arguments = [&](float scale) {
      return std::vector<core::Argument>{core::BufferArgument{kX}, core::BufferArgument{kStatic},
                                         core::scalar(scale), core::scalar(i32(n))};
    };
    const std::uint64_t bytes = static_cast<std::uint64_t>(n) * sizeof(float);
    core::Program program;
    program.name = "graph_scale";
    program.add(core::CaptureBeginOperation{0});
    const core::OperationId scale = program.add(
        launch(detail::cached_module(embedded::graph_scale()), "graph_scale",
               {u32(detail::ceil_div(n, 256)), 1, 1}, {256, 1, 1}, arguments(kScales[0])));
    program.add(core::CaptureEndOperation{0});
    program.add(core::ReplayOperation{0, {}});
    program.add(core::CopyOperation{{kFirst, 0}, {kStatic, 0}, bytes});
    core::ReplayOperation second{0, {}};
    if (variant != "stale_arguments") second.changed_arguments = {{scale, arguments(kScales[1])}};
    program.add(second);
    program.add(core::CopyOperation{{kSecond, 0}, {kStatic, 0}, bytes});
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    std::vector<core::ReferenceTensor> references;
    for (const float scale : kScales) {
      core::ReferenceTensor y{scaled(inputs.at(0), scale), {}};
      // One product, rounded once: the rounding of the output itself.
      y.bound.assign(y.expected.size(), 0.0);
      references.push_back(std::move(y));
    }
    return references;
  };
  plan.alternatives = [](const std::vector<core::Tensor>& inputs) {
    return std::vector{core::AlternativeResult{.name = "the scale of capture time",
                                               .finding = core::FindingClass::graph,
                                               .output = 1,
                                               .values = scaled(inputs.at(0), kScales[0])}};
  };
  return plan;
}

}  // namespace

Subject make_graph_scale() {
  return make(
      {.name = "graph_scale",
       .description = "y = scale x as a captured graph, replayed for a second call",
       .problem_domain = {{detail::integer_parameter("n", "elements", 1, 1 << 20, 1000)}},
       .variants = {clean("updated_arguments", "a replay sets the arguments of its own call"),
                    mutant("stale_arguments", "updated_arguments", core::FindingClass::graph,
                           "the second replay keeps the scale of the capture")},
       .problems = {{}, {{"n", "1"}}, {{"n", "513"}}},
       .numeric_plan = {{.name = "y = scale x", .stored = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
