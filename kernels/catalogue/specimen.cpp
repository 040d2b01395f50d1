// SPDX-License-Identifier: Apache-2.0
#include "catalogue/specimen.hpp"

#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <utility>

namespace faultline::kernels::catalogue {

Subject make(Specimen specimen) {
  Subject subject;
  subject.name = specimen.name;
  subject.description = std::move(specimen.description);
  subject.problem_domain = specimen.problem_domain;
  subject.variants = std::move(specimen.variants);
  subject.deterministic = specimen.deterministic;
  subject.plan = std::move(specimen.plan);
  subject.config_domain = [domain = specimen.config_domain](const std::string&) { return domain; };
  subject.configs = [configs = specimen.configs.empty() ? std::vector<core::Config>{{}}
                                                        : std::move(specimen.configs)](
                        const core::Problem&, const std::string&) { return configs; };
  subject.verify_problems = [name = specimen.name, domain = specimen.problem_domain,
                             problems = std::move(specimen.problems)](bool) {
    std::vector<core::Problem> all;
    for (const std::vector<core::Assignment::Value>& values : problems) {
      all.push_back(detail::make_problem(name, domain, values));
    }
    return all;
  };
  subject.bench_problems = [] { return std::vector<core::Problem>{}; };
  subject.numeric_plan = [points = std::move(specimen.numeric_plan)](const core::Problem&) {
    return points;
  };
  subject.lengths = [lengths = std::move(specimen.lengths)](const core::Problem& problem,
                                                            const std::string& variant,
                                                            const core::Config& config) {
    return lengths ? lengths(problem, variant, config) : TileLengths{};
  };
  subject.traffic_bytes = [](const core::Problem&) { return 0.0; };
  subject.contiguous = std::move(specimen.contiguous);
  return subject;
}

Variant clean(std::string name, std::string description) {
  return {.name = std::move(name), .description = std::move(description)};
}

Variant mutant(std::string name, std::string twin, core::FindingClass finding,
               std::string description, std::vector<core::Assignment::Value> shows_at) {
  return {.name = std::move(name),
          .description = std::move(description),
          .is_mutant = true,
          .clean_twin = std::move(twin),
          .required_finding = finding,
          .shows_at = std::move(shows_at)};
}

core::TrialPlan start_plan(const core::Problem& problem, const std::string& variant,
                           const core::Config& config, std::vector<core::BufferSpec> buffers) {
  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers = std::move(buffers);
  return plan;
}

namespace {

core::BufferSpec buffer(std::string name, core::Dtype dtype, core::Shape shape,
                        core::BufferRole role) {
  core::BufferSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  spec.role = role;
  return spec;
}

}  // namespace

core::BufferSpec input(std::string name, core::Dtype dtype, core::Shape shape,
                       core::InputSpec values) {
  core::BufferSpec spec = buffer(std::move(name), dtype, std::move(shape), core::BufferRole::input);
  spec.input = values;
  return spec;
}

core::BufferSpec output(std::string name, core::Dtype dtype, core::Shape shape,
                        core::TileGeometry tiles) {
  core::BufferSpec spec =
      buffer(std::move(name), dtype, std::move(shape), core::BufferRole::output);
  spec.tiles = std::move(tiles);
  return spec;
}

core::BufferSpec workspace(std::string name, core::Dtype dtype, core::Shape shape) {
  return buffer(std::move(name), dtype, std::move(shape), core::BufferRole::workspace);
}

core::LaunchOperation launch(const core::ModuleRef& module, std::string entry,
                             std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                             std::vector<core::Argument> arguments,
                             std::uint32_t dynamic_shared_bytes) {
  core::LaunchOperation operation;
  operation.module = module;
  operation.entry = std::move(entry);
  operation.grid = grid;
  operation.block = block;
  operation.arguments = std::move(arguments);
  operation.dynamic_shared_bytes = dynamic_shared_bytes;
  return operation;
}

std::function<core::Program(std::uint32_t)> one_stream(std::string name, std::vector<Step> steps) {
  return [name = std::move(name), steps = std::move(steps)](std::uint32_t batch) {
    if (batch != 1) {
      throw core::UsageError(fmt::format("{} runs one trial in a grid, not {}", name, batch));
    }
    core::Program program;
    program.name = name;
    for (const Step& step : steps) program.add(step);
    return program;
  };
}

core::InputSpec integers(float limit) { return {core::Distribution::small_int, limit, 0.0f}; }
core::InputSpec normal(float mean, float deviation) {
  return {core::Distribution::normal, mean, deviation};
}
core::InputSpec uniform(float low, float high) { return {core::Distribution::uniform, low, high}; }

}  // namespace faultline::kernels::catalogue
