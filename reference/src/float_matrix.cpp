// SPDX-License-Identifier: Apache-2.0
#include "float_matrix.hpp"

#include "vector_dispatch.hpp"

#include <algorithm>

namespace faultline::reference {

namespace {

constexpr std::int64_t kTileRows = 4;

FAULTLINE_INLINE const FloatLanesInMemory& lanes(const float* p) {
  return *reinterpret_cast<const FloatLanesInMemory*>(p);
}
FAULTLINE_INLINE FloatLanesInMemory& lanes(float* p) {
  return *reinterpret_cast<FloatLanesInMemory*>(p);
}

struct Product {
  float* c;
  const float* a;
  const float* b;
  std::int64_t rows, inner, columns;                // columns padded
  std::int64_t c_stride, a_row, a_inner, b_stride;  // a_row, a_inner: strides of A's two indices
  Update update;
  Triangle triangle;
};

/// kRows rows from `i` of C, 16 columns from `j`.
template <int kRows>
FAULTLINE_INLINE void tile(const Product& p, std::int64_t i, std::int64_t j) {
  FloatLanes sum[kRows][2] = {};
  const std::int64_t first = p.triangle == Triangle::a_upper ? std::min(i, p.inner) : 0;
  const std::int64_t last =
      p.triangle == Triangle::a_lower ? std::min(i + kRows, p.inner) : p.inner;
  const float* a = p.a + i * p.a_row + first * p.a_inner;
  const float* b = p.b + first * p.b_stride + j;
  for (std::int64_t k = first; k < last; ++k) {
    const FloatLanes left = lanes(b), right = lanes(b + kLaneCount);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float x = a[r * p.a_row];
      sum[r][0] += x * left;
      sum[r][1] += x * right;
    }
    a += p.a_inner;
    b += p.b_stride;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float* c = p.c + (i + r) * p.c_stride + j;
    for (int half = 0; half < 2; ++half, c += kLaneCount) {
      switch (p.update) {
      case Update::set: lanes(c) = sum[r][half]; break;
      case Update::add: lanes(c) += sum[r][half]; break;
      case Update::subtract: lanes(c) -= sum[r][half]; break;
      }
    }
  }
}

FAULTLINE_INLINE void multiply_body(const Product& p) {
  std::int64_t i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) {
    const std::int64_t columns =
        p.triangle == Triangle::c_lower ? std::min(p.columns, padded(i + kTileRows)) : p.columns;
    for (std::int64_t j = 0; j < columns; j += kFloatPad) {
      tile<kTileRows>(p, i, j);
    }
  }
  for (; i < p.rows; ++i) {
    const std::int64_t columns =
        p.triangle == Triangle::c_lower ? std::min(p.columns, padded(i + 1)) : p.columns;
    for (std::int64_t j = 0; j < columns; j += kFloatPad) {
      tile<1>(p, i, j);
    }
  }
}

FAULTLINE_DISPATCH(multiply_any, multiply_body, (const Product& p), (p))

}  // namespace

float dot(const float* a, const float* b, std::int64_t n) {
  FloatLanes sum = {};
  for (std::int64_t j = 0; j < n; j += kLaneCount) {
    sum += lanes(a + j) * lanes(b + j);
  }
  float total = 0.0f;
  for (std::int64_t lane = 0; lane < kLaneCount; ++lane) {
    total += sum[lane];
  }
  return total;
}

void multiply(FloatView c, FloatView a, FloatView b, Update update, Triangle triangle) {
  multiply_any({.c = c.data,
                .a = a.data,
                .b = b.data,
                .rows = c.rows,
                .inner = a.columns,
                .columns = c.width(),
                .c_stride = c.stride,
                .a_row = a.stride,
                .a_inner = 1,
                .b_stride = b.stride,
                .update = update,
                .triangle = triangle});
}

void multiply_at(FloatView c, FloatView a, FloatView b, Update update, Triangle triangle) {
  multiply_any({.c = c.data,
                .a = a.data,
                .b = b.data,
                .rows = c.rows,
                .inner = a.rows,
                .columns = c.width(),
                .c_stride = c.stride,
                .a_row = 1,
                .a_inner = a.stride,
                .b_stride = b.stride,
                .update = update,
                .triangle = triangle});
}

void multiply_bt(FloatView c, FloatView a, FloatView b, std::vector<float>& scratch, Update update,
                 Triangle triangle) {
  const std::int64_t stride = padded(b.rows);
  scratch.resize(std::max(scratch.size(), static_cast<std::size_t>(b.columns * stride)));
  for (std::int64_t i = 0; i < b.columns; ++i) {
    float* row = scratch.data() + i * stride;
    for (std::int64_t j = 0; j < b.rows; ++j) {
      row[j] = b.data[j * b.stride + i];
    }
    std::fill(row + b.rows, row + stride, 0.0f);
  }
  multiply(c, a, {scratch.data(), b.columns, b.rows, stride}, update, triangle);
}

}  // namespace faultline::reference
