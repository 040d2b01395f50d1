// SPDX-License-Identifier: Apache-2.0
// The gla_decode mutants in bf16.
#include "gla_decode_kernels.cuh"

FAULTLINE_GLA_MUTANTS_MODULE_16BIT(bf16, __nv_bfloat16)
