// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <thread>

#include "device_kernels.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/launch_streams.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "module_cache.hpp"
#include "prepared_program.hpp"
#include "runtime.hpp"
#include "timing.hpp"
#include "trial_runner.hpp"

namespace faultline::cuda {

namespace {

constexpr std::chrono::duration<double> kExecutionLimit{60.0};

class CudaBackend final : public core::Backend {
 public:
  CudaBackend() : modules_(open_device()), kernels_(modules_) {
    const DeviceFacts& facts = modules_.facts();
    info_.name = "cuda";
    info_.device = facts.name;
    info_.driver = facts.driver;
    info_.runtime = facts.runtime;
    info_.multiprocessors = facts.multiprocessors;
    info_.l2_bytes = facts.l2_bytes;
  }

  const core::BackendInfo& info() const override { return info_; }

  core::BufferHandle allocate(const std::string& name, std::size_t bytes) override {
    require_alive();
    const std::uint64_t id = next_id_++;
    buffers_.emplace(id, DeviceMemory(bytes, fmt::format("buffer '{}'", name)));
    return {id, bytes};
  }

  void release(core::BufferHandle buffer) override { buffers_.erase(buffer.id); }

  void upload(core::BufferHandle buffer, std::span<const std::byte> bytes) override {
    require_alive();
    copy_to_device(memory_of(buffer, bytes.size()).data(), bytes, stream_.get());
  }

  void download(core::BufferHandle buffer, std::span<std::byte> bytes) override {
    require_alive();
    copy_to_host(bytes, memory_of(buffer, bytes.size()).data(), stream_.get());
  }

  void fill(core::BufferHandle buffer, std::uint32_t word) override {
    require_alive();
    const DeviceMemory& memory = memory_of(buffer, 0);
    kernels_.fill(memory.data(), memory.bytes(), word, stream_.get());
    wait_for(stream_.get(), kExecutionLimit);
  }

  core::ExecutionReport execute(const core::Program& program,
                                std::span<const core::BufferHandle> bindings,
                                const core::Perturbation& perturbation, std::uint64_t,
                                core::RaceMode) override {
    require_alive();
    if (perturbation.offset_bytes != 0) {
      throw core::UsageError(fmt::format(
          "offset_bytes={}: a program is executed on buffers where they were allocated; trials, "
          "which allocate their own, can move them",
          perturbation.offset_bytes));
    }
    std::vector<BoundBuffer> bound;
    for (const core::BufferHandle& handle : bindings) {
      const DeviceMemory& memory = memory_of(handle, 0);
      bound.push_back({memory.data(), memory.bytes()});
    }
    core::ExecutionReport report;
    const auto begin = std::chrono::steady_clock::now();
    try {
      if (perturbation.dirty_shared && core::launches_in_several_streams(program)) {
        throw core::UnsupportedError(core::kSeveralStreamsNotDirtied);
      }
      if (perturbation.reload_module) {
        for (const core::Operation& operation : program.operations) {
          if (const auto* launch = std::get_if<core::LaunchOperation>(&operation.what)) {
            modules_.unload(launch->module);
          }
        }
      }
      PreparedProgram prepared(
          program, bound, modules_, KernelOptions{}.carveout_percent,
          [this](std::byte* data, std::uint64_t bytes, std::uint32_t word, cudaStream_t stream) {
            kernels_.fill(data, bytes, word, stream);
          });
      if (perturbation.flush_l2) {
        flush();
      }
      const AfterLaunch after_launch = [&](cudaStream_t stream) {
        if (perturbation.sync_each) {
          wait_for(stream, kExecutionLimit);
        }
        const std::chrono::nanoseconds duration{perturbation.wait_ns};
        if (perturbation.wait == core::HostWait::sleep) {
          std::this_thread::sleep_for(duration);
        } else if (perturbation.wait == core::HostWait::spin) {
          const auto end = std::chrono::steady_clock::now() + duration;
          while (std::chrono::steady_clock::now() < end) {
          }
        }
      };
      StreamBlocker blocker;
      if (perturbation.blocker_ns > 0) {
        blocker.block = [&](cudaStream_t stream) {
          kernels_.block_stream(perturbation.blocker_ns, stream);
        };
      }
      BeforeLaunch before_launch;
      const DeviceMemory meetings(
          perturbation.dirty_shared ? prepared.launches() * sizeof(abi::SharedMeeting) : 0,
          "the counters of shared memory");
      if (meetings.bytes() > 0) {
        check(cudaMemsetAsync(meetings.data(), 0, meetings.bytes(), stream_.get()),
              "cannot clear the counters of shared memory");
        before_launch = [&](std::size_t place, cudaStream_t stream) {
          kernels_.dirty_shared({}, static_cast<std::uint32_t>(kernels_.multiprocessors()),
                                meetings.as<abi::SharedMeeting>() + place, stream);
        };
      }
      prepared.issue(stream_.get(), after_launch, blocker, before_launch);
      wait_for(stream_.get(), kExecutionLimit);
    } catch (const ExecutionFailure& failure) {
      report.status = failure.status();
      report.message = failure.what();
      lose_context(failure.context_lost(), failure.what());
    } catch (const core::UnsupportedError& unsupported) {
      report.status = core::ExecutionStatus::unsupported;
      report.message = unsupported.what();
    }
    report.elapsed_ns = static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    return report;
  }

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    if (device_abandoned()) {  // by whatever it was in this process
      lose_context(true, "a kernel hangs on the device");
    }
    if (!lost_.empty()) {
      // What broke it is on record as a failure of the trials that did; these did not run.
      core::TrialResult result;
      result.skipped = true;
      result.note = fmt::format(
          "not run: the device can be used no more in this process, because: {}", lost_);
      return result;
    }
    bool context_lost = false;
    core::TrialResult result =
        TrialRunner(plan, request, modules_, kernels_, slowed_).run(context_lost);
    if (context_lost) {
      lose_context(true, result.message);
      result.message += "; the device can be used no more in this process";
    }
    return result;
  }

  Timing time_program(const core::TrialPlan& plan, const TimingRequest& timing) override {
    require_alive();
    try {
      return time_plan(plan, timing, modules_, kernels_);
    } catch (const ExecutionFailure& failure) {
      lose_context(failure.context_lost(), failure.what());
      throw core::EnvironmentError(
          fmt::format("timing of '{}' failed: {}", plan.subject, failure.what()));
    }
  }

 private:
  void require_alive() const {
    require_device();
    if (!lost_.empty()) {
      throw core::EnvironmentError(
          fmt::format("the device can be used no more in this process, because: {}", lost_));
    }
  }

  void lose_context(bool lost, const std::string& why) {
    if (lost && lost_.empty()) {
      lost_ = why;
    }
  }

  const DeviceMemory& memory_of(core::BufferHandle handle, std::size_t bytes) const {
    const auto found = buffers_.find(handle.id);
    if (found == buffers_.end()) {
      throw core::UsageError(fmt::format("there is no device buffer {}", handle.id));
    }
    if (bytes > found->second.bytes()) {
      throw core::UsageError(fmt::format("{} bytes do not fit into device buffer {} of {} bytes",
                                         bytes, handle.id, found->second.bytes()));
    }
    return found->second;
  }

  void flush() {
    const std::size_t bytes =
        std::max<std::size_t>(std::size_t{192} << 20, 3 * modules_.facts().l2_bytes);
    const DeviceMemory memory(bytes, "the L2 flush");
    check_execution(cudaMemsetAsync(memory.data(), 0x5a, bytes, stream_.get()),
                    "the L2 flush failed");
    wait_for(stream_.get(), kExecutionLimit);
  }

  core::BackendInfo info_;
  ModuleCache modules_;
  DeviceKernels kernels_;
  Stream stream_;
  std::map<std::uint64_t, DeviceMemory> buffers_;
  std::uint64_t next_id_ = 1;
  TrialRunner::SlowedLaunches slowed_;
  std::string lost_;  // why the context is lost; empty: it is not
};

}  // namespace

std::unique_ptr<core::Backend> make_cuda_backend() {
  try {
    return std::make_unique<CudaBackend>();
  } catch (const ExecutionFailure& failure) {
    throw core::EnvironmentError(fmt::format("the CUDA device cannot be used: {}", failure.what()));
  }
}

CudaProbe probe_cuda() {
  const auto version = [](int v) {
    return v == 0 ? std::string() : fmt::format("{}.{}", v / 1000, v % 1000 / 10);
  };
  CudaProbe probe;
  probe.built_with_toolkit = true;
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  probe.runtime_version = version(runtime);
  probe.driver_version = version(driver);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    probe.why_not = no_device_message(error, count, driver, runtime);
    return probe;
  }
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, d) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    CudaDevice device;
    device.name = properties.name;
    device.compute_major = properties.major;
    device.compute_minor = properties.minor;
    device.multiprocessors = properties.multiProcessorCount;
    device.memory_bytes = properties.totalGlobalMem;
    device.l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
    probe.devices.push_back(std::move(device));
  }
  try {
    make_cuda_backend();
    probe.usable = true;
  } catch (const std::exception& failure) {
    probe.why_not = failure.what();
  }
  return probe;
}

}  // namespace faultline::cuda
