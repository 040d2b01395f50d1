// SPDX-License-Identifier: Apache-2.0
//
// The chunkwise forward of forward.cuh in fp32 and plain loops: prepare, states and output with the
// same tensors and defects, no tensor cores, no asynchronous copies, no segments. It is there to be
// right and easy to read, and because in fp32 every defect stands out from rounding.
//
//   q, k, w [B, H, T, DK]   v, u, v_new, o [B, H, T, DV]   x [B, H, T, C]   gates [B, H, N C]
//   h [B, H, N, DK, DV]     all fp32; g null: not gated
//   grid prepare, output (B H, N), states (B H, DV / 16); block 128
//
// Numeric plan: fp32 throughout, each sum a chain of fused multiply-adds.
#pragma once

#include "forward.cuh"

namespace faultline::kernels::deltanet {

constexpr int kPlainThreads = 128;

/// Calls each(i, j) for the threads' share of a [rows, columns] index space.
template <typename Each>
__device__ __forceinline__ void for_each_index(int rows, int columns, const Each& each) {
  for (int index = static_cast<int>(threadIdx.x); index < rows * columns; index += kPlainThreads) {
    each(index / columns, index % columns);
  }
}

/// x = (I + M)^-1, a thread a column.
template <int kChunk>
__device__ __forceinline__ void invert_plain(const float (&m)[kChunk][kChunk + 1],
                                             float (&x)[kChunk][kChunk + 1]) {
  const int column = static_cast<int>(threadIdx.x);
  if (column < kChunk) {
    for (int i = 0; i < kChunk; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
      for (int j = column; j < i; ++j) sum = fmaf(-m[i][j], x[j][column], sum);
      x[i][column] = sum;
    }
  }
  __syncthreads();  // writers: kChunk threads (x); readers: all
}

/// The same as prod_r (I + P^(2^r)), P = -M: forward.cuh says when it fails.
template <int kChunk>
__device__ __forceinline__ void invert_plain_by_squaring(float (&p)[kChunk][kChunk + 1],
                                                         float (&x)[kChunk][kChunk + 1],
                                                         float (&scratch)[kChunk][kChunk + 1]) {
  for_each_index(kChunk, kChunk, [&](int i, int j) {
    p[i][j] = -p[i][j];
    x[i][j] = p[i][j] + (i == j ? 1.0f : 0.0f);
  });
  const auto product = [&](auto& out, const auto& a, const auto& b, bool add_a) {
    for_each_index(kChunk, kChunk, [&](int i, int j) {
      float sum = add_a ? a[i][j] : 0.0f;
      for (int l = 0; l < kChunk; ++l) sum = fmaf(a[i][l], b[l][j], sum);
      out[i][j] = sum;
    });
  };
  const auto copy = [&](auto& out, const auto& from) {
    for_each_index(kChunk, kChunk, [&](int i, int j) { out[i][j] = from[i][j]; });
  };
  for (int covered = 2; covered < kChunk; covered *= 2) {
    __syncthreads();  // writers: all (p, x); readers: all
    product(scratch, p, p, false);
    __syncthreads();  // readers: all (p); writers: all (p)
    copy(p, scratch);
    __syncthreads();  // writers: all (p); readers: all
    product(scratch, x, p, true);
    __syncthreads();  // readers: all (x); writers: all (x)
    copy(x, scratch);
  }
  __syncthreads();  // writers: all (x); readers: all
}

template <int kChunk, Inverse kInverse, Defect kDefect>
__device__ __forceinline__ void prepare_plain(const float* k, const float* v, const float* beta,
                                              const float* g, float* w, float* u, float* x,
                                              float* gates, int length, int dk, int dv) {
  __shared__ float m[kChunk][kChunk + 1], inverse[kChunk][kChunk + 1];
  __shared__ float scratch[kInverse == Inverse::squaring ? kChunk : 1][kChunk + 1];
  __shared__ float gate_row[kChunk], beta_row[kChunk];
  const int64_t head = blockIdx.x;
  const int chunk = static_cast<int>(blockIdx.y), chunks = static_cast<int>(gridDim.y);
  const int row0 = chunk * kChunk, rows = min(length - row0, kChunk);
  const int64_t first = head * length + row0;
  k += first * dk;                                       // [rows, DK]
  v += first * dv;                                       // [rows, DV]

  if (threadIdx.x < kWarp) {
    sum_gates<kChunk>(gate_row, g == nullptr ? nullptr : g + head * length, row0, length);
  }
  for_each_index(1, kChunk, [&](int, int i) { beta_row[i] = i < rows ? beta[first + i] : 0.0f; });
  __syncthreads();  // writers: one warp (gate_row), kChunk threads (beta_row); readers: all
  for_each_index(1, kChunk, [&](int, int i) {
    gates[(head * chunks + chunk) * kChunk + i] = gate_row[i];
  });
  for_each_index(kChunk, kChunk, [&](int i, int j) {
    float sum = 0.0f;
    if (j < i && i < rows) {
      for (int l = 0; l < dk; ++l) sum = fmaf(k[i * dk + l], k[j * dk + l], sum);
      if (g != nullptr) sum *= exp_of(gate_row[i] - gate_row[j]);
      sum *= beta_row[i];
    }
    m[i][j] = sum;
  });
  __syncthreads();  // writers: all (m); readers: all
  if constexpr (kInverse == Inverse::substitution) {
    invert_plain<kChunk>(m, inverse);
  } else {
    invert_plain_by_squaring<kChunk>(m, inverse, scratch);
  }
  for_each_index(rows, kChunk, [&](int i, int j) { x[(first + i) * kChunk + j] = inverse[i][j]; });
  for_each_index(rows, dk, [&](int i, int l) {
    float sum = 0.0f;
    for (int j = 0; j <= i; ++j) {
      float factor = beta_row[j];
      // Defect w_scaled_outside: see prepare() in forward.cuh.
      if (kDefect != Defect::w_scaled_outside && g != nullptr) factor *= exp_of(gate_row[j]);
      sum = fmaf(inverse[i][j] * factor, k[j * dk + l], sum);
    }
    if (kDefect == Defect::w_scaled_outside && g != nullptr) sum *= exp_of(gate_row[i]);
    w[(first + i) * dk + l] = sum;
  });
  for_each_index(rows, dv, [&](int i, int l) {
    float sum = 0.0f;
    for (int j = 0; j <= i; ++j) sum = fmaf(inverse[i][j] * beta_row[j], v[j * dv + l], sum);
    u[(first + i) * dv + l] = sum;
  });
}

template <int kChunk, Defect kDefect>
__device__ __forceinline__ void states_plain(const float* k, const float* w, const float* u,
                                             const float* gates, const float* h0, float* hT,
                                             float* h, float* v_new, int length, int dk, int dv,
                                             int gated) {
  __shared__ float state[128][kStateColumns];            // [DK, 16]
  __shared__ float v_row[kChunk][kStateColumns];         // decayed v_new
  const int64_t head = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y) * kStateColumns;
  const int chunks = (length + kChunk - 1) / kChunk;
  for_each_index(dk, kStateColumns, [&](int l, int j) {
    state[l][j] = h0[(head * dk + l) * dv + column + j];
  });
  __syncthreads();  // writers: all (state); readers: all
  for (int c = 0; c < chunks; ++c) {
    const int row0 = c * kChunk, rows = min(length - row0, kChunk);
    const int64_t first = head * length + row0;
    const float* gate_row = gates + (head * chunks + c) * kChunk;
    for_each_index(dk, kStateColumns, [&](int l, int j) {
      h[((head * chunks + c) * dk + l) * dv + column + j] = state[l][j];
    });
    for_each_index(rows, kStateColumns, [&](int i, int j) {
      float sum = u[(first + i) * dv + column + j];
      for (int l = 0; l < dk; ++l) sum = fmaf(-w[(first + i) * dk + l], state[l][j], sum);
      v_new[(first + i) * dv + column + j] = sum;
      v_row[i][j] = gated != 0 ? sum * exp_of(gate_row[kChunk - 1] - gate_row[i]) : sum;
    });
    __syncthreads();  // readers: all (state), writers: all (v_row)
    float decay = gated != 0 ? exp_of(gate_row[kChunk - 1]) : 1.0f;
    // Defect gamma_twice: see states() in forward.cuh.
    if (kDefect == Defect::gamma_twice) decay *= decay;
    for_each_index(dk, kStateColumns, [&](int l, int j) {
      float sum = decay * state[l][j];
      for (int i = 0; i < rows; ++i) sum = fmaf(k[(first + i) * dk + l], v_row[i][j], sum);
      // Defect bf16_state: see states() in forward.cuh.
      if (kDefect == Defect::bf16_state) sum = to_float(from_float<__nv_bfloat16>(sum));
      state[l][j] = sum;
    });
    __syncthreads();  // writers: all (state); readers: all. And v_row's readers are done
  }
  for_each_index(dk, kStateColumns, [&](int l, int j) {
    hT[(head * dk + l) * dv + column + j] = state[l][j];
  });
}

template <int kChunk, Defect kDefect>
__device__ __forceinline__ void output_plain(const float* q, const float* k, const float* h,
                                             const float* v_new, const float* gates, float* o,
                                             int length, int dk, int dv, int gated, float scale) {
  __shared__ float p[kChunk][kChunk + 1];
  const int64_t head = blockIdx.x;
  const int chunk = static_cast<int>(blockIdx.y), chunks = static_cast<int>(gridDim.y);
  const int row0 = chunk * kChunk, rows = min(length - row0, kChunk);
  const int64_t first = head * length + row0;
  const float* gate_row = gates + (head * chunks + chunk) * kChunk;
  q += first * dk;                                       // [rows, DK]
  k += first * dk;                                       // [rows, DK]
  v_new += first * dv;                                   // [rows, DV]
  h += (head * chunks + chunk) * dk * dv;                // [DK, DV]
  for_each_index(rows, rows, [&](int i, int j) {
    float sum = 0.0f;
    // Defect strict_tril: see output() in forward.cuh.
    if (kDefect == Defect::strict_tril ? j < i : j <= i) {
      for (int l = 0; l < dk; ++l) sum = fmaf(q[i * dk + l], k[j * dk + l], sum);
      if (gated != 0) sum *= exp_of(gate_row[i] - gate_row[j]);
    }
    p[i][j] = sum;
  });
  __syncthreads();  // writers: all (p); readers: all
  for_each_index(rows, dv, [&](int i, int j) {
    float sum = 0.0f;
    for (int l = 0; l < dk; ++l) sum = fmaf(q[i * dk + l], h[l * dv + j], sum);
    if (gated != 0) sum *= exp_of(gate_row[i]);
    for (int l = 0; l <= i; ++l) sum = fmaf(p[i][l], v_new[l * dv + j], sum);
    o[(first + i) * dv + j] = scale * sum;
  });
}

#define FAULTLINE_DELTANET_PREPARE_PLAIN(NAME, CHUNK, INVERSE, DEFECT)                            \
  extern "C" __global__ void __launch_bounds__(128)                                               \
      NAME(const float* k, const float* v, const float* beta, const float* g, float* w, float* u, \
           float* x, float* gates, int length, int dk, int dv) {                                  \
    using namespace faultline::kernels::deltanet;                                                 \
    prepare_plain<CHUNK, Inverse::INVERSE, Defect::DEFECT>(k, v, beta, g, w, u, x, gates, length, \
                                                           dk, dv);                               \
  }

#define FAULTLINE_DELTANET_STATES_PLAIN(NAME, CHUNK, DEFECT)                                      \
  extern "C" __global__ void __launch_bounds__(128)                                               \
      NAME(const float* k, const float* w, const float* u, const float* gates, const float* h0,   \
           float* hT, float* h, float* v_new, int length, int dk, int dv, int gated) {            \
    using namespace faultline::kernels::deltanet;                                                 \
    states_plain<CHUNK, Defect::DEFECT>(k, w, u, gates, h0, hT, h, v_new, length, dk, dv, gated); \
  }

#define FAULTLINE_DELTANET_OUTPUT_PLAIN(NAME, CHUNK, DEFECT)                                      \
  extern "C" __global__ void __launch_bounds__(128)                                               \
      NAME(const float* q, const float* k, const float* h, const float* v_new,                    \
           const float* gates, float* o, int length, int dk, int dv, int gated, float scale) {    \
    using namespace faultline::kernels::deltanet;                                                 \
    output_plain<CHUNK, Defect::DEFECT>(q, k, h, v_new, gates, o, length, dk, dv, gated, scale);  \
  }

}  // namespace faultline::kernels::deltanet
