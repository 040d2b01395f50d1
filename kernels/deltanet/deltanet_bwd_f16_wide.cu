// SPDX-License-Identifier: Apache-2.0
// The clean backward kernels in f16 for DK or DV of 128.
#include "backward.cuh"

FAULTLINE_DELTANET_BACKWARD_MODULE_WIDE(f16, __half)
