// SPDX-License-Identifier: Apache-2.0
// The clean gemm kernels in f16.
#include "gemm_kernels.cuh"

FAULTLINE_GEMM_16_BIT_MODULE(f16, __half)
