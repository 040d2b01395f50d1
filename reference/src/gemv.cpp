// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/gemv.hpp>

#include "decode.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/core/stop.hpp>

#include <Eigen/Dense>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace faultline::reference {

GemvBound gemv_bound(const GemvNumerics& numerics) {
  double relative = gamma_fp32(numerics.chain);
  if (numerics.mean_zero) {
    relative = std::min(relative, kGemvLambda * std::sqrt(numerics.chain) * fp32_roundoff());
  }
  return {.relative = relative + numerics.terms * reference_roundoff(),
          .absolute = (numerics.terms + numerics.chain) * fp32_underflow()};
}

core::ReferenceTensor gemv(const core::Tensor& a, const core::Tensor& x, const GemvBound& bound) {
  if (a.shape.size() != 2 || x.shape.size() != 1 || a.shape[1] != x.shape[0]) {
    throw core::UsageError(
        fmt::format("the gemv reference got A {} and x {}; it needs A [n, k] and x [k]",
                    core::to_string(a.shape), core::to_string(x.shape)));
  }
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::int64_t n = a.shape[0], k = a.shape[1];
  constexpr std::int64_t kBlockRows = 32;

  Eigen::VectorXd x_values(k);  // [k]
  decode_range(x, 0, k, x_values.data());
  const Eigen::VectorXd x_magnitudes = x_values.cwiseAbs();

  core::ReferenceTensor y{.expected = std::vector<double>(static_cast<std::size_t>(n)),
                          .bound = std::vector<double>(static_cast<std::size_t>(n))};
  const std::int64_t blocks = (n + kBlockRows - 1) / kBlockRows;
  parallel_ranges(blocks, 4.0 * static_cast<double>(n) * static_cast<double>(k),
                  [&](std::int64_t begin, std::int64_t end) {
                    RowMajor block(std::min(kBlockRows, n), k);  // [rows, k]
                    for (std::int64_t b = begin; b < end; ++b) {
                      core::throw_if_stopped();
                      const std::int64_t row0 = b * kBlockRows,
                                         rows = std::min(kBlockRows, n - row0);
                      decode_range(a, row0 * k, rows * k, block.data());
                      for (std::int64_t r = 0; r < rows; ++r) {
                        const std::size_t i = static_cast<std::size_t>(row0 + r);
                        y.expected[i] = block.row(r).dot(x_values);
                        y.bound[i] =
                            gemv_row_bound(bound, block.row(r).cwiseAbs().dot(x_magnitudes));
                      }
                    }
                  });
  return y;
}

}  // namespace faultline::reference
