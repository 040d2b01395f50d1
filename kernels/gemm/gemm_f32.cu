// SPDX-License-Identifier: Apache-2.0
// The clean gemm kernels in f32.
#include "gemm_kernels.cuh"

FAULTLINE_GEMM_F32_MODULE()
