// SPDX-License-Identifier: Apache-2.0
// y = A x in fp32 with the reduction split over blocks, which add their parts to y atomically.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kRows = 128;  // rows of y a block, one a thread

/// grid (ceil(m / 128), splits), block (128): block y sums columns [y, y + 1) x `columns` of A.
/// a_transposed [k, m], x [k], y [m].
template <bool kZeroInKernel>
__device__ void gemv_splitk(const float* __restrict__ a_transposed, const float* __restrict__ x,
                            float* y, int m, int k, int columns) {
  const int row = blockIdx.x * kRows + threadIdx.x;
  // y is zeroed by one of the blocks that add to it, and a barrier orders the threads of a block
  // only: the others may have added their part before.
  if constexpr (kZeroInKernel) {
    if (blockIdx.y == 0 && row < m) y[row] = 0.0f;
    __syncthreads();
  }
  const int first = blockIdx.y * columns, end = min(first + columns, k);
  float part = 0.0f;
  if (row >= m) return;
  for (int i = first; i < end; ++i) part += a_transposed[static_cast<int64_t>(i) * m + row] * x[i];
  atomicAdd(&y[row], part);
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    gemv_splitk_zeroed_before(const float* a_transposed, const float* x, float* y, int m, int k,
                              int columns) {
  faultline::kernels::catalogue::gemv_splitk<false>(a_transposed, x, y, m, k, columns);
}

__global__ void __launch_bounds__(128)
    gemv_splitk_zero_in_kernel(const float* a_transposed, const float* x, float* y, int m, int k,
                               int columns) {
  faultline::kernels::catalogue::gemv_splitk<true>(a_transposed, x, y, m, k, columns);
}

}  // extern "C"
