// SPDX-License-Identifier: Apache-2.0
// The clean gla_decode kernels in f32.
#include "gla_decode_kernels.cuh"

FAULTLINE_GLA_MODULE_32BIT(f32, float)
