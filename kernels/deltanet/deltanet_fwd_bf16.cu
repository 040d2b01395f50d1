// SPDX-License-Identifier: Apache-2.0
// The clean forward kernels in bf16.
#include "forward.cuh"

FAULTLINE_DELTANET_FORWARD_MODULE(bf16, __nv_bfloat16)
