// SPDX-License-Identifier: Apache-2.0
// The catalogue: small subjects, each modelled on a public bug report, with the defect as it
// happened and a clean twin that differs in nothing else (docs/catalogue.md). What is alike in all
// of them is filled in here.
#pragma once

#include <faultline/core/module.hpp>
#include <faultline/kernels/subject.hpp>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace faultline::kernels::catalogue {

/// What one small subject says of itself.
struct Specimen {
  std::string name{};
  std::string description{};
  core::Domain problem_domain{};
  std::vector<Variant> variants{};  ///< the first is the default
  /// Problems that `verify` covers: values that differ from the defaults. Never empty; {} is the
  /// default problem.
  std::vector<std::vector<core::Assignment::Value>> problems{};
  std::vector<RoundingPoint> numeric_plan{};
  bool deterministic = true;
  std::function<core::TrialPlan(const core::Problem&, const std::string& variant,
                                const core::Config&)>
      plan{};
  // Empty: no tunables; no lengths to compare failures with.
  core::Domain config_domain{};
  std::vector<core::Config> configs{};
  std::function<TileLengths(const core::Problem&, const std::string& variant, const core::Config&)>
      lengths{};
  std::vector<core::Assignment::Value> contiguous{};  ///< Subject::contiguous
};

Subject make(Specimen specimen);

Variant clean(std::string name, std::string description);
Variant mutant(std::string name, std::string twin, core::FindingClass finding,
               std::string description, std::vector<core::Assignment::Value> shows_at = {});

/// A plan of this trial with its buffers; program and reference are still to be set.
core::TrialPlan start_plan(const core::Problem& problem, const std::string& variant,
                           const core::Config& config, std::vector<core::BufferSpec> buffers);

core::BufferSpec input(std::string name, core::Dtype dtype, core::Shape shape,
                       core::InputSpec values);
core::BufferSpec output(std::string name, core::Dtype dtype, core::Shape shape,
                        core::TileGeometry tiles);
core::BufferSpec workspace(std::string name, core::Dtype dtype, core::Shape shape);

/// A launch of `entry`: buffers by their index, scalars as core::scalar().
core::LaunchOperation launch(const core::ModuleRef& module, std::string entry,
                             std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                             std::vector<core::Argument> arguments,
                             std::uint32_t dynamic_shared_bytes = 0);

/// One operation of a program: a launch, a fill, a copy, ...
using Step = decltype(core::Operation::what);

/// A program of these operations on the default stream, for one trial in a grid.
std::function<core::Program(std::uint32_t)> one_stream(std::string name, std::vector<Step> steps);

/// Small integers: |x| <= limit. Sums of their products are exact in fp32 below 2^24.
core::InputSpec integers(float limit);
core::InputSpec normal(float mean = 0.0f, float deviation = 1.0f);
core::InputSpec uniform(float low, float high);

inline std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }
inline std::int32_t i32(std::int64_t n) { return static_cast<std::int32_t>(n); }

}  // namespace faultline::kernels::catalogue
