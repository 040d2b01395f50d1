// SPDX-License-Identifier: Apache-2.0
// fp32 matrices whose products are the same bits on every x86-64 machine: each element is summed in
// order of the inner index with separate multiplications and additions, whatever the width of the
// vectors that it is computed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace faultline::reference {

/// Rows are padded with zeros to a multiple of this many floats; every operation keeps them zero.
inline constexpr std::int64_t kFloatPad = 16;
constexpr std::int64_t padded(std::int64_t columns) {
  return (columns + kFloatPad - 1) / kFloatPad * kFloatPad;
}

/// A block of a FloatMatrix that starts at its first column. The rest of its rows is padding.
struct FloatView {
  float* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  float* row(std::int64_t i) const { return data + i * stride; }
  std::int64_t width() const { return padded(columns); }  ///< columns with the padding they need
};

/// Row-major, padded, zero at first.
class FloatMatrix {
 public:
  FloatMatrix() = default;
  FloatMatrix(std::int64_t rows, std::int64_t columns) { resize(rows, columns); }
  /// All zero afterwards.
  void resize(std::int64_t rows, std::int64_t columns) {
    rows_ = rows;
    columns_ = columns;
    values_.assign(static_cast<std::size_t>(rows * padded(columns)), 0.0f);
  }
  FloatView view() { return block(0, rows_, columns_); }
  /// `rows` rows from `first` on, and their first `columns` columns; those beyond must hold zeros.
  FloatView block(std::int64_t first, std::int64_t rows, std::int64_t columns) {
    return {values_.data() + first * stride(), rows, columns, stride()};
  }
  FloatView middle(std::int64_t first, std::int64_t rows) { return block(first, rows, columns_); }
  float* row(std::int64_t i) { return values_.data() + i * stride(); }
  const float* row(std::int64_t i) const { return values_.data() + i * stride(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return padded(columns_); }
  bool empty() const { return values_.empty(); }

 private:
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<float> values_;
};

/// Zeros that a product may skip. Of A (as multiplied, after any transposition) or of C.
enum class Triangle : std::uint8_t {
  none,
  a_lower,  ///< A_ik = 0 for k > i
  a_upper,  ///< A_ik = 0 for k < i
  c_lower,  ///< only C_ij with j <= i is wanted; the rest is left in no defined state
};
enum class Update : std::uint8_t { set, add, subtract };

/// C = A B, C += A B or C -= A B; the product is summed before it meets C.
void multiply(FloatView c, FloatView a, FloatView b, Update update = Update::set,
              Triangle triangle = Triangle::none);
/// The same with A^T in place of A: `a` is A stored with its rows as columns.
void multiply_at(FloatView c, FloatView a, FloatView b, Update update = Update::set,
                 Triangle triangle = Triangle::none);
/// The same with B^T. `scratch` is overwritten.
void multiply_bt(FloatView c, FloatView a, FloatView b, std::vector<float>& scratch,
                 Update update = Update::set, Triangle triangle = Triangle::none);

/// sum_j a_j b_j over n elements (a multiple of 8) in 8 interleaved sums, then those in order.
float dot(const float* a, const float* b, std::int64_t n);

}  // namespace faultline::reference
