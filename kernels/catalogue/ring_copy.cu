// SPDX-License-Identifier: Apache-2.0
// y = x / 2 through a ring of shared-memory stages that bulk copies fill.
#include "kernels/common/ptx.cuh"

#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTile = 256;  // elements of a stage
constexpr int kStages = 2;

/// grid (ceil(n / (4 kTile))), block (128): a block copies up to four tiles. n is a multiple of 4
/// (16 bytes).
template <bool kExpectTile>
__device__ void ring_copy(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ __align__(128) float ring[kStages][kTile];
  __shared__ uint64_t full[kStages];
  const int begin = blockIdx.x * 4 * kTile;
  const int end = min(n, begin + 4 * kTile);
  const int tiles = (end - begin + kTile - 1) / kTile;

  const auto fill = [&](int tile) {
    const int first = begin + tile * kTile;
    const int bytes = min(kTile, end - first) * static_cast<int>(sizeof(float));
    uint64_t* barrier = &full[tile % kStages];
    // More than the copy brings, and the phase never completes.
    mbarrier_arrive_expect(barrier, kExpectTile ? kTile * static_cast<int>(sizeof(float)) : bytes);
    copy_bulk(ring[tile % kStages], x + first, bytes, barrier);
  };

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) mbarrier_init(&full[stage], 1);
    fence_mbarrier_init();
  }
  __syncthreads();  // writer: thread 0, of the barriers; readers: all
  if (threadIdx.x == 0) {
    for (int tile = 0; tile < min(tiles, kStages); ++tile) fill(tile);
  }
  for (int tile = 0; tile < tiles; ++tile) {
    mbarrier_wait(&full[tile % kStages], tile / kStages % 2);  // writer: the copy; readers: all
    const int first = begin + tile * kTile;
    for (int i = threadIdx.x; i < min(kTile, end - first); i += blockDim.x) {
      y[first + i] = 0.5f * ring[tile % kStages][i];
    }
    __syncthreads();  // readers: all; writer: the copy that refills the stage
    if (threadIdx.x == 0 && tile + kStages < tiles) {
      fence_proxy_async();
      fill(tile + kStages);
    }
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    ring_copy_exact_bytes(const float* __restrict__ x, float* __restrict__ y, int n) {
  faultline::kernels::catalogue::ring_copy<false>(x, y, n);
}

__global__ void __launch_bounds__(128)
    ring_copy_expects_too_much(const float* __restrict__ x, float* __restrict__ y, int n) {
  faultline::kernels::catalogue::ring_copy<true>(x, y, n);
}

}  // extern "C"
