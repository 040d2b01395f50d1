// SPDX-License-Identifier: Apache-2.0
// What a problem takes to compute, where bandwidth says little.
#pragma once

#include "faultline/core/problem.hpp"

namespace faultline::app {

/// Multiplications and additions of a product [m, k] x [k, n]; 0 for a problem that does not have
/// all three extents.
inline double product_operations(const core::Assignment& problem) {
  double operations = 2.0;
  for (const char* extent : {"m", "n", "k"}) {
    if (!problem.has(extent)) return 0.0;
    operations *= static_cast<double>(problem.integer(extent));
  }
  return operations;
}

}  // namespace faultline::app
