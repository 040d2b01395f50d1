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
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

constexpr double kContaminated = 0.10;  // relative spread above which a row is refused
constexpr std::uint32_t kDefaultSamples = 30;

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

core::BenchRow make_row(const core::Problem& problem, const std::string& config,
                        const std::string& name, const std::vector<double>& graph_ns,
                        const std::vector<double>& event_ns, double bytes, double ceiling) {
  const Summary graph = summarise(graph_ns), event = summarise(event_ns);
  core::BenchRow row{.problem = problem.values.line(), .config = config, .name = name};
  row.median_graph_us = graph.median_us;
  row.spread_graph = graph.spread;
  row.median_event_us = event.median_us;
  row.spread_event = event.spread;
  row.bytes = bytes;
  row.tb_per_s = graph.median_us > 0 ? bytes / graph.median_us * 1e-6 : 0.0;
  row.fraction_of_ceiling = ceiling > 0 ? row.tb_per_s * 1e12 / ceiling : 0.0;
  row.contaminated = !(graph.median_us > 0.0 && graph.spread <= kContaminated);
  if (row.contaminated) {
    row.note =
        fmt::format("contaminated: samples spread by {:.0f} % of the median", 100 * graph.spread);
  }
  return row;
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
    request.count = mode.trials;
    request.perturbation = mode.perturbation;
    request.race = core::RaceMode::off;
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
  const std::uint32_t samples =
      options.samples ? static_cast<std::uint32_t>(options.samples) : kDefaultSamples;
  const cuda::Bandwidth ceiling = cuda::measure_bandwidth();

  const kernels::Subject& subject = *wanted_trial.subject;
  const bool one_variant =
      !options.variant.empty() || options.subject().find('@') != std::string::npos;
  std::unique_ptr<cuda::CublasBaseline> cublas;
  std::string no_cublas;
  if (subject.name == "gemv") {
    try {
      cublas = cuda::CublasBaseline::load();
    } catch (const core::Error& error) {
      no_cublas = error.what();
    }
  }

  core::RunRecord& record = run.record();
  record.subject = subject.name;
  record.analysis_plan =
      fmt::format("{} samples per row; graph replays and single launches between events; inputs "
                  "rotate so that L2 is cold; "
                  "rows whose graph samples spread by more than 10 % are refused; ceiling: "
                  "read-only bandwidth {:.3f} TB/s, "
                  "copy {:.3f}, cudaMemcpy {:.3f} (read plus write), measured in this run",
                  samples, ceiling.read * 1e-12, ceiling.copy * 1e-12, ceiling.memcpy_copy * 1e-12);
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
      const cuda::GemvProblem shape{problem.values.integer("n"), problem.values.integer("k"),
                                    problem.values.dtype()};
      for (const auto& timing : cublas->time_gemv(shape, samples, true)) {
        auto row = make_row(problem, "", timing.method, timing.graph_ns, timing.event_ns, bytes,
                            ceiling.read);
        contaminated |= row.contaminated;
        if (baseline_us == 0.0 || row.median_graph_us < baseline_us)
          baseline_us = row.median_graph_us;
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
        const auto timing = backend->time_program(plan, samples, true);
        auto row = make_row(problem, config.line(), subject.name + "@" + variant.name,
                            timing.graph_ns, timing.event_ns, bytes, ceiling.read);
        if (baseline_us > 0) row.ratio_to_baseline = baseline_us / row.median_graph_us;
        if (best.name.empty() || row.median_graph_us < best.median_graph_us) best = row;
        if (options.verbosity > 0 || !options.config.empty()) record.bench.push_back(row);
      }
      if (options.verbosity == 0 && options.config.empty() && !best.name.empty()) {
        best.note += best.note.empty() ? "best of its configs" : "; best of its configs";
        record.bench.push_back(best);
      }
      contaminated |= !best.name.empty() && best.contaminated;
    }
  }
  if (subject.name != "gemv" && !context.stop) {
    const auto trial = kernels::resolve(context.registry, subject_and_variant(options),
                                        options.problem_values(), options.config_values());
    run.identify(trial);
    add_trial_rates(*backend, trial, record);
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
