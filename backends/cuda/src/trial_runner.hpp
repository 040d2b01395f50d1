// SPDX-License-Identifier: Apache-2.0
// One arm: many trials of a plan under one perturbation.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arm_plan.hpp"
#include "co_resident.hpp"
#include "comparator.hpp"
#include "device_kernels.hpp"
#include "faultline/core/trial.hpp"
#include "prepared_program.hpp"

namespace faultline::cuda {

class TrialRunner {
 public:
  /// What a launch was found to take at most with fewer multiprocessors, by plan and arm: kept over
  /// the blocks of an arm, so that one decision holds for all of them.
  using SlowedLaunches = std::map<std::string, double>;

  TrialRunner(const core::TrialPlan& plan, const core::TrialRequest& request, ModuleCache& modules,
              DeviceKernels& kernels, SlowedLaunches& slowed);

  /// Runs the arm. What kernels did wrong is in the result; ExecutionFailure never escapes. Sets
  /// `context_lost` when the device can be used no more in this process.
  core::TrialResult run(bool& context_lost);

 private:
  /// Inputs of `batch` trials, where their references go, and the programs bound to them.
  struct InputSet {
    std::vector<BoundBuffer> buffers;          // all of the plan's, in order
    std::vector<BoundBuffer> oracle_bindings;  // buffers, then expected and bound of each output
    std::vector<ComparedOutput> compared;
    std::map<std::uint32_t, PreparedProgram> subject, oracle;  // by trials in the launch
  };
  struct CapturedLaunches {
    Graph graph;
    std::uint64_t trials = 0;
  };

  void allocate();
  void run_gate();
  void make_fixed_inputs();
  void warm_up();
  std::vector<std::uint64_t> hash_inputs(const InputSet& set);
  void check_inputs(InputSet& set, const std::vector<std::uint64_t>& laid);
  void fail_for_changed_inputs();
  bool refill_pool(std::uint64_t trial, std::uint64_t trials_left);
  bool stop_requested() const;
  void make_reference(InputSet& set, std::uint64_t trial, std::uint32_t trials);
  void host_reference(InputSet& set, std::uint64_t trial, std::uint32_t trials);
  void prepare(InputSet& set, const abi::TrialRange& range, bool draw, bool poison);
  void issue_launch(std::uint64_t launch_index, const abi::TrialRange& range, bool capturing);
  CapturedLaunches capture(std::uint64_t first_set, std::uint32_t launches);
  void run_launches();
  void run_graphs();
  StreamBlocker blocker_of(const abi::TrialRange& range, bool capturing);
  BeforeLaunch dirty_of(const abi::TrialRange& range);
  void clear_meetings();
  void note_meetings();
  void add_note(const std::string& note);
  void host_wait();
  void reload_modules();
  bool checkpoint(bool force);
  abi::TrialRange range_of(std::uint64_t trial, std::uint32_t trials) const;
  PreparedProgram& subject_of(InputSet& set, std::uint32_t trials);
  PreparedProgram& oracle_of(InputSet& set, std::uint32_t trials);
  std::vector<core::Tensor> host_inputs(std::uint64_t trial) const;
  void wait();
  std::chrono::duration<double> limit() const;
  std::string start_beside();
  double slowed_launch();
  void issued_beside();

  const core::TrialPlan& plan_;
  const core::TrialRequest& request_;
  ModuleCache& modules_;
  DeviceKernels& kernels_;
  SlowedLaunches& slowed_;
  ArmPlan arm_;
  std::vector<std::uint32_t> inputs_, outputs_;  // indices into plan_.buffers
  std::vector<abi::PoisonSlot> poison_;          // by buffer

  Stream stream_;
  DeviceMemory input_memory_, output_memory_, reference_memory_, flush_memory_, cursor_;
  DeviceMemory meetings_;  // an abi::SharedMeeting of each launch
  std::vector<InputSet> sets_;
  std::unique_ptr<Comparator> comparator_;
  std::unique_ptr<CoResidentKernel> stress_;
  LaunchQueue queue_;  // of launches beside it
  std::chrono::steady_clock::time_point queued_since_{};
  std::unique_ptr<Event> unblocked_;  // behind the last blocker
  std::vector<core::ModuleRef> subject_modules_;

  core::TrialResult result_;
  std::uint64_t issued_ = 0;  // trials
  std::uint64_t flushes_ = 0;
  abi::Counters last_counters_{};
  std::chrono::steady_clock::time_point last_checkpoint_{};
};

}  // namespace faultline::cuda
