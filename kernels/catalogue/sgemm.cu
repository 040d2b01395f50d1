// SPDX-License-Identifier: Apache-2.0
// C = A B in fp32, a 32 x 32 tile of C per block, both operands staged in shared memory.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTile = 32;

/// block (32, 32): warp y works on row y of the tile. A [m, k], B [k, n], C [m, n], all row-major.
template <bool kBarrierAfterRead>
__device__ void sgemm(const float* __restrict__ a, const float* __restrict__ b,
                      float* __restrict__ c, int m, int n, int k) {
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += kTile) {
    a_tile[y][x] = row < m && k0 + x < k ? a[static_cast<int64_t>(row) * k + k0 + x] : 0.0f;
    b_tile[y][x] = k0 + y < k && col < n ? b[static_cast<int64_t>(k0 + y) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += a_tile[y][i] * b_tile[i][x];
    // Without it a fast warp fills b_tile with the next tile while a slow one still reads this one.
    if constexpr (kBarrierAfterRead) __syncthreads();
  }
  if (row < m && col < n) c[static_cast<int64_t>(row) * n + col] = sum;
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(1024) sgemm_tiled(const float* a, const float* b, float* c, int m,
                                                    int n, int k) {
  faultline::kernels::catalogue::sgemm<true>(a, b, c, m, n, k);
}

__global__ void __launch_bounds__(1024)
    sgemm_missing_barrier(const float* a, const float* b, float* c, int m, int n, int k) {
  faultline::kernels::catalogue::sgemm<false>(a, b, c, m, n, k);
}

}  // extern "C"
