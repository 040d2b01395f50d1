// SPDX-License-Identifier: Apache-2.0
// The clean gla_decode kernels in f16.
#include "gla_decode_kernels.cuh"

FAULTLINE_GLA_MODULE_16BIT(f16, __half)
