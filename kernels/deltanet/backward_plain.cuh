// SPDX-License-Identifier: Apache-2.0
//
// The backward of backward.cuh in fp32 and plain loops: the same launches (but for `segments`: the
// state goes through the chunks in one pass), tensors and defects, no tensor cores, no asynchronous
// copies. It is there to be right and easy to read, and because in fp32 every defect stands out
// from rounding.
//
//   q, k, w, dq, dk [B, H, T, DK]   v, u, v_new, do, du_partial, du, dv [B, H, T, DV]
//   x [B, H, T, C]   beta, dbeta, dg [B, H, T]   gates [B, H, N C]   h, dh [B, H, N, DK, DV]
//   dhT, dh0 [B, H, DK, DV]     all fp32; dg null: not gated
//   grid local, gradients (N, B H), state (DV / 16, B H); block 128
//
// Numeric plan: fp32 throughout, each sum a chain of fused multiply-adds, or 32 of them and a tree
// over a warp where both factors are contiguous.
#pragma once

#include "backward.cuh"
#include "forward_plain.cuh"

namespace faultline::kernels::deltanet {

/// The chunk of a block of a (N, B H) grid.
template <int kChunk>
struct PlainChunk {
  int rows;
  int64_t index, first;  ///< of the chunk; of its first row among all heads' rows
  const float* gates;
  bool gated;

  __device__ __forceinline__ PlainChunk(const float* all_gates, int length, int chunks,
                                        int64_t head, int chunk, bool gated_)
      : rows(min(length - chunk * kChunk, kChunk)),
        index(head * chunks + chunk),
        first(head * length + chunk * kChunk),
        gates(all_gates + index * kChunk),
        gated(gated_) {}

  /// e^(G_i - G_j)
  __device__ __forceinline__ float between(int i, int j) const {
    return gated ? exp_of(gates[i] - gates[j]) : 1.0f;
  }
  __device__ __forceinline__ float until(int i) const { return gated ? exp_of(gates[i]) : 1.0f; }
  __device__ __forceinline__ float after(int i) const { return between(kChunk - 1, i); }
};

__device__ __forceinline__ float warp_sum(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  }
  return x;
}

/// a . b over n contiguous elements by the whole warp, in every lane.
__device__ __forceinline__ float warp_dot(const float* a, const float* b, int n) {
  float sum = 0.0f;
  for (int i = lane_id(); i < n; i += kWarp) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

/// Calls each(i, j) for the warps' share of a [rows, columns] index space, with whole warps.
template <typename Each>
__device__ __forceinline__ void for_each_by_warps(int rows, int columns, const Each& each) {
  for (int index = warp_id(); index < rows * columns; index += kPlainThreads / kWarp) {
    each(index / columns, index % columns);
  }
}

/// a . rows[l] of the 32 rows from `rows` on, each `n` long and contiguous: that of its own lane.
__device__ __forceinline__ float warp_dot_of_lane(const float* a, const float* rows, int n) {
  float mine = 0.0f;
  for (int l = 0; l < kWarp; ++l) {
    const float sum = warp_dot(a, rows + l * n, n);
    if (l == lane_id()) mine = sum;
  }
  return mine;
}

/// sum over n of a[n * a_step] b[n * b_step]
__device__ __forceinline__ float dot(const float* a, int a_step, const float* b, int b_step, int n,
                                     float sum = 0.0f) {
  for (int i = 0; i < n; ++i) sum = fmaf(a[i * a_step], b[i * b_step], sum);
  return sum;
}

template <int kChunk>
__device__ __forceinline__ void local_plain(const float* q, const float* k, const float* d_o,
                                            const float* gates, float* du_partial, int length,
                                            int dk, int dv, int gated, float scale) {
  __shared__ float p[kChunk][kChunk + 1];
  const PlainChunk<kChunk> c(gates, length, gridDim.x, blockIdx.y, blockIdx.x, gated != 0);
  q += c.first * dk;
  k += c.first * dk;
  d_o += c.first * dv;
  for_each_by_warps(c.rows, c.rows, [&](int i, int j) {
    const float sum = j <= i ? warp_dot(q + i * dk, k + j * dk, dk) * c.between(i, j) : 0.0f;
    if (lane_id() == 0) p[i][j] = sum;
  });
  __syncthreads();  // writers: all (p); readers: all
  for_each_index(c.rows, dv, [&](int j, int l) {
    const float sum = dot(&p[j][j], kChunk + 1, d_o + j * dv + l, dv, c.rows - j);
    du_partial[(c.first + j) * dv + l] = scale * sum;
  });
}

template <int kChunk, BackwardDefect kDefect>
__device__ __forceinline__ void
state_plain(const float* q, const float* k, const float* w, const float* d_o, const float* gates,
            const float* du_partial, const float* dhT, float* dh, float* du, float* dh0, int length,
            int dk, int dv, int gated, float scale) {
  __shared__ float state[128][kStateColumns];      // dh' [DK, 16]
  __shared__ float du_row[kChunk][kStateColumns];  // what -W^T multiplies
  const int64_t head = blockIdx.y;
  const int column = static_cast<int>(blockIdx.x) * kStateColumns;
  const int chunks = (length + kChunk - 1) / kChunk;
  for_each_index(dk, kStateColumns,
                 [&](int l, int j) { state[l][j] = dhT[(head * dk + l) * dv + column + j]; });
  __syncthreads();  // writers: all (state); readers: all
  for (int chunk = chunks - 1; chunk >= 0; --chunk) {
    const PlainChunk<kChunk> c(gates, length, chunks, head, chunk, gated != 0);
    for_each_index(dk, kStateColumns,
                   [&](int l, int j) { dh[(c.index * dk + l) * dv + column + j] = state[l][j]; });
    for_each_index(c.rows, kStateColumns, [&](int i, int j) {
      const int64_t at = (c.first + i) * dv + column + j;
      float sum = du_partial[at];
      if (lacks(kDefect, BackwardDefect::dh_coefficient)) du_row[i][j] = sum;
      if (!lacks(kDefect, BackwardDefect::du_corr)) {
        sum += c.after(i) * dot(k + (c.first + i) * dk, 1, &state[0][j], kStateColumns, dk);
      }
      du[at] = sum;
      if (!lacks(kDefect, BackwardDefect::dh_coefficient)) du_row[i][j] = sum;
    });
    __syncthreads();  // readers: all (state); writers: all (du_row)
    for_each_index(dk, kStateColumns, [&](int l, int j) {
      float sum = 0.0f;  // what the chunk adds, apart from the larger state
      for (int i = 0; i < c.rows; ++i) {
        const int64_t row = c.first + i;
        sum = fmaf(scale * c.until(i) * q[row * dk + l], d_o[row * dv + column + j], sum);
        sum = fmaf(-w[row * dk + l], du_row[i][j], sum);
      }
      state[l][j] = fmaf(c.until(kChunk - 1), state[l][j], sum);
    });
    __syncthreads();  // writers: all (state); readers: all. And du_row's readers are done
  }
  for_each_index(dk, kStateColumns,
                 [&](int l, int j) { dh0[(head * dk + l) * dv + column + j] = state[l][j]; });
}

/// Inputs and outputs of gradients_plain.
struct PlainGradients {
  const float *q, *k, *v, *beta, *d_o, *gates, *x, *w, *u, *h, *v_new, *du_partial, *du, *dh;
  float *dq, *dk, *dv, *dbeta, *dg;
};

template <int kChunk, BackwardDefect kDefect>
__device__ __forceinline__ void gradients_plain(PlainGradients io, int length, int dk, int dv,
                                                float scale) {
  extern __shared__ __align__(16) float plain_shared[];
  constexpr int kStride = kChunk + 1;
  float* r_v = plain_shared;         // R_v [C, DV]
  float* r_w = r_v + kChunk * dv;    // R_w [C, DK]
  float* ds = r_w + kChunk * dk;     // dS [C, C]
  float* e = ds + kChunk * kStride;  // E [C, C]
  __shared__ float dG[kChunk], rho_of[kChunk], states[kPlainThreads / kWarp];
  const bool gated = io.dg != nullptr;
  const PlainChunk<kChunk> c(io.gates, length, gridDim.x, blockIdx.y, blockIdx.x, gated);
  const float* q = io.q + c.first * dk;
  const float* k = io.k + c.first * dk;
  const float* v = io.v + c.first * dv;
  const float* beta = io.beta + c.first;
  const float* d_o = io.d_o + c.first * dv;
  const float* x = io.x + c.first * kChunk;
  const float* w = io.w + c.first * dk;
  const float* u = io.u + c.first * dv;
  const float* v_new = io.v_new + c.first * dv;
  const float* h = io.h + c.index * dk * dv;
  const float* dh = io.dh + c.index * dk * dv;

  // X^T dU: the column from the diagonal on
  const auto through_inverse = [&](const float* from) {
    for_each_index(c.rows, dv, [&](int j, int l) {
      r_v[j * dv + l] =
          dot(x + j * kChunk + j, kChunk, from + (c.first + j) * dv + l, dv, c.rows - j);
    });
    __syncthreads();  // writers: all (r_v); readers: all
  };
  through_inverse(lacks(kDefect, BackwardDefect::dw_cross) ? io.du_partial : io.du);
  for_each_by_warps(c.rows, dk / kWarp, [&](int j, int part) {
    const int l = part * kWarp;
    r_w[j * dk + l + lane_id()] = -warp_dot_of_lane(r_v + j * dv, h + l * dv, dv);
  });
  if (lacks(kDefect, BackwardDefect::dw_cross)) {
    __syncthreads();  // readers: all (r_v); writers: all (r_v)
    through_inverse(io.du);
  }
  for_each_by_warps(c.rows, c.rows, [&](int i, int j) {
    float sum = 0.0f;
    if (j <= i) sum = scale * warp_dot(d_o + i * dv, v_new + j * dv, dv) * c.between(i, j);
    if (lane_id() == 0) ds[i * kStride + j] = sum;
  });
  __syncthreads();  // writers: all (r_w, ds); readers: all
  for_each_by_warps(c.rows, c.rows, [&](int i, int j) {
    float sum = 0.0f;
    if (j < i && !lacks(kDefect, BackwardDefect::a_inv)) {
      sum = warp_dot(r_w + i * dk, w + j * dk, dk) + warp_dot(r_v + i * dv, u + j * dv, dv);
      sum *= -c.between(i, j);
    }
    if (lane_id() == 0) e[i * kStride + j] = sum;
  });
  __syncthreads();  // writers: all (e); readers: all

  for (int i = warp_id(); i < c.rows; i += kPlainThreads / kWarp) {
    float dbeta = 0.0f, dg = 0.0f, rho = 0.0f;
    for (int l = lane_id(); l < dk; l += kWarp) {
      const int first = l - lane_id();
      float dq = scale * c.until(i) * warp_dot_of_lane(d_o + i * dv, h + first * dv, dv);
      dq = dot(ds + i * kStride, 1, k + l, dk, i + 1, dq);
      io.dq[(c.first + i) * dk + l] = dq;
      const float corr = c.after(i) * warp_dot_of_lane(v_new + i * dv, dh + first * dv, dv);
      const float corr_of_dk = lacks(kDefect, BackwardDefect::dk_corr) ? 0.0f : corr;
      const int later = c.rows - i;
      const float partial = dot(ds + i * (kStride + 1), kStride, q + i * dk + l, dk, later);
      const float wu = c.until(i) * r_w[i * dk + l];
      const float own = dot(e + i * kStride, 1, k + l, dk, i);  // E K
      float other = 0.0f;                                       // E^T diag(beta) K
      for (int m = i + 1; m < c.rows; ++m) {
        other = fmaf(e[m * kStride + i] * beta[m], k[m * dk + l], other);
      }
      io.dk[(c.first + i) * dk + l] = partial + corr_of_dk + beta[i] * (wu + own) + other;
      const float key = k[i * dk + l];
      dbeta = fmaf(key, wu + own, dbeta);
      dg += q[i * dk + l] * dq + key * (beta[i] * (wu + own) - partial - corr - other);
      rho = fmaf(key, corr, rho);
    }
    for (int l = lane_id(); l < dv; l += kWarp) {
      io.dv[(c.first + i) * dv + l] = beta[i] * r_v[i * dv + l];
      dbeta = fmaf(r_v[i * dv + l], v[i * dv + l], dbeta);
    }
    dbeta = warp_sum(dbeta);
    dg = warp_sum(dg);
    rho = warp_sum(rho);
    if (lane_id() == 0) {
      io.dbeta[c.first + i] = dbeta;
      dG[i] = dg;
      rho_of[i] = rho;
    }
  }
  if (!gated) return;
  float sum = 0.0f;  // <dh', h>
  for_each_index(1, dk * dv, [&](int, int i) { sum = fmaf(dh[i], h[i], sum); });
  sum = warp_sum(sum);
  if (lane_id() == 0) states[warp_id()] = sum;
  __syncthreads();  // writers: a lane of each warp (dG, rho_of, states); reader: thread 0
  if (threadIdx.x == 0) {
    float at_end = 0.0f;
    for (const float part : states) at_end += part;
    at_end *= c.until(kChunk - 1);
    for (int i = 0; i < c.rows; ++i) at_end += rho_of[i];
    dG[c.rows - 1] += at_end;
    float behind = 0.0f;
    for (int i = c.rows - 1; i >= 0; --i) {
      behind = lacks(kDefect, BackwardDefect::no_reverse_cumsum) ? dG[i] : behind + dG[i];
      io.dg[c.first + i] = behind;
    }
  }
}

}  // namespace faultline::kernels::deltanet

// ---- entries ------------------------------------------------------------------------------------

#define FAULTLINE_DELTANET_LOCAL_PLAIN(NAME, CHUNK)                                                \
  extern "C" __global__ void __launch_bounds__(128)                                                \
      NAME(const float* q, const float* k, const float* d_o, const float* gates,                   \
           float* du_partial, int length, int dk, int dv, int gated, float scale) {                \
    using namespace faultline::kernels::deltanet;                                                  \
    local_plain<CHUNK>(q, k, d_o, gates, du_partial, length, dk, dv, gated, scale);                \
  }

#define FAULTLINE_DELTANET_STATE_PLAIN(NAME, CHUNK, DEFECT)                                        \
  extern "C" __global__ void __launch_bounds__(128)                                                \
      NAME(const float* q, const float* k, const float* w, const float* d_o, const float* gates,   \
           const float* du_partial, const float* dhT, float* dh, float* du, float* dh0,            \
           int length, int dk, int dv, int gated, float scale) {                                   \
    using namespace faultline::kernels::deltanet;                                                  \
    state_plain<CHUNK, BackwardDefect::DEFECT>(q, k, w, d_o, gates, du_partial, dhT, dh, du, dh0,  \
                                               length, dk, dv, gated, scale);                      \
  }

#define FAULTLINE_DELTANET_GRADIENTS_PLAIN(NAME, CHUNK, DEFECT)                                    \
  extern "C" __global__ void __launch_bounds__(128) NAME(                                          \
      const float* q, const float* k, const float* v, const float* beta, const float* d_o,         \
      const float* gates, const float* x, const float* w, const float* u, const float* h,          \
      const float* v_new, const float* du_partial, const float* du, const float* dh, float* dq,    \
      float* d_k, float* d_v, float* dbeta, float* dg, int length, int dk, int dv, float scale) {  \
    using namespace faultline::kernels::deltanet;                                                  \
    gradients_plain<CHUNK, BackwardDefect::DEFECT>({q, k, v, beta, d_o, gates, x, w, u, h, v_new,  \
                                                    du_partial, du, dh, dq, d_k, d_v, dbeta, dg},  \
                                                   length, dk, dv, scale);                         \
  }
