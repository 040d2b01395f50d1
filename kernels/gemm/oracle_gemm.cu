// SPDX-License-Identifier: Apache-2.0
// C = sigmoid(alpha A B) and its error bounds in double on the device: the same values as
// reference::gemm, up to the order of the sums.
//
//   A [m, k], B [k, n] row-major of T      expected, bound [m, n] of double
//   grid = (ceil(n / 64), ceil(m / 64)), block = 256: a 64 x 64 tile per block, 4 x 4 per thread
#include <faultline/core/dtype.hpp>
#include <faultline/reference/gemm_bound.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../common/element.cuh"

namespace faultline::kernels::gemm {

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;  // rows and columns of C
constexpr int kStep = 16;  // of k
constexpr int kPart = 4;   // rows and columns of a thread, 16 apart

template <typename T>
__device__ __forceinline__ void oracle(const T* A, const T* B, double* expected, double* bound,
                                       int64_t m, int64_t n, int64_t k,
                                       reference::GemmBound coefficients) {
  __shared__ double a_tile[kStep][kTile + 1];  // k, row
  __shared__ double b_tile[kStep][kTile];      // k, column
  const int tid = static_cast<int>(threadIdx.x), x = tid % 16, y = tid / 16;
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * kTile;
  double sum[kPart][kPart] = {}, magnitude[kPart][kPart] = {};
  for (int64_t k0 = 0; k0 < k; k0 += kStep) {
    for (int i = tid; i < kTile * kStep; i += kThreads) {
      const int64_t row = row0 + i / kStep, a_k = k0 + i % kStep;
      const int64_t b_k = k0 + i / kTile, col = col0 + i % kTile;
      a_tile[i % kStep][i / kStep] = row < m && a_k < k ? double{to_float(A[row * k + a_k])} : 0.0;
      b_tile[i / kTile][i % kTile] = b_k < k && col < n ? double{to_float(B[b_k * n + col])} : 0.0;
    }
    __syncthreads();  // writers: all threads (both tiles, above); readers: all, below
#pragma unroll 4
    for (int s = 0; s < kStep; ++s) {
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        const double a = a_tile[s][y + 16 * i];
#pragma unroll
        for (int j = 0; j < kPart; ++j) {
          const double b = b_tile[s][x + 16 * j];
          sum[i][j] = fma(a, b, sum[i][j]);
          magnitude[i][j] = fma(fabs(a), fabs(b), magnitude[i][j]);
        }
      }
    }
    __syncthreads();  // readers: all threads (both tiles); writers: all, next iteration
  }
#pragma unroll 1
  for (int i = 0; i < kPart * kPart; ++i) {
    const int64_t row = row0 + y + 16 * (i / kPart), col = col0 + x + 16 * (i % kPart);
    if (row < m && col < n) {
      const reference::GemmElement element = reference::gemm_element(
          coefficients, sum[i / kPart][i % kPart], magnitude[i / kPart][i % kPart]);
      expected[row * n + col] = element.expected;
      bound[row * n + col] = element.bound;
    }
  }
}

}  // namespace

}  // namespace faultline::kernels::gemm

#define FAULTLINE_GEMM_ORACLE(D, T)                                                          \
  extern "C" __global__ void __launch_bounds__(256)                                          \
      oracle_gemm_##D(const T* A, const T* B, double* expected, double* bound, int64_t m,    \
                      int64_t n, int64_t k, double relative, double absolute, double alpha,  \
                      int32_t sigmoid, int32_t logits) {                                     \
    faultline::kernels::gemm::oracle(                                                        \
        A, B, expected, bound, m, n, k,                                                      \
        {relative, absolute, alpha, sigmoid != 0, static_cast<faultline::core::Dtype>(logits)}); \
  }

FAULTLINE_GEMM_ORACLE(f16, __half)
FAULTLINE_GEMM_ORACLE(bf16, __nv_bfloat16)
FAULTLINE_GEMM_ORACLE(f32, float)
