// SPDX-License-Identifier: Apache-2.0
// Modules loaded on the device, and tensor maps. Everything goes through the runtime, so that
// nothing is linked against the driver and the program starts where there is none.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "arguments.hpp"
#include "arm_plan.hpp"
#include "faultline/core/module.hpp"
#include "runtime.hpp"

namespace faultline::cuda {

inline constexpr int kDefaultCarveout = -1;  ///< cudaSharedmemCarveoutDefault

/// What a launch needs of its kernel beyond the handle.
struct KernelOptions {
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t cluster_blocks = 1;
  /// Equal for everything that is to share a multiprocessor; kDefaultCarveout leaves it to CUDA,
  /// as a program that only launches the kernel does.
  int carveout_percent = 50;
};

class ModuleCache {
 public:
  explicit ModuleCache(DeviceFacts facts) : facts_(std::move(facts)) {}
  ModuleCache(const ModuleCache&) = delete;
  ~ModuleCache();

  /// Loads the module when it is not loaded: the cubin on the architecture it is for, else the PTX.
  /// UnsupportedError when neither fits this device; EnvironmentError when the entry does not
  /// exist.
  cudaKernel_t kernel(const core::ModuleRef& module, const std::string& entry,
                      const KernelOptions& options);
  /// Forgets a module; kernels got from it are dead. Nothing may be running.
  void unload(const core::ModuleRef& module);

  const DeviceFacts& facts() const { return facts_; }

 private:
  struct Kernel {
    cudaKernel_t handle = nullptr;
    std::size_t static_shared_bytes = 0;
    std::uint32_t dynamic_shared_limit = 0;  // granted so far; never lowered again
  };
  struct Loaded {
    core::ModuleRef module;  // keeps the key alive
    cudaLibrary_t library = nullptr;
    std::map<std::string, Kernel, std::less<>> kernels;
  };
  Loaded& load(const core::ModuleRef& module);

  DeviceFacts facts_;
  std::map<const core::Module*, Loaded> loaded_;
};

/// What a block of so many threads and so much dynamic shared memory takes.
BlockNeeds needs_of(cudaKernel_t kernel, std::uint32_t threads, std::uint64_t dynamic_shared_bytes);

/// Encodes with the driver's own cuTensorMapEncodeTiled. UnsupportedError when the driver has none;
/// UsageError with the values when it refuses the map.
void encode_tensor_map(const core::TensorMapArgument& argument, std::byte* base, std::byte* map);

}  // namespace faultline::cuda
