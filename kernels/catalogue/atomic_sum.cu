// SPDX-License-Identifier: Apache-2.0
// Column sums, every block adding its rows' share by atomics: their order, and so the last bits of
// the sum, differ from run to run.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kRows = 16;  // of a block

}  // namespace faultline::kernels::catalogue

extern "C" {

/// block (cols of a block), grid (column blocks, row blocks). X [rows, cols]; y [cols], zero.
__global__ void atomic_sum(const float* x, float* y, int rows, int cols) {
  using faultline::kernels::catalogue::kRows;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const int begin = blockIdx.y * kRows, end = min(begin + kRows, rows);
  float sum = 0.0f;
  for (int row = begin; row < end; ++row) sum += x[static_cast<int64_t>(row) * cols + col];
  atomicAdd(&y[col], sum);
}

}  // extern "C"
