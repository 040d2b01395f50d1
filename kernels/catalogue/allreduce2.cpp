// SPDX-License-Identifier: Apache-2.0
// A peer's buffer read too early: one rank of an all-reduce does not wait for the other's write.
#include "catalogue/subjects.hpp"

#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kParts = 4;

// Of rank r: kX + r and so on.
enum Buffer : std::uint32_t { kX = 0, kY = 2, kOwn = 4, kInbox = 6 };

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  const core::TileGeometry tiles{.rows = 1,
                                 .cols = n,
                                 .tile_rows = 1,
                                 .tile_cols = 128,
                                 .tile_axis = "128 elements (a block)"};
  core::TrialPlan plan = start_plan(
      problem, variant, config,
      {input("x0", f32, {kParts, n}, integers(64)), input("x1", f32, {kParts, n}, integers(64)),
       output("y0", f32, {n}, tiles), output("y1", f32, {n}, tiles), workspace("own0", f32, {n}),
       workspace("own1", f32, {n}), workspace("inbox0", f32, {n}), workspace("inbox1", f32, {n})});
  plan.program = [=](std::uint32_t) {
    const core::ModuleRef module = detail::cached_module(embedded::allreduce2());
    const std::array<std::uint32_t, 3> grid{u32(detail::ceil_div(n, 128)), 1, 1};
    core::Program program;
    program.name = "allreduce2";
    // One stream and one event for each rank; each rank is a device of its own.
    program.devices = {{0, 0}, {1, 1}};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      program.add(launch(module, "allreduce2_push", grid, {128, 1, 1},
                         {core::BufferArgument{kX + rank}, core::BufferArgument{kOwn + rank},
                          core::BufferArgument{kInbox + 1 - rank}, core::scalar(i32(kParts)),
                          core::scalar(i32(n))}),
                  rank);
      program.add(core::EventRecordOperation{rank}, rank);
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const bool waits = variant != "early_read" || rank != 0;
      if (waits) program.add(core::EventWaitOperation{1 - rank}, rank);
      program.add(launch(module, "allreduce2_add", grid, {128, 1, 1},
                         {core::BufferArgument{kOwn + rank}, core::BufferArgument{kInbox + rank},
                          core::BufferArgument{kY + rank}, core::scalar(i32(n))}),
                  rank);
    }
    return program;
  };
  // The additions of a rank's parts, and that of its peer's sum.
  const reference::GemvBound bound = reference::gemv_bound(
      {.chain = static_cast<double>(kParts + 1), .terms = static_cast<double>(2 * kParts)});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const RowMajor x0 = matrix(inputs.at(0)), x1 = matrix(inputs.at(1));
    const double unit = std::min(granularity(x0), granularity(x1));
    core::ReferenceTensor y;
    for (Eigen::Index i = 0; i < x0.cols(); ++i) {
      y.expected.push_back(x0.col(i).sum() + x1.col(i).sum());
      const double magnitude = x0.col(i).cwiseAbs().sum() + x1.col(i).cwiseAbs().sum();
      y.bound.push_back(sum_bound(bound, unit, magnitude));
    }
    return std::vector{y, y};
  };
  return plan;
}

}  // namespace

Subject make_allreduce2() {
  return make(
      {.name = "allreduce2",
       .description = "y = the sum over two ranks, each a device of its own",
       .problem_domain = {{detail::integer_parameter("n", "elements of a rank", 1, 65536, 1000)}},
       .variants = {clean("waits_for_peer",
                          "each rank waits for the event behind its peer's write"),
                    mutant("early_read", "waits_for_peer", core::FindingClass::device,
                           "rank 0 reads its inbox without waiting for rank 1's write")},
       .problems = {{}, {{"n", "1"}}, {{"n", "129"}}},
       .numeric_plan = {{.name = "sum over a rank's parts",
                         .stored = core::Dtype::f32,
                         .accumulate = core::Dtype::f32,
                         .reduction = "4 parts: one chain"},
                        {.name = "y = own + inbox", .stored = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
