// SPDX-License-Identifier: Apache-2.0
// The clean backward kernels in bf16 for DK or DV of 128.
#include "backward.cuh"

FAULTLINE_DELTANET_BACKWARD_MODULE_WIDE(bf16, __nv_bfloat16)
