// SPDX-License-Identifier: Apache-2.0
// The forward's mutants in f16. Each replaces one kernel of the three; chunk 64, DK 64 only.
#include "forward.cuh"

FAULTLINE_DELTANET_FORWARD_MUTANTS(f16, __half)
