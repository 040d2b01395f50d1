// SPDX-License-Identifier: Apache-2.0
// Integers that lie on the edges of tiles. Kernels break at T-1, T, T+1 and kT, at 1 and at the
// largest size; a uniform draw from [1, 4096] hardly ever meets one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "faultline/properties/value_domain.hpp"

namespace faultline::properties {

/// Multiples of `multiple_of` in [minimum, maximum], and the tile lengths that their edges are
/// taken from (any order; those outside do no harm).
struct IntegerRange {
  std::int64_t minimum = 1;
  std::int64_t maximum = 1;
  std::int64_t multiple_of = 1;
  std::vector<std::int64_t> tiles{};
};

/// Members of the range among minimum, maximum and kT-1, kT, kT+1 for each tile T; ascending,
/// distinct; of k, the first 4 and the last.
std::vector<std::int64_t> edges_of(const IntegerRange& range);

/// What `value` shrinks to, ascending: the minimum, the edges below it, then a bisection towards
/// value - 1.
std::vector<std::int64_t> smaller_values(const IntegerRange& range, std::int64_t value);

/// Half of the draws are edges, a quarter are small, a quarter uniform. UsageError when the range
/// holds no value.
ValueDomain<std::int64_t> tile_edges(const IntegerRange& range);

}  // namespace faultline::properties
