// SPDX-License-Identifier: Apache-2.0
// y = A x in double with Eigen, and the error bound of an fp32-accumulating kernel.
#pragma once

#include <faultline/core/tensor.hpp>
#include <faultline/reference/gemv_bound.hpp>

namespace faultline::reference {

/// Expected y [n] and its bounds for A [n, k] and x [k] (any dtypes; decoded exactly).
/// Rows are worked on in fixed blocks by several threads; the result does not depend on how many.
/// Throws UsageError when the shapes do not fit. Source: docs/tolerances.md, "gemv".
core::ReferenceTensor gemv(const core::Tensor& a, const core::Tensor& x, const GemvBound& bound);

}  // namespace faultline::reference
