// SPDX-License-Identifier: Apache-2.0
// faultline_stages SUBJECT[@VARIANT] [k=v ...] [--config k=v,...] [--samples N]
//
// Where the time of a subject of several launches goes: each launch alone, the launches whose entry
// starts with the subject's own name (of deltanet_bwd: without the forward that it starts from),
// and all of them; medians of graph replays, on the same buffers every time. Without problem values
// the subject's bench problems are timed. A Markdown table on stdout.
#include <faultline/core/errors.hpp>
#include <faultline/cuda/cuda_backend.hpp>
#include <faultline/kernels/subject.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace {

using namespace faultline;

constexpr std::uint32_t kLaunchesOfAGraph = 10;

double median_us(std::vector<double> ns) {
  if (ns.empty()) {
    return 0.0;
  }
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2] * 1e-3;
}

const core::LaunchOperation* launch_of(const core::Operation& operation) {
  return std::get_if<core::LaunchOperation>(&operation.what);
}

class StageTimer {
 public:
  StageTimer(core::Backend& backend, std::uint32_t samples) : backend_(backend) {
    request_.samples = samples;
    request_.cold = false;
    request_.graph_launches = kLaunchesOfAGraph;
  }

  /// The operations that `keep` accepts, as a program of their own. What they would read from the
  /// others is poison or left over: times here do not depend on values.
  template <typename Keep>
  double time(const core::TrialPlan& plan, const Keep& keep) const {
    core::TrialPlan part = plan;
    part.program = [&plan, keep](std::uint32_t batch) {
      core::Program program = plan.program(batch);
      std::erase_if(program.operations,
                    [&](const core::Operation& operation) { return !keep(operation); });
      return program;
    };
    return median_us(backend_.time_program(part, request_).graph_ns);
  }

 private:
  core::Backend& backend_;
  core::Backend::TimingRequest request_{};
};

/// "deltanet_bwd_state_none_f16_c64_dk64_dv64" -> "state", for the prefix "deltanet_bwd_"
std::string short_name(const std::string& entry, const std::string& prefix) {
  const std::size_t first = entry.rfind(prefix, 0) == 0 ? prefix.size() : entry.find('_') + 1;
  return entry.substr(first, entry.find('_', first) - first);
}

void time_problem(const StageTimer& timer, const kernels::Subject& subject,
                  const std::string& variant, const core::Problem& problem,
                  const core::Config& config) {
  const core::TrialPlan plan = subject.plan(problem, variant, config);
  // The gated subjects launch the same kernels.
  std::string prefix = subject.name + "_";
  if (prefix.rfind("gated_", 0) == 0) {
    prefix.erase(0, 6);
  }
  const auto own = [&](const core::Operation& operation) {
    const core::LaunchOperation* launch = launch_of(operation);
    return launch != nullptr && launch->entry.rfind(prefix, 0) == 0;
  };
  std::string stages;
  const core::Program program = plan.program(1);
  for (const core::Operation& operation : program.operations) {
    if (const core::LaunchOperation* launch = launch_of(operation)) {
      const double us = timer.time(
          plan, [id = operation.id](const core::Operation& other) { return other.id == id; });
      stages += fmt::format("{}{} {:.1f}", stages.empty() ? "" : ", ",
                            short_name(launch->entry, prefix), us);
    }
  }
  const bool has_own = std::any_of(program.operations.begin(), program.operations.end(), own);
  fmt::print("| {} | {} | {} | {} | {:.1f} |\n", problem.values.line(), config.line(), stages,
             has_own ? fmt::format("{:.1f}", timer.time(plan, own)) : "-",
             timer.time(plan, [](const core::Operation&) { return true; }));
  std::fflush(stdout);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    throw core::UsageError("faultline_stages SUBJECT[@VARIANT] [k=v ...] [--config k=v,...] "
                           "[--samples N]");
  }
  std::string problem_text, config_text;
  std::uint32_t samples = 30;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size();
    if (arguments[i] == "--config" && has_value) {
      config_text = arguments[++i];
    } else if (arguments[i] == "--samples" && has_value) {
      samples = static_cast<std::uint32_t>(std::stoul(arguments[++i]));
    } else {
      problem_text += arguments[i] + " ";
    }
  }
  kernels::SubjectRegistry registry;
  kernels::register_builtin_subjects(registry);
  const kernels::ResolvedTrial first =
      kernels::resolve(registry, arguments[0], core::parse_assignments(problem_text),
                       core::parse_assignments(config_text));
  const std::unique_ptr<core::Backend> backend = cuda::make_cuda_backend();
  const StageTimer timer(*backend, samples);
  fmt::print("{}, {} samples of graphs of {} executions\n\n", backend->info().device, samples,
             kLaunchesOfAGraph);
  fmt::print("| problem | config | launches, us | own, us | all, us |\n|---|---|---|---|---|\n");
  std::vector<core::Problem> problems{first.problem};
  if (problem_text.empty()) {
    problems = first.subject->bench_problems();
  }
  for (const core::Problem& problem : problems) {
    time_problem(timer, *first.subject, first.variant->name, problem, first.config);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
