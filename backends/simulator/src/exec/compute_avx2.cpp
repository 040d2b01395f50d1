// SPDX-License-Identifier: Apache-2.0
// The same handlers compiled with -mavx2 -mfma: the same bits (fma is correctly rounded either way,
// contraction is off), several times faster.
#define FAULTLINE_ISA isa_avx2
#include "exec/compute_table.hpp"
