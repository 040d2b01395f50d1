// SPDX-License-Identifier: Apache-2.0
// The online softmax of rows that are masked out so far: their running maximum is -inf, and the
// scale exp(-inf - -inf) is not a number. Reported for causal attention with more queries than keys
// and for sliding windows.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/rounding.hpp>

#include <algorithm>
#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kTileKeys = 16;
constexpr double kLeastNormal = 0x1p-126;

/// Row q of O and its bound. Key k has the weight w = exp(-r), r = (largest visible score) - s_k.
/// On the way from its tile to the end it passes at most tiles + 1 expf() of 2 ulp each (4 u),
/// whose arguments add up to r and were rounded once each (r u together), tiles scalings, and sk +
/// 1 additions and products: together gamma_m with m = 4 (tiles + 1) + r + tiles + sk + 1. expf may
/// flush results below 2^-126, each scaling likewise.
struct Softmax {
  Eigen::RowVectorXd output, bound;

  Softmax(const RowMajor& s, const RowMajor& v, Eigen::Index query, std::int64_t visible)
      : output(Eigen::RowVectorXd::Zero(v.cols())), bound(Eigen::RowVectorXd::Zero(v.cols())) {
    if (visible <= 0) return;  // exactly 0
    const double sk = static_cast<double>(s.cols());
    const double tiles = std::ceil(sk / static_cast<double>(kTileKeys));
    const double peak = s.row(query).head(visible).maxCoeff();
    double weight = 0.0, weight_error = 0.0;
    Eigen::RowVectorXd sum_error = Eigen::RowVectorXd::Zero(v.cols());
    for (Eigen::Index key = 0; key < visible; ++key) {
      const double r = peak - s(query, key), w = reference::exponential(-r);
      const double error = w * (reference::gamma_fp32(5.0 * tiles + 5.0 + r + sk) +
                                sk * reference::reference_roundoff()) +
                           (tiles + 2.0) * kLeastNormal;
      weight += w;
      weight_error += error;
      output += w * v.row(key);
      sum_error += error * v.row(key).cwiseAbs();
    }
    output /= weight;
    bound = (sum_error + weight_error * output.cwiseAbs()) / (weight - weight_error);
    // The division, and underflow of a product or of the quotient.
    bound += reference::fp32_roundoff() * (output.cwiseAbs() + bound);
    bound.array() += (sk + 1.0) * reference::fp32_underflow();
  }
};

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t sq = problem.values.integer("sq"), sk = problem.values.integer("sk"),
                     d = problem.values.integer("d");
  const float level = problem.values.text("scores") == "far" ? -1e5f : 0.0f;
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("S", f32, {sq, sk}, normal(level, 2.0f)), input("V", f32, {sk, d}, normal()),
       output("O", f32, {sq, d},
              {.rows = sq, .cols = d, .tile_cols = d, .tile_axis = "query (one block)"})});
  plan.program =
      one_stream("attn_row",
                 {launch(detail::cached_module(embedded::attn_row()), "attn_row_" + variant,
                         {u32(sq), 1, 1}, {u32(d), 1, 1},
                         {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
                          core::scalar(i32(sq)), core::scalar(i32(sk)), core::scalar(i32(d))})});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor s = matrix(inputs.at(0)), v = matrix(inputs.at(1));
    core::ReferenceTensor o;
    for (Eigen::Index query = 0; query < sq; ++query) {
      const Softmax row(s, v, query, std::min(query + sk - sq + 1, sk));
      o.expected.insert(o.expected.end(), row.output.begin(), row.output.end());
      o.bound.insert(o.bound.end(), row.bound.begin(), row.bound.end());
    }
    return std::vector{std::move(o)};
  };
  return plan;
}

}  // namespace

Subject make_attn_row() {
  return make(
      {.name = "attn_row",
       .description =
           "O = softmax(S) V in fp32, causal, by the online softmax over tiles of 16 keys",
       .problem_domain = {{detail::integer_parameter("sq", "queries", 1, 4096, 64),
                           detail::integer_parameter("sk", "keys", 1, 4096, 64),
                           detail::integer_parameter("d", "columns of V", 1, 1024, 32),
                           detail::choice_parameter("scores", "far: about -1e5 instead of 0",
                                                    {"near", "far"})}},
       .variants = {clean("guarded", "a running maximum of -inf scales by exp(-inf - 0) = 0"),
                    mutant("unguarded_max", "guarded", core::FindingClass::special_values,
                           "the running maximum is subtracted even while it is -inf",
                           {{"sq", "96"}, {"sk", "64"}})},
       .problems = {{},
                    {{"sq", "96"}, {"sk", "64"}},
                    {{"sq", "64"}, {"sk", "96"}},
                    {{"sq", "33"}, {"sk", "17"}, {"d", "40"}, {"scores", "far"}},
                    {{"sq", "1"}, {"sk", "1"}, {"d", "1"}}},
       .numeric_plan = {{.name = "exp(s - max)",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32},
                        {.name = "sum_k exp(s - max) v_k, sum_k exp(s - max)",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "sk: one chain, scaled down after each tile of 16"},
                        {.name = "O", .stored = core::Dtype::f32, .accumulate = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
