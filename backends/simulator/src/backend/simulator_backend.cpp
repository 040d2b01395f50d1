// SPDX-License-Identifier: Apache-2.0
#include "faultline/simulator/simulator_backend.hpp"

#include <chrono>

#include "backend/program_runner.hpp"
#include "backend/trial_runner.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::simulator {
namespace {

class SimulatorBackend final : public core::Backend {
 public:
  explicit SimulatorBackend(const SimulatorSettings& settings)
      : settings_(settings), programs_(device_) {
    info_.name = "simulator";
    info_.device = "PTX simulator (model of sm_90a)";
    info_.is_model = true;
  }

  const core::BackendInfo& info() const override { return info_; }

  core::BufferHandle allocate(const std::string& name, std::size_t bytes) override {
    return {device_.allocate(name, bytes), bytes};
  }
  void release(core::BufferHandle buffer) override { device_.release(buffer.id); }
  void upload(core::BufferHandle buffer, std::span<const std::byte> bytes) override {
    require_size(buffer, bytes.size(), "upload");
    device_.write(buffer.id, bytes);
  }
  void download(core::BufferHandle buffer, std::span<std::byte> bytes) override {
    require_size(buffer, bytes.size(), "download");
    device_.read(buffer.id, bytes);
  }
  void fill(core::BufferHandle buffer, std::uint32_t word) override {
    device_.fill(buffer.id, buffer.bytes, word);
  }

  core::ExecutionReport execute(const core::Program& program,
                                std::span<const core::BufferHandle> bindings,
                                const core::Perturbation& perturbation, std::uint64_t schedule_seed,
                                core::RaceMode race) override {
    const auto begin = std::chrono::steady_clock::now();
    RunSettings run;
    run.policy = perturbation.policy;
    run.lateness = perturbation.lateness;
    run.seed = schedule_seed;
    run.race = race;
    run.access_statistics = true;
    run.step_budget = settings_.step_budget;
    run.pct_depth = settings_.pct_depth;
    run.timeout_s = settings_.timeout_s;
    core::ExecutionReport report = programs_.run(program, bindings, run);
    report.elapsed_ns =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::steady_clock::now() - begin)
                                       .count());
    return report;
  }

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    return TrialRunner(*this, device_, programs_, settings_).run(plan, request);
  }

  Timing time_program(const core::TrialPlan&, const TimingRequest&) override {
    throw core::UnsupportedError("the simulator has no time: timings need a GPU (--backend cuda)");
  }

 private:
  static void require_size(core::BufferHandle buffer, std::size_t bytes, const char* what) {
    if (bytes <= buffer.bytes) return;
    throw core::UsageError(std::string("simulator: ") + what + " of " + std::to_string(bytes) +
                           " bytes into a buffer of " + std::to_string(buffer.bytes));
  }

  SimulatorSettings settings_;
  core::BackendInfo info_;
  Device device_;
  ProgramRunner programs_;
};

}  // namespace

std::unique_ptr<core::Backend> make_simulator_backend(const SimulatorSettings& settings) {
  return std::make_unique<SimulatorBackend>(settings);
}

}  // namespace faultline::simulator
