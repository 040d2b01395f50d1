// SPDX-License-Identifier: Apache-2.0
// A few steps of the gated delta rule from an initial state: S_t = a_t (S - k (k^T S)) + k v^T,
// o_t = q^T S_t. One thread has a column of the state.
#include <stdint.h>

namespace faultline::kernels::catalogue {

/// block (dv). q, k [t, dk]; v, o [t, dv]; a [t]; h0, ht [dk, dv]: the state before and after.
/// `state` is where the steps work: ht, or (the defect) h0 itself, which belongs to the caller.
__device__ void gdn_step(const float* q, const float* k, const float* v, const float* a,
                         float* state, float* o, int t, int dk, int dv) {
  const int col = threadIdx.x;
  for (int step = 0; step < t; ++step) {
    float recalled = 0.0f;
    for (int i = 0; i < dk; ++i) recalled += k[step * dk + i] * state[i * dv + col];
    float out = 0.0f;
    for (int i = 0; i < dk; ++i) {
      const float key = k[step * dk + i];
      const float s = a[step] * (state[i * dv + col] - key * recalled) + key * v[step * dv + col];
      state[i * dv + col] = s;
      out += q[step * dk + i] * s;
    }
    o[step * dv + col] = out;
  }
}

__device__ void copy_column(const float* from, float* to, int dk, int dv) {
  for (int i = 0; i < dk; ++i) to[i * dv + threadIdx.x] = from[i * dv + threadIdx.x];
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void gdn_step_own_state(const float* q, const float* k, const float* v, const float* a,
                                   float* h0, float* ht, float* o, int t, int dk, int dv) {
  using namespace faultline::kernels::catalogue;
  copy_column(h0, ht, dk, dv);
  gdn_step(q, k, v, a, ht, o, t, dk, dv);
}

__global__ void gdn_step_scratch_is_input(const float* q, const float* k, const float* v,
                                          const float* a, float* h0, float* ht, float* o, int t,
                                          int dk, int dv) {
  using namespace faultline::kernels::catalogue;
  gdn_step(q, k, v, a, h0, o, t, dk, dv);
  copy_column(h0, ht, dk, dv);
}

}  // extern "C"
