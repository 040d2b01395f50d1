// SPDX-License-Identifier: Apache-2.0
// Elements of a gradient that are never written: the backward pass clips the length of a sequence
// as the forward pass does, and leaves the rows beyond as they were. Reported for jagged tensors
// whose gradients were right for as long as fresh memory happened to be zero.
#include "catalogue/exact_sums.hpp"
#include "catalogue/specimen.hpp"
#include "catalogue/subjects.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::int64_t kSequences = 4;

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const auto of = [&](const char* name) { return problem.values.integer(name); };
  const std::array<std::int64_t, kSequences> lengths{of("n0"), of("n1"), of("n2"), of("n3")};
  const std::int64_t max_length = of("max_length"), d = of("d");
  const std::int64_t rows = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("g", f32, {kSequences, max_length, d}, normal()),
                  output("dx", f32, {rows, d},
                         {.rows = rows, .cols = d, .tile_cols = d, .tile_axis = "row of dx"})});
  plan.program = one_stream("unpack_bwd",
                            {launch(detail::cached_module(embedded::unpack_bwd()),
                                    "unpack_bwd_" + variant, {kSequences, 1, 1}, {32, 8, 1},
                                    {core::BufferArgument{0}, core::BufferArgument{1},
                                     core::scalar(i32(lengths[0])), core::scalar(i32(lengths[1])),
                                     core::scalar(i32(lengths[2])), core::scalar(i32(lengths[3])),
                                     core::scalar(i32(max_length)), core::scalar(i32(d))})});
  // Copies and zeros: nothing rounds.
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> values = inputs.at(0).to_doubles();
    const Eigen::Map<const RowMajor> g(values.data(), kSequences * max_length, d);
    RowMajor dx = RowMajor::Zero(rows, d);
    std::int64_t start = 0;
    for (std::int64_t sequence = 0; sequence < kSequences; ++sequence) {
      const std::int64_t length = lengths[static_cast<std::size_t>(sequence)];
      const std::int64_t kept = std::min(length, max_length);
      dx.middleRows(start, kept) = g.middleRows(sequence * max_length, kept);
      start += length;
    }
    core::ReferenceTensor tensor;
    tensor.expected.assign(dx.data(), dx.data() + dx.size());
    tensor.bound.assign(tensor.expected.size(), 0.0);
    return std::vector{std::move(tensor)};
  };
  return plan;
}

}  // namespace

Subject make_unpack_bwd() {
  return make(
      {.name = "unpack_bwd",
       .description =
           "gradient of unpacking 4 sequences into a padded array that cuts off long ones",
       .problem_domain = {{detail::integer_parameter("n0", "length of sequence 0", 1, 4096, 5),
                           detail::integer_parameter("n1", "length of sequence 1", 0, 4096, 9),
                           detail::integer_parameter("n2", "length of sequence 2", 0, 4096, 3),
                           detail::integer_parameter("n3", "length of sequence 3", 0, 4096, 1),
                           detail::integer_parameter("max_length", "rows of the padded array", 1,
                                                     4096, 4),
                           detail::integer_parameter("d", "elements of a row", 1, 4096, 48)}},
       .variants = {clean("whole", "every row of dx is written, zeros where it was cut off"),
                    mutant("clipped_length", "whole", core::FindingClass::missed_write,
                           "the length is clipped to the padding: rows that were cut off are never "
                           "written",
                           {{"n0", "5"}, {"n1", "9"}, {"n2", "3"}, {"max_length", "4"}})},
       .problems = {{},
                    {{"n0", "3"},
                     {"n1", "0"},
                     {"n2", "17"},
                     {"n3", "8"},
                     {"max_length", "17"},
                     {"d", "33"}},
                    {{"n0", "2"}, {"n1", "0"}, {"n2", "0"}, {"max_length", "1"}, {"d", "1"}}},
       .numeric_plan = {{.name = "dx", .stored = core::Dtype::f32, .accumulate = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
