// SPDX-License-Identifier: Apache-2.0
// The gemv mutants in bf16.
#include "gemv_kernels.cuh"

FAULTLINE_GEMV_MUTANTS_MODULE(bf16, __nv_bfloat16)
