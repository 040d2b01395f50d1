// SPDX-License-Identifier: Apache-2.0
// The clean deltanet_decode and gated_deltanet_decode kernels in bf16, state in fp32 or bf16.
#include "decode_kernels.cuh"

FAULTLINE_DELTA_DECODE_MODULE(bf16, __nv_bfloat16, sf32, float)
FAULTLINE_DELTA_DECODE_MODULE(bf16, __nv_bfloat16, sbf16, __nv_bfloat16)
