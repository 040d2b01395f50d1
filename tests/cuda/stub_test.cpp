// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/cuda/baselines.hpp>
#include <faultline/cuda/cuda_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faultline::cuda {
namespace {

TEST(CudaStub, SaysThatThereIsNoToolkit) {
  const auto says_so = testing::Throws<core::EnvironmentError>(testing::Property(
      &core::EnvironmentError::what, testing::HasSubstr("built without a CUDA toolkit")));
  EXPECT_THAT([] { make_cuda_backend(); }, says_so);
  EXPECT_THAT([] { measure_bandwidth(); }, says_so);
  EXPECT_THAT([] { CublasBaseline::load(); }, says_so);
  EXPECT_FALSE(probe_cuda().usable);
  EXPECT_FALSE(probe_cuda().built_with_toolkit);
  EXPECT_THAT(probe_cuda().why_not, testing::HasSubstr("built without a CUDA toolkit"));
}

}  // namespace
}  // namespace faultline::cuda
