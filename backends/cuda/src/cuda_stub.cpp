// SPDX-License-Identifier: Apache-2.0
// What a build without a CUDA toolkit has in place of the backend.
#include "faultline/core/errors.hpp"
#include "faultline/cuda/baselines.hpp"
#include "faultline/cuda/cuda_backend.hpp"

namespace faultline::cuda {

namespace {

constexpr const char* kReason =
    "faultline was built without a CUDA toolkit, so it cannot use a GPU; configure again with "
    "nvcc on the PATH, or use --backend simulator";

}  // namespace

CudaProbe probe_cuda() {
  CudaProbe probe;
  probe.why_not = kReason;
  return probe;
}

std::unique_ptr<core::Backend> make_cuda_backend() { throw core::EnvironmentError(kReason); }

Bandwidth measure_bandwidth(unsigned) { throw core::EnvironmentError(kReason); }

std::unique_ptr<CublasBaseline> CublasBaseline::load() { throw core::EnvironmentError(kReason); }

}  // namespace faultline::cuda
