// SPDX-License-Identifier: Apache-2.0
// L[r][c] = exp(g[r] - g[c]) for c <= r, else 0: the decay matrix of gated linear attention. A
// block has bm rows; its threads go along each of them, blockDim.x = bn columns at a time.
#include <stdint.h>

namespace faultline::kernels::catalogue {

/// g [t], cumulative log decays; L [t, t]. Up to and including its diagonal block, columns below
/// `end`, a row block computes; right of that it only clears.
template <bool kPanelEndsAtDiagonal>
__device__ void tril_decay(const float* __restrict__ g, float* __restrict__ l, int t, int bm) {
  const int begin = blockIdx.x * bm, end = min(begin + bm, t);
  const int bn = blockDim.x;
  // The panel is whole steps of bn columns. That it ends where the diagonal block does is so only
  // while bn divides bm.
  const int panel = kPanelEndsAtDiagonal ? end : (end + bn - 1) / bn * bn;
  for (int row = begin; row < end; ++row) {
    float* out = l + static_cast<int64_t>(row) * t;
    for (int col = threadIdx.x; col < min(panel, t); col += bn) {
      const bool above = col > row && col < end;  // in the upper half of the diagonal block
      out[col] = above ? 0.0f : expf(g[row] - g[col]);
    }
    for (int col = panel + threadIdx.x; col < t; col += bn) out[col] = 0.0f;
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void tril_decay_masked(const float* g, float* l, int t, int bm) {
  faultline::kernels::catalogue::tril_decay<true>(g, l, t, bm);
}

__global__ void tril_decay_overshoot(const float* g, float* l, int t, int bm) {
  faultline::kernels::catalogue::tril_decay<false>(g, l, t, bm);
}

}  // extern "C"
