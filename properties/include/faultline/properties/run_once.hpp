// SPDX-License-Identifier: Apache-2.0
// A subject as a function: chosen inputs in, outputs out. Metamorphic properties are written with
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::properties {

struct ExecutionOptions {
  core::Perturbation perturbation{};
  std::uint64_t schedule_seed = 1;
  core::RaceMode race = core::RaceMode::off;
  std::uint64_t poison = 0;  ///< poison_word() of this number is laid over outputs and workspaces
};

/// The buffers of one plan on a backend, for several executions over the same ones.
class LoadedPlan {
 public:
  /// Allocates every buffer and uploads `inputs` (inputs only, in buffer order). UsageError when
  /// they do not fit the plan. The backend and the plan must outlive this.
  LoadedPlan(core::Backend& backend, const core::TrialPlan& plan,
             const std::vector<core::Tensor>& inputs);
  ~LoadedPlan();
  LoadedPlan(const LoadedPlan&) = delete;
  LoadedPlan& operator=(const LoadedPlan&) = delete;

  /// Poison the outputs, run the plan's program on one trial, download the outputs. Throws
  /// UnsupportedError or EnvironmentError with the backend's message when it did not complete, and
  /// when a race that is no note was reported.
  std::vector<core::Tensor> execute(const ExecutionOptions& options = {});

  /// The inputs as they are on the backend now.
  std::vector<core::Tensor> inputs() const;

 private:
  std::vector<core::Tensor> download(core::BufferRole role) const;

  core::Backend& backend_;
  const core::TrialPlan& plan_;
  std::vector<core::BufferHandle> handles_;
};

/// Load, execute once, free.
std::vector<core::Tensor> run_once(core::Backend& backend, const core::TrialPlan& plan,
                                   const std::vector<core::Tensor>& inputs,
                                   const ExecutionOptions& options = {});

/// The inputs of a plan under a data mode, as trials draw them.
std::vector<core::Tensor> draw_inputs(const core::TrialPlan& plan, core::DataMode data,
                                      std::uint64_t seed);

}  // namespace faultline::properties
