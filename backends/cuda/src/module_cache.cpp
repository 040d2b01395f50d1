// SPDX-License-Identifier: Apache-2.0
#include "module_cache.hpp"

#include <cuda.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

/// The cubins that faultline_kernels() embeds are for this architecture and no other.
bool is_cubin_architecture(const DeviceFacts& facts) {
  return facts.compute_major == 9 && facts.compute_minor == 0;
}

void set_attribute(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                   const std::string& what) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value), what);
}

}  // namespace

ModuleCache::~ModuleCache() {
  if (device_abandoned()) {
    return;
  }
  for (auto& [module, loaded] : loaded_) {
    cudaLibraryUnload(loaded.library);
  }
}

ModuleCache::Loaded& ModuleCache::load(const core::ModuleRef& module) {
  const auto found = loaded_.find(module.get());
  if (found != loaded_.end()) {
    return found->second;
  }
  require_device();  // loading may wait for whatever runs
  cudaLibrary_t library = nullptr;
  const auto try_load = [&](const void* code) {
    return cudaLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  cudaError_t error = cudaErrorNoKernelImageForDevice;
  const bool has_cubin = !module->cubin.empty() && is_cubin_architecture(facts_);
  if (has_cubin) {
    error = try_load(module->cubin.data());
  }
  if (error != cudaSuccess && !is_sticky(error) && !module->ptx.empty()) {
    cudaGetLastError();
    error = try_load(module->ptx.c_str());
  }
  if (error != cudaSuccess) {
    if (status_of(error) == core::ExecutionStatus::unsupported) {
      cudaGetLastError();
      throw core::UnsupportedError(fmt::format(
          "module '{}' does not load on {} (compute capability {}.{}): {}", module->name,
          facts_.name, facts_.compute_major, facts_.compute_minor, cudaGetErrorString(error)));
    }
    check(error, fmt::format("cannot load module '{}'", module->name));
  }
  return loaded_.emplace(module.get(), Loaded{module, library, {}}).first->second;
}

cudaKernel_t ModuleCache::kernel(const core::ModuleRef& module, const std::string& entry,
                                 const KernelOptions& options) {
  if (module == nullptr) {
    throw core::UsageError(fmt::format("the launch of '{}' names no module", entry));
  }
  Loaded& loaded = load(module);
  auto found = loaded.kernels.find(entry);
  if (found == loaded.kernels.end()) {
    Kernel added;
    check(cudaLibraryGetKernel(&added.handle, loaded.library, entry.c_str()),
          fmt::format("module '{}' has no kernel '{}'", module->name, entry));
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(added.handle)),
          fmt::format("cannot query kernel '{}'", entry));
    added.static_shared_bytes = attributes.sharedSizeBytes;
    found = loaded.kernels.emplace(entry, added).first;
  }
  const std::string what = fmt::format("kernel '{}'", entry);
  Kernel& entry_kernel = found->second;
  const cudaKernel_t kernel = entry_kernel.handle;
  set_attribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, options.carveout_percent,
                what + ", shared-memory carve-out");
  // A block's first 48 KiB, static and dynamic together, need no permission (CUDA C++ Programming
  // Guide, shared memory). Launches of one kernel may ask for different amounts: the largest stays.
  const std::size_t shared = entry_kernel.static_shared_bytes + options.dynamic_shared_bytes;
  if (shared > facts_.shared_per_block) {
    throw core::UnsupportedError(fmt::format(
        "{} asks for {} bytes of dynamic shared memory beside {} of static; a block on {} has {}",
        what, options.dynamic_shared_bytes, entry_kernel.static_shared_bytes, facts_.name,
        facts_.shared_per_block));
  }
  if (shared > 48 * 1024 && options.dynamic_shared_bytes > entry_kernel.dynamic_shared_limit) {
    set_attribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                  static_cast<int>(options.dynamic_shared_bytes), what + ", dynamic shared memory");
    entry_kernel.dynamic_shared_limit = options.dynamic_shared_bytes;
  }
  if (options.cluster_blocks > 8) {
    set_attribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1,
                  what + ", cluster size");
  }
  return kernel;
}

BlockNeeds needs_of(cudaKernel_t kernel, std::uint32_t threads,
                    std::uint64_t dynamic_shared_bytes) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
        "cannot query a kernel");
  return {threads, static_cast<std::uint32_t>(attributes.numRegs),
          attributes.sharedSizeBytes + dynamic_shared_bytes};
}

void ModuleCache::unload(const core::ModuleRef& module) {
  const auto found = loaded_.find(module.get());
  if (found == loaded_.end()) {
    return;
  }
  const cudaLibrary_t library = found->second.library;
  const std::string name = module->name;
  loaded_.erase(found);
  check(cudaLibraryUnload(library), fmt::format("cannot unload module '{}'", name));
}

namespace {

CUtensorMapDataType map_type(core::Dtype dtype) {
  switch (dtype) {
  case core::Dtype::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case core::Dtype::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case core::Dtype::f32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case core::Dtype::f64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

CUtensorMapSwizzle map_swizzle(core::TensorMapArgument::Swizzle swizzle) {
  switch (swizzle) {
  case core::TensorMapArgument::Swizzle::none: return CU_TENSOR_MAP_SWIZZLE_NONE;
  case core::TensorMapArgument::Swizzle::bytes_32: return CU_TENSOR_MAP_SWIZZLE_32B;
  case core::TensorMapArgument::Swizzle::bytes_64: return CU_TENSOR_MAP_SWIZZLE_64B;
  case core::TensorMapArgument::Swizzle::bytes_128: return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

void encode_tensor_map(const core::TensorMapArgument& argument, std::byte* base, std::byte* map) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || symbol == nullptr) {
    cudaGetLastError();
    throw core::UnsupportedError(
        "the driver has no cuTensorMapEncodeTiled: tensor maps need CUDA 12 and Hopper");
  }
  if (argument.rank < 1 || argument.rank > 5) {
    throw core::UsageError(
        fmt::format("a tensor map of rank {}; 1 to 5 are possible", argument.rank));
  }
  std::array<cuuint64_t, 5> dims{}, strides{};
  std::array<cuuint32_t, 5> box{}, element_strides{};
  for (std::uint32_t d = 0; d < argument.rank; ++d) {
    dims[d] = argument.dims[d];
    box[d] = argument.box[d];
    element_strides[d] = 1;
    if (d + 1 < argument.rank) {
      strides[d] = argument.strides_bytes[d];
    }
  }
  alignas(64) CUtensorMap encoded;
  const CUresult result = reinterpret_cast<Encode>(symbol)(
      &encoded, map_type(argument.dtype), argument.rank, base, dims.data(), strides.data(),
      box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      map_swizzle(argument.swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw core::UsageError(fmt::format(
        "cuTensorMapEncodeTiled refused (error {}) rank {}, dims [{}], strides [{}], box [{}], "
        "address {}: see its rules on alignment and box size",
        static_cast<int>(result), argument.rank, fmt::join(argument.dims, ", "),
        fmt::join(argument.strides_bytes, ", "), fmt::join(argument.box, ", "),
        static_cast<const void*>(base)));
  }
  static_assert(sizeof encoded == 128);
  std::memcpy(map, &encoded, sizeof encoded);
}

}  // namespace faultline::cuda
