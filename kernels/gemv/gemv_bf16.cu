// SPDX-License-Identifier: Apache-2.0
// The clean gemv kernels in bf16.
#include "gemv_kernels.cuh"

FAULTLINE_GEMV_MODULE(bf16, __nv_bfloat16)
