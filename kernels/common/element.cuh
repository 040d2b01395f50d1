// SPDX-License-Identifier: Apache-2.0
// Elements of the dtypes that the subjects take, to and from the fp32 that they compute in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace faultline::kernels {

/// Exact.
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(float value) { return value; }

/// Round to nearest, ties to even.
template <typename T>
__device__ __forceinline__ T from_float(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

}  // namespace faultline::kernels
