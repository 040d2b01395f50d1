// SPDX-License-Identifier: Apache-2.0
#pragma once

__device__ inline float twice(float x) {
  return x + x;
}
