// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/cuda/baselines.hpp>
#include <faultline/cuda/cuda_backend.hpp>

#include "runtime.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faultline::cuda {
namespace {

TEST(NoDevice, MessageSaysWhatIsMissing) {
  using testing::AllOf, testing::HasSubstr, testing::Not;
  // What the runtime reports on a machine without a driver.
  EXPECT_THAT(no_device_message(cudaErrorInsufficientDriver, 0, 0, 13000),
              AllOf(HasSubstr("no NVIDIA driver was found"), HasSubstr("--backend simulator"),
                    Not(HasSubstr("insufficient"))));
  EXPECT_THAT(no_device_message(cudaErrorInsufficientDriver, 0, 12020, 13000),
              AllOf(HasSubstr("supports CUDA 12.2"), HasSubstr("runtime of CUDA 13.0")));
  EXPECT_THAT(no_device_message(cudaErrorNoDevice, 0, 13000, 13000),
              HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(no_device_message(cudaSuccess, 0, 13000, 13000), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(no_device_message(cudaErrorUnknown, 0, 13000, 12080),
              AllOf(HasSubstr("cudaErrorUnknown"), HasSubstr("12.8")));
}

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

/// What is left of a process whose kernel hangs: every use of the device is refused at once, and
/// the end of the process waits for nothing.
void abandon_and_exit() {
  alarm(20);
  std::atexit([] { pause(); });  // as a runtime that waits for the kernel
  abandon_device();
  const auto refused = [](auto&& use) {
    try {
      use();
      return false;
    } catch (const core::EnvironmentError& error) {
      return std::string(error.what()).find("a kernel hangs on the device") != std::string::npos;
    }
  };
  const bool all = refused([] { make_cuda_backend(); }) && refused([] { Stream(); }) &&
                   refused([] { DeviceMemory(16, "a test"); });
  std::cout << (all ? "all refused" : "something was not refused");  // is flushed all the same
  std::exit(all ? 3 : 1);
}

TEST(NoDevice, BehindAHangNothingWaitsForTheDevice) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(abandon_and_exit(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace faultline::cuda
