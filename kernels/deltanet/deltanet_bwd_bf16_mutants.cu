// SPDX-License-Identifier: Apache-2.0
// The backward mutants in bf16.
#include "backward.cuh"

FAULTLINE_DELTANET_BACKWARD_MUTANTS(bf16, __nv_bfloat16)
