// SPDX-License-Identifier: Apache-2.0
// The adjoint against the tangent map (dot-product test) and against forward-mode automatic
// differentiation of the recurrence itself.
#include <faultline/reference/deltanet.hpp>

#include <Eigen/Dense>
#include <gtest/gtest.h>
#include <unsupported/Eigen/AutoDiff>

#include <cmath>
#include <string>
#include <vector>

#include "delta_recurrence.hpp"
#include "deltanet_inputs.hpp"

namespace faultline::reference {
namespace {

using test::kRegimes;
using test::make_delta_inputs;

/// A direction in the space of inputs, every input moved.
DeltaInputs direction(const DeltaInputs& in) {
  DeltaInputs d;
  d.shape = in.shape;
  std::uint32_t index = 100;
  const auto draw = [&](const std::vector<double>& like) {
    return test::make_input(core::Dtype::f64, {static_cast<std::int64_t>(like.size())},
                            test::kNormal, 11, index++)
        .to_doubles();
  };
  d.q = draw(in.q), d.k = draw(in.k), d.v = draw(in.v), d.beta = draw(in.beta);
  d.g = draw(in.g), d.h0 = draw(in.h0);
  return d;
}

/// Derivative of o and hT of one head along `d`: the recurrence, differentiated step by step.
DeltaOutputs tangent(const DeltaInputs& in, const DeltaInputs& d) {
  const std::int64_t dk = in.shape.dk, dv = in.shape.dv;
  std::vector<double> state = in.h0, moved = d.h0;  // S and its derivative
  DeltaOutputs out;
  for (std::int64_t t = 0; t < in.shape.t; ++t) {
    const double alpha = in.gated() ? std::exp(in.g[t]) : 1.0;
    const double d_alpha = in.gated() ? alpha * d.g[t] : 0.0;
    for (std::size_t i = 0; i < state.size(); ++i) {
      moved[i] = d_alpha * state[i] + alpha * moved[i];
      state[i] *= alpha;
    }
    for (std::int64_t j = 0; j < dv; ++j) {
      double e = in.v[t * dv + j], d_e = d.v[t * dv + j];
      for (std::int64_t i = 0; i < dk; ++i) {
        e -= in.k[t * dk + i] * state[i * dv + j];
        d_e -= d.k[t * dk + i] * state[i * dv + j] + in.k[t * dk + i] * moved[i * dv + j];
      }
      const double u = in.beta[t] * e, d_u = d.beta[t] * e + in.beta[t] * d_e;
      double d_o = 0.0;
      for (std::int64_t i = 0; i < dk; ++i) {
        state[i * dv + j] += in.k[t * dk + i] * u;
        moved[i * dv + j] += d.k[t * dk + i] * u + in.k[t * dk + i] * d_u;
        d_o += d.q[t * dk + i] * state[i * dv + j] + in.q[t * dk + i] * moved[i * dv + j];
      }
      out.o.push_back(in.scale * d_o);
    }
  }
  out.hT = moved;
  return out;
}

/// sum a_i b_i, and the sum of magnitudes that its rounding errors are relative to.
struct Dot {
  double value = 0.0, magnitude = 0.0;
  void add(const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      value += a[i] * b[i];
      magnitude += std::abs(a[i] * b[i]);
    }
  }
};

void check_dot_product(const DeltaInputs& in, const DeltaOutputs& gradient, const char* what) {
  const DeltaInputs d = direction(in);
  const DeltaOutputs moved = tangent(in, d);
  Dot forward, backward;
  forward.add(moved.o, in.d_o);
  forward.add(moved.hT, in.dhT);
  backward.add(gradient.dq, d.q);
  backward.add(gradient.dk, d.k);
  backward.add(gradient.dv, d.v);
  backward.add(gradient.dbeta, d.beta);
  backward.add(gradient.dg, d.g);
  backward.add(gradient.dh0, d.h0);
  EXPECT_GT(std::abs(forward.value), 1e-6 * forward.magnitude) << what;
  EXPECT_LE(std::abs(forward.value - backward.value),
            1e-13 * (forward.magnitude + backward.magnitude))
      << what << ": <tangent, do> = " << forward.value
      << ", <adjoint, direction> = " << backward.value;
}

TEST(DeltaAdjoint, DotProductWithTheTangentMap) {
  for (const test::Regime& regime : kRegimes) {
    for (const std::int64_t t : {1, 30, 65}) {
      const DeltaInputs in = make_delta_inputs(
          regime, {.shape = {.t = t, .dk = 12, .dv = 9}, .scale = 0.7, .states = true, .seed = 5});
      check_dot_product(in, recurrent_backward(in), regime.name);
      check_dot_product(in, chunkwise_backward(in, {.chunk = 16}).outputs, regime.name);
    }
  }
}

constexpr std::int64_t kT = 7, kDk = 3, kDv = 2;
constexpr int kUnknowns = kT * (2 * kDk + kDv + 2) + kDk * kDv;  // q, k, v, beta, g, h0
using Dual = Eigen::AutoDiffScalar<Eigen::Matrix<double, kUnknowns, 1>>;

/// Gradients of <o, do> + <hT, dhT> by carrying the derivative along every input.
DeltaOutputs differentiated(const DeltaInputs& in) {
  int unknown = 0;
  const auto seeded = [&](const std::vector<double>& values) {
    std::vector<Dual> duals;
    for (const double value : values) duals.emplace_back(value, kUnknowns, unknown++);
    return duals;
  };
  const std::vector<Dual> q = seeded(in.q), k = seeded(in.k), v = seeded(in.v),
                          beta = seeded(in.beta), g = seeded(in.g), h0 = seeded(in.h0);
  std::vector<Dual> o(in.v.size()), hT(in.h0.size());
  const DeltaHead<Dual> head{.t = in.shape.t,
                             .dk = in.shape.dk,
                             .dv = in.shape.dv,
                             .scale = Dual(in.scale),
                             .q = q.data(),
                             .k = k.data(),
                             .v = v.data(),
                             .beta = beta.data(),
                             .g = g.empty() ? nullptr : g.data(),
                             .h0 = h0.data()};
  DeltaHeadOutputs<Dual> out;
  out.o = o.data();
  out.hT = hT.data();
  recurrent_head_forward(head, out);

  Eigen::Matrix<double, kUnknowns, 1> gradient = Eigen::Matrix<double, kUnknowns, 1>::Zero();
  for (std::size_t i = 0; i < o.size(); ++i) gradient += in.d_o[i] * o[i].derivatives();
  for (std::size_t i = 0; i < hT.size(); ++i) gradient += in.dhT[i] * hT[i].derivatives();
  DeltaOutputs result;
  unknown = 0;
  const auto take = [&](const std::vector<double>& like) {
    const double* first = gradient.data() + unknown;
    unknown += static_cast<int>(like.size());
    return std::vector<double>(first, first + like.size());
  };
  result.dq = take(in.q), result.dk = take(in.k), result.dv = take(in.v);
  result.dbeta = take(in.beta), result.dg = take(in.g), result.dh0 = take(in.h0);
  return result;
}

TEST(DeltaAdjoint, ForwardModeDifferentiationOfTheRecurrence) {
  for (const test::Regime& regime : kRegimes) {
    const DeltaInputs in = make_delta_inputs(
        regime, {.shape = {.t = kT, .dk = kDk, .dv = kDv}, .scale = 0.6, .states = true});
    const DeltaOutputs expected = differentiated(in);
    const DeltaOutputs recurrent = recurrent_backward(in);
    const DeltaOutputs chunkwise = chunkwise_backward(in, {.chunk = 3}).outputs;
    for (const DeltaOutput output : {DeltaOutput::dq, DeltaOutput::dk, DeltaOutput::dv,
                                     DeltaOutput::dbeta, DeltaOutput::dg, DeltaOutput::dh0}) {
      EXPECT_LE(test::relative_difference(recurrent[output], expected[output]), 1e-13)
          << name_of(output) << ": " << regime.name;
      EXPECT_LE(test::relative_difference(chunkwise[output], expected[output]), 1e-13)
          << name_of(output) << ": " << regime.name;
    }
  }
}

}  // namespace
}  // namespace faultline::reference
