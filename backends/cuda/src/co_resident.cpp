// SPDX-License-Identifier: Apache-2.0
#include "co_resident.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

constexpr std::uint64_t kStressWords = std::uint64_t{1} << 26;  // 1 GiB, far beyond L2
constexpr std::chrono::milliseconds kStartLimit{2000};
constexpr std::chrono::seconds kStopLimit{30};

constexpr std::size_t kSetWords = abi::kMaxMultiprocessors / 32;
constexpr std::size_t kHeldWord = 2, kFoundWord = kHeldWord + kSetWords;
constexpr std::size_t kFlagWords = kFoundWord + kSetWords;

}  // namespace

HeldMultiprocessors count_multiprocessors(std::span<const std::uint32_t> held,
                                          std::span<const std::uint32_t> found) {
  HeldMultiprocessors count;
  for (std::size_t i = 0; i < std::min(held.size(), found.size()); ++i) {
    count.held += static_cast<std::uint32_t>(std::popcount(held[i]));
    count.free += static_cast<std::uint32_t>(std::popcount(found[i]));
    count.shared += static_cast<std::uint32_t>(std::popcount(held[i] & found[i]));
  }
  return count;
}

std::string why_not_held(const HeldMultiprocessors& count, std::uint32_t wanted) {
  if (count.held != wanted || count.shared != 0) {
    return fmt::format("{} multiprocessors were to be held and {} were, of which {} took other "
                       "blocks as well",
                       wanted, count.held, count.shared);
  }
  if (count.free == 0) {
    return fmt::format("{} multiprocessors were held, and no block was seen on the others", wanted);
  }
  return {};
}

CoResidentKernel::CoResidentKernel(const core::Perturbation& perturbation, std::uint32_t blocks,
                                   DeviceKernels& kernels)
    : perturbation_(perturbation),
      blocks_(blocks),
      kernels_(kernels),
      buffer_(perturbation.co_resident == core::CoResident::memory_stress ? kStressWords * 16 : 256,
              "the stress kernel"),
      flags_(kFlagWords * sizeof(std::uint32_t), "the stress kernel's flags") {
  check(cudaMemsetAsync(buffer_.data(), 1, buffer_.bytes(), stream_.get()),
        "cannot fill the stress kernel's buffer");
  start();
}

CoResidentKernel::~CoResidentKernel() {
  try {
    stop();
  } catch (const std::exception&) {
    // The device is lost; whoever drove the trials has reported it.
  }
}

std::uint32_t CoResidentKernel::blocks_to_hold() const {
  const auto all = static_cast<std::uint32_t>(kernels_.multiprocessors());
  return all > perturbation_.free_sms ? all - perturbation_.free_sms : 0;
}

void CoResidentKernel::start() {
  auto* stop_flag = flags_.as<std::uint32_t>();
  std::uint32_t* started = stop_flag + 1;
  check(cudaMemsetAsync(flags_.data(), 0, flags_.bytes(), stream_.get()),
        "cannot reset the stress kernel's flags");
  const auto limit_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(kLimit).count());
  auto wanted = static_cast<std::uint32_t>(kernels_.multiprocessors());
  if (perturbation_.free_sms > 0) {
    wanted = blocks_to_hold();
    kernels_.hold_multiprocessors(wanted, stop_flag, started, stop_flag + kHeldWord, limit_ns,
                                  stream_.get());
  } else if (perturbation_.co_resident == core::CoResident::memory_stress) {
    kernels_.stress_memory(blocks_, buffer_.data(), kStressWords, stop_flag, started, limit_ns,
                           stream_.get());
  } else {
    kernels_.stress_compute(buffer_.data(), stop_flag, started, limit_ns, stream_.get());
  }
  running_ = true;
  started_at_ = Clock::now();
  std::uint32_t blocks = 0;
  while (blocks < wanted) {
    copy_to_host(std::as_writable_bytes(std::span(&blocks, 1)), started, control_.get());
    const auto waited = Clock::now() - started_at_;
    // Not every block may fit beside what else is there. Those that hold multiprocessors do: they
    // come as soon as this process has the device.
    if (blocks > 0 && waited > (perturbation_.free_sms > 0 ? kStartLimit : kStartLimit / 4)) {
      break;
    }
    if (waited > kStartLimit) {
      stop();
      throw core::EnvironmentError(
          fmt::format("the stress kernel did not start within {} ms", kStartLimit.count()));
    }
  }
  if (perturbation_.free_sms > 0) count_held();
}

/// Blocks of another kernel must find no place where one is held.
void CoResidentKernel::count_held() {
  auto* sets = flags_.as<std::uint32_t>();
  kernels_.find_multiprocessors(sets + kFoundWord, control_.get());
  std::array<std::uint32_t, kFlagWords> words{};
  copy_to_host(std::as_writable_bytes(std::span(words)), flags_.data(), control_.get());
  const auto all = std::span<const std::uint32_t>(words);
  const HeldMultiprocessors count =
      count_multiprocessors(all.subspan(kHeldWord, kSetWords), all.subspan(kFoundWord, kSetWords));
  held_ = std::min<std::uint64_t>(held_.value_or(count.held), count.held);
  if (failure_.empty()) failure_ = why_not_held(count, blocks_to_hold());
}

void CoResidentKernel::stop() {
  if (!running_ || device_abandoned()) {
    return;
  }
  running_ = false;
  const std::uint32_t one = 1;
  copy_to_device(flags_.data(), std::as_bytes(std::span(&one, 1)), control_.get());
  wait_for(stream_.get(), kStopLimit);
}

void CoResidentKernel::checkpoint() {
  const cudaError_t state = cudaStreamQuery(stream_.get());
  const auto age = std::chrono::duration<double>(Clock::now() - started_at_).count();
  if (state == cudaSuccess) {
    if (failure_.empty()) {
      failure_ = fmt::format("overlap not proven: the {} kernel had ended by itself after {:.1f} s "
                             "when the trials were done, so they may have waited for it "
                             "(shared-memory carve-out, or no room beside it)",
                             perturbation_.free_sms > 0 ? "holding" : "stress", age);
    }
    start();
    return;
  }
  if (state != cudaErrorNotReady) {
    check_execution(state, "the stress kernel failed");
  }
  renew();
}

void CoResidentKernel::renew() {
  if (Clock::now() - started_at_ > kRestartAfter) {
    stop();
    start();
  }
}

}  // namespace faultline::cuda
