// SPDX-License-Identifier: Apache-2.0
// Column sums of a shifted matrix in two launches: partial sums into a workspace, then their total.
#include <stdint.h>

extern "C" {

/// partials[p][c] = sum of x[r][c] + shift over the rows r = p mod gridDim.x.
/// grid (P), block (256). x [rows, cols], partials [P, cols], row-major.
__global__ void __launch_bounds__(256)
    colsum_partials(const float* __restrict__ x, float shift, float* __restrict__ partials,
                    int rows, int cols) {
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = 0.0f;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
      sum += x[static_cast<int64_t>(r) * cols + c] + shift;
    }
    partials[static_cast<int64_t>(blockIdx.x) * cols + c] = sum;
  }
}

/// y[c] = sum of partials[p][c] over p < parts. grid (ceil(cols / 128)), block (128).
__global__ void __launch_bounds__(128)
    colsum_total(const float* __restrict__ partials, float* __restrict__ y, int parts, int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float sum = 0.0f;
  for (int p = 0; p < parts; ++p) sum += partials[static_cast<int64_t>(p) * cols + c];
  y[c] = sum;
}

}  // extern "C"
