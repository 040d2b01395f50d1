// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime with errors as exceptions and resources as values.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "faultline/core/errors.hpp"
#include "faultline/core/execution.hpp"

namespace faultline::cuda {

/// An execution that did not complete: what ExecutionReport and TrialResult say about it.
class ExecutionFailure : public core::EnvironmentError {
 public:
  ExecutionFailure(core::ExecutionStatus status, bool context_lost, const std::string& message)
      : core::EnvironmentError(message), status_(status), context_lost_(context_lost) {}
  core::ExecutionStatus status() const { return status_; }
  /// The device context is unusable for the rest of this process.
  bool context_lost() const { return context_lost_; }

 private:
  core::ExecutionStatus status_;
  bool context_lost_;
};

/// Device faults are what a kernel did wrong; everything else is the environment's.
core::ExecutionStatus status_of(cudaError_t error);
/// Errors after which every later call of the process fails.
bool is_sticky(cudaError_t error);

/// EnvironmentError "<what>: <error text> (<name>)" unless success.
void check(cudaError_t error, const std::string& what);
/// The same while kernels run: throws ExecutionFailure.
void check_execution(cudaError_t error, const std::string& what);

/// Set once a kernel hung: freeing device memory would wait for it for ever, so nothing is freed
/// any more, and the end of the process does not wait for the device either.
void abandon_device();
bool device_abandoned();
/// EnvironmentError once the device has been abandoned.
void require_device();

struct DeviceFacts {
  int device = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_per_block = 0;  ///< with opt-in
  std::size_t shared_per_multiprocessor = 0;
  std::size_t shared_reserved_per_block = 0;
  int threads_per_multiprocessor = 0, registers_per_multiprocessor = 0;
  std::string driver, runtime;
};
/// "no CUDA device: " and why, with what to do about it. `error` and `devices` are what
/// cudaGetDeviceCount() gave; the versions are 1000 major + 10 minor, the driver's 0 without one.
std::string no_device_message(cudaError_t error, int devices, int driver_version,
                              int runtime_version);
/// Makes device 0 current. EnvironmentError with no_device_message() where there is none.
DeviceFacts open_device();

/// Owned device memory.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// EnvironmentError names `what` and the size when there is too little memory.
  DeviceMemory(std::size_t bytes, const std::string& what);
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A non-blocking stream.
class Stream {
 public:
  Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(bool timing = false);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An instantiated graph together with the graph it came from.
class Graph {
 public:
  Graph() = default;
  explicit Graph(cudaGraph_t graph);  ///< takes ownership, instantiates
  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Graph();
  cudaGraphExec_t exec() const { return exec_; }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

/// Waits for everything in the stream. ExecutionFailure `fault` for what kernels did wrong,
/// `timeout` when nothing ends for `limit`: the context is lost then, since a running kernel cannot
/// be stopped.
void wait_for(cudaStream_t stream, std::chrono::duration<double> limit);

/// Copies through `stream` and waits.
void copy_to_device(void* to, std::span<const std::byte> from, cudaStream_t stream);
void copy_to_host(std::span<std::byte> to, const void* from, cudaStream_t stream);

}  // namespace faultline::cuda
