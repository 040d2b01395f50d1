// SPDX-License-Identifier: Apache-2.0
// One delta-rule decode step, gated or not, and its error bounds in double on the device: the same
// formulas as reference::delta_decode, up to the order of the sums.
//
//   q, k [heads, dk]  v [heads, dv]  beta [heads] of T; g [heads] of float (not read when the bound
//   is ungated)   state [heads, dk, dv] of S, heads = batch * B * H
//   expected and bound of o [heads, dv] and of new_state [heads, dk, dv] of double
//   dk <= 128, dv in {64, 128}; grid = heads, block = 256
//
// Thread tid works on column tid % dv and on every (256 / dv)-th row: a warp reads 32 neighbours.
#include <faultline/core/dtype.hpp>
#include <faultline/reference/deltanet_decode_bound.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../common/element.cuh"

namespace faultline::kernels::deltanet {

namespace {

constexpr int kThreads = 256;
constexpr int kMaxDk = 128, kMaxDv = 128;
constexpr int kMaxParts = kThreads / 64;

/// Sums over the rows of a thread.
struct Sums {
  double read = 0.0, read_magnitude = 0.0;    // of S_ij k_i, |S_ij| |k_i|
  double query = 0.0, query_magnitude = 0.0;  // of S_ij q_i, |S_ij| |q_i|
};

template <typename T, typename S>
struct Arguments {
  const T *q, *k, *v, *beta;
  const float* g;
  const S* state;
  double *expected_o, *bound_o, *expected_new_state, *bound_new_state;
};

template <typename T, typename S>
__device__ __forceinline__ void oracle(Arguments<T, S> p, int dk, int dv, double scale,
                                       reference::DeltaDecodeBound bound) {
  __shared__ double q[kMaxDk], k[kMaxDk];                // [dk]
  __shared__ Sums sums[kMaxParts][kMaxDv];               // [part of the rows, column]
  __shared__ reference::DeltaColumn columns[kMaxDv];     // [dv]

  const int tid = static_cast<int>(threadIdx.x);
  const int j = tid % dv, part = tid / dv, parts = kThreads / dv;
  const int64_t head = blockIdx.x;
  const S* state = p.state + head * dk * dv + j;
  if (tid < dk) {
    q[tid] = to_float(p.q[head * dk + tid]);
    k[tid] = to_float(p.k[head * dk + tid]);
  }
  __syncthreads();  // writers: the first dk threads (q, k); readers: all
  Sums own;
#pragma unroll 4
  for (int i = part; i < dk; i += parts) {
    const double s = to_float(state[static_cast<int64_t>(i) * dv]);
    own.read = fma(s, k[i], own.read);
    own.read_magnitude = fma(fabs(s), fabs(k[i]), own.read_magnitude);
    own.query = fma(s, q[i], own.query);
    own.query_magnitude = fma(fabs(s), fabs(q[i]), own.query_magnitude);
  }
  sums[part][j] = own;
  __syncthreads();  // writers: all (sums); readers: the first dv threads
  const reference::DeltaDecay decay = reference::delta_decay(bound, bound.gated ? p.g[head] : 0.0);
  if (tid < dv) {
    for (int other = 1; other < parts; ++other) {
      const Sums more = sums[other][j];
      own.read += more.read;
      own.read_magnitude += more.read_magnitude;
      own.query += more.query;
      own.query_magnitude += more.query_magnitude;
    }
    reference::DeltaHeadSums of_head;
    for (int i = 0; i < dk; ++i) {
      of_head.qk = fma(q[i], k[i], of_head.qk);
      of_head.qk_magnitude = fma(fabs(q[i]), fabs(k[i]), of_head.qk_magnitude);
    }
    const int64_t at = head * dv + j;
    const reference::DeltaColumn column =
        reference::delta_column(bound, decay, to_float(p.beta[head]), to_float(p.v[at]), own.read,
                                own.read_magnitude);
    columns[j] = column;
    p.expected_o[at] = scale * fma(decay.value, own.query, of_head.qk * column.update);
    p.bound_o[at] = reference::delta_output_bound(bound, decay, scale, own.query_magnitude,
                                                  of_head, column);
  }
  __syncthreads();  // writers: the first dv threads (columns); readers: all
  const reference::DeltaColumn column = columns[j];
#pragma unroll 4
  for (int i = part; i < dk; i += parts) {
    const int64_t offset = static_cast<int64_t>(i) * dv, at = head * dk * dv + offset + j;
    const double s = to_float(state[offset]);
    const double updated = fma(k[i], column.update, decay.value * s);
    p.expected_new_state[at] = updated;
    p.bound_new_state[at] = reference::delta_state_bound(decay, s, k[i], updated, column);
  }
}

}  // namespace

}  // namespace faultline::kernels::deltanet

#define FAULTLINE_DELTA_DECODE_ORACLE(D, T, SD, S)                                                \
  extern "C" __global__ void __launch_bounds__(256) oracle_deltanet_decode_##D##_##SD(            \
      const T* q, const T* k, const T* v, const T* beta, const float* g, const S* state,          \
      double* expected_o, double* bound_o, double* expected_new_state, double* bound_new_state,   \
      int32_t dk, int32_t dv, double scale, double state_relative, double qk_relative,            \
      double absolute, int32_t gated, int32_t update) {                                           \
    faultline::kernels::deltanet::oracle<T, S>(                                                   \
        {q, k, v, beta, g, state, expected_o, bound_o, expected_new_state, bound_new_state}, dk,  \
        dv, scale,                                                                                \
        {state_relative, qk_relative, absolute, gated,                                            \
         static_cast<faultline::core::Dtype>(update)});                                           \
  }

FAULTLINE_DELTA_DECODE_ORACLE(f16, __half, sf32, float)
FAULTLINE_DELTA_DECODE_ORACLE(f16, __half, sf16, __half)
FAULTLINE_DELTA_DECODE_ORACLE(bf16, __nv_bfloat16, sf32, float)
FAULTLINE_DELTA_DECODE_ORACLE(bf16, __nv_bfloat16, sbf16, __nv_bfloat16)
FAULTLINE_DELTA_DECODE_ORACLE(f32, float, sf32, float)
