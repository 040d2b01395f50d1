// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic on views of fp32 matrices, rows with their padding.
#pragma once

#include "float_matrix.hpp"

#include <cstdint>
#include <vector>

namespace faultline::reference {

/// sqrt(sum x^2)
float norm(const float* x, std::int64_t n);
/// The norm of every row.
std::vector<float> row_norms(FloatView rows);
/// to = diag(factor) from
void scale_rows(FloatView to, const float* factor, FloatView from);
/// values *= factor
void scale(FloatView values, float factor);
/// to += from
void add(FloatView to, FloatView from);
/// values = 0
void clear(FloatView values);
/// values = -values
void negate(FloatView values);
/// to = from, of the extents of `to`
void copy(FloatView to, FloatView from);
/// Zeros at j > i + diagonal, padding included.
void keep_lower(FloatView values, std::int64_t diagonal);
/// to = values . factor, elementwise over the lower triangle with its diagonal, zero above.
void multiply_lower(FloatView to, FloatView values, FloatView factor);
/// to = values diag(factors), over the lower triangle with its diagonal, zero above.
void scale_columns(FloatView to, FloatView values, const float* factors);
/// X of (I + M) X = I, rows in order; both square at `m` and `x`.
void substitute(FloatView x, FloatView m);
/// The same block seen from column `first` on.
FloatView from_column(FloatView view, std::int64_t first, std::int64_t columns);

}  // namespace faultline::reference
