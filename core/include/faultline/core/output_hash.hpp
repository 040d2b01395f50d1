// SPDX-License-Identifier: Apache-2.0
// A 64-bit hash of an output's bits that does not depend on the order in which elements are
// visited, so that host loops and device kernels (atomic additions) give equal values.
#pragma once

#include "faultline/core/generator.hpp"

namespace faultline::core {

/// Contribution of element `index` with raw bits `bits`. The hash of an output is the sum of all
/// its elements' contributions modulo 2^64; of several outputs, combine_output_hash() in output
/// order.
FAULTLINE_HD uint64_t output_hash_term(uint64_t bits, uint64_t index) {
  return mix64(bits + (index + 1) * 0x9e3779b97f4a7c15ull);
}

/// Hash over outputs so far, and the next output's.
FAULTLINE_HD uint64_t combine_output_hash(uint64_t so_far, uint64_t next) {
  return mix64(so_far * 0xd1342543de82ef95ull + next + 1);
}

}  // namespace faultline::core
