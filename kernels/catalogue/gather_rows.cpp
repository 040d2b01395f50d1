// SPDX-License-Identifier: Apache-2.0
// Padding in a list of indices, used as an address before anybody looks whether it is one.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::uint32_t kThreads = 64;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

enum Buffer : std::uint32_t { kTable, kRows, kWanted, kIndices, kOut };

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols"),
                     count = problem.values.integer("count");
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("table", f32, {rows, cols}, normal()),
                  input("rows", f32, {count}, uniform(0.0f, static_cast<float>(rows))),
                  input("wanted", f32, {count}, {core::Distribution::coin, 0.0f, 1.0f}),
                  workspace("indices", f32, {count}),  // int32
                  output("out", f32, {count, cols},
                         {.rows = count,
                          .cols = cols,
                          .tile_rows = 1,
                          .tile_cols = cols,
                          .tile_axis = "a row (one block)"})});
  const core::ModuleRef module = detail::cached_module(embedded::gather_rows());
  plan.program = one_stream(
      "gather_rows",
      {launch(module, "gather_rows_indices", {u32(detail::ceil_div(count, kThreads)), 1, 1},
              {kThreads, 1, 1},
              {core::BufferArgument{kRows}, core::BufferArgument{kWanted},
               core::BufferArgument{kIndices}, core::scalar(i32(count))}),
       launch(module, "gather_rows_" + variant, {u32(count), 1, 1}, {kThreads, 1, 1},
              {core::BufferArgument{kTable}, core::BufferArgument{kIndices},
               core::BufferArgument{kOut}, core::scalar(i32(rows)), core::scalar(i32(cols))})});
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    const std::vector<double> values = inputs.at(kTable).to_doubles(),
                              index = inputs.at(kRows).to_doubles(),
                              wanted = inputs.at(kWanted).to_doubles();
    const Eigen::Map<const RowMajor> table(values.data(), rows, cols);
    RowMajor out = RowMajor::Zero(count, cols);
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto n = static_cast<std::size_t>(i);
      const bool is_row = index[n] > -1.0 && index[n] < static_cast<double>(rows);
      if (wanted[n] != 0.0 && is_row) out.row(i) = table.row(static_cast<Eigen::Index>(index[n]));
    }
    core::ReferenceTensor reference;  // copies: exact
    reference.expected.assign(out.data(), out.data() + out.size());
    reference.bound.assign(reference.expected.size(), 0.0);
    return std::vector{std::move(reference)};
  };
  return plan;
}

}  // namespace

Subject make_gather_rows() {
  return make(
      {.name = "gather_rows",
       .description = "rows of a table by index, zeros for padding, fp32",
       .problem_domain = {{detail::integer_parameter("rows", "rows of the table", 1, 65536, 50),
                           detail::integer_parameter("cols", "columns", 1, 4096, 48),
                           detail::integer_parameter("count", "indices", 1, 65536, 40)}},
       .variants = {clean("checked_index", "an index that is no row is not read"),
                    mutant("unchecked_index", "checked_index", core::FindingClass::crash,
                           "the index of a padding row is used as an address")},
       .problems = {{},
                    {{"rows", "1"}, {"cols", "1"}, {"count", "9"}},
                    {{"rows", "7"}, {"cols", "65"}, {"count", "65"}}},
       .numeric_plan = {{.name = "out_i = table_(index_i)", .stored = core::Dtype::f32}},
       .plan = plan});
}

}  // namespace faultline::kernels::catalogue
