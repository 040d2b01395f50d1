// SPDX-License-Identifier: Apache-2.0
// The recurrence against a literal transcription of it, and the chunkwise form against the
// recurrence, in every regime.
#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet.hpp>

#include <Eigen/Dense>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "delta_recurrence.hpp"
#include "deltanet_inputs.hpp"

namespace faultline::reference {
namespace {

using test::kRegimes;
using test::make_delta_inputs;
using test::relative_difference;

constexpr double kTolerance = 1e-12;

void expect_equal(const DeltaOutputs& got, const DeltaOutputs& expected, const std::string& what) {
  for (const DeltaOutput output : test::kAllOutputs) {
    EXPECT_LE(relative_difference(got[output], expected[output]), kTolerance)
        << name_of(output) << ": " << what;
  }
}

std::string describe(const test::Regime& regime, const test::Problem& p, std::int64_t chunk) {
  return std::string(regime.name) + " T=" + std::to_string(p.shape.t) +
         " DK=" + std::to_string(p.shape.dk) + " DV=" + std::to_string(p.shape.dv) +
         " C=" + std::to_string(chunk) + (p.states ? " states" : "");
}

/// S_t = alpha (I - beta k k^T) S_t-1 + beta k v^T, with dense matrices.
DeltaOutputs literal_forward(const DeltaInputs& in) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Eigen::Map;
  const DeltaShape& s = in.shape;
  DeltaOutputs out;
  for (std::int64_t head = 0; head < s.heads(); ++head) {
    const std::int64_t row = head * s.t;
    Matrix state = Matrix::Zero(s.dk, s.dv);
    if (!in.h0.empty()) state = Map<const Matrix>(&in.h0[head * s.dk * s.dv], s.dk, s.dv);
    for (std::int64_t t = row; t < row + s.t; ++t) {
      const Map<const Eigen::VectorXd> q(&in.q[t * s.dk], s.dk), k(&in.k[t * s.dk], s.dk),
          v(&in.v[t * s.dv], s.dv);
      const double alpha = in.gated() ? std::exp(in.g[t]) : 1.0, beta = in.beta[t];
      const Matrix forget = Matrix::Identity(s.dk, s.dk) - beta * k * k.transpose();
      state = alpha * (forget * state) + beta * k * v.transpose();
      const Eigen::VectorXd o = in.scale * (state.transpose() * q);
      out.o.insert(out.o.end(), o.begin(), o.end());
    }
    out.hT.insert(out.hT.end(), state.data(), state.data() + state.size());
  }
  return out;
}

TEST(DeltaRecurrence, IsTheDefinition) {
  for (const test::Regime& regime : kRegimes) {
    const test::Problem p{
        .shape = {.b = 2, .h = 2, .t = 37, .dk = 12, .dv = 7}, .scale = 0.3, .states = true};
    const DeltaInputs in = make_delta_inputs(regime, p);
    expect_equal(recurrent_forward(in), literal_forward(in), describe(regime, p, 0));
  }
}

TEST(DeltaRecurrence, BackwardRepeatsTheForwardExactly) {
  const DeltaInputs in = make_delta_inputs(
      kRegimes[4], {.shape = {.b = 1, .h = 2, .t = 50, .dk = 16, .dv = 9}, .states = true});
  const DeltaOutputs forward = recurrent_forward(in), backward = recurrent_backward(in);
  EXPECT_EQ(forward.o, backward.o);
  EXPECT_EQ(forward.hT, backward.hT);
  EXPECT_TRUE(forward.dk.empty());
}

TEST(DeltaForms, AgreeInEveryRegime) {
  for (const test::Regime& regime : kRegimes) {
    for (const bool states : {false, true}) {
      for (const std::int64_t t : {1, 5, 9, 17, 37, 100, 150}) {
        const test::Problem p{.shape = {.b = 1, .h = 2, .t = t, .dk = 16, .dv = 12},
                              .scale = states ? 0.25 : 1.0,
                              .states = states,
                              .seed = 7};
        const DeltaInputs in = make_delta_inputs(regime, p);
        const DeltaOutputs expected = recurrent_backward(in);
        for (const std::int64_t chunk : {8, 32, 64}) {
          expect_equal(chunkwise_backward(in, {.chunk = chunk}).outputs, expected,
                       describe(regime, p, chunk));
        }
      }
    }
  }
}

TEST(DeltaForms, AgreeForAnyChunkAndShape) {
  const struct {
    std::int64_t t, dk, dv, chunk;
  } cases[] = {{64, 64, 64, 32},  {65, 64, 64, 64},  {127, 64, 32, 64}, {30, 1, 1, 7},
               {33, 5, 17, 11},   {40, 32, 64, 1},   {40, 64, 8, 40},   {10, 16, 16, 100},
               {256, 16, 16, 16}, {130, 24, 40, 63}, {96, 48, 16, 31}};
  for (const test::Regime& regime : {kRegimes[0], kRegimes[4], kRegimes[7]}) {
    for (const auto& c : cases) {
      const test::Problem p{
          .shape = {.t = c.t, .dk = c.dk, .dv = c.dv}, .scale = 0.5, .states = true, .seed = 3};
      const DeltaInputs in = make_delta_inputs(regime, p);
      expect_equal(chunkwise_backward(in, {.chunk = c.chunk}).outputs, recurrent_backward(in),
                   describe(regime, p, c.chunk));
    }
  }
}

TEST(DeltaForms, ForwardOfAChunkwiseBackwardIsTheForward) {
  const DeltaInputs in = make_delta_inputs(
      kRegimes[8], {.shape = {.h = 2, .t = 50, .dk = 16, .dv = 9}, .states = true});
  const DeltaOutputs forward = chunkwise_forward(in, {.chunk = 16}).outputs;
  const DeltaOutputs backward = chunkwise_backward(in, {.chunk = 16}).outputs;
  EXPECT_EQ(forward.o, backward.o);
  EXPECT_EQ(forward.hT, backward.hT);
  EXPECT_TRUE(forward.dk.empty());
}

// A batch is worked on by several threads, one head after another by one.
TEST(DeltaForms, HeadsAreIndependentBitForBit) {
  const DeltaShape shape{.b = 2, .h = 3, .t = 200, .dk = 64, .dv = 32};
  const DeltaInputs in = make_delta_inputs(kRegimes[4], {.shape = shape, .states = true});
  const DeltaOutputs all = recurrent_backward(in);
  const DeltaOutputs chunked = chunkwise_backward(in, {.chunk = 64}).outputs;
  const auto slice = [&](const std::vector<double>& x, std::int64_t head) {
    const auto n = static_cast<std::int64_t>(x.size()) / shape.heads();
    return std::vector<double>(x.begin() + head * n, x.begin() + (head + 1) * n);
  };
  for (std::int64_t head = 0; head < shape.heads(); ++head) {
    DeltaInputs one;
    one.shape = {.b = 1, .h = 1, .t = shape.t, .dk = shape.dk, .dv = shape.dv};
    one.q = slice(in.q, head), one.k = slice(in.k, head), one.v = slice(in.v, head);
    one.beta = slice(in.beta, head), one.g = slice(in.g, head), one.h0 = slice(in.h0, head);
    one.d_o = slice(in.d_o, head), one.dhT = slice(in.dhT, head);
    const DeltaOutputs alone = recurrent_backward(one);
    const DeltaOutputs chunked_alone = chunkwise_backward(one, {.chunk = 64}).outputs;
    for (const DeltaOutput output : test::kAllOutputs) {
      EXPECT_EQ(slice(all[output], head), alone[output]) << name_of(output) << " head " << head;
      EXPECT_EQ(slice(chunked[output], head), chunked_alone[output])
          << name_of(output) << " head " << head;
    }
  }
}

// The library picks vectors as wide as the processor has; this file is compiled for the narrowest.
TEST(DeltaForms, VectorWidthDoesNotChangeABit) {
  const DeltaShape shape{.t = 70, .dk = 33, .dv = 37};
  const DeltaInputs in = make_delta_inputs(kRegimes[4], {.shape = shape, .states = true});
  const DeltaOutputs expected = recurrent_backward(in);
  DeltaOutputs got = expected;
  for (const DeltaOutput output : test::kAllOutputs) {
    std::fill(got[output].begin(), got[output].end(), -1.0);
  }
  recurrent_head_backward<double>({.t = shape.t,
                                   .dk = shape.dk,
                                   .dv = shape.dv,
                                   .scale = in.scale,
                                   .q = in.q.data(),
                                   .k = in.k.data(),
                                   .v = in.v.data(),
                                   .beta = in.beta.data(),
                                   .g = in.g.data(),
                                   .h0 = in.h0.data(),
                                   .d_o = in.d_o.data(),
                                   .dhT = in.dhT.data()},
                                  {.o = got.o.data(),
                                   .hT = got.hT.data(),
                                   .dq = got.dq.data(),
                                   .dk = got.dk.data(),
                                   .dv = got.dv.data(),
                                   .dbeta = got.dbeta.data(),
                                   .dg = got.dg.data(),
                                   .dh0 = got.dh0.data()});
  for (const DeltaOutput output : test::kAllOutputs) {
    EXPECT_EQ(got[output], expected[output]) << name_of(output);
  }
}

TEST(DeltaForms, ZeroGatesAreNoGates) {
  DeltaInputs in =
      make_delta_inputs(kRegimes[2], {.shape = {.t = 40, .dk = 16, .dv = 16}, .states = true});
  const DeltaOutputs ungated = recurrent_backward(in);
  in.g.assign(40, 0.0);
  const DeltaOutputs gated = recurrent_backward(in);
  EXPECT_EQ(gated.o, ungated.o);
  EXPECT_EQ(gated.dk, ungated.dk);
  EXPECT_EQ(gated.dg.size(), 40u);
  EXPECT_TRUE(ungated.dg.empty());
}

TEST(DeltaForms, AbsentStatesAreZeroStates) {
  DeltaInputs in = make_delta_inputs(kRegimes[0], {.shape = {.t = 20, .dk = 8, .dv = 6}});
  const DeltaOutputs absent = chunkwise_backward(in, {.chunk = 8}).outputs;
  in.h0.assign(8 * 6, 0.0);
  in.dhT.assign(8 * 6, 0.0);
  const DeltaOutputs zero = chunkwise_backward(in, {.chunk = 8}).outputs;
  for (const DeltaOutput output : test::kAllOutputs) EXPECT_EQ(absent[output], zero[output]);
}

// Strong gates: e^G_i underflows where e^(G_i - G_j) is near 1, and nothing may become NaN.
TEST(DeltaForms, GatesBelowTheRangeOfExp) {
  DeltaInputs in =
      make_delta_inputs(kRegimes[2], {.shape = {.t = 64, .dk = 16, .dv = 16}, .states = true});
  in.g.assign(64, -0.01);
  in.g[3] = -800.0;
  in.g[40] = -800.0;
  expect_equal(chunkwise_backward(in, {.chunk = 64}).outputs, recurrent_backward(in), "-800");
}

TEST(DeltaIntermediates, AreWhatTheAlgorithmUsed) {
  const DeltaShape s{.b = 1, .h = 2, .t = 21, .dk = 6, .dv = 4};
  const std::int64_t chunk = 8, chunks = 3;
  const DeltaInputs in = make_delta_inputs(kRegimes[4], {.shape = s, .states = true});
  const ChunkwiseResult result = chunkwise_backward(in, {.chunk = chunk, .intermediates = true});
  const DeltaIntermediates& kept = result.intermediates;
  ASSERT_EQ(kept.h.size(), static_cast<std::size_t>(2 * chunks * 6 * 4));
  ASSERT_EQ(kept.dh.size(), kept.h.size());
  ASSERT_EQ(kept.x.size(), static_cast<std::size_t>(2 * 21 * 8));

  for (std::int64_t head = 0; head < 2; ++head) {
    // The state before chunk c is hT of the first 8 c steps; dh' of the last chunk is dhT.
    for (std::int64_t i = 0; i < 24; ++i) {
      const std::size_t state = static_cast<std::size_t>(head * 24 + i);
      EXPECT_EQ(kept.h[static_cast<std::size_t>(head * chunks * 24 + i)], in.h0[state]);
      EXPECT_EQ(kept.dh[static_cast<std::size_t>((head * chunks + chunks - 1) * 24 + i)],
                in.dhT[state]);
    }
    for (std::int64_t t = 0; t < s.t; ++t) {
      const std::int64_t row = head * s.t + t, first = t / chunk * chunk, n = t - first;
      const auto x = [&](const std::vector<double>& a, std::int64_t r, std::int64_t c,
                         std::int64_t width) { return a[static_cast<std::size_t>(r * width + c)]; };
      EXPECT_EQ(x(kept.x, row, n, chunk), 1.0);
      for (std::int64_t j = n + 1; j < chunk; ++j) {
        EXPECT_EQ(x(kept.x, row, j, chunk), 0.0);
        EXPECT_EQ(x(kept.p, row, j, chunk), 0.0);
      }
      // A X = I, row by row: x_i + sum_j<i beta_i (k_i . k_j) e^(G_i - G_j) x_j = e_i.
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = x(kept.x, row, column, chunk);
        for (std::int64_t j = 0; j < n; ++j) {
          double kk = 0.0;
          for (std::int64_t d = 0; d < s.dk; ++d) {
            kk += x(in.k, row, d, s.dk) * x(in.k, head * s.t + first + j, d, s.dk);
          }
          const double decay =
              std::exp(x(kept.G, row, 0, 1) - x(kept.G, head * s.t + first + j, 0, 1));
          sum +=
              x(in.beta, row, 0, 1) * kk * decay * x(kept.x, head * s.t + first + j, column, chunk);
        }
        EXPECT_NEAR(sum, 0.0, 1e-14);
      }
      // v_new = U - W h.
      for (std::int64_t j = 0; j < s.dv; ++j) {
        double expected = x(kept.u, row, j, s.dv);
        for (std::int64_t d = 0; d < s.dk; ++d) {
          expected -=
              x(kept.w, row, d, s.dk) * x(kept.h, (head * chunks + t / chunk) * s.dk + d, j, s.dv);
        }
        EXPECT_NEAR(x(kept.v_new, row, j, s.dv), expected, 1e-14);
      }
      // dV = diag(beta) R_v.
      for (std::int64_t j = 0; j < s.dv; ++j) {
        EXPECT_EQ(x(result.outputs.dv, row, j, s.dv),
                  x(in.beta, row, 0, 1) * x(kept.r_v, row, j, s.dv));
      }
    }
  }
}

TEST(DeltaInputs, RefusesWhatDoesNotFit) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  DeltaInputs in = make_delta_inputs(kRegimes[0], {.shape = {.t = 5, .dk = 4, .dv = 3}});
  const auto refuse = [](const DeltaInputs& inputs, const char* message) {
    EXPECT_THAT([&] { recurrent_backward(inputs); },
                ThrowsMessage<core::UsageError>(HasSubstr(message)));
    EXPECT_THAT([&] { chunkwise_backward(inputs, {}); },
                ThrowsMessage<core::UsageError>(HasSubstr(message)));
  };
  DeltaInputs wrong = in;
  wrong.k.pop_back();
  refuse(wrong, "got 19 elements of k where b=1 h=1 t=5 dk=4 dv=3 needs 20");
  wrong = in;
  wrong.d_o.clear();
  refuse(wrong, "got 0 elements of do");
  EXPECT_EQ(recurrent_forward(wrong).o, recurrent_forward(in).o);
  wrong = in;
  wrong.shape.t = 0;
  refuse(wrong, "extents of at least 1");
  EXPECT_THAT([&] { chunkwise_forward(in, {.chunk = 0}); },
              ThrowsMessage<core::UsageError>(HasSubstr("chunk >= 1, not 0")));
}

TEST(DeltaInputs, TensorsAreDecodedExactly) {
  const auto make = [](core::Dtype dtype, core::Shape shape, std::uint32_t index) {
    return test::make_input(dtype, std::move(shape), test::kNormal, 1, index);
  };
  const core::Tensor q = make(core::Dtype::f16, {1, 2, 5, 4}, 0);
  const core::Tensor k = make(core::Dtype::bf16, {1, 2, 5, 4}, 1);
  const core::Tensor v = make(core::Dtype::f32, {1, 2, 5, 3}, 2);
  const core::Tensor beta = make(core::Dtype::f16, {1, 2, 5}, 3);
  const DeltaInputs in = delta_inputs({.q = &q, .k = &k, .v = &v, .beta = &beta}, 0.5);
  EXPECT_EQ(in.shape, (DeltaShape{.b = 1, .h = 2, .t = 5, .dk = 4, .dv = 3}));
  EXPECT_EQ(in.scale, 0.5);
  EXPECT_EQ(in.q, q.to_doubles());
  EXPECT_EQ(in.k, k.to_doubles());
  EXPECT_EQ(in.beta, beta.to_doubles());
  EXPECT_FALSE(in.gated());

  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  EXPECT_THAT([&] { delta_inputs({.q = &q, .k = &v, .v = &v, .beta = &beta}, 1.0); },
              ThrowsMessage<core::UsageError>(
                  HasSubstr("got k [1, 2, 5, 3]; q and v ask for [1, 2, 5, 4]")));
  EXPECT_THAT([&] { delta_inputs({.q = &q, .k = &k, .v = &v}, 1.0); },
              ThrowsMessage<core::UsageError>(HasSubstr("got no beta")));
}

}  // namespace
}  // namespace faultline::reference
