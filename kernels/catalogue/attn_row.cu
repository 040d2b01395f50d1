// SPDX-License-Identifier: Apache-2.0
// O = softmax(S, causal) V in fp32, by the online softmax: a query row per block, keys in tiles.
#include <math_constants.h>
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kTileKeys = 16;

/// grid (sq), block (d): thread = column of V. s [sq, sk], v [sk, d], o [sq, d]. The mask is causal
/// and aligned at the bottom right: query q sees keys up to q + sk - sq. A query that sees none
/// gives 0.
template <bool kGuarded>
__device__ void attn_row(const float* __restrict__ s, const float* __restrict__ v,
                         float* __restrict__ o, int sq, int sk, int d) {
  const int query = blockIdx.x, column = threadIdx.x;
  const int last = query + sk - sq;
  s += static_cast<int64_t>(query) * sk;
  float peak = -CUDART_INF_F, weight = 0.0f, sum = 0.0f;
  for (int first = 0; first < sk; first += kTileKeys) {
    const int end = min(first + kTileKeys, sk);
    float new_peak = peak;
    for (int key = first; key < end; ++key) {
      if (key <= last) new_peak = fmaxf(new_peak, s[key]);
    }
    // While no key was seen the peak is -inf, and -inf - -inf is not a number.
    const float shift = kGuarded && new_peak == -CUDART_INF_F ? 0.0f : new_peak;
    const float scale = expf(peak - shift);
    weight *= scale;
    sum *= scale;
    for (int key = first; key < end; ++key) {
      const float p = expf((key <= last ? s[key] : -CUDART_INF_F) - shift);
      weight += p;
      sum += p * v[static_cast<int64_t>(key) * d + column];
    }
    peak = new_peak;
  }
  o[static_cast<int64_t>(query) * d + column] = weight == 0.0f ? 0.0f : sum / weight;
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(1024)
    attn_row_guarded(const float* s, const float* v, float* o, int sq, int sk, int d) {
  faultline::kernels::catalogue::attn_row<true>(s, v, o, sq, sk, d);
}

__global__ void __launch_bounds__(1024)
    attn_row_unguarded_max(const float* s, const float* v, float* o, int sq, int sk, int d) {
  faultline::kernels::catalogue::attn_row<false>(s, v, o, sq, sk, d);
}

}  // extern "C"
