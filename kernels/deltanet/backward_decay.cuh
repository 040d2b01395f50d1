// SPDX-License-Identifier: Apache-2.0
//
// Decays between two rows of a chunk, as the backward takes them.
#pragma once

#include "tiles.cuh"

namespace faultline::kernels::deltanet {

/// e^(later - earlier) of two summed gates. The sums fall, but for their rounding.
__device__ __forceinline__ float decay_between(float later, float earlier) {
  return exp_of(fminf(later - earlier, 0.0f));
}

}  // namespace faultline::kernels::deltanet
