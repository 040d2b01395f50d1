// SPDX-License-Identifier: Apache-2.0
// Many trials of one plan on the simulator.
#pragma once

#include "backend/program_runner.hpp"
#include "faultline/simulator/simulator_backend.hpp"

namespace faultline::simulator {

// Inputs, poison, run, compare on the host against the Eigen reference: trial by trial.
class TrialRunner {
 public:
  TrialRunner(core::Backend& backend, Device& device, ProgramRunner& programs,
              const SimulatorSettings& settings)
      : backend_(backend), device_(device), programs_(programs), settings_(settings) {}

  core::TrialResult run(const core::TrialPlan& plan, const core::TrialRequest& request);

 private:
  struct InputSet {
    std::uint64_t seed = 0;
    bool valid = false;
    std::vector<core::Tensor> tensors;
    std::vector<core::ReferenceTensor> reference;
  };
  void prepare_inputs(const core::TrialPlan& plan, const core::TrialRequest& request,
                      std::uint64_t seed);
  // Whether the kernel wrote to an input; what was laid there is restored.
  bool check_inputs(const core::TrialPlan& plan, core::TrialResult& result);
  void run_one(const core::TrialPlan& plan, const core::TrialRequest& request,
               const core::Program& program, std::uint64_t trial, core::TrialResult& result);

  core::Backend& backend_;
  Device& device_;
  ProgramRunner& programs_;
  const SimulatorSettings& settings_;
  std::vector<core::BufferHandle> buffers_;
  InputSet inputs_;
  std::vector<std::byte> laid_;
  std::vector<std::uint64_t> hashes_;  // distinct outputs of the one input set
};

}  // namespace faultline::simulator
