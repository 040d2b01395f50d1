// SPDX-License-Identifier: Apache-2.0
#include "matrix_arithmetic.hpp"

#include <algorithm>
#include <cmath>

namespace faultline::reference {

float norm(const float* x, std::int64_t n) { return std::sqrt(dot(x, x, n)); }

std::vector<float> row_norms(FloatView rows) {
  std::vector<float> norms(static_cast<std::size_t>(rows.rows));
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    norms[static_cast<std::size_t>(i)] = norm(rows.row(i), rows.width());
  }
  return norms;
}

void scale_rows(FloatView to, const float* factor, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    const float* source = from.row(i);
    float* destination = to.row(i);
    const float x = factor[i];
    for (std::int64_t j = 0; j < to.width(); ++j) {
      destination[j] = x * source[j];
    }
  }
}

void scale(FloatView values, float factor) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    float* row = values.row(i);
    for (std::int64_t j = 0; j < values.width(); ++j) {
      row[j] *= factor;
    }
  }
}

void add(FloatView to, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    float* destination = to.row(i);
    const float* source = from.row(i);
    for (std::int64_t j = 0; j < to.width(); ++j) {
      destination[j] += source[j];
    }
  }
}

void clear(FloatView values) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    std::fill_n(values.row(i), values.width(), 0.0f);
  }
}

void negate(FloatView values) { scale(values, -1.0f); }

void copy(FloatView to, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    std::copy_n(from.row(i), to.width(), to.row(i));
  }
}

void keep_lower(FloatView values, std::int64_t diagonal) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    const std::int64_t first = std::clamp<std::int64_t>(i + diagonal + 1, 0, values.width());
    std::fill(values.row(i) + first, values.row(i) + values.width(), 0.0f);
  }
}

void multiply_lower(FloatView to, FloatView values, FloatView factor) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      to.row(i)[j] = values.row(i)[j] * factor.row(i)[j];
    }
  }
  keep_lower(to, 0);
}

void scale_columns(FloatView to, FloatView values, const float* factors) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      to.row(i)[j] = values.row(i)[j] * factors[j];
    }
  }
  keep_lower(to, 0);
}

void substitute(FloatView x, FloatView m) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    float* row = x.row(i);
    std::fill_n(row, x.width(), 0.0f);
    row[i] = 1.0f;
    for (std::int64_t j = 0; j < i; ++j) {
      const float factor = m.row(i)[j];
      const float* other = x.row(j);
      for (std::int64_t l = 0; l <= j; ++l) {
        row[l] -= factor * other[l];
      }
    }
  }
}

FloatView from_column(FloatView view, std::int64_t first, std::int64_t columns) {
  return {view.data + first, view.rows, columns, view.stride};
}

}  // namespace faultline::reference
