// SPDX-License-Identifier: Apache-2.0
// cuBLAS and cublasLt as a table of functions, loaded at run time. Declared here instead of taken
// from NVIDIA's headers, because a machine that can build faultline need not have cuBLAS;
// tests/cuda compares the constants with the headers where these exist. No CUDA runtime here:
// tested with a stub library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace faultline::cuda {

namespace cublas {

using Handle = void*;
using Status = int;  // 0: success
using Pointer = void*;

inline constexpr int kOpN = 0, kOpT = 1;
inline constexpr int kReal16F = 2, kReal16BF = 14, kReal32F = 0;
inline constexpr int kCompute32F = 68;
inline constexpr int kGemmDefault = -1;
inline constexpr int kMatmulDescTransA = 3;
inline constexpr int kPreferenceMaxWorkspaceBytes = 1;
inline constexpr int kPropertyMajor = 0, kPropertyMinor = 1, kPropertyPatch = 2;

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

}  // namespace cublas

/// The functions in use, from two libraries.
struct CublasFunctions {
  using Handle = cublas::Handle;
  using Status = cublas::Status;
  // libcublas
  Status (*get_property)(int which, int* value) = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*destroy)(Handle) = nullptr;
  Status (*set_stream)(Handle, void* stream) = nullptr;
  Status (*set_workspace)(Handle, void* memory, std::size_t bytes) = nullptr;
  Status (*gemm_ex)(Handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
                    const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                    const void* beta, void* c, int c_type, int ldc, int compute_type,
                    int algorithm) = nullptr;
  // libcublasLt
  Status (*lt_create)(Handle*) = nullptr;
  Status (*lt_destroy)(Handle) = nullptr;
  Status (*lt_desc_create)(Handle*, int compute_type, int scale_type) = nullptr;
  Status (*lt_desc_destroy)(Handle) = nullptr;
  Status (*lt_desc_set)(Handle, int attribute, const void* value, std::size_t bytes) = nullptr;
  Status (*lt_layout_create)(Handle*, int type, std::uint64_t rows, std::uint64_t cols,
                             std::int64_t ld) = nullptr;
  Status (*lt_layout_destroy)(Handle) = nullptr;
  Status (*lt_preference_create)(Handle*) = nullptr;
  Status (*lt_preference_destroy)(Handle) = nullptr;
  Status (*lt_preference_set)(Handle, int attribute, const void* value,
                              std::size_t bytes) = nullptr;
  Status (*lt_heuristics)(Handle lt, Handle desc, Handle a, Handle b, Handle c, Handle d,
                          Handle preference, int requested, cublas::HeuristicResult* results,
                          int* found) = nullptr;
  Status (*lt_matmul)(Handle lt, Handle desc, const void* alpha, const void* a, Handle a_layout,
                      const void* b, Handle b_layout, const void* beta, const void* c,
                      Handle c_layout, void* d, Handle d_layout, const std::uint64_t* algorithm,
                      void* workspace, std::size_t workspace_bytes, void* stream) = nullptr;
};

/// An open pair of libraries. They stay loaded until the process ends: cuBLAS registers work that
/// runs then.
class CublasLibrary {
 public:
  /// Tries every folder or file of `places` in order ("" is the dynamic linker's own search), in
  /// each the names libcublas.so.13 and libcublas.so.12 with libcublasLt beside them.
  /// EnvironmentError with what was tried when none opens; EnvironmentError at once when one opens
  /// but lacks a function or is of another major version.
  static std::unique_ptr<CublasLibrary> open(std::span<const std::string> places);

  CublasLibrary(const CublasLibrary&) = delete;
  const CublasFunctions& functions() const { return functions_; }
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }

 private:
  CublasLibrary() = default;
  void* cublas_ = nullptr;
  void* cublas_lt_ = nullptr;
  CublasFunctions functions_;
  std::string version_, path_;
};

/// FAULTLINE_CUBLAS_PATH (its value, empty when unset) first, alone when it is set: then the
/// linker's search, the toolkit's folders and those of Python wheels that exist on this machine.
std::vector<std::string> cublas_places(const std::string& path_variable);

}  // namespace faultline::cuda
