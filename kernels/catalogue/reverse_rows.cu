// SPDX-License-Identifier: Apache-2.0
// Rows in reverse order, by way of a workspace: one pass stages them, one gathers them.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTileRows = 8;

/// grid (ceil(rows / 8)), block (128): block b stages rows 8 b to 8 b + 7 of those below `staged`.
/// x, ws [rows, cols].
__device__ void stage(const float* __restrict__ x, float* __restrict__ ws, int staged, int cols) {
  for (int row = blockIdx.x * kTileRows; row < (blockIdx.x + 1) * kTileRows; ++row) {
    if (row >= staged) return;
    for (int column = threadIdx.x; column < cols; column += blockDim.x) {
      const int64_t i = static_cast<int64_t>(row) * cols + column;
      ws[i] = x[i];
    }
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    reverse_rows_staged(const float* x, float* ws, int rows, int cols) {
  faultline::kernels::catalogue::stage(x, ws, rows, cols);
}

// The guard is that of a kernel that looks at the row behind its own.
__global__ void __launch_bounds__(128)
    reverse_rows_short_stage(const float* x, float* ws, int rows, int cols) {
  faultline::kernels::catalogue::stage(x, ws, rows - 1, cols);
}

/// grid (rows), block (128): y_r = ws_(rows - 1 - r). ws, y [rows, cols].
__global__ void __launch_bounds__(128)
    reverse_rows_gather(const float* ws, float* y, int rows, int cols) {
  const int64_t row = blockIdx.x;
  for (int column = threadIdx.x; column < cols; column += blockDim.x) {
    y[row * cols + column] = ws[(rows - 1 - row) * cols + column];
  }
}

}  // extern "C"
