// SPDX-License-Identifier: Apache-2.0
// A subject and a backend that need neither a device nor PTX: y = 2 x, 64 rows in 4 tiles that are
// said to pass through 2 pipeline buffers. The backend calls a host function as the "kernel", which
// a test may let go wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline::test {

inline constexpr std::int64_t kRows = 64, kCols = 8, kTileRows = 16, kTiles = kRows / kTileRows;

/// y for these inputs; `output` arrives full of poison.
using ToyKernel = std::function<void(const core::TrialRequest& request, std::uint64_t trial,
                                     const core::Tensor& x, core::Tensor& y)>;

inline void right(const core::TrialRequest&, std::uint64_t, const core::Tensor& x,
                  core::Tensor& y) {
  for (std::int64_t i = 0; i < x.size(); ++i) y.set(i, 2 * x.at(i));
}

/// Tile `destination` gets what tile `source` should have got.
inline void move_tile(const core::Tensor& x, core::Tensor& y, std::int64_t destination,
                      std::int64_t source) {
  for (std::int64_t i = 0; i < kTileRows * kCols; ++i) {
    y.set(destination * kTileRows * kCols + i, 2 * x.at(source * kTileRows * kCols + i));
  }
}

inline core::TrialPlan toy_plan(const core::Problem& problem, const std::string& variant,
                                const core::Config& config) {
  core::TrialPlan plan;
  plan.subject = "toy";
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.max_batch = 1024;
  plan.buffers.resize(2);
  plan.buffers[0].name = "x";
  plan.buffers[0].shape = {kRows, kCols};
  plan.buffers[0].pooled = true;
  plan.buffers[1].name = "y";
  plan.buffers[1].shape = {kRows, kCols};
  plan.buffers[1].role = core::BufferRole::output;
  plan.buffers[1].tiles = {.rows = kRows,
                           .cols = kCols,
                           .tile_rows = kTileRows,
                           .tile_cols = kCols,
                           .tiles_per_group = kTiles,
                           .pipeline_depth = 2,
                           .tile_axis = "16 rows"};
  plan.program = [](std::uint32_t) {
    auto module = std::make_shared<core::Module>();
    module->hash = "0123456789abcdef";
    core::Program program;
    core::LaunchOperation launch;
    launch.module = module;
    program.add(launch);
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    core::ReferenceTensor y;
    y.expected = inputs.at(0).to_doubles();
    for (double& value : y.expected) value *= 2;
    y.bound.assign(y.expected.size(), 1e-6);
    return std::vector{y};
  };
  plan.hypotheses = [](const std::vector<core::Tensor>& inputs) {
    std::vector<core::TileHypothesis> all;
    for (std::int64_t destination = 0; destination < kTiles; ++destination) {
      for (std::int64_t source = 0; source < kTiles; ++source) {
        if (source == destination) continue;
        core::Tensor y(core::Dtype::f32, {kRows, kCols});
        right({}, 0, inputs.at(0), y);
        move_tile(inputs.at(0), y, destination, source);
        all.push_back({0, destination, source, y.to_doubles()});
      }
    }
    return all;
  };
  return plan;
}

/// Problem "n=..", config "stages=1..3".
inline kernels::Subject toy_subject() {
  kernels::Subject subject;
  subject.name = "toy";
  subject.description = "y = 2 x";
  core::ParameterSpec n;
  n.name = "n";
  n.minimum = 1;
  n.maximum = 100000;
  n.default_value = "64";
  subject.problem_domain = {{n}};
  core::ParameterSpec stages;
  stages.name = "stages";
  stages.minimum = 1;
  stages.maximum = 3;
  stages.default_value = "1";
  subject.config_domain = [stages](const std::string&) { return core::Domain{{stages}}; };
  subject.configs = [](const core::Problem&, const std::string&) {
    std::vector<core::Config> all;
    for (std::int64_t s = 1; s <= 3; ++s) {
      core::Config config;
      config.set("stages", s);
      all.push_back(config);
    }
    return all;
  };
  subject.verify_problems = [](bool) {
    core::Problem problem{"toy", {}};
    problem.values.set("n", "64");
    return std::vector{problem};
  };
  kernels::Variant clean;
  clean.name = "clean";
  clean.description = "y = 2 x";
  subject.variants = {clean};
  subject.numeric_plan = [](const core::Problem&) { return std::vector<kernels::RoundingPoint>{}; };
  subject.plan = toy_plan;
  subject.lengths = [](const core::Problem& problem, const std::string&, const core::Config&) {
    return kernels::TileLengths{.tile_k = 16, .reduction = problem.values.integer("n")};
  };
  subject.traffic_bytes = [](const core::Problem&) { return 0.0; };
  return subject;
}

class ToyBackend : public core::Backend {
 public:
  explicit ToyBackend(bool model, ToyKernel kernel = right) : kernel_(std::move(kernel)) {
    info_.name = model ? "simulator" : "cuda";
    info_.device = model ? "toy model" : "toy device";
    info_.is_model = model;
  }

  /// Called before each request; may throw, or change the result that comes back.
  std::function<void(const core::TrialRequest&)> before;
  std::function<void(const core::TrialRequest&, core::TrialResult&)> after;
  std::vector<core::TrialRequest> requests;
  std::vector<core::Program> programs;  ///< of each request, for one trial

  const core::BackendInfo& info() const override { return info_; }
  core::BufferHandle allocate(const std::string&, std::size_t) override { return {}; }
  void release(core::BufferHandle) override {}
  void upload(core::BufferHandle, std::span<const std::byte>) override {}
  void download(core::BufferHandle, std::span<std::byte>) override {}
  void fill(core::BufferHandle, std::uint32_t) override {}
  core::ExecutionReport execute(const core::Program&, std::span<const core::BufferHandle>,
                                const core::Perturbation&, std::uint64_t, core::RaceMode) override {
    return {};
  }
  Timing time_program(const core::TrialPlan&, const TimingRequest&) override { return {}; }

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    requests.push_back(request);
    if (plan.program) programs.push_back(plan.program(1));
    if (before) before(request);
    core::TrialResult result;
    const core::BufferSpec& spec = plan.buffers[1];
    result.outputs = {core::make_output_totals(spec)};
    std::set<std::pair<std::uint64_t, std::uint64_t>> distinct;
    std::set<std::uint64_t> inputs_seen;
    for (std::uint64_t i = 0; i < request.count; ++i) {
      if (request.stop && request.stop->load()) break;
      const std::uint64_t trial = request.first_trial + i;
      const std::uint64_t seed =
          core::trial_seed(request.seed, request.perturbation.fresh_inputs ? trial : 0);
      const std::vector<core::Tensor> inputs = stress::make_inputs(plan, request.data, seed);
      const std::uint32_t word = core::poison_word(trial);
      const core::PoisonMap poisons(plan.buffers);
      core::Tensor y(spec.dtype, spec.shape);
      poisons.lay(1, word, y.bytes);
      kernel_(request, trial, inputs[0], y);
      const std::uint64_t bad = core::compare_output(y, plan.reference(inputs)[0], spec.tiles,
                                                     poisons.of(1, word), result.outputs[0]);
      ++result.trials;
      inputs_seen.insert(seed);
      distinct.insert({seed, core::output_hash(y)});
      core::add_output_hash(result.output_hashes, seed, core::output_hash(y));
      if (bad > 0) {
        ++result.failed;
        ++result.wrong_values;
        result.first_failed_trial = std::min(result.first_failed_trial, trial);
        core::FailedTrial failure;
        failure.trial = trial;
        failure.input_seed = seed;
        failure.bad_elements = bad;
        failure.bad_outputs = {0};
        result.failures.push_back(failure);
        if (result.captures.size() < request.capture_limit) {
          result.captures.push_back({trial, seed, word, {y}});
        }
      }
      if (request.progress) request.progress(i + 1, result.failed);
    }
    result.input_sets = inputs_seen.size();
    result.distinct_outputs = distinct.size();
    if (after) after(request, result);
    return result;
  }

 private:
  core::BackendInfo info_;
  ToyKernel kernel_;
};

inline kernels::ResolvedTrial toy_trial(const kernels::Subject& subject) {
  kernels::ResolvedTrial trial;
  trial.subject = &subject;
  trial.variant = &subject.variants.front();
  trial.problem = subject.verify_problems(true).front();
  trial.config = subject.configs(trial.problem, "clean").front();
  trial.plan = subject.plan(trial.problem, "clean", trial.config);
  return trial;
}

}  // namespace faultline::test
