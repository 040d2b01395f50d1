// SPDX-License-Identifier: Apache-2.0
// The caller's initial state used as scratch: the first call is right, the input is gone.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/rounding.hpp>

#include <fmt/format.h>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowVector = Eigen::RowVectorXd;

enum Buffer : std::uint32_t { kQ, kK, kV, kA, kH0, kHt, kO };

RowMajor matrix(const core::Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  return Eigen::Map<const RowMajor>(values.data(), tensor.shape[0], tensor.shape[1]);
}

struct Call {
  core::ReferenceTensor state, o;
  RowMajor last;      ///< the state after it
  double size = 0.0;  ///< no value on the way is larger
};

/// Bounds: each column of the state is a vector that every step maps by a (I - k k^T), whose norm
/// is at most a max(1, |1 - |k|^2|), so an error e of the column before the step has at most that
/// norm times |e| after it, |.| the Euclidean norm. To it comes what the step itself rounds, at
/// most, with S the computed state (|S| <= |exact| + e):
///   recalled = k^T S: gamma_dk sum |k_i S_i|;   per element: six roundings of terms no larger
///   than |a| (|S_i| + |k_i recalled|) + |k_i v|.
/// An element's error is at most its column's; o = q^T S adds |q| e and gamma_dk sum |q_i S_i|.
Call run(const std::vector<core::Tensor>& inputs, const RowMajor& start) {
  const RowMajor q = matrix(inputs.at(kQ)), k = matrix(inputs.at(kK)), v = matrix(inputs.at(kV));
  const std::vector<double> a = inputs.at(kA).to_doubles();
  const Eigen::Index dk = k.cols(), dv = v.cols();
  const double sum = reference::gamma_fp32(static_cast<double>(dk));
  const double six = reference::gamma_fp32(6.0);
  const double tiny = 4.0 * static_cast<double>(dk) * reference::fp32_underflow();
  Call call;
  RowMajor s = start;
  RowVector error = RowVector::Zero(dv);
  double size_of_state = s.colwise().norm().maxCoeff();
  for (Eigen::Index t = 0; t < k.rows(); ++t) {
    const double decay = a[static_cast<std::size_t>(t)];
    const Eigen::VectorXd key = k.row(t), query = q.row(t);
    const RowMajor size = s.cwiseAbs().rowwise() + error;
    const RowVector recalled = key.transpose() * s;
    const RowVector recalled_size = key.cwiseAbs().transpose() * size;
    const RowMajor local = (std::fabs(decay) * sum * key.cwiseAbs() * recalled_size +
                            six * (std::fabs(decay) * (size + key.cwiseAbs() * recalled_size) +
                                   key.cwiseAbs() * v.row(t).cwiseAbs()))
                               .array() +
                           tiny;
    const double norm = std::fabs(decay) * std::max(1.0, std::fabs(1.0 - key.squaredNorm()));
    error = norm * error + local.colwise().norm();
    const double added = key.norm() * v.row(t).cwiseAbs().maxCoeff();
    call.size = std::max(call.size, std::fabs(decay) * key.squaredNorm() * size_of_state + added);
    size_of_state = norm * size_of_state + added;
    call.size = std::max(call.size, (1.0 + query.norm()) * size_of_state);
    s = decay * (s - key * recalled) + key * v.row(t);
    const RowVector o = query.transpose() * s;
    const RowVector o_size = query.cwiseAbs().transpose() * (s.cwiseAbs().rowwise() + error);
    const RowVector o_bound = query.norm() * error + sum * o_size;
    for (Eigen::Index c = 0; c < dv; ++c) {
      call.o.expected.push_back(o[c]);
      call.o.bound.push_back(o_bound[c] + tiny);
    }
  }
  call.last = s;
  call.state.expected.assign(s.data(), s.data() + s.size());
  for (Eigen::Index i = 0; i < dk; ++i) {
    call.state.bound.insert(call.state.bound.end(), error.data(), error.data() + dv);
  }
  return call;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t t = problem.values.integer("t"), dk = problem.values.integer("dk"),
                     dv = problem.values.integer("dv");
  const core::Dtype f32 = core::Dtype::f32;
  const core::InputSpec unit_rows{core::Distribution::unit_row, 0.0f, 1.0f,
                                  static_cast<std::int32_t>(dk), 1};
  const core::TileGeometry state_tiles{
      .rows = dk, .cols = dv, .tile_rows = dk, .tile_cols = 1, .tile_axis = "a column (thread)"};
  const core::TileGeometry o_tiles{
      .rows = t, .cols = dv, .tile_rows = 1, .tile_cols = dv, .tile_axis = "a step"};
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("q", f32, {t, dk}, unit_rows), input("k", f32, {t, dk}, unit_rows),
                  input("v", f32, {t, dv}, normal()), input("a", f32, {t}, uniform(0.9f, 1.0f)),
                  input("h0", f32, {dk, dv}, normal()), output("ht", f32, {dk, dv}, state_tiles),
                  output("o", f32, {t, dv}, o_tiles)});
  const bool twice = variant.ends_with("_twice");
  const std::string entry = "gdn_step_" + variant.substr(0, variant.size() - (twice ? 6 : 0));
  const core::LaunchOperation step =
      launch(detail::cached_module(embedded::gdn_step()), entry, {1, 1, 1}, {u32(dv), 1, 1},
             {core::BufferArgument{kQ}, core::BufferArgument{kK}, core::BufferArgument{kV},
              core::BufferArgument{kA}, core::BufferArgument{kH0}, core::BufferArgument{kHt},
              core::BufferArgument{kO}, core::scalar(i32(t)), core::scalar(i32(dk)),
              core::scalar(i32(dv))});
  plan.program = one_stream("gdn_step", std::vector<Step>(twice ? 2 : 1, step));
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    Call call = run(inputs, matrix(inputs.at(kH0)));
    return std::vector{std::move(call.state), std::move(call.o)};
  };
  plan.contract = [](const std::vector<core::Tensor>& inputs) {
    constexpr double kMost = 1e37;
    const double size = run(inputs, matrix(inputs.at(kH0))).size;
    std::vector<std::string> violations;
    if (size < kMost) return violations;
    violations.push_back(fmt::format(
        "with these keys the state may grow to {:.3g}, beyond fp32: a step contracts only while "
        "|k|^2 <= 2",
        size));
    return violations;
  };
  if (twice) {
    plan.alternatives = [](const std::vector<core::Tensor>& inputs) {
      Call next = run(inputs, run(inputs, matrix(inputs.at(kH0))).last);
      const std::string name = "a call from the state that the first call left";
      return std::vector<core::AlternativeResult>{
          {name, core::FindingClass::state, 0, std::move(next.state.expected)},
          {name, core::FindingClass::state, 1, std::move(next.o.expected)}};
    };
  }
  return plan;
}

}  // namespace

Subject make_gdn_step() {
  using core::FindingClass;
  return make(
      {.name = "gdn_step",
       .description = "steps of the gated delta rule from an initial state, fp32",
       .problem_domain = {{detail::integer_parameter("t", "steps", 1, 64, 4),
                           detail::integer_parameter("dk", "length of a key", 1, 128, 32),
                           detail::integer_parameter("dv", "length of a value", 1, 128, 64)}},
       .variants = {clean("own_state", "works on a copy of the initial state"),
                    clean("own_state_twice", "the same, called twice on the same buffers"),
                    mutant("scratch_is_input", "own_state", FindingClass::state,
                           "works on the caller's initial state: only a look at the inputs shows "
                           "it after one call"),
                    mutant("scratch_is_input_twice", "own_state_twice", FindingClass::state,
                           "the same, called twice: the second call goes on from the first")},
       .problems = {{},
                    {{"t", "1"}, {"dk", "1"}, {"dv", "1"}},
                    {{"t", "9"}, {"dk", "17"}, {"dv", "33"}}},
       .numeric_plan = {{.name = "recalled = k^T S",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "dk: one fma chain"},
                        {.name = "S = a (S - k recalled) + k v", .stored = core::Dtype::f32},
                        {.name = "o = q^T S",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "dk: one fma chain"}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
