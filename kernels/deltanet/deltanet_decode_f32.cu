// SPDX-License-Identifier: Apache-2.0
// The clean deltanet_decode and gated_deltanet_decode kernels in f32.
#include "decode_kernels.cuh"

FAULTLINE_DELTA_DECODE_MODULE(f32, float, sf32, float)
