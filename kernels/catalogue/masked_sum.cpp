// SPDX-License-Identifier: Apache-2.0
// One batch's mask applied to another's rows, and lengths outside the contract.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/reference/gemv_bound.hpp>

#include <fmt/format.h>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::uint32_t kThreads = 128;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The sums and the sums of magnitudes, row r masked by the length of batch_of(r).
struct Sums {
  std::vector<double> sum, magnitude;
};
template <class BatchOf>
Sums masked_sums(const std::vector<core::Tensor>& inputs, BatchOf batch_of) {
  const core::Tensor& tensor = inputs.at(0);
  const std::vector<double> values = tensor.to_doubles(), lengths = inputs.at(1).to_doubles();
  const Eigen::Index t = tensor.shape[2];
  const Eigen::Map<const RowMajor> x(values.data(), tensor.shape[0] * tensor.shape[1], t);
  Sums sums;
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    const double length = std::trunc(lengths[static_cast<std::size_t>(batch_of(r))]);
    const auto n = static_cast<Eigen::Index>(std::clamp(length, 0.0, static_cast<double>(t)));
    sums.sum.push_back(x.row(r).head(n).sum());
    sums.magnitude.push_back(x.row(r).head(n).cwiseAbs().sum());
  }
  return sums;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t batches = problem.values.integer("batches"),
                     heads = problem.values.integer("heads"), t = problem.values.integer("t");
  const bool beyond = problem.values.text("lengths") == "beyond";
  const core::Dtype f32 = core::Dtype::f32;
  const auto most = static_cast<float>(t);
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("X", f32, {batches, heads, t}, normal()),
       input("lengths", f32, {batches},
             beyond ? uniform(most + 1.0f, 2.0f * most + 2.0f) : uniform(0.0f, most + 1.0f)),
       output("y", f32, {batches, heads},
              {.rows = batches,
               .cols = heads,
               .tile_rows = 1,
               .tile_cols = 1,
               .tile_axis = "a row of X (one block)"})});
  plan.program = one_stream(
      "masked_sum",
      {launch(detail::cached_module(embedded::masked_sum()), "masked_sum_" + variant,
              {u32(batches * heads), 1, 1}, {kThreads, 1, 1},
              {core::BufferArgument{0}, core::BufferArgument{1}, core::BufferArgument{2},
               core::scalar(i32(batches)), core::scalar(i32(heads)), core::scalar(i32(t))})});
  // A thread's own terms, 5 steps over the warp, 3 over the warps.
  const reference::GemvBound bound =
      reference::gemv_bound({.chain = static_cast<double>(detail::ceil_div(t, kThreads) + 5 + 3),
                             .terms = static_cast<double>(t)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    Sums sums = masked_sums(inputs, [=](Eigen::Index r) { return r / heads; });
    core::ReferenceTensor y;
    y.expected = std::move(sums.sum);
    for (const double magnitude : sums.magnitude) {
      y.bound.push_back(reference::gemv_row_bound(bound, magnitude));
    }
    return std::vector{std::move(y)};
  };
  plan.alternatives = [=](const std::vector<core::Tensor>& inputs) {
    return std::vector<core::AlternativeResult>{
        {"rows masked by the length of batch (row mod batches)", core::FindingClass::isolation, 0,
         masked_sums(inputs, [=](Eigen::Index r) { return r % batches; }).sum}};
  };
  plan.contract = [=](const std::vector<core::Tensor>& inputs) {
    std::vector<std::string> violations;
    const std::vector<double> lengths = inputs.at(1).to_doubles();
    for (std::size_t b = 0; b < lengths.size() && violations.empty(); ++b) {
      const double length = std::trunc(lengths[b]);
      if (length >= 0.0 && length <= static_cast<double>(t)) continue;
      violations.push_back(
          fmt::format("lengths[{}] is {:g}, and a row has {} elements", b, length, t));
    }
    return violations;
  };
  return plan;
}

}  // namespace

Subject make_masked_sum() {
  return make(
      {.name = "masked_sum",
       .description = "sums of rows X[b][h], masked by a length for each batch, fp32",
       .problem_domain = {{detail::integer_parameter("batches", "batches", 1, 1024, 6),
                           detail::integer_parameter("heads", "rows of a batch", 1, 64, 4),
                           detail::integer_parameter("t", "elements of a row", 1, 65536, 300),
                           detail::choice_parameter("lengths",
                                                    "drawn within the rows, or beyond their end, "
                                                    "which the subject does not accept",
                                                    {"within", "beyond"})}},
       .variants = {clean("own_length", "the length of the row's own batch"),
                    mutant("neighbours_length", "own_length", core::FindingClass::isolation,
                           "the batch of a block decoded in the other order: its mask is that of "
                           "another batch",
                           {{"batches", "6"}, {"heads", "4"}})},
       .problems = {{},
                    {{"batches", "5"}, {"heads", "1"}, {"t", "1"}},
                    {{"batches", "3"}, {"heads", "5"}, {"t", "129"}}},
       .numeric_plan = {{.name = "sum_i X_bhi",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "t: 128 chains, then a tree"}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
