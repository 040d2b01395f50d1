// SPDX-License-Identifier: Apache-2.0
// The seam between faultline and what executes kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "faultline/core/trial.hpp"

namespace faultline::core {

/// Who ran it. Goes into every report.
struct BackendInfo {
  std::string name{};    ///< "cuda" or "simulator"
  std::string device{};  ///< "NVIDIA H200" or "PTX simulator (model of sm_90a)"
  std::string driver{};  ///< versions; empty on the simulator
  std::string runtime{};
  int multiprocessors = 0;  ///< 0 on the simulator
  std::uint64_t l2_bytes = 0;
  bool is_model = false;  ///< the simulator says so
};

/// A device allocation owned by its backend. Move-only handle semantics by id; freed by
/// Backend::release.
struct BufferHandle {
  std::uint64_t id = 0;
  std::size_t bytes = 0;
};

/// Runs programs. Not thread-safe: one backend per thread. Errors of the environment throw
/// EnvironmentError; what kernels do wrong comes back in the report.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  virtual BufferHandle allocate(const std::string& name, std::size_t bytes) = 0;
  virtual void release(BufferHandle buffer) = 0;
  virtual void upload(BufferHandle buffer, std::span<const std::byte> bytes) = 0;
  virtual void download(BufferHandle buffer, std::span<std::byte> bytes) = 0;
  /// 32-bit pattern over the whole buffer.
  virtual void fill(BufferHandle buffer, std::uint32_t word) = 0;

  /// One execution. `bindings` are what buffer indices in the program refer to. The perturbation's
  /// schedule fields and `schedule_seed` drive the simulator; CUDA honours what applies to one
  /// execution.
  virtual ExecutionReport execute(const Program& program, std::span<const BufferHandle> bindings,
                                  const Perturbation& perturbation, std::uint64_t schedule_seed,
                                  RaceMode race) = 0;

  /// Many trials of a plan: inputs, oracle, subject, comparison. The schedule seed of trial i is
  /// mix64(trial_seed(seed, i)); its inputs use trial_seed(seed, i) with fresh inputs, else
  /// trial_seed(seed, 0).
  virtual TrialResult run_trials(const TrialPlan& plan, const TrialRequest& request) = 0;

  struct TimingRequest {
    std::uint32_t samples = 30;
    /// Inputs rotate over more memory than L2 holds; else every execution uses the same buffers.
    bool cold = true;
    /// Executions of the whole program in one timed graph, when cold rounded up to whole rounds
    /// over the inputs; 0: the backend chooses.
    std::uint32_t graph_launches = 0;
  };
  /// Nanoseconds of device time of one execution of the whole program, however many kernels it has,
  /// in each of the samples.
  struct Timing {
    std::vector<double> graph_ns;  ///< a replay over its executions; empty: cannot be captured
    std::vector<double> event_ns;  ///< one execution, issued between two events
    std::uint64_t graph_launches = 0, input_sets = 0;
  };
  /// Steady-state times of plan.program(1). Throws UnsupportedError where timing means nothing
  /// (simulator).
  virtual Timing time_program(const TrialPlan& plan, const TimingRequest& request) = 0;
};

}  // namespace faultline::core
