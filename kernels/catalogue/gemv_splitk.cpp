// SPDX-License-Identifier: Apache-2.0
// An order between blocks that does not exist: one block zeroes the output that all add to. A
// barrier orders the threads of one block, never blocks. Reported for split-k products that lose a
// part of the sum now and then, on busy devices and never under a debugger.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <fmt/format.h>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kRows = 128;
constexpr const char* kZeroInKernel = "zero_in_kernel";

core::Config splits_of(std::int64_t splits) {
  core::Config config;
  config.set("splits", splits);
  return config;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t m = problem.values.integer("m"), k = problem.values.integer("k"),
                     splits = config.integer("splits"), columns = detail::ceil_div(k, splits);
  const bool exact = problem.values.text("inputs") == "integers";
  const core::Dtype f32 = core::Dtype::f32;
  const core::InputSpec values = exact ? integers(4) : normal();
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("A_transposed", f32, {k, m}, values), input("x", f32, {k}, values),
       output(
           "y", f32, {m},
           {.rows = m, .tile_rows = kRows, .tile_axis = "128 rows of y (the blocks of a row)"})});
  plan.buffers[0].reduction = {.extent = k, .stride = m, .tile = 16};
  // Blocks add in any order; only where nothing rounds are the bits always the same.
  plan.declared_deterministic = exact;

  std::vector<Step> steps;
  if (variant != kZeroInKernel) {
    steps.push_back(core::FillOperation{core::BufferArgument{2}, plan.buffers[2].bytes(), 0});
  }
  steps.push_back(launch(detail::cached_module(embedded::gemv_splitk()), "gemv_splitk_" + variant,
                         {u32(detail::ceil_div(m, kRows)), u32(splits), 1}, {kRows, 1, 1},
                         {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                          core::scalar(i32(m)), core::scalar(i32(k)), core::scalar(i32(columns))}));
  plan.program = one_stream("gemv_splitk", std::move(steps));

  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(columns + splits), .terms = static_cast<double>(k)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor a = matrix(inputs.at(0)), x = matrix(inputs.at(1));
    const double unit = granularity(a) * granularity(x);
    const RowMajor product = x * a, magnitude = x.cwiseAbs() * a.cwiseAbs();
    core::ReferenceTensor y;
    y.expected.assign(product.data(), product.data() + product.size());
    for (Eigen::Index i = 0; i < magnitude.size(); ++i) {
      y.bound.push_back(sum_bound(bound, unit, magnitude.data()[i]));
    }
    return std::vector{std::move(y)};
  };
  if (exact) {
    plan.contract = [](const std::vector<core::Tensor>& inputs) {
      const RowMajor a = matrix(inputs.at(0)), x = matrix(inputs.at(1));
      const double unit = granularity(a) * granularity(x);
      const double largest = (x.cwiseAbs() * a.cwiseAbs()).maxCoeff();
      std::vector<std::string> violations;
      if (largest > 0x1p24 * unit) {
        violations.push_back(
            fmt::format("inputs=integers declares sums that are exact in fp32, and a row of these "
                        "has sum |A_ij x_j| = {:.3g}, more than 2^24 x {:.3g}, the unit of its "
                        "products; use inputs=normal",
                        largest, unit));
      }
      return violations;
    };
  }
  return plan;
}

}  // namespace

Subject make_gemv_splitk() {
  return make(
      {.name = "gemv_splitk",
       .description = "y = A x in fp32, the reduction split over blocks that add atomically",
       .problem_domain = {{detail::integer_parameter("m", "rows of A", 1, 1 << 20, 256),
                           detail::integer_parameter("k", "columns of A", 1, 1 << 16, 96),
                           detail::choice_parameter(
                               "inputs", "integers: small ones, whose sums are exact in any order",
                               {"integers", "normal"})}},
       .variants = {clean("zeroed_before", "y is zeroed before the launch, in the same stream"),
                    mutant(kZeroInKernel, "zeroed_before", core::FindingClass::race_grid,
                           "the first block of each row of blocks zeroes y while the others add "
                           "to it",
                           {{"m", "8192"}, {"k", "8"}, {"splits", "8"}})},
       .problems = {{},
                    {{"m", "130"}, {"k", "37"}},
                    {{"m", "130"}, {"k", "37"}, {"inputs", "normal"}},
                    {{"m", "1"}, {"k", "1"}, {"inputs", "normal"}}},
       .numeric_plan = {{.name = "sum_j A_ij x_j",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "k / splits: fma chain of a thread, then atomics in any "
                                      "order"}},
       .plan = plan,
       .config_domain = {{detail::listed_parameter("splits", "blocks that share a reduction",
                                                   {1, 2, 4, 8}, 4)}},
       .configs = {splits_of(4), splits_of(1), splits_of(8)},
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{
             .reduction = p.values.integer("k"), .tile_rows = kRows, .rows = p.values.integer("m")};
       }});
}

}  // namespace faultline::kernels::catalogue
