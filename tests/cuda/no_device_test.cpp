// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/cuda/baselines.hpp>
#include <faultline/cuda/cuda_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faultline::cuda {
namespace {

TEST(NoDevice, ProbeAndFactoryAgree) {
  const CudaProbe probe = probe_cuda();
  EXPECT_TRUE(probe.built_with_toolkit);
  EXPECT_FALSE(probe.runtime_version.empty());
  if (probe.usable) {
    EXPECT_NO_THROW(make_cuda_backend());
    return;
  }
  EXPECT_FALSE(probe.why_not.empty());
  try {
    make_cuda_backend();
    FAIL() << "a backend was made although the probe says: " << probe.why_not;
  } catch (const core::EnvironmentError& error) {
    EXPECT_EQ(error.what(), probe.why_not);
    EXPECT_EQ(error.code(), core::ExitCode::error);
    if (probe.devices.empty()) {
      EXPECT_THAT(probe.why_not, testing::StartsWith("no CUDA device: "));
    }
  }
}

}  // namespace
}  // namespace faultline::cuda
