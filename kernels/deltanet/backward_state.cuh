// SPDX-License-Identifier: Apache-2.0
//
// Backward, second and third launch: the recurrence from the last chunk to the first, which gives
// dU and the gradient of every state, and how it is cut into segments; backward.cuh says why.
#pragma once

#include "accumulators.cuh"
#include "backward_defect.hpp"
#include "backward_layout.hpp"

namespace faultline::kernels::deltanet {

/// What `state` and `segments` read and write beside their tiles.
template <typename T>
struct StateBuffers {
  const float* decays;
  const float* dhT;
  T* transitions;    ///< [B H, segments, DK, DK], [j][i] = N_ij of a segment
  float* constants;  ///< [B H, segments, DV / 16, DK / 8, 32, 4]: accumulators as they stand
  float* factors;    ///< [B H, segments]: gamma of a segment
  float* dh0;
};

/// Maps {columns, T, B H} with boxes {64, C, 1}; transitions {DK, DK, B H segments}, {64, DK, 1}.
/// To write: dh [B, H, N, DK, DV] as {DV, DK, B H N}, {16, DK, 1}; du [B, H, T, DV] with {16, C,
/// 1}.
struct StateMaps {
  const CUtensorMap* k;
  const CUtensorMap* w;
  const CUtensorMap* q;
  const CUtensorMap* d_o;
  const CUtensorMap* du_partial;
  const CUtensorMap* transitions;
  const CUtensorMap* dh;
  const CUtensorMap* du;
};

/// A warp's 16 columns of a tile on their way to memory: rows of 32 bytes.
struct ColumnSlice {
  unsigned char* bytes;

  /// 16 rows from `row` on, of which `transposed` is the A fragment of the transpose.
  __device__ __forceinline__ void put(int row, const uint32_t (&transposed)[4]) const {
    const int at = row + lane_id() % 8 + lane_id() / 16 * 8;
    stmatrix_trans(shared_address(bytes) + at * (kStateColumns * 2) + lane_id() / 8 % 2 * 16,
                   transposed[0], transposed[1], transposed[2], transposed[3]);
  }
};

template <typename T, int DK, int DV, int C, BackwardDefect kDefect>
struct StateKernel {
  using Chunk = Tile<C>;
  using Buffers = StateBuffers<T>;
  static constexpr StateLayout kLayout{C, DK, DV};
  static constexpr int kKey = tile_bytes(C, DK), kValue = tile_bytes(C, DV);
  static constexpr int kDecayBytes = decay_record(C) * 4, kDecays = kLayout.decay_offset();
  static constexpr int kStage = kLayout.stage_bytes();
  static constexpr int kTransition = tile_bytes(DK, DK);
  static_assert(kTransition <= 2 * kStage && kDecayBytes <= 1024);
  static constexpr int kSegmentsThreads = kLayout.segments_threads();
  static constexpr int kStateThreads = kLayout.state_threads();

  /// The accumulators of a warp: 16 columns of a state, transposed.
  using Columns = float (&)[DK / 8][4];
  using Operand = uint32_t (&)[DK / 16][4];

  /// The chunks of a segment, last to first, through two stages.
  struct Pipeline {
    unsigned char* stages;
    uint64_t* full;  ///< [2]; arrivals: thread 0 and the bytes of a chunk's tiles; waited on by all
    int head, begin, end;
    bool inputs;  ///< else K, W and the decays alone
    const BackwardShape& shape;

    __device__ __forceinline__ unsigned char* stage(int chunk) const {
      return stages + (end - 1 - chunk) % 2 * kStage;
    }
    /// By one thread.
    __device__ __forceinline__ void load(int chunk, const StateMaps& maps,
                                         const float* decays) const {
      unsigned char* to = stage(chunk);
      uint64_t* barrier = full + (end - 1 - chunk) % 2;
      mbarrier_arrive_expect(barrier, 2 * kKey + (inputs ? kKey + 2 * kValue : 0) +
                                          (shape.gated ? kDecayBytes : 0));
      copy_tile<C>(to, maps.k, DK, chunk * C, head, barrier);
      copy_tile<C>(to + kKey, maps.w, DK, chunk * C, head, barrier);
      if (inputs) {
        copy_tile<C>(to + 2 * kKey, maps.q, DK, chunk * C, head, barrier);
        copy_tile<C>(to + 3 * kKey, maps.d_o, DV, chunk * C, head, barrier);
        copy_tile<C>(to + 3 * kKey + kValue, maps.du_partial, DV, chunk * C, head, barrier);
      }
      if (shape.gated) {
        copy_bulk(to + kDecays,
                  decays + (static_cast<int64_t>(head) * shape.chunks + chunk) * decay_record(C),
                  kDecayBytes, barrier);
      }
    }
    /// By all threads: the tiles of `chunk` are there, those of the chunk before it on their way.
    __device__ __forceinline__ void advance(int chunk, const StateMaps& maps,
                                            const float* decays) const {
      fence_proxy_async();  // this thread's accesses to the other stage before its next copies
      __syncthreads();      // readers of the other stage: all; its next writers: copies by thread 0
      if (threadIdx.x == 0 && chunk > begin) load(chunk - 1, maps, decays);
      mbarrier_wait(full + (end - 1 - chunk) % 2, (end - 1 - chunk) / 2 % 2);
    }
  };

  static __device__ __forceinline__ void init(uint64_t* full) {
    if (threadIdx.x == 0) {
      mbarrier_init(&full[0], 1);
      mbarrier_init(&full[1], 1);
      fence_mbarrier_init();
    }
    __syncthreads();  // writer: thread 0; readers: all
  }

  static __device__ __forceinline__ void round(Operand operand, const float (&s)[DK / 8][4]) {
#pragma unroll
    for (int d = 0; d < DK / 16; ++d) as_operand<T>(operand[d], s[2 * d], s[2 * d + 1]);
  }

  /// Back over one chunk: `s` is dh'^T on entry and dh^T on return, `operand` dh'^T rounded. Gives
  /// dU^T of the chunk. `column` is the warp's first.
  static __device__ __forceinline__ void step(Columns s, const uint32_t (&operand)[DK / 16][4],
                                              uint32_t (&du)[C / 16][4], unsigned char* stage,
                                              int column, bool inputs, bool gated, float scale) {
    const Chunk k{shared_address(stage)}, w{k.base + kKey}, q{w.base + kKey}, d_o{q.base + kKey},
        du_partial{d_o.base + kValue};
    const float* decays = reinterpret_cast<const float*>(stage + kDecays);
    const int pair = lane_id() % 4 * 2;

    float sum[C / 8][4] = {};  // dh'^T [16, DK] K^T [DK, C]
    if (!lacks(kDefect, BackwardDefect::du_corr)) {
#pragma unroll
      for (int d = 0; d < DK; d += 16) {
#pragma unroll
        for (int n = 0; n < C; n += 16) {
          uint32_t b[4];
          k.load_b_trans(b, d, n);
          mma_pair<T>(sum[n / 8], sum[n / 8 + 1], operand[d / 16], b);
        }
      }
    }
    uint32_t partial[C / 16][4];  // du_partial^T [16, C]
#pragma unroll
    for (int n = 0; n < C; n += 16) {
      uint32_t(&local)[4] = partial[n / 16];
      if (inputs) {
        du_partial.load_a_trans(local, column, n);
      } else {
        local[0] = local[1] = local[2] = local[3] = 0;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {  // columns e % 2 * 8, rows of the chunk n + e / 2 * 8
        const float2 x = unpack<T>(local[e]);
        const int row = n + e / 2 * 8 + pair;
        float* at = &sum[n / 8 + e / 2][e % 2 * 2];
        at[0] = gated ? fmaf(at[0], decays[C + row], x.x) : at[0] + x.x;
        at[1] = gated ? fmaf(at[1], decays[C + row + 1], x.y) : at[1] + x.y;
      }
      as_operand<T>(du[n / 16], sum[n / 8], sum[n / 8 + 1]);
    }

    if (gated) multiply(s, decays[2 * C]);
#pragma unroll
    for (int i = 0; i < C; i += 16) {
      uint32_t minus[4];  // -dU^T
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        constexpr bool kLocal = lacks(kDefect, BackwardDefect::dh_coefficient);
        minus[e] = (kLocal ? partial : du)[i / 16][e] ^ 0x80008000u;
      }
#pragma unroll
      for (int n = 0; n < DK; n += 16) {  // [16, C] W [C, DK]
        uint32_t b[4];
        w.load_b(b, i, n);
        mma_pair<T>(s[n / 8], s[n / 8 + 1], minus, b);
      }
    }
    if (!inputs) return;
#pragma unroll
    for (int i = 0; i < C; i += 16) {
      uint32_t a[4];  // (s e^G dO)^T
      d_o.load_a_trans(a, column, i);
      if (gated || scale != 1.0f) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float2 x = unpack<T>(a[e]);
          const int row = i + e / 2 * 8 + pair;
          a[e] =
              pack<T>(x.x * (gated ? decays[row] : scale), x.y * (gated ? decays[row + 1] : scale));
        }
      }
#pragma unroll
      for (int n = 0; n < DK; n += 16) {  // [16, C] Q [C, DK]
        uint32_t b[4];
        q.load_b(b, i, n);
        mma_pair<T>(s[n / 8], s[n / 8 + 1], a, b);
      }
    }
  }

  static __device__ __forceinline__ int64_t place_of(int head, int segment,
                                                     const BackwardShape& shape) {
    return static_cast<int64_t>(head) * shape.segments + segment;
  }

  /// The warp's columns of a state [DK, DV] in fp32.
  static __device__ __forceinline__ void load_state(Columns s, const float* state, int column) {
#pragma unroll
    for (int n = 0; n < DK / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = state[(n * 8 + accumulator_column(e)) * DV + column + accumulator_row(e)];
      }
    }
  }

  /// Where the constant of a segment stands for this lane.
  static __device__ __forceinline__ float4* constant_of(const Buffers& io, int64_t place) {
    const int64_t columns = place * (DV / 16) + warp_id();
    return reinterpret_cast<float4*>(io.constants) + columns * (DK / 8 * kWarp) + lane_id();
  }

  static __device__ __forceinline__ void add_constant(Columns s, const float4* constant) {
#pragma unroll
    for (int n = 0; n < DK / 8; ++n) {
      const float4 x = constant[n * kWarp];
      s[n][0] += x.x;
      s[n][1] += x.y;
      s[n][2] += x.z;
      s[n][3] += x.w;
    }
  }

  /// Grid (segments - 1, B H, 2): segment 1 + x; its constant, its transition.
  static __device__ __forceinline__ void segments(const StateMaps& maps, const Buffers& io,
                                                  float scale, const BackwardShape& shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ uint64_t full[2];
    const int head = blockIdx.y, segment = 1 + blockIdx.x;
    const bool transition = blockIdx.z == 1, last = segment == shape.segments - 1;
    if (transition && last) return;  // starts from dhT: nothing is carried into it
    const int column = warp_id() * 16;
    const bool active = column < (transition ? DK : DV);
    const auto is_diagonal = [&](int n, int e) {
      return n * 8 + accumulator_column(e) == column + accumulator_row(e);
    };

    float s[DK / 8][4] = {};
    if (active && transition) {
#pragma unroll
      for (int n = 0; n < DK / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = is_diagonal(n, e) ? 1.0f : 0.0f;
      }
    } else if (active && last) {
      load_state(s, io.dhT + static_cast<int64_t>(head) * DK * DV, column);
    }
    float factor = 1.0f;
    const int begin = segment * shape.segment_chunks;
    const int end = min(begin + shape.segment_chunks, shape.chunks);
    const Pipeline pipeline{shared, full, head, begin, end, !transition, shape};
    init(full);
    if (threadIdx.x == 0) pipeline.load(end - 1, maps, io.decays);
#pragma unroll 1
    for (int chunk = end - 1; chunk >= begin; --chunk) {
      pipeline.advance(chunk, maps, io.decays);
      unsigned char* stage = pipeline.stage(chunk);
      if (shape.gated) {
        factor *= reinterpret_cast<const float*>(stage + kDecays)[2 * C];
      }
      if (active) {
        uint32_t operand[DK / 16][4], du[C / 16][4];
        round(operand, s);
        step(s, operand, du, stage, column, !transition, shape.gated, scale);
      }
    }
    if (!active) return;
    const int64_t place = place_of(head, segment, shape);
    if (transition) {
#pragma unroll
      for (int n = 0; n < DK / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (is_diagonal(n, e)) s[n][e] -= factor;
        }
      }
      store_rows<T>(io.transitions + (place * DK + column) * DK, DK, 16, s);
      if (threadIdx.x == 0) io.factors[place] = factor;
    } else {
      float4* constant = constant_of(io, place);
#pragma unroll
      for (int n = 0; n < DK / 8; ++n) {
        constant[n * kWarp] = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
      }
    }
  }

  /// The gradient of the state after `segment`, from the segments behind it.
  static __device__ __forceinline__ void carry_into(Columns s, int segment, unsigned char* shared,
                                                    uint64_t* arrived, const StateMaps& maps,
                                                    const Buffers& io, int head,
                                                    const BackwardShape& shape) {
    const Tile<DK> tile{shared_address(shared)};  // [j][i] = N_ij
    clear(s);
    add_constant(s, constant_of(io, place_of(head, shape.segments - 1, shape)));
#pragma unroll 1
    for (int behind = shape.segments - 2, round_trip = 0; behind > segment;
         --behind, round_trip ^= 1) {
      const int64_t place = place_of(head, behind, shape);
      if (threadIdx.x == 0) {
        mbarrier_arrive_expect(arrived, kTransition);
        copy_tile<DK>(shared, maps.transitions, DK, 0, static_cast<int>(place), arrived);
      }
      uint32_t operand[DK / 16][4];
      round(operand, s);
      if (shape.gated) multiply(s, io.factors[place]);
      add_constant(s, constant_of(io, place));
      mbarrier_wait(arrived, round_trip);
#pragma unroll
      for (int j = 0; j < DK; j += 16) {
        add_product<T>(s, operand[j / 16], tile, j);
      }
      fence_proxy_async();  // this thread's reads of the tile before the next copy
      __syncthreads();      // readers of the tile: all; its next writer: a copy by thread 0
    }
  }

  /// Grid (segments, B H).
  static __device__ __forceinline__ void state(const StateMaps& maps, const Buffers& io,
                                               float scale, const BackwardShape& shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ uint64_t full[2], arrived;
    const int head = blockIdx.y, segment = blockIdx.x;
    const int lane = lane_id(), column = warp_id() * 16;
    unsigned char* out = shared + 2 * kStage + warp_id() * kLayout.out_bytes();
    const ColumnSlice dh_slice{out}, du_slice{out + DK * kStateColumns * 2};  // [DK, 16], [C, 16]
    if (threadIdx.x == 0) mbarrier_init(&arrived, 1);
    init(full);

    float s[DK / 8][4];
    if (segment == shape.segments - 1) {
      load_state(s, io.dhT + static_cast<int64_t>(head) * DK * DV, column);
    } else {
      carry_into(s, segment, shared, &arrived, maps, io, head, shape);
    }
    const int begin = segment * shape.segment_chunks;
    const int end = min(begin + shape.segment_chunks, shape.chunks);
    const Pipeline pipeline{shared, full, head, begin, end, true, shape};
    if (threadIdx.x == 0) pipeline.load(end - 1, maps, io.decays);
#pragma unroll 1
    for (int chunk = end - 1; chunk >= begin; --chunk) {
      pipeline.advance(chunk, maps, io.decays);
      unsigned char* stage = pipeline.stage(chunk);
      uint32_t operand[DK / 16][4], du[C / 16][4];
      round(operand, s);
      if (lane == 0) wait_stores_read<0>();  // this warp's last stores have read its slices
      __syncwarp();                          // readers: those stores; writers: this warp
#pragma unroll
      for (int d = 0; d < DK / 16; ++d) dh_slice.put(d * 16, operand[d]);
      fence_proxy_async();  // writers: this warp (dh_slice); reader: the store
      __syncwarp();
      if (lane == 0) {
        store_box(maps.dh, column, 0, head * shape.chunks + chunk, dh_slice.bytes);
        commit_stores();
      }
      step(s, operand, du, stage, column, true, shape.gated, scale);
#pragma unroll
      for (int n = 0; n < C / 16; ++n) du_slice.put(n * 16, du[n]);
      fence_proxy_async();  // writers: this warp (du_slice); reader: the store
      __syncwarp();
      if (lane == 0) {
        store_box(maps.du, column, chunk * C, head, du_slice.bytes);
        commit_stores();
      }
    }
    if (lane == 0) wait_stores();
    if (segment == 0) {
      float* dh0 = io.dh0 + static_cast<int64_t>(head) * DK * DV;
#pragma unroll
      for (int n = 0; n < DK / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          dh0[(n * 8 + accumulator_column(e)) * DV + column + accumulator_row(e)] = s[n][e];
        }
      }
    }
  }
};

}  // namespace faultline::kernels::deltanet
