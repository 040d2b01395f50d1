// SPDX-License-Identifier: Apache-2.0
// B = A^T in fp32, a 32 x 32 tile per block by way of shared memory.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTile = 32;
constexpr int kBlockRows = 8;

/// block (32, 8). a [m, n], b [n, m].
template <int kPitch>
__device__ void transpose(const float* __restrict__ a, float* __restrict__ b, int m, int n) {
  // A pitch of 32 words puts a column of the tile into one bank; 33 spread it over all of them.
  __shared__ float tile[kTile][kPitch];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
#pragma unroll
  for (int i = y; i < kTile; i += kBlockRows) {
    if (row0 + i < m && col0 + x < n) {
      tile[i][x] = a[static_cast<int64_t>(row0 + i) * n + col0 + x];
    }
  }
  __syncthreads();  // rows were written; columns are read
#pragma unroll
  for (int i = y; i < kTile; i += kBlockRows) {
    if (col0 + i < n && row0 + x < m) {
      b[static_cast<int64_t>(col0 + i) * m + row0 + x] = tile[x][i];
    }
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(256) transpose_padded(const float* a, float* b, int m, int n) {
  faultline::kernels::catalogue::transpose<faultline::kernels::catalogue::kTile + 1>(a, b, m, n);
}

__global__ void __launch_bounds__(256) transpose_unpadded(const float* a, float* b, int m, int n) {
  faultline::kernels::catalogue::transpose<faultline::kernels::catalogue::kTile>(a, b, m, n);
}

}  // extern "C"
