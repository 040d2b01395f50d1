// SPDX-License-Identifier: Apache-2.0
// The clean forward kernels in f16.
#include "forward.cuh"

FAULTLINE_DELTANET_FORWARD_MODULE(f16, __half)
