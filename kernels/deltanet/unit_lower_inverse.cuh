// SPDX-License-Identifier: Apache-2.0
//
// The inverse of a unit lower triangular matrix I + M in fp32, in shared memory: products on the
// tensor cores with fp32 accuracy, and the two ways to the inverse.
#pragma once

#include "tiles.cuh"

namespace faultline::kernels::deltanet {

// ---- fp32 products on the tensor cores ----------------------------------------------------------

/// x = high + low to 2^-21 relative, both tf32: 10 bits after the point, the low 13 bits clear. By
/// integer operations, because cvt.rna.tf32 is a dozen instructions; x is finite.
struct Split {
  uint32_t high, low;
};
__device__ __forceinline__ Split split(float x) {
  const uint32_t high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;  // to nearest
  return {high, __float_as_uint(x - __uint_as_float(high)) & 0xffffe000u};
}

/// An A fragment [16, 8] in fp32 whose columns stand in the order of a C fragment: lane (g, t)
/// holds columns 2t and 2t + 1. The rows of B are taken in that order too, so a C fragment is one
/// as it is.
struct SplitOperand {
  uint32_t high[4], low[4];
  __device__ __forceinline__ explicit SplitOperand(const float (&c)[4]) {
    const int from[4] = {0, 2, 1, 3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Split s = split(c[from[i]]);
      high[i] = s.high;
      low[i] = s.low;
    }
  }
};

/// c += a b with b [8, 8] at `b` in shared memory, row stride kStride: three tf32 products,
/// 2^-21 relative.
template <int kStride>
__device__ __forceinline__ void mma_fp32(float (&c)[4], const SplitOperand& a, const float* b) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const Split b0 = split(b[2 * t * kStride + g]);
  const Split b1 = split(b[(2 * t + 1) * kStride + g]);
  mma_tf32(c, a.low, b0.high, b1.high);
  mma_tf32(c, a.high, b0.low, b1.low);
  mma_tf32(c, a.high, b0.high, b1.high);
}

/// The C fragment of the [16, 8] block at `a` in shared memory.
template <int kStride>
__device__ __forceinline__ void load_fp32(float (&c)[4], const float* a) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const float2 upper = *reinterpret_cast<const float2*>(a + g * kStride + 2 * t);
  const float2 lower = *reinterpret_cast<const float2*>(a + (g + 8) * kStride + 2 * t);
  c[0] = upper.x;
  c[1] = upper.y;
  c[2] = lower.x;
  c[3] = lower.y;
}
template <int kStride>
__device__ __forceinline__ void store_fp32(float* a, const float (&c)[4]) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  *reinterpret_cast<float2*>(a + g * kStride + 2 * t) = make_float2(c[0], c[1]);
  *reinterpret_cast<float2*>(a + (g + 8) * kStride + 2 * t) = make_float2(c[2], c[3]);
}

/// c [16, 8 kTiles] += a [16, 8 kSteps] b [8 kSteps, 8 kTiles], both in shared memory.
template <int kStride, int kTiles, int kSteps>
__device__ __forceinline__ void product_fp32(float (&c)[kTiles][4], const float* a,
                                             const float* b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    float fragment[4];
    load_fp32<kStride>(fragment, a + 8 * k);
    const SplitOperand operand(fragment);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      mma_fp32<kStride>(c[n], operand, b + 8 * k * kStride + 8 * n);
    }
  }
}
/// The same with `a` in registers, as C fragments.
template <int kStride, int kTiles, int kSteps>
__device__ __forceinline__ void product_fp32(float (&c)[kTiles][4], const float (&a)[kSteps][4],
                                             const float* b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const SplitOperand operand(a[k]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      mma_fp32<kStride>(c[n], operand, b + 8 * k * kStride + 8 * n);
    }
  }
}

// ---- the inverse of I + M -----------------------------------------------------------------------

/// One level of the blocked substitution: below two inverted diagonal blocks X11, X22 of kBlock
/// rows, X21 = -(X22 M21) X11. `m` points at X11. Warps `part` of kBlock * kBlock / 256 share the
/// block: each has 16 rows and 16 columns of X21.
template <int kStride, int kBlock>
__device__ __forceinline__ void invert_below(float* m, int part) {
  constexpr int kParts = kBlock / 16;
  const int row = part / kParts * 16, column = part % kParts * 16;
  const float* x22 = m + kBlock * kStride + kBlock;
  float* m21 = m + kBlock * kStride;
  float left[kBlock / 8][4] = {};                        // X22 M21, 16 rows of it
  product_fp32<kStride, kBlock / 8, kBlock / 8>(left, x22 + row * kStride, m21);
  float x21[2][4] = {};                                  // 16 rows, 16 columns
  product_fp32<kStride, 2, kBlock / 8>(x21, left, m + column);
  if constexpr (kParts == 1) {
    __syncwarp();  // readers: this warp (M21); writer: this warp (X21 in its place)
  } else {
    __syncthreads();  // readers: all warps (M21); writers: all warps (X21 in its place)
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x21[n][i] = -x21[n][i];
    store_fp32<kStride>(m21 + row * kStride + column + 8 * n, x21[n]);
  }
}

/// X = (I + M)^-1 by blocked forward substitution, in place and in fp32: M [kChunk, kChunk] in
/// shared memory, strictly lower and zero elsewhere, with stride matrix_stride(kChunk); all
/// kChunk / 16 warps of the block call it together, each with its index. Diagonal blocks of 16 rows
/// by substitution, a thread a column; below them block products with fp32 accuracy. Begins and
/// ends with a barrier.
template <int kChunk>
__device__ __forceinline__ void invert_unit_lower(float* m, int warp) {
  static_assert(kChunk == 32 || kChunk == 64, "one or two levels below blocks of 16");
  constexpr int kStride = matrix_stride(kChunk);
  __syncthreads();  // writers: all (M); readers: all
  const int tid = static_cast<int>(threadIdx.x);
  if (tid < kChunk) {  // whole warps; the 16 threads of a block are in one warp
    float* block = m + tid / 16 * 16 * (kStride + 1);
    const int column = tid % 16;
    float x[16];                                         // one column of the inverse
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
      for (int k = 0; k < i; ++k) sum = fmaf(-block[i * kStride + k], x[k], sum);
      x[i] = sum;
    }
    __syncwarp();  // readers: the block's 16 threads (M); writers: the same (X in its place)
#pragma unroll
    for (int i = 0; i < 16; ++i) block[i * kStride + column] = x[i];
  }
  __syncthreads();  // writers: kChunk threads (diagonal blocks); readers: all
  if (warp < kChunk / 32) invert_below<kStride, 16>(m + warp * 32 * (kStride + 1), 0);
  __syncthreads();  // writers: kChunk / 32 warps; readers: all
  if constexpr (kChunk == 64) {
    invert_below<kStride, 32>(m, warp);
    __syncthreads();  // writers, readers: all
  }
}

/// The same by repeated squaring, X = prod_r (I + P^(2^r)), P = -M: exact for exact arithmetic,
/// since M is nilpotent, and unstable where the powers grow (correlated keys). `power` and `x` are
/// two further matrices of that stride; the result is in `x`, which has zeros above the diagonal.
template <int kChunk>
__device__ __forceinline__ void invert_by_squaring(float* m, float* power, float* x, int warp) {
  constexpr int kStride = matrix_stride(kChunk);
  constexpr int kTiles = kChunk / 8;
  const int row = warp * 16;
  const int g = lane_id() / 4, t = lane_id() % 4;
  float* p = m;
  float* next = power;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {                     // P = -M, X = I + P, this warp's rows
    float fragment[4];
    load_fp32<kStride>(fragment, p + row * kStride + 8 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment[i] = -fragment[i];
    store_fp32<kStride>(p + row * kStride + 8 * n, fragment);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (row + g + i / 2 * 8 == 8 * n + 2 * t + i % 2) fragment[i] += 1.0f;
    }
    store_fp32<kStride>(x + row * kStride + 8 * n, fragment);
  }
#pragma unroll 1
  for (int covered = 2; covered < kChunk; covered *= 2) {
    __syncthreads();  // writers: all warps, a row block each (p); readers: all
    float square[kTiles][4] = {};
    product_fp32<kStride, kTiles, kTiles>(square, p + row * kStride, p);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      store_fp32<kStride>(next + row * kStride + 8 * n, square[n]);
    }
    __syncthreads();  // writers: all warps (next); readers: all. And p's readers are done
    float sum[kTiles][4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) load_fp32<kStride>(sum[n], x + row * kStride + 8 * n);
    product_fp32<kStride, kTiles, kTiles>(sum, x + row * kStride, next);
    __syncwarp();  // readers, writers: this warp (its rows of x)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) store_fp32<kStride>(x + row * kStride + 8 * n, sum[n]);
    float* const swap = p;
    p = next;
    next = swap;
  }
  __syncthreads();  // writers: all warps (x); readers: all
}

}  // namespace faultline::kernels::deltanet
