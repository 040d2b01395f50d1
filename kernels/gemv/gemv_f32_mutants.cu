// SPDX-License-Identifier: Apache-2.0
// The gemv mutants in f32.
#include "gemv_kernels.cuh"

FAULTLINE_GEMV_MUTANTS_MODULE(f32, float)
