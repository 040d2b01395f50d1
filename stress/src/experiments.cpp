// SPDX-License-Identifier: Apache-2.0
#include "experiments.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/ptx_delay.hpp"
#include "run_arm.hpp"

namespace faultline::stress::detail {
namespace {

using Kind = core::ExperimentEvidence::Kind;

/// Blocks of the largest launch of a call.
std::uint64_t blocks_of(const core::TrialPlan& plan) {
  std::uint64_t most = 0;
  for (const core::Operation& operation : plan.program(1).operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch) continue;
    const std::array<std::uint32_t, 3>& grid = launch->grid;
    most = std::max(most, std::uint64_t{grid[0]} * grid[1] * grid[2]);
  }
  return most;
}

/// The values of an integer parameter from its smallest up to `largest`.
std::vector<std::int64_t> values_below(const core::ParameterSpec& parameter, std::int64_t largest) {
  if (!parameter.allowed.empty()) {
    std::vector<std::int64_t> values;
    for (const std::int64_t value : parameter.allowed) {
      if (value < largest) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    return values;
  }
  const std::int64_t step = std::max<std::int64_t>(parameter.multiple_of, 1);
  const std::int64_t least =
      std::max<std::int64_t>((parameter.minimum + step - 1) / step * step, step);
  std::vector<std::int64_t> values;
  // Powers of two: what a tile may hold.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (std::int64_t value = least; value < std::min(largest, kMost); value *= 2) {
    values.push_back(value);
  }
  return values;
}

/// A call on another problem, in another config or by another variant.
struct Other {
  core::TrialPlan plan;
  std::string text;  ///< what is other: "n=16"
};

class Finder {
 public:
  explicit Finder(const kernels::ResolvedTrial& trial) : trial_(trial) {}

  /// Throws UnsupportedError with the reason when there is none.
  Other one_block() const {
    if (blocks_of(trial_.plan) <= 1) {
      throw core::UnsupportedError("every launch has one block as it is");
    }
    core::Problem problem = trial_.problem;
    std::uint64_t blocks = blocks_of(trial_.plan);
    std::vector<std::string> changed;
    // One parameter after the other, at its largest value that leaves the fewest blocks.
    for (const core::ParameterSpec& parameter : trial_.subject->problem_domain.parameters) {
      if (parameter.kind != core::ParameterSpec::Kind::integer || blocks <= 1) continue;
      const std::int64_t now = problem.values.integer(parameter.name);
      std::optional<std::int64_t> best;
      std::uint64_t fewest = blocks;
      for (const std::int64_t value : values_below(parameter, now)) {
        const std::optional<core::TrialPlan> plan = at(with(problem, parameter.name, value));
        if (!plan) continue;
        const std::uint64_t here = blocks_of(*plan);
        if (here > fewest || here >= blocks) continue;
        fewest = here;
        best = value;
      }
      if (!best) continue;
      problem = *with(problem, parameter.name, *best);
      blocks = fewest;
      changed.push_back(fmt::format("{}={}", parameter.name, *best));
    }
    if (blocks > 1) throw core::UnsupportedError("no problem of one block in each launch is known");
    return {*at(problem), fmt::format("{}", fmt::join(changed, " "))};
  }

  Other one_stage() const {
    const std::string name = "stages";
    const core::Domain domain = trial_.subject->config_domain(trial_.variant->name);
    if (!domain.find(name)) throw core::UnsupportedError("its configs have no stages");
    if (trial_.config.integer(name) <= 1) throw core::UnsupportedError("it has one stage as it is");
    core::Config config = trial_.config;
    config.set(name, 1);
    try {
      config = core::complete(domain, config.values(), "config of one stage");
      return {checked(trial_.subject->plan(trial_.problem, trial_.variant->name, config)),
              config.line()};
    } catch (const core::UsageError&) {
      throw core::UnsupportedError("it has no config with one stage");
    }
  }

  /// The clean twin of a mutant, or another implementation of a clean variant.
  Other twin() const {
    const kernels::Variant* other = trial_.subject->find_variant(trial_.variant->clean_twin);
    for (const kernels::Variant& variant : trial_.subject->variants) {
      if (!other && !variant.is_mutant && variant.name != trial_.variant->name) other = &variant;
    }
    if (!other) throw core::UnsupportedError("the subject has no other implementation");
    const std::string text = trial_.subject->name + "@" + other->name;
    try {
      const core::Config same = core::complete(trial_.subject->config_domain(other->name),
                                               trial_.config.values(), "config of the twin");
      return {checked(trial_.subject->plan(trial_.problem, other->name, same)), text};
    } catch (const core::UsageError&) {
      const core::Config first = trial_.subject->configs(trial_.problem, other->name).front();
      return {checked(trial_.subject->plan(trial_.problem, other->name, first)), text};
    }
  }

 private:
  static core::TrialPlan checked(core::TrialPlan plan) {
    kernels::check_plan(plan);
    return plan;
  }
  std::optional<core::Problem> with(core::Problem problem, const std::string& name,
                                    std::int64_t value) const {
    problem.values.set(name, value);
    try {
      problem.values = core::complete(trial_.subject->problem_domain, problem.values.values(),
                                      "a smaller problem");
    } catch (const core::UsageError&) {
      return std::nullopt;
    }
    return problem;
  }
  std::optional<core::TrialPlan> at(const std::optional<core::Problem>& problem) const {
    if (!problem) return std::nullopt;
    try {
      return checked(trial_.subject->plan(*problem, trial_.variant->name, trial_.config));
    } catch (const core::UsageError&) {
      return std::nullopt;
    }
  }

  const kernels::ResolvedTrial& trial_;
};

class Experiments {
 public:
  Experiments(core::Backend& backend, const kernels::ResolvedTrial& trial,
              const core::TrialPlan& plan, const CampaignPlan& campaign, const RunOptions& options,
              core::Evidence& evidence)
      : backend_(backend),
        trial_(trial),
        plan_(plan),
        campaign_(campaign),
        options_(options),
        evidence_(evidence) {}

  void run() {
    // Counted in instructions, not in seconds: the record of a model must not depend on the clock.
    std::uint64_t in_arms = 0;
    for (const core::ArmEvidence& arm : evidence_.arms) in_arms += arm.result.thread_instructions;
    allowed_ = std::max<std::uint64_t>(300'000'000, in_arms / 2);
    using Experiment = diagnosis::Experiment;
    constexpr int kMost = 16;
    for (int i = 0; i < kMost && !stopped(options_); ++i) {
      const std::optional<Experiment> next = diagnosis::next_experiment(evidence_);
      if (!next || next->kind != Experiment::Kind::change) return;
      if (options_.progress) options_.progress({next->change_text, 0, next->trials, 0});
      evidence_.experiments.push_back(row_of(*next));
    }
  }

 private:
  core::ExperimentEvidence row_of(const diagnosis::Experiment& next) {
    core::ExperimentEvidence row;
    row.kind = next.change;
    row.change = next.change_text;
    row.baseline = next.baseline;
    for (const core::ArmEvidence& arm : evidence_.arms) {
      if (arm.perturbation.name != next.baseline || arm.result.skipped) continue;
      row.before_trials = arm.result.trials;
      row.before_wrong = arm.result.wrong_values;
    }
    try {
      const Finder finder(trial_);
      switch (next.change) {
      case Kind::one_block: run_other(finder.one_block(), next, row); break;
      case Kind::one_stage: run_other(finder.one_stage(), next, row); break;
      case Kind::twin: run_other(finder.twin(), next, row); break;
      case Kind::delay: run_delays(next, row); break;
      default: add(run_trials(plan_, next.perturbation, next.trials), next.perturbation, row);
      }
    } catch (const core::UnsupportedError& e) {
      if (row.after_trials == 0) row.left_out = e.what();
    } catch (const core::UsageError& e) {
      if (row.after_trials == 0) row.left_out = e.what();
    }
    return row;
  }

  core::TrialRequest request_of(const core::Perturbation& perturbation,
                                std::uint64_t trials) const {
    core::TrialRequest request;
    request.seed = campaign_.seed;
    request.data = campaign_.data;
    request.count = trials;
    request.perturbation = perturbation;
    request.race = core::RaceMode::off;
    request.capture_limit = 0;
    request.gate_samples = 0;
    request.timeout_s = options_.timeout_s;
    request.stop = options_.stop;
    return request;
  }

  /// UnsupportedError when experiments have taken half as long as the arms.
  core::TrialResult run_trials(const core::TrialPlan& plan, const core::Perturbation& perturbation,
                               std::uint64_t trials) {
    if (backend_.info().is_model && spent_ > allowed_) {
      throw core::UnsupportedError("experiments have taken their share of the run; see --trials");
    }
    core::TrialResult result = run_safely(backend_, plan, request_of(perturbation, trials));
    spent_ += result.thread_instructions;
    return result;
  }

  /// What came of it, into the row. Trials that a stop cut short count as far as they went.
  void add(const core::TrialResult& result, const core::Perturbation& perturbation,
           core::ExperimentEvidence& row) const {
    if (result.trials == 0) {
      row.left_out = !result.note.empty()      ? result.note
                     : !result.message.empty() ? result.message
                                               : "no time was left";
      return;
    }
    row.after_trials = result.trials;
    row.after_wrong = result.wrong_values;
    if (row.kind == Kind::one_block || row.kind == Kind::one_stage || row.kind == Kind::twin)
      return;
    if (result.failed > 0 && result.first_failed_trial != ~0ull) {
      row.token = token_text(backend_.info().name, plan_, request_of(perturbation, 1),
                             result.first_failed_trial);
    }
  }

  void run_other(const Other& other, const diagnosis::Experiment& next,
                 core::ExperimentEvidence& row) {
    row.change += fmt::format(" ({})", other.text);
    if (core::why_not(campaign_.data, other.plan.buffers).empty()) {
      add(run_trials(core::with_kept_reference(other.plan), next.perturbation, next.trials),
          next.perturbation, row);
    } else {
      row.left_out = "its inputs cannot be drawn in this data mode";
    }
  }

  /// Delays at all sites, in a few ways; then at one site alone.
  void run_delays(const diagnosis::Experiment& next, core::ExperimentEvidence& row) {
    const bool model = backend_.info().is_model;
    constexpr std::uint64_t kSeeds = 3;
    core::Perturbation plain = next.perturbation;
    const bool given = plain.delay_sites != 0;
    plain.delay_sites = plain.delay_site = plain.delay_ns = 0;
    plain.delay_seed = 0;
    plain.name = "none";
    const std::uint64_t trials = model ? 6 : 200;
    // The tight loop that the delays are put into.
    row.baseline = plain.name;
    const core::TrialResult before = run_trials(plan_, plain, trials);
    row.before_trials = before.trials;
    row.before_wrong = before.wrong_values;
    core::Perturbation worst = plain;
    for (const std::uint32_t sites :
         {kSynchronisationSites, kSynchronisationSites | bit(DelaySite::shared)}) {
      for (std::uint64_t seed = 1; seed <= kSeeds && !stopped(options_); ++seed) {
        core::Perturbation delayed = plain;
        delayed.name = "ptx_delay";
        delayed.delay_sites = given ? next.perturbation.delay_sites : sites;
        delayed.delay_ns = given ? next.perturbation.delay_ns : 8192;
        delayed.delay_seed = given ? next.perturbation.delay_seed : seed;
        core::ExperimentEvidence here = row;
        add(run_trials(plan_, delayed, trials), delayed, here);
        if (here.after_wrong < row.after_wrong || here.after_trials == 0) {
          if (row.after_trials == 0) row.left_out = here.left_out;
          continue;
        }
        here.left_out.clear();
        row = here;
        worst = delayed;
        if (given || row.after_wrong > 0) break;
      }
      if (given || row.after_wrong > 0) break;
    }
    if (worst.delay_sites == 0) return;
    const std::vector<PtxSite> sites = find_sites(plan_.program(1), worst.delay_sites);
    row.change = fmt::format("delays of up to {} ns at {} site{} of its PTX", worst.delay_ns,
                             sites.size(), sites.size() == 1 ? "" : "s");
    if (row.after_wrong > 0 && before.wrong_values == 0) reduce(worst, sites, row);
  }

  /// The first site that is enough alone: three runs of three fail.
  void reduce(core::Perturbation delayed, const std::vector<PtxSite>& sites,
              core::ExperimentEvidence& row) {
    constexpr std::size_t kSitesTried = 48;
    constexpr int kConfirmations = 3;
    const std::uint64_t trials = backend_.info().is_model ? 2 : 100;
    for (std::size_t i = 0; i < sites.size() && i < kSitesTried; ++i) {
      delayed.delay_site = static_cast<std::uint32_t>(i + 1);
      int failing = 0;
      core::TrialResult result;
      while (failing < kConfirmations && !stopped(options_)) {
        result = run_trials(plan_, delayed, trials);
        if (result.wrong_values == 0) break;
        ++failing;
      }
      if (failing < kConfirmations) continue;
      const PtxSite& site = sites[i];
      row.place = fmt::format("{} in {}", site.instruction, site.function);
      if (site.where.line > 0) {
        row.place = fmt::format("{}:{} ({})", site.where.file, site.where.line, row.place);
      }
      row.token = token_text(backend_.info().name, plan_, request_of(delayed, 1),
                             result.first_failed_trial);
      return;
    }
  }

  core::Backend& backend_;
  const kernels::ResolvedTrial& trial_;
  const core::TrialPlan& plan_;
  const CampaignPlan& campaign_;
  const RunOptions& options_;
  core::Evidence& evidence_;
  std::uint64_t spent_ = 0, allowed_ = 0;  ///< thread instructions
};

}  // namespace

void run_experiments(core::Backend& backend, const kernels::ResolvedTrial& trial,
                     const core::TrialPlan& plan, const CampaignPlan& campaign,
                     const RunOptions& options, core::Evidence& evidence) {
  if (!trial.subject || !trial.variant) return;
  Experiments(backend, trial, plan, campaign, options, evidence).run();
}

}  // namespace faultline::stress::detail
