// SPDX-License-Identifier: Apache-2.0
//
// One decode step of gated linear attention (GLA), for every (batch, head) pair on its own:
//
//   S' = diag(e^gk) S + k v^T            o = scale * S'^T q
//
//   q, k, gk [B, H, DK]   v, o [B, H, DV]   S = state, S' = new_state [B, H, DK, DV], row = one k
//   index; all in one dtype T in {__nv_bfloat16, __half, float}; gk is a natural logarithm.
//   preconditions: DK a multiple of 16, 16 <= DK <= 256 (run time); DV in {64, 128} (template);
//   every pointer 16-byte aligned; outputs do not overlap inputs; B * H * DK < 2^31; sm_90a but for
//   `serial`
//   grid = B * H blocks (trials batched in one grid are more blocks), block = 256, no dynamic
//   shared memory; arguments (q, k, v, gk, state, o, new_state, int32 dk, float scale), and for
//   tensor copies a tenth, const __grid_constant__ CUtensorMap state_map (README.md: geometry)
//
// Two passes over the state, each a pipeline of tiles of 16 rows through two stages:
//   pass 1   o = scale * S^T (e^gk q) + scale * (q.k) v     which needs S before the update only
//   pass 2   S' row by row
// Threads 0..127 are the consumer warpgroup, threads 128..255 the producer warpgroup. Per stage and
// pass there are two mbarriers:
//   full    arrivals: the producer(s), plus the bytes of the copy; waited on by: every consumer
//   empty   arrivals: all 128 consumers;                           waited on by: the producer(s)
//
// Template parameters of the pipelined kernel
//   Copy      bulk: cp.async.bulk, 1-D, rows as in memory
//             tensor: cp.async.bulk.tensor.2d, panels of 128-byte rows, 128-byte swizzle
//   Producer  warpgroup: one thread copies, 16 threads fill q_tile, all 128 arrive
//             thread: one thread copies and arrives, the consumers fill q_tile
//   Consumer  mma: ldmatrix + mma.m16n8k16 (16-bit T)           scalar: shared loads + fma (any T)
//   Defect    none or one mutant: each is one `kDefect ==` or `!=` line below, described there
// `serial` is the definition without pipeline or asynchronous copy.
//
// Numeric plan
//   pipelined  a_i = exp2(gk_i * log2 e) in fp32; q_i * a_i rounded to T (q_tile); acc_j = sum_i
//              q_tile_i S_ij in fp32 (mma: 16 products a step, tile by tile; scalar: an fma chain);
//              q.k in fp32 over DK; o_j = T(scale * acc_j + (scale * q.k) * v_j)
//   serial     o_j = T(scale * sum_i q_i u_ij) in fp32 with u_ij unrounded
//   both       u_ij = fma(k_i, v_j, a_i * S_ij) in fp32, S'_ij = T(u_ij)
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "../common/element.cuh"
#include "../common/ptx.cuh"

namespace faultline::kernels::gla_decode {

enum class Copy { bulk, tensor };
enum class Producer { warpgroup, thread };
enum class Consumer { mma, scalar };
enum class Defect { none, shared_buffer, early_release };

constexpr int kWarp = 32;
constexpr int kWarpgroup = 128;
constexpr int kBlock = 2 * kWarpgroup;
constexpr int kTileRows = 16;
constexpr int kStages = 2;
constexpr int kMaxDk = 256;
constexpr float kLog2E = 1.4426950408889634f;

// Named barriers; 0 is __syncthreads.
constexpr int kProducersBarrier = 1;
constexpr int kConsumersBarrier = 2;

// ---- elements -----------------------------------------------------------------------------------

/// e^gate
template <typename T>
__device__ __forceinline__ float decay(T gate) {
  return exp2f(to_float(gate) * kLog2E);
}

/// 16 bytes as elements.
template <typename T>
union Chunk {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  uint4 bits;
  T element[kSize];
  __device__ Chunk() {}
};

// ---- tile layout --------------------------------------------------------------------------------

/// How a tile [kTileRows, kDv] of T lies in shared memory.
template <typename T, int kDv, Copy kCopy>
struct TileLayout {
  static constexpr int kRowBytes = kDv * static_cast<int>(sizeof(T));
  static constexpr int kBytes = kTileRows * kRowBytes;
  static constexpr int kChunksPerRow = kRowBytes / 16;
  // tensor: the tile is split in panels of 128-byte rows, one box of the map each.
  static constexpr int kPanelRowBytes = 128;
  static constexpr int kPanels = kRowBytes / kPanelRowBytes;
  static constexpr int kPanelBytes = kTileRows * kPanelRowBytes;
  static constexpr int kPanelColumns = kPanelRowBytes / static_cast<int>(sizeof(T));

  /// Byte offset of 16-byte chunk `chunk` of row `row`.
  static __device__ __forceinline__ int offset(int row, int chunk) {
    if constexpr (kCopy == Copy::bulk) {
      return row * kRowBytes + chunk * 16;
    } else {
      const int panel = chunk / 8;
      const int swizzled = (chunk % 8) ^ (row % 8);  // CU_TENSOR_MAP_SWIZZLE_128B
      return panel * kPanelBytes + row * kPanelRowBytes + swizzled * 16;
    }
  }
};

// ---- the pipelined kernel -----------------------------------------------------------------------

template <typename T, int kDv, Copy kCopy, Producer kProducer, Consumer kConsumer, Defect kDefect>
__device__ __forceinline__ void gla_decode_pipelined(
    const T* q, const T* k, const T* v, const T* gk, const T* state, T* o, T* new_state, int dk,
    float scale, const CUtensorMap* state_map) {
  using Layout = TileLayout<T, kDv, kCopy>;
  static_assert(kConsumer == Consumer::scalar || sizeof(T) == 2, "mma takes 16-bit elements");
  static_assert(kDefect != Defect::early_release || kConsumer == Consumer::mma,
                "scalar loads return before their fma, which precedes the arrive");
  constexpr int kFullArrivals = kProducer == Producer::warpgroup ? kWarpgroup : 1;
  constexpr int kQRows = kConsumer == Consumer::mma ? 16 : 1;  // rows of the mma's A; 1.. are zeros
  constexpr int kQStride = kTileRows;
  constexpr int kPartials = kConsumer == Consumer::mma ? 1 : kWarpgroup / kDv;

  // 1024: the period of the 128-byte swizzle.
  __shared__ __align__(1024) unsigned char state_tile[kStages][Layout::kBytes];        // pass 1
  __shared__ __align__(1024) unsigned char state_tile_pass2[kStages][Layout::kBytes];  // pass 2
  __shared__ __align__(128) T q_tile[kStages][kQRows * kQStride];  // row 0: T(q * e^gk) of the tile
  __shared__ __align__(16) T q_all[kProducer == Producer::thread ? kMaxDk : 1];        // [dk]
  __shared__ float v_row[kDv];
  __shared__ float o_partial[kPartials * kDv];                     // [kPartials, kDv]
  __shared__ __align__(8) uint64_t full[kStages];                  // pass 1
  __shared__ __align__(8) uint64_t empty[kStages];
  __shared__ __align__(8) uint64_t full2[kStages];                 // pass 2
  __shared__ __align__(8) uint64_t empty2[kStages];

  // Defect shared_buffer. Line changed: this choice, which was state_tile_pass2. Pass 2 loads its
  // tiles into pass 1's two stages, behind barriers of its own that start empty, so nothing orders
  // its first copies after pass 1's last reads and loads of the same slot. From: a GLA decode
  // kernel whose two software pipelines named one buffer. Shows as: race.async, intermittent. Write
  // after read: pass 2's tile lands before pass 1's consumer has read, o wrong. Write after write:
  // pass 1's late last tile lands on top of pass 2's tile, new_state tile 1 carries the data of the
  // last tile in that slot (tile 3 at dk = 64).
  auto& pass2_tile = kDefect == Defect::shared_buffer ? state_tile : state_tile_pass2;

  const int tid = static_cast<int>(threadIdx.x);
  const int tiles = dk / kTileRows;
  const int64_t bh = blockIdx.x;
  const int map_row = static_cast<int>(blockIdx.x) * dk;           // of this state in the map
  q += bh * dk;                                                    // [dk]
  k += bh * dk;                                                    // [dk]
  gk += bh * dk;                                                   // [dk]
  v += bh * kDv;                                                   // [kDv]
  o += bh * kDv;                                                   // [kDv]
  state += bh * dk * kDv;                                          // [dk, kDv]
  new_state += bh * dk * kDv;                                      // [dk, kDv]

  if (tid == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], kFullArrivals);
      mbarrier_init(&empty[s], kWarpgroup);
      mbarrier_init(&full2[s], kFullArrivals);
      mbarrier_init(&empty2[s], kWarpgroup);
    }
    fence_mbarrier_init();  // writer: thread 0 (barriers); readers: the copies' completions
    fence_proxy_async();
  }
  for (int i = tid; i < kStages * kQRows * kQStride; i += kBlock) {
    (&q_tile[0][0])[i] = from_float<T>(0.0f);
  }
  if (tid < kDv) v_row[tid] = to_float(v[tid]);
  __syncthreads();  // writers: thread 0 (barriers), all (q_tile, v_row); readers: all

  // Requests tile kt of the state into `slot`, to complete on `barrier`.
  const auto request_tile = [&](unsigned char* slot, int kt, uint64_t* barrier) {
    mbarrier_expect(barrier, Layout::kBytes);
    if constexpr (kCopy == Copy::bulk) {
      copy_bulk(slot, state + kt * kTileRows * kDv, Layout::kBytes, barrier);
    } else {
#pragma unroll
      for (int panel = 0; panel < Layout::kPanels; ++panel) {
        copy_box(slot + panel * Layout::kPanelBytes, state_map, panel * Layout::kPanelColumns,
                    map_row + kt * kTileRows, barrier);
      }
    }
  };

  if (tid >= kWarpgroup) {  // -------------------------------------------------- producer warpgroup
    const int producer = tid - kWarpgroup;
    if (kProducer == Producer::thread && producer != 0) return;

#pragma unroll 1
    for (int kt = 0; kt < tiles; ++kt) {  // pass 1
      const int stage = kt % kStages;
      const int round = kt / kStages;
      mbarrier_wait(&empty[stage], (round & 1) ^ 1);  // arrivals: consumers; round 0 passes
      if (producer == 0) request_tile(state_tile[stage], kt, &full[stage]);
      if (kProducer == Producer::warpgroup && producer < kTileRows) {
        const int i = kt * kTileRows + producer;
        q_tile[stage][producer] = from_float<T>(to_float(q[i]) * decay(gk[i]));
      }
      mbarrier_arrive(&full[stage]);  // writers: copy (state_tile), producers (q_tile); readers:
                                      // consumers
    }

    // The only ordering between the passes on this side: producers with producers. Pass 2 may start
    // to load while the consumers are still in pass 1; with buffers and barriers of its own it may.
    if constexpr (kProducer == Producer::warpgroup) {
      named_barrier_sync(kProducersBarrier, kWarpgroup);
    }

#pragma unroll 1
    for (int kt = 0; kt < tiles; ++kt) {  // pass 2
      const int stage = kt % kStages;
      const int round = kt / kStages;
      mbarrier_wait(&empty2[stage], (round & 1) ^ 1);  // arrivals: consumers; round 0 passes
      if (producer == 0) request_tile(pass2_tile[stage], kt, &full2[stage]);
      mbarrier_arrive(&full2[stage]);  // writer: copy (pass2_tile); readers: consumers
    }
    return;
  }

  // ---------------------------------------------------------------------------- consumer warpgroup
  const int warp = tid / kWarp;
  const int lane = tid % kWarp;

  if constexpr (kProducer == Producer::thread) {
    for (int i = tid; i < dk; i += kWarpgroup) {
      q_all[i] = from_float<T>(to_float(q[i]) * decay(gk[i]));
    }
    named_barrier_sync(kConsumersBarrier, kWarpgroup);  // writers, readers: consumers (q_all)
  }

  // Pass 1's release of a slot that this thread has read.
  const auto release_slot = [&](uint32_t empty_barrier) {
    // Defect early_release. Line changed: the fence below is left out. Nothing then makes the
    // arrive wait for the ldmatrix before it, since only the mma uses their registers: the next
    // copy can land in the slot while reads of it are queued. From: warp-specialised kernels that
    // trust the mbarrier alone to order a generic read before an asynchronous write. Shows as:
    // race.async, rare (under memory traffic), o wrong in groups of 16 columns, tile t replaced by
    // tile t + 2.
    if constexpr (kDefect != Defect::early_release) {
      fence_proxy_async();  // readers: consumers (state_tile); writer: the copy that refills it
    }
    mbarrier_arrive(empty_barrier);  // readers: consumers (state_tile, q_tile); to the producers
  };

  // mma: warp w owns columns w * kDv/4 .. ; one ldmatrix.trans gives B of two n8 tiles.
  constexpr int kPairs = kDv / 64;
  float acc[2 * kPairs][4] = {};
  float acc_scalar = 0.0f;

#pragma unroll 1
  for (int kt = 0; kt < tiles; ++kt) {  // pass 1
    const int stage = kt % kStages;
    const int round = kt / kStages;
    if constexpr (kProducer == Producer::thread) {
      if (tid < kTileRows) q_tile[stage][tid] = q_all[kt * kTileRows + tid];
      // writers: consumers 0..15 (q_tile); readers: all consumers. The slot's last readers, of tile
      // kt - 2, are past this barrier of tile kt - 1.
      named_barrier_sync(kConsumersBarrier, kWarpgroup);
    }
    // Ahead of the wait, so that the release follows the loads at once. With the address still to
    // be computed ptxas issues the mma first, which waits for the loads and hides early_release.
    const uint32_t empty_barrier = shared_address(&empty[stage]);
    mbarrier_wait(&full[stage], round & 1);  // writers: copy (state_tile), producers (q_tile)
    if constexpr (kConsumer == Consumer::mma) {
      const int matrix = lane / 8;  // the 8x8 matrix whose row address this lane gives
      const int row = matrix % 2 * 8 + lane % 8;
      uint32_t a[4];                                               // q_tile [16, 16], row 0 in use
      ldmatrix(a, shared_address(&q_tile[stage][row * kQStride + matrix / 2 * 8]));
      uint32_t b[kPairs][4];                                       // state_tile [16, 16] a pair
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const int chunk = (warp * kPairs + p) * 2 + matrix / 2;
        ldmatrix_trans(b[p], shared_address(state_tile[stage] + Layout::offset(row, chunk)));
      }
      release_slot(empty_barrier);  // the operands are in registers: refill the slot under the mma
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        mma<T>(acc[2 * p], a, b[p][0], b[p][1]);
        mma<T>(acc[2 * p + 1], a, b[p][2], b[p][3]);
      }
    } else {
      // Thread: one column, kTileRows / kPartials rows of it.
      const int column = tid % kDv;
      const int first_row = tid / kDv * (kTileRows / kPartials);
#pragma unroll
      for (int r = 0; r < kTileRows / kPartials; ++r) {
        const int row = first_row + r;
        const T* chunk = reinterpret_cast<const T*>(
            state_tile[stage] + Layout::offset(row, column / Chunk<T>::kSize));
        acc_scalar = fmaf(to_float(chunk[column % Chunk<T>::kSize]), to_float(q_tile[stage][row]),
                          acc_scalar);
      }
      release_slot(empty_barrier);
    }
  }

  // The only ordering between the passes on this side: consumers with consumers.
  named_barrier_sync(kConsumersBarrier, kWarpgroup);
  if constexpr (kConsumer == Consumer::mma) {
    if (lane < 4) {  // row 0 of C: lanes 0..3 hold columns 2 * lane, 2 * lane + 1 of every n8 tile
#pragma unroll
      for (int t = 0; t < 2 * kPairs; ++t) {
        const int column = warp * (kDv / 4) + t * 8 + 2 * lane;
        o_partial[column] = acc[t][0];
        o_partial[column + 1] = acc[t][1];
      }
    }
  } else {
    o_partial[tid] = acc_scalar;                                   // [tid / kDv, tid % kDv]
  }
  named_barrier_sync(kConsumersBarrier, kWarpgroup);  // writers, readers: consumers (o_partial)

  float qk = 0.0f;  // q . k, in every warp
  for (int i = lane; i < dk; i += kWarp) qk = fmaf(to_float(q[i]), to_float(k[i]), qk);
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) qk += __shfl_xor_sync(0xffffffffu, qk, step);
  if (tid < kDv) {
    float sum = o_partial[tid];
    if constexpr (kPartials == 2) sum += o_partial[kDv + tid];
    o[tid] = from_float<T>(fmaf(scale * qk, v_row[tid], scale * sum));
  }

#pragma unroll 1
  for (int kt = 0; kt < tiles; ++kt) {  // pass 2
    const int stage = kt % kStages;
    const int round = kt / kStages;
    mbarrier_wait(&full2[stage], round & 1);  // writer: copy (pass2_tile)
#pragma unroll
    for (int i = 0; i < kTileRows * Layout::kChunksPerRow / kWarpgroup; ++i) {
      const int index = tid + i * kWarpgroup;                      // of a chunk in the tile
      const int row = index / Layout::kChunksPerRow;
      const int chunk = index % Layout::kChunksPerRow;
      const int key = kt * kTileRows + row;
      Chunk<T> s;
      s.bits = *reinterpret_cast<const uint4*>(pass2_tile[stage] + Layout::offset(row, chunk));
      const float a = decay(gk[key]);
      const float kk = to_float(k[key]);
#pragma unroll
      for (int e = 0; e < Chunk<T>::kSize; ++e) {
        const float vv = v_row[chunk * Chunk<T>::kSize + e];
        s.element[e] = from_float<T>(fmaf(kk, vv, a * to_float(s.element[e])));
      }
      reinterpret_cast<uint4*>(new_state + static_cast<int64_t>(key) * kDv)[chunk] = s.bits;
    }
    fence_proxy_async();              // the reads above before the copy that refills the slot
    mbarrier_arrive(&empty2[stage]);  // readers: consumers (pass2_tile); to the producers
  }
}

// ---- the serial kernel --------------------------------------------------------------------------

/// The definition: a thread owns one column, and every kGroups-th row of it.
template <typename T, int kDv>
__device__ __forceinline__ void gla_decode_serial(const T* q, const T* k, const T* v, const T* gk,
                                                  const T* state, T* o, T* new_state, int dk,
                                                  float scale) {
  constexpr int kGroups = kBlock / kDv;
  __shared__ float o_partial[kGroups][kDv];
  const int column = static_cast<int>(threadIdx.x) % kDv;
  const int group = static_cast<int>(threadIdx.x) / kDv;
  const int64_t bh = blockIdx.x;
  const float vv = to_float(v[bh * kDv + column]);
  float sum = 0.0f;
  for (int i = group; i < dk; i += kGroups) {
    const int64_t key = bh * dk + i;
    const float s = to_float(state[key * kDv + column]);
    const float updated = fmaf(to_float(k[key]), vv, decay(gk[key]) * s);
    new_state[key * kDv + column] = from_float<T>(updated);
    sum = fmaf(to_float(q[key]), updated, sum);
  }
  o_partial[group][column] = sum;
  __syncthreads();  // writers: all (o_partial); readers: the first kDv threads
  if (group == 0) {
    sum = 0.0f;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) sum += o_partial[g][column];
    o[bh * kDv + column] = from_float<T>(scale * sum);
  }
}

}  // namespace faultline::kernels::gla_decode

// ---- entries ------------------------------------------------------------------------------------
// Names: gla_decode_<variant>_<copy>_<producer>_<dtype>_dv<dv>, gla_decode_serial_<dtype>_dv<dv>.

// clang-format off
#define FAULTLINE_GLA_SERIAL(D, T, DV)                                                             \
  extern "C" __global__ void __launch_bounds__(256) gla_decode_serial_##D##_dv##DV(                \
      const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,                   \
      const T* __restrict__ gk, const T* __restrict__ state, T* __restrict__ o,                    \
      T* __restrict__ new_state, int32_t dk, float scale) {                                        \
    faultline::kernels::gla_decode::gla_decode_serial<T, DV>(q, k, v, gk, state, o, new_state, dk, \
                                                             scale);                               \
  }

#define FAULTLINE_GLA_BULK(VARIANT, CONSUMER, DEFECT, PRODUCER, D, T, DV)                          \
  extern "C" __global__ void __launch_bounds__(256)                                                \
      gla_decode_##VARIANT##_bulk_##PRODUCER##_##D##_dv##DV(                                       \
          const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,               \
          const T* __restrict__ gk, const T* __restrict__ state, T* __restrict__ o,                \
          T* __restrict__ new_state, int32_t dk, float scale) {                                    \
    namespace gla = faultline::kernels::gla_decode;                                                \
    gla::gla_decode_pipelined<T, DV, gla::Copy::bulk, gla::Producer::PRODUCER,                     \
                              gla::Consumer::CONSUMER, gla::Defect::DEFECT>(                       \
        q, k, v, gk, state, o, new_state, dk, scale, nullptr);                                     \
  }

#define FAULTLINE_GLA_TENSOR(VARIANT, CONSUMER, DEFECT, PRODUCER, D, T, DV)                        \
  extern "C" __global__ void __launch_bounds__(256)                                                \
      gla_decode_##VARIANT##_tensor_##PRODUCER##_##D##_dv##DV(                                     \
          const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,               \
          const T* __restrict__ gk, const T* __restrict__ state, T* __restrict__ o,                \
          T* __restrict__ new_state, int32_t dk, float scale,                                      \
          const __grid_constant__ CUtensorMap state_map) {                                         \
    namespace gla = faultline::kernels::gla_decode;                                                \
    gla::gla_decode_pipelined<T, DV, gla::Copy::tensor, gla::Producer::PRODUCER,                   \
                              gla::Consumer::CONSUMER, gla::Defect::DEFECT>(                       \
        q, k, v, gk, state, o, new_state, dk, scale, &state_map);                                  \
  }
// clang-format on

// Both copies, both producers, both dv of one variant.
#define FAULTLINE_GLA_VARIANT(VARIANT, CONSUMER, DEFECT, D, T)             \
  FAULTLINE_GLA_BULK(VARIANT, CONSUMER, DEFECT, warpgroup, D, T, 64)       \
  FAULTLINE_GLA_BULK(VARIANT, CONSUMER, DEFECT, warpgroup, D, T, 128)      \
  FAULTLINE_GLA_BULK(VARIANT, CONSUMER, DEFECT, thread, D, T, 64)          \
  FAULTLINE_GLA_BULK(VARIANT, CONSUMER, DEFECT, thread, D, T, 128)         \
  FAULTLINE_GLA_TENSOR(VARIANT, CONSUMER, DEFECT, warpgroup, D, T, 64)     \
  FAULTLINE_GLA_TENSOR(VARIANT, CONSUMER, DEFECT, warpgroup, D, T, 128)    \
  FAULTLINE_GLA_TENSOR(VARIANT, CONSUMER, DEFECT, thread, D, T, 64)        \
  FAULTLINE_GLA_TENSOR(VARIANT, CONSUMER, DEFECT, thread, D, T, 128)

/// The clean entries of a 16-bit dtype: D is the name in the entries, T the device type.
#define FAULTLINE_GLA_MODULE_16BIT(D, T)              \
  FAULTLINE_GLA_SERIAL(D, T, 64)                      \
  FAULTLINE_GLA_SERIAL(D, T, 128)                     \
  FAULTLINE_GLA_VARIANT(pipelined, mma, none, D, T)   \
  FAULTLINE_GLA_VARIANT(scalar, scalar, none, D, T)

/// The mutants of a 16-bit dtype.
#define FAULTLINE_GLA_MUTANTS_MODULE_16BIT(D, T)                           \
  FAULTLINE_GLA_VARIANT(shared_buffer, mma, shared_buffer, D, T)           \
  FAULTLINE_GLA_VARIANT(shared_buffer_scalar, scalar, shared_buffer, D, T) \
  FAULTLINE_GLA_VARIANT(early_release, mma, early_release, D, T)

/// fp32: the consumer of every variant is scalar, so early_release does not exist.
#define FAULTLINE_GLA_MODULE_32BIT(D, T)                \
  FAULTLINE_GLA_SERIAL(D, T, 64)                        \
  FAULTLINE_GLA_SERIAL(D, T, 128)                       \
  FAULTLINE_GLA_VARIANT(pipelined, scalar, none, D, T)  \
  FAULTLINE_GLA_VARIANT(scalar, scalar, none, D, T)

#define FAULTLINE_GLA_MUTANTS_MODULE_32BIT(D, T)                           \
  FAULTLINE_GLA_VARIANT(shared_buffer, scalar, shared_buffer, D, T)        \
  FAULTLINE_GLA_VARIANT(shared_buffer_scalar, scalar, shared_buffer, D, T)
