// SPDX-License-Identifier: Apache-2.0
// The mutants of deltanet_decode and gated_deltanet_decode in f16, state in fp32 or f16.
#include "decode_kernels.cuh"

FAULTLINE_DELTA_DECODE_MUTANTS_MODULE(f16, __half, sf32, float)
FAULTLINE_DELTA_DECODE_MUTANTS_MODULE(f16, __half, sf16, __half)
