// SPDX-License-Identifier: Apache-2.0
// Column sums, every warp adding its rows' share by atomics: their order, and so the last bits of
// the sum, differ from run to run.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kCols = 32;  // of a block, a lane each
constexpr int kRows = 4;   // of a warp

}  // namespace faultline::kernels::catalogue

extern "C" {

/// block (32, 8), grid (column blocks, row blocks). X [rows, cols]; y [cols], zero before.
__global__ void atomic_sum(const float* x, float* y, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  const int col = blockIdx.x * kCols + threadIdx.x;
  const int begin = (blockIdx.y * blockDim.y + threadIdx.y) * kRows;
  if (col >= cols || begin >= rows) return;
  float sum = 0.0f;
  for (int row = begin; row < min(begin + kRows, rows); ++row) {
    sum += x[static_cast<int64_t>(row) * cols + col];
  }
  atomicAdd(&y[col], sum);
}

}  // extern "C"
