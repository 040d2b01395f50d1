// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

using core::ExecutionStatus;

namespace {

std::atomic<bool> g_device_abandoned{false};

std::string describe(cudaError_t error, const std::string& what) {
  return fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

ExecutionStatus status_of(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return ExecutionStatus::completed;
  case cudaErrorIllegalAddress:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorIllegalInstruction:
  case cudaErrorInvalidPc:
  case cudaErrorHardwareStackError:
  case cudaErrorLaunchFailure:
  case cudaErrorAssert: return ExecutionStatus::fault;
  case cudaErrorLaunchTimeout: return ExecutionStatus::timeout;
  case cudaErrorNoKernelImageForDevice:
  case cudaErrorInvalidPtx:
  case cudaErrorUnsupportedPtxVersion:
  case cudaErrorJitCompilerNotFound:
  case cudaErrorStreamCaptureUnsupported: return ExecutionStatus::unsupported;
  default: return ExecutionStatus::error;
  }
}

bool is_sticky(cudaError_t error) {
  const ExecutionStatus status = status_of(error);
  return status == ExecutionStatus::fault || status == ExecutionStatus::timeout ||
         error == cudaErrorECCUncorrectable || error == cudaErrorDevicesUnavailable;
}

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // errors that are not sticky must not surface in a later call
  if (is_sticky(error)) {
    throw ExecutionFailure(status_of(error), true, describe(error, what));
  }
  throw core::EnvironmentError(describe(error, what));
}

void check_execution(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) {
    return;
  }
  cudaGetLastError();
  throw ExecutionFailure(status_of(error), is_sticky(error), describe(error, what));
}

void abandon_device() {
  if (g_device_abandoned.exchange(true)) {
    return;
  }
  // Handlers run in the reverse order: this one comes before those of the CUDA runtime, which may
  // wait for the kernel.
  on_exit(
      [](int status, void*) {
        std::cout.flush();
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
}
bool device_abandoned() { return g_device_abandoned; }

void require_device() {
  if (device_abandoned()) {
    throw core::EnvironmentError(
        "a kernel hangs on the device, which this process can use no more");
  }
}

std::string no_device_message(cudaError_t error, int devices, int driver_version,
                              int runtime_version) {
  // Without a driver the runtime says that the driver's version is insufficient.
  if (driver_version == 0) {
    return "no CUDA device: no NVIDIA driver was found on this machine; install one, or give this "
           "container access to the GPUs, until nvidia-smi lists a device (--backend simulator "
           "needs none)";
  }
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format(
        "no CUDA device: the NVIDIA driver is too old: it supports CUDA {}, and this "
        "build has the runtime of CUDA {}; update the driver, or build with a "
        "toolkit that is no newer",
        version_text(driver_version), version_text(runtime_version));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0)) {
    return fmt::format("no CUDA device: the driver (CUDA {}) reports none; see what nvidia-smi "
                       "lists, and whether CUDA_VISIBLE_DEVICES hides it",
                       version_text(driver_version));
  }
  return fmt::format("no CUDA device: {} ({}), driver CUDA {}, runtime CUDA {}",
                     cudaGetErrorString(error), cudaGetErrorName(error),
                     version_text(driver_version), version_text(runtime_version));
}

DeviceFacts open_device() {
  require_device();
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  check(cudaDriverGetVersion(&driver), "cannot query the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "cannot query the runtime's version");
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw core::EnvironmentError(no_device_message(error, count, driver, runtime));
  }
  DeviceFacts facts;
  check(cudaSetDevice(facts.device), "cannot use CUDA device 0");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, facts.device), "cannot query CUDA device 0");
  facts.name = properties.name;
  facts.compute_major = properties.major;
  facts.compute_minor = properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  facts.shared_per_block = properties.sharedMemPerBlockOptin;
  facts.shared_per_multiprocessor = properties.sharedMemPerMultiprocessor;
  facts.shared_reserved_per_block = properties.reservedSharedMemPerBlock;
  facts.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  facts.registers_per_multiprocessor = properties.regsPerMultiprocessor;
  facts.driver = version_text(driver);
  facts.runtime = version_text(runtime);
  return facts;
}

DeviceMemory::DeviceMemory(std::size_t bytes, const std::string& what) : bytes_(bytes) {
  if (bytes != 0) {
    require_device();
    check(cudaMalloc(&data_, bytes), fmt::format("cannot allocate {} bytes for {}", bytes, what));
  }
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr && !device_abandoned()) {
    cudaFree(data_);
  }
}

Stream::Stream() {
  require_device();
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot create a stream");
}

Stream::~Stream() {
  if (stream_ != nullptr && !device_abandoned()) {
    cudaStreamDestroy(stream_);
  }
}

Event::Event(bool timing) {
  check(cudaEventCreateWithFlags(&event_, timing ? cudaEventDefault : cudaEventDisableTiming),
        "cannot create an event");
}

Event::~Event() {
  if (event_ != nullptr && !device_abandoned()) {
    cudaEventDestroy(event_);
  }
}

Graph::Graph(cudaGraph_t graph) : graph_(graph) {
  const cudaError_t error = cudaGraphInstantiate(&exec_, graph, 0);
  if (error != cudaSuccess) {
    cudaGraphDestroy(graph);  // no destructor runs after a throw from a constructor
    check_execution(error, "cannot instantiate the captured graph");
  }
}

Graph::~Graph() {
  if (device_abandoned()) {
    return;
  }
  if (exec_ != nullptr) {
    cudaGraphExecDestroy(exec_);
  }
  if (graph_ != nullptr) {
    cudaGraphDestroy(graph_);
  }
}

void wait_for(cudaStream_t stream, std::chrono::duration<double> limit) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    // Polling costs less latency than a blocking wait, and a hang stays the caller's to report.
    for (int poll = 0; poll < 64; ++poll) {
      const cudaError_t error = cudaStreamQuery(stream);
      if (error == cudaSuccess) {
        return;
      }
      if (error != cudaErrorNotReady) {
        check_execution(error, "a kernel failed while it ran");
      }
    }
    if (Clock::now() - begin > limit) {
      abandon_device();
      throw ExecutionFailure(
          ExecutionStatus::timeout, true,
          fmt::format("a kernel did not end within {} s; it cannot be stopped, so this process can "
                      "use the device no more",
                      limit.count()));
    }
  }
}

namespace {

/// Of what is in the stream in front of a copy: whoever knows a limit has waited before.
constexpr std::chrono::minutes kLongestBeforeCopy{10};

}  // namespace

void copy_to_device(void* to, std::span<const std::byte> from, cudaStream_t stream) {
  if (from.empty()) {
    return;
  }
  // A copy from or to pageable memory, and the wait for it, would block behind a hang for ever.
  wait_for(stream, kLongestBeforeCopy);
  check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream),
        "cannot copy to the device");
  check(cudaStreamSynchronize(stream), "cannot copy to the device");
}

void copy_to_host(std::span<std::byte> to, const void* from, cudaStream_t stream) {
  if (to.empty()) {
    return;
  }
  wait_for(stream, kLongestBeforeCopy);
  check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream),
        "cannot copy from the device");
  check(cudaStreamSynchronize(stream), "cannot copy from the device");
}

}  // namespace faultline::cuda
