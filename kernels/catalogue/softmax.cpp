// SPDX-License-Identifier: Apache-2.0
// A control without a defect, on rows of subnormals and rows of huge values.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/rounding.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

using Row = Eigen::Map<const Eigen::RowVectorXd>;

/// Softmax of z = factor x, and how far the kernel may be from it, by intervals. The kernel takes
/// off the largest rounded product m, of all elements alike, so that m may be any number. An
/// exponent z - m is off by the rounding of the product, if it was rounded at all, and by that of
/// the difference; expf is right to 2 ulps (4 u), the sum to gamma_n, the quotient to u; below
/// 2^-126 results are subnormal, multiples of 2^-149.
void add_row(const Row& x, double factor, core::ReferenceTensor& y) {
  const double u = reference::fp32_roundoff(), tiny = reference::fp32_underflow();
  const auto n = static_cast<double>(x.size());
  const Eigen::RowVectorXd z = factor * x;
  const Eigen::RowVectorXd rounded = z.cast<float>().cast<double>();
  const double m = rounded.maxCoeff();
  Eigen::RowVectorXd e(x.size()), low(x.size()), high(x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double d = z[i] - m, product = std::fabs(rounded[i] - z[i]);
    const double off = product + u * (std::fabs(d) + product);
    e[i] = reference::exponential(d);
    low[i] = std::max(0.0, reference::exponential(d - off) * (1 - 4 * u) - 2 * tiny);
    high[i] = reference::exponential(std::min(d + off, 700.0)) * (1 + 4 * u) + 2 * tiny;
  }
  const double sum = e.sum(), low_sum = low.sum(), high_sum = high.sum();
  const double more = 1 + reference::gamma_fp32(n), less = 1 - reference::gamma_fp32(n);
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double p = e[i] / sum;
    const double above = high[i] / (high[i] + (low_sum - low[i])) / less - p;
    const double below = p - low[i] / (low[i] + (high_sum - high[i])) / more;
    y.expected.push_back(p);
    y.bound.push_back(std::max(above, below) + u * p + 2 * tiny);
  }
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols");
  const core::Dtype f32 = core::Dtype::f32;
  const core::InputSpec ordinary = uniform(0.5f, 2.0f);
  // Products with x are subnormal in half of the rows and about 1e30 in the others.
  const core::InputSpec extreme{core::Distribution::coin, 0x1p-140f, 0x1p100f};
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("X", f32, {rows, cols}, normal(0.0f, 2.0f)),
       input("scale", f32, {rows}, problem.values.text("scales") == "extreme" ? extreme : ordinary),
       output("Y", f32, {rows, cols},
              {.rows = rows,
               .cols = cols,
               .tile_rows = 1,
               .tile_cols = cols,
               .tile_axis = "a row (one warp)"})});
  plan.program =
      one_stream("softmax", {launch(detail::cached_module(embedded::softmax()),
                                    "softmax_" + variant, {u32(rows), 1, 1}, {32, 1, 1},
                                    {core::BufferArgument{0}, core::BufferArgument{1},
                                     core::BufferArgument{2}, core::scalar(i32(cols))})});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> x = inputs.at(0).to_doubles(), scale = inputs.at(1).to_doubles();
    core::ReferenceTensor y;
    for (std::int64_t r = 0; r < rows; ++r) {
      add_row(Row(x.data() + r * cols, cols), scale[static_cast<std::size_t>(r)], y);
    }
    return std::vector{std::move(y)};
  };
  return plan;
}

}  // namespace

Subject make_softmax() {
  return make(
      {.name = "softmax",
       .description = "softmax of scaled rows in two passes, fp32",
       .problem_domain = {{detail::integer_parameter("rows", "rows", 1, 4096, 16),
                           detail::integer_parameter("cols", "columns", 1, 4096, 100),
                           detail::choice_parameter("scales",
                                                    "of the rows: from 0.5 to 2, or so extreme "
                                                    "that rows are subnormal or huge",
                                                    {"ordinary", "extreme"})}},
       .variants = {clean("two_pass", "the maximum first, then the exponentials")},
       .problems = {{},
                    {{"rows", "1"}, {"cols", "1"}},
                    {{"scales", "extreme"}},
                    {{"rows", "5"}, {"cols", "33"}, {"scales", "extreme"}}},
       .numeric_plan = {{.name = "scale x", .stored = core::Dtype::f32},
                        {.name = "exp(scale x - max)", .stored = core::Dtype::f32},
                        {.name = "sum of the exponentials",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "cols: 32 chains, then a tree"},
                        {.name = "exp / sum", .stored = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
