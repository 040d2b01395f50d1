// SPDX-License-Identifier: Apache-2.0
// The clean backward kernels in bf16 for DK = DV = 64.
#include "backward.cuh"

FAULTLINE_DELTANET_BACKWARD_MODULE(bf16, __nv_bfloat16)
