// SPDX-License-Identifier: Apache-2.0
// The gemm mutants in every dtype.
#include "gemm_kernels.cuh"

FAULTLINE_GEMM_MUTANTS_MODULE()
