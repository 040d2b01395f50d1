// SPDX-License-Identifier: Apache-2.0
// Rows of a pitched workspace beyond 4 GB: an offset computed in 32 bits wraps.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Each row of X times the scale of its own row, where row r of X is taken to be `source(r)`.
template <class Source>
RowMajor scaled_rows(const std::vector<core::Tensor>& inputs, Source source) {
  const std::vector<double> x_values = inputs.at(0).to_doubles(), scale = inputs.at(1).to_doubles();
  const Eigen::Map<const RowMajor> x(x_values.data(), inputs[0].shape[0], inputs[0].shape[1]);
  RowMajor y(x.rows(), x.cols());
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    y.row(r) = scale[static_cast<std::size_t>(r)] * x.row(source(r));
  }
  return y;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t rows = problem.values.integer("rows"), cols = problem.values.integer("cols"),
                     pitch = problem.values.integer("pitch_mib") * kMiB;
  const core::Dtype f32 = core::Dtype::f32;
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("X", f32, {rows, cols}, normal()), input("scale", f32, {rows}, normal()),
                  workspace("pitched", f32, {rows, pitch / 4}),
                  output("Y", f32, {rows, cols},
                         {.rows = rows,
                          .cols = cols,
                          .tile_rows = 1,
                          .tile_cols = cols,
                          .tile_axis = "a row (one block)"})});
  plan.buffers[2].sparse = true;
  const core::ModuleRef module = detail::cached_module(embedded::rowscale());
  plan.program =
      one_stream("rowscale",
                 {launch(module, "rowscale_scatter", {u32(rows), 1, 1}, {kThreads, 1, 1},
                         {core::BufferArgument{0}, core::BufferArgument{2}, core::scalar(i32(cols)),
                          core::scalar(pitch)}),
                  launch(module, "rowscale_" + variant, {u32(rows), 1, 1}, {kThreads, 1, 1},
                         {core::BufferArgument{2}, core::BufferArgument{1}, core::BufferArgument{3},
                          core::scalar(i32(cols)), core::scalar(i32(pitch))})});
  // One product, rounded once: acceptance allows for it.
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    const RowMajor y = scaled_rows(inputs, [](Eigen::Index r) { return r; });
    core::ReferenceTensor reference;
    reference.expected.assign(y.data(), y.data() + y.size());
    reference.bound.assign(reference.expected.size(), 0.0);
    return std::vector{std::move(reference)};
  };
  plan.alternatives = [pitch](const std::vector<core::Tensor>& inputs) {
    // Rows between two others when 2^32 is no multiple of the pitch: nothing is foretold there.
    const auto wrapped = [pitch](Eigen::Index r) {
      return (r * pitch % (std::int64_t{1} << 32)) / pitch;
    };
    const RowMajor y = scaled_rows(inputs, wrapped);
    return std::vector<core::AlternativeResult>{
        {"rows at offsets modulo 2^32", core::FindingClass::index32, 0,
         std::vector<double>(y.data(), y.data() + y.size())}};
  };
  return plan;
}

}  // namespace

Subject make_rowscale() {
  return make(
      {.name = "rowscale",
       .description = "rows of a pitched buffer times a scale each, fp32",
       .problem_domain = {{detail::integer_parameter("rows", "rows", 1, 8, 6),
                           detail::integer_parameter("cols", "columns", 1, 4096, 256),
                           detail::listed_parameter("pitch_mib", "distance of rows in MiB",
                                                    {1, 512, 1024}, 1024)}},
       .variants = {clean("wide_offset", "row times pitch in 64 bits"),
                    mutant("wrapped_offset", "wide_offset", core::FindingClass::index32,
                           "row times pitch in 32 bits: rows beyond 4 GB are read 4 GB too early",
                           {{"rows", "6"}, {"pitch_mib", "1024"}})},
       .problems = {{},
                    {{"rows", "1"}, {"cols", "1"}},
                    {{"rows", "5"}, {"cols", "100"}},
                    {{"pitch_mib", "1"}}},
       .numeric_plan = {{.name = "scale_r X_rc", .stored = core::Dtype::f32}},
       .plan = plan,
       .contiguous = {{"pitch_mib", "1"}}});
}

}  // namespace faultline::kernels::catalogue
