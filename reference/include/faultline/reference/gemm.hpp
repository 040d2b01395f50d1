// SPDX-License-Identifier: Apache-2.0
// C = sigmoid(alpha A B) in double with Eigen, and the error bound of an fp32-accumulating kernel.
#pragma once

#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/gemm_bound.hpp>

#include <cstdint>

namespace faultline::reference {

/// Expected C [m, n] and its bounds for A [m, k] and B [k, n] (any dtypes; decoded exactly).
/// Columns are worked on in fixed panels by several threads; the result does not depend on how
/// many. Throws UsageError when the shapes do not fit. Source: docs/tolerances.md, "gemm".
core::ReferenceTensor gemm(const core::Tensor& a, const core::Tensor& b, const GemmBound& bound);

/// The wrong form that applies the epilogue to the partial sum of each `tile_k` of k and adds the
/// results: what it adds to C, sum_t sigmoid(alpha s_t) - sigmoid(alpha sum_t s_t). Left out where
/// it would take more than `operation_limit` multiplications or values.
core::ErrorHypothesis gemm_epilogue_per_tile(const core::Tensor& a, const core::Tensor& b,
                                             const GemmBound& bound, std::int64_t tile_k,
                                             std::int64_t operation_limit = std::int64_t{1} << 31);

}  // namespace faultline::reference
