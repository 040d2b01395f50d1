// SPDX-License-Identifier: Apache-2.0
// The clean gemm kernels in bf16.
#include "gemm_kernels.cuh"

FAULTLINE_GEMM_16_BIT_MODULE(bf16, __nv_bfloat16)
