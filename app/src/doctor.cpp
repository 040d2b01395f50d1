// SPDX-License-Identifier: Apache-2.0
// `faultline doctor`: what will and will not run here, and why.
#include <fmt/format.h>

#include "commands.hpp"
#include "faultline/app/version.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/cuda/baselines.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "layout.hpp"

namespace faultline::app {

int doctor_command(const Context& context) {
  const auto line = [width = columns(context.options)](const char* what, const std::string& state,
                                                       const std::string& detail = "") {
    fmt::print("{}\n", wrapped(fmt::format("  {:<14}  {}{}{}", what, state,
                                           detail.empty() ? "" : ": ", detail),
                               width));
  };
  fmt::print("faultline {}\n", kVersion);
  const cuda::CudaProbe probe = cuda::probe_cuda();
  line("simulator", "ready", "runs PTX for sm_90a on this machine's processor");
  line("toolkit", probe.built_with_toolkit ? "built in" : "absent",
       probe.built_with_toolkit
           ? "CUDA runtime " + probe.runtime_version
           : "this build had no CUDA toolkit; install one, or NVIDIA's nvcc wheels "
             "in a virtual environment, and configure again");
  line("driver", probe.driver_version.empty() ? "absent" : "CUDA " + probe.driver_version);
  for (const auto& device : probe.devices) {
    line("device", device.name,
         fmt::format("compute capability {}.{}, {} multiprocessors, {:.0f} GiB, L2 {} MiB",
                     device.compute_major, device.compute_minor, device.multiprocessors,
                     static_cast<double>(device.memory_bytes) / (1 << 30), device.l2_bytes >> 20));
  }
  line("cuda backend", probe.usable ? "ready" : "will not run", probe.why_not);
  if (probe.usable) {
    try {
      line("cuBLAS", "ready", cuda::CublasBaseline::load()->version());
    } catch (const core::Error& error) {
      line("cuBLAS", "absent", error.what());
    }
  } else {
    line("cuBLAS", "not looked for", "it serves gemv on a GPU only");
  }
  std::string names;
  for (const auto& subject : context.registry.all())
    names += (names.empty() ? "" : ", ") + subject->name;
  line("subjects", names.empty() ? "none" : names,
       names.empty() ? "they need nvcc when faultline is built" : "");
  line("--backend auto",
       probe.usable ? "takes the GPU" : "takes the simulator (a model: it says so in each report)");
  return 0;
}

}  // namespace faultline::app
