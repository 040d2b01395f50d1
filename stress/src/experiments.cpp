// SPDX-License-Identifier: Apache-2.0
#include "experiments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/ptx_delay.hpp"
#include "faultline/stress/statistics.hpp"
#include "faultline/stress/verify.hpp"
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

  /// The same with the data back to back.
  Other contiguous() const {
    const std::vector<core::Assignment::Value>& neutral = trial_.subject->contiguous;
    if (neutral.empty()) throw core::UnsupportedError("it has no pitch or offset to leave out");
    core::Problem problem = trial_.problem;
    std::vector<std::string> changed;
    for (const auto& [name, value] : neutral) {
      if (problem.values.text(name) == value) continue;
      problem.values.set(name, value);
      changed.push_back(fmt::format("{}={}", name, value));
    }
    if (changed.empty()) throw core::UnsupportedError("its data are contiguous as they are");
    problem.values = core::complete(trial_.subject->problem_domain, problem.values.values(),
                                    "the problem with contiguous data");
    return {checked(trial_.subject->plan(problem, trial_.variant->name, trial_.config)),
            fmt::format("{}", fmt::join(changed, " "))};
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

  bool run() {
    // Counted in instructions, not in seconds: the record of a model must not depend on the clock.
    std::uint64_t in_arms = 0;
    for (const core::ArmEvidence& arm : evidence_.arms) in_arms += arm.result.thread_instructions;
    allowed_ = std::max<std::uint64_t>(300'000'000, in_arms / 2);
    // Experiments have trials of their own: an arm was chosen for what its trials showed.
    for (const core::ArmEvidence& arm : evidence_.arms) {
      first_fresh_ = std::max(first_fresh_, arm.result.trials);
    }
    using Experiment = diagnosis::Experiment;
    for (int i = 0; i < diagnosis::kMostChanges && !stopped(options_); ++i) {
      const std::optional<Experiment> next = diagnosis::next_experiment(evidence_);
      if (next && next->kind == Experiment::Kind::config_sweep) sweep(in_arms);
      if (!next || next->kind != Experiment::Kind::change) return !next || !stopped(options_);
      if (options_.progress) options_.progress({next->change_text, 0, next->trials, 0});
      evidence_.experiments.push_back(row_of(*next));
      if (stopped(options_)) return false;
    }
    return !stopped(options_);
  }

 private:
  /// What fails in the same way whatever runs around it, and has no name yet: the other configs of
  /// the problem, and a size without a tail where it has one, tell a config, a tail and a design
  /// apart. `in_arms`: instructions of all arms, on a model.
  void sweep(std::uint64_t in_arms) {
    const core::Verdict verdict = diagnosis::diagnose(evidence_);
    const bool unnamed =
        std::any_of(verdict.findings.begin(), verdict.findings.end(),
                    [](const auto& f) { return f.finding == core::FindingClass::unknown; });
    if (!unnamed || !trial_.subject->configs) return;
    VerifyOptions verify;
    verify.seed = campaign_.seed;
    verify.data = campaign_.data;
    verify.race = core::RaceMode::off;
    verify.null_check_elements = 0;  // asked of the campaign's own problem
    verify.run = options_;
    verify.run.checkpoint = nullptr;
    std::uint64_t trials = 0;
    for (const core::ArmEvidence& arm : evidence_.arms) trials += arm.result.trials;
    const std::uint64_t each = in_arms / std::max<std::uint64_t>(trials, 1);
    const std::size_t configs =
        trial_.subject->configs(trial_.problem, trial_.variant->name).size();
    if (2 * verify.trials * configs * each > 2 * allowed_) return;  // a control beside the problem
    core::Evidence swept =
        run_verify(backend_, *trial_.subject, *trial_.variant, {trial_.problem}, verify);
    if (swept.interrupted) return;
    evidence_.configs = std::move(swept.configs);
    evidence_.growth = std::move(swept.growth);
  }

  core::ExperimentEvidence row_of(const diagnosis::Experiment& next) {
    core::ExperimentEvidence row;
    row.kind = next.change;
    row.change = next.change_text;
    row.baseline = next.baseline;
    core::Perturbation baseline;
    for (const core::ArmEvidence& arm : evidence_.arms) {
      if (arm.perturbation.name == next.baseline && !arm.result.skipped) {
        baseline = arm.perturbation;
      }
    }
    try {
      if (next.perturbation.free_sms > 0) {
        const std::string why = needs_all_multiprocessors(plan_.program(1));
        if (!why.empty()) throw core::UnsupportedError(why);
      }
      const Finder finder(trial_);
      switch (next.change) {
      case Kind::one_block: run_one_block(finder.one_block(), next, baseline, row); break;
      case Kind::one_stage: run_other(finder.one_stage(), next, baseline, row); break;
      case Kind::twin: run_other(finder.twin(), next, baseline, row); break;
      case Kind::contiguous: run_other(finder.contiguous(), next, baseline, row); break;
      case Kind::delay: run_delays(next, row); break;
      default: run_pair(plan_, next.perturbation, baseline, {next.trials, next.trials}, row);
      }
    } catch (const core::UnsupportedError& e) {
      if (row.after_trials == 0) row.left_out = e.what();
    } catch (const core::UsageError& e) {
      if (row.after_trials == 0) row.left_out = e.what();
    }
    if (row.before_trials == 0 && !row.left_out.empty()) {  // what is known of the baseline
      for (const core::ArmEvidence& arm : evidence_.arms) {
        if (arm.perturbation.name != row.baseline || arm.result.skipped) continue;
        row.before_trials = judged(arm.result);
        row.before_wrong = arm.result.wrong_values;
      }
    }
    return row;
  }

  core::TrialRequest request_of(const core::Perturbation& perturbation, std::uint64_t trials,
                                std::uint64_t first) const {
    core::TrialRequest request;
    request.seed = campaign_.seed;
    request.first_trial = first;
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
                               std::uint64_t trials, std::uint64_t first) {
    if (backend_.info().is_model && spent_ > allowed_) {
      throw core::UnsupportedError("experiments have taken their share of the run; see --trials");
    }
    core::TrialResult result = run_safely(backend_, plan, request_of(perturbation, trials, first));
    spent_ += result.thread_instructions;
    return result;
  }

  struct Trials {
    std::uint64_t before = 0, after = 0;
  };

  /// The baseline and the change on fresh trials of equal numbers, in turns, so that what drifts
  /// meets both; on a model, where nothing drifts, the changes share one run of the baseline.
  void run_pair(const core::TrialPlan& changed, const core::Perturbation& perturbation,
                const core::Perturbation& baseline, Trials trials, core::ExperimentEvidence& row) {
    const bool model = backend_.info().is_model;
    const std::uint64_t turns = model ? 1 : 4;
    core::TrialResult before, after;
    for (std::uint64_t turn = 0; turn < turns && !stopped(options_); ++turn) {
      const Trials from{trials.before * turn / turns, trials.after * turn / turns};
      const Trials to{trials.before * (turn + 1) / turns, trials.after * (turn + 1) / turns};
      if (!model || !(baseline == known_baseline_) || known_.trials == 0) {
        known_ = run_trials(plan_, baseline, to.before - from.before, first_fresh_ + from.before);
        known_baseline_ = baseline;
      }
      add_counts(before, known_);
      add_counts(after, run_trials(changed, perturbation, to.after - from.after,
                                   first_fresh_ + from.after));
      if (after.trials < to.after || after.abnormal > 0) break;
      if (!before.overlap_proven || !after.overlap_proven) break;
    }
    row.before_trials = judged(before);
    row.before_wrong = before.wrong_values;
    if (!before.overlap_proven) {
      row.left_out = "of the arm: " + unproven(before);
      return;
    }
    add(after, perturbation, row);
  }

  static void add_counts(core::TrialResult& sum, const core::TrialResult& turn) {
    sum.trials += turn.trials;
    sum.failed += turn.failed;
    sum.wrong_values += turn.wrong_values;
    sum.abnormal += turn.abnormal;
    sum.overlap_proven = sum.overlap_proven && turn.overlap_proven;
    sum.first_failed_trial = std::min(sum.first_failed_trial, turn.first_failed_trial);
    if (sum.message.empty()) sum.message = turn.message;
    if (sum.note.empty()) sum.note = turn.note;
  }

  static std::string unproven(const core::TrialResult& result) {
    return result.note.empty() ? "what was to run beside the trials is not proven to have done so"
                               : result.note;
  }

  /// Trials whose values were looked at: one that hung or faulted has none.
  static std::uint64_t judged(const core::TrialResult& result) {
    return result.trials - std::min(result.trials, result.abnormal);
  }

  /// What came of it, into the row. Trials that a stop cut short count as far as they went.
  void add(const core::TrialResult& result, const core::Perturbation& perturbation,
           core::ExperimentEvidence& row) const {
    if (result.abnormal > 0) {  // another failure in the place of wrong values is no cure
      row.left_out = fmt::format("{} of {} trials hung or faulted{}{}", result.abnormal,
                                 result.trials, result.message.empty() ? "" : ": ", result.message);
      return;
    }
    if (result.trials == 0) {
      row.left_out = !result.note.empty()      ? result.note
                     : !result.message.empty() ? result.message
                                               : "no time was left";
      return;
    }
    if (!result.overlap_proven) {  // nobody knows what was changed
      row.left_out = unproven(result);
      return;
    }
    row.after_trials = result.trials;
    row.after_wrong = result.wrong_values;
    if (row.kind == Kind::one_block || row.kind == Kind::one_stage || row.kind == Kind::twin)
      return;
    if (result.failed > 0 && result.first_failed_trial != ~0ull) {
      row.token = token_text(backend_.info().name, plan_, request_of(perturbation, 1, 0),
                             result.first_failed_trial);
    }
  }

  void run_other(const Other& other, const diagnosis::Experiment& next,
                 const core::Perturbation& baseline, core::ExperimentEvidence& row,
                 std::uint64_t after_trials = 0) {
    row.change += fmt::format(" ({})", other.text);
    if (core::why_not(campaign_.data, other.plan.buffers).empty()) {
      run_pair(core::with_kept_reference(other.plan), next.perturbation, baseline,
               {next.trials, std::max(next.trials, after_trials)}, row);
    } else {
      row.left_out = "its inputs cannot be drawn in this data mode";
    }
  }

  /// A race inside a block fails the less often the fewer blocks there are: none may fail so many
  /// times only where a rate per block that explains the baseline would have shown.
  void run_one_block(const Other& other, const diagnosis::Experiment& next,
                     const core::Perturbation& baseline, core::ExperimentEvidence& row) {
    const std::uint64_t block_count = blocks_of(plan_);
    const double blocks = static_cast<double>(block_count);
    const auto needed = [&](std::uint64_t wrong, std::uint64_t trials) {
      const double low = wilson_interval(wrong, trials, 1.0 - diagnosis::kChangeAlpha).low;
      // (1 - rate per block)^trials < alpha, where (1 - rate per block)^blocks = 1 - low.
      return blocks * std::log(diagnosis::kChangeAlpha) / std::log1p(-std::max(low, 1e-9));
    };
    // As many as the baseline seems to take; a simulated one of one block costs that much less.
    const double rate_trials = static_cast<double>(next.trials);
    const double most = backend_.info().is_model ? 480.0 : 40000.0;
    row.change += fmt::format(", of {} before", block_count);
    run_other(other, next, baseline, row,
              static_cast<std::uint64_t>(std::min(most, rate_trials * blocks)));
    if (!row.left_out.empty() || row.after_wrong > 0 || row.before_wrong == 0) return;
    if (next.perturbation.delay_sites != 0) return other_delays(other, next, row);
    const double enough = needed(row.before_wrong, row.before_trials);
    if (static_cast<double>(row.after_trials) > enough) return;
    row.left_out = fmt::format(
        "none of {} trials failed, which one block of {} would take {:.0f} trials to mean a cure",
        row.after_trials, block_count, std::ceil(enough));
    row.after_trials = 0;
  }

  /// Which warps sleep differs between blocks and draws, and trials of one draw have it in common:
  /// that none of several draws makes the one block fail is said, and is no cure. Where one does,
  /// its trials alone count.
  void other_delays(const Other& other, const diagnosis::Experiment& next,
                    core::ExperimentEvidence& row) {
    constexpr int kDraws = 8;
    core::Perturbation delayed = next.perturbation;
    const core::TrialPlan plan = core::with_kept_reference(other.plan);
    row.after_trials = 0;
    int draws = 1;
    for (; draws < kDraws && !stopped(options_); ++draws) {
      ++delayed.delay_seed;
      const core::TrialResult result = run_trials(plan, delayed, next.trials, first_fresh_);
      if (result.wrong_values == 0 && result.abnormal == 0 && result.trials > 0) continue;
      add(result, delayed, row);
      return;
    }
    row.left_out = fmt::format("none of {} draws of delays made the one block fail; which of its "
                               "warps sleep decides as well, so that is no cure",
                               draws);
  }

  /// Delays at all sites, in a few ways, until one fails; that one again on fresh trials, which
  /// alone are counted; then at one site alone.
  void run_delays(const diagnosis::Experiment& next, core::ExperimentEvidence& row) {
    const bool model = backend_.info().is_model;
    constexpr std::uint64_t kSeeds = 3;
    core::Perturbation plain = next.perturbation;
    const bool given = plain.delay_sites != 0;
    plain.delay_sites = plain.delay_site = plain.delay_ns = 0;
    plain.delay_seed = 0;
    plain.name = "none";
    const std::uint64_t tried = model ? 6 : 200, counted = model ? 12 : 200;
    // The tight loop that the delays are put into.
    row.baseline = plain.name;
    std::optional<core::Perturbation> worst;
    bool found = false;
    for (const std::uint32_t sites :
         {kSynchronisationSites, kSynchronisationSites | bit(DelaySite::shared)}) {
      for (std::uint64_t seed = 1; seed <= kSeeds && !stopped(options_); ++seed) {
        core::Perturbation delayed = plain;
        delayed.name = "ptx_delay";
        delayed.delay_sites = given ? next.perturbation.delay_sites : sites;
        delayed.delay_ns = given ? next.perturbation.delay_ns : 8192;
        delayed.delay_seed = given ? next.perturbation.delay_seed : seed;
        const core::TrialResult result = run_trials(plan_, delayed, tried, first_fresh_);
        if (judged(result) == 0) {
          if (!worst) add(result, delayed, row);
          continue;
        }
        worst = delayed;
        found = given || result.wrong_values > 0;
        if (found) break;
      }
      if (found) break;
    }
    if (!worst) return;
    row.left_out.clear();
    first_fresh_ += tried;
    run_pair(plan_, *worst, plain, {counted, counted}, row);
    first_fresh_ += counted;
    const std::vector<PtxSite> sites = find_sites(plan_.program(1), worst->delay_sites);
    row.change = fmt::format("delays of up to {} ns at {} site{} of its PTX", worst->delay_ns,
                             sites.size(), sites.size() == 1 ? "" : "s");
    if (row.after_wrong > 0 && row.before_wrong == 0) reduce(*worst, sites, row);
  }

  /// The first site that is enough alone: three runs of three fail, each with trials of its own.
  void reduce(core::Perturbation delayed, const std::vector<PtxSite>& sites,
              core::ExperimentEvidence& row) {
    constexpr std::size_t kSitesTried = 48;
    constexpr std::uint64_t kConfirmations = 3;
    const std::uint64_t trials = backend_.info().is_model ? 2 : 100;
    for (std::size_t i = 0; i < sites.size() && i < kSitesTried; ++i) {
      delayed.delay_site = static_cast<std::uint32_t>(i + 1);
      std::uint64_t failing = 0;
      core::TrialResult result;
      while (failing < kConfirmations && !stopped(options_)) {
        result = run_trials(plan_, delayed, trials, first_fresh_ + failing * trials);
        if (result.wrong_values == 0) break;
        ++failing;
      }
      if (failing < kConfirmations) continue;
      const PtxSite& site = sites[i];
      row.place = fmt::format("{} in {}", site.instruction, site.function);
      if (site.where.line > 0) {
        row.place = fmt::format("{}:{} ({})", site.where.file, site.where.line, row.place);
      }
      row.token = token_text(backend_.info().name, plan_, request_of(delayed, 1, 0),
                             result.first_failed_trial);
      return;
    }
    if (sites.size() > kSitesTried) {
      row.change += fmt::format(", of which the first {} were tried alone", kSitesTried);
    }
  }

  core::Backend& backend_;
  const kernels::ResolvedTrial& trial_;
  const core::TrialPlan& plan_;
  const CampaignPlan& campaign_;
  const RunOptions& options_;
  core::Evidence& evidence_;
  std::uint64_t spent_ = 0, allowed_ = 0;  ///< thread instructions
  std::uint64_t first_fresh_ = 0;          ///< trial numbers from here on no arm has run
  core::Perturbation known_baseline_;      ///< that `known_` is the result of
  core::TrialResult known_;
};

}  // namespace

bool run_experiments(core::Backend& backend, const kernels::ResolvedTrial& trial,
                     const core::TrialPlan& plan, const CampaignPlan& campaign,
                     const RunOptions& options, core::Evidence& evidence) {
  if (!trial.subject || !trial.variant) return true;
  return Experiments(backend, trial, plan, campaign, options, evidence).run();
}

}  // namespace faultline::stress::detail
