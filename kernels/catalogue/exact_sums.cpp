// SPDX-License-Identifier: Apache-2.0
#include "catalogue/exact_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace faultline::kernels::catalogue {

RowMajor matrix(const core::Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  const std::int64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  return Eigen::Map<const RowMajor>(values.data(), rows, tensor.shape.back());
}

double granularity(const RowMajor& values) {
  constexpr int kNone = std::numeric_limits<int>::max();
  int least = kNone;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const double x = values.data()[i];
    if (x == 0.0 || !std::isfinite(x)) continue;
    int exponent = 0;
    auto digits = static_cast<std::int64_t>(std::ldexp(std::fabs(std::frexp(x, &exponent)), 53));
    exponent -= 53;
    for (; digits % 2 == 0; digits /= 2) ++exponent;
    least = std::min(least, exponent);
  }
  return least == kNone ? 1.0 : std::ldexp(1.0, least);
}

double sum_bound(const reference::GemvBound& general, double unit, double magnitude) {
  return magnitude <= 0x1p24 * unit ? 0.0 : reference::gemv_row_bound(general, magnitude);
}

}  // namespace faultline::kernels::catalogue
