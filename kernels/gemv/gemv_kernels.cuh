// SPDX-License-Identifier: Apache-2.0
//
// Matrix-vector product y = A x with fp32 accumulation: three clean kernels and their mutants.
//
//   A [n, k] row-major, row i starts at element i * k     T in {__half, __nv_bfloat16, float}
//   x [k], y [n]                                          the same T
//   preconditions: n >= 1, k >= 1, A and x 16-byte aligned, n * k < 2^63; A, x, y do not overlap
//   grid = ceil(n / rows_per_block), block = rows_per_block * threads_per_row (1-D), no dynamic
//   shared memory; arguments (const T* A, const T* x, T* y, int32 n, int32 k) for every entry
//
// Rows are 16-byte aligned exactly when k is a multiple of kChunk<T>: then A is read in 16-byte
// chunks. Any other k takes an element path: correct, slower.
//
// Clean variants
//   register   a row is reduced by 32..256 threads straight from global memory (fastest)
//   shared_x   a warp per row; the block stages x in shared memory, tile by tile
//   pipelined  A tiles go through shared memory by cp.async, 1, 2 or 3 stages
// Mutants: a template parameter `Defect`; each is one `kDefect ==` line below, described there.
//
// Numeric plan, all variants: products of exact T values, one fp32 fma chain per thread, an fp32
// tree over the lanes of a warp and a serial sum over the warps of a row (uncoalesced: a serial sum
// over the threads of a row), one rounding to T.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "../common/element.cuh"
#include "../common/ptx.cuh"

namespace faultline::kernels::gemv {

enum class Defect {
  none,
  uncoalesced,      // register
  wrong_config,     // register
  missed_rows,      // register
  missing_barrier,  // shared_x
  dropped_tail,     // pipelined
  stage_sentinel,   // pipelined
};

constexpr int kWarp = 32;

/// Elements of T in one 16-byte chunk: 8 or 4.
template <typename T>
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(T));

// ---- elements and chunks ------------------------------------------------------------------------

/// The two T values packed in one 32-bit word, lower address first.
template <typename T>
__device__ __forceinline__ float2 unpack(uint32_t word);
template <>
__device__ __forceinline__ float2 unpack<__half>(uint32_t word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t word) {
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename T>
__device__ __forceinline__ float fma_word(uint32_t a, uint32_t x, float sum) {
  if constexpr (sizeof(T) == 4) {
    return fmaf(__uint_as_float(a), __uint_as_float(x), sum);
  } else {
    const float2 a2 = unpack<T>(a);
    const float2 x2 = unpack<T>(x);
    return fmaf(a2.y, x2.y, fmaf(a2.x, x2.x, sum));
  }
}

/// sum + a . x over one chunk, in element order.
template <typename T>
__device__ __forceinline__ float fma_chunk(uint4 a, uint4 x, float sum) {
  sum = fma_word<T>(a.x, x.x, sum);
  sum = fma_word<T>(a.y, x.y, sum);
  sum = fma_word<T>(a.z, x.z, sum);
  return fma_word<T>(a.w, x.w, sum);
}

/// 16 bytes of x, which every row reads again: through L1.
__device__ __forceinline__ uint4 load_cached(const void* address) {
  return __ldg(static_cast<const uint4*>(address));
}

/// The chunk of x that starts at element j, zeros when j >= k. j and k are multiples of kChunk<T>.
template <typename T>
__device__ __forceinline__ uint4 load_x_chunk(const T* x, int j, int k) {
  return j < k ? load_cached(x + j) : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

/// Sum of `value` over the kThreads threads of a row; right in the thread with lane == 0.
/// kRows rows a block; a row's threads are consecutive, so its warps are whole.
template <int kRows, int kThreads, Defect kDefect>
__device__ __forceinline__ float row_sum(float value, int row_in_block, int lane) {
  constexpr int kWarpsPerRow = kThreads / kWarp;
  value = warp_sum(value);
  if constexpr (kWarpsPerRow > 1) {
    __shared__ float partial[kRows * kWarpsPerRow];          // [kRows, kWarpsPerRow]
    if (lane % kWarp == 0) {
      partial[row_in_block * kWarpsPerRow + lane / kWarp] = value;
    }
    __syncthreads();  // writers: lane 0 of every warp (partial); readers: lane 0 of every row
    // Defect wrong_config. Line changed: `first`, which was row_in_block * kWarpsPerRow. The index
    // was written for one row a block; with several rows of several warps each (r2_t64 among the
    // configs) every row of the block gets the sum of the block's first row. From: an epilogue
    // index that is right only for the tile shape it was tuned on. Shows as: class config, wrong in
    // r2_t64 at the rows with i mod 2 == 1, right in every other config.
    const int first = kDefect == Defect::wrong_config ? 0 : row_in_block * kWarpsPerRow;
    value = 0.0f;
    if (lane == 0) {
#pragma unroll
      for (int w = 0; w < kWarpsPerRow; ++w) {
        value += partial[first + w];
      }
    }
  }
  return value;
}

// ---- register: O1 -------------------------------------------------------------------------------

/// a_row . x over the elements that belong to `lane` of kThreads. kInFlight chunks of A are
/// requested before the first one is used. kVector = false forces the element path.
template <typename T, int kThreads, int kInFlight, bool kVector>
__device__ __forceinline__ float row_dot(const T* a_row, const T* x, int k, int lane) {
  float sum = 0.0f;
  if (kVector && k % kChunk<T> == 0) {
    const int chunks = k / kChunk<T>;
    const uint4* a4 = reinterpret_cast<const uint4*>(a_row);  // [chunks]
    const uint4* x4 = reinterpret_cast<const uint4*>(x);      // [chunks]
    int c = lane;
    for (; c + (kInFlight - 1) * kThreads < chunks; c += kInFlight * kThreads) {
      uint4 a[kInFlight];
      uint4 b[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) a[u] = load_streamed(a4 + c + u * kThreads);
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) b[u] = load_cached(x4 + c + u * kThreads);
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) sum = fma_chunk<T>(a[u], b[u], sum);
    }
    if (c < chunks) {  // fewer than kInFlight chunks left for this lane: the same batch, guarded
      uint4 a[kInFlight];
      uint4 b[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        a[u] = b[u] = make_uint4(0, 0, 0, 0);
        if (c + u * kThreads < chunks) a[u] = load_streamed(a4 + c + u * kThreads);
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        if (c + u * kThreads < chunks) b[u] = load_cached(x4 + c + u * kThreads);
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) sum = fma_chunk<T>(a[u], b[u], sum);
    }
  } else {
#pragma unroll 4
    for (int j = lane; j < k; j += kThreads) {
      sum = fmaf(to_float(__ldg(a_row + j)), to_float(__ldg(x + j)), sum);
    }
  }
  return sum;
}

/// Block: kRows * kThreads threads.
template <typename T, int kRows, int kThreads, int kInFlight, bool kVector, Defect kDefect>
__device__ __forceinline__ void gemv_register(const T* A, const T* x, T* y, int n, int k) {
  static_assert(kThreads % kWarp == 0, "a row is reduced by whole warps");
  const int tid = static_cast<int>(threadIdx.x);
  const int row0 = static_cast<int>(blockIdx.x) * kRows;
  constexpr bool kSwapped = kDefect == Defect::uncoalesced;
  // Defect uncoalesced. Lines changed: the next two, which map a thread to (row, lane). Consecutive
  // threads take consecutive rows instead of consecutive columns, so one warp's load touches 32
  // rows k elements apart. From: a GEMV whose threads were declared (rows, reduction) and not
  // (reduction, rows), at 3 % of the bandwidth. Shows as: right values, slow.uncoalesced.
  const int lane = kSwapped ? tid / kRows : tid % kThreads;
  const int row_in_block = kSwapped ? tid % kRows : tid / kThreads;
  const int row = row0 + row_in_block;
  // Defect missed_rows. Line changed: the guard, which was row < n. It tests the first row of the
  // next block, so that the last row tile is never written, whatever n. From: an off-by-one in a
  // tile guard. Shows as: missed_write, rows_per_block or fewer rows that still hold the poison.
  const bool active = kDefect == Defect::missed_rows ? row0 < n - kRows : row < n;

  float sum = 0.0f;
  if (active) {
    sum = row_dot<T, kThreads, kInFlight, kVector>(A + static_cast<int64_t>(row) * k, x, k, lane);
  }
  if constexpr (kSwapped) {
    // The threads of a row lie in different warps here, so the sum has to go through shared memory.
    __shared__ float partial[kThreads][kRows];
    partial[lane][row_in_block] = sum;
    __syncthreads();  // writers: all threads (partial); readers: the threads with lane == 0
    sum = 0.0f;
    if (lane == 0) {
      for (int i = 0; i < kThreads; ++i) sum += partial[i][row_in_block];
    }
  } else {
    sum = row_sum<kRows, kThreads, kDefect>(sum, row_in_block, lane);
  }
  if (active && lane == 0) y[row] = from_float<T>(sum);
}

// ---- shared_x: O2 -------------------------------------------------------------------------------

/// Block: kRows warps, one a row.
template <typename T, int kRows, int kTileK, Defect kDefect>
__device__ __forceinline__ void gemv_shared_x(const T* A, const T* x, T* y, int n, int k) {
  constexpr int kTileChunks = kTileK / kChunk<T>;
  constexpr int kPerLane = kTileChunks / kWarp;
  static_assert(kTileK % (kChunk<T> * kWarp) == 0, "a tile is whole chunks for every lane");
  __shared__ __align__(16) T x_tile[kTileK];
  uint4* x_chunks = reinterpret_cast<uint4*>(x_tile);                 // [kTileChunks]

  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % kWarp;
  const int row = static_cast<int>(blockIdx.x) * kRows + tid / kWarp;
  const bool active = row < n;
  const bool aligned = k % kChunk<T> == 0;
  const T* a_row = A + static_cast<int64_t>(active ? row : 0) * k;    // [k]

  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += kTileK) {
    uint4 a[kPerLane];
    if (aligned && active) {  // in flight while x is staged
#pragma unroll
      for (int u = 0; u < kPerLane; ++u) {
        const int j = k0 + (lane + u * kWarp) * kChunk<T>;
        a[u] = make_uint4(0, 0, 0, 0);
        if (j < k) a[u] = load_streamed(a_row + j);
      }
    }
    if (aligned) {
      for (int c = tid; c < kTileChunks; c += kRows * kWarp) {
        x_chunks[c] = load_x_chunk(x, k0 + c * kChunk<T>, k);
      }
    } else {
#pragma unroll 1
      for (int j = tid; j < min(kTileK, k - k0); j += kRows * kWarp) x_tile[j] = __ldg(x + k0 + j);
    }
    __syncthreads();  // writers: all threads (x_tile, above); readers: all warps (x_tile, below)
    if (active) {
      if (aligned) {
#pragma unroll
        for (int u = 0; u < kPerLane; ++u) {
          sum = fma_chunk<T>(a[u], x_chunks[lane + u * kWarp], sum);
        }
      } else {
#pragma unroll 4
        for (int j = lane; j < min(kTileK, k - k0); j += kWarp) {
          sum = fmaf(to_float(__ldg(a_row + k0 + j)), to_float(x_tile[j]), sum);
        }
      }
    }
    // Defect missing_barrier. Line changed: the barrier below is left out. A warp that is done with
    // this tile writes the next one over x_tile while a slower warp still reads. From: tiled
    // matrix products that keep the barrier after the load and forget the one before the next.
    // Shows as: race.shared (write after read on x_tile) when k > kTileK, never in the last tile.
    if constexpr (kDefect != Defect::missing_barrier) {
      __syncthreads();  // readers: all warps (x_tile); writers: all threads, next iteration
    }
  }
  sum = warp_sum(sum);
  if (active && lane == 0) y[row] = from_float<T>(sum);
}

// ---- pipelined: O3 ------------------------------------------------------------------------------

/// Block: kRows * kThreads threads. kStages >= 1 tiles of A are held in shared memory.
template <typename T, int kStages, int kRows, int kThreads, int kTileK, Defect kDefect>
__device__ __forceinline__ void gemv_pipelined(const T* A, const T* x, T* y, int n, int k) {
  static_assert(kStages >= 1, "a pipeline needs a stage");
  constexpr int kBlock = kRows * kThreads;
  constexpr int kRowChunks = kTileK / kChunk<T>;
  static_assert(kRowChunks % kThreads == 0 && kRows * kRowChunks % kBlock == 0);
  __shared__ __align__(16) T a_tile[kStages][kRows][kTileK];

  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % kThreads;
  const int row_in_block = tid / kThreads;
  const int row0 = static_cast<int>(blockIdx.x) * kRows;
  const int row = row0 + row_in_block;
  const bool aligned = k % kChunk<T> == 0;
  // Defect dropped_tail. Line changed: the tile count, which was rounded up. The elements of k past
  // the last whole tile are forgotten. From: K loops over K / BLOCK_K. Shows as: tail, wrong in
  // every row, only when k is not a multiple of tile_k.
  const int tiles = kDefect == Defect::dropped_tail ? k / kTileK : (k + kTileK - 1) / kTileK;

  // Requests tile t of A; elements outside A become zeros. One commit group a call, empty or not.
  const auto request_tile = [&](int t) {
    T(&slot)[kRows][kTileK] = a_tile[t % kStages];
    const int k0 = t * kTileK;
    if (t >= tiles) {
      // nothing left to request
    } else if (aligned) {
#pragma unroll
      for (int i = 0; i < kRows * kRowChunks / kBlock; ++i) {
        const int r = (tid + i * kBlock) / kRowChunks;
        const int c = (tid + i * kBlock) % kRowChunks * kChunk<T>;
        const bool inside = row0 + r < n && k0 + c < k;
        const T* source = inside ? A + static_cast<int64_t>(row0 + r) * k + k0 + c : A;
        copy_chunk_async(&slot[r][c], source, inside ? 16 : 0);
      }
    } else {  // rows are not 16-byte aligned: copied by plain loads and stores
#pragma unroll 1
      for (int i = tid; i < kRows * kTileK; i += kBlock) {
        const int r = i / kTileK;
        const int c = i % kTileK;
        const bool inside = row0 + r < n && k0 + c < k;
        slot[r][c] = inside ? __ldg(A + static_cast<int64_t>(row0 + r) * k + k0 + c)
                            : from_float<T>(0.0f);
      }
    }
    commit_copies();
  };

  float sum = 0.0f;
#pragma unroll 1
  for (int t = 0; t < kStages - 1; ++t) request_tile(t);
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    request_tile(t + kStages - 1);  // into the slot that the barrier at the end of t - 1 released
    wait_copies<kStages - 1>();     // this thread's copies of tile t have landed
    __syncthreads();                // writers: all threads' copies of tile t; readers: all, below
    const T(&a_row)[kTileK] = a_tile[t % kStages][row_in_block];
    const int k0 = t * kTileK;
    if (aligned) {
      const uint4* a_chunks = reinterpret_cast<const uint4*>(a_row);  // [kRowChunks]
#pragma unroll
      for (int i = 0; i < kRowChunks / kThreads; ++i) {
        const int c = lane + i * kThreads;
        sum = fma_chunk<T>(a_chunks[c], load_x_chunk(x, k0 + c * kChunk<T>, k), sum);
      }
    } else {
#pragma unroll 4
      for (int j = lane; j < min(kTileK, k - k0); j += kThreads) {
        sum = fmaf(to_float(a_row[j]), to_float(__ldg(x + k0 + j)), sum);
      }
    }
    __syncthreads();  // readers: all threads (slot of t); writer: request_tile of iteration t + 1
  }

  // Defect stage_sentinel. Lines added: the loop below. It is the register path of the version
  // before, kept for stages == 0 behind a condition that was meant to be evaluated while the kernel
  // is generated and was not: its one tile of 256 elements is added to the pipelined sum. From: a
  // num_stages = 0 sentinel (same error in every config; a stale cache was blamed). Shows as:
  // systematic_offset, the same error in every config: y_i + sum over j < min(k, 256) of A_ij x_j.
  if constexpr (kDefect == Defect::stage_sentinel) {
    constexpr int kLeftOverK = 256;
#pragma unroll 1
    for (int j = lane; j < min(k, kLeftOverK) && row < n; j += kThreads) {
      sum = fmaf(to_float(A[static_cast<int64_t>(row) * k + j]), to_float(x[j]), sum);
    }
  }

  sum = row_sum<kRows, kThreads, kDefect>(sum, row_in_block, lane);
  if (row < n && lane == 0) y[row] = from_float<T>(sum);
}

}  // namespace faultline::kernels::gemv

// ---- entries ------------------------------------------------------------------------------------
// Names: gemv_<variant>_<dtype>_<config>; README.md lists them.

#define FAULTLINE_GEMV_ENTRY(NAME, T, BLOCK, BODY)                                        \
  extern "C" __global__ void __launch_bounds__(BLOCK)                                     \
      NAME(const T* __restrict__ A, const T* __restrict__ x, T* __restrict__ y, int32_t n, \
           int32_t k) {                                                                   \
    using enum faultline::kernels::gemv::Defect;                                          \
    faultline::kernels::gemv::BODY(A, x, y, n, k);                                        \
  }

// Two macros so that a template argument list with commas can travel as one argument.
#define FAULTLINE_GEMV_ARGS(...) __VA_ARGS__

// Threads a multiprocessor should hold. Left to itself ptxas aims at full occupancy and, to save
// the registers, uses each load before it issues the next; this leaves room for U of them in
// flight.
#define FAULTLINE_GEMV_RESIDENT(U) ((U) <= 2 ? 1536 : 768)

// register-shaped: rows_per_block R, threads_per_row P, loads in flight U
#define FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, R, P, U)                            \
  FAULTLINE_GEMV_ENTRY(gemv_##VARIANT##_##D##_r##R##_t##P##_u##U, T,                       \
                       FAULTLINE_GEMV_ARGS((R) * (P), FAULTLINE_GEMV_RESIDENT(U) / ((R) * (P))), \
                       FAULTLINE_GEMV_ARGS(gemv_register<T, R, P, U, true, DEFECT>))
#define FAULTLINE_GEMV_ELEMENT(VARIANT, DEFECT, D, T, R, P)                                \
  FAULTLINE_GEMV_ENTRY(gemv_##VARIANT##_##D##_r##R##_t##P##_element, T, (R) * (P),         \
                       FAULTLINE_GEMV_ARGS(gemv_register<T, R, P, 1, false, DEFECT>))
// shared_x-shaped: rows_per_block R, tile_k K
#define FAULTLINE_GEMV_SHARED_X(VARIANT, DEFECT, D, T, R, K)                               \
  FAULTLINE_GEMV_ENTRY(gemv_##VARIANT##_##D##_r##R##_k##K, T, (R) * 32,                    \
                       FAULTLINE_GEMV_ARGS(gemv_shared_x<T, R, K, DEFECT>))
// pipelined-shaped: stages S, rows_per_block R, threads_per_row P, tile_k K
#define FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, S, R, P, K)                        \
  FAULTLINE_GEMV_ENTRY(gemv_##VARIANT##_##D##_s##S##_r##R##_t##P##_k##K, T, (R) * (P),     \
                       FAULTLINE_GEMV_ARGS(gemv_pipelined<T, S, R, P, K, DEFECT>))

#define FAULTLINE_GEMV_TILE_CONFIGS(VARIANT, DEFECT, D, T)      \
  FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, 4, 32, 4)      \
  FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, 2, 64, 4)      \
  FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, 1, 128, 4)     \
  FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, 1, 256, 4)
#define FAULTLINE_GEMV_WIDE_CONFIGS(VARIANT, DEFECT, D, T)      \
  FAULTLINE_GEMV_REGISTER(VARIANT, DEFECT, D, T, 32, 32, 2)     \
  FAULTLINE_GEMV_ELEMENT(VARIANT, DEFECT, D, T, 32, 32)
#define FAULTLINE_GEMV_X_CONFIGS(VARIANT, DEFECT, D, T)         \
  FAULTLINE_GEMV_SHARED_X(VARIANT, DEFECT, D, T, 4, 1024)       \
  FAULTLINE_GEMV_SHARED_X(VARIANT, DEFECT, D, T, 8, 1024)       \
  FAULTLINE_GEMV_SHARED_X(VARIANT, DEFECT, D, T, 8, 2048)
#define FAULTLINE_GEMV_STAGE_CONFIGS(VARIANT, DEFECT, D, T)           \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 1, 1, 128, 2048)    \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 2, 1, 128, 2048)    \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 3, 1, 128, 2048)    \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 1, 4, 32, 512)      \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 2, 4, 32, 512)      \
  FAULTLINE_GEMV_PIPELINED(VARIANT, DEFECT, D, T, 3, 4, 32, 512)

/// The clean entries of one dtype: D is the name in the entries, T the device type.
#define FAULTLINE_GEMV_MODULE(D, T)                       \
  FAULTLINE_GEMV_TILE_CONFIGS(register, none, D, T)       \
  FAULTLINE_GEMV_REGISTER(register, none, D, T, 1, 32, 4)  \
  FAULTLINE_GEMV_REGISTER(register, none, D, T, 1, 128, 2) \
  FAULTLINE_GEMV_REGISTER(register, none, D, T, 1, 128, 7) \
  FAULTLINE_GEMV_WIDE_CONFIGS(register, none, D, T)       \
  FAULTLINE_GEMV_X_CONFIGS(shared_x, none, D, T)          \
  FAULTLINE_GEMV_STAGE_CONFIGS(pipelined, none, D, T)

/// The mutants of one dtype.
#define FAULTLINE_GEMV_MUTANTS_MODULE(D, T)                         \
  FAULTLINE_GEMV_WIDE_CONFIGS(uncoalesced, uncoalesced, D, T)       \
  FAULTLINE_GEMV_TILE_CONFIGS(wrong_config, wrong_config, D, T)     \
  FAULTLINE_GEMV_TILE_CONFIGS(missed_rows, missed_rows, D, T)       \
  FAULTLINE_GEMV_X_CONFIGS(missing_barrier, missing_barrier, D, T)  \
  FAULTLINE_GEMV_STAGE_CONFIGS(dropped_tail, dropped_tail, D, T)    \
  FAULTLINE_GEMV_STAGE_CONFIGS(stage_sentinel, stage_sentinel, D, T)
