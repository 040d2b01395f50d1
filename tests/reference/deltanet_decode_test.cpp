// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/deltanet_decode.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "test_inputs.hpp"

namespace faultline::reference {
namespace {

struct Step {
  core::Tensor q, k, v, beta, g, state;
  DeltaDecodeInputs inputs(bool gated) const {
    return {.q = q, .k = k, .v = v, .beta = beta, .g = gated ? &g : nullptr, .state = state};
  }
};

Step make_step(std::int64_t dk, std::int64_t dv, std::uint64_t seed, float gate = 1.0f,
               core::Dtype dtype = core::Dtype::bf16) {
  const auto draw = [&](core::Dtype type, core::Shape shape, core::InputSpec spec,
                        std::uint32_t index) {
    return test::make_input(type, std::move(shape), spec, seed, index);
  };
  const core::InputSpec unit{core::Distribution::unit_row, 0.0f, 1.0f,
                             static_cast<std::int32_t>(dk), 1};
  return {.q = draw(dtype, {2, 3, dk}, unit, 0),
          .k = draw(dtype, {2, 3, dk}, unit, 1),
          .v = draw(dtype, {2, 3, dv}, test::kNormal, 2),
          .beta = draw(dtype, {2, 3}, {core::Distribution::uniform, 0.0f, 1.0f}, 3),
          .g = draw(core::Dtype::f32, {2, 3}, {core::Distribution::uniform, -gate, 0.0f}, 4),
          .state = draw(core::Dtype::f32, {2, 3, dk, dv}, test::kNormal, 5)};
}

DeltaDecodeBound bound_for(std::int64_t dk, bool gated, double chain) {
  return delta_decode_bound(
      {.state_chain = chain, .qk_chain = chain, .terms = static_cast<double>(dk), .gated = gated});
}

TEST(DeltaDecode, IsOneStepOfTheRecurrence) {
  for (const bool gated : {false, true}) {
    const Step step = make_step(24, 17, 9);
    DeltaInputs in;
    in.shape = {.b = 2, .h = 3, .t = 1, .dk = 24, .dv = 17};
    in.scale = 0.3;
    in.q = step.q.to_doubles(), in.k = step.k.to_doubles(), in.v = step.v.to_doubles();
    in.beta = step.beta.to_doubles(), in.h0 = step.state.to_doubles();
    if (gated) in.g = step.g.to_doubles();
    const DeltaOutputs expected = recurrent_forward(in);
    const std::vector<core::ReferenceTensor> got =
        delta_decode(step.inputs(gated), 0.3, bound_for(24, gated, 24));
    ASSERT_EQ(got.size(), 2u);
    for (std::size_t i = 0; i < expected.o.size(); ++i) {
      EXPECT_NEAR(got[0].expected[i], expected.o[i], 1e-14);
    }
    for (std::size_t i = 0; i < expected.hT.size(); ++i) {
      EXPECT_NEAR(got[1].expected[i], expected.hT[i], 1e-14);
    }
  }
}

/// How a kernel may order the step. Everything in fp32, sums of 32 lanes and a tree.
enum class Order { state_once, decay_first, serial };

struct Result {
  std::vector<float> o, state;
};

float tree(std::vector<float> x) {
  for (std::size_t width = x.size(); width > 1; width = (width + 1) / 2) {
    for (std::size_t i = 0; i < width / 2; ++i) x[i] += x[width - 1 - i];
  }
  return x[0];
}

/// An fp32 kernel: the decay off by `decay_ulps` steps of fp32 from the rounded exponential.
Result kernel(const Step& step, bool gated, float scale, Order order, int decay_ulps) {
  const std::int64_t dk = step.q.shape[2], dv = step.v.shape[2];
  Result result;
  for (std::int64_t head = 0; head < 6; ++head) {
    const auto at = [&](const core::Tensor& x, std::int64_t i, std::int64_t n) {
      return static_cast<float>(x.at(head * n + i));
    };
    float alpha = gated ? static_cast<float>(std::exp(step.g.at(head))) : 1.0f;
    for (int i = 0; gated && i < decay_ulps; ++i) {
      alpha = std::nextafter(alpha, std::numeric_limits<float>::infinity());
    }
    const auto sum = [&](auto&& term) {
      std::vector<float> lanes(order == Order::serial ? 1 : 32, 0.0f);
      for (std::int64_t i = 0; i < dk; ++i) {
        lanes[static_cast<std::size_t>(i) % lanes.size()] += term(i);
      }
      return tree(lanes);
    };
    const float qk = sum([&](std::int64_t i) { return at(step.q, i, dk) * at(step.k, i, dk); });
    std::vector<float> columns(static_cast<std::size_t>(dk * dv));
    for (std::int64_t j = 0; j < dv; ++j) {
      const auto s = [&](std::int64_t i) { return at(step.state, i * dv + j, dk * dv); };
      const float r = sum([&](std::int64_t i) {
        return (order == Order::decay_first ? alpha * s(i) : s(i)) * at(step.k, i, dk);
      });
      const float p = sum([&](std::int64_t i) { return s(i) * at(step.q, i, dk); });
      const float read = order == Order::decay_first ? r : alpha * r;
      const float u = at(step.beta, 0, 1) * (at(step.v, j, dv) - read);
      for (std::int64_t i = 0; i < dk; ++i) {
        columns[static_cast<std::size_t>(i * dv + j)] = alpha * s(i) + at(step.k, i, dk) * u;
      }
      const float from_new = sum([&](std::int64_t i) {
        return columns[static_cast<std::size_t>(i * dv + j)] * at(step.q, i, dk);
      });
      result.o.push_back(scale * (order == Order::decay_first ? from_new : alpha * p + qk * u));
    }
    result.state.insert(result.state.end(), columns.begin(), columns.end());
  }
  return result;
}

double worst_ratio(const std::vector<float>& got, const core::ReferenceTensor& expected) {
  double worst = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - expected.expected[i]);
    const double ratio = error / expected.bound[i];
    if (!(ratio <= worst)) worst = ratio;
  }
  return worst;
}

TEST(DeltaDecodeBound, CoversEveryOrderOfAnFp32Kernel) {
  for (const bool gated : {false, true}) {
    for (const float gate : {0.01f, 1.0f, 20.0f}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const Step step = make_step(64, 32, seed, gate);
        for (const Order order : {Order::state_once, Order::decay_first, Order::serial}) {
          const double chain = order == Order::serial ? 64 + 2 : 2 + 5 + 3;
          const std::vector<core::ReferenceTensor> expected =
              delta_decode(step.inputs(gated), 0.125, bound_for(64, gated, chain));
          for (const int ulps : {0, 2}) {
            const Result got = kernel(step, gated, 0.125f, order, ulps);
            EXPECT_LE(worst_ratio(got.o, expected[0]), 1.0) << seed << " gate " << gate;
            EXPECT_LE(worst_ratio(got.state, expected[1]), 1.0) << seed << " gate " << gate;
          }
        }
      }
    }
  }
}

// A bound that nothing can exceed is no bound: the healthy kernel comes near it, and each wrong
// formula is far outside.
TEST(DeltaDecodeBound, IsTight) {
  const Step step = make_step(64, 32, 3);
  const std::vector<core::ReferenceTensor> expected =
      delta_decode(step.inputs(true), 0.125, bound_for(64, true, 10));
  const Result healthy = kernel(step, true, 0.125f, Order::state_once, 2);
  EXPECT_GT(worst_ratio(healthy.o, expected[0]), 0.02);
  EXPECT_GT(worst_ratio(healthy.state, expected[1]), 0.05);
  const Result late = kernel(step, true, 0.125f, Order::state_once, 200);  // 1.2e-5 in the decay
  EXPECT_GT(worst_ratio(late.state, expected[1]), 5.0);

  Step wrong = step;  // the error against the state before its decay
  const std::vector<core::ReferenceTensor> undecayed =
      delta_decode(wrong.inputs(false), 0.125, bound_for(64, false, 10));
  double worst = 0.0;
  for (std::size_t i = 0; i < undecayed[0].expected.size(); ++i) {
    worst = std::max(worst, std::abs(undecayed[0].expected[i] - expected[0].expected[i]) /
                                expected[0].bound[i]);
  }
  EXPECT_GT(worst, 1000.0);
}

TEST(DeltaDecodeBound, RoundedUpdateWidensIt) {
  const Step step = make_step(32, 16, 5);
  DeltaDecodeNumerics numerics{.state_chain = 10, .qk_chain = 10, .terms = 32};
  const auto plain = delta_decode(step.inputs(true), 1.0, delta_decode_bound(numerics));
  numerics.update = core::Dtype::bf16;
  const auto rounded = delta_decode(step.inputs(true), 1.0, delta_decode_bound(numerics));
  for (std::size_t i = 0; i < plain[1].bound.size(); ++i) {
    EXPECT_GE(rounded[1].bound[i], plain[1].bound[i]);
  }
  EXPECT_GT(rounded[1].bound[0], 10.0 * plain[1].bound[0]);
}

TEST(DeltaDecode, RefusesWhatDoesNotFit) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  Step step = make_step(8, 4, 1);
  EXPECT_THAT([&] { delta_decode(step.inputs(true), 1.0, bound_for(8, false, 8)); },
              ThrowsMessage<core::UsageError>(HasSubstr("got g with an ungated bound")));
  EXPECT_THAT([&] { delta_decode(step.inputs(false), 1.0, bound_for(8, true, 8)); },
              ThrowsMessage<core::UsageError>(HasSubstr("got no g for a gated bound")));
  step.beta = core::Tensor(core::Dtype::f32, {2, 4});
  EXPECT_THAT([&] { delta_decode(step.inputs(true), 1.0, bound_for(8, true, 8)); },
              ThrowsMessage<core::UsageError>(HasSubstr("beta [2, 4]")));
}

}  // namespace
}  // namespace faultline::reference
