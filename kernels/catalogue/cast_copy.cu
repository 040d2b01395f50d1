// SPDX-License-Identifier: Apache-2.0
// Rows of fp32, scaled, to rows of bf16, each in a buffer with a pitch of its own: 32 x 8 threads a
// tile of 8 rows and 64 columns.
#include <cuda_bf16.h>
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTileRows = 8;
constexpr int kTileCols = 64;

enum class Load { rows, packed, aligned_down };
enum class Store { rows, packed, tiles };

__device__ inline const float* down_to_16_bytes(const float* address) {
  return reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{15});
}

/// block (32, 8). X [rows, x_pitch], of which the first `cols` of a row are read; Y [rows, pitch],
/// of which as many are written.
template <Load kLoad, Store kStore>
__device__ void cast_copy(const float* __restrict__ x, __nv_bfloat16* __restrict__ y, int rows,
                          int cols, int x_pitch, int pitch, float scale) {
  const int row = blockIdx.y * kTileRows + threadIdx.y;
  if (row >= rows) return;
  const float* from = x + static_cast<int64_t>(row) * (kLoad == Load::packed ? cols : x_pitch);
  // As a loop of 16-byte loads would want it.
  if constexpr (kLoad == Load::aligned_down) from = down_to_16_bytes(from);
  const int64_t first = static_cast<int64_t>(row) * (kStore == Store::packed ? cols : pitch);
  for (int i = threadIdx.x; i < kTileCols; i += 32) {
    const int col = blockIdx.x * kTileCols + i;
    const float value = col < cols ? from[col] : 0.0f;
    // Store::tiles: the load is masked, the store is not.
    if (kStore == Store::tiles || col < cols) y[first + col] = __float2bfloat16(scale * value);
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

/// One block a row: X [rows, cols], contiguous, to the first `cols` of rows of a pitch.
__global__ void cast_copy_scatter(const float* x, float* source, int cols, int x_pitch) {
  const int64_t row = blockIdx.x;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    source[row * x_pitch + col] = x[row * cols + col];
  }
}

__global__ void cast_copy_pitched(const float* x, __nv_bfloat16* y, int rows, int cols, int x_pitch,
                                  int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Load::rows, Store::rows>(x, y, rows, cols, x_pitch, pitch, scale);
}

__global__ void cast_copy_ignored_pitch(const float* x, __nv_bfloat16* y, int rows, int cols,
                                        int x_pitch, int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Load::rows, Store::packed>(x, y, rows, cols, x_pitch, pitch, scale);
}

__global__ void cast_copy_overrun(const float* x, __nv_bfloat16* y, int rows, int cols, int x_pitch,
                                  int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Load::rows, Store::tiles>(x, y, rows, cols, x_pitch, pitch, scale);
}

__global__ void cast_copy_ignored_source_pitch(const float* x, __nv_bfloat16* y, int rows, int cols,
                                               int x_pitch, int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Load::packed, Store::rows>(x, y, rows, cols, x_pitch, pitch, scale);
}

__global__ void cast_copy_aligned_down(const float* x, __nv_bfloat16* y, int rows, int cols,
                                       int x_pitch, int pitch, float scale) {
  using namespace faultline::kernels::catalogue;
  cast_copy<Load::aligned_down, Store::rows>(x, y, rows, cols, x_pitch, pitch, scale);
}

}  // extern "C"
