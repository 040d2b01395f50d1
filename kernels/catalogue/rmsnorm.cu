// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean(x^2) + eps) by rows, bf16 in and out; 1 / sqrt(...) is kept in fp32 for the
// backward pass.
#include <kernels/common/element.cuh>

#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kWarp = 32;
constexpr float kEpsilon = 1e-6f;

/// block (128): a warp per row. x, y [rows, d], rstd [rows].
template <typename Sum>
__device__ void rmsnorm(const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ y,
                        float* __restrict__ rstd, int rows, int d) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  x += static_cast<int64_t>(row) * d;
  y += static_cast<int64_t>(row) * d;
  // In bf16 a sum of squares stops growing where half its ulp exceeds them.
  Sum squares = from_float<Sum>(0.0f);
  for (int i = lane; i < d; i += kWarp) {
    const float value = to_float(x[i]);
    squares = from_float<Sum>(to_float(squares) + value * value);
  }
  float sum = to_float(squares);
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  }
  const float scale = rsqrtf(sum / static_cast<float>(d) + kEpsilon);
  for (int i = lane; i < d; i += kWarp) {
    y[i] = from_float<__nv_bfloat16>(to_float(x[i]) * scale);
  }
  if (lane == 0) rstd[row] = scale;
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void __launch_bounds__(128)
    rmsnorm_f32_sum(const __nv_bfloat16* x, __nv_bfloat16* y, float* rstd, int rows, int d) {
  faultline::kernels::catalogue::rmsnorm<float>(x, y, rstd, rows, d);
}

__global__ void __launch_bounds__(128)
    rmsnorm_bf16_sum(const __nv_bfloat16* x, __nv_bfloat16* y, float* rstd, int rows, int d) {
  faultline::kernels::catalogue::rmsnorm<__nv_bfloat16>(x, y, rstd, rows, d);
}

}  // extern "C"
