// SPDX-License-Identifier: Apache-2.0
// y = X w in fp32, a row of X per block, staged tile by tile through two shared buffers.
#include <kernels/common/ptx.cuh>

#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kThreads = 128;
constexpr int kChunk = 4;                 // floats of a 16-byte copy
constexpr int kTile = kThreads * kChunk;  // one copy a thread

/// block (128), a row each. x [rows, k], w [k], y [rows]; k is a multiple of 4.
template <bool kCommitEveryPass>
__device__ void rowdot(const float* __restrict__ x, const float* __restrict__ w,
                       float* __restrict__ y, int k) {
  __shared__ __align__(16) float buffer[2][kTile];
  __shared__ float warp_sums[kThreads / 32];
  const int thread = threadIdx.x;
  const float* row = x + static_cast<int64_t>(blockIdx.x) * k;
  const int tiles = (k + kTile - 1) / kTile;

  const auto request = [&](int tile) {
    const int first = tile * kTile + thread * kChunk;
    const bool inside = first < k;
    copy_chunk_async(&buffer[tile % 2][thread * kChunk], inside ? row + first : row,
                     inside ? 16 : 0);
  };

  request(0);
  commit_copies();
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      request(tile + 1);
      if constexpr (!kCommitEveryPass) commit_copies();
    }
    // An empty group in the last pass: without it the newest group, which the wait below lets fly
    // on, is that of the very tile that is about to be read.
    if constexpr (kCommitEveryPass) commit_copies();
    wait_copies<1>();
    __syncthreads();  // every thread's copies of this tile have landed; all threads read them
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const int column = i * kThreads + thread;
      const float factor = tile * kTile + column < k ? w[tile * kTile + column] : 0.0f;
      sum += buffer[tile % 2][column] * factor;
    }
    __syncthreads();  // all have read it; the next pass requests into this buffer
  }

#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (thread % 32 == 0) warp_sums[thread / 32] = sum;
  __syncthreads();  // the warps have written; thread 0 reads
  if (thread == 0) y[blockIdx.x] = warp_sums[0] + warp_sums[1] + warp_sums[2] + warp_sums[3];
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    rowdot_double_buffered(const float* x, const float* w, float* y, int k) {
  faultline::kernels::catalogue::rowdot<true>(x, w, y, k);
}

__global__ void __launch_bounds__(128)
    rowdot_unawaited_tile(const float* x, const float* w, float* y, int k) {
  faultline::kernels::catalogue::rowdot<false>(x, w, y, k);
}

}  // extern "C"
