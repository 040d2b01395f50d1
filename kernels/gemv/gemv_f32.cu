// SPDX-License-Identifier: Apache-2.0
// The clean gemv kernels in f32.
#include "gemv_kernels.cuh"

FAULTLINE_GEMV_MODULE(f32, float)
