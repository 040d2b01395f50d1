// SPDX-License-Identifier: Apache-2.0
//
// Backward, last launch: dq, dk, dv, dbeta and dg of every chunk.
#pragma once

#include "accumulators.cuh"
#include "backward_decay.cuh"
#include "backward_defect.hpp"
#include "backward_layout.hpp"

namespace faultline::kernels::deltanet {

/// What `gradients` reads and writes beside its tiles.
template <typename T>
struct GradientBuffers {
  const T* v;
  const T* beta;
  const float* gates;  ///< null when not gated
  const T* x;
  const T* h;
  T* dq;
  T* dk;
  T* dv;
  float* dbeta;
  float* dg;  ///< null when not gated
};

/// Maps {columns, T, B H} with boxes {64, C, 1}; h and dh {DV, DK, B H N} with boxes {64, DK, 1}.
struct GradientMaps {
  const CUtensorMap* q;
  const CUtensorMap* k;
  const CUtensorMap* d_o;
  const CUtensorMap* v_new;
  const CUtensorMap* w;
  const CUtensorMap* u;
  const CUtensorMap* h;
  const CUtensorMap* dh;
  const CUtensorMap* du;
  const CUtensorMap* du_partial;  ///< read by the dw_cross mutants alone
};

/// grid = B H N blocks of 2C threads: a warp has 16 rows of the chunk, in every product. A left
/// operand is where the product before it left it, in the warp's own registers; X, diag(beta) E and
/// dS alone go through shared memory, for their transposes, one after another in one place. Tiles
/// come in the order of their use, into the places of those that are done with, so that the blocks
/// of a multiprocessor overlap: one computes while another waits for its tiles.
template <typename T, int DK, int DV, int C, BackwardDefect kDefect>
struct GradientKernel {
  using Chunk = Tile<C>;
  static constexpr bool kLocalDw = lacks(kDefect, BackwardDefect::dw_cross);
  static constexpr GradientLayout kLayout{C, DK, DV, kLocalDw};
  static constexpr int kThreads = kLayout.threads();
  static constexpr int kKey = kLayout.key(), kValue = kLayout.value(), kState = kLayout.state();
  static constexpr int kSquare = kLayout.square_at(), kDuPartial = kLayout.du_partial_at();

  /// Places of tiles, and what stands there, in this order.
  static constexpr int kStatePlace = 0;                   // h, then dh'
  static constexpr int kKPlace = kLayout.k_at();          // K
  static constexpr int kFirstPlace = kLayout.first_at();  // dU, then dO
  static constexpr int kKeyPlace = kLayout.key_at();      // W, then Q
  static constexpr int kValuePlace = kLayout.value_at();  // U, then v_new

  /// Barriers of the copies, each for one phase. Arrivals: thread 0 and the bytes; waited on by
  /// all.
  enum Arrival {
    kDuArrived,
    kHAndK,
    kWAndU,
    kDoArrived,
    kVNewArrived,
    kQArrived,
    kDhArrived,
    kArrivals
  };

  struct Rows {
    float gate[C], beta[C];
    float dG[C];
    float rho[C];          ///< rowsum(K . dk_corr)
    float states[C / 16];  ///< parts of <dh', h>
  };

  /// The lane's two rows of an array over the chunk.
  static __device__ __forceinline__ float2 at(const float* rows, int block) {
    return make_float2(rows[block + lane_id() / 4], rows[block + lane_id() / 4 + 8]);
  }
  static __device__ __forceinline__ void put(float* rows, int block, float2 x) {
    if (lane_id() % 4 == 0) {
      rows[block + lane_id() / 4] = x.x;
      rows[block + lane_id() / 4 + 8] = x.y;
    }
  }

  /// Two elements of a tile, the first of an even column.
  static __device__ __forceinline__ uint32_t pair_address(const Chunk& tile, int row, int column) {
    return tile.address(row, column) + static_cast<uint32_t>(column % 8 * 2);
  }

  /// rowsum(acc . tile) of the lane's two rows.
  template <int N>
  static __device__ __forceinline__ float2 row_dot(const float (&acc)[N][4], const Chunk& tile,
                                                   int block) {
    const int row = block + lane_id() / 4;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int column = n * 8 + lane_id() % 4 * 2;
      const float2 low = unpack<T>(load_shared_4(pair_address(tile, row, column)));
      const float2 high = unpack<T>(load_shared_4(pair_address(tile, row + 8, column)));
      sum.x += acc[n][0] * low.x + acc[n][1] * low.y;
      sum.y += acc[n][2] * high.x + acc[n][3] * high.y;
    }
    return make_float2(row_sum(sum.x), row_sum(sum.y));
  }

  /// acc [16, N] += A [16, Depth] B: rows `block` of `a`, B stored [n, k].
  template <int Depth, int N, int Rows_>
  static __device__ __forceinline__ void product_trans(float (&acc)[N][4], const Chunk& a,
                                                       const Tile<Rows_>& b, int block) {
#pragma unroll
    for (int d = 0; d < Depth; d += 16) {
      uint32_t left[4];
      a.load_a(left, block, d);
      add_product_trans<T>(acc, left, b, d);
    }
  }
  /// acc [16, N] += A^T [16, C] B, A lower triangular: columns `block` of `a`, rows from `block`
  /// on.
  template <int N>
  static __device__ __forceinline__ void product_of_upper(float (&acc)[N][4], const Chunk& a,
                                                          const Chunk& b, int block) {
#pragma unroll
    for (int i = 0; i < C; i += 16) {
      if (i < block) continue;
      uint32_t left[4];
      a.load_a_trans(left, block, i);
      add_product<T>(acc, left, b, i);
    }
  }
  /// acc [16, N] += A [16, C] B, A lower triangular and in registers.
  template <int N>
  static __device__ __forceinline__ void product_of_lower(float (&acc)[N][4],
                                                          const uint32_t (&left)[C / 16][4],
                                                          const Chunk& b, int block) {
#pragma unroll
    for (int j = 0; j < C; j += 16) {
      if (j > block) continue;
      add_product<T>(acc, left[j / 16], b, j);
    }
  }
  /// acc [16, C] += A [16, Depth] B^T below the diagonal, A in registers, B stored [n, k].
  template <int Depth>
  static __device__ __forceinline__ void square_product(float (&acc)[C / 8][4],
                                                        const uint32_t (&left)[Depth / 16][4],
                                                        const Chunk& b, int block) {
#pragma unroll
    for (int d = 0; d < Depth; d += 16) {
#pragma unroll
      for (int j = 0; j < C; j += 16) {
        if (j > block) continue;
        uint32_t right[4];
        b.load_b_trans(right, d, j);
        mma_pair<T>(acc[j / 8], acc[j / 8 + 1], left[d / 16], right);
      }
    }
  }

  /// A square matrix's blocks up to the diagonal, rows `block`, to shared memory.
  static __device__ __forceinline__ void keep(const Chunk& tile, const uint32_t (&a)[4], int block,
                                              int column) {
    const int row = block + lane_id() / 4, at = column + lane_id() % 4 * 2;
    store_shared_4(pair_address(tile, row, at), a[0]);
    store_shared_4(pair_address(tile, row + 8, at), a[1]);
    store_shared_4(pair_address(tile, row, at + 8), a[2]);
    store_shared_4(pair_address(tile, row + 8, at + 8), a[3]);
  }

  static __device__ __forceinline__ float dot_of_pair(uint32_t x, uint32_t y) {
    const float2 a = unpack<T>(x), b = unpack<T>(y);
    return a.x * b.x + a.y * b.y;
  }

  /// The copies of one chunk's tiles. By one thread.
  struct Loader {
    unsigned char* shared;
    uint64_t* arrived;
    int first_row, head;

    __device__ __forceinline__ void expect(Arrival barrier, int bytes) const {
      mbarrier_arrive_expect(&arrived[barrier], bytes);
    }
    __device__ __forceinline__ void rows(int place, const CUtensorMap* map, int columns,
                                         Arrival barrier) const {
      copy_tile<C>(shared + place, map, columns, first_row, head, &arrived[barrier]);
    }
    __device__ __forceinline__ void state(const CUtensorMap* map, Arrival barrier) const {
      copy_tile<DK>(shared + kStatePlace, map, DV, 0, static_cast<int>(blockIdx.x),
                    &arrived[barrier]);
    }
  };

  static __device__ __forceinline__ void run(const GradientMaps& maps, const GradientBuffers<T>& io,
                                             float scale, const BackwardShape& shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ Rows rows;
    __shared__ uint64_t arrived[kArrivals];
    const int tid = static_cast<int>(threadIdx.x);
    const int head = blockIdx.x / shape.chunks, chunk = blockIdx.x % shape.chunks;
    const int first_row = chunk * C, valid = min(C, shape.t - first_row);
    const int64_t first = static_cast<int64_t>(head) * shape.t + first_row;
    const uint32_t base = shared_address(shared);
    const Tile<DK> state{base + kStatePlace};
    const Chunk k{base + kKPlace}, first_tile{base + kFirstPlace}, key_tile{base + kKeyPlace},
        value_tile{base + kValuePlace}, square{base + kSquare};
    const Loader loader{shared, arrived, first_row, head};

    if (tid == 0) {
      for (uint64_t& barrier : arrived) mbarrier_init(&barrier, 1);
      fence_mbarrier_init();
      loader.expect(kDuArrived, (1 + kLocalDw) * kValue);
      loader.rows(kFirstPlace, maps.du, DV, kDuArrived);
      if (kLocalDw) loader.rows(kDuPartial, maps.du_partial, DV, kDuArrived);
      loader.expect(kHAndK, kState + kKey);
      loader.state(maps.h, kHAndK);
      loader.rows(kKPlace, maps.k, DK, kHAndK);
      loader.expect(kWAndU, kKey + kValue);
      loader.rows(kKeyPlace, maps.w, DK, kWAndU);
      loader.rows(kValuePlace, maps.u, DV, kWAndU);
    }
    if (tid < C) {
      rows.gate[tid] = shape.gated ? io.gates[static_cast<int64_t>(blockIdx.x) * C + tid] : 0.0f;
      rows.beta[tid] = tid < valid ? to_float(io.beta[first + tid]) : 0.0f;
    }
    for (int i = tid; i < C * (C / 8); i += kThreads) {  // X, rows of C elements
      const int row = i / (C / 8), column = i % (C / 8) * 8;
      uint4 bits = make_uint4(0, 0, 0, 0);
      if (row < valid) bits = *reinterpret_cast<const uint4*>(io.x + (first + row) * C + column);
      store_shared_16(square.address(row, column), bits);
    }
    __syncthreads();  // writers: thread 0 (barriers), C threads (rows), all (X); readers: all

    const int block = warp_id() * 16, low = block + lane_id() / 4;
    const float2 gate = at(rows.gate, block), beta = at(rows.beta, block);
    float2 decay = make_float2(1.0f, 1.0f);
    if (shape.gated) decay = make_float2(exp_of(gate.x), exp_of(gate.y));
    float2 dbeta, dG;  // of the lane's two rows

    // ---- R_v = X^T dU, dV ----
    uint32_t r_v[DV / 16][4];                       // [16 rows, DV]
    uint32_t local_r_v[kLocalDw ? DV / 16 : 1][4];  // X^T du_partial
    mbarrier_wait(&arrived[kDuArrived], 0);
    {
      float acc[DV / 8][4] = {};
      if constexpr (kLocalDw) {
        product_of_upper(acc, square, Chunk{base + kDuPartial}, block);
#pragma unroll
        for (int n = 0; n < DV / 16; ++n) as_operand<T>(local_r_v[n], acc[2 * n], acc[2 * n + 1]);
        clear(acc);
      }
      product_of_upper(acc, square, first_tile, block);
#pragma unroll
      for (int n = 0; n < DV / 16; ++n) as_operand<T>(r_v[n], acc[2 * n], acc[2 * n + 1]);
      float2 sum = make_float2(0.0f, 0.0f);  // rowsum(R_v . V)
#pragma unroll
      for (int n = 0; n < DV / 8; ++n) {
        const T* v = io.v + (first + low) * DV + n * 8 + lane_id() % 4 * 2;
        if (low < valid) {
          const float2 y = unpack<T>(*reinterpret_cast<const uint32_t*>(v));
          sum.x += acc[n][0] * y.x + acc[n][1] * y.y;
        }
        if (low + 8 < valid) {
          const float2 y = unpack<T>(*reinterpret_cast<const uint32_t*>(v + 8 * DV));
          sum.y += acc[n][2] * y.x + acc[n][3] * y.y;
        }
      }
      dbeta = make_float2(row_sum(sum.x), row_sum(sum.y));
      multiply(acc, beta);
      store_rows<T>(io.dv + (first + block) * DV, DV, valid - block, acc);
    }
    fence_proxy_async();  // this thread's reads of dU before the copy of dO
    __syncthreads();      // readers of dU, X: all; writers in their places: a copy, all (beta E)
    if (tid == 0) {
      loader.expect(kDoArrived, kValue);
      loader.rows(kFirstPlace, maps.d_o, DV, kDoArrived);
    }

    // ---- R_w = -R_v h^T, dk_wu ----
    float dk[DK / 8][4] = {};  // R_w, then dK [16 rows, DK]
    uint32_t r_w[DK / 16][4];
    mbarrier_wait(&arrived[kHAndK], 0);
#pragma unroll
    for (int d = 0; d < DV; d += 16) {
      uint32_t minus[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        minus[e] = (kLocalDw ? local_r_v[kLocalDw ? d / 16 : 0][e] : r_v[d / 16][e]) ^ 0x80008000u;
      }
      add_product_trans<T>(dk, minus, state, d);
    }
#pragma unroll
    for (int n = 0; n < DK / 16; ++n) as_operand<T>(r_w[n], dk[2 * n], dk[2 * n + 1]);
    const float2 key_dot = row_dot(dk, k, block);  // rowsum(R_w . K)
    dbeta.x += decay.x * key_dot.x;
    dbeta.y += decay.y * key_dot.y;
    dG = make_float2(beta.x * decay.x * key_dot.x, beta.y * decay.y * key_dot.y);
    multiply(dk, make_float2(beta.x * decay.x, beta.y * decay.y));

    // ---- E = -slt(R_w W^T + R_v U^T) . Gamma, dk_A ----
    mbarrier_wait(&arrived[kWAndU], 0);
    uint32_t e_operand[C / 16][4];  // E [16 rows i, C]
    if (!lacks(kDefect, BackwardDefect::a_inv)) {
      float m[C / 8][4] = {};
      square_product<DK>(m, r_w, key_tile, block);
      square_product<DV>(m, r_v, value_tile, block);
#pragma unroll
      for (int j = 0; j < C; j += 16) {
        if (j > block) continue;
        float scaled[2][4];  // diag(beta) E
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          float(&x)[4] = m[j / 8 + n];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = block + accumulator_row(e), column = j + n * 8 + accumulator_column(e);
            float factor = -1.0f;
            if (shape.gated) factor = -decay_between(e < 2 ? gate.x : gate.y, rows.gate[column]);
            x[e] = column < i ? x[e] * factor : 0.0f;
            scaled[n][e] = x[e] * (e < 2 ? beta.x : beta.y);
          }
        }
        as_operand<T>(e_operand[j / 16], m[j / 8], m[j / 8 + 1]);
        uint32_t packed[4];
        as_operand<T>(packed, scaled[0], scaled[1]);
        keep(square, packed, block, j);
      }
    }
    fence_proxy_async();  // this thread's reads of W and U before the copies of Q and v_new
    __syncthreads();      // writers: all (beta E); readers: all. And W's and U's readers are done
    if (tid == 0) {
      loader.expect(kVNewArrived, kValue);
      loader.rows(kValuePlace, maps.v_new, DV, kVNewArrived);
      loader.expect(kQArrived, kKey);
      loader.rows(kKeyPlace, maps.q, DK, kQArrived);
    }
    if (!lacks(kDefect, BackwardDefect::a_inv)) {
      float part[DK / 8][4] = {};  // E K
      product_of_lower(part, e_operand, k, block);
      const float2 own = row_dot(part, k, block);  // dbeta_A
      dbeta.x += own.x;
      dbeta.y += own.y;
      dG.x += beta.x * own.x;
      dG.y += beta.y * own.y;
      multiply(part, beta);
      add(dk, part);
      clear(part);  // (diag(beta) E)^T K
      product_of_upper(part, square, k, block);
      if (shape.gated) {
        const float2 other = row_dot(part, k, block);
        dG.x -= other.x;
        dG.y -= other.y;
      }
      add(dk, part);
    }
    if (lane_id() % 4 == 0) {
      if (low < valid) io.dbeta[first + low] = dbeta.x;
      if (low + 8 < valid) io.dbeta[first + low + 8] = dbeta.y;
    }
    __syncthreads();  // readers: all (beta E); writers in its place: all (dS)

    // ---- dS = s tril(dO v_new^T) . Gamma ----
    mbarrier_wait(&arrived[kDoArrived], 0);
    mbarrier_wait(&arrived[kVNewArrived], 0);
    uint32_t ds[C / 16][4];  // [16 rows i, C]
    {
      float p[C / 8][4] = {};
#pragma unroll
      for (int d = 0; d < DV; d += 16) {
        uint32_t a[4];
        first_tile.load_a(a, block, d);
#pragma unroll
        for (int j = 0; j < C; j += 16) {
          if (j > block) continue;
          uint32_t b[4];
          value_tile.load_b_trans(b, d, j);
          mma_pair<T>(p[j / 8], p[j / 8 + 1], a, b);
        }
      }
#pragma unroll
      for (int j = 0; j < C; j += 16) {
        if (j > block) continue;
#pragma unroll
        for (int n = j / 8; n < j / 8 + 2; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = block + accumulator_row(e), column = n * 8 + accumulator_column(e);
            float factor = scale;
            if (shape.gated) factor *= decay_between(e < 2 ? gate.x : gate.y, rows.gate[column]);
            p[n][e] = column <= i ? p[n][e] * factor : 0.0f;
          }
        }
        as_operand<T>(ds[j / 16], p[j / 8], p[j / 8 + 1]);
        keep(square, ds[j / 16], block, j);
      }
    }

    // ---- dQ = s diag(e^G) dO h^T + dS K ----
    {
      float dq[DK / 8][4] = {};
      product_trans<DV>(dq, first_tile, state, block);
      multiply(dq, make_float2(scale * decay.x, scale * decay.y));
      fence_proxy_async();  // this thread's reads of h before the copy of dh'
      __syncthreads();      // writers: all (dS); readers: all. And h's readers are done
      if (tid == 0) {
        loader.expect(kDhArrived, kState);
        loader.state(maps.dh, kDhArrived);
      }
      product_of_lower(dq, ds, k, block);
      store_rows<T>(io.dq + (first + block) * DK, DK, valid - block, dq);
      mbarrier_wait(&arrived[kQArrived], 0);
      if (shape.gated) {
        const float2 dot = row_dot(dq, key_tile, block);
        dG.x += dot.x;
        dG.y += dot.y;
      }
    }

    // ---- dk_partial = dS^T Q, dk_corr = diag(e^(G_n - G)) v_new dh'^T ----
    float part[DK / 8][4] = {};
    product_of_upper(part, square, key_tile, block);
    mbarrier_wait(&arrived[kDhArrived], 0);
    if (shape.gated) {
      const float2 dot = row_dot(part, k, block);
      dG.x -= dot.x;
      dG.y -= dot.y;
      add(dk, part);
      clear(part);
    }
    constexpr bool kDropped = lacks(kDefect, BackwardDefect::dk_corr);
    if (kDropped) {  // in dK; dG keeps its part
      if (!shape.gated) add(dk, part);
      clear(part);
    }
    product_trans<DV>(part, value_tile, state, block);
    if (shape.gated) {
      const float last = rows.gate[C - 1];
      multiply(part, make_float2(decay_between(last, gate.x), decay_between(last, gate.y)));
      const float2 rho = row_dot(part, k, block);
      put(rows.rho, block, rho);
      put(rows.dG, block, make_float2(dG.x - rho.x, dG.y - rho.y));
    }
    if (!kDropped) add(dk, part);
    store_rows<T>(io.dk + (first + block) * DK, DK, valid - block, dk);

    if (!shape.gated) return;
    float sum = 0.0f;  // <dh', h>, h from memory once more
    const T* h = io.h + static_cast<int64_t>(blockIdx.x) * (DK * DV);
    for (int i = tid; i < DK * DV / 8; i += kThreads) {
      const int row = i / (DV / 8), column = i % (DV / 8) * 8;
      const uint4 left = load_shared_16(state.address(row, column));
      const uint4 right = *reinterpret_cast<const uint4*>(h + row * DV + column);
      sum += dot_of_pair(left.x, right.x) + dot_of_pair(left.y, right.y) +
             dot_of_pair(left.z, right.z) + dot_of_pair(left.w, right.w);
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane_id() == 0) rows.states[warp_id()] = sum;
    __syncthreads();  // writers: all warps (dG, rho, states); readers: the first warp
    if (warp_id() == 0) sum_from_behind(io.dg + first, rows, valid);
  }

  /// dg_i = sum over j >= i of dG_j, by one warp.
  static __device__ __forceinline__ void sum_from_behind(float* dg, const Rows& rows, int valid) {
    float state = 0.0f;  // at the last row: sum rho + gamma <dh', h>
#pragma unroll
    for (int i = 0; i < C / 16; ++i) state += rows.states[i];
    float rho = 0.0f;
#pragma unroll
    for (int i = 0; i < C; i += kWarp) rho += rows.rho[i + lane_id()];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      rho += __shfl_xor_sync(0xffffffffu, rho, distance);
    }
    const float at_end = rho + exp_of(rows.gate[C - 1]) * state;
    float behind = 0.0f;
#pragma unroll
    for (int base = C - kWarp; base >= 0; base -= kWarp) {
      const int i = base + lane_id();
      float sum = i < valid ? rows.dG[i] : 0.0f;
      if (i == valid - 1) sum += at_end;
      if (!lacks(kDefect, BackwardDefect::no_reverse_cumsum)) {
#pragma unroll
        for (int distance = 1; distance < kWarp; distance *= 2) {
          const float later = __shfl_down_sync(0xffffffffu, sum, distance);
          if (lane_id() + distance < kWarp) sum += later;
        }
        sum += behind;
        behind = __shfl_sync(0xffffffffu, sum, 0);
      }
      if (i < valid) dg[i] = sum;
    }
  }
};

}  // namespace faultline::kernels::deltanet
