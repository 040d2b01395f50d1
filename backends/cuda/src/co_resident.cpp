// SPDX-License-Identifier: Apache-2.0
#include "co_resident.hpp"

#include <fmt/format.h>

#include <array>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

constexpr std::uint64_t kStressWords = std::uint64_t{1} << 26;  // 1 GiB, far beyond L2
constexpr std::chrono::seconds kLimit{8};  // the kernel ends by itself after this
constexpr std::chrono::seconds kRestartAfter{
    3};  // well before, so that ending by itself means waiting
constexpr std::chrono::seconds kStartLimit{2};
constexpr std::chrono::seconds kStopLimit{30};

}  // namespace

CoResidentStress::CoResidentStress(core::CoResident kind, DeviceKernels& kernels)
    : kind_(kind),
      kernels_(kernels),
      buffer_(kind == core::CoResident::memory_stress ? kStressWords * 16 : 256,
              "the stress kernel"),
      flags_(256, "the stress kernel's flags") {
  check(cudaMemsetAsync(buffer_.data(), 1, buffer_.bytes(), stream_.get()),
        "cannot fill the stress kernel's buffer");
  start();
}

CoResidentStress::~CoResidentStress() {
  try {
    stop();
  } catch (const std::exception&) {
    // The device is lost; whoever drove the trials has reported it.
  }
}

void CoResidentStress::start() {
  auto* stop_flag = flags_.as<std::uint32_t>();
  std::uint32_t* started = stop_flag + 1;
  check(cudaMemsetAsync(flags_.data(), 0, flags_.bytes(), stream_.get()),
        "cannot reset the stress kernel's flags");
  const auto limit_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(kLimit).count());
  if (kind_ == core::CoResident::memory_stress) {
    kernels_.stress_memory(buffer_.data(), kStressWords, stop_flag, started, limit_ns,
                           stream_.get());
  } else {
    kernels_.stress_compute(buffer_.data(), stop_flag, started, limit_ns, stream_.get());
  }
  running_ = true;
  started_at_ = Clock::now();
  std::uint32_t blocks = 0;
  const auto wanted = static_cast<std::uint32_t>(kernels_.multiprocessors());
  while (blocks < wanted) {
    copy_to_host(std::as_writable_bytes(std::span(&blocks, 1)), started, control_.get());
    const auto waited = Clock::now() - started_at_;
    if (blocks > 0 && waited > kStartLimit / 4) {
      break;  // not every block fits beside what else is there; those that do run
    }
    if (waited > kStartLimit) {
      stop();
      throw core::EnvironmentError(
          fmt::format("the stress kernel did not start within {} s", kStartLimit.count()));
    }
  }
}

void CoResidentStress::stop() {
  if (!running_ || device_abandoned()) {
    return;
  }
  running_ = false;
  const std::uint32_t one = 1;
  copy_to_device(flags_.data(), std::as_bytes(std::span(&one, 1)), control_.get());
  wait_for(stream_.get(), kStopLimit);
}

void CoResidentStress::checkpoint() {
  const cudaError_t state = cudaStreamQuery(stream_.get());
  const auto age = std::chrono::duration<double>(Clock::now() - started_at_).count();
  if (state == cudaSuccess) {
    if (failure_.empty()) {
      failure_ = fmt::format("overlap not proven: the stress kernel had ended by itself after "
                             "{:.1f} s when the trials "
                             "were done, so they may have waited for it (shared-memory carve-out, "
                             "or no room beside it)",
                             age);
    }
    start();
    return;
  }
  if (state != cudaErrorNotReady) {
    check_execution(state, "the stress kernel failed");
  }
  if (age > std::chrono::duration<double>(kRestartAfter).count()) {
    stop();
    start();
  }
}

}  // namespace faultline::cuda
