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
constexpr int kInFlight = 8;  // loads of the state requested before the first is used

__device__ __forceinline__ double to_double(__half value) { return __half2float(value); }
__device__ __forceinline__ double to_double(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ double to_double(float value) { return value; }

/// Two neighbouring elements; the address is aligned to both.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};
template <typename T>
__device__ __forceinline__ Pair<T> load_pair(const T* address) {
  return *reinterpret_cast<const Pair<T>*>(address);
}

/// Sums of one column over the rows of a thread.
struct ColumnSums {
  double output;      // of q_i S'_ij
  double from_state;  // of output_error_i |S_ij|
};

template <typename T>
struct Arguments {
  const T *q, *k, *v, *gk, *state;
  double *expected_o, *bound_o, *expected_new_state, *bound_new_state;
};

/// Sum over the lanes of a warp, in every lane.
__device__ __forceinline__ double warp_sum(double value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <typename T>
__device__ __forceinline__ void oracle(Arguments<T> p, int dk, int dv, double scale,
                                       reference::GlaBound bound) {
  __shared__ reference::GlaRow rows[kMaxDk];                       // [dk]
  __shared__ double q_shared[kMaxDk], k_shared[kMaxDk];            // [dk]
  __shared__ reference::GlaHeadMagnitudes of_warp[kRowGroups];
  __shared__ ColumnSums sums[kRowGroups][kPanel];

  const int tid = static_cast<int>(threadIdx.x);
  const int x = tid % kWarp, y = tid / kWarp;
  const int64_t head = blockIdx.x;

  for (int panel = 0; panel < dv; panel += kPanel) {
    const int column = panel + 2 * x;
    const int64_t base = head * dk * dv + column;
    const Pair<T> v = load_pair(p.v + head * dv + column);
    ColumnSums s0{}, s1{};
    for (int first = y; first - y < dk; first += kRowGroups * kInFlight) {
      Pair<T> state[kInFlight];
#pragma unroll
      for (int r = 0; r < kInFlight; ++r) {
        const int i = first + r * kRowGroups;
        if (i < dk) state[r] = load_pair(p.state + base + static_cast<int64_t>(i) * dv);
      }
      if (panel == 0 && first == y) {  // while the first loads are in flight: rows, head sums
        double q = 0.0, k = 0.0;
        if (tid < dk) {
          q = to_double(p.q[head * dk + tid]);
          k = to_double(p.k[head * dk + tid]);
          q_shared[tid] = q;
          k_shared[tid] = k;
          rows[tid] = reference::gla_row(bound, q, to_double(p.gk[head * dk + tid]));
        }
        const double qk_sum = warp_sum(fabs(q) * fabs(k)), q_sum = warp_sum(fabs(q));
        if (x == 0) of_warp[y] = {.qk = qk_sum, .q = q_sum};
        __syncthreads();  // writers: the first dk threads (rows, q, k), lanes 0; readers: all
      }
      const double v0 = to_double(v.first), v1 = to_double(v.second);
#pragma unroll
      for (int r = 0; r < kInFlight; ++r) {
        const int i = first + r * kRowGroups;
        if (i >= dk) break;
        const reference::GlaRow row = rows[i];
        const double q = q_shared[i], k = k_shared[i];
        const double state0 = to_double(state[r].first), state1 = to_double(state[r].second);
        const double updated0 = fma(row.decay, state0, k * v0);
        const double updated1 = fma(row.decay, state1, k * v1);
        const int64_t at = base + static_cast<int64_t>(i) * dv;
        *reinterpret_cast<double2*>(p.expected_new_state + at) = make_double2(updated0, updated1);
        *reinterpret_cast<double2*>(p.bound_new_state + at) =
            make_double2(reference::gla_state_bound(row, state0, updated0),
                         reference::gla_state_bound(row, state1, updated1));
        s0.output = fma(q, updated0, s0.output);
        s1.output = fma(q, updated1, s1.output);
        s0.from_state = fma(row.output_error, fabs(state0), s0.from_state);
        s1.from_state = fma(row.output_error, fabs(state1), s1.from_state);
      }
    }
    sums[y][2 * x] = s0;
    sums[y][2 * x + 1] = s1;
    __syncthreads();  // writers: all (sums); readers: the first kPanel threads
    if (tid < kPanel) {
      ColumnSums total{};
      reference::GlaHeadMagnitudes of_head;
#pragma unroll
      for (int group = 0; group < kRowGroups; ++group) {
        total.output += sums[group][tid].output;
        total.from_state += sums[group][tid].from_state;
        of_head.qk += of_warp[group].qk;
        of_head.q += of_warp[group].q;
      }
      const int64_t at = head * dv + panel + tid;
      p.expected_o[at] = scale * total.output;
      p.bound_o[at] = reference::gla_output_bound(bound, scale, total.from_state, of_head,
                                                  to_double(p.v[at]));
    }
    __syncthreads();  // readers: the first kPanel threads (sums); writers: all, next panel
  }
}

}  // namespace

}  // namespace faultline::kernels::gla_decode

#define FAULTLINE_GLA_ORACLE(D, T)                                                                \
  extern "C" __global__ void __launch_bounds__(256, 4) oracle_gla_decode_##D(                     \
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
