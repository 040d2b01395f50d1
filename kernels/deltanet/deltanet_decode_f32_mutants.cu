// SPDX-License-Identifier: Apache-2.0
// The mutants of deltanet_decode and gated_deltanet_decode in f32.
#include "decode_kernels.cuh"

FAULTLINE_DELTA_DECODE_MUTANTS_MODULE(f32, float, sf32, float)
