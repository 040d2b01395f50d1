// SPDX-License-Identifier: Apache-2.0
#include "run_arm.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <tuple>
#include <variant>

#include <fmt/format.h>

#include "captured_tiles.hpp"
#include "changed_program.hpp"
#include "examine_terms.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/statistics.hpp"
#include "reference_limits.hpp"

namespace faultline::stress::detail {

core::TrialResult run_safely(core::Backend& backend, const core::TrialPlan& plan,
                             const core::TrialRequest& request) {
  if (request.perturbation.offset_bytes % 16 != 0) {
    throw core::UsageError(fmt::format("offset_bytes={}: addresses move by multiples of 16 bytes",
                                       request.perturbation.offset_bytes));
  }
  core::TrialResult broken;
  if (changes_program(request.perturbation)) {
    core::TrialRequest rest = request;
    rest.perturbation = for_backend(request.perturbation);
    try {
      core::TrialResult result =
          run_safely(backend, with_changed_program(plan, request.perturbation), rest);
      const bool not_run = result.trials == 0 && !result.skipped &&
                           (result.status == core::ExecutionStatus::unsupported ||
                            result.status == core::ExecutionStatus::error);
      if (!not_run) return result;
      // Code that was never compiled before, memory for what several calls keep: that it cannot be
      // run is nothing about the kernel, unless the program as it is cannot be run either.
      core::TrialRequest plain = rest;
      plain.count = 1;
      if (run_safely(backend, plan, plain).trials == 0) return result;
      core::Perturbation others = request.perturbation;
      others.delay_sites = 0;
      broken.note = fmt::format("the {} could not be run: {}",
                                changes_program(others) ? "program as changed for the arm"
                                                        : "kernel with delays in it",
                                result.message);
    } catch (const core::UnsupportedError& e) {
      broken.note = e.what();
    }
    broken.skipped = true;
    return broken;
  }
  try {
    core::TrialResult result = backend.run_trials(plan, request);
    // A stress kernel that was not proven to run beside them ends the trials; the note says so.
    const core::Perturbation& p = request.perturbation;
    const bool beside = p.free_sms > 0 || p.co_resident != core::CoResident::none;
    const bool cut_short = result.skipped || stopped(request.stop) ||
                           (beside && !result.overlap_proven) ||
                           result.status != core::ExecutionStatus::completed;
    if (!cut_short && result.trials < request.count) {
      result.status = core::ExecutionStatus::error;
      result.message = fmt::format("the {} backend ran {} of {} planned trials and did not say why",
                                   backend.info().name, result.trials, request.count);
    }
    return result;
  } catch (const core::UnsupportedError& e) {
    broken.status = core::ExecutionStatus::unsupported;
    broken.message = e.what();
  } catch (const std::exception& e) {
    broken.status = core::ExecutionStatus::error;
    broken.message = e.what();
  }
  return broken;
}

void add_block(core::TrialResult& into, const core::TrialResult& block, bool fresh_inputs,
               std::uint32_t capture_limit) {
  const bool some_before = into.trials > 0;
  into.trials += block.trials;
  into.failed += block.failed;
  into.wrong_values += block.wrong_values;
  into.raced += block.raced;
  into.abnormal += block.abnormal;
  for (const core::OutputTotals& output : block.outputs) {
    auto same = std::find_if(into.outputs.begin(), into.outputs.end(),
                             [&](const auto& o) { return o.name == output.name; });
    if (same == into.outputs.end()) {
      into.outputs.push_back(output);
    } else {
      diagnosis::accumulate(*same, output);
    }
  }
  for (const core::RaceReport& race : block.races) diagnosis::merge_race(into.races, race);
  diagnosis::sort_races(into.races);
  diagnosis::merge_accesses(into.accesses, block.accesses);
  into.inputs_checked += block.inputs_checked;
  for (const core::ChangedInput& changed : block.changed_inputs) {
    core::add_changed_input(into, changed);
  }
  for (const core::OutputHashes& set : block.output_hashes) {
    for (const std::uint64_t hash : set.hashes) {
      core::add_output_hash(into.output_hashes, set.input_seed, hash);
    }
  }
  for (const core::FailedTrial& failure : block.failures) core::add_failure(into, failure);
  for (const core::Capture& capture : block.captures) {
    if (into.captures.size() < capture_limit) into.captures.push_back(capture);
  }
  if (fresh_inputs) {
    into.input_sets += block.input_sets;
    into.distinct_outputs += block.distinct_outputs;
  } else {
    into.input_sets = std::max(into.input_sets, block.input_sets);
    into.distinct_outputs = std::max(into.distinct_outputs, block.distinct_outputs);
    if (into.output_hashes.size() == 1) {
      into.distinct_outputs =
          std::max<std::uint64_t>(into.distinct_outputs, into.output_hashes[0].hashes.size());
    }
  }
  into.gate_samples += block.gate_samples;
  into.gate_worst = std::max(into.gate_worst, block.gate_worst);
  // Work that was planned and then could not be done: never a pass.
  if (block.skipped && into.status < core::ExecutionStatus::unsupported) {
    into.status = core::ExecutionStatus::unsupported;
    if (into.message.empty()) into.message = block.note;
  }
  if (block.status > into.status) into.status = block.status;
  if (into.message.empty()) into.message = block.message;
  if (into.details.empty()) into.details = block.details;
  into.first_failed_trial = std::min(into.first_failed_trial, block.first_failed_trial);
  into.batch = std::max(into.batch, block.batch);
  into.overlap_proven = into.overlap_proven && block.overlap_proven;
  if (block.trials > 0) {
    into.held_sms = some_before ? std::min(into.held_sms, block.held_sms) : block.held_sms;
  }
  into.ran_ahead += block.ran_ahead;
  into.ran_ahead_of += block.ran_ahead_of;
  if (into.note.empty()) into.note = block.note;
  into.elapsed_ns += block.elapsed_ns;
  into.thread_instructions += block.thread_instructions;
}

bool stopped(const std::atomic<bool>* stop) { return stop && stop->load(); }
bool stopped(const RunOptions& options) { return stopped(options.stop); }

bool takes_the_device(const core::BackendInfo& backend, const core::TrialResult& result) {
  return !backend.is_model && (result.status == core::ExecutionStatus::timeout ||
                               result.status == core::ExecutionStatus::fault);
}

core::TrialResult not_run_without_device(const std::string& lost_to) {
  core::TrialResult result;
  result.skipped = true;
  result.note = fmt::format("not run: the device was lost to the {}", lost_to);
  return result;
}

std::string module_hash(const core::TrialPlan& plan) {
  if (!plan.program) return {};
  const core::Program program = plan.program(1);
  for (const core::Operation& operation : program.operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (launch && launch->module) return launch->module->hash;
  }
  return {};
}

std::string token_text(const std::string& backend, const core::TrialPlan& plan,
                       const core::TrialRequest& request, std::uint64_t trial) {
  return core::encode(core::TrialToken{.backend = backend,
                                       .subject = plan.subject,
                                       .variant = plan.variant,
                                       .problem = plan.problem.values.line(),
                                       .config = plan.config.line(),
                                       .seed = request.seed,
                                       .trial = trial,
                                       .data = request.data,
                                       .perturbation = request.perturbation,
                                       .race = request.race,
                                       .module_hash = module_hash(plan)});
}

core::ArmEvidence make_arm(const std::string& backend, const core::TrialPlan& plan,
                           const core::TrialRequest& request, core::TrialResult result) {
  core::ArmEvidence arm;
  arm.perturbation = request.perturbation;
  arm.wilson95 = wilson_interval(std::min(result.failed, result.trials), result.trials);
  arm.upper95 = zero_failure_upper_bound(result.trials);
  if (result.failed > 0 && result.first_failed_trial != ~0ull) {
    arm.token = token_text(backend, plan, request, result.first_failed_trial);
  }
  arm.result = std::move(result);
  return arm;
}

void note_asynchronous_instructions(core::Evidence& evidence, const core::Program& program) {
  std::vector<std::string>& known = evidence.asynchronous_instructions;
  // Over every problem and config of a sweep: the most, and whether any.
  std::uint64_t launches = 0, reloading = 0;
  bool shared_memory = evidence.launches > 0 && evidence.shared_memory;
  std::set<core::StreamId> streams;
  for (const core::Operation& operation : program.operations) {
    streams.insert(operation.stream);
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch || !launch->module) continue;
    ++launches;
    reloading += launch->reload_module;
    // The whole module is looked at: one kernel with shared memory is enough to leave it open.
    shared_memory = shared_memory || launch->dynamic_shared_bytes > 0 ||
                    launch->module->ptx.find(".shared") != std::string::npos;
    for (std::string& opcode : core::asynchronous_instructions(*launch->module, launch->entry)) {
      known.push_back(std::move(opcode));
    }
  }
  evidence.launches = std::max(evidence.launches, launches);
  evidence.reloading_launches = std::max(evidence.reloading_launches, reloading);
  evidence.shared_memory = shared_memory;
  evidence.streams = std::max<std::uint64_t>(evidence.streams, streams.size());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
}

void add_not_examined(core::Evidence& evidence, const std::string& what) {
  std::vector<std::string>& missing = evidence.not_examined;
  if (std::find(missing.begin(), missing.end(), what) == missing.end()) missing.push_back(what);
}

void note_sparse_workspaces(core::Evidence& evidence, const core::TrialPlan& plan) {
  if (evidence.backend_is_model) return;
  for (const core::BufferSpec& buffer : plan.buffers) {
    if (!buffer.sparse || buffer.role == core::BufferRole::input) continue;
    add_not_examined(evidence,
                     fmt::format("what a launch reads of '{}' that it has not written, but for the "
                                 "first launch of each arm: it is too large to be poisoned anew",
                                 buffer.name));
  }
}

void note_unchecked_inputs(core::Evidence& evidence, const core::TrialResult& result) {
  const bool ran = !result.skipped && result.trials > result.abnormal;
  if (!ran || result.inputs_checked > 0 || result.outputs.empty()) return;
  add_not_examined(evidence, "whether the inputs were still what was laid there after a launch");
}

void require_data_mode(core::DataMode data, const core::TrialPlan& plan) {
  if (const std::string why = core::why_not(data, plan.buffers); !why.empty()) {
    throw core::UsageError(fmt::format("{}: {}", plan.subject, why));
  }
}

core::Evidence start_evidence(const core::BackendInfo& backend, const core::TrialPlan& plan,
                              std::string mode) {
  core::Evidence evidence;
  evidence.subject = plan.subject;
  evidence.variant = plan.variant;
  evidence.problem = plan.problem.line();
  evidence.backend = backend.name;
  evidence.backend_is_model = backend.is_model;
  evidence.declared_deterministic = plan.declared_deterministic;
  evidence.mode = std::move(mode);
  note_asynchronous_instructions(evidence, plan.program(1));
  note_sparse_workspaces(evidence, plan);
  return evidence;
}

void count_accesses(core::Backend& backend, const core::TrialPlan& plan, std::uint64_t seed,
                    core::DataMode data, const RunOptions& options, core::Evidence& evidence) {
  core::TrialRequest request;
  request.seed = seed;
  request.data = data;
  request.race = core::RaceMode::off;
  request.access_statistics = true;
  request.capture_limit = 0;
  request.timeout_s = options.timeout_s;
  request.stop = options.stop;
  const core::TrialResult counted = run_safely(backend, plan, request);
  diagnosis::merge_accesses(evidence.accesses, counted.accesses);
}

void finish_evidence(core::Evidence& evidence, const core::TrialPlan& plan, core::DataMode data,
                     std::uint64_t seed, bool templates) {
  std::vector<const core::TrialResult*> results;
  for (const core::ArmEvidence& arm : evidence.arms) results.push_back(&arm.result);
  for (const core::TrialResult* result : results) {
    for (const core::RaceReport& race : result->races) {
      diagnosis::merge_race(evidence.races, race);
    }
    diagnosis::merge_accesses(evidence.accesses, result->accesses);
  }
  diagnosis::sort_races(evidence.races);

  // What a second call gets wrong is looked at where no first one is wrong: the two are not alike.
  std::vector<const core::TrialResult*> looked_at;
  for (const core::ArmEvidence& arm : evidence.arms) {
    if (arm.perturbation.calls <= 1) looked_at.push_back(&arm.result);
  }
  if (std::all_of(looked_at.begin(), looked_at.end(),
                  [](const auto* r) { return r->captures.empty(); })) {
    looked_at = results;
  }
  // Where every trial is wrong once shared memory is dirtied, those are alike: elsewhere it holds
  // what other kernels have left.
  std::vector<const core::TrialResult*> dirtied;
  bool all_wrong = true;
  for (const core::ArmEvidence& arm : evidence.arms) {
    if (!arm.perturbation.dirty_shared || arm.perturbation.calls > 1) continue;
    if (arm.result.trials == 0) continue;
    dirtied.push_back(&arm.result);
    all_wrong = all_wrong && arm.result.wrong_values == arm.result.trials;
  }
  if (!dirtied.empty() && all_wrong) looked_at = dirtied;
  CaptureExamination captures = examine_captures(plan, data, looked_at, templates);
  // A race check and a replay ask which term is wrong, not which terms could have been seen.
  std::string trouble;
  const bool captured = std::any_of(results.begin(), results.end(),
                                    [](const auto* r) { return !r->captures.empty(); });
  // What could have been seen matters to a pass, which an interrupted run is not.
  const bool pass_possible = evidence.mode == "stress" && !evidence.interrupted;
  if (captured || pass_possible) {
    add_terms(evidence,
              examine_terms(plan, data, looked_at, core::trial_seed(seed, 0), {}, trouble), "", "");
  }
  const auto called_twice = [](const core::ArmEvidence& arm) {
    return arm.perturbation.calls > 1 && arm.result.trials > 0;
  };
  const bool failed =
      std::any_of(results.begin(), results.end(), [](const auto* r) { return r->failed > 0; });
  if (pass_possible && !failed &&
      std::none_of(evidence.arms.begin(), evidence.arms.end(), called_twice)) {
    add_not_examined(evidence,
                     "whether a second call gives the same: no trial called it twice, as the "
                     "arm called_twice does");
  }
  if (pass_possible) {
    constexpr std::int64_t kElements = std::int64_t{1} << 24;
    add_reference_limits(evidence, plan, data, core::trial_seed(seed, 0), kElements, "", "");
  }
  if (!trouble.empty() && !evidence.arms.empty()) {
    std::string& note = evidence.arms.front().result.note;
    note += (note.empty() ? "" : "; ") + trouble;
  }
  // Examined, they have served: a record with every wrong output in it would run to megabytes.
  for (core::ArmEvidence& arm : evidence.arms) {
    add_captured_tiles(plan, data, arm.result);
    arm.result.captures.clear();
  }
  evidence.provenance = std::move(captures.provenance);
  evidence.error_shape = captures.shape;
  evidence.alternatives = std::move(captures.alternatives);
  evidence.readings = std::move(captures.readings);
  evidence.footprints = std::move(captures.footprints);
  evidence.templates = std::move(captures.templates);
  for (const core::TrialResult* result : results) note_unchecked_inputs(evidence, *result);
  if (plan.contract) {
    evidence.contract_violations =
        plan.contract(make_inputs(plan, data, core::trial_seed(seed, 0)));
  }

  evidence.repeat = repeat_of(evidence.arms);
}

std::optional<core::RepeatEvidence> repeat_of(const std::vector<core::ArmEvidence>& arms) {
  // Runs of each input set, and what they gave, over all arms: two arms may well have one output
  // each, and not the same.
  struct Runs {
    core::RepeatEvidence repeat;
    std::vector<core::OutputHashes> seen;
  };
  // Elsewhere shared memory holds what it holds.
  const bool all_dirty = std::all_of(arms.begin(), arms.end(), [](const core::ArmEvidence& arm) {
    return arm.perturbation.dirty_shared;
  });
  std::map<std::uint64_t, Runs> by_inputs;
  for (const core::ArmEvidence& arm : arms) {
    if (arm.perturbation.calls > 1) continue;  // not the same run
    if (arm.perturbation.dirty_shared && !all_dirty) continue;
    const core::TrialResult& r = arm.result;
    const bool fixed = !arm.perturbation.fresh_inputs && r.input_sets == 1;
    for (const core::OutputHashes& set : r.output_hashes) {
      Runs& runs = by_inputs[set.input_seed];
      runs.repeat.repeats += fixed ? r.trials : 1;
      for (const std::uint64_t hash : set.hashes) {
        core::add_output_hash(runs.seen, set.input_seed, hash);
      }
      runs.repeat.distinct = std::max<std::uint64_t>(
          {runs.repeat.distinct, runs.seen[0].hashes.size(), fixed ? r.distinct_outputs : 0});
    }
  }
  const auto more = [](const auto& a, const auto& b) {
    return std::tie(a.second.repeat.distinct, a.second.repeat.repeats) <
           std::tie(b.second.repeat.distinct, b.second.repeat.repeats);
  };
  const auto most = std::max_element(by_inputs.begin(), by_inputs.end(), more);
  if (most == by_inputs.end() || most->second.repeat.repeats < 2) return std::nullopt;
  return most->second.repeat;
}

}  // namespace faultline::stress::detail
