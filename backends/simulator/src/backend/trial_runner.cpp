// SPDX-License-Identifier: Apache-2.0
#include "backend/trial_runner.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>

#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/stop.hpp"

namespace faultline::simulator {
namespace {

// Why the simulator cannot honour a perturbation; empty when it can.
std::string not_modelled(const core::Perturbation& p) {
  const core::Perturbation plain;
  if (p.sync_each || p.wait != plain.wait || p.wait_ns != 0)
    return "host timing means nothing to the simulator";
  if (p.reload_module) return "the simulator has no module loading to repeat";
  if (p.pool_bytes != 0 || p.flush_l2) return "the simulator has no caches";
  if (p.co_resident != plain.co_resident) return "the simulator runs nothing beside the trial";
  if (p.blocker_ns != 0) return "a blocker is for a CUDA device: schedules here need no clock";
  if (p.free_sms != 0) return "the simulator has no multiprocessors to hold";
  if (p.graph_trials != 0) return "the simulator gains nothing from graphs of trials";
  if (p.dirty_shared) return "the simulator lays poison in shared memory in every trial";
  if (p.one_stream || p.eager || p.calls != 1 || p.delay_sites != 0)
    return "changes of the program are made before a backend sees it";
  if (p.batch != 1 || p.ctas_per_sm != 0.0)
    return "the simulator has no multiprocessors to fill: batch must be 1";
  return {};
}

bool has_error(const std::vector<core::RaceReport>& races) {
  return std::any_of(races.begin(), races.end(),
                     [](const core::RaceReport& race) { return !race.note_only; });
}

// Buffers live exactly as long as the trials.
class BufferGuard {
 public:
  BufferGuard(core::Backend& backend, std::vector<core::BufferHandle>& buffers)
      : backend_(backend), buffers_(buffers) {}
  ~BufferGuard() {
    for (const core::BufferHandle& buffer : buffers_) backend_.release(buffer);
    buffers_.clear();
  }
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

 private:
  core::Backend& backend_;
  std::vector<core::BufferHandle>& buffers_;
};

// What is allocated meanwhile begins so far behind a boundary.
class OffsetGuard {
 public:
  OffsetGuard(Device& device, std::uint64_t bytes) : device_(device) { device_.set_offset(bytes); }
  ~OffsetGuard() { device_.set_offset(0); }
  OffsetGuard(const OffsetGuard&) = delete;
  OffsetGuard& operator=(const OffsetGuard&) = delete;

 private:
  Device& device_;
};

}  // namespace

void TrialRunner::prepare_inputs(const core::TrialPlan& plan, const core::TrialRequest& request,
                                 std::uint64_t seed) {
  if (inputs_.valid && inputs_.seed == seed) return;
  std::vector<core::Tensor> inputs;
  for (const std::uint32_t index : plan.input_indices()) {
    const core::BufferSpec& buffer = plan.buffers[index];
    core::throw_if_stopped();
    core::Tensor tensor(buffer.dtype, buffer.shape);
    core::generate_input(core::input_for(request.data, buffer), seed, index, tensor);
    inputs.push_back(std::move(tensor));
  }
  core::throw_if_stopped();
  inputs_.reference = plan.reference(inputs);
  const std::vector<std::uint32_t> indices = plan.input_indices();
  for (std::size_t k = 0; k < indices.size(); ++k)
    backend_.upload(buffers_[indices[k]], inputs[k].bytes);
  inputs_.tensors = std::move(inputs);
  inputs_.seed = seed;
  inputs_.valid = true;
}

bool TrialRunner::check_inputs(const core::TrialPlan& plan, core::TrialResult& result) {
  ++result.inputs_checked;
  bool changed = false;
  const std::vector<std::uint32_t> indices = plan.input_indices();
  std::vector<std::byte> now;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const core::Tensor& laid = inputs_.tensors[k];
    now.resize(laid.bytes.size());
    backend_.download(buffers_[indices[k]], now);
    if (now == laid.bytes) continue;
    changed = true;
    core::add_changed_input(result, plan.buffers[indices[k]], laid.bytes, now);
    backend_.upload(buffers_[indices[k]], laid.bytes);
  }
  return changed;
}

void TrialRunner::run_one(const core::TrialPlan& plan, const core::TrialRequest& request,
                          const core::Program& program, std::uint64_t trial,
                          core::TrialResult& result) {
  const std::uint64_t own_seed = core::trial_seed(request.seed, trial);
  const std::uint64_t input_seed =
      request.perturbation.fresh_inputs ? own_seed : core::trial_seed(request.seed, 0);
  prepare_inputs(plan, request, input_seed);
  const std::uint32_t poison = core::poison_word(trial);
  const core::PoisonMap poisons(plan.buffers);
  for (std::size_t k = 0; k < plan.buffers.size(); ++k) {
    if (plan.buffers[k].role == core::BufferRole::input) continue;
    if (poisons.has_tiles(k)) {
      laid_.resize(plan.buffers[k].bytes());
      poisons.lay(k, poison, laid_);
      backend_.upload(buffers_[k], laid_);
    } else {
      backend_.fill(buffers_[k], poison);
    }
  }
  RunSettings run;
  run.policy = request.perturbation.policy;
  run.lateness = request.perturbation.lateness;
  run.seed = core::mix64(own_seed);
  run.race = request.race;
  run.access_statistics = request.access_statistics;
  run.step_budget = settings_.step_budget;
  run.pct_depth = settings_.pct_depth;
  run.unwritten_shared = core::shared_poison_word(trial);
  run.unwritten_local = core::local_poison_word(trial);
  run.timeout_s = request.timeout_s;
  // A trial is a function of its token: what others left in variables of modules is gone.
  device_.reset_module_variables();
  const core::ExecutionReport report = programs_.run(program, buffers_, run);
  result.thread_instructions += report.thread_instructions;
  if (report.status == core::ExecutionStatus::unsupported ||
      report.status == core::ExecutionStatus::out_of_time ||
      report.status == core::ExecutionStatus::error) {
    result.status = report.status;
    result.message = report.message;
    result.details = report.details;
    if (!has_error(report.races)) return;  // nothing was judged: the trial does not count
  }
  ++result.trials;
  merge_races(result.races, report.races);
  merge_accesses(result.accesses, report.accesses);
  core::FailedTrial failed{.trial = trial,
                           .input_seed = input_seed,
                           .status = report.status,
                           .raced = has_error(report.races),
                           .bad_outputs = {},
                           .wrong_tiles = {}};
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  core::Capture capture{trial, input_seed, poison, {}};
  if (report.status == core::ExecutionStatus::completed) {
    std::uint64_t hash = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const core::BufferSpec& buffer = plan.buffers[outputs[k]];
      core::Tensor got(buffer.dtype, buffer.shape);
      backend_.download(buffers_[outputs[k]], got.bytes);
      const std::size_t known = failed.wrong_tiles.size();
      const std::uint64_t bad = core::compare_output(
          got, inputs_.reference.at(k), buffer.tiles, poisons.of(outputs[k], poison),
          result.outputs[k], buffer.shape, &failed.wrong_tiles);
      for (std::size_t i = known; i < failed.wrong_tiles.size(); ++i) {
        failed.wrong_tiles[i].output = static_cast<std::uint32_t>(k);
      }
      failed.bad_elements += bad;
      if (bad != 0) failed.bad_outputs.push_back(static_cast<std::uint32_t>(k));
      hash = core::combine_output_hash(hash, core::output_hash(got, inputs_.reference.at(k)));
      capture.outputs.push_back(std::move(got));
    }
    if (std::find(hashes_.begin(), hashes_.end(), hash) == hashes_.end()) hashes_.push_back(hash);
    core::add_output_hash(result.output_hashes, input_seed, hash);
    failed.changed_inputs = check_inputs(plan, result);
  } else {
    // Whatever the kernel did before it broke down must not reach the next trial.
    inputs_.valid = false;
    ++result.abnormal;
    if (result.status == core::ExecutionStatus::completed) {
      result.status = report.status;
      result.message = report.message;
      result.details = report.details;
    }
  }
  if (failed.raced) ++result.raced;
  if (failed.bad_elements != 0) ++result.wrong_values;
  if (report.status == core::ExecutionStatus::completed && !failed.raced &&
      failed.bad_elements == 0 && !failed.changed_inputs)
    return;
  ++result.failed;
  if (result.first_failed_trial == ~std::uint64_t{0}) result.first_failed_trial = trial;
  if (failed.bad_elements != 0 && result.captures.size() < request.capture_limit)
    result.captures.push_back(std::move(capture));
  core::add_failure(result, std::move(failed));
}

core::TrialResult TrialRunner::run(const core::TrialPlan& plan, const core::TrialRequest& request) {
  core::TrialResult result;
  for (const std::uint32_t index : plan.output_indices())
    result.outputs.push_back(core::make_output_totals(plan.buffers[index]));
  if (std::string why = not_modelled(request.perturbation); !why.empty()) {
    result.skipped = true;
    result.note = std::move(why);
    return result;
  }
  if (request.perturbation.offset_bytes % 16 != 0) {
    throw core::UsageError("offset_bytes=" + std::to_string(request.perturbation.offset_bytes) +
                           ": addresses can move by multiples of 16 bytes");
  }
  const auto begin = std::chrono::steady_clock::now();
  const BufferGuard guard(backend_, buffers_);
  const OffsetGuard offset(device_, request.perturbation.offset_bytes);
  for (const core::BufferSpec& buffer : plan.buffers) {
    try {
      buffers_.push_back(backend_.allocate(buffer.name, buffer.bytes()));
    } catch (const std::bad_alloc&) {
      throw core::EnvironmentError("out of memory: buffer '" + buffer.name + "' of " +
                                   plan.problem.line() + " takes " +
                                   std::to_string(buffer.bytes()) +
                                   " bytes of simulated device memory; take a smaller problem");
    }
  }
  inputs_ = InputSet{};
  hashes_.clear();
  const core::Program program = plan.program(1);
  const core::StopScope scope(request.stop);
  for (std::uint64_t k = 0; k < request.count; ++k) {
    if (request.stop != nullptr && request.stop->load()) break;
    // What was finished before an exception is kept: it may hold the failure that matters.
    try {
      run_one(plan, request, program, request.first_trial + k, result);
    } catch (const core::Stopped&) {
      break;  // in the middle of a trial, which does not count
    } catch (const core::UnsupportedError& error) {
      result.status = core::ExecutionStatus::unsupported;
      result.message = error.what();
    } catch (const std::bad_alloc&) {
      result.status = core::ExecutionStatus::error;
      result.message = "out of memory in a trial of " + plan.problem.line() +
                       " (inputs, references and simulated device memory): take a smaller problem";
    } catch (const std::exception& error) {
      result.status = core::ExecutionStatus::error;
      result.message = error.what();
    }
    // After a timeout the other trials would take as long.
    if (result.status == core::ExecutionStatus::unsupported ||
        result.status == core::ExecutionStatus::out_of_time ||
        result.status == core::ExecutionStatus::error ||
        result.status == core::ExecutionStatus::timeout)
      break;
    if (request.progress) request.progress(result.trials, result.failed);
  }
  if (!request.perturbation.fresh_inputs && !hashes_.empty()) {
    result.input_sets = 1;
    result.distinct_outputs = hashes_.size();
  }
  result.elapsed_ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count());
  return result;
}

}  // namespace faultline::simulator
