// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_squaring.hpp>

#include <faultline/core/errors.hpp>
#include <faultline/core/generator.hpp>
#include <faultline/reference/exponential.hpp>

#include <Eigen/Dense>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace faultline::reference {

namespace {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix>;
using MutableMap = Eigen::Map<Matrix>;
using Vector = Eigen::VectorXd;

/// x = high + low, both tf32: high to nearest, low cut off.
struct SplitFloat {
  double high, low;
  explicit SplitFloat(float x) {
    constexpr std::uint32_t kTf32 = 0xffffe000u;
    const auto cut = [](std::uint32_t bits) { return std::bit_cast<float>(bits & kTf32); };
    const float nearest = cut(std::bit_cast<std::uint32_t>(x) + 0x1000u);
    high = nearest;
    low = cut(std::bit_cast<std::uint32_t>(x - nearest));
  }
};

/// sum + the terms, as a tensor core adds: all aligned to the largest, what is below 2 bits beyond
/// its fp32 significand cut off, and the sum towards zero. The alignment of Hopper is at least that
/// (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021,
/// for the generations before it).
float truncated_sum(float sum, std::span<const double> terms) {
  double largest = std::fabs(static_cast<double>(sum));
  for (const double term : terms) largest = std::max(largest, std::fabs(term));
  if (largest == 0.0) return sum;
  double exact = 0.0;
  if (!std::isfinite(largest)) {
    for (const double term : terms) exact += term;
    return static_cast<float>(sum + exact);
  }
  const int exponent = std::ilogb(largest);
  const double unit = std::ldexp(1.0, exponent - 25), units = std::ldexp(1.0, 25 - exponent);
  exact = std::trunc(static_cast<double>(sum) * units);
  for (const double term : terms) exact += std::trunc(term * units);
  exact *= unit;
  const auto nearest = static_cast<float>(exact);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? std::nextafter(nearest, 0.0f)
                                                                    : nearest;
}

/// A lower triangular matrix in fp32. Loops, not Eigen: the order of summation must not depend on
/// the machine.
class LowerFloat {
 public:
  explicit LowerFloat(Index n) : n_(n), values_(static_cast<std::size_t>(n * n), 0.0f) {}
  float& at(Index i, Index j) { return values_[static_cast<std::size_t>(i * n_ + j)]; }
  float at(Index i, Index j) const { return values_[static_cast<std::size_t>(i * n_ + j)]; }

  /// *this + a b
  void add_product(const LowerFloat& a, const LowerFloat& b) {
    for (Index i = 0; i < n_; ++i) {
      for (Index l = 0; l <= i; ++l) {
        const float factor = a.at(i, l);
        for (Index j = 0; j <= l; ++j) at(i, j) += factor * b.at(l, j);
      }
    }
  }

  /// The same on tensor cores: per eight terms three products, low high + high low + high high.
  void add_truncated_product(const LowerFloat& a, const LowerFloat& b) {
    constexpr Index kTogether = 8;
    const auto split = [](const LowerFloat& m) {
      std::vector<SplitFloat> parts;
      parts.reserve(m.values_.size());
      for (const float value : m.values_) parts.emplace_back(value);
      return parts;
    };
    const std::vector<SplitFloat> left = split(a), right = split(b);
    std::array<double, kTogether> low_high{}, high_low{}, high_high{};
    for (Index i = 0; i < n_; ++i) {
      for (Index j = 0; j <= i; ++j) {
        float sum = at(i, j);
        for (Index first = j / kTogether * kTogether; first <= i; first += kTogether) {
          const Index count = std::min(kTogether, n_ - first);
          for (Index l = 0; l < count; ++l) {  // above the diagonals stand zeros
            const SplitFloat& x = left[static_cast<std::size_t>(i * n_ + first + l)];
            const SplitFloat& y = right[static_cast<std::size_t>((first + l) * n_ + j)];
            const auto at_l = static_cast<std::size_t>(l);
            low_high[at_l] = x.low * y.high;
            high_low[at_l] = x.high * y.low;
            high_high[at_l] = x.high * y.high;
          }
          const auto terms = static_cast<std::size_t>(count);
          sum = truncated_sum(sum, {low_high.data(), terms});
          sum = truncated_sum(sum, {high_low.data(), terms});
          sum = truncated_sum(sum, {high_high.data(), terms});
        }
        at(i, j) = sum;
      }
    }
  }

 private:
  Index n_;
  std::vector<float> values_;
};

/// One draw of (I + M)^-1 by repeated squaring.
Matrix invert_by_squaring(const Matrix& m, std::uint64_t key, Fp32Sums sums) {
  const auto add = [sums](LowerFloat& to, const LowerFloat& a, const LowerFloat& b) {
    sums == Fp32Sums::truncated ? to.add_truncated_product(a, b) : to.add_product(a, b);
  };
  const Index n = m.rows();
  LowerFloat power(n), x(n);
  for (Index i = 0; i < n; ++i) {
    x.at(i, i) = 1.0f;
    for (Index j = 0; j < i; ++j) {
      const std::uint64_t bits = core::mix64(key + static_cast<std::uint64_t>(i * n + j));
      const double within = static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;  // of an ulp
      power.at(i, j) = static_cast<float>(-m(i, j) * (1.0 + within * 0x1p-23));
      x.at(i, j) = power.at(i, j);
    }
  }
  for (Index covered = 2; covered < n; covered *= 2) {
    LowerFloat square(n), sum = x;
    add(square, power, power);
    add(sum, x, square);
    power = std::move(square);
    x = std::move(sum);
  }
  Matrix inverse = Matrix::Zero(n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) inverse(i, j) = x.at(i, j);
  }
  return inverse;
}

/// The chunkwise forward of all heads; X by `invert`, given M and which chunk it is of.
template <typename Invert>
DeltaOutputs forward_with(const DeltaInputs& inputs, std::int64_t chunk, const Invert& invert) {
  const DeltaShape& s = inputs.shape;
  if (chunk < 1) throw core::UsageError(fmt::format("a chunk needs a row, got chunk = {}", chunk));
  DeltaOutputs outputs;
  outputs.o.resize(static_cast<std::size_t>(s.heads() * s.t * s.dv));
  outputs.hT.resize(static_cast<std::size_t>(s.heads() * s.dk * s.dv));
  for (std::int64_t head = 0; head < s.heads(); ++head) {
    MutableMap h(outputs.hT.data() + head * s.dk * s.dv, s.dk, s.dv);
    h.setZero();
    if (!inputs.h0.empty()) h = ConstMap(inputs.h0.data() + head * s.dk * s.dv, s.dk, s.dv);
    for (std::int64_t first = 0; first < s.t; first += chunk) {
      const Index n = std::min(chunk, s.t - first);
      const std::int64_t row = head * s.t + first;
      const ConstMap q(inputs.q.data() + row * s.dk, n, s.dk);
      const ConstMap k(inputs.k.data() + row * s.dk, n, s.dk);
      const ConstMap v(inputs.v.data() + row * s.dv, n, s.dv);
      const Eigen::Map<const Vector> beta(inputs.beta.data() + row, n);
      Vector gates = Vector::Zero(n);  // summed
      for (Index i = 0; i < n && inputs.gated(); ++i) {
        gates(i) = (i > 0 ? gates(i - 1) : 0.0) + inputs.g[static_cast<std::size_t>(row + i)];
      }
      Matrix decay = Matrix::Zero(n, n);
      Vector inside(n), rest(n);
      for (Index i = 0; i < n; ++i) {
        inside(i) = exponential(gates(i));
        rest(i) = exponential(gates(n - 1) - gates(i));
        for (Index j = 0; j <= i; ++j) decay(i, j) = exponential(gates(i) - gates(j));
      }
      Matrix m = beta.asDiagonal() * (k * k.transpose()).cwiseProduct(decay);
      m.template triangularView<Eigen::Upper>().setZero();
      const Matrix x = invert(m, static_cast<std::uint64_t>(row));
      // U - W h = X diag(beta) (V - diag(e^G) K h)
      const Matrix v_new =
          x * Matrix(beta.asDiagonal() * Matrix(v - inside.asDiagonal() * Matrix(k * h)));
      const Matrix p = (q * k.transpose()).cwiseProduct(decay);
      MutableMap(outputs.o.data() + row * s.dv, n, s.dv) =
          inputs.scale * (inside.asDiagonal() * Matrix(q * h) + p * v_new);
      h = (inside(n - 1) * h + k.transpose() * Matrix(rest.asDiagonal() * v_new)).eval();
    }
  }
  return outputs;
}

Matrix invert_by_substitution(const Matrix& m) {
  return m.template triangularView<Eigen::UnitLower>().solve(Matrix::Identity(m.rows(), m.rows()));
}

/// Root mean square of rows of 16 of `squares` [rows, width], each no less than its element's own.
std::vector<double> sizes_of(const std::vector<double>& squares, std::int64_t width) {
  constexpr std::int64_t kTile = 16;
  std::vector<double> sizes(squares.size());
  const std::int64_t whole = static_cast<std::int64_t>(squares.size());
  for (std::int64_t begin = 0; begin < whole; begin += std::min(kTile, width)) {
    const std::int64_t in_row = begin % width;
    const std::int64_t count = std::min(kTile, width - in_row);
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += squares[static_cast<std::size_t>(begin + i)];
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(begin + i);
      sizes[at] = std::sqrt(std::max(squares[at], sum / static_cast<double>(count)));
    }
  }
  return sizes;
}

}  // namespace

DeltaOutputs squaring_forward(const DeltaInputs& inputs, std::int64_t chunk, std::uint64_t seed,
                              Fp32Sums sums) {
  return forward_with(inputs, chunk, [&](const Matrix& m, std::uint64_t row) {
    return invert_by_squaring(m, core::mix64(core::mix64(seed) + row), sums);
  });
}

core::ErrorHypothesis squaring_hypothesis(const DeltaInputs& inputs, std::int64_t chunk,
                                          std::span<const DeltaOutput> outputs, Fp32Sums sums,
                                          std::int64_t value_limit) {
  // What is always cut off in the same direction differs little from draw to draw.
  const bool truncated = sums == Fp32Sums::truncated;
  const std::uint64_t draws = truncated ? 3 : 8;
  core::ErrorHypothesis hypothesis{.name = truncated ? "squaring_truncated" : "squaring",
                                   .terms = truncated ? "A^-1 by repeated squaring in fp32, sums "
                                                        "truncated as on tensor cores"
                                                      : "A^-1 by repeated squaring in fp32",
                                   .kind = core::ErrorHypothesis::Kind::rounding,
                                   .effect = {}};
  const auto leave_out = [&](const char* reason) {
    hypothesis.left_out = reason;
    hypothesis.effect.assign(outputs.size(), {});
    return hypothesis;
  };
  const DeltaShape& shape = inputs.shape;
  if (shape.heads() * (shape.t + shape.dk) * shape.dv > value_limit) {
    return leave_out("not evaluated: too many values");
  }
  const DeltaOutputs right = forward_with(
      inputs, chunk, [](const Matrix& m, std::uint64_t) { return invert_by_substitution(m); });
  DeltaOutputs squares;
  squares.o.resize(right.o.size());
  squares.hT.resize(right.hT.size());
  bool any_finite = false;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const DeltaOutputs squared = squaring_forward(inputs, chunk, draw, sums);
    for (const DeltaOutput output : {DeltaOutput::o, DeltaOutput::hT}) {
      for (std::size_t i = 0; i < right[output].size(); ++i) {
        const double error = squared[output][i] - right[output][i];
        squares[output][i] += error * error / static_cast<double>(draws);
        any_finite = any_finite || std::isfinite(error);
      }
    }
  }
  if (!any_finite) return leave_out("not evaluated: no draw of its errors is finite");
  for (const DeltaOutput output : outputs) {
    const bool affected = output == DeltaOutput::o || output == DeltaOutput::hT;
    hypothesis.effect.push_back(affected ? sizes_of(squares[output], shape.dv)
                                         : std::vector<double>{});
  }
  return hypothesis;
}

}  // namespace faultline::reference
