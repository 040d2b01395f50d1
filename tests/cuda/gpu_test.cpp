// SPDX-License-Identifier: Apache-2.0
// What needs a device. The figures behind it, and a check of every comparator path:
// bench/cuda/cuda_smoke.cpp.
#include <faultline/core/errors.hpp>
#include <faultline/core/poison.hpp>
#include <faultline/cuda/cuda_backend.hpp>
#include <faultline/kernels/subject.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace faultline::cuda {
namespace {

class CudaBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernels::register_builtin_subjects(registry()); }

  void SetUp() override {
    try {
      backend_ = make_cuda_backend();
    } catch (const core::EnvironmentError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static kernels::SubjectRegistry& registry() {
    static kernels::SubjectRegistry subjects;
    return subjects;
  }

  core::TrialResult run(const char* subject, const char* problem,
                        const core::TrialRequest& request) {
    const auto resolved =
        kernels::resolve(registry(), subject, core::parse_assignments(problem), {});
    return backend_->run_trials(resolved.plan, request);
  }

  std::unique_ptr<core::Backend> backend_;
};

constexpr const char* kDecode = "b=2 h=4 dk=64 dv=64 dtype=bf16";

TEST_F(CudaBackendTest, CleanKernelIsCleanAndEveryElementIsCompared) {
  core::TrialRequest request;
  request.count = 1000;
  request.perturbation.fresh_inputs = true;
  const core::TrialResult r = run("gla_decode", kDecode, request);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.trials, 1000u);
  EXPECT_EQ(r.failed, 0u);
  EXPECT_EQ(r.outputs.at(0).compared_elements, 1000u * 8 * 64);
  EXPECT_EQ(r.outputs.at(1).compared_elements, 1000u * 8 * 64 * 64);
  EXPECT_LE(r.gate_worst, 1e-12);
  EXPECT_EQ(r.gate_samples, 1u);
}

TEST_F(CudaBackendTest, SharedBufferIsFoundInAColdPoolAndCaptured) {
  core::TrialRequest request;
  request.count = 2000;
  request.perturbation.pool_bytes = std::uint64_t{512} << 20;
  const core::TrialResult r = run("gla_decode@shared_buffer", kDecode, request);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_GT(r.failed, 0u);
  EXPECT_FALSE(r.captures.empty());
}

TEST_F(CudaBackendTest, GraphAndBatchGiveTheSameTrialsAsALoop) {
  std::vector<double> worst;
  for (const int arm : {0, 1, 2}) {
    core::TrialRequest request;
    request.count = 777;
    request.seed = 5;
    request.perturbation.fresh_inputs = true;
    request.perturbation.graph_trials = arm == 1 ? 100 : 0;
    request.perturbation.batch = arm == 2 ? 32 : 1;
    const core::TrialResult r = run("gla_decode", kDecode, request);
    EXPECT_EQ(r.trials, 777u) << r.message;
    worst.push_back(r.outputs.at(1).worst_error);
  }
  // The worst element over the same inputs: arms that skipped or repeated a trial would differ.
  EXPECT_EQ(worst[0], worst[1]);
  EXPECT_EQ(worst[0], worst[2]);
}

TEST_F(CudaBackendTest, ZeroTrialsAreRefused) {
  core::TrialRequest request;
  request.count = 0;
  EXPECT_THROW(run("gla_decode", kDecode, request), core::UsageError);
}

/// Two outputs that no kernel writes: `y`, cut raggedly, and `z`, a copy of the workspace `w`.
core::TrialPlan unwritten_plan(core::Dtype dtype) {
  core::TrialPlan plan;
  plan.subject = "unwritten";
  plan.max_batch = 4;
  const auto add = [&](const char* name, core::BufferRole role, core::Shape shape,
                       core::TileGeometry tiles) {
    core::BufferSpec spec;
    spec.name = name;
    spec.dtype = dtype;
    spec.role = role;
    spec.shape = std::move(shape);
    spec.tiles = std::move(tiles);
    plan.buffers.push_back(std::move(spec));
  };
  add("y", core::BufferRole::output, {130, 70},
      {.rows = 130, .cols = 70, .tile_rows = 16, .tile_cols = 32});
  add("w", core::BufferRole::workspace, {3001}, {});
  add("z", core::BufferRole::output, {3001}, {.rows = 3001, .tile_rows = 1000});
  plan.program = [bytes = plan.buffers[1].bytes()](std::uint32_t batch) {
    core::Program program;
    program.name = "unwritten";
    program.add(core::CopyOperation{{2, 0}, {1, 0}, bytes * batch});
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>&) {
    return std::vector<core::ReferenceTensor>{
        {std::vector<double>(9100, 0.0), std::vector<double>(9100, 1.0)},
        {std::vector<double>(3001, 0.0), std::vector<double>(3001, 1.0)}};
  };
  return plan;
}

TEST_F(CudaBackendTest, PoisonIsThatOfTheMapBitForBit) {
  for (const core::Dtype dtype :
       {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32, core::Dtype::f64}) {
    const core::TrialPlan plan = unwritten_plan(dtype);
    const core::PoisonMap map(plan.buffers);
    for (const auto& [batch, offset] : {std::pair(1u, 0u), {4u, 0u}, {1u, 16u}}) {
      core::TrialRequest request;
      request.count = 12;
      request.first_trial = 5;
      request.perturbation.batch = batch;
      request.perturbation.offset_bytes = offset;
      const core::TrialResult r = backend_->run_trials(plan, request);
      ASSERT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
      ASSERT_EQ(r.captures.size(), 12u);
      for (const core::Capture& capture : r.captures) {
        const std::uint32_t word = core::poison_word(capture.trial);
        ASSERT_EQ(capture.poison, word);
        for (const auto& [output, buffer] : {std::pair<std::size_t, std::size_t>(0, 0), {1, 1}}) {
          std::vector<std::byte> laid(plan.buffers[buffer].bytes());
          map.lay(buffer, word, laid);
          EXPECT_EQ(capture.outputs.at(output).bytes, laid)
              << core::name_of(dtype) << " batch " << batch << " trial " << capture.trial << " "
              << plan.buffers[buffer].name;
        }
      }
      // What was not written is named as that; what was copied from elsewhere is not.
      EXPECT_EQ(r.outputs.at(0).poison, 12u * 9100);
      EXPECT_EQ(r.outputs.at(1).poison, 0u);
    }
  }
}

/// Sums of partials of which some are never written, in shared memory: docs/catalogue.md.
TEST_F(CudaBackendTest, UnwrittenSharedMemoryFollowsThePoisonWhereItIsDirtied) {
  for (const std::uint32_t graph : {0u, 6u}) {
    core::TrialRequest request;
    request.count = 30;
    request.capture_limit = 30;
    request.perturbation.dirty_shared = true;
    request.perturbation.graph_trials = graph;
    const core::TrialResult clean = run("block_sum@zeroed_partials", "k=100", request);
    EXPECT_EQ(clean.failed, 0u) << clean.message;
    const core::TrialResult r = run("block_sum@unset_partials", "k=100", request);
    EXPECT_EQ(r.failed, 30u) << r.message;
    EXPECT_EQ(r.note, "") << "every block met the others";
    ASSERT_EQ(r.captures.size(), 30u);
    for (const core::Capture& capture : r.captures) {
      const double y = capture.outputs.at(0).at(0);
      const bool finite = capture.trial % 3 == 1;
      EXPECT_EQ(std::isfinite(y), finite) << capture.trial << ": " << y;
    }
  }
}

TEST_F(CudaBackendTest, BuffersBeginBehindTheirBoundaries) {
  core::TrialRequest request;
  request.count = 20;
  request.perturbation.offset_bytes = 16;
  request.perturbation.pool_bytes = std::uint64_t{32} << 20;
  const core::TrialResult r = run("gla_decode@scalar", kDecode, request);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.failed, 0u);
  EXPECT_EQ(r.trials, 20u);
}

}  // namespace
}  // namespace faultline::cuda
