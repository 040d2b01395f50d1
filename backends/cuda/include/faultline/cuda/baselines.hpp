// SPDX-License-Identifier: Apache-2.0
// cuBLAS as second oracle and as timing baseline of gemv and gemm. Loaded when asked for: the
// program starts without it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/program.hpp"

namespace faultline::cuda {

/// One way of computing y = A x, or C from A and B, timed.
struct BaselineTiming {
  std::string method;            ///< "cublasGemmEx", "cublasLt (best of 8)"
  std::vector<double> graph_ns;  ///< per launch, one figure per graph replay
  std::vector<double> event_ns;  ///< single launches between two events
  /// It computes all that was asked for; false: the product without what follows it.
  bool complete = true;
};

/// y[n] = A[n, k] x[k], A row-major, fp32 accumulation (f32: no TF32).
struct GemvProblem {
  std::int64_t n = 0, k = 0;
  core::Dtype dtype = core::Dtype::f16;  ///< f16, bf16 or f32
};

/// C[m, n] = alpha A[m, k] B[k, n], all row-major, fp32 accumulation (f32: no TF32).
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  core::Dtype dtype = core::Dtype::f16;  ///< f16, bf16 or f32
  float alpha = 1.0f;
};

/// cuBLAS, loaded at run time, on the first visible device.
class CublasBaseline {
 public:
  /// Looks for libcublas.so.13, then .12, in FAULTLINE_CUBLAS_PATH (folders or files, separated by
  /// ':'), the dynamic linker's paths, the CUDA toolkit's usual folders and those of the CUDA and
  /// PyTorch wheels. EnvironmentError says what was tried, or which symbol or version is wrong.
  static std::unique_ptr<CublasBaseline> load();

  virtual ~CublasBaseline() = default;
  virtual std::string version() const = 0;  ///< "13.0.2 (/path/libcublas.so.13)"

  /// cublasGemmEx on host tensors A [n, k] and x [k] of one dtype: y [n].
  virtual core::Tensor gemv(const core::Tensor& a, const core::Tensor& x) = 0;

  /// cublasGemmEx, then the fastest of up to 8 cublasLt heuristics, timed as
  /// Backend::time_program() does: cold, A rotates over at least 3 copies and 700 MB.
  /// EnvironmentError when a call fails.
  virtual std::vector<BaselineTiming> time_gemv(const GemvProblem& problem,
                                                const core::Backend::TimingRequest& request) = 0;

  /// cublasGemmEx on host tensors A [m, k] and B [k, n] of one dtype: alpha A B.
  virtual core::Tensor gemm(const core::Tensor& a, const core::Tensor& b, float alpha) = 0;

  /// As time_gemv(), A and B rotating. cuBLAS has no sigmoid epilogue: each product is timed alone
  /// and, where `epilogue` has operations, followed by it. Bindings of `epilogue`: the product and
  /// the result, both [m, n]; its `name` says what it is.
  virtual std::vector<BaselineTiming> time_gemm(const GemmProblem& problem,
                                                const core::Program& epilogue,
                                                const core::Backend::TimingRequest& request) = 0;
};

}  // namespace faultline::cuda
