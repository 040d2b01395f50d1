// SPDX-License-Identifier: Apache-2.0
// The gla_decode mutants in f32.
#include "gla_decode_kernels.cuh"

FAULTLINE_GLA_MUTANTS_MODULE_32BIT(f32, float)
