// SPDX-License-Identifier: Apache-2.0
#include "cublas_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

namespace fs = std::filesystem;

constexpr int kOldestMajor = 12, kNewestMajor = 13;

std::string last_dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

template <class Function>
void resolve(void* library, const char* symbol, Function& function, const std::string& path) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) {
    throw core::EnvironmentError(fmt::format(
        "{} has no function {}: it is not a cuBLAS that faultline can use", path, symbol));
  }
}

/// Folders below `root`/lib*/python3*/{site,dist}-packages that hold NVIDIA's wheels.
void add_wheel_folders(const fs::path& root, std::vector<std::string>& places) {
  std::error_code ignored;
  for (const char* lib : {"lib", "local/lib"}) {
    for (const auto& python : fs::directory_iterator(root / lib, ignored)) {
      if (!python.path().filename().string().starts_with("python3")) {
        continue;
      }
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cublas/lib", "torch/lib"}) {
          const fs::path folder = python.path() / packages / wheel;
          if (fs::is_directory(folder, ignored)) {
            places.push_back(folder.string());
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<std::string> cublas_places(const std::string& path_variable) {
  std::vector<std::string> places;
  if (!path_variable.empty()) {
    std::size_t begin = 0;
    while (begin <= path_variable.size()) {
      const std::size_t end = std::min(path_variable.find(':', begin), path_variable.size());
      if (end > begin) {
        places.push_back(path_variable.substr(begin, end - begin));
      }
      begin = end + 1;
    }
    return places;  // the user's word is final: nothing else is tried behind it
  }
  places.emplace_back();
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0') {
      places.push_back(std::string(root) + "/lib64");
    }
  }
  places.emplace_back("/usr/local/cuda/lib64");
  places.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0') {
      add_wheel_folders(root, places);
    }
  }
  add_wheel_folders("/usr", places);
  add_wheel_folders("/opt/conda", places);
  return places;
}

std::unique_ptr<CublasLibrary> CublasLibrary::open(std::span<const std::string> places) {
  std::vector<std::string> tried;
  for (const std::string& place : places) {
    std::error_code ignored;
    std::vector<std::pair<std::string, std::string>> candidates;  // cublas, cublasLt
    if (!place.empty() && !fs::is_directory(place, ignored)) {
      // A file: its companion has the same suffix, libcublas.so.13 and libcublasLt.so.13.
      std::string name = fs::path(place).filename().string();
      const std::size_t at = name.find("cublas");
      name.insert(at == std::string::npos ? 0 : at + 6, "Lt");
      candidates.emplace_back(place, (fs::path(place).parent_path() / name).string());
    }
    if (candidates.empty()) {
      for (int major = kNewestMajor; major >= kOldestMajor; --major) {
        const std::string prefix = place.empty() ? "" : place + "/";
        candidates.emplace_back(fmt::format("{}libcublas.so.{}", prefix, major),
                                fmt::format("{}libcublasLt.so.{}", prefix, major));
      }
    }
    for (const auto& [path, lt_path] : candidates) {
      std::unique_ptr<CublasLibrary> library(new CublasLibrary);
      // cublasLt first: libcublas needs it, and finds it loaded wherever it lies.
      library->cublas_lt_ = dlopen(lt_path.c_str(), RTLD_NOW | RTLD_GLOBAL);
      const std::string lt_error = library->cublas_lt_ == nullptr ? last_dl_error() : "";
      library->cublas_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library->cublas_ == nullptr) {
        tried.push_back(last_dl_error());
        continue;
      }
      CublasFunctions& f = library->functions_;
      resolve(library->cublas_, "cublasGetProperty", f.get_property, path);
      int major = 0, minor = 0, patch = 0;
      f.get_property(cublas::kPropertyMajor, &major);
      f.get_property(cublas::kPropertyMinor, &minor);
      f.get_property(cublas::kPropertyPatch, &patch);
      if (major < kOldestMajor || major > kNewestMajor) {
        throw core::EnvironmentError(
            fmt::format("{} is cuBLAS {}.{}.{}; faultline knows major versions {} to {}", path,
                        major, minor, patch, kOldestMajor, kNewestMajor));
      }
      // A file given by name may hold both; otherwise cublasLt must lie beside it.
      void* lt = library->cublas_lt_ != nullptr ? library->cublas_lt_ : library->cublas_;
      if (library->cublas_lt_ == nullptr && dlsym(lt, "cublasLtCreate") == nullptr) {
        throw core::EnvironmentError(
            fmt::format("{} opens, but its companion does not: {}", path, lt_error));
      }
      resolve(library->cublas_, "cublasCreate_v2", f.create, path);
      resolve(library->cublas_, "cublasDestroy_v2", f.destroy, path);
      resolve(library->cublas_, "cublasSetStream_v2", f.set_stream, path);
      resolve(library->cublas_, "cublasSetWorkspace_v2", f.set_workspace, path);
      resolve(library->cublas_, "cublasGemmEx", f.gemm_ex, path);
      resolve(lt, "cublasLtCreate", f.lt_create, lt_path);
      resolve(lt, "cublasLtDestroy", f.lt_destroy, lt_path);
      resolve(lt, "cublasLtMatmulDescCreate", f.lt_desc_create, lt_path);
      resolve(lt, "cublasLtMatmulDescDestroy", f.lt_desc_destroy, lt_path);
      resolve(lt, "cublasLtMatmulDescSetAttribute", f.lt_desc_set, lt_path);
      resolve(lt, "cublasLtMatrixLayoutCreate", f.lt_layout_create, lt_path);
      resolve(lt, "cublasLtMatrixLayoutDestroy", f.lt_layout_destroy, lt_path);
      resolve(lt, "cublasLtMatmulPreferenceCreate", f.lt_preference_create, lt_path);
      resolve(lt, "cublasLtMatmulPreferenceDestroy", f.lt_preference_destroy, lt_path);
      resolve(lt, "cublasLtMatmulPreferenceSetAttribute", f.lt_preference_set, lt_path);
      resolve(lt, "cublasLtMatmulAlgoGetHeuristic", f.lt_heuristics, lt_path);
      resolve(lt, "cublasLtMatmul", f.lt_matmul, lt_path);
      library->version_ = fmt::format("{}.{}.{}", major, minor, patch);
      library->path_ = path;
      return library;
    }
  }
  throw core::EnvironmentError(fmt::format(
      "no cuBLAS: set FAULTLINE_CUBLAS_PATH to the folder of libcublas.so.13; tried: {}",
      fmt::join(tried, "; ")));
}

}  // namespace faultline::cuda
