// SPDX-License-Identifier: Apache-2.0
#include "kernels/twice.cuh"

extern "C" __global__ void scale(float* x) {
  x[threadIdx.x] = twice(x[threadIdx.x]);
}
