// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/visibility.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/poison.hpp"

namespace faultline::core {
namespace {

bool usable(double expected, double bound) {
  return std::isfinite(expected) && std::isfinite(bound) && bound >= 0.0;
}

}  // namespace

std::vector<double> allowed_errors(Dtype dtype, const ReferenceTensor& reference) {
  std::vector<double> allowed(reference.expected.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    const double expected = reference.expected[i], bound = reference.bound.at(i);
    if (!usable(expected, bound)) continue;
    const double nearest = round_to(dtype, expected);
    allowed[i] = bound + (std::isfinite(nearest) ? 0.5 * ulp_at(dtype, nearest) : 0.0);
  }
  return allowed;
}

double visibility(const std::vector<double>& allowed, const std::vector<double>& effect) {
  double largest = 0.0;
  for (std::size_t i = 0; i < effect.size(); ++i) {
    if (std::isnan(allowed.at(i)) || effect[i] == 0.0) continue;
    const double seen = std::fabs(effect[i]) / allowed[i];
    if (!std::isnan(seen)) largest = std::max(largest, seen);
  }
  return largest;
}

NullOutput compare_null_output(Dtype dtype, const ReferenceTensor& reference,
                               const std::function<double(std::size_t)>& null) {
  const std::uint64_t poison = poison_bits(dtype, poison_word(0));
  NullOutput result;
  for (std::size_t i = 0; i < reference.expected.size(); ++i) {
    const double expected = reference.expected[i], bound = reference.bound.at(i);
    if (!usable(expected, bound)) continue;
    const std::uint64_t got = encode(dtype, null(i));
    // -0 is as right as 0.
    if (decode(dtype, got) == round_to(dtype, expected)) continue;
    ++result.wrong;
    result.rejected += is_failure(check_element(dtype, got, expected, bound, poison).kind);
  }
  return result;
}

}  // namespace faultline::core
