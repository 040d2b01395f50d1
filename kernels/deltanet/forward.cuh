// SPDX-License-Identifier: Apache-2.0
//
// The chunkwise forward of the delta rule, gated or not, in three or four launches (16-bit dtypes):
//
//   prepare       a block a chunk    G = cumsum g; M = slt(diag(beta) K K^T . Gamma)
//                                    X = (I + M)^-1, W = X diag(beta e^G) K, U = X diag(beta) V
//   transitions   a warp 16 columns  long sequences only: what each segment of chunks does to the
//                                    state
//   states        a warp 16 columns  v_new = U - W h;  h' = gamma h + K^T diag(e^(G_n - G)) v_new,
//                                    chunk after chunk; h before each chunk and v_new are kept
//   output        a block a chunk    P = tril(Q K^T . Gamma), O = s (diag(e^G) Q h + P v_new)
//
//   q, k, w [B, H, T, DK]   v, u, v_new, o [B, H, T, DV]   beta [B, H, T]
//   g [B, H, T] fp32, or null: not gated
//   x [B, H, T, C] rows of X   h [B, H, N, DK, DV], N = ceil(T / C)   h0, hT [B, H, DK, DV] fp32
//   gated: gates [B, H, N C] fp32 G; decays [B, H, N, C + 4] fp32 (state_decay_record)
//   elements T in {__half, __nv_bfloat16}; DK, DV in {64, 128}; C in {32, 64}; any length T >= 1:
//   rows from T on are zeros in every tile (tensor copies fill them), beta and g count as zero
//   there, and nothing is stored to them.
//
// Tiles come by tensor copies with a 128-byte swizzle, as 3-D maps {columns, T, B H} (h: {DV, DK,
// B H N}) with boxes {64, C, 1} (h: {64, DK, 1}).
//
// Numeric plan: sums in fp32, tensor-core operands in T. Rounded to T: X (stored); X diag(beta e^G)
// and X diag(beta) (operands; K and V enter as they are); W, U; h as an operand and stored; v_new;
// gated: diag(e^(G_n - G)) v_new from the rounded v_new; P; O. The running state is fp32, that of a
// transition too; segments: Phi is stored in T, -W Phi and h as operands of the scan are T, L is
// fp32. The inverse is fp32: substitution in blocks of 16 rows, block products by three tf32
// products.
//
// Defects, each a `kDefect ==` line below, described there: one line of one kernel each.
#pragma once

#include "tiles.cuh"

namespace faultline::kernels::deltanet {

enum class Inverse { substitution, squaring };
enum class Defect { none, w_scaled_outside, gamma_twice, strict_tril, bf16_state };

// ---- prepare ------------------------------------------------------------------------------------

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
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        tile.load_b(b, 16 * k, panel * kPanelColumns + 16 * n);
        mma_pair<T>(acc[2 * n], acc[2 * n + 1], operand[k], b);
      }
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

// ---- states -------------------------------------------------------------------------------------
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

// ---- output -------------------------------------------------------------------------------------

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
  const float row_gate[2] = {gate_row[rows[0]], gate_row[rows[1]]};
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
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        h_tile.load_b(b, 16 * k, panel * kPanelColumns + 16 * n);
        mma_pair<T>(acc[2 * n], acc[2 * n + 1], a, b);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[n][i] *= row_factor[i / 2];
    }
#pragma unroll
    for (int k = 0; k < kChunk / 16; ++k) {
      if (k > warp) break;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        v_tile.load_b(b, 16 * k, panel * kPanelColumns + 16 * n);
        mma_pair<T>(acc[2 * n], acc[2 * n + 1], p[k], b);
      }
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

// ---- entries ------------------------------------------------------------------------------------

#define FAULTLINE_DELTANET_PREPARE(NAME, T, CHUNK, INVERSE, DEFECT)                               \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK)                                         \
      NAME(const T* beta, const float* g, T* w, T* u, T* x, float* gates, float* decays,          \
           int length, int dk, int dv, const __grid_constant__ CUtensorMap k_map,                 \
           const __grid_constant__ CUtensorMap v_map) {                                           \
    using namespace faultline::kernels::deltanet;                                                 \
    prepare<T, CHUNK, Inverse::INVERSE, Defect::DEFECT>(beta, g, w, u, x, gates, decays, length,  \
                                                        dk, dv, &k_map, &v_map);                  \
  }

#define FAULTLINE_DELTANET_TRANSITIONS(NAME, T, CHUNK, DK, DEFECT)                                \
  extern "C" __global__ void __launch_bounds__(288)                                            \
      NAME(const float* decays, T* transition, float4* local, int length, int dv, int gated,      \
           int segment_chunks, const __grid_constant__ CUtensorMap w_map,                         \
           const __grid_constant__ CUtensorMap k_map,                                             \
           const __grid_constant__ CUtensorMap u_map) {                                           \
    using namespace faultline::kernels::deltanet;                                                 \
    transitions<T, CHUNK, DK, Defect::DEFECT>(decays, transition, local, length, dv, gated,       \
                                              segment_chunks, &w_map, &k_map, &u_map);            \
  }

#define FAULTLINE_DELTANET_STATES(NAME, T, CHUNK, DK, DEFECT)                                     \
  extern "C" __global__ void __launch_bounds__(192)                                               \
      NAME(const float* decays, const float* h0, const float4* local, float* hT, int length,      \
           int dv, int gated, int segment_chunks, const __grid_constant__ CUtensorMap w_map,      \
           const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap u_map,  \
           const __grid_constant__ CUtensorMap h_map,                                             \
           const __grid_constant__ CUtensorMap v_new_map,                                         \
           const __grid_constant__ CUtensorMap transition_map) {                                  \
    using namespace faultline::kernels::deltanet;                                                 \
    states<T, CHUNK, DK, Defect::DEFECT>(decays, h0, local, hT, length, dv, gated,                \
                                         segment_chunks, &w_map, &k_map, &u_map, &h_map,          \
                                         &v_new_map, &transition_map);                            \
  }

#define FAULTLINE_DELTANET_OUTPUT(NAME, T, CHUNK, DK, DEFECT)                                     \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK) NAME(                                   \
      const float* gates, T* o, int length, int dv, int gated, float scale,                       \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,       \
      const __grid_constant__ CUtensorMap h_map, const __grid_constant__ CUtensorMap v_new_map) { \
    using namespace faultline::kernels::deltanet;                                                 \
    output<T, CHUNK, DK, Defect::DEFECT>(gates, o, length, dv, gated, scale, &q_map, &k_map,      \
                                         &h_map, &v_new_map);                                     \
  }

#define FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, DK)                                 \
  FAULTLINE_DELTANET_TRANSITIONS(deltanet_transitions_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T,   \
                                 CHUNK, DK, none)                                                 \
  FAULTLINE_DELTANET_STATES(deltanet_states_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T, CHUNK, DK,  \
                            none)                                                                 \
  FAULTLINE_DELTANET_OUTPUT(deltanet_output_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T, CHUNK, DK,  \
                            none)

#define FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, CHUNK)                                  \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_chunkwise_##DTYPE##_c##CHUNK, T, CHUNK,             \
                             substitution, none)                                                  \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_squaring_##DTYPE##_c##CHUNK, T, CHUNK, squaring,    \
                             none)                                                                \
  FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, 64)                                       \
  FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, 128)

#define FAULTLINE_DELTANET_FORWARD_MODULE(DTYPE, T)     \
  FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, 32) \
  FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, 64)

#define FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, DEFECT)                                \
  FAULTLINE_DELTANET_TRANSITIONS(deltanet_transitions_##DEFECT##_##DTYPE##_c64_dk64, T, 64, 64,   \
                                 DEFECT)                                                          \
  FAULTLINE_DELTANET_STATES(deltanet_states_##DEFECT##_##DTYPE##_c64_dk64, T, 64, 64, DEFECT)

#define FAULTLINE_DELTANET_FORWARD_MUTANTS(DTYPE, T)                                              \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_w_scaled_outside_##DTYPE##_c64, T, 64,              \
                             substitution, w_scaled_outside)                                      \
  FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, gamma_twice)                                 \
  FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, bf16_state)                                  \
  FAULTLINE_DELTANET_OUTPUT(deltanet_output_strict_tril_##DTYPE##_c64_dk64, T, 64, 64,            \
                            strict_tril)
