// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/campaign.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "experiments.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/statistics.hpp"
#include "faultline/stress/verify.hpp"
#include "pause.hpp"
#include "reference_limits.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

/// Arms under way: what was asked for, what has come back, how far it is.
struct Arm {
  PlannedArm planned;
  core::TrialResult result;
  std::uint64_t started = 0;  ///< trials asked for so far
  bool any_block = false;
  bool broken = false;
};

class Campaign {
 public:
  Campaign(core::Backend& backend, const core::TrialPlan& trial, const CampaignPlan& plan,
           const RunOptions& options)
      : backend_(backend),
        trial_(trial),
        plan_(plan),
        options_(options),
        total_(plan.total_trials()) {}

  /// Run `count` trials more of the arm, in pieces between which `checkpoint` is called.
  void run_block(Arm& arm, std::uint64_t count, const std::function<void()>& checkpoint) {
    const std::uint64_t end = arm.started + count;
    // Arms that have run keep what they have.
    if (!lost_to_.empty() && arm.any_block) return;
    double piece_s = options_.checkpoint_every_s;
    int without_a_trial = 0;
    while (arm.started < end && !arm.broken && !detail::stopped(options_)) {
      // A backend that never gets to a trial in time is asked without a limit.
      constexpr int kPatience = 3;
      const bool limited = checkpoint && without_a_trial < kPatience;
      const std::uint64_t before = arm.started;
      const double set_up_s = run_piece(arm, end - arm.started, limited ? piece_s : 0.0);
      if (!limited && arm.started < end) break;  // stopped, or broken
      without_a_trial = arm.started == before ? without_a_trial + 1 : 0;
      // Each piece prepares anew: that must not take most of the time.
      piece_s = std::max(
          {options_.checkpoint_every_s, 4.0 * set_up_s, without_a_trial > 0 ? 2.0 * piece_s : 0.0});
      if (arm.started < end && checkpoint) checkpoint();
    }
  }

  core::TrialRequest request_for(const Arm& arm) const {
    core::TrialRequest request;
    request.seed = plan_.seed;
    request.data = plan_.data;
    request.perturbation = arm.planned.perturbation;
    request.race = plan_.race;
    request.capture_limit = options_.capture_limit;
    request.timeout_s = options_.timeout_s;
    request.stop = options_.stop;
    return request;
  }

  void extend_total(std::uint64_t trials) { total_ += trials; }

 private:
  /// Up to `count` trials, fewer when `limit_s` (0: none) runs out or the run is stopped. Returns
  /// the seconds until the first trial was done.
  double run_piece(Arm& arm, std::uint64_t count, double limit_s) {
    core::TrialRequest request = request_for(arm);
    request.first_trial = arm.started;
    request.count = count;
    const detail::Pause pause(options_.stop, limit_s);
    if (limit_s > 0.0) request.stop = pause.flag();
    const std::uint64_t done_before = done_, failed_before = failed_;
    double first_s = -1.0;
    request.progress = [&](std::uint64_t done, std::uint64_t failed) {
      if (first_s < 0.0 && done > 0) first_s = pause.seconds();
      if (!options_.progress) return;
      options_.progress(
          {arm.planned.perturbation.name, done_before + done, total_, failed_before + failed});
    };
    if (options_.progress) {
      options_.progress({arm.planned.perturbation.name, done_, total_, failed_});
    }
    core::TrialResult block = lost_to_.empty() ? detail::run_safely(backend_, trial_, request)
                                               : detail::not_run_without_device(lost_to_);
    if (detail::takes_the_device(backend_.info(), block)) {
      lost_to_ = fmt::format("{} of arm '{}'",
                             block.status == core::ExecutionStatus::timeout ? "hang" : "fault",
                             arm.planned.perturbation.name);
    }
    // After a hang the rest of the block would hang, too.
    const bool paused = pause.raised() && block.status != core::ExecutionStatus::timeout;
    arm.started += paused ? std::min(block.trials, count) : count;
    done_ += block.trials;
    failed_ += block.failed;
    // A broken, skipped or unproven arm gives the same again: its other blocks would tell nothing.
    arm.broken = block.skipped || !block.overlap_proven || !lost_to_.empty() ||
                 block.status == core::ExecutionStatus::error ||
                 block.status == core::ExecutionStatus::unsupported ||
                 block.status == core::ExecutionStatus::out_of_time;
    if (arm.any_block) {
      detail::add_block(arm.result, block, arm.planned.perturbation.fresh_inputs,
                        options_.capture_limit);
    } else {
      arm.result = std::move(block);
      arm.any_block = true;
    }
    return first_s < 0.0 ? pause.seconds() : first_s;
  }

  core::Backend& backend_;
  const core::TrialPlan& trial_;
  const CampaignPlan& plan_;
  const RunOptions& options_;
  std::uint64_t total_, done_ = 0, failed_ = 0;
  std::string lost_to_;  ///< what took the device: "hang of arm 'none'"; empty: nothing
};

/// Compare the values of an arm with those of the unperturbed one, trial by trial with the same
/// number.
void pair_with_baseline(core::ArmEvidence& arm, const core::ArmEvidence& baseline) {
  // Beyond the last listed failure nothing is known when the list was cut short.
  auto horizon = [](const core::TrialResult& r) {
    return r.failures.size() == r.failed || r.failures.empty() ? r.trials
                                                               : r.failures.back().trial + 1;
  };
  const std::uint64_t pairs = std::min(horizon(arm.result), horizon(baseline.result));
  auto failed_in = [&](const core::TrialResult& r) {
    std::set<std::uint64_t> trials;
    for (const core::FailedTrial& f : r.failures) {
      const bool wrong = f.status == core::ExecutionStatus::completed && f.bad_elements > 0;
      if (wrong && f.trial < pairs) trials.insert(f.trial);
    }
    return trials;
  };
  const std::set<std::uint64_t> here = failed_in(arm.result), there = failed_in(baseline.result);
  for (std::uint64_t trial : here) arm.failed_here_only += there.contains(trial) ? 0 : 1;
  for (std::uint64_t trial : there) arm.failed_there_only += here.contains(trial) ? 0 : 1;
  arm.log_e = arm.failed_here_only + arm.failed_there_only == 0
                  ? 0.0
                  : paired_log_e(arm.failed_here_only, arm.failed_there_only);
}

/// Arms with one input set are compared with "none", arms with new inputs every trial with
/// "fresh_inputs": trial i then has the same inputs and the same poison in both, and only the
/// perturbation differs. A second call is another program: what it gets wrong says nothing about
/// what runs around the first.
void pair_arms(core::Evidence& evidence) {
  for (const bool fresh : {false, true}) {
    const std::string name = fresh ? "fresh_inputs" : "none";
    const auto unperturbed =
        std::find_if(evidence.arms.begin(), evidence.arms.end(), [&](const core::ArmEvidence& arm) {
          return arm.perturbation.name == name && !arm.result.skipped;
        });
    if (unperturbed == evidence.arms.end()) continue;
    const core::ArmEvidence baseline = *unperturbed;
    for (core::ArmEvidence& arm : evidence.arms) {
      if (arm.perturbation.fresh_inputs != fresh || arm.result.skipped) continue;
      if (arm.perturbation.calls != baseline.perturbation.calls) continue;
      if (arm.perturbation.name != name) pair_with_baseline(arm, baseline);
    }
  }
}

/// An arm with fewer multiprocessors that are not proven to have been held, or whose shared memory
/// is not proven to have been dirtied, in which nothing failed, is left out with its reason: it has
/// not shown what it is there for, and the other arms stand.
void leave_out_unproven(Arm& arm) {
  const core::TrialResult& result = arm.result;
  const bool clean = result.failed == 0 && result.changed_inputs.empty() &&
                     result.status == core::ExecutionStatus::completed;
  const core::Perturbation& perturbation = arm.planned.perturbation;
  const bool alone = perturbation.free_sms == 0 && !perturbation.dirty_shared;
  if (alone || result.overlap_proven || result.skipped || !clean) return;
  core::TrialResult left_out;
  left_out.skipped = true;
  left_out.note = !result.note.empty()        ? result.note
                  : perturbation.free_sms > 0 ? "the multiprocessors were not proven to be held"
                                              : "shared memory was not proven to be dirtied";
  arm.result = std::move(left_out);
}

/// What an arm has given so far, if it has run at all.
void add_arm(core::Evidence& evidence, const Campaign& campaign, const core::TrialPlan& trial,
             const Arm& arm) {
  if (!arm.any_block) return;
  evidence.arms.push_back(
      detail::make_arm(evidence.backend, trial, campaign.request_for(arm), arm.result));
}

bool runs_as_arm(diagnosis::Experiment::Kind kind) {
  return kind == diagnosis::Experiment::Kind::repeat_fixed_inputs ||
         kind == diagnosis::Experiment::Kind::memory_stress ||
         kind == diagnosis::Experiment::Kind::blocker ||
         kind == diagnosis::Experiment::Kind::second_call;
}

}  // namespace

core::Evidence run_campaign(core::Backend& backend, const kernels::ResolvedTrial& trial,
                            const CampaignPlan& plan, const RunOptions& options) {
  detail::require_data_mode(plan.data, trial.plan);
  core::Evidence evidence = detail::start_evidence(backend.info(), trial.plan, "stress");
  if (trial.variant) {
    evidence.hypothesis = trial.variant->hypothesis;
    evidence.declared_weakness =
        trial.variant->declared_weakness(trial.problem.values, trial.config);
  }
  // Every arm and round with fixed inputs needs the same reference.
  const core::TrialPlan trial_plan = core::with_kept_reference(trial.plan);
  Campaign campaign(backend, trial_plan, plan, options);
  std::vector<Arm> arms;
  for (const PlannedArm& planned : plan.arms) arms.push_back({.planned = planned, .result = {}});

  const auto give_checkpoint = [&] {
    core::Evidence so_far = evidence;
    for (const Arm& arm : arms) add_arm(so_far, campaign, trial_plan, arm);
    so_far.interrupted = true;
    options.checkpoint(so_far);
  };
  const std::function<void()> checkpoint =
      options.checkpoint ? std::function<void()>(give_checkpoint) : nullptr;
  const std::uint32_t rounds = std::max<std::uint32_t>(plan.rounds, 1);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (Arm& arm : arms) {
      const std::uint64_t end = arm.planned.trials * (round + 1) / rounds;
      if (end > arm.started) campaign.run_block(arm, end - arm.started, checkpoint);
      if (checkpoint) checkpoint();
    }
  }
  for (Arm& arm : arms) {
    leave_out_unproven(arm);
    add_arm(evidence, campaign, trial_plan, arm);
  }

  constexpr int kFollowUps = 3;
  const auto failed = [](const core::ArmEvidence& arm) { return arm.result.failed > 0; };
  const bool wanted =
      options.follow_ups ||
      (options.experiments && std::any_of(evidence.arms.begin(), evidence.arms.end(), failed));
  for (int i = 0; wanted && i < kFollowUps && !detail::stopped(options); ++i) {
    const std::optional<diagnosis::Experiment> next = diagnosis::next_experiment(evidence);
    if (!next || !runs_as_arm(next->kind)) break;
    Arm arm{.planned = {next->perturbation, next->trials, next->reason}, .result = {}};
    campaign.extend_total(next->trials);
    campaign.run_block(arm, next->trials, nullptr);
    if (!arm.any_block) break;
    if (arm.result.note.empty()) arm.result.note = next->reason;
    add_arm(evidence, campaign, trial_plan, arm);
  }

  if (evidence.backend_is_model && !evidence.arms.empty() && !detail::stopped(options)) {
    detail::count_accesses(backend, trial_plan, plan.seed, plan.data, options, evidence);
  }
  if (!detail::stopped(options) &&
      std::none_of(evidence.arms.begin(), evidence.arms.end(), failed)) {
    detail::try_null_outputs(trial_plan, plan.data, plan.seed, VerifyOptions{}.null_check_elements,
                             evidence);
  }
  evidence.interrupted = detail::stopped(options);
  pair_arms(evidence);
  detail::finish_evidence(evidence, trial_plan, plan.data, plan.seed);
  if (options.experiments && !evidence.interrupted) {
    evidence.interrupted =
        !detail::run_experiments(backend, trial, trial_plan, plan, options, evidence);
  }
  return evidence;
}

}  // namespace faultline::stress
