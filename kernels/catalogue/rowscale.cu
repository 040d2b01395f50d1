// SPDX-License-Identifier: Apache-2.0
// Y = diag(scale) X, X in a workspace with a pitch in bytes, as cudaMallocPitch gives it.
#include <stdint.h>

namespace faultline::kernels::catalogue {

/// grid (rows): Y [rows, cols], contiguous.
template <class Offset>
__device__ void rowscale(const char* __restrict__ x, const float* __restrict__ scale,
                         float* __restrict__ y, int cols, unsigned pitch_bytes) {
  const unsigned row = blockIdx.x;
  // With 32 bits the product wraps at 4 GB.
  const Offset offset = static_cast<Offset>(row) * pitch_bytes;
  const float* source = reinterpret_cast<const float*>(x + offset);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    y[static_cast<int64_t>(row) * cols + col] = scale[row] * source[col];
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

/// What fills the workspace: grid (rows), the compact rows X [rows, cols] each to its place.
__global__ void rowscale_scatter(const float* x, char* pitched, int cols, uint64_t pitch_bytes) {
  float* row = reinterpret_cast<float*>(pitched + blockIdx.x * pitch_bytes);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    row[col] = x[static_cast<int64_t>(blockIdx.x) * cols + col];
  }
}

__global__ void rowscale_wide_offset(const char* x, const float* scale, float* y, int cols,
                                     unsigned pitch_bytes) {
  faultline::kernels::catalogue::rowscale<uint64_t>(x, scale, y, cols, pitch_bytes);
}

__global__ void rowscale_wrapped_offset(const char* x, const float* scale, float* y, int cols,
                                        unsigned pitch_bytes) {
  faultline::kernels::catalogue::rowscale<uint32_t>(x, scale, y, cols, pitch_bytes);
}

}  // extern "C"
