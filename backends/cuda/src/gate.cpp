// SPDX-License-Identifier: Apache-2.0
#include "gate.hpp"

#include <cmath>
#include <limits>

namespace faultline::cuda {

GateDifference gate_difference(std::span<const double> device_expected,
                               std::span<const double> device_bound,
                               std::span<const double> host_expected,
                               std::span<const double> host_bound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  GateDifference result;
  const std::size_t count = host_expected.size();
  if (count == 0 || host_bound.size() != count || device_expected.size() != count ||
      device_bound.size() != count) {
    result.worst = kInfinity;
    return result;
  }
  double largest = 0.0;
  for (const double x : host_expected) {
    largest = std::isfinite(x) ? std::fmax(largest, std::fabs(x)) : largest;
  }
  const auto relative = [](double device, double host, double scale) {
    if (device == host) {
      return 0.0;
    }
    const double difference = std::fabs(device - host) / scale;
    return std::isfinite(difference) ? difference : kInfinity;  // NaN and scale 0 are no agreement
  };
  for (std::size_t i = 0; i < count; ++i) {
    const double value = relative(device_expected[i], host_expected[i], largest);
    const double bound = relative(device_bound[i], host_bound[i], std::fabs(host_bound[i]));
    if (value > result.worst) {
      result = {value, i, false};
    }
    if (bound > result.worst) {
      result = {bound, i, true};
    }
  }
  return result;
}

}  // namespace faultline::cuda
