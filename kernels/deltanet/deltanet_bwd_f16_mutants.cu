// SPDX-License-Identifier: Apache-2.0
// The backward mutants in f16.
#include "backward.cuh"

FAULTLINE_DELTANET_BACKWARD_MUTANTS(f16, __half)
