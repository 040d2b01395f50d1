// SPDX-License-Identifier: Apache-2.0
// The forward's mutants in bf16. Each replaces one kernel of the three; chunk 64, DK 64 only.
#include "forward.cuh"

FAULTLINE_DELTANET_FORWARD_MUTANTS(bf16, __nv_bfloat16)
