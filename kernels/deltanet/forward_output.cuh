// SPDX-License-Identifier: Apache-2.0
//
// Forward, last launch: o of every chunk, from the state before it and v_new.
#pragma once

#include "forward_defect.hpp"
#include "tiles.cuh"

namespace faultline::kernels::deltanet {

/// Grid (B H, N), block 2 C threads: a warp 16 rows of the chunk.
template <typename T, int kChunk, int kDk, Defect kDefect>
__device__ __forceinline__ void output(const float* gates, T* o, int length, int dv, int gated,
                                       float scale, const CUtensorMap* q_map,
                                       const CUtensorMap* k_map, const CUtensorMap* h_map,
                                       const CUtensorMap* v_new_map) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ float gate_row[kChunk];
  __shared__ __align__(8) uint64_t qk_full, hv_full;

  unsigned char* q_bytes = shared;
  unsigned char* k_bytes = q_bytes + tile_bytes(kChunk, kDk);
  unsigned char* h_bytes = k_bytes + tile_bytes(kChunk, kDk);
  unsigned char* v_bytes = h_bytes + tile_bytes(kDk, dv);
  const Tile<kChunk> q_tile{shared_address(q_bytes)};    // [C, DK]
  const Tile<kChunk> k_tile{shared_address(k_bytes)};    // [C, DK]
  const Tile<kDk> h_tile{shared_address(h_bytes)};       // [DK, DV]
  const Tile<kChunk> v_tile{shared_address(v_bytes)};    // [C, DV] v_new

  const int tid = static_cast<int>(threadIdx.x);
  const int warp = uniform_warp_id(), lane = lane_id();
  const int group = lane / 4, pair = lane % 4;
  const int head = static_cast<int>(blockIdx.x);
  const int chunk = static_cast<int>(blockIdx.y), chunks = static_cast<int>(gridDim.y);
  const int row0 = chunk * kChunk;
  const int64_t first = static_cast<int64_t>(head) * length + row0;

  if (tid == 0) {
    mbarrier_init(&qk_full, 1);
    mbarrier_init(&hv_full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&qk_full, 2 * tile_bytes(kChunk, kDk));
    copy_tile<kChunk>(q_bytes, q_map, kDk, row0, head, &qk_full);
    copy_tile<kChunk>(k_bytes, k_map, kDk, row0, head, &qk_full);
    mbarrier_arrive_expect(&hv_full, tile_bytes(kDk, dv) + tile_bytes(kChunk, dv));
    copy_tile<kDk>(h_bytes, h_map, dv, 0, head * chunks + chunk, &hv_full);
    copy_tile<kChunk>(v_bytes, v_new_map, dv, row0, head, &hv_full);
  }
  if (gated != 0 && tid < kChunk) {
    gate_row[tid] = gates[(static_cast<int64_t>(head) * chunks + chunk) * kChunk + tid];
  }
  __syncthreads();  // writers: thread 0 (barriers), C threads (gate_row); readers: all

  const int rows[2] = {16 * warp + group, 16 * warp + group + 8};
  float row_gate[2] = {0.0f, 0.0f};                      // ungated, nobody writes gate_row
  if (gated != 0) {
    row_gate[0] = gate_row[rows[0]];
    row_gate[1] = gate_row[rows[1]];
  }
  uint32_t p[kChunk / 16][4];                            // P of 16 rows, as operand
  mbarrier_wait(&qk_full, 0);                            // writers: copies (Q, K)
  {
    float acc[kChunk / 8][4] = {};                       // Q K^T, 16 rows, columns up to theirs
#pragma unroll
    for (int k = 0; k < kDk / 16; ++k) {
      uint32_t a[4];
      q_tile.load_a(a, 16 * warp, 16 * k);
#pragma unroll
      for (int n = 0; n < kChunk / 16; ++n) {
        if (n > warp) break;
        uint32_t b[4];
        k_tile.load_b_trans(b, 16 * k, 16 * n);
        mma_pair<T>(acc[2 * n], acc[2 * n + 1], a, b);
      }
    }
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = rows[i / 2], column = 8 * n + 2 * pair + i % 2;
        float decay = 1.0f;
        if (gated != 0 && column <= row) decay = exp_of(row_gate[i / 2] - gate_row[column]);
        // Defect strict_tril. Line changed: the comparison, which was <=: P without its diagonal,
        // so that o_t lacks the contribution of step t itself. From: kernels that shared one mask
        // between A and P. Shows as: wrong_term, in every row of o.
        const bool inside = kDefect == Defect::strict_tril ? column < row : column <= row;
        acc[n][i] = inside ? acc[n][i] * decay : 0.0f;
      }
    }
#pragma unroll
    for (int k = 0; k < kChunk / 16; ++k) as_operand<T>(p[k], acc[2 * k], acc[2 * k + 1]);
  }
  float row_factor[2] = {1.0f, 1.0f};
  if (gated != 0) {
    row_factor[0] = exp_of(row_gate[0]);
    row_factor[1] = exp_of(row_gate[1]);
  }
  const int valid = min(length - row0 - 16 * warp, 16);
  T* out = o + (first + 16 * warp) * dv;

  mbarrier_wait(&hv_full, 0);                            // writers: copies (h, v_new)
#pragma unroll 1
  for (int panel = 0; panel < dv / kPanelColumns; ++panel) {
    float acc[8][4] = {};                                // 16 rows, 64 columns
#pragma unroll
    for (int k = 0; k < kDk / 16; ++k) {
      uint32_t a[4];
      q_tile.load_a(a, 16 * warp, 16 * k);
      add_product<T>(acc, a, h_tile, 16 * k, panel * kPanelColumns);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[n][i] *= row_factor[i / 2];
    }
#pragma unroll
    for (int k = 0; k < kChunk / 16; ++k) {
      if (k > warp) break;
      add_product<T>(acc, p[k], v_tile, 16 * k, panel * kPanelColumns);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[n][i] *= scale;
    }
    store_rows<T, 8>(out + panel * kPanelColumns, dv, valid, acc);
  }
}

}  // namespace faultline::kernels::deltanet
