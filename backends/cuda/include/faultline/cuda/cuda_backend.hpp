// SPDX-License-Identifier: Apache-2.0
// The backend that runs programs on a real GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"

namespace faultline::cuda {

/// One device as the runtime describes it.
struct CudaDevice {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
};

/// What this machine can do, for `doctor`. Never throws.
struct CudaProbe {
  bool built_with_toolkit = false;
  bool usable = false;          ///< make_cuda_backend() would succeed
  std::string runtime_version;  ///< "13.0"; empty without a toolkit
  std::string
      driver_version;  ///< newest CUDA version that the driver serves; empty without a driver
  std::vector<CudaDevice> devices;
  std::string why_not;  ///< one sentence when not usable
};
CudaProbe probe_cuda();

/// The first visible device. EnvironmentError "no CUDA device: ..." where there is none, or when
/// this build has no CUDA toolkit. After a device fault (illegal address, trap) or a hang the
/// context is lost for this process: the run that met it reports it, and the backend answers every
/// later call with an error that says so.
std::unique_ptr<core::Backend> make_cuda_backend();

/// Memory bandwidth in bytes per second, medians over launches timed with events, from this device,
/// now.
struct Bandwidth {
  double read = 0.0;         ///< a kernel that only reads: the ceiling of a memory-bound reduction
  double copy = 0.0;         ///< a kernel that copies, bytes read plus bytes written
  double memcpy_copy = 0.0;  ///< cudaMemcpy device to device, likewise
  std::size_t bytes = 0;     ///< read by each launch
  unsigned samples = 0;
};
/// Takes about 4 GiB of device memory for a moment. Throws EnvironmentError.
Bandwidth measure_bandwidth(unsigned samples = 20);

}  // namespace faultline::cuda
