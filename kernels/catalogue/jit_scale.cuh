// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(D), D compiled in: what a just-in-time compiler builds once for each head size.
#pragma once

namespace faultline::kernels::catalogue {

/// 1 / sqrt(D) for the D whose root is a power of two: a product with it is exact.
template <int D>
constexpr float kInverseRoot = D == 64    ? 0.125f
                               : D == 256 ? 0.0625f
                                          : 0.0f;

template <int D>
__device__ void jit_scale(const float* __restrict__ x, float* __restrict__ y, int n) {
  static_assert(kInverseRoot<D> != 0.0f);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * kInverseRoot<D>;
}

}  // namespace faultline::kernels::catalogue
