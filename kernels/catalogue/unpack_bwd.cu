// SPDX-License-Identifier: Apache-2.0
// Gradient of unpacking: sequences that lie one after another were copied into a padded array,
// those longer than the padding cut off. Rows that were cut off have the gradient 0.
#include <stdint.h>

namespace faultline::kernels::catalogue {

/// grid (4), block (32, 8): a sequence each. g [4, max_length, d], dx [n0 + n1 + n2 + n3, d].
template <bool kClipped>
__device__ void unpack_bwd(const float* __restrict__ g, float* __restrict__ dx, int4 lengths,
                           int max_length, int d) {
  const int sequence = blockIdx.x;
  const int of[4] = {lengths.x, lengths.y, lengths.z, lengths.w};
  int start = 0, length = of[0];
#pragma unroll
  for (int before = 0; before < 3; ++before) {
    if (before >= sequence) continue;
    start += of[before];
    length = of[before + 1];
  }
  // Clipped as in the forward pass; but dx has rows for the whole sequence, and nobody else
  // writes those beyond.
  const int rows = kClipped ? min(length, max_length) : length;
  for (int row = threadIdx.y; row < rows; row += blockDim.y) {
    for (int column = threadIdx.x; column < d; column += blockDim.x) {
      dx[static_cast<int64_t>(start + row) * d + column] =
          row < max_length ? g[(static_cast<int64_t>(sequence) * max_length + row) * d + column]
                           : 0.0f;
    }
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(256) unpack_bwd_whole(const float* g, float* dx, int n0, int n1,
                                                        int n2, int n3, int max_length, int d) {
  faultline::kernels::catalogue::unpack_bwd<false>(g, dx, make_int4(n0, n1, n2, n3), max_length, d);
}

__global__ void __launch_bounds__(256)
    unpack_bwd_clipped_length(const float* g, float* dx, int n0, int n1, int n2, int n3,
                              int max_length, int d) {
  faultline::kernels::catalogue::unpack_bwd<true>(g, dx, make_int4(n0, n1, n2, n3), max_length, d);
}

}  // extern "C"
