// SPDX-License-Identifier: Apache-2.0
// Right in the configs it was tuned with, wrong in another: a step that overshoots the diagonal
// block.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/exponential.hpp>
#include <faultline/reference/rounding.hpp>

#include <Eigen/Core>

#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

core::Config config_of(const char* bm, const char* bn) {
  core::Config config;
  config.set("bm", bm);
  config.set("bn", bn);
  return config;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t t = problem.values.integer("t");
  const std::int64_t bm = config.integer("bm"), bn = config.integer("bn");
  core::TrialPlan plan = start_plan(problem, variant, config,
                                    {input("g", core::Dtype::f32, {t}, normal()),
                                     output("L", core::Dtype::f32, {t, t},
                                            {.rows = t,
                                             .cols = t,
                                             .tile_rows = bm,
                                             .tile_cols = bn,
                                             .tile_axis = "bm rows x bn columns of L"})});
  plan.buffers[0].exponent = true;
  plan.program = one_stream(
      "tril_decay", {launch(detail::cached_module(embedded::tril_decay()), "tril_decay_" + variant,
                            {u32(detail::ceil_div(t, bm)), 1, 1}, {u32(bn), 1, 1},
                            {core::BufferArgument{0}, core::BufferArgument{1}, core::scalar(i32(t)),
                             core::scalar(i32(bm))})});
  // The rounded difference, then expf (at most 2 ulps, i.e. 4 u): e^(d (1 + u)) (1 + 4 u).
  plan.reference = [t](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> values = inputs.at(0).to_doubles();
    const Eigen::Map<const Eigen::VectorXd> g(values.data(), t);
    const double u = reference::fp32_roundoff();
    core::ReferenceTensor l;
    for (Eigen::Index r = 0; r < t; ++r) {
      for (Eigen::Index c = 0; c < t; ++c) {
        const double d = g[r] - g[c];
        const double value = c <= r ? reference::exponential(d) : 0.0;
        l.expected.push_back(value);
        l.bound.push_back(c <= r
                              ? value * (std::expm1(u * std::fabs(d)) * (1.0 + 4.0 * u) + 4.0 * u) +
                                    2.0 * reference::fp32_underflow()
                              : 0.0);
      }
    }
    return std::vector{std::move(l)};
  };
  return plan;
}

}  // namespace

Subject make_tril_decay() {
  return make(
      {.name = "tril_decay",
       .description = "L_rc = exp(g_r - g_c) for c <= r, else 0, fp32",
       .problem_domain = {{detail::integer_parameter("t", "steps", 1, 1024, 128)}},
       .variants = {clean("masked", "the panel ends where the diagonal block does"),
                    mutant("overshoot", "masked", core::FindingClass::config,
                           "the panel is whole steps of bn columns; beyond the diagonal block "
                           "they are neither masked nor cleared when bn > bm",
                           {{"t", "128"}})},
       .problems = {{}, {{"t", "1"}}, {{"t", "100"}}},
       .numeric_plan = {{.name = "exp(g_r - g_c)", .stored = core::Dtype::f32}},
       .plan = plan,
       .config_domain = {{detail::listed_parameter("bm", "rows of a block", {32, 64}, 32),
                          detail::listed_parameter("bn", "columns of a step (threads)", {32, 64},
                                                   32)}},
       .configs = {config_of("32", "32"), config_of("64", "32"), config_of("32", "64")}});
}

}  // namespace faultline::kernels::catalogue
