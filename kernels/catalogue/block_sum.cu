// SPDX-License-Identifier: Apache-2.0
// y_r = sum of row r of X in fp32, a row per block: its warps leave partial sums in shared memory.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kRun = 64;  // columns that a warp takes at a time

/// block (128), a row each. x [rows, k], y [rows].
template <bool kZeroed>
__device__ void block_sum(const float* __restrict__ x, float* __restrict__ y, int k) {
  __shared__ float partials[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* row = x + static_cast<int64_t>(blockIdx.x) * k;
  // A warp behind the end of the row has nothing to add, and its partial is summed all the same.
  if (kZeroed || warp * kRun < k) {
    float sum = 0.0f;
    for (int first = warp * kRun; first < k; first += kWarps * kRun) {
#pragma unroll
      for (int i = 0; i < kRun; i += 32) {
        const int column = first + i + lane;
        if (column < k) sum += row[column];
      }
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (lane == 0) partials[warp] = sum;
  }
  __syncthreads();  // the warps have written; thread 0 reads
  if (threadIdx.x == 0) y[blockIdx.x] = partials[0] + partials[1] + partials[2] + partials[3];
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    block_sum_zeroed_partials(const float* x, float* y, int k) {
  faultline::kernels::catalogue::block_sum<true>(x, y, k);
}

__global__ void __launch_bounds__(128)
    block_sum_unset_partials(const float* x, float* y, int k) {
  faultline::kernels::catalogue::block_sum<false>(x, y, k);
}

}  // extern "C"
