// SPDX-License-Identifier: Apache-2.0
//
// Backward, first launch: du_partial of every chunk, and the decays that the next launches take.
#pragma once

#include "accumulators.cuh"
#include "backward_decay.cuh"
#include "backward_layout.hpp"

namespace faultline::kernels::deltanet {

/// grid = B H N blocks of 2C threads; a warp owns 16 rows of P^T.
template <typename T, int DK, int DV, int C>
struct LocalKernel {
  using Chunk = Tile<C>;
  static constexpr int kThreads = 2 * C;
  static constexpr int kKey = tile_bytes(C, DK);

  static __device__ __forceinline__ void run(const CUtensorMap* q_map, const CUtensorMap* k_map,
                                             const CUtensorMap* do_map, const float* gates,
                                             T* du_partial, float* decays, float scale,
                                             const BackwardShape& shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ uint64_t full;
    __shared__ float gate_row[C];
    const Chunk k{shared_address(shared)}, q{k.base + kKey}, d_o{q.base + kKey};

    const int head = blockIdx.x / shape.chunks, chunk = blockIdx.x % shape.chunks;
    const int valid = min(C, shape.t - chunk * C);
    const int64_t first = static_cast<int64_t>(head) * shape.t + chunk * C;
    if (threadIdx.x == 0) {
      mbarrier_init(&full, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect(&full, local_shared_bytes(C, DK, DV));
      copy_tile<C>(shared, k_map, DK, chunk * C, head, &full);
      copy_tile<C>(shared + kKey, q_map, DK, chunk * C, head, &full);
      copy_tile<C>(shared + 2 * kKey, do_map, DV, chunk * C, head, &full);
    }
    const int tid = static_cast<int>(threadIdx.x);
    if (shape.gated && tid < C) {
      gate_row[tid] = gates[static_cast<int64_t>(blockIdx.x) * C + tid];
    }
    __syncthreads();  // writers: thread 0 (barrier), C threads (gate_row); readers: all
    if (shape.gated) {
      float* record = decays + static_cast<int64_t>(blockIdx.x) * decay_record(C);
      if (tid < C) {
        record[tid] = scale * exp_of(gate_row[tid]);
        record[C + tid] = exp_of(gate_row[C - 1] - gate_row[tid]);
      } else if (tid == C) {
        record[2 * C] = exp_of(gate_row[C - 1]);
      }
    }
    mbarrier_wait(&full, 0);

    const int block = warp_id() * 16;  // rows j of the warp
    float p[C / 8][4] = {};            // P^T [16 rows j, C columns i], i >= block
#pragma unroll
    for (int d = 0; d < DK; d += 16) {
      uint32_t a[4];
      k.load_a(a, block, d);
#pragma unroll
      for (int i = 0; i < C; i += 16) {
        if (i < block) continue;
        uint32_t b[4];
        q.load_b_trans(b, d, i);
        mma_pair<T>(p[i / 8], p[i / 8 + 1], a, b);
      }
    }
    float du[DV / 8][4] = {};  // P^T dO [16 rows j, DV]
#pragma unroll
    for (int i = 0; i < C; i += 16) {
      if (i < block) continue;
#pragma unroll
      for (int n = i / 8; n < i / 8 + 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int j = block + accumulator_row(e), column = n * 8 + accumulator_column(e);
          if (column < j) {
            p[n][e] = 0.0f;
          } else if (shape.gated) {
            p[n][e] *= decay_between(gate_row[column], gate_row[j]);
          }
        }
      }
      uint32_t a[4];
      as_operand<T>(a, p[i / 8], p[i / 8 + 1]);
      add_product<T>(du, a, d_o, i);
    }
    multiply(du, scale);
    store_rows<T>(du_partial + (first + block) * DV, DV, valid - block, du);
  }
};

}  // namespace faultline::kernels::deltanet
