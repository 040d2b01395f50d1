// SPDX-License-Identifier: Apache-2.0
// A message between two blocks, with and without the fences that order it and its flag.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::uint32_t kThreads = 128;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t pairs = problem.values.integer("pairs"),
                     length = problem.values.integer("length");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {pairs, length}, normal()),
                  workspace("mailbox", f32, {pairs, length}), workspace("flags", f32, {pairs}),
                  output("Y", f32, {pairs, length},
                         {.rows = pairs,
                          .cols = length,
                          .tile_rows = 1,
                          .tile_cols = kThreads,
                          .tile_axis = "128 elements of a message"})});
  const core::LaunchOperation exchange =
      launch(detail::cached_module(embedded::message()), "message_" + variant,
             {u32(2 * pairs), 1, 1}, {kThreads, 1, 1},
             {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
              core::BufferArgument{3}, core::scalar(i32(length))});
  plan.program = one_stream(
      "message",
      {core::FillOperation{core::BufferArgument{2}, plan.buffers[2].bytes(), 0}, exchange});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> values = inputs.at(0).to_doubles();
    const Eigen::Map<const RowMajor> x(values.data(), pairs, length);
    const RowMajor sent = 2.0 * x.rowwise().reverse();
    core::ReferenceTensor y;  // doubling is exact
    y.expected.assign(sent.data(), sent.data() + sent.size());
    y.bound.assign(y.expected.size(), 0.0);
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_message() {
  using core::FindingClass;
  Variant no_consumer_fence =
      mutant("no_consumer_fence", "fenced", FindingClass::race_grid,
             "the receiver reads the message behind the flag without a fence: "
             "undefined by the memory model, not seen to fail on hardware");
  no_consumer_fence.model_only =
      "the memory model leaves it undefined, hardware was not seen to reorder it";
  return make(
      {.name = "message",
       .description = "blocks in pairs: one sends twice its input, one stores it back to front",
       .problem_domain = {{detail::integer_parameter("pairs",
                                                     "pairs of blocks; all of them have "
                                                     "to fit on the device at once",
                                                     1, 64, 2),
                           detail::integer_parameter("length", "elements of a message", 1, 65536,
                                                     300)}},
       .variants = {clean("fenced", "a fence between message and flag on either side"),
                    mutant("no_fence", "fenced", FindingClass::race_grid,
                           "no fence at all between message and flag"),
                    std::move(no_consumer_fence)},
       .problems = {{}, {{"pairs", "1"}, {"length", "1"}}, {{"pairs", "3"}, {"length", "128"}}},
       .numeric_plan = {{.name = "mailbox = 2 X", .stored = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
