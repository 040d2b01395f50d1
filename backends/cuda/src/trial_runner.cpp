// SPDX-License-Identifier: Apache-2.0
#include "trial_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/stop.hpp"
#include "gate.hpp"
#include "prepare.hpp"
#include "timing.hpp"

namespace faultline::cuda {

using core::ExecutionStatus;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kAlignment = 1024;  // of every buffer, enough for any tensor map
constexpr double kGateLimit = 1e-12;        // device oracle against the host reference
constexpr std::chrono::milliseconds kCheckpointEvery{100};
constexpr std::uint64_t kFlushBytes = std::uint64_t{192} << 20;

std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

DeviceLimits limits_of(const ModuleCache& modules) {
  DeviceLimits limits;
  limits.multiprocessors = modules.facts().multiprocessors;
  limits.free_bytes = free_device_bytes();
  limits.shared_per_multiprocessor = modules.facts().shared_per_multiprocessor;
  return limits;
}

void spin_for(std::chrono::nanoseconds duration) {
  const auto end = Clock::now() + duration;
  while (Clock::now() < end) {
  }
}

}  // namespace

TrialRunner::TrialRunner(const core::TrialPlan& plan, const core::TrialRequest& request,
                         ModuleCache& modules, DeviceKernels& kernels, SlowedLaunches& slowed)
    : plan_(plan),
      request_(request),
      modules_(modules),
      kernels_(kernels),
      slowed_(slowed),
      arm_(plan_arm(plan, request, limits_of(modules))),
      inputs_(plan.input_indices()),
      outputs_(plan.output_indices()) {}

core::TrialResult TrialRunner::run(bool& context_lost) {
  result_.batch = arm_.batch;
  result_.note = arm_.note;
  if (arm_.skipped) {
    result_.skipped = true;
    return std::move(result_);
  }
  // Inputs and references that the host makes look at it, too.
  const core::StopScope scope(request_.stop);
  try {
    kernels_.set_carveout(arm_.carveout_percent);
    allocate();
    run_gate();
    if (result_.status != ExecutionStatus::completed) {
      return std::move(result_);
    }
    if (!arm_.fresh_inputs) {
      make_fixed_inputs();
    }
    warm_up();
    comparator_->reset(stream_.get());
    clear_meetings();
    wait();
    if (CoResidentKernel::wanted(request_.perturbation)) {
      if (std::string why_not = start_beside(); !why_not.empty()) {
        core::TrialResult skipped;
        skipped.skipped = true;
        skipped.batch = arm_.batch;
        skipped.note = std::move(why_not);
        return skipped;
      }
    }
    last_checkpoint_ = Clock::now();
    const auto begin = Clock::now();
    try {
      if (arm_.launches_per_graph > 0) {
        run_graphs();
      } else {
        run_launches();
      }
    } catch (const core::Stopped&) {
      // Between two launches: what was issued is finished and counted.
    }
    wait();
    result_.elapsed_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
    checkpoint(true);
    if (stress_) {
      result_.overlap_proven = stress_->overlap_proven();
      result_.held_sms = stress_->held();
      if (!result_.overlap_proven) add_note(stress_->failure());
      stress_.reset();
    }
    comparator_->collect(request_, !arm_.fresh_inputs, result_, stream_.get());
    note_meetings();
    if (!result_.changed_inputs.empty() && result_.trials > 0) fail_for_changed_inputs();
    if (result_.trials != issued_) {
      result_.status = ExecutionStatus::error;
      result_.message = fmt::format("{} trials were issued and {} were compared to the last "
                                    "element: the comparison is at fault",
                                    issued_, result_.trials);
    }
  } catch (const ExecutionFailure& failure) {
    context_lost |= failure.context_lost();
    result_.trials = last_counters_.trials;
    result_.failed = result_.wrong_values = last_counters_.failed;
    result_.status = failure.status();
    result_.message =
        fmt::format("{}; it happened after trial {} was known to be finished and before "
                    "trial {}",
                    failure.what(), request_.first_trial + last_counters_.trials,
                    request_.first_trial + issued_ + arm_.batch);
    if (failure.status() == ExecutionStatus::fault ||
        failure.status() == ExecutionStatus::timeout) {
      result_.abnormal = 1;
      ++result_.failed;
      ++result_.trials;
      core::FailedTrial failed;
      failed.trial = request_.first_trial + last_counters_.trials;
      failed.input_seed = core::trial_seed(request_.seed, arm_.fresh_inputs ? failed.trial : 0);
      failed.status = failure.status();
      result_.failures.push_back(std::move(failed));
      result_.first_failed_trial =
          std::min(result_.first_failed_trial, request_.first_trial + last_counters_.trials);
    }
  } catch (const core::Stopped&) {
    // Before the first trial.
  } catch (const core::UnsupportedError& unsupported) {
    result_.status = ExecutionStatus::unsupported;
    result_.message = unsupported.what();
  }
  return std::move(result_);
}

/// Seen in the warm-up, on the inputs of the first trial: that trial failed, whatever it gave.
void TrialRunner::fail_for_changed_inputs() {
  const std::uint64_t first = request_.first_trial;
  if (result_.first_failed_trial != first) {
    ++result_.failed;
    core::FailedTrial failed;
    failed.trial = first;
    failed.input_seed = core::trial_seed(request_.seed, arm_.fresh_inputs ? first : 0);
    failed.changed_inputs = true;
    result_.failures.insert(result_.failures.begin(), std::move(failed));
    result_.first_failed_trial = first;
  }
}

void TrialRunner::add_note(const std::string& note) {
  result_.note += (result_.note.empty() ? "" : "; ") + note;
}

void TrialRunner::wait() { wait_for(stream_.get(), limit()); }

/// What does not fit beside another kernel waits until that ends by itself, and does not hang.
std::chrono::duration<double> TrialRunner::limit() const {
  const std::chrono::duration<double> asked(request_.timeout_s);
  return stress_ ? asked + CoResidentKernel::kLimit : asked;
}

/// Starts what is to run beside the trials, unless it is certain that they would wait until it ends
/// by itself, which would prove nothing: then the reason.
std::string TrialRunner::start_beside() {
  const core::Perturbation& perturbation = request_.perturbation;
  std::uint32_t blocks = 1;
  if (perturbation.free_sms > 0) {
    const std::string key =
        fmt::format("{} {} {} [{}] {} {} {}", plan_.subject, plan_.variant, plan_.problem.line(),
                    plan_.config.line(), perturbation.free_sms, arm_.batch, perturbation.name);
    auto known = slowed_.find(key);
    if (known == slowed_.end()) {
      // Others may use the device as well: the shortest of a few counts.
      double seconds = slowed_launch();
      for (int again = 0; again < 2 && seconds > CoResidentKernel::kLongestLaunch; ++again) {
        seconds = std::min(seconds, slowed_launch());
      }
      known = slowed_.emplace(key, seconds).first;
      comparator_->reset(stream_.get());
      wait();
    }
    if (known->second > CoResidentKernel::kLongestLaunch) {
      return fmt::format("a launch may take {:.1f} s on {} of {} multiprocessors; {:.1f} s at "
                         "most, for the kernel "
                         "that holds the others ends by itself after {} s",
                         known->second, perturbation.free_sms, kernels_.multiprocessors(),
                         CoResidentKernel::kLongestLaunch, CoResidentKernel::kLimit.count());
    }
  } else {
    const core::CoResident kind = perturbation.co_resident;
    const std::uint32_t usual = CoResidentKernel::usual_blocks(kind);
    blocks = stress_blocks_beside(subject_of(sets_.front(), arm_.batch).block_needs(),
                                  kernels_.stress_needs(kind == core::CoResident::memory_stress),
                                  usual, kernels_.multiprocessor_space());
    if (blocks == 0) {
      return fmt::format("a block of the subject takes so many registers or so much shared memory "
                         "that none of the {} kernel fits beside it on a multiprocessor",
                         core::name_of(kind));
    }
    if (blocks < usual) {
      add_note(fmt::format("{} of {} blocks of the stress kernel on a multiprocessor: no more fit "
                           "beside a block of the subject",
                           blocks, usual));
    }
  }
  stress_ = std::make_unique<CoResidentKernel>(perturbation, blocks, kernels_);
  return {};
}

/// Seconds of one launch with what belongs to it on request_.perturbation.free_sms multiprocessors,
/// at most: measured on all of them.
double TrialRunner::slowed_launch() {
  InputSet& set = sets_.front();
  const abi::TrialRange range = range_of(request_.first_trial, arm_.batch);
  const auto all = static_cast<std::uint64_t>(kernels_.multiprocessors());
  const auto seconds_of = [&](const auto& work) {
    wait();
    const auto begin = Clock::now();
    work();
    wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const double around = seconds_of([&] {
    prepare(set, range, false, true);
    if (arm_.fresh_inputs && plan_.device_oracle) {
      oracle_of(set, arm_.batch).issue(stream_.get());
    }
  });
  const double subject = seconds_of(
      [&] { subject_of(set, arm_.batch).issue(stream_.get(), {}, {}, dirty_of(range)); });
  const double compared = seconds_of(
      [&] { comparator_->compare(range, set.compared, !arm_.fresh_inputs, stream_.get()); });
  const std::uint64_t blocks = traits_of(plan_.program(arm_.batch)).most_blocks;
  return subject * slow_down(blocks, all, request_.perturbation.free_sms) +
         (around + compared) * slow_down(all, all, request_.perturbation.free_sms);
}

/// A launch has been issued beside another kernel: no more may be under way than end in good time.
void TrialRunner::issued_beside() {
  if (!stress_) return;
  queue_.issued();
  if (queue_.full()) {
    wait();
    queue_.drained(std::chrono::duration<double>(Clock::now() - queued_since_).count());
  }
}

abi::TrialRange TrialRunner::range_of(std::uint64_t trial, std::uint32_t trials) const {
  abi::TrialRange range;
  range.campaign_seed = request_.seed;
  range.first = trial;
  range.batch = trials;
  range.fixed_inputs = !arm_.fresh_inputs;
  return range;
}

void TrialRunner::allocate() {
  const std::uint64_t batch = arm_.batch, offset = request_.perturbation.offset_bytes;
  std::uint64_t set_bytes = 0, shared_bytes = 0;
  for (const core::BufferSpec& buffer : plan_.buffers) {
    (buffer.role == core::BufferRole::input ? set_bytes : shared_bytes) +=
        align_up(offset + buffer.bytes() * batch);
  }
  // Fixed inputs are the same in every slot, so one trial's reference serves all.
  const std::uint64_t reference_trials = arm_.fresh_inputs ? batch : 1;
  std::uint64_t reference_set_bytes = 0;
  for (const std::uint32_t index : outputs_) {
    reference_set_bytes +=
        2 * align_up(sizeof(double) * reference_trials *
                     static_cast<std::uint64_t>(plan_.buffers[index].elements()));
  }
  const std::uint64_t reference_sets = arm_.references_per_set ? arm_.input_sets : 1;
  input_memory_ = DeviceMemory(set_bytes * arm_.input_sets, "inputs");
  output_memory_ = DeviceMemory(shared_bytes, "outputs and workspace");
  reference_memory_ = DeviceMemory(reference_set_bytes * reference_sets, "references");
  cursor_ = DeviceMemory(sizeof(std::uint64_t), "the trial counter");
  // NaN in the padding between buffers, for whoever reads beyond the end of one.
  for (const DeviceMemory* memory : {&input_memory_, &output_memory_, &reference_memory_}) {
    if (memory->bytes() > 0) {
      check(cudaMemsetAsync(memory->data(), 0xff, memory->bytes(), stream_.get()),
            "cannot fill the buffers");
    }
  }
  // faultline_advance reads it before it writes it, already in the warm-up.
  check(cudaMemsetAsync(cursor_.data(), 0, cursor_.bytes(), stream_.get()),
        "cannot clear the trial counter");
  if (request_.perturbation.flush_l2) {
    flush_memory_ = DeviceMemory(
        std::max<std::uint64_t>(kFlushBytes, 3 * modules_.facts().l2_bytes), "the L2 flush");
  }

  for (std::uint64_t s = 0; s < arm_.input_sets; ++s) {
    InputSet set;
    std::byte* input = input_memory_.data() + s * set_bytes;
    std::byte* shared = output_memory_.data();
    for (const core::BufferSpec& buffer : plan_.buffers) {
      std::byte*& next = buffer.role == core::BufferRole::input ? input : shared;
      set.buffers.push_back({next + offset, buffer.bytes() * batch});
      next += align_up(offset + buffer.bytes() * batch);
    }
    set.oracle_bindings = set.buffers;
    std::byte* reference =
        reference_memory_.data() + (arm_.references_per_set ? s : 0) * reference_set_bytes;
    for (const std::uint32_t index : outputs_) {
      const std::uint64_t bytes = sizeof(double) * reference_trials *
                                  static_cast<std::uint64_t>(plan_.buffers[index].elements());
      ComparedOutput output;
      output.data = set.buffers[index].data;
      output.expected = reinterpret_cast<const double*>(reference);
      set.oracle_bindings.push_back({reference, bytes});
      reference += align_up(bytes);
      output.bound = reinterpret_cast<const double*>(reference);
      set.oracle_bindings.push_back({reference, bytes});
      reference += align_up(bytes);
      set.compared.push_back(output);
    }
    sets_.push_back(std::move(set));
  }

  poison_ = poison_slots(plan_);
  const core::PoisonMap map(plan_.buffers);
  std::vector<core::BufferSpec> outputs;
  std::vector<core::Poison> poison;
  for (const std::uint32_t index : outputs_) {
    outputs.push_back(plan_.buffers[index]);
    poison.push_back(map.of(index, 0));
  }
  comparator_ =
      std::make_unique<Comparator>(std::move(outputs), poison, arm_.batch, request_.capture_limit,
                                   !arm_.fresh_inputs, arm_.histogram_every, kernels_);
  std::set<core::ModuleRef> modules;
  for (const core::Operation& operation : plan_.program(arm_.batch).operations) {
    if (const auto* launch = std::get_if<core::LaunchOperation>(&operation.what)) {
      modules.insert(launch->module);
    }
  }
  subject_modules_.assign(modules.begin(), modules.end());
}

PreparedProgram& TrialRunner::subject_of(InputSet& set, std::uint32_t trials) {
  auto found = set.subject.find(trials);
  if (found == set.subject.end()) {
    const FillWords fill = [this](std::byte* data, std::uint64_t bytes, std::uint32_t word,
                                  cudaStream_t stream) {
      kernels_.fill(data, bytes, word, stream);
    };
    found = set.subject
                .emplace(trials, PreparedProgram(plan_.program(trials), set.buffers, modules_,
                                                 arm_.carveout_percent, fill))
                .first;
    found->second.set_reload_wait(limit());
  }
  return found->second;
}

PreparedProgram& TrialRunner::oracle_of(InputSet& set, std::uint32_t trials) {
  auto found = set.oracle.find(trials);
  if (found == set.oracle.end()) {
    const FillWords fill = [this](std::byte* data, std::uint64_t bytes, std::uint32_t word,
                                  cudaStream_t stream) {
      kernels_.fill(data, bytes, word, stream);
    };
    found = set.oracle
                .emplace(trials, PreparedProgram(plan_.device_oracle(trials), set.oracle_bindings,
                                                 modules_, arm_.carveout_percent, fill))
                .first;
  }
  return found->second;
}

void TrialRunner::prepare(InputSet& set, const abi::TrialRange& range, bool draw, bool poison) {
  prepare_buffers(plan_, request_.data, set.buffers, range, draw,
                  poison ? std::span<const abi::PoisonSlot>(poison_)
                         : std::span<const abi::PoisonSlot>(),
                  kernels_, stream_.get());
}

std::vector<core::Tensor> TrialRunner::host_inputs(std::uint64_t trial) const {
  std::vector<core::Tensor> tensors;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const core::BufferSpec& buffer = plan_.buffers[inputs_[i]];
    core::Tensor tensor(buffer.dtype, buffer.shape);
    core::generate_input(core::input_for(request_.data, buffer),
                         core::trial_seed(request_.seed, arm_.fresh_inputs ? trial : 0), inputs_[i],
                         tensor);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// The device generator must equal the host's bit for bit, and the device oracle the host reference
/// to 1e-12.
void TrialRunner::run_gate() {
  if (!plan_.device_oracle || !plan_.reference) {
    return;
  }
  InputSet& set = sets_.front();
  const std::uint64_t samples =
      std::min<std::uint64_t>(request_.gate_samples, arm_.fresh_inputs ? request_.count : 1);
  for (std::uint64_t s = 0; s < samples; ++s) {
    const std::uint64_t trial = request_.first_trial + s;
    prepare(set, range_of(trial, 1), true, false);
    oracle_of(set, 1).issue(stream_.get());
    wait();
    const std::vector<core::Tensor> inputs = host_inputs(trial);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<std::byte> device(inputs[i].bytes.size());
      copy_to_host(device, set.buffers[inputs_[i]].data, stream_.get());
      const auto differs = std::mismatch(device.begin(), device.end(), inputs[i].bytes.begin());
      if (differs.first != device.end()) {
        result_.status = ExecutionStatus::error;
        result_.message = fmt::format(
            "input '{}' of trial {} differs between device and host generator from byte {} on",
            plan_.buffers[inputs_[i]].name, trial, differs.first - device.begin());
        return;
      }
    }
    const std::vector<core::ReferenceTensor> expected = plan_.reference(inputs);
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const std::string& name = plan_.buffers[outputs_[k]].name;
      const std::size_t count = expected[k].expected.size();
      std::vector<double> values(count), bounds(count);
      copy_to_host(std::as_writable_bytes(std::span(values)), set.compared[k].expected,
                   stream_.get());
      copy_to_host(std::as_writable_bytes(std::span(bounds)), set.compared[k].bound, stream_.get());
      const GateDifference difference =
          gate_difference(values, bounds, expected[k].expected, expected[k].bound);
      result_.gate_worst = std::max(result_.gate_worst, difference.worst);
      if (!(difference.worst <= kGateLimit)) {
        result_.status = ExecutionStatus::error;
        result_.message = fmt::format(
            "the device oracle disagrees with the host reference in {} of output '{}', element {}, "
            "trial {}: {:.17g} against {:.17g}, relative difference {:.3g} with {:.0e} allowed",
            difference.in_bound ? "the bound" : "the value", name, difference.index, trial,
            difference.in_bound ? bounds[difference.index] : values[difference.index],
            difference.in_bound ? expected[k].bound[difference.index]
                                : expected[k].expected[difference.index],
            difference.worst, kGateLimit);
        return;
      }
    }
    ++result_.gate_samples;
  }
}

/// References of `trials` trials whose inputs are in the set.
void TrialRunner::make_reference(InputSet& set, std::uint64_t trial, std::uint32_t trials) {
  if (plan_.device_oracle) {
    oracle_of(set, trials).issue(stream_.get());
  } else {
    host_reference(set, trial, trials);
  }
}

void TrialRunner::host_reference(InputSet& set, std::uint64_t trial, std::uint32_t trials) {
  wait();  // earlier comparisons still read the reference
  if (stress_) {
    stress_->checkpoint();
    queue_.cleared();
  }
  for (std::uint32_t t = 0; t < trials; ++t) {
    const std::vector<core::ReferenceTensor> reference = plan_.reference(host_inputs(trial + t));
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const auto elements = static_cast<std::size_t>(plan_.buffers[outputs_[k]].elements());
      if (reference.at(k).expected.size() != elements || reference[k].bound.size() != elements) {
        throw core::UsageError(
            fmt::format("the reference of output '{}' has {} values and {} bounds for {} elements",
                        plan_.buffers[outputs_[k]].name, reference[k].expected.size(),
                        reference[k].bound.size(), elements));
      }
      std::byte* expected = set.oracle_bindings[plan_.buffers.size() + 2 * k].data;
      std::byte* bound = set.oracle_bindings[plan_.buffers.size() + 2 * k + 1].data;
      const std::size_t offset = t * elements * sizeof(double);
      copy_to_device(expected + offset, std::as_bytes(std::span(reference[k].expected)),
                     stream_.get());
      copy_to_device(bound + offset, std::as_bytes(std::span(reference[k].bound)), stream_.get());
    }
  }
  // The host took its time, in which no trial ran.
  if (stress_) {
    stress_->renew();
  }
}

void TrialRunner::make_fixed_inputs() {
  for (InputSet& set : sets_) {
    prepare(set, range_of(request_.first_trial, arm_.batch), true, false);
  }
  make_reference(sets_.front(), request_.first_trial, 1);
  wait();
}

/// One launch that does not count, and all programs bound. Code is loaded when it first runs, which
/// may wait for everything on the device: that must not happen beside a stress kernel or inside a
/// capture.
void TrialRunner::warm_up() {
  for (InputSet& set : sets_) {
    subject_of(set, arm_.batch);
    if (arm_.fresh_inputs && plan_.device_oracle) {
      oracle_of(set, arm_.batch);
    }
  }
  InputSet& set = sets_.front();
  // Fixed inputs are in place; fresh ones are drawn, also where the host makes the reference.
  prepare(set, range_of(request_.first_trial, arm_.batch), arm_.fresh_inputs, true);
  if (arm_.fresh_inputs && plan_.device_oracle) {
    oracle_of(set, arm_.batch).issue(stream_.get());
  }
  const std::vector<std::uint64_t> laid = hash_inputs(set);
  if (request_.perturbation.dirty_shared) {
    meetings_ = DeviceMemory(subject_of(set, arm_.batch).launches() * sizeof(abi::SharedMeeting),
                             "the counters of shared memory");
    clear_meetings();
  }
  subject_of(set, arm_.batch)
      .issue(stream_.get(), {}, {}, dirty_of(range_of(request_.first_trial, arm_.batch)));
  wait();  // what follows would block behind a hang
  check_inputs(set, laid);
  comparator_->reset(stream_.get());
  comparator_->compare(range_of(request_.first_trial, arm_.batch), set.compared, !arm_.fresh_inputs,
                       stream_.get());
  kernels_.advance(cursor_.as<std::uint64_t>(), 0, stream_.get());
  wait();
}

/// A hash of each input of the set's first trial as it lies on the device.
std::vector<std::uint64_t> TrialRunner::hash_inputs(const InputSet& set) {
  std::vector<std::uint64_t> hashes(inputs_.size(), 0);
  if (inputs_.empty()) return hashes;
  wait();
  const DeviceMemory sums(inputs_.size() * sizeof(std::uint64_t), "hashes of the inputs");
  check(cudaMemsetAsync(sums.data(), 0, sums.bytes(), stream_.get()), "cannot clear the hashes");
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    kernels_.hash(set.buffers[inputs_[i]].data, plan_.buffers[inputs_[i]].bytes(),
                  sums.as<std::uint64_t>() + i, stream_.get());
  }
  copy_to_host(std::as_writable_bytes(std::span(hashes)), sums.data(), stream_.get());
  return hashes;
}

/// Did the launch of the warm-up write to its inputs? What was laid there is drawn again.
void TrialRunner::check_inputs(InputSet& set, const std::vector<std::uint64_t>& laid) {
  ++result_.inputs_checked;
  const std::vector<std::uint64_t> now = hash_inputs(set);
  if (now == laid) return;
  const std::vector<core::Tensor> drawn = host_inputs(request_.first_trial);
  for (std::size_t i = 0; i < laid.size(); ++i) {
    if (now[i] == laid[i]) continue;
    std::vector<std::byte> bytes(drawn[i].bytes.size());
    copy_to_host(bytes, set.buffers[inputs_[i]].data, stream_.get());
    core::add_changed_input(result_, plan_.buffers[inputs_[i]], drawn[i].bytes, bytes);
  }
  prepare(set, range_of(request_.first_trial, arm_.batch), true, false);
}

/// Fresh inputs and references for one round over the pool, before any of its trials. False when
/// the run was stopped meanwhile: references from the host take their time.
bool TrialRunner::refill_pool(std::uint64_t trial, std::uint64_t trials_left) {
  for (InputSet& set : sets_) {
    if (trials_left == 0) {
      break;
    }
    if (stop_requested()) {
      return false;
    }
    const auto trials =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(arm_.batch, trials_left));
    prepare(set, range_of(trial, trials), true, false);
    make_reference(set, trial, trials);
    if (stress_) {
      wait();
      stress_->checkpoint();
      queue_.cleared();
    }
    trial += trials;
    trials_left -= trials;
  }
  return true;
}

bool TrialRunner::stop_requested() const {
  return request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed);
}

void TrialRunner::host_wait() {
  const std::chrono::nanoseconds duration{request_.perturbation.wait_ns};
  switch (request_.perturbation.wait) {
  case core::HostWait::none: break;
  case core::HostWait::spin: spin_for(duration); break;
  case core::HostWait::sleep: std::this_thread::sleep_for(duration); break;
  }
}

/// Which streams are held depends on the trial alone, so that it is the same when it is replayed.
/// In a graph, whose trials count themselves, on its place there.
StreamBlocker TrialRunner::blocker_of(const abi::TrialRange& range, bool capturing) {
  if (request_.perturbation.blocker_ns == 0) {
    return {};
  }
  if (!unblocked_ && !capturing) {
    unblocked_ = std::make_unique<Event>();
  }
  return {.block =
              [this, capturing](cudaStream_t stream) {
                kernels_.block_stream(request_.perturbation.blocker_ns, stream);
                if (!capturing) {
                  check_execution(cudaEventRecord(unblocked_->get(), stream),
                                  "cannot record an event");
                }
              },
          .choice = range.first};
}

/// Fills shared memory in front of each launch that uses some.
BeforeLaunch TrialRunner::dirty_of(const abi::TrialRange& range) {
  const core::Perturbation& perturbation = request_.perturbation;
  if (!perturbation.dirty_shared) return {};
  const std::uint32_t multiprocessors =
      perturbation.free_sms > 0 ? perturbation.free_sms
                                : static_cast<std::uint32_t>(kernels_.multiprocessors());
  return [=, this](std::size_t place, cudaStream_t stream) {
    const std::size_t places = meetings_.bytes() / sizeof(abi::SharedMeeting);
    kernels_.dirty_shared(range, multiprocessors,
                          meetings_.as<abi::SharedMeeting>() + place % places, stream);
  };
}

void TrialRunner::clear_meetings() {
  if (meetings_.bytes() == 0) return;
  check(cudaMemsetAsync(meetings_.data(), 0, meetings_.bytes(), stream_.get()),
        "cannot clear the counters of shared memory");
}

/// Where blocks did not meet, some shared memory may have been left as it was: nothing is proven.
void TrialRunner::note_meetings() {
  if (!request_.perturbation.dirty_shared) return;
  if (subject_of(sets_.front(), arm_.batch).launches_with_shared_memory() == 0) {
    return add_note("no launch uses shared memory: there was none to dirty");
  }
  std::vector<abi::SharedMeeting> meetings(meetings_.bytes() / sizeof(abi::SharedMeeting));
  copy_to_host(std::as_writable_bytes(std::span(meetings)), meetings_.data(), stream_.get());
  std::uint64_t met = 0, missed = 0;
  for (const abi::SharedMeeting& meeting : meetings) {
    met += meeting.met;
    missed += meeting.missed;
  }
  if (missed == 0 && (met > 0 || issued_ == 0)) return;
  result_.overlap_proven = false;
  add_note(fmt::format("in {} launches that dirtied shared memory all blocks met; {} blocks did "
                       "not see all the others hold theirs: some of it may have been left as it "
                       "was",
                       met, missed));
}

void TrialRunner::reload_modules() {
  wait();
  for (InputSet& set : sets_) {
    set.subject.clear();
  }
  for (const core::ModuleRef& module : subject_modules_) {
    modules_.unload(module);
  }
  // A device oracle in the subject's module is gone with it.
  for (InputSet& set : sets_) {
    set.oracle.clear();
  }
}

/// Everything of one launch: inputs, poison, reference, the subject, the comparison. The reference
/// is made before the subject runs, so that a subject that writes its inputs cannot bend it.
void TrialRunner::issue_launch(std::uint64_t launch_index, const abi::TrialRange& range,
                               bool capturing) {
  InputSet& set = sets_[launch_index % sets_.size()];
  const core::Perturbation& perturbation = request_.perturbation;
  prepare(set, range, arm_.oracle_per_launch, true);
  if (arm_.oracle_per_launch) {
    make_reference(set, range.first, range.batch);
  }
  if (perturbation.flush_l2) {
    check_execution(cudaMemsetAsync(flush_memory_.data(), static_cast<int>(flushes_++ & 0xff),
                                    flush_memory_.bytes(), stream_.get()),
                    "the L2 flush failed");
  }
  AfterLaunch after_launch;
  if (!capturing) {
    host_wait();
    if (perturbation.sync_each) {
      after_launch = [this](cudaStream_t stream) { wait_for(stream, limit()); };
    }
  }
  subject_of(set, range.batch)
      .issue(stream_.get(), after_launch, blocker_of(range, capturing), dirty_of(range));
  if (unblocked_ && !capturing) {
    const cudaError_t state = cudaEventQuery(unblocked_->get());
    if (state != cudaSuccess && state != cudaErrorNotReady) {
      check_execution(state, "a trial failed behind its blocker");
    }
    ++result_.ran_ahead_of;
    result_.ran_ahead += state == cudaErrorNotReady;
  }
  comparator_->compare(range, set.compared, !arm_.fresh_inputs, stream_.get());
}

/// Progress and stop flag about every 100 ms. True when the arm should end.
bool TrialRunner::checkpoint(bool force) {
  const bool stopped = stop_requested();
  const auto now = Clock::now();
  if (!force && !stopped && now - last_checkpoint_ < kCheckpointEvery) {
    return false;
  }
  wait();
  last_counters_ = comparator_->counters(stream_.get());
  if (stress_) {
    queue_.cleared();
    stress_->checkpoint();
  }
  if (request_.progress) {
    request_.progress(last_counters_.trials, last_counters_.failed);
  }
  last_checkpoint_ = Clock::now();
  return stopped || (stress_ && !stress_->overlap_proven());
}

void TrialRunner::run_launches() {
  for (std::uint64_t index = 0; index < arm_.launches; ++index) {
    const std::uint64_t left = request_.count - issued_;
    const auto trials = static_cast<std::uint32_t>(std::min<std::uint64_t>(arm_.batch, left));
    const std::uint64_t trial = request_.first_trial + issued_;
    if (arm_.references_per_set && index % sets_.size() == 0 && !refill_pool(trial, left)) {
      return;
    }
    if (request_.perturbation.reload_module) {
      reload_modules();
    }
    if (queue_.empty()) {
      queued_since_ = Clock::now();
    }
    issue_launch(index, range_of(trial, trials), false);
    issued_ += trials;
    issued_beside();
    if (checkpoint(false)) {
      return;
    }
  }
}

TrialRunner::CapturedLaunches TrialRunner::capture(std::uint64_t first_set,
                                                   std::uint32_t launches) {
  // Programs are bound outside the capture: loading a module inside one would end it.
  for (std::uint32_t i = 0; i < launches; ++i) {
    InputSet& set = sets_[(first_set + i) % sets_.size()];
    subject_of(set, arm_.batch);
    if (arm_.oracle_per_launch) {
      oracle_of(set, arm_.batch);
    }
  }
  CapturedLaunches captured;
  captured.trials = std::uint64_t{launches} * arm_.batch;
  check_execution(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
                  "cannot begin a capture");
  cudaGraph_t graph = nullptr;
  try {
    for (std::uint32_t i = 0; i < launches; ++i) {
      abi::TrialRange range = range_of(std::uint64_t{i} * arm_.batch, arm_.batch);
      range.cursor = cursor_.as<std::uint64_t>();
      issue_launch(first_set + i, range, true);
    }
    kernels_.advance(cursor_.as<std::uint64_t>(), captured.trials, stream_.get());
  } catch (...) {
    cudaStreamEndCapture(stream_.get(), &graph);  // the stream must not stay in capture
    if (graph != nullptr) {
      cudaGraphDestroy(graph);
    }
    throw;
  }
  check_execution(cudaStreamEndCapture(stream_.get(), &graph), "cannot end a capture");
  captured.graph = Graph(graph);
  return captured;
}

void TrialRunner::run_graphs() {
  // A graph holds the launches over one window of the pool, so that replays rotate over all of it.
  std::map<std::pair<std::uint64_t, std::uint32_t>, CapturedLaunches> graphs;
  std::uint64_t next_trial = request_.first_trial;
  copy_to_device(cursor_.data(), std::as_bytes(std::span(&next_trial, 1)), stream_.get());
  std::uint64_t index = 0;
  while (index < arm_.launches) {
    const std::uint64_t left = request_.count - issued_;
    const std::uint64_t first_set = index % sets_.size();
    if (arm_.references_per_set && first_set == 0 &&
        !refill_pool(request_.first_trial + issued_, left)) {
      return;
    }
    const std::uint64_t whole = left / arm_.batch;
    if (whole == 0) {  // the last, smaller launch is issued as it is
      issue_launch(
          index, range_of(request_.first_trial + issued_, static_cast<std::uint32_t>(left)), false);
      issued_ += left;
      return;
    }
    std::uint64_t launches = std::min<std::uint64_t>(arm_.launches_per_graph, whole);
    if (sets_.size() > 1) {
      launches = std::min<std::uint64_t>(launches, sets_.size() - first_set);
    }
    if (request_.perturbation.reload_module) {
      wait();
      graphs.clear();  // before the code that they refer to goes
      reload_modules();
    }
    const auto key =
        std::pair(first_set * (sets_.size() > 1), static_cast<std::uint32_t>(launches));
    auto found = graphs.find(key);
    if (found == graphs.end()) {
      found = graphs.emplace(key, capture(first_set, static_cast<std::uint32_t>(launches))).first;
    }
    host_wait();
    if (queue_.empty()) {
      queued_since_ = Clock::now();
    }
    check_execution(cudaGraphLaunch(found->second.graph.exec(), stream_.get()),
                    "cannot replay the trials' graph");
    issued_ += found->second.trials;
    index += launches;
    issued_beside();
    if (request_.perturbation.sync_each) {
      wait();
    }
    if (checkpoint(false)) {
      return;
    }
  }
}

}  // namespace faultline::cuda
