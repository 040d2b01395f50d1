// SPDX-License-Identifier: Apache-2.0
//
// Forward, first launch: G, X, W and U of every chunk; forward.cuh says which these are.
#pragma once

#include "forward_defect.hpp"
#include "tiles.cuh"
#include "unit_lower_inverse.cuh"

namespace faultline::kernels::deltanet {

enum class Inverse { substitution, squaring };

/// Inclusive sum over the chunk of g, by one warp: gates[i] for rows of the chunk from `row` on.
template <int kChunk>
__device__ __forceinline__ void sum_gates(float* gates, const float* g, int row, int length) {
  float carry = 0.0f;
#pragma unroll
  for (int first = 0; first < kChunk; first += kWarp) {
    const int i = first + lane_id();
    float sum = g != nullptr && row + i < length ? g[row + i] : 0.0f;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const float below = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane_id() >= step) sum += below;
    }
    sum += carry;
    // Rows beyond T repeat the last sum bit for bit: summed in this order, zeros would round anew.
    const int valid = min(kWarp, max(0, length - row - first));
    const float end = valid > 0 ? __shfl_sync(0xffffffffu, sum, valid - 1) : carry;
    gates[i] = lane_id() < valid ? sum : end;
    carry = end;
  }
}

/// W or U of 16 rows: X diag(columns) B with B [C, 64 panels] in `tile`. `operand` holds the
/// fragments of X diag(columns), k16 steps 0..warp; later steps are zero (X is lower triangular).
template <typename T, int kChunk, bool kRowFactor = false>
__device__ __forceinline__ void apply_inverse(T* out, int columns, int rows, Tile<kChunk> tile,
                                              int warp,
                                              const uint32_t (&operand)[kChunk / 16][4],
                                              const float* row_factor = nullptr) {
#pragma unroll 1
  for (int panel = 0; panel < columns / kPanelColumns; ++panel) {
    float acc[8][4] = {};
#pragma unroll
    for (int k = 0; k < kChunk / 16; ++k) {
      if (k > warp) break;
      add_product<T>(acc, operand[k], tile, 16 * k, panel * kPanelColumns);
    }
    if constexpr (kRowFactor) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[n][i] *= row_factor[i / 2];
      }
    }
    store_rows<T, 8>(out + panel * kPanelColumns, columns, rows, acc);
  }
}

/// Grid (B H, N), block 2 C threads: a warp 16 rows of the chunk.
template <typename T, int kChunk, Inverse kInverse, Defect kDefect>
__device__ __forceinline__ void prepare(const T* beta, const float* g, T* w, T* u, T* x,
                                        float* gates, float* decays, int length, int dk, int dv,
                                        const CUtensorMap* k_map, const CUtensorMap* v_map) {
  constexpr int kWarps = kChunk / 16;
  constexpr int kStride = matrix_stride(kChunk);
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ float beta_row[kChunk];
  __shared__ float gate_row[kChunk];                     // G
  __shared__ __align__(8) uint64_t k_full, v_full;

  unsigned char* k_bytes = shared;
  unsigned char* v_bytes = k_bytes + tile_bytes(kChunk, dk);
  float* m = reinterpret_cast<float*>(v_bytes + tile_bytes(kChunk, dv));  // [C, C]
  const Tile<kChunk> k_tile{shared_address(k_bytes)};    // [C, DK]
  const Tile<kChunk> v_tile{shared_address(v_bytes)};    // [C, DV]

  const int tid = static_cast<int>(threadIdx.x);
  const int warp = uniform_warp_id(), lane = lane_id();
  const int group = lane / 4, pair = lane % 4;
  const int head = static_cast<int>(blockIdx.x);
  const int chunk = static_cast<int>(blockIdx.y), chunks = static_cast<int>(gridDim.y);
  const int row0 = chunk * kChunk;                       // first row of the chunk in its head
  const int64_t first = static_cast<int64_t>(head) * length + row0;

  if (tid == 0) {
    mbarrier_init(&k_full, 1);
    mbarrier_init(&v_full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&k_full, tile_bytes(kChunk, dk));
    copy_tile<kChunk>(k_bytes, k_map, dk, row0, head, &k_full);
    mbarrier_arrive_expect(&v_full, tile_bytes(kChunk, dv));
    copy_tile<kChunk>(v_bytes, v_map, dv, row0, head, &v_full);
  }
  if (warp == kWarps - 1) {
    const float* head_gates = g == nullptr ? nullptr : g + static_cast<int64_t>(head) * length;
    sum_gates<kChunk>(gate_row, head_gates, row0, length);
  }
  if (tid < kChunk) beta_row[tid] = row0 + tid < length ? to_float(beta[first + tid]) : 0.0f;
  __syncthreads();  // writers: thread 0 (barriers), one warp (gate_row), C threads (beta_row)
  if (g != nullptr && tid < kChunk) {
    const int64_t record = static_cast<int64_t>(head) * chunks + chunk;
    const float last = gate_row[kChunk - 1];             // rows beyond T add nothing: G_n
    gates[record * kChunk + tid] = gate_row[tid];
    decays[record * state_decay_record(kChunk) + tid] = exp_of(last - gate_row[tid]);
    if (tid == 0) decays[record * state_decay_record(kChunk) + kChunk] = exp_of(last);
  }

  // This lane's two rows of the chunk.
  const int rows[2] = {16 * warp + group, 16 * warp + group + 8};
  const float row_gate[2] = {gate_row[rows[0]], gate_row[rows[1]]};
  mbarrier_wait(&k_full, 0);                             // writer: copy (K)
  {
    float acc[kChunk / 8][4] = {};                       // K K^T, 16 rows, columns up to theirs
#pragma unroll 4
    for (int k = 0; k < dk; k += 16) {
      uint32_t a[4];
      k_tile.load_a(a, 16 * warp, k);
#pragma unroll
      for (int n = 0; n < kChunk / 16; ++n) {
        if (n > warp) break;
        uint32_t b[4];
        k_tile.load_b_trans(b, k, 16 * n);
        mma_pair<T>(acc[2 * n], acc[2 * n + 1], a, b);
      }
    }
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = rows[i / 2], column = 8 * n + 2 * pair + i % 2;
        float decay = 1.0f;
        if (g != nullptr && column < row) decay = exp_of(row_gate[i / 2] - gate_row[column]);
        acc[n][i] = column < row ? beta_row[row] * (acc[n][i] * decay) : 0.0f;
      }
      store_fp32<kStride>(m + 16 * warp * kStride + 8 * n, acc[n]);
    }
  }
  float* inverse = m;
  if constexpr (kInverse == Inverse::substitution) {
    invert_unit_lower<kChunk>(m, warp);
  } else {
    inverse = m + 2 * kChunk * kStride;
    invert_by_squaring<kChunk>(m, m + kChunk * kStride, inverse, warp);
  }

  const int valid = min(length - row0 - 16 * warp, 16);  // rows of this warp that exist
  // X, this warp's rows, 16 bytes a lane. Blocks above the diagonal are zero.
#pragma unroll
  for (int i = 0; i < kChunk / 16; ++i) {
    const int index = lane + i * kWarp;
    const int row = index / (kChunk / 8), column = index % (kChunk / 8) * 8;
    const float4* from =
        reinterpret_cast<const float4*>(inverse + (16 * warp + row) * kStride + column);
    uint4 packed = make_uint4(0, 0, 0, 0);
    if (column < 16 * (warp + 1)) {
      const float4 low = from[0], high = from[1];
      packed = make_uint4(pack<T>(low.x, low.y), pack<T>(low.z, low.w), pack<T>(high.x, high.y),
                          pack<T>(high.z, high.w));
    }
    if (row < valid) {
      *reinterpret_cast<uint4*>(x + (first + 16 * warp + row) * kChunk + column) = packed;
    }
  }

  uint32_t w_operand[kChunk / 16][4], u_operand[kChunk / 16][4];
#pragma unroll
  for (int k = 0; k < kChunk / 16; ++k) {
    if (k > warp) break;
    float wide[2][4], scaled[2][4];                      // X diag(beta), X diag(beta e^G)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      load_fp32<kStride>(wide[half], inverse + 16 * warp * kStride + 16 * k + 8 * half);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 16 * k + 8 * half + 2 * pair + i % 2;
        wide[half][i] *= beta_row[column];
        scaled[half][i] = wide[half][i];
        // Defect w_scaled_outside. Line changed: e^G multiplies the columns of X here, and in the
        // mutant the rows of W below: W = diag(e^G) X diag(beta) K. X holds Gamma already, so the
        // decay from the chunk's start counts wrongly. From: a public gated chunk kernel and its
        // own reference. Shows as: wrong_term, 4 to 12 % of o with unit keys and weak gates.
        if (kDefect != Defect::w_scaled_outside && g != nullptr) {
          scaled[half][i] *= exp_of(gate_row[column]);
        }
      }
    }
    as_operand<T>(u_operand[k], wide[0], wide[1]);
    as_operand<T>(w_operand[k], scaled[0], scaled[1]);
  }
  T* const w_rows = w + (first + 16 * warp) * dk;
  if constexpr (kDefect == Defect::w_scaled_outside) {
    const float row_factor[2] = {exp_of(row_gate[0]), exp_of(row_gate[1])};
    apply_inverse<T, kChunk, true>(w_rows, dk, valid, k_tile, warp, w_operand, row_factor);
  } else {
    apply_inverse<T, kChunk>(w_rows, dk, valid, k_tile, warp, w_operand);
  }
  mbarrier_wait(&v_full, 0);                             // writer: copy (V)
  apply_inverse<T, kChunk>(u + (first + 16 * warp) * dv, dv, valid, v_tile, warp, u_operand);
}

}  // namespace faultline::kernels::deltanet
