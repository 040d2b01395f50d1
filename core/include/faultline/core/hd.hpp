// SPDX-License-Identifier: Apache-2.0
// FAULTLINE_HD marks functions shared by host and device code. Everything so marked is compiled by
// g++ and by nvcc and must give equal bits in both: integer arithmetic, single IEEE operations, no
// library functions.
#pragma once

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "faultline must not be compiled with -ffast-math: it would remove the NaN checks"
#endif

#if defined(__CUDACC__)
#define FAULTLINE_HD __host__ __device__ inline
#else
#define FAULTLINE_HD inline
#endif
