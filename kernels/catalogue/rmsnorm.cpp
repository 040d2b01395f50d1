// SPDX-License-Identifier: Apache-2.0
// A sum kept in the dtype of its terms: in bf16, with 8 significant bits, a sum of squares stops
// growing at about 256 of them, and the norm comes out too small. Reported for normalisations that
// were tested at short rows only.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/rounding.hpp>

#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kThreads = 128, kWarp = 32, kWarps = kThreads / kWarp;
constexpr double kEpsilon = static_cast<double>(1e-6f);

/// Relative error of the computed 1 / sqrt(mean(x^2) + eps). All terms are positive and products
/// of bf16 are exact, so mean + eps has the relative error r = gamma_m of its longest chain: the
/// fmas of a lane, the tree of a warp, the division, the addition of eps; squares that underflow
/// add at most d 2^-149 to something no smaller than eps. Then (1 - r)^(-1/2) - 1 <= r / (2 - 2 r),
/// and rsqrtf adds 2 ulp (CUDA C++ Programming Guide, mathematical functions).
double scale_error(std::int64_t d) {
  const double length = static_cast<double>(d);
  const double r =
      reference::gamma_fp32(static_cast<double>(detail::ceil_div(d, kWarp) + 5 + 2)) +
      length * (reference::reference_roundoff() + reference::fp32_underflow() / kEpsilon);
  const double root = r / (2.0 - 2.0 * r), rsqrt = 4.0 * reference::fp32_roundoff();
  return root + rsqrt + root * rsqrt;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), d = problem.values.integer("d");
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("x", core::Dtype::bf16, {rows, d}, normal()),
       output("y", core::Dtype::bf16, {rows, d},
              {.rows = rows, .cols = d, .tile_cols = d, .tile_axis = "row (one warp)"}),
       output("rstd", core::Dtype::f32, {rows}, {.rows = rows, .tile_axis = "row (one warp)"})});
  plan.program = one_stream(
      "rmsnorm", {launch(detail::cached_module(embedded::rmsnorm()), "rmsnorm_" + variant,
                         {u32(detail::ceil_div(rows, kWarps)), 1, 1}, {kThreads, 1, 1},
                         {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                          core::scalar(i32(rows)), core::scalar(i32(d))})});
  plan.reference = [error = scale_error(d)](const std::vector<core::Tensor>& inputs) {
    const RowMajor x = matrix(inputs.at(0));
    core::ReferenceTensor y, rstd;
    for (Eigen::Index row = 0; row < x.rows(); ++row) {
      const double scale =
          1.0 / std::sqrt(x.row(row).squaredNorm() / static_cast<double>(x.cols()) + kEpsilon);
      rstd.expected.push_back(scale);
      rstd.bound.push_back(error * scale);
      // One more rounding, of the product; that to bf16 is part of the acceptance.
      const double relative = error + reference::fp32_roundoff() * (1.0 + error);
      for (Eigen::Index i = 0; i < x.cols(); ++i) {
        const double value = x(row, i) * scale;
        y.expected.push_back(value);
        y.bound.push_back(relative * std::fabs(value) + reference::fp32_underflow());
      }
    }
    return std::vector{std::move(y), std::move(rstd)};
  };
  return plan;
}

}  // namespace

Subject make_rmsnorm() {
  const auto at = [](const char* rows, const char* d) {
    return std::vector<core::Assignment::Value>{{"rows", rows}, {"d", d}};
  };
  return make(
      {.name = "rmsnorm",
       .description = "y = x / sqrt(mean(x^2) + eps) by rows in bf16, a warp per row",
       .problem_domain = {{detail::integer_parameter("rows", "rows of x", 1, 1 << 20, 8),
                           detail::integer_parameter("d", "elements of a row", 1, 1 << 16, 1024)}},
       .variants = {clean("f32_sum", "the sum of squares is kept in fp32"),
                    mutant("bf16_sum", "f32_sum", core::FindingClass::accumulation,
                           "the sum of squares is kept in bf16, the dtype of x",
                           {{"rows", "8"}, {"d", "16384"}})},
       // One series of lengths, so that the growth of an error shows; a ragged and a degenerate
       // row.
       .problems = {at("8", "1024"), at("8", "256"), at("8", "4096"), at("8", "16384"),
                    at("5", "1000"), at("1", "1")},
       .numeric_plan = {{.name = "sum_i x_i^2",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "d / 32: fma chain of a lane, warp tree"},
                        {.name = "rstd",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32},
                        {.name = "y", .stored = core::Dtype::bf16, .accumulate = core::Dtype::f32}},
       .plan = plan,
       .lengths = [](const core::Problem& p, const std::string&, const core::Config&) {
         return TileLengths{.reduction = p.values.integer("d")};
       }});
}

}  // namespace faultline::kernels::catalogue
