// SPDX-License-Identifier: Apache-2.0
//
// Backward of the delta rule, gated and not, chunk by chunk, on tensor cores (mma.sync m16n8k16).
//
// For every (batch, head): gradients of L = <o, do> + <hT, dhT>, from what the forward saves:
//
//   w [B,H,T,DK]  u, v_new [B,H,T,DV]  x = A^-1 [B,H,T,C]  h [B,H,N,DK,DV], state before each chunk
//
// N = ceil(T / C) chunks of C rows, the last may be shorter. Of one chunk, with G the gates summed
// from its first row (ungated 0), gamma = e^G_n, Gamma_ij = e^(G_i - G_j), dh' the gradient of the
// state after it:
//
//   local      P = tril(Q K^T . Gamma)                         du_partial = s P^T dO
//   state      dU = du_partial + diag(e^(G_n - G)) K dh'       chunks last to first, from dhT
//              dh = gamma dh' + Q^T diag(s e^G) dO - W^T dU    dh0 after the first
//   gradients  dS = s tril(dO V_new^T) . Gamma
//              dQ = s diag(e^G) dO h^T + dS K
//              dk_partial = dS^T Q,  dk_corr = diag(e^(G_n - G)) V_new dh'^T
//              R_v = X^T dU,  R_w = X^T dW = -R_v h^T          as dW = -dU h^T
//              dV = diag(beta) R_v,  dk_wu = diag(beta e^G) R_w
//              E = -slt(R_w W^T + R_v U^T) . Gamma             instead of -X^T dX X^T
//              dk_A = diag(beta) E K + (diag(beta) E)^T K
//              dK = dk_partial + dk_corr + dk_wu + dk_A
//              dbeta = rowsum(R_w . diag(e^G) K) + rowsum(R_v . V) + rowsum(K . E K)
//              dG = rowsum(Q . dQ) - rowsum(K . (dk_partial + dk_corr - dk_wu))
//                   + rowsum(beta K . E K) - rowsum(K . (diag(beta) E)^T K)
//              dG_n += sum of rowsum(K . dk_corr) + gamma <dh', h>
//              dg_i = sum of dG_j, j >= i
//
// `local` and `gradients` have one block a chunk. `state` is the serial part. Its columns (of dh,
// DV of them) are independent of each other: a warp owns 16, keeps them transposed in its
// accumulators, where they are the A operand of the next product without any exchange, and never
// waits for another warp but for the tiles they share. Along the sequence it is affine in dh',
//
//   dh = N dh' + gamma dh' + const,   N = -W^T diag(e^(G_n - G)) K,
//
// so it is cut into segments of consecutive chunks: `segments` finds, for all of them at once, the
// constant (the recurrence from 0, the last segment's from dhT) and the transition (the recurrence
// without input from the columns of the identity); `state` then starts every segment from the carry
// that the segments behind it make, and runs them all at once.
//
// Numeric plan: sums in fp32, tensor-core operands in T. Rounded to T: P; du_partial (stored); dh'
// as an operand and stored, the running gradient is fp32; dU; diag(s e^G) dO; dS; R_v and R_w as
// operands, E and diag(beta) E likewise. Of several segments N and the carried gradient as
// operands, gamma and the constants are fp32. dQ, dK, dV are sums in fp32 rounded once; dbeta, dg,
// dh0 fp32.
#pragma once

#include "backward_layout.hpp"
#include "tiles.cuh"

namespace faultline::kernels::deltanet {

/// What a mutant leaves out; each is one `lacks(...)` of the kernel named. The first four are from
/// a public kernel, ported from a gated form whose decay had hidden them; they show from one chunk
/// on when it is entered by a state and left by a gradient, as missing_term.
enum class BackwardDefect {
  none,
  a_inv,              ///< gradients: dk_A, dbeta_A, dG_A, what flows through X = A^-1
  dh_coefficient,     ///< state: -W^T K^ dh' in dh; the coefficient is then gamma I
  dw_cross,           ///< gradients: -du_corr h^T in dW
  all_three,          ///< a_inv, dh_coefficient and dw_cross
  du_corr,            ///< state: K^ dh' in dU, and so in dW and dh
  dk_corr,            ///< gradients: diag(e^(G_n - G)) v_new dh'^T in dK
  no_reverse_cumsum,  ///< gradients: the sum from behind, dg = dG; shows as wrong_term
};

FAULTLINE_HD constexpr bool lacks(BackwardDefect defect, BackwardDefect path) {
  const bool famous = path == BackwardDefect::a_inv || path == BackwardDefect::dh_coefficient ||
                      path == BackwardDefect::dw_cross;
  return defect == path || (defect == BackwardDefect::all_three && famous);
}

/// e^(later - earlier) of two summed gates. The sums fall, but for their rounding.
__device__ __forceinline__ float decay_between(float later, float earlier) {
  return exp_of(fminf(later - earlier, 0.0f));
}

// ---- accumulators -------------------------------------------------------------------------------

/// Where element e of the lane's part of a 16 x 8 accumulator stands.
__device__ __forceinline__ int accumulator_row(int e) { return lane_id() / 4 + e / 2 * 8; }
__device__ __forceinline__ int accumulator_column(int e) { return lane_id() % 4 * 2 + e % 2; }

template <int N>
__device__ __forceinline__ void add(float (&acc)[N][4], const float (&other)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] += other[n][e];
  }
}
template <int N>
__device__ __forceinline__ void clear(float (&acc)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] = 0.0f;
  }
}
template <int N>
__device__ __forceinline__ void multiply(float (&acc)[N][4], float factor) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[n][e] *= factor;
  }
}
/// By the factors of the lane's two rows.
template <int N>
__device__ __forceinline__ void multiply(float (&acc)[N][4], float2 rows) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    acc[n][0] *= rows.x;
    acc[n][1] *= rows.x;
    acc[n][2] *= rows.y;
    acc[n][3] *= rows.y;
  }
}

/// Sum over the four lanes that hold one row of an accumulator.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// ---- shared memory ------------------------------------------------------------------------------

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
__device__ __forceinline__ uint32_t load_shared_4(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t x) {
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(address), "r"(x) : "memory");
}

// ---- local: du_partial --------------------------------------------------------------------------

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
#pragma unroll
      for (int n = 0; n < DV; n += 16) {
        uint32_t b[4];
        d_o.load_b(b, i, n);
        mma_pair<T>(du[n / 8], du[n / 8 + 1], a, b);
      }
    }
    multiply(du, scale);
    store_rows<T>(du_partial + (first + block) * DV, DV, valid - block, du);
  }
};

// ---- state: dU, and dh' of every chunk ----------------------------------------------------------

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
#pragma unroll
        for (int n = 0; n < DK; n += 16) {
          uint32_t b[4];
          tile.load_b(b, j, n);
          mma_pair<T>(s[n / 8], s[n / 8 + 1], operand[j / 16], b);
        }
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

// ---- gradients ----------------------------------------------------------------------------------

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
#pragma unroll
      for (int n = 0; n < N * 8; n += 16) {
        uint32_t right[4];
        b.load_b_trans(right, d, n);
        mma_pair<T>(acc[n / 8], acc[n / 8 + 1], left, right);
      }
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
#pragma unroll
      for (int n = 0; n < N * 8; n += 16) {
        uint32_t right[4];
        b.load_b(right, i, n);
        mma_pair<T>(acc[n / 8], acc[n / 8 + 1], left, right);
      }
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
#pragma unroll
      for (int n = 0; n < N * 8; n += 16) {
        uint32_t right[4];
        b.load_b(right, j, n);
        mma_pair<T>(acc[n / 8], acc[n / 8 + 1], left[j / 16], right);
      }
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
#pragma unroll
      for (int n = 0; n < DK; n += 16) {
        uint32_t b[4];
        state.load_b_trans(b, d, n);
        mma_pair<T>(dk[n / 8], dk[n / 8 + 1], minus, b);
      }
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

// ---- entries ------------------------------------------------------------------------------------

#define FAULTLINE_DELTANET_LOCAL(NAME, T, DK, DV, CHUNK)                                           \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK) NAME(                                    \
      const float* gates, T* du_partial, float* decays, int t, int chunks, int gated, float scale, \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap do_map) {                                                \
    using namespace faultline::kernels::deltanet;                                                  \
    LocalKernel<T, DK, DV, CHUNK>::run(&q_map, &k_map, &do_map, gates, du_partial, decays, scale,  \
                                       {t, chunks, 1, chunks, gated});                             \
  }

#define FAULTLINE_DELTANET_SEGMENTS(NAME, T, DK, DV, CHUNK)                                        \
  extern "C" __global__ void __launch_bounds__(2 * (DK > DV ? DK : DV)) NAME(                      \
      const float* decays, const float* dhT, T* transitions, float* constants, float* factors,     \
      int t, int chunks, int segments, int segment_chunks, int gated, float scale,                 \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap do_map,       \
      const __grid_constant__ CUtensorMap du_partial_map) {                                        \
    using namespace faultline::kernels::deltanet;                                                  \
    StateKernel<T, DK, DV, CHUNK, BackwardDefect::none>::segments(                                 \
        {&k_map, &w_map, &q_map, &do_map, &du_partial_map, nullptr, nullptr, nullptr},             \
        {decays, dhT, transitions, constants, factors, nullptr}, scale,                            \
        {t, chunks, segments, segment_chunks, gated});                                             \
  }

#define FAULTLINE_DELTANET_STATE(NAME, T, DK, DV, CHUNK, DEFECT)                                   \
  extern "C" __global__ void __launch_bounds__(2 * DV) NAME(                                       \
      const float* decays, const float* dhT, float* constants, float* factors, float* dh0, int t,  \
      int chunks, int segments, int segment_chunks, int gated, float scale,                        \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap do_map,       \
      const __grid_constant__ CUtensorMap du_partial_map,                                          \
      const __grid_constant__ CUtensorMap transitions_map,                                         \
      const __grid_constant__ CUtensorMap dh_map, const __grid_constant__ CUtensorMap du_map) {    \
    using namespace faultline::kernels::deltanet;                                                  \
    StateKernel<T, DK, DV, CHUNK, BackwardDefect::DEFECT>::state(                                  \
        {&k_map, &w_map, &q_map, &do_map, &du_partial_map, &transitions_map, &dh_map, &du_map},    \
        {decays, dhT, nullptr, constants, factors, dh0}, scale,                                    \
        {t, chunks, segments, segment_chunks, gated});                                             \
  }

#define FAULTLINE_DELTANET_GRADIENTS(NAME, T, DK, DV, CHUNK, DEFECT)                               \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK, (DK + DV == 128 ? 3 : 2) * 64 / CHUNK)   \
      NAME(const T* v, const T* beta, const float* gates, const T* x, const T* h, T* dq, T* dk,    \
           T* dv, float* dbeta, float* dg, int t, int chunks, float scale,                         \
           const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,   \
           const __grid_constant__ CUtensorMap do_map,                                             \
           const __grid_constant__ CUtensorMap v_new_map,                                          \
           const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap u_map,   \
           const __grid_constant__ CUtensorMap h_map, const __grid_constant__ CUtensorMap dh_map,  \
           const __grid_constant__ CUtensorMap du_map,                                             \
           const __grid_constant__ CUtensorMap du_partial_map) {                                   \
    using namespace faultline::kernels::deltanet;                                                  \
    GradientKernel<T, DK, DV, CHUNK, BackwardDefect::DEFECT>::run(                                 \
        {&q_map, &k_map, &do_map, &v_new_map, &w_map, &u_map, &h_map, &dh_map, &du_map,            \
         &du_partial_map},                                                                         \
        {v, beta, gates, x, h, dq, dk, dv, dbeta, dg}, scale,                                      \
        {t, chunks, 1, chunks, dg != nullptr});                                                    \
  }

#define FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, DK, DV, CHUNK)                                  \
  FAULTLINE_DELTANET_LOCAL(deltanet_bwd_local_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK, DV,     \
                           CHUNK)                                                                  \
  FAULTLINE_DELTANET_SEGMENTS(deltanet_bwd_segments_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK,   \
                              DV, CHUNK)                                                           \
  FAULTLINE_DELTANET_STATE(deltanet_bwd_state_none_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK,    \
                           DV, CHUNK, none)                                                        \
  FAULTLINE_DELTANET_GRADIENTS(deltanet_bwd_gradients_none_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV,   \
                               T, DK, DV, CHUNK, none)

// DK = DV = 64, and what is wider.
#define FAULTLINE_DELTANET_BACKWARD_MODULE(DTYPE, T)                                               \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 64, 32)                                           \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 64, 64)
#define FAULTLINE_DELTANET_BACKWARD_MODULE_WIDE(DTYPE, T)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 128, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 128, 64)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 64, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 64, 64)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 128, 32)                                         \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 128, 64)

// The mutants, for DK = DV = 64: one kernel each differs from the clean launches (all_three: two).
#define FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, DEFECT)                                   \
  FAULTLINE_DELTANET_STATE(deltanet_bwd_state_##DEFECT##_##DTYPE##_c##CHUNK##_dk64_dv64, T, 64,    \
                           64, CHUNK, DEFECT)
#define FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, DEFECT)                               \
  FAULTLINE_DELTANET_GRADIENTS(deltanet_bwd_gradients_##DEFECT##_##DTYPE##_c##CHUNK##_dk64_dv64,   \
                               T, 64, 64, CHUNK, DEFECT)
#define FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, CHUNK)                                 \
  FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, dh_coefficient)                                 \
  FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, du_corr)                                        \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, a_inv)                                      \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, dw_cross)                                   \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, all_three)                                  \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, dk_corr)                                    \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, no_reverse_cumsum)
#define FAULTLINE_DELTANET_BACKWARD_MUTANTS(DTYPE, T)                                              \
  FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, 64)
