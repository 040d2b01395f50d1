// SPDX-License-Identifier: Apache-2.0
// y_c = sum_r (2 x_rc + 1/4) in fp32: partial sums of row tiles into a workspace, then their sum.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kColumns = 128;  // columns a block, one a thread
constexpr int kTileRows = 8;

enum class Defect { none, mask_before_map, idle_parts };

/// grid (ceil(cols / 128), splits), block (128): block y takes row tiles y, y + splits, ...
/// x [rows, cols], parts [splits, cols].
template <Defect kDefect>
__device__ void partial_sums(const float* __restrict__ x, float* __restrict__ parts, int rows,
                             int cols) {
  const int column = blockIdx.x * kColumns + threadIdx.x;
  if (column >= cols) return;
  // A block without a tile has nothing to add, and its part is summed all the same.
  if constexpr (kDefect == Defect::idle_parts) {
    if (blockIdx.y * kTileRows >= rows) return;
  }
  float sum = 0.0f;
  for (int first = blockIdx.y * kTileRows; first < rows; first += gridDim.y * kTileRows) {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const int row = first + i;
      float value = row < rows ? x[static_cast<int64_t>(row) * cols + column] : 0.0f;
      value = 2.0f * value + 0.25f;
      // The map makes 1/4 of the zero that stands for a row beyond the end.
      if constexpr (kDefect != Defect::mask_before_map) value = row < rows ? value : 0.0f;
      sum += value;
    }
  }
  parts[static_cast<int64_t>(blockIdx.y) * cols + column] = sum;
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    colsum_affine_masked(const float* x, float* parts, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  partial_sums<Defect::none>(x, parts, rows, cols);
}

__global__ void __launch_bounds__(128)
    colsum_affine_mask_before_map(const float* x, float* parts, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  partial_sums<Defect::mask_before_map>(x, parts, rows, cols);
}

__global__ void __launch_bounds__(128)
    colsum_affine_idle_parts(const float* x, float* parts, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  partial_sums<Defect::idle_parts>(x, parts, rows, cols);
}

/// grid (ceil(cols / 128)), block (128). parts [splits, cols], y [cols].
__global__ void __launch_bounds__(128)
    colsum_affine_finish(const float* parts, float* y, int splits, int cols) {
  const int column = blockIdx.x * faultline::kernels::catalogue::kColumns + threadIdx.x;
  if (column >= cols) return;
  float sum = 0.0f;
  for (int split = 0; split < splits; ++split) {
    sum += parts[static_cast<int64_t>(split) * cols + column];
  }
  y[column] = sum;
}

}  // extern "C"
