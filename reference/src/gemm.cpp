// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/gemm.hpp>

#include "decode.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/core/stop.hpp>

#include <Eigen/Core>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace faultline::reference {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kBlockRows = 64, kPanelCols = 128;

struct GemmExtents {
  std::int64_t m, n, k;
};

GemmExtents check_shapes(const core::Tensor& a, const core::Tensor& b) {
  if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0]) {
    throw core::UsageError(
        fmt::format("the gemm reference got A {} and B {}; it needs A [m, k] and B [k, n]",
                    core::to_string(a.shape), core::to_string(b.shape)));
  }
  return {a.shape[0], b.shape[1], a.shape[1]};
}

/// A block of rows of A [rows, k] and a panel of columns of B [k, cols], in double.
struct Part {
  std::int64_t row0 = 0, col0 = 0;
  const RowMajor &a, &b;
};

/// Calls work(part) for every pair of a block and a panel, from several threads.
void for_each_part(const core::Tensor& a, const core::Tensor& b, const GemmExtents& e,
                   const std::function<void(const Part&)>& work) {
  const std::int64_t panels = (e.n + kPanelCols - 1) / kPanelCols;
  const double operations =
      2.0 * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k);
  parallel_ranges(panels, operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t col0 = p * kPanelCols, cols = std::min(kPanelCols, e.n - col0);
      RowMajor panel(e.k, cols);
      for (std::int64_t i = 0; i < e.k; ++i) {
        decode_range(b, i * e.n + col0, cols, panel.data() + i * cols);
      }
      for (std::int64_t row0 = 0; row0 < e.m; row0 += kBlockRows) {
        core::throw_if_stopped();
        RowMajor block(std::min(kBlockRows, e.m - row0), e.k);
        decode_range(a, row0 * e.k, block.size(), block.data());
        work({row0, col0, block, panel});
      }
    }
  });
}

}  // namespace

GemmBound gemm_bound(const GemmNumerics& numerics) {
  const GemvBound sum = gemv_bound(
      {.chain = numerics.chain, .terms = numerics.terms, .mean_zero = numerics.mean_zero});
  const double flushed =
      numerics.tensor_cores ? (numerics.terms + numerics.chain) * core::exp2_int(-126) : 0.0;
  return {.relative = sum.relative,
          .absolute = sum.absolute + flushed,
          .alpha = numerics.alpha,
          .sigmoid = numerics.sigmoid,
          .logits = numerics.logits};
}

core::ReferenceTensor gemm(const core::Tensor& a, const core::Tensor& b, const GemmBound& bound) {
  const GemmExtents e = check_shapes(a, b);
  const auto elements = static_cast<std::size_t>(e.m * e.n);
  core::ReferenceTensor c{.expected = std::vector<double>(elements),
                          .bound = std::vector<double>(elements)};
  for_each_part(a, b, e, [&](const Part& part) {
    const RowMajor sums = part.a * part.b;
    const RowMajor magnitudes = part.a.cwiseAbs() * part.b.cwiseAbs();
    for (Eigen::Index r = 0; r < sums.rows(); ++r) {
      for (Eigen::Index j = 0; j < sums.cols(); ++j) {
        const auto at = static_cast<std::size_t>((part.row0 + r) * e.n + part.col0 + j);
        const GemmElement element = gemm_element(bound, sums(r, j), magnitudes(r, j));
        c.expected[at] = element.expected;
        c.bound[at] = element.bound;
      }
    }
  });
  return c;
}

core::ErrorHypothesis gemm_epilogue_per_tile(const core::Tensor& a, const core::Tensor& b,
                                             const GemmBound& bound, std::int64_t tile_k,
                                             std::int64_t operation_limit) {
  const GemmExtents e = check_shapes(a, b);
  core::ErrorHypothesis hypothesis;
  hypothesis.name = "epilogue_per_tile";
  hypothesis.terms = "sum over k-tiles t of sigmoid(alpha s_t)";
  hypothesis.kind = core::ErrorHypothesis::Kind::wrong_form;
  hypothesis.effect.resize(1);
  if (e.k <= tile_k || !bound.sigmoid) {
    return hypothesis;  // one tile, or a linear epilogue: it changes nothing
  }
  if (static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k) >
      static_cast<double>(operation_limit)) {
    hypothesis.left_out = "not evaluated: too many values";
    return hypothesis;
  }
  const auto epilogue = [&](double s) { return logistic(core::mul_rn(bound.alpha, s)); };
  std::vector<double>& effect = hypothesis.effect[0];
  effect.resize(static_cast<std::size_t>(e.m * e.n));
  for_each_part(a, b, e, [&](const Part& part) {
    RowMajor sum = RowMajor::Zero(part.a.rows(), part.b.cols()), wrong = sum;
    for (std::int64_t k0 = 0; k0 < e.k; k0 += tile_k) {
      const std::int64_t length = std::min(tile_k, e.k - k0);
      const RowMajor partial = part.a.middleCols(k0, length) * part.b.middleRows(k0, length);
      sum += partial;
      wrong += partial.unaryExpr(epilogue);
    }
    for (Eigen::Index r = 0; r < sum.rows(); ++r) {
      for (Eigen::Index j = 0; j < sum.cols(); ++j) {
        effect[static_cast<std::size_t>((part.row0 + r) * e.n + part.col0 + j)] =
            wrong(r, j) - epilogue(sum(r, j));
      }
    }
  });
  return hypothesis;
}

}  // namespace faultline::reference
