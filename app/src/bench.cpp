// SPDX-License-Identifier: Apache-2.0
// `faultline bench`: steady-state times beside the baseline, and the trial rates of a campaign.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend_choice.hpp"
#include "commands.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/cuda/baselines.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/reports/progress.hpp"
#include "operations.hpp"
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

constexpr double kContaminated = 0.10;  // relative spread above which a row is refused
constexpr std::uint32_t kDefaultSamples = 30;
constexpr std::uint32_t kHotGraphLaunches = 256;  // of a graph, when the buffers stay the same
constexpr double kRateSeconds = 4.0;              // of one campaign whose trial rate is measured

struct Summary {
  double median_us = 0.0, spread = 0.0;
};

// Median, and (p90 - p10) / median.
Summary summarise(std::vector<double> ns) {
  Summary summary;
  if (ns.empty()) return summary;
  std::sort(ns.begin(), ns.end());
  const auto at = [&](double p) {
    return ns[static_cast<size_t>(p * static_cast<double>(ns.size() - 1) + 0.5)];
  };
  summary.median_us = at(0.5) / 1e3;
  summary.spread = (at(0.9) - at(0.1)) / at(0.5);
  return summary;
}

core::Backend::TimingRequest timing_request(const Options& options) {
  core::Backend::TimingRequest request;
  request.samples = options.samples ? static_cast<std::uint32_t>(options.samples) : kDefaultSamples;
  request.cold = !options.hot;
  request.graph_launches = options.graph_launches;
  if (options.hot && request.graph_launches == 0) request.graph_launches = kHotGraphLaunches;
  return request;
}

std::string describe(const core::Backend::TimingRequest& request) {
  std::string text = fmt::format("{} samples per row; ", request.samples);
  text += request.graph_launches > 0
              ? fmt::format("replays of a graph of {} executions of the whole program",
                            request.graph_launches)
              : "replays of graphs of executions of the whole program";
  text += ", and single executions between events; ";
  text += request.cold ? "inputs rotate so that L2 is cold"
                       : "hot: every execution uses the same buffers";
  return text;
}

core::BenchRow make_row(const core::Problem& problem, const std::string& config,
                        const std::string& name, const std::vector<double>& graph_ns,
                        const std::vector<double>& event_ns, double bytes, double ceiling) {
  const Summary graph = summarise(graph_ns), event = summarise(event_ns);
  // A program with host steps or graphs of its own cannot be captured.
  const Summary& judged = graph_ns.empty() ? event : graph;
  core::BenchRow row{.problem = problem.values.line(), .config = config, .name = name};
  row.median_graph_us = graph.median_us;
  row.spread_graph = graph.spread;
  row.median_event_us = event.median_us;
  row.spread_event = event.spread;
  row.bytes = bytes;
  row.tb_per_s = judged.median_us > 0 ? bytes / judged.median_us * 1e-6 : 0.0;
  row.fraction_of_ceiling = ceiling > 0 ? row.tb_per_s * 1e12 / ceiling : 0.0;
  row.contaminated = !(judged.median_us > 0.0 && judged.spread <= kContaminated);
  if (graph_ns.empty()) row.note = "cannot be captured in a graph: single executions only";
  if (row.contaminated) {
    row.note += fmt::format("{}contaminated: samples spread by {:.0f} % of the median",
                            row.note.empty() ? "" : "; ", 100 * judged.spread);
  }
  return row;
}

void add_note(core::BenchRow& row, const std::string& text) {
  row.note += row.note.empty() ? text : "; " + text;
}

// What rows of one problem are compared by.
double time_of(const core::BenchRow& row) {
  return row.median_graph_us > 0.0 ? row.median_graph_us : row.median_event_us;
}

// Multiplications and additions a second, where bandwidth says little.
void add_flops(core::BenchRow& row, const core::Problem& problem) {
  const double operations = product_operations(problem.values);
  if (!(operations > 0.0) || !(time_of(row) > 0.0)) return;
  add_note(row, fmt::format("{:.1f} TFLOP/s", operations / time_of(row) * 1e-6));
}

// The epilogue of gemm as its unfused variant runs it: what is left of its program behind the
// product, from the workspace (binding 0) to the output (1). Empty: there is none.
core::Program epilogue_pass(const kernels::Subject& gemm, const core::Problem& problem) {
  const core::TrialPlan plan =
      gemm.plan(problem, "unfused", gemm.configs(problem, "unfused").front());
  const core::Program whole = plan.program(1);
  core::Program pass;
  pass.name = "sigmoid pass";
  for (std::size_t i = 1; i < whole.operations.size(); ++i) {
    auto launch = std::get<core::LaunchOperation>(whole.operations[i].what);
    for (core::Argument& argument : launch.arguments) {
      if (auto* buffer = std::get_if<core::BufferArgument>(&argument)) {
        buffer->buffer = plan.buffers[buffer->buffer].role == core::BufferRole::output ? 1 : 0;
      }
    }
    pass.add(std::move(launch));
  }
  return pass;
}

// cuBLAS on the same problem.
std::vector<cuda::BaselineTiming> baseline_timings(cuda::CublasBaseline& cublas,
                                                   const kernels::Subject& subject,
                                                   const core::Problem& problem,
                                                   const core::Backend::TimingRequest& request) {
  const core::Assignment& values = problem.values;
  if (subject.name == "gemv") {
    return cublas.time_gemv({values.integer("n"), values.integer("k"), values.dtype()}, request);
  }
  return cublas.time_gemm(
      {values.integer("m"), values.integer("n"), values.integer("k"), values.dtype()},
      epilogue_pass(subject, problem), request);
}

std::vector<core::Problem> problems_of(const Context& context, const kernels::Subject& subject) {
  if (context.options.words.size() > 1) {
    return {{subject.name, core::complete(subject.problem_domain, context.options.problem_values(),
                                          "problem of " + subject.name)}};
  }
  auto problems = subject.bench_problems ? subject.bench_problems() : std::vector<core::Problem>{};
  if (problems.empty()) {
    problems.push_back(
        {subject.name, core::complete(subject.problem_domain, {}, "problem of " + subject.name)});
  }
  return problems;
}

// Trials for about kRateSeconds, from the rate of a short campaign.
std::uint64_t trials_in_time(core::Backend& backend, const core::TrialPlan& plan,
                             core::TrialRequest request, std::uint64_t limit) {
  request.count = std::min<std::uint64_t>(limit, 2 * std::max(request.perturbation.batch, 16u));
  const core::TrialResult probe = backend.run_trials(plan, request);
  if (probe.trials == 0 || probe.elapsed_ns == 0) return request.count;
  const double per_trial =
      static_cast<double>(probe.elapsed_ns) * 1e-9 / static_cast<double>(probe.trials);
  const double wanted = std::min(kRateSeconds / per_trial, static_cast<double>(limit));
  return std::max(request.count, static_cast<std::uint64_t>(wanted));
}

// Trials per second of a clean campaign, everything fresh per trial: synchronised, in a serial
// graph, batched.
void add_trial_rates(core::Backend& backend, const kernels::ResolvedTrial& trial,
                     core::RunRecord& record) {
  struct Mode {
    const char* name;
    core::Perturbation perturbation;
    std::uint64_t trials;
  };
  std::vector<Mode> modes;
  core::Perturbation fresh{.name = "fresh", .fresh_inputs = true};
  core::Perturbation synced = fresh, graph = fresh, batched = fresh;
  synced.sync_each = true;
  graph.graph_trials = 500;
  batched.batch = std::min<std::uint32_t>(1024, trial.plan.max_batch);
  modes.push_back({"trials, synchronised each", synced, 20000});
  modes.push_back({"trials, stream", fresh, 20000});
  modes.push_back({"trials, serial graph", graph, 50000});
  if (trial.plan.max_batch > 1) modes.push_back({"trials, batched", batched, 2000000});
  for (const Mode& mode : modes) {
    core::TrialRequest request;
    request.perturbation = mode.perturbation;
    request.race = core::RaceMode::off;
    request.count = trials_in_time(backend, trial.plan, request, mode.trials);
    const core::TrialResult result = backend.run_trials(trial.plan, request);
    core::BenchRow row{
        .problem = trial.problem.values.line(), .config = trial.config.line(), .name = mode.name};
    const double seconds = static_cast<double>(result.elapsed_ns) * 1e-9;
    row.median_graph_us = result.trials ? seconds * 1e6 / static_cast<double>(result.trials) : 0.0;
    record.evidence.arms.push_back({.perturbation = mode.perturbation, .result = result});
    row.note = fmt::format("{:.0f} trials/s ({} trials, {} failed, batch {})",
                           seconds > 0 ? static_cast<double>(result.trials) / seconds : 0.0,
                           result.trials, result.failed, result.batch);
    record.bench.push_back(row);
  }
}

}  // namespace

int bench_command(const Context& context) {
  const Options& options = context.options;
  // Refuses an unknown subject or variant before anything is timed.
  const auto wanted_trial =
      kernels::resolve(context.registry, subject_and_variant(options), {}, {});
  Run run(context, "bench");
  const auto backend = choose_backend(options.backend == "auto" ? "cuda" : options.backend);
  if (backend->info().is_model) {
    throw core::UnsupportedError("the simulator has no time: bench needs --backend cuda and a GPU "
                                 "(bench/simulator measures the simulator itself)");
  }
  run.use_backend(backend->info());
  const core::Backend::TimingRequest timing_wanted = timing_request(options);
  const cuda::Bandwidth ceiling = cuda::measure_bandwidth();

  const kernels::Subject& subject = *wanted_trial.subject;
  const bool one_variant =
      !options.variant.empty() || options.subject().find('@') != std::string::npos;
  std::unique_ptr<cuda::CublasBaseline> cublas;
  std::string no_cublas;
  const bool has_baseline = subject.name == "gemv" || subject.name == "gemm";
  if (has_baseline) {
    try {
      cublas = cuda::CublasBaseline::load();
    } catch (const core::Error& error) {
      no_cublas = error.what();
    }
  }

  core::RunRecord& record = run.record();
  record.subject = subject.name;
  record.analysis_plan =
      fmt::format("{}; rows whose graph samples spread by more than 10 % are refused; ceiling: "
                  "read-only bandwidth {:.3f} TB/s, "
                  "copy {:.3f}, cudaMemcpy {:.3f} (read plus write), measured in this run",
                  describe(timing_wanted), ceiling.read * 1e-12, ceiling.copy * 1e-12,
                  ceiling.memcpy_copy * 1e-12);
  if (cublas && subject.name == "gemm") {
    record.analysis_plan +=
        "; cuBLAS has no sigmoid epilogue: ratios are to the fastest of its products followed by "
        "the pass of gemm@unfused, and its rows without that pass compute less";
  }
  if (!no_cublas.empty()) record.analysis_plan += "; no baseline: " + no_cublas;

  reports::Progress progress(stderr, reports::progress_options_for(stderr));
  bool contaminated = false;
  const auto problems = problems_of(context, subject);
  std::uint64_t done = 0;
  for (const core::Problem& problem : problems) {
    if (context.stop) break;
    progress.update(
        {.label = problem.line(), .done = done++, .total = problems.size(), .unit = "problems"});
    const double bytes = subject.traffic_bytes ? subject.traffic_bytes(problem) : 0.0;
    double baseline_us = 0.0;
    if (cublas) {
      for (const auto& timing : baseline_timings(*cublas, subject, problem, timing_wanted)) {
        auto row = make_row(problem, "", timing.method, timing.graph_ns, timing.event_ns, bytes,
                            ceiling.read);
        contaminated |= row.contaminated;
        if (timing.complete && (baseline_us == 0.0 || row.median_graph_us < baseline_us))
          baseline_us = row.median_graph_us;
        if (!timing.complete) add_note(row, "the product alone");
        add_flops(row, problem);
        record.bench.push_back(std::move(row));
      }
    }
    for (const auto& variant : subject.variants) {
      const bool wanted = one_variant ? &variant == wanted_trial.variant : !variant.is_mutant;
      if (!wanted) continue;
      auto configs = subject.configs(problem, variant.name);
      if (!options.config.empty()) {
        configs = {core::complete(subject.config_domain(variant.name), options.config_values(),
                                  "config of " + subject.name)};
      }
      core::BenchRow best;
      for (const auto& config : configs) {
        if (context.stop) break;
        const core::TrialPlan plan = subject.plan(problem, variant.name, config);
        run.use_modules(plan.program(1));
        const auto timing = backend->time_program(plan, timing_wanted);
        auto row = make_row(problem, config.line(), subject.name + "@" + variant.name,
                            timing.graph_ns, timing.event_ns, bytes, ceiling.read);
        if (baseline_us > 0) row.ratio_to_baseline = baseline_us / time_of(row);
        if (timing.graph_launches > 0) {
          add_note(row, fmt::format("{} executions in a graph over {} input set{}",
                                    timing.graph_launches, timing.input_sets,
                                    timing.input_sets == 1 ? "" : "s"));
        }
        add_flops(row, problem);
        if (best.name.empty() || time_of(row) < time_of(best)) best = row;
        if (options.verbosity > 0 || !options.config.empty()) record.bench.push_back(row);
      }
      if (options.verbosity == 0 && options.config.empty() && !best.name.empty()) {
        add_note(best, "best of its configs");
        record.bench.push_back(best);
      }
      contaminated |= !best.name.empty() && best.contaminated;
    }
  }
  // Fresh inputs without a device oracle would measure the host's reference; of gemv and gemm, the
  // oracle.
  if (!has_baseline && !options.hot && !context.stop) {
    const auto trial = kernels::resolve(context.registry, subject_and_variant(options),
                                        options.problem_values(), options.config_values());
    run.identify(trial);
    if (trial.plan.device_oracle) {
      add_trial_rates(*backend, trial, record);
    } else {
      record.analysis_plan += "; no trial rates: the subject has no device oracle";
    }
  }
  progress.finish();

  record.verdict.outcome = contaminated ? core::Outcome::inconclusive : core::Outcome::pass;
  record.verdict.summary =
      contaminated ? "inconclusive(timing.contaminated): some rows spread by more than 10 %; the "
                     "device was not quiet, run again"
                   : "timings are steady (relative spread at most 10 % in every row)";
  if (contaminated) {
    record.verdict.findings.push_back(
        {.finding = core::FindingClass::timing_contaminated,
         .severity = core::Severity::warning,
         .headline = "something else used the device while it was timed"});
  }
  record.evidence.subject = subject.name;
  record.evidence.variant = wanted_trial.variant->name;
  record.evidence.backend = backend->info().name;
  record.evidence.mode = "bench";
  record.evidence.interrupted = context.stop;
  const auto went_wrong = [](const core::ArmEvidence& arm) {
    return arm.result.failed > 0 || arm.result.trials == 0 || arm.result.skipped ||
           arm.result.status != core::ExecutionStatus::completed;
  };
  if (std::any_of(record.evidence.arms.begin(), record.evidence.arms.end(), went_wrong)) {
    record.verdict = diagnosis::diagnose(record.evidence);  // a rate of wrong trials is no pass
  } else if (record.bench.empty()) {
    record.verdict.outcome = core::Outcome::inconclusive;
    record.verdict.summary = "inconclusive: nothing was timed";
  }
  return run.finish_with_verdict();
}

}  // namespace faultline::app
