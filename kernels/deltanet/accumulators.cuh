// SPDX-License-Identifier: Apache-2.0
//
// C fragments of mma.m16n8k16 as accumulators: which elements a lane has, and arithmetic on them.
#pragma once

#include "tiles.cuh"

namespace faultline::kernels::deltanet {

/// Where element e of the lane's part of a 16 x 8 accumulator stands.
__device__ __forceinline__ int accumulator_row(int e) { return lane_id() / 4 + e / 2 * 8; }
__device__ __forceinline__ int accumulator_column(int e) { return lane_id() % 4 * 2 + e % 2; }

template <int N>
__device__ __forceinline__ void add(float (&acc)[N][4], const float (&other)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] += other[n][e];
  }
}
template <int N>
__device__ __forceinline__ void clear(float (&acc)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] = 0.0f;
  }
}
template <int N>
__device__ __forceinline__ void multiply(float (&acc)[N][4], float factor) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] *= factor;
  }
}
/// By the factors of the lane's two rows.
template <int N>
__device__ __forceinline__ void multiply(float (&acc)[N][4], float2 rows) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    acc[n][0] *= rows.x;
    acc[n][1] *= rows.x;
    acc[n][2] *= rows.y;
    acc[n][3] *= rows.y;
  }
}

/// Sum over the four lanes that hold one row of an accumulator.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace faultline::kernels::deltanet
