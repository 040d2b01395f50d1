// SPDX-License-Identifier: Apache-2.0
#include "backend_choice.hpp"

#include "faultline/core/errors.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "faultline/simulator/simulator_backend.hpp"

namespace faultline::app {

std::unique_ptr<core::Backend> choose_backend(const std::string& name, double timeout_s) {
  if (name == "simulator") return simulator::make_simulator_backend({.timeout_s = timeout_s});
  if (name == "cuda") return cuda::make_cuda_backend();
  if (name != "auto") {
    throw core::UsageError("unknown backend '" + name +
                           "': --backend takes auto, cuda or simulator");
  }
  return cuda::probe_cuda().usable ? cuda::make_cuda_backend()
                                   : simulator::make_simulator_backend({.timeout_s = timeout_s});
}

}  // namespace faultline::app
