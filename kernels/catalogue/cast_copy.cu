// SPDX-License-Identifier: Apache-2.0
// Rows of fp32, scaled, to rows of bf16 in a buffer with a pitch of its own: 32 x 8 threads a tile
// of 8 rows and 64 columns.
#include <cuda_bf16.h>
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTileRows = 8;
constexpr int kTileCols = 64;

enum class Store { rows, packed, tiles };

/// block (32, 8). X [rows, cols], contiguous; Y [rows, pitch], of which the first `cols` of a row
/// are written.
template <Store kStore>
__device__ void cast_copy(const float* __restrict__ x, __nv_bfloat16* __restrict__ y, int rows,
                          int cols, int pitch, float scale) {
  const int row = blockIdx.y * kTileRows + threadIdx.y;
  if (row >= rows) return;
  const int64_t first = static_cast<int64_t>(row) * (kStore == Store::packed ? cols : pitch);
  for (int i = threadIdx.x; i < kTileCols; i += 32) {
    const int col = blockIdx.x * kTileCols + i;
    const float value = col < cols ? x[static_cast<int64_t>(row) * cols + col] : 0.0f;
    // Store::tiles: the load is masked, the store is not.
    if (kStore == Store::tiles || col < cols) y[first + col] = __float2bfloat16(scale * value);
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void cast_copy_pitched(const float* x, __nv_bfloat16* y, int rows, int cols, int pitch,
                                  float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Store::rows>(x, y, rows, cols, pitch, scale);
}

__global__ void cast_copy_ignored_pitch(const float* x, __nv_bfloat16* y, int rows, int cols,
                                        int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Store::packed>(x, y, rows, cols, pitch, scale);
}

__global__ void cast_copy_overrun(const float* x, __nv_bfloat16* y, int rows, int cols, int pitch,
                                  float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Store::tiles>(x, y, rows, cols, pitch, scale);
}

}  // extern "C"
