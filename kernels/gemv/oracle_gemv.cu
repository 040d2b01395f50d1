// SPDX-License-Identifier: Apache-2.0
// y = A x and its error bounds in double on the device: the same values as reference::gemv, up to
// the order of the sums.
//
//   A [n, k] row-major, x [k] of T      expected, bound [n] of double
//   grid = n, block = 256 (a row per block)
#include <faultline/core/dtype.hpp>
#include <faultline/reference/gemv_bound.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace faultline::kernels::gemv {

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

__device__ __forceinline__ double to_double(__half value) { return __half2float(value); }
__device__ __forceinline__ double to_double(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ double to_double(float value) { return value; }

struct Sums {
  double value;      // of A_ij x_j
  double magnitude;  // of |A_ij| |x_j|
};

__device__ __forceinline__ Sums warp_sum(Sums s) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    s.value += __shfl_xor_sync(0xffffffffu, s.value, offset);
    s.magnitude += __shfl_xor_sync(0xffffffffu, s.magnitude, offset);
  }
  return s;
}

template <typename T>
__device__ __forceinline__ void oracle(const T* A, const T* x, double* expected, double* bound,
                                       int64_t k, reference::GemvBound coefficients) {
  const int64_t row = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const T* a_row = A + row * k;  // [k]
  Sums sums{0.0, 0.0};
#pragma unroll 4
  for (int64_t j = tid; j < k; j += kThreads) {
    const double a = to_double(a_row[j]), b = to_double(x[j]);
    sums.value = fma(a, b, sums.value);
    sums.magnitude = fma(fabs(a), fabs(b), sums.magnitude);
  }
  sums = warp_sum(sums);
  __shared__ Sums partial[kThreads / kWarp];
  if (tid % kWarp == 0) partial[tid / kWarp] = sums;
  __syncthreads();  // writers: lane 0 of every warp (partial); reader: thread 0
  if (tid == 0) {
    for (int w = 1; w < kThreads / kWarp; ++w) {
      sums.value += partial[w].value;
      sums.magnitude += partial[w].magnitude;
    }
    expected[row] = sums.value;
    bound[row] = reference::gemv_row_bound(coefficients, sums.magnitude);
  }
}

}  // namespace

}  // namespace faultline::kernels::gemv

#define FAULTLINE_GEMV_ORACLE(D, T)                                                             \
  extern "C" __global__ void __launch_bounds__(256)                                             \
      oracle_gemv_##D(const T* A, const T* x, double* expected, double* bound, int64_t k,       \
                      double relative, double absolute) {                                       \
    faultline::kernels::gemv::oracle(A, x, expected, bound, k, {relative, absolute});           \
  }

FAULTLINE_GEMV_ORACLE(f16, __half)
FAULTLINE_GEMV_ORACLE(bf16, __nv_bfloat16)
FAULTLINE_GEMV_ORACLE(f32, float)
