// SPDX-License-Identifier: Apache-2.0
// How far the device oracle is from the host reference. No CUDA.
#pragma once

#include <cstddef>
#include <span>

namespace faultline::cuda {

struct GateDifference {
  double worst = 0.0;     ///< infinity where only one of the two is finite, or sizes differ
  std::size_t index = 0;  ///< element with the worst difference
  bool in_bound = false;  ///< it is in the bound, not in the expected value
};

/// Expected values: |device - host| over the largest |host| of the tensor, because sums that cancel
/// carry the error of their terms. Bounds, sums of magnitudes: |device - host| over |host| element
/// by element.
GateDifference gate_difference(std::span<const double> device_expected,
                               std::span<const double> device_bound,
                               std::span<const double> host_expected,
                               std::span<const double> host_bound);

}  // namespace faultline::cuda
