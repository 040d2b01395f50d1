// SPDX-License-Identifier: Apache-2.0
//
// One step of the delta rule, gated or not, that reads the state once:
//
//   r = S^T k,  p = S^T q,  u = beta (v - a r),  o = scale (a p + (q.k) u),  S' = a S + k u^T
//   with a = e^g (ungated: 1); the error is measured against the decayed state
//
//   q, k [heads, DK]  v, o [heads, dv]  beta [heads]        T in {__half, __nv_bfloat16, float}
//   g [heads] of float, natural logarithms                  gated entries only, else not read
//   state, new_state [heads, DK, dv]                        S: T or float
//   heads = batch * B * H; DK in {64, 128}; dv a multiple of kColumns; all 16-byte aligned,
//   outputs overlap nothing; grid = heads * dv / kColumns, a head's column tiles next to each other
//
// Clean variants
//   groups  a thread holds one 16-byte chunk of DK / kGroup consecutive rows; the kGroup threads of
//           a lane group share the chunk's columns and split the rows
//   lanes   one warp, one element at a time: kColumns columns, 32 / kColumns lanes a column
// Mutant
//   lane_folded  of lanes; described at `kFolded` below
//
// Numeric plan, both variants, all in fp32 on exact operands: an fma chain over a thread's rows, a
// tree over the lanes of a group in one warp, a serial sum over warps; u = beta * fma(-a, r, v);
// o = scale * fma(q.k, u, a * p); S' = fma(k, u, a * S); one rounding to T or S of each output.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "../common/element.cuh"

namespace faultline::kernels::deltanet::decode {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(T));

/// Consecutive elements, moved as one access of up to 16 bytes.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T element[kCount];
};

/// `count` consecutive elements as floats, in accesses of up to 16 bytes.
template <int kCount, typename T>
__device__ __forceinline__ void load_floats(const T* __restrict__ address, float (&out)[kCount]) {
  constexpr int kStep = kCount < kChunk<T> ? kCount : kChunk<T>;
#pragma unroll
  for (int first = 0; first < kCount; first += kStep) {
    const auto pack = *reinterpret_cast<const Pack<T, kStep>*>(address + first);
#pragma unroll
    for (int j = 0; j < kStep; ++j) out[first + j] = to_float(pack.element[j]);
  }
}

/// The same the other way round: one rounding each.
template <int kCount, typename T>
__device__ __forceinline__ void store_floats(T* __restrict__ address, const float (&in)[kCount]) {
  constexpr int kStep = kCount < kChunk<T> ? kCount : kChunk<T>;
#pragma unroll
  for (int first = 0; first < kCount; first += kStep) {
    Pack<T, kStep> pack;
#pragma unroll
    for (int j = 0; j < kStep; ++j) pack.element[j] = from_float<T>(in[first + j]);
    *reinterpret_cast<Pack<T, kStep>*>(address + first) = pack;
  }
}

/// Sums `value` over the lanes whose numbers differ in the bits of `kFrom`, ..., kWarp / 2.
template <int kFrom>
__device__ __forceinline__ float sum_over_lanes(float value) {
#pragma unroll
  for (int offset = kFrom; offset < kWarp; offset *= 2) {
    value += __shfl_xor_sync(kAllLanes, value, offset);
  }
  return value;
}

/// Sums kCount values over the lanes whose numbers differ in the bits of kOffset, ..., kWarp / 2:
/// in each step half of the values go to either half of the lanes. Afterwards the values 0 to
/// kOwned - 1 of a lane are sums number owned_part() and following, and no other lane has them.
template <int kCount, int kOffset, int kArray>
__device__ __forceinline__ void reduce_scatter(float (&value)[kArray], int lane) {
  if constexpr (kOffset < kWarp) {
    static_assert(kCount > 1, "more lanes than values");
    const bool upper = (lane & kOffset) != 0;
#pragma unroll
    for (int j = 0; j < kCount / 2; ++j) {
      const float kept = upper ? value[j + kCount / 2] : value[j];
      const float sent = upper ? value[j] : value[j + kCount / 2];
      value[j] = kept + __shfl_xor_sync(kAllLanes, sent, kOffset);
    }
    reduce_scatter<kCount / 2, 2 * kOffset>(value, lane);
  }
}

/// Number of the first value whose sum reduce_scatter() leaves in this lane.
template <int kCount, int kOffset>
__device__ __forceinline__ int owned_part(int lane) {
  if constexpr (kOffset < kWarp) {
    return ((lane & kOffset) != 0 ? kCount / 2 : 0) + owned_part<kCount / 2, 2 * kOffset>(lane);
  } else {
    return 0;
  }
}

/// How many sums it leaves there.
template <int kCount, int kOffset>
inline constexpr int kOwned = kCount * kOffset / kWarp;

/// e^g as 2^(g log2 e).
__device__ __forceinline__ float decay_of(float g) { return exp2f(g * 1.4426950408889634f); }

template <typename T, typename S>
struct Arguments {
  const T *q, *k, *v, *beta;
  const float* g;
  const S* state;
  T* o;
  S* new_state;
};

/// Threads of a block of groups().
template <typename S, int kColumns, int kGroup>
inline constexpr int kThreads = kColumns / kChunk<S> * kGroup;

/// Registers: kRows * 4 of state, 2 * kRows of k and q, 2 * kChunk of sums.
template <typename T, typename S, int DK, bool kGated, int kColumns, int kGroup>
__device__ __forceinline__ void groups(const Arguments<T, S>& p, int dv, float scale) {
  constexpr int kElements = kChunk<S>;                   // columns of a chunk
  constexpr int kChunks = kColumns / kElements;          // chunks side by side, in adjacent lanes
  constexpr int kRows = DK / kGroup;                     // rows of a thread
  constexpr int kBlock = kThreads<S, kColumns, kGroup>;
  constexpr int kWarps = kBlock / kWarp;
  static_assert(kChunks <= kWarp && kWarp % kChunks == 0 && kBlock % kWarp == 0 && kRows >= 1);
  static_assert(kWarp / kChunks <= 2 * kElements);

  __shared__ float sums[kWarps][2][kColumns];            // [warp, of k | of q, column]
  __shared__ float products[kWarps];                     // q.k over the rows of a warp

  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int chunk = thread % kChunks, group = thread / kChunks;
  const int tiles = dv / kColumns;
  const int64_t head = blockIdx.x / tiles;
  const int column = static_cast<int>(blockIdx.x % tiles) * kColumns + chunk * kElements;
  const int64_t base = (head * DK + group * kRows) * dv + column;

  // Every load is issued before the first is used.
  Pack<S, kElements> state[kRows];                       // [rows, chunk]
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    state[i] = *reinterpret_cast<const Pack<S, kElements>*>(p.state + base +
                                                            static_cast<int64_t>(i) * dv);
  }
  float k[kRows], q[kRows], v[kElements];
  load_floats(p.k + head * DK + group * kRows, k);
  load_floats(p.q + head * DK + group * kRows, q);
  load_floats(p.v + head * dv + column, v);
  const float beta = to_float(p.beta[head]);
  const float decay = kGated ? decay_of(p.g[head]) : 1.0f;

  float product = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) product = fmaf(q[i], k[i], product);
  product = sum_over_lanes<kChunks>(product);

  float sum[2 * kElements] = {};                         // [of k | of q, column of the chunk]
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      const float s = to_float(state[i].element[j]);
      sum[j] = fmaf(s, k[i], sum[j]);
      sum[kElements + j] = fmaf(s, q[i], sum[kElements + j]);
    }
  }
  reduce_scatter<2 * kElements, kChunks>(sum, lane);
  const int part = owned_part<2 * kElements, kChunks>(lane);
#pragma unroll
  for (int j = 0; j < kOwned<2 * kElements, kChunks>; ++j) {
    sums[warp][(part + j) / kElements][chunk * kElements + (part + j) % kElements] = sum[j];
  }
  if (lane == 0) products[warp] = product;
  __syncthreads();  // writers: all (sums), lanes 0 (products); readers: all

  float update[kElements] = {};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    float of_warp[kElements];
    load_floats(&sums[w][0][chunk * kElements], of_warp);
#pragma unroll
    for (int j = 0; j < kElements; ++j) update[j] += of_warp[j];
  }
#pragma unroll
  for (int j = 0; j < kElements; ++j) update[j] = beta * fmaf(-decay, update[j], v[j]);

#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    float updated[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      updated[j] = fmaf(k[i], update[j], decay * to_float(state[i].element[j]));
    }
    store_floats(p.new_state + base + static_cast<int64_t>(i) * dv, updated);
  }
  if (group == 0) {
    float output[kElements] = {};
    float qk = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      float of_warp[kElements];
      load_floats(&sums[w][1][chunk * kElements], of_warp);
#pragma unroll
      for (int j = 0; j < kElements; ++j) output[j] += of_warp[j];
      qk += products[w];
    }
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      output[j] = scale * fmaf(qk, update[j], decay * output[j]);
    }
    store_floats(p.o + head * dv + column, output);
  }
}

/// kFolded, the defect lane_folded. Lines changed: `first` and `kRows`, which split the rows over
/// the lanes of a column, and the sums over those lanes. The 32 lanes fold onto 8 columns and every
/// lane does the whole of its column, four lanes the same. From: a tile program whose parallel loop
/// over 8 columns was given 32 threads, and whose generated code indexes by threadIdx.x & 7 (1.7
/// times slower, 255 registers against 104). Shows as: right, slow.lane_folded; four times the
/// arithmetic and the registers of its clean twin.
template <typename T, typename S, int DK, bool kGated, bool kFolded>
__device__ __forceinline__ void lanes(const Arguments<T, S>& p, int dv, float scale) {
  constexpr int kColumns = 8;
  constexpr int kGroup = kWarp / kColumns;
  constexpr int kRows = kFolded ? DK : DK / kGroup;

  const int lane = static_cast<int>(threadIdx.x);
  const int group = lane / kColumns;
  const int tiles = dv / kColumns;
  const int64_t head = blockIdx.x / tiles;
  const int column = static_cast<int>(blockIdx.x % tiles) * kColumns + lane % kColumns;
  const int first = kFolded ? 0 : group * kRows;
  const int64_t base = (head * DK + first) * dv + column;

  float state[kRows];                                    // [rows]
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    state[i] = to_float(p.state[base + static_cast<int64_t>(i) * dv]);
  }
  const float beta = to_float(p.beta[head]);
  const float decay = kGated ? decay_of(p.g[head]) : 1.0f;
  float of_k = 0.0f, of_q = 0.0f, qk = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const float k = to_float(p.k[head * DK + first + i]);
    const float q = to_float(p.q[head * DK + first + i]);
    of_k = fmaf(state[i], k, of_k);
    of_q = fmaf(state[i], q, of_q);
    qk = fmaf(q, k, qk);
  }
  if constexpr (!kFolded) {
    of_k = sum_over_lanes<kColumns>(of_k);
    of_q = sum_over_lanes<kColumns>(of_q);
    qk = sum_over_lanes<kColumns>(qk);
  }
  const float update = beta * fmaf(-decay, of_k, to_float(p.v[head * dv + column]));
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const float k = to_float(p.k[head * DK + first + i]);
    p.new_state[base + static_cast<int64_t>(i) * dv] =
        from_float<S>(fmaf(k, update, decay * state[i]));
  }
  if (group == 0) {
    p.o[head * dv + column] = from_float<T>(scale * fmaf(qk, update, decay * of_q));
  }
}

}  // namespace faultline::kernels::deltanet::decode

// clang-format off
#define FAULTLINE_DELTA_DECODE_PARAMETERS(T, S)                                                    \
  const T *__restrict__ q, const T *__restrict__ k, const T *__restrict__ v,                       \
      const T *__restrict__ beta, const float *__restrict__ g, const S *__restrict__ state,        \
      T *__restrict__ o, S *__restrict__ new_state, int32_t dv, float scale

// D and SD are the names of T and S in the entries.
#define FAULTLINE_DELTA_GROUPS(NAME, GATED, D, T, SD, S, DK, COLUMNS, GROUP)                       \
  extern "C" __global__ void __launch_bounds__(                                                    \
      (faultline::kernels::deltanet::decode::kThreads<S, COLUMNS, GROUP>))                         \
      NAME##_groups_v##COLUMNS##_g##GROUP##_##D##_##SD##_dk##DK(                                   \
          FAULTLINE_DELTA_DECODE_PARAMETERS(T, S)) {                                               \
    namespace decode = faultline::kernels::deltanet::decode;                                       \
    decode::groups<T, S, DK, GATED, COLUMNS, GROUP>(                                               \
        {q, k, v, beta, g, state, o, new_state}, dv, scale);                                       \
  }

#define FAULTLINE_DELTA_LANES(NAME, VARIANT, FOLDED, GATED, D, T, SD, S, DK)                       \
  extern "C" __global__ void __launch_bounds__(32) NAME##_##VARIANT##_##D##_##SD##_dk##DK(         \
      FAULTLINE_DELTA_DECODE_PARAMETERS(T, S)) {                                                   \
    faultline::kernels::deltanet::decode::lanes<T, S, DK, GATED, FOLDED>(                          \
        {q, k, v, beta, g, state, o, new_state}, dv, scale);                                       \
  }
// clang-format on

#define FAULTLINE_DELTA_DECODE_OF_DK(NAME, GATED, D, T, SD, S, DK)   \
  FAULTLINE_DELTA_GROUPS(NAME, GATED, D, T, SD, S, DK, 16, 16)       \
  FAULTLINE_DELTA_GROUPS(NAME, GATED, D, T, SD, S, DK, 32, 16)       \
  FAULTLINE_DELTA_GROUPS(NAME, GATED, D, T, SD, S, DK, 32, 32)       \
  FAULTLINE_DELTA_GROUPS(NAME, GATED, D, T, SD, S, DK, 64, 16)       \
  FAULTLINE_DELTA_LANES(NAME, lanes, false, GATED, D, T, SD, S, DK)

/// The clean entries of one dtype of the vectors and one of the state.
#define FAULTLINE_DELTA_DECODE_MODULE(D, T, SD, S)                               \
  FAULTLINE_DELTA_DECODE_OF_DK(deltanet_decode, false, D, T, SD, S, 64)          \
  FAULTLINE_DELTA_DECODE_OF_DK(deltanet_decode, false, D, T, SD, S, 128)         \
  FAULTLINE_DELTA_DECODE_OF_DK(gated_deltanet_decode, true, D, T, SD, S, 64)     \
  FAULTLINE_DELTA_DECODE_OF_DK(gated_deltanet_decode, true, D, T, SD, S, 128)

/// The mutants.
#define FAULTLINE_DELTA_DECODE_MUTANTS_MODULE(D, T, SD, S)                                     \
  FAULTLINE_DELTA_LANES(deltanet_decode, lane_folded, true, false, D, T, SD, S, 64)            \
  FAULTLINE_DELTA_LANES(deltanet_decode, lane_folded, true, false, D, T, SD, S, 128)           \
  FAULTLINE_DELTA_LANES(gated_deltanet_decode, lane_folded, true, true, D, T, SD, S, 64)       \
  FAULTLINE_DELTA_LANES(gated_deltanet_decode, lane_folded, true, true, D, T, SD, S, 128)
