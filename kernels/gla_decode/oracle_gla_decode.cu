// SPDX-License-Identifier: Apache-2.0
// One GLA decode step and its error bounds in double on the device: the same formulas as
// reference::gla_decode, up to the order of the sums.
//
//   q, k, gk [heads, dk]   v [heads, dv]   state [heads, dk, dv] of T, heads = batch * B * H
//   expected and bound of o [heads, dv] and of new_state [heads, dk, dv] of double
//   dk <= 256, dv a multiple of 64; grid = heads, block = 256
//
// Thread (x, y) = (tid % 32, tid / 32) works on columns 2x, 2x + 1 of a panel of 64 and on rows
// y, y + 8, ...: a warp reads one row of 64 elements and writes 512 bytes per output array.
#include <faultline/core/dtype.hpp>
#include <faultline/reference/gla_decode_bound.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace faultline::kernels::gla_decode {

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kMaxDk = 256;
constexpr int kPanel = 2 * kWarp;
constexpr int kRowGroups = kThreads / kWarp;

__device__ __forceinline__ double to_double(__half value) { return __half2float(value); }
__device__ __forceinline__ double to_double(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ double to_double(float value) { return value; }

/// Two neighbouring elements; the address is aligned to both.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};

/// Sums of one column over the rows of a thread.
struct ColumnSums {
  double output;  // q_i S'_ij
  reference::GlaMagnitudes magnitudes;
};

template <typename T>
struct Arguments {
  const T *q, *k, *v, *gk, *state;
  double *expected_o, *bound_o, *expected_new_state, *bound_new_state;
};

template <typename T>
__device__ __forceinline__ void oracle(Arguments<T> p, int dk, int dv, double scale,
                                       reference::GlaBound bound) {
  __shared__ reference::GlaRow rows[kMaxDk];                       // [dk]
  __shared__ double q_shared[kMaxDk], k_shared[kMaxDk];            // [dk]
  __shared__ ColumnSums sums[kRowGroups][kPanel];

  const int tid = static_cast<int>(threadIdx.x);
  const int x = tid % kWarp, y = tid / kWarp;
  const int64_t head = blockIdx.x;
  const int64_t states = head * dk * dv;
  if (tid < dk) {
    const double q = to_double(p.q[head * dk + tid]);
    q_shared[tid] = q;
    k_shared[tid] = to_double(p.k[head * dk + tid]);
    rows[tid] = reference::gla_row(bound, q, to_double(p.gk[head * dk + tid]));
  }
  __syncthreads();  // writers: the first dk threads (rows, q, k); readers: all

  for (int panel = 0; panel < dv; panel += kPanel) {
    const int column = panel + 2 * x;
    const Pair<T> v = *reinterpret_cast<const Pair<T>*>(p.v + head * dv + column);
    const double v0 = to_double(v.first), v1 = to_double(v.second);
    ColumnSums s0{}, s1{};
#pragma unroll 2
    for (int i = y; i < dk; i += kRowGroups) {
      const int64_t at = states + static_cast<int64_t>(i) * dv + column;
      const Pair<T> s = *reinterpret_cast<const Pair<T>*>(p.state + at);
      const reference::GlaRow row = rows[i];
      const double q = q_shared[i], k = k_shared[i], magnitude = fabs(row.query);
      const double state0 = to_double(s.first), state1 = to_double(s.second);
      const double updated0 = fma(row.decay, state0, k * v0);
      const double updated1 = fma(row.decay, state1, k * v1);
      *reinterpret_cast<double2*>(p.expected_new_state + at) = make_double2(updated0, updated1);
      *reinterpret_cast<double2*>(p.bound_new_state + at) =
          make_double2(reference::gla_state_bound(row, state0, updated0),
                       reference::gla_state_bound(row, state1, updated1));
      s0.output = fma(q, updated0, s0.output);
      s1.output = fma(q, updated1, s1.output);
      s0.magnitudes.state = fma(magnitude, fabs(state0), s0.magnitudes.state);
      s1.magnitudes.state = fma(magnitude, fabs(state1), s1.magnitudes.state);
      s0.magnitudes.query_error = fma(row.query_error, fabs(state0), s0.magnitudes.query_error);
      s1.magnitudes.query_error = fma(row.query_error, fabs(state1), s1.magnitudes.query_error);
    }
    sums[y][2 * x] = s0;
    sums[y][2 * x + 1] = s1;
    __syncthreads();  // writers: all (sums); readers: the first kPanel threads
    if (tid < kPanel) {
      ColumnSums total = sums[0][tid];
      for (int group = 1; group < kRowGroups; ++group) {
        total.output += sums[group][tid].output;
        total.magnitudes.state += sums[group][tid].magnitudes.state;
        total.magnitudes.query_error += sums[group][tid].magnitudes.query_error;
      }
      reference::GlaHeadMagnitudes of_head;
      for (int i = 0; i < dk; ++i) {
        of_head.qk = fma(fabs(q_shared[i]), fabs(k_shared[i]), of_head.qk);
        of_head.q += fabs(q_shared[i]);
      }
      const int64_t at = head * dv + panel + tid;
      p.expected_o[at] = scale * total.output;
      p.bound_o[at] =
          reference::gla_output_bound(bound, scale, total.magnitudes, of_head, to_double(p.v[at]));
    }
    __syncthreads();  // readers: the first kPanel threads (sums); writers: all, next panel
  }
}

}  // namespace

}  // namespace faultline::kernels::gla_decode

#define FAULTLINE_GLA_ORACLE(D, T)                                                                \
  extern "C" __global__ void __launch_bounds__(256) oracle_gla_decode_##D(                        \
      const T* q, const T* k, const T* v, const T* gk, const T* state, double* expected_o,        \
      double* bound_o, double* expected_new_state, double* bound_new_state, int32_t dk,           \
      int32_t dv, double scale, double state_relative, double qk_relative, double absolute,       \
      int32_t query) {                                                                            \
    faultline::kernels::gla_decode::oracle<T>(                                                    \
        {q, k, v, gk, state, expected_o, bound_o, expected_new_state, bound_new_state}, dk, dv,   \
        scale,                                                                                    \
        {state_relative, qk_relative, absolute, static_cast<faultline::core::Dtype>(query)});     \
  }

FAULTLINE_GLA_ORACLE(f16, __half)
FAULTLINE_GLA_ORACLE(bf16, __nv_bfloat16)
FAULTLINE_GLA_ORACLE(f32, float)
