// SPDX-License-Identifier: Apache-2.0
//
// Forward, second and third launch: the recurrence over chunks, and how it is cut into segments.
//
// A warp carries 16 columns of the state through the chunks, as its transpose h^T [16, DK] in C
// fragments. Rounded, those are the A fragments of h^T W^T; the C fragments of v_new^T are in turn
// those of v_new^T K. So warps exchange nothing, ever: they only share the tiles.
//
// The chain of chunks is long and B H DV / 16 warps are few, so a long sequence is cut into
// segments of equal length. The state leaving a segment is affine in the one entering it,
//   h' = Phi h + L,  Phi = prod (gamma I - K^T diag(e^(G_n - G)) W),  L = h' for h = 0,
// and both obey the recurrence of the chunks: L with h = 0, and Phi with h = I and U = 0, a
// column at a time. `transitions` finds them for all segments but the last; `states` then runs the
// segments side by side, each from a state that it gets by h <- Phi h + L over those before it.
#pragma once

#include "forward_defect.hpp"
#include "tiles.cuh"

namespace faultline::kernels::deltanet {

/// Tiles of one chunk in a stage.
template <int kChunk, int kDk>
struct ChunkStage {
  unsigned char* bytes;
  int decays_offset;

  __device__ Tile<kChunk> w() const { return {shared_address(bytes)}; }                 // [C, DK]
  __device__ Tile<kChunk> k() const {                                                   // [C, DK]
    return {shared_address(bytes) + tile_bytes(kChunk, kDk)};
  }
  __device__ Tile<kDk> transition() const { return {shared_address(bytes)}; }           // [DK, DK]
  __device__ unsigned char* u_bytes() const { return bytes + 2 * tile_bytes(kChunk, kDk); }
  __device__ Tile<kChunk> u() const { return {shared_address(u_bytes())}; }             // [C, 64..]
  __device__ float* decays() const { return reinterpret_cast<float*>(bytes + decays_offset); }
};

/// c += a B, with the B fragments of step k + 1 loaded before the products of step k: load(b, k, n)
/// gives those of step k and columns 16 n, for kPairs pairs of fragments c.
template <typename T, int kSteps, int kPairs, typename Load>
__device__ __forceinline__ void pipelined_product(float (&c)[2 * kPairs][4],
                                                  const uint32_t (&a)[kSteps][4],
                                                  const Load& load) {
  uint32_t b[2][kPairs][4];
#pragma unroll
  for (int n = 0; n < kPairs; ++n) load(b[0][n], 0, n);
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    if (k + 1 < kSteps) {
#pragma unroll
      for (int n = 0; n < kPairs; ++n) load(b[(k + 1) % 2][n], k + 1, n);
    }
#pragma unroll
    for (int n = 0; n < kPairs; ++n) mma_pair<T>(c[2 * n], c[2 * n + 1], a[k], b[k % 2][n]);
  }
}

/// wh = h^T W^T from the operand T(h^T).
template <typename T, int kChunk, int kDk>
__device__ __forceinline__ void apply_keys(float (&wh)[kChunk / 8][4],
                                           const uint32_t (&h)[kDk / 16][4], Tile<kChunk> w) {
  pipelined_product<T, kDk / 16, kChunk / 16>(
      wh, h, [&](uint32_t (&b)[4], int k, int n) { w.load_b_trans(b, 16 * k, 16 * n); });
}

/// The operand T(h^T).
template <typename T, int kDk>
__device__ __forceinline__ void as_operands(uint32_t (&operand)[kDk / 16][4],
                                            const float (&h)[kDk / 8][4]) {
#pragma unroll
  for (int k = 0; k < kDk / 16; ++k) as_operand<T>(operand[k], h[2 * k], h[2 * k + 1]);
}

/// T(v_new^T) = T(U^T - wh) as operand, U from 16 columns of a tile; without them it is zero.
template <typename T, int kChunk>
__device__ __forceinline__ void subtract_from(uint32_t (&v_new)[kChunk / 16][4],
                                              const float (&wh)[kChunk / 8][4], bool has_u,
                                              Tile<kChunk> u_tile, int column) {
#pragma unroll
  for (int n = 0; n < kChunk / 16; ++n) {
    uint32_t u[4] = {0, 0, 0, 0};
    if (has_u) u_tile.load_a_trans(u, column, 16 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // u[i]: fragment i / 2, rows i % 2 * 8 of the columns of DV
      const float2 value = unpack<T>(u[i]);
      const float* product = &wh[2 * n + i / 2][i % 2 * 2];
      v_new[n][i] = pack<T>(value.x - product[0], value.y - product[1]);
    }
  }
}

/// h <- gamma h + (diag(e^(G_n - G)) v_new)^T K, and the rounding of a mutant.
template <typename T, int kChunk, int kDk, Defect kDefect>
__device__ __forceinline__ void add_chunk(float (&h)[kDk / 8][4], uint32_t (&v_new)[kChunk / 16][4],
                                          Tile<kChunk> k_tile, bool gated, const float* decays) {
  if (gated) {
    float gamma = decays[kChunk];
    // Defect gamma_twice. Line changed: this one, absent in the clean kernel: the state decays by
    // gamma^2 a chunk. From: a kernel that scaled the state when it was stored and again when it
    // was loaded. Shows as: wrong_term, from the second chunk on, or from the first with h0.
    if (kDefect == Defect::gamma_twice) gamma *= gamma;
#pragma unroll
    for (int n = 0; n < kChunk / 16; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 value = unpack<T>(v_new[n][i]);
        const float2 decay = *reinterpret_cast<const float2*>(
            decays + 16 * n + i / 2 * 8 + 2 * (lane_id() % 4));
        v_new[n][i] = pack<T>(value.x * decay.x, value.y * decay.y);
      }
    }
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) h[n][i] *= gamma;
    }
  }
  pipelined_product<T, kChunk / 16, kDk / 16>(
      h, v_new, [&](uint32_t (&b)[4], int k, int n) { k_tile.load_b(b, 16 * k, 16 * n); });
  // Defect bf16_state. Line changed: this one, absent in the clean kernel: the running state is
  // rounded to bf16 after every chunk. From: scans that keep their carry in the input dtype. Shows
  // as: accumulation; the error grows with the number of chunks.
  if (kDefect == Defect::bf16_state) {
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) h[n][i] = to_float(from_float<__nv_bfloat16>(h[n][i]));
    }
  }
}

/// Loads one chunk into a stage; call from one thread. U: `u_panels` panels from `column` of DV on.
template <int kChunk, int kDk>
__device__ __forceinline__ void copy_chunk(ChunkStage<kChunk, kDk> stage, const CUtensorMap* w_map,
                                           const CUtensorMap* k_map, const CUtensorMap* u_map,
                                           const float* decays, int column, int u_panels, int chunk,
                                           int head, uint64_t* barrier) {
  constexpr int kRecordBytes = state_decay_record(kChunk) * 4;
  constexpr int kPanelBytes = Tile<kChunk>::kPanelBytes;
  mbarrier_arrive_expect(barrier, 2 * tile_bytes(kChunk, kDk) + u_panels * kPanelBytes +
                                      (decays != nullptr ? kRecordBytes : 0));
  copy_tile<kChunk>(stage.bytes, w_map, kDk, chunk * kChunk, head, barrier);
  copy_tile<kChunk>(stage.bytes + tile_bytes(kChunk, kDk), k_map, kDk, chunk * kChunk, head,
                    barrier);
  for (int p = 0; p < u_panels; ++p) {
    copy_box(stage.u_bytes() + p * kPanelBytes, u_map, column + p * kPanelColumns, chunk * kChunk,
             head, barrier);
  }
  if (decays != nullptr) copy_bulk(stage.decays(), decays, kRecordBytes, barrier);
}

/// Float 4 of this lane in L^T of a slice: [DK / 8][32 lanes], as the C fragments are held.
__device__ __forceinline__ int64_t local_index(int dk, int64_t slice, int fragment) {
  return (slice * (dk / 8) + fragment) * kWarp + lane_id();
}

/// Grid (B H, (DV + DK) / 128 rounded up, segments - 1), block 288: eight warps compute, one loads.
/// The first DV columns are L, the others Phi. transition [B H, segments - 1, DK in, DK out] in T,
/// local [B H, segments - 1, DV / 16, DK / 8, 32] float4: local_index().
template <typename T, int kChunk, int kDk, Defect kDefect>
__device__ __forceinline__ void transitions(const float* decays, T* transition, float4* local,
                                            int length, int dv, int gated, int segment_chunks,
                                            const CUtensorMap* w_map, const CUtensorMap* k_map,
                                            const CUtensorMap* u_map) {
  constexpr StatesLayout kLayout{kChunk, kDk, false};
  constexpr int kStages = kLayout.stages();
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ __align__(8) uint64_t full[kStages], empty[kStages];

  const int warp = uniform_warp_id(), lane = lane_id();
  const int head = static_cast<int>(blockIdx.x);
  const int segment = static_cast<int>(blockIdx.z);
  const int chunks = (length + kChunk - 1) / kChunk;
  const int first = segment * segment_chunks;            // whole: only the last can be shorter
  const int column0 = static_cast<int>(blockIdx.y) * kTransitionWarps * kStateColumns;
  const int u_panels = max(0, min(2, (dv - column0) / kPanelColumns));
  const int warps = min(kTransitionWarps, (dv + kDk - column0) / kStateColumns);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], warps);
    }
    fence_mbarrier_init();
  }
  __syncthreads();  // writer: thread 0 (barriers); readers: all

  const auto stage_of = [&](int slot) -> ChunkStage<kChunk, kDk> {
    return {shared + slot * kLayout.stage_bytes(), kLayout.decays_offset()};
  };

  if (warp == kTransitionWarps) {  // ------------------------------------------------------ loads
    if (lane != 0) return;
#pragma unroll 1
    for (int c = 0; c < segment_chunks; ++c) {
      const int slot = c % kStages, round = c / kStages;
      mbarrier_wait(&empty[slot], (round & 1) ^ 1);      // arrivals: warps; round 0 passes
      const int64_t record = static_cast<int64_t>(head) * chunks + first + c;
      copy_chunk<kChunk, kDk>(stage_of(slot), w_map, k_map, u_map,
                              gated != 0 ? decays + record * state_decay_record(kChunk) : nullptr,
                              column0, u_panels, first + c, head, &full[slot]);
    }
    return;
  }
  if (warp >= warps) return;

  const int column = column0 + warp * kStateColumns;
  const bool is_local = column < dv;
  float h[kDk / 8][4] = {};                              // L^T, or Phi^T: rows dk in, columns out
  if (!is_local) {
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int out = 8 * n + 2 * (lane % 4) + i % 2, in = column - dv + lane / 4 + i / 2 * 8;
        h[n][i] = out == in ? 1.0f : 0.0f;
      }
    }
  }
#pragma unroll 1
  for (int c = 0; c < segment_chunks; ++c) {
    const int slot = c % kStages, round = c / kStages;
    const ChunkStage<kChunk, kDk> stage = stage_of(slot);
    mbarrier_wait(&full[slot], round & 1);               // writers: copies (all of the stage)
    uint32_t operand[kDk / 16][4];
    as_operands<T, kDk>(operand, h);
    float wh[kChunk / 8][4] = {};
    apply_keys<T, kChunk, kDk>(wh, operand, stage.w());
    uint32_t v_new[kChunk / 16][4];
    subtract_from<T, kChunk>(v_new, wh, is_local, stage.u(), warp * kStateColumns);
    add_chunk<T, kChunk, kDk, kDefect>(h, v_new, stage.k(), gated != 0, stage.decays());
    fence_proxy_async();  // this warp's reads of the stage before the copies that refill it
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&empty[slot]);        // readers: this warp; to the loading warp
  }

  const int64_t matrix = static_cast<int64_t>(head) * gridDim.z + segment;
  if (is_local) {
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
      local[local_index(kDk, matrix * (dv / kStateColumns) + column / kStateColumns, n)] =
          make_float4(h[n][0], h[n][1], h[n][2], h[n][3]);
    }
  } else {
    store_rows<T, kDk / 8>(transition + (matrix * kDk + column - dv) * kDk, kDk, 16, h);
  }
}

/// Grid (B H, DV / 64, segments), block 192: four warps compute, one loads, one stores.
template <typename T, int kChunk, int kDk, Defect kDefect>
__device__ __forceinline__ void states(const float* decays, const float* h0, const float4* local,
                                       float* hT, int length, int dv, int gated, int segment_chunks,
                                       const CUtensorMap* w_map, const CUtensorMap* k_map,
                                       const CUtensorMap* u_map, const CUtensorMap* h_map,
                                       const CUtensorMap* v_new_map,
                                       const CUtensorMap* transition_map) {
  constexpr StatesLayout kLayout{kChunk, kDk, true};
  constexpr int kStages = kLayout.stages(), kSlots = kLayout.slots();
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ __align__(8) uint64_t full[kStages], empty[kStages];
  __shared__ __align__(8) uint64_t out_full[kSlots], out_empty[kSlots];
  __shared__ __align__(8) uint64_t local_full, local_empty;

  const int warp = uniform_warp_id(), lane = lane_id();
  const int head = static_cast<int>(blockIdx.x);
  const int segment = static_cast<int>(blockIdx.z), segments = static_cast<int>(gridDim.z);
  const int chunks = (length + kChunk - 1) / kChunk;
  const int first = segment * segment_chunks, count = min(segment_chunks, chunks - first);
  const int column0 = static_cast<int>(blockIdx.y) * kStateWarps * kStateColumns;
  const auto stage_of = [&](int slot) -> ChunkStage<kChunk, kDk> {
    return {shared + slot * kLayout.stage_bytes(), kLayout.decays_offset()};
  };
  const auto h_slot = [&](int slot) {                    // [DK, 64]
    return shared + kStages * kLayout.stage_bytes() + slot * kLayout.slot_bytes();
  };
  const auto v_slot = [&](int slot) { return h_slot(slot) + kLayout.state_bytes(); };  // [C, 64]
  // L^T of the scan's segment, the block's columns; in the slots, idle until the scan ends.
  constexpr int kLocalBytes = kDk * kPanelColumns * static_cast<int>(sizeof(float));
  static_assert(kLocalBytes <= kSlots * kLayout.slot_bytes(), "L lies in the slots");
  float4* const local_tile = reinterpret_cast<float4*>(h_slot(0));  // [4 warps, DK / 8, 32]

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kStateWarps);
    }
    for (int s = 0; s < kSlots; ++s) {
      mbarrier_init(&out_full[s], kStateWarps);
      mbarrier_init(&out_empty[s], 1);
    }
    mbarrier_init(&local_full, 1);
    mbarrier_init(&local_empty, kStateWarps);
    fence_mbarrier_init();
  }
  __syncthreads();  // writer: thread 0 (barriers); readers: all

  // Steps of the pipeline: `segment` transitions, then `count` chunks.
  if (warp == kStateWarps) {  // ----------------------------------------------------------- loads
    if (lane != 0) return;
#pragma unroll 1
    for (int step = 0; step < segment + count; ++step) {
      const int slot = step % kStages, round = step / kStages;
      const ChunkStage<kChunk, kDk> stage = stage_of(slot);
      mbarrier_wait(&empty[slot], (round & 1) ^ 1);      // arrivals: warps; round 0 passes
      fence_proxy_async();  // readers: the warps that arrived; writers: the copies below
      if (step < segment) {
        mbarrier_arrive_expect(&full[slot], tile_bytes(kDk, kDk));
        const int matrix = head * (segments - 1) + step;
        copy_tile<kDk>(stage.bytes, transition_map, kDk, 0, matrix, &full[slot]);
        mbarrier_wait(&local_empty, (step & 1) ^ 1);     // arrivals: warps; step 0 passes
        fence_proxy_async();  // readers: the warps that arrived; writer: the copy below
        mbarrier_arrive_expect(&local_full, kLocalBytes);
        const int64_t slice = static_cast<int64_t>(matrix) * (dv / kStateColumns) +
                              column0 / kStateColumns;
        copy_bulk(local_tile, local + slice * (kDk / 8) * kWarp, kLocalBytes, &local_full);
      } else {
        const int c = first + step - segment;
        const int64_t record = static_cast<int64_t>(head) * chunks + c;
        copy_chunk<kChunk, kDk>(stage, w_map, k_map, u_map,
                                gated != 0 ? decays + record * state_decay_record(kChunk) : nullptr,
                                column0, 1, c, head, &full[slot]);
      }
    }
    return;
  }
  if (warp == kStateWarps + 1) {  // ------------------------------------------------------ stores
    if (lane != 0) return;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      const int slot = c % kSlots, round = c / kSlots;
      mbarrier_wait(&out_full[slot], round & 1);         // writers: warps (h_slot, v_slot)
      fence_proxy_async();  // writers: the warps that arrived; readers: the stores below
      store_box(h_map, column0, 0, head * chunks + first + c, h_slot(slot));
      store_box(v_new_map, column0, (first + c) * kChunk, head, v_slot(slot));
      commit_stores();
      wait_stores_read<0>();
      mbarrier_arrive(&out_empty[slot]);                 // readers: these stores; to the warps
    }
    wait_stores();
    return;
  }

  // -------------------------------------------------------------------------------- the recurrence
  const int column = column0 + warp * kStateColumns;
  const int64_t state_base = static_cast<int64_t>(head) * kDk * dv + column;
  float h[kDk / 8][4];                                   // h^T, fp32
#pragma unroll
  for (int n = 0; n < kDk / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = 8 * n + 2 * (lane % 4) + i % 2, value = lane / 4 + i / 2 * 8;
      h[n][i] = h0[state_base + static_cast<int64_t>(key) * dv + value];
    }
  }

#pragma unroll 1
  for (int step = 0; step < segment; ++step) {           // h <- Phi h + L
    const int slot = step % kStages, round = step / kStages;
    const ChunkStage<kChunk, kDk> stage = stage_of(slot);
    uint32_t operand[kDk / 16][4];
    as_operands<T, kDk>(operand, h);
    mbarrier_wait(&local_full, step & 1);                // writer: copy (local_tile)
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
      const float4 l = local_tile[local_index(kDk, warp, n)];
      h[n][0] = l.x;
      h[n][1] = l.y;
      h[n][2] = l.z;
      h[n][3] = l.w;
    }
    fence_proxy_async();  // this warp's reads of local_tile before the copy that refills it
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&local_empty);        // readers: this warp; to the loading warp
    mbarrier_wait(&full[slot], round & 1);               // writer: copy (the transition)
    pipelined_product<T, kDk / 16, kDk / 16>(h, operand, [&](uint32_t (&b)[4], int k, int n) {
      stage.transition().load_b(b, 16 * k, 16 * n);
    });
    fence_proxy_async();  // this warp's reads of the stage before the copies that refill it
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&empty[slot]);        // readers: this warp; to the loading warp
  }

  // Readers: the computing warps (local_tile); writers: the same (the slots in its place).
  if (segment > 0) named_barrier_sync(1, kStateWarps * kWarp);

#pragma unroll 1
  for (int c = 0; c < count; ++c) {
    const int step = segment + c;
    const int slot = step % kStages, round = step / kStages;
    const int out = c % kSlots, out_round = c / kSlots;
    const ChunkStage<kChunk, kDk> stage = stage_of(slot);
    const Tile<kDk> h_out{shared_address(h_slot(out))};
    const Tile<kChunk> v_out{shared_address(v_slot(out))};

    uint32_t operand[kDk / 16][4];
    as_operands<T, kDk>(operand, h);
    mbarrier_wait(&out_empty[out], (out_round & 1) ^ 1); // arrivals: the storing warp
#pragma unroll
    for (int k = 0; k < kDk / 16; ++k) {
      h_out.store_a_trans(operand[k], warp * kStateColumns, 16 * k);
    }
    mbarrier_wait(&full[slot], round & 1);               // writers: copies (all of the stage)
    float wh[kChunk / 8][4] = {};
    apply_keys<T, kChunk, kDk>(wh, operand, stage.w());
    uint32_t v_new[kChunk / 16][4];
    subtract_from<T, kChunk>(v_new, wh, true, stage.u(), warp * kStateColumns);
#pragma unroll
    for (int n = 0; n < kChunk / 16; ++n) {
      v_out.store_a_trans(v_new[n], warp * kStateColumns, 16 * n);
    }
    __syncwarp();
    if (lane == 0) {
      mbarrier_arrive(&out_full[out]);                   // writers: this warp; to the storing warp
      // The chunk before this one: what was just stored depends on every read of its stage, so
      // those have returned, with no fence on the recurrence's path.
      if (c > 0) mbarrier_arrive(&empty[(step - 1) % kStages]);  // to the loading warp
    }
    add_chunk<T, kChunk, kDk, kDefect>(h, v_new, stage.k(), gated != 0, stage.decays());
  }

  if (segment == segments - 1) {
#pragma unroll
    for (int n = 0; n < kDk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = 8 * n + 2 * (lane % 4) + i % 2, value = lane / 4 + i / 2 * 8;
        hT[state_base + static_cast<int64_t>(key) * dv + value] = h[n][i];
      }
    }
  }
}

}  // namespace faultline::kernels::deltanet
