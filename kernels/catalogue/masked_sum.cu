// SPDX-License-Identifier: Apache-2.0
// Sums of the rows X[b][h][0 .. length of b), a block each.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kThreads = 128;

/// block (128), grid (batches * heads). X [batches, heads, t]; lengths [batches]; y [batches,
/// heads]. `batch`: whose length masks this block's row.
__device__ void masked_sum(const float* __restrict__ x, const float* __restrict__ lengths,
                           float* __restrict__ y, int batch, int t) {
  __shared__ float partial[kThreads / 32];
  const float* row = x + static_cast<int64_t>(blockIdx.x) * t;
  const int length = static_cast<int>(lengths[batch]);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < t; i += kThreads) sum += i < length ? row[i] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void masked_sum_own_length(const float* x, const float* lengths, float* y, int batches,
                                      int heads, int t) {
  faultline::kernels::catalogue::masked_sum(x, lengths, y, blockIdx.x / heads, t);
}

// Decodes the block as if the batch ran fastest: [heads, batches].
__global__ void masked_sum_neighbours_length(const float* x, const float* lengths, float* y,
                                             int batches, int heads, int t) {
  faultline::kernels::catalogue::masked_sum(x, lengths, y, blockIdx.x % batches, t);
}

}  // extern "C"
