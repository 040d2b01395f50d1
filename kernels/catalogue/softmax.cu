// SPDX-License-Identifier: Apache-2.0
// Softmax of scaled rows in two passes, a warp a row: the maximum, then the exponentials.
#include <math_constants.h>
#include <stdint.h>

extern "C" {

/// block (32), grid (rows). X, Y [rows, cols]; scale [rows], any finite value.
__global__ void softmax_two_pass(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ y, int cols) {
  const float* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  float* out = y + static_cast<int64_t>(blockIdx.x) * cols;
  const float factor = scale[blockIdx.x];
  float largest = -CUDART_INF_F;
  for (int i = threadIdx.x; i < cols; i += 32) largest = fmaxf(largest, factor * row[i]);
  for (int o = 16; o > 0; o /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 32) sum += expf(factor * row[i] - largest);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(factor * row[i] - largest) / sum;
}

}  // extern "C"
