// SPDX-License-Identifier: Apache-2.0
// What needs a device. The figures behind it, and a check of every comparator path:
// bench/cuda/cuda_smoke.cpp.
#include <faultline/core/errors.hpp>
#include <faultline/cuda/cuda_backend.hpp>
#include <faultline/kernels/subject.hpp>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace faultline::cuda
