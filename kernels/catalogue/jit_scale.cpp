// SPDX-License-Identifier: Apache-2.0
// A cache of built kernels whose key omits a compiled-in option: the second call runs the code that
// was built for the first one's option.
#include "catalogue/subjects.hpp"

#include "catalogue/specimen.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace faultline::kernels::catalogue {

namespace {

constexpr int kHeadSizes[2] = {64, 256};  // of the two calls

enum Buffer : std::uint32_t { kX, kFirst, kSecond };

/// What a just-in-time layer would compile for this head size.
core::ModuleRef build(int head_size) {
  return detail::cached_module(head_size == 64 ? embedded::jit_scale_d64()
                                               : embedded::jit_scale_d256());
}

/// Built kernels by key. `key_has_head_size`: whether the key tells head sizes apart.
class BuiltKernels {
 public:
  explicit BuiltKernels(bool key_has_head_size) : key_has_head_size_(key_has_head_size) {}

  core::ModuleRef get(int head_size) {
    const std::string key =
        key_has_head_size_ ? fmt::format("jit_scale f32 D={}", head_size) : "jit_scale f32";
    const auto [built, fresh] = built_.try_emplace(key);
    if (fresh) built->second = build(head_size);
    return built->second;
  }

 private:
  bool key_has_head_size_;
  std::map<std::string, core::ModuleRef> built_;
};

std::vector<double> scaled(const core::Tensor& x, int head_size) {
  std::vector<double> values = x.to_doubles();
  for (double& value : values) value /= std::sqrt(static_cast<double>(head_size));
  return values;
}

core::TrialPlan plan(const core::Problem& problem, const std::string& variant,
                     const core::Config& config) {
  const std::int64_t n = problem.values.integer("n");
  const core::Dtype f32 = core::Dtype::f32;
  const core::TileGeometry tiles{.rows = 1,
                                 .cols = n,
                                 .tile_rows = 1,
                                 .tile_cols = 256,
                                 .tile_axis = "256 elements (a block)"};
  core::TrialPlan plan =
      start_plan(problem, variant, config,
                 {input("x", f32, {n}, normal()), output("first", f32, {n}, tiles),
                  output("second", f32, {n}, tiles)});
  plan.program = [=](std::uint32_t) {
    BuiltKernels kernels(variant != "stale_code");
    core::Program program;
    program.name = "jit_scale";
    for (std::uint32_t call = 0; call < 2; ++call) {
      program.add(launch(
          kernels.get(kHeadSizes[call]), "jit_scale", {u32(detail::ceil_div(n, 256)), 1, 1},
          {256, 1, 1},
          {core::BufferArgument{kX}, core::BufferArgument{kFirst + call}, core::scalar(i32(n))}));
    }
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    std::vector<core::ReferenceTensor> references;
    for (const int head_size : kHeadSizes) {
      core::ReferenceTensor y{scaled(inputs.at(0), head_size), {}};
      y.bound.assign(y.expected.size(), 0.0);  // a product with a power of two
      references.push_back(std::move(y));
    }
    return references;
  };
  plan.alternatives = [](const std::vector<core::Tensor>& inputs) {
    return std::vector{core::AlternativeResult{.name = "the code built for D = 64",
                                               .finding = core::FindingClass::stale_code,
                                               .output = 1,
                                               .values = scaled(inputs.at(0), kHeadSizes[0])}};
  };
  return plan;
}

}  // namespace

Subject make_jit_scale() {
  return make({.name = "jit_scale",
               .description = "y = x / sqrt(D), D compiled in, called for D = 64 and D = 256",
               .problem_domain = {{detail::integer_parameter("n", "elements", 1, 1 << 20, 1000)}},
               .variants = {clean("full_key", "built kernels are cached by all they depend on"),
                            mutant("stale_code", "full_key", core::FindingClass::stale_code,
                                   "the key of the cache omits D: the second call runs the code "
                                   "of the first")},
               .problems = {{}, {{"n", "1"}}, {{"n", "513"}}},
               .numeric_plan = {{.name = "y = x / sqrt(D)", .stored = core::Dtype::f32}},
               .plan = plan});
}

}  // namespace faultline::kernels::catalogue
