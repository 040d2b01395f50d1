// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/gla_decode.hpp>

#include "test_inputs.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace faultline::reference {
namespace {

using core::Dtype;
using test::kGate;
using test::kNormal;
using test::make_input;

struct Step {
  std::int64_t b, h, dk, dv;
  core::Tensor q, k, v, gk, state;

  Step(Dtype dtype, std::int64_t b_, std::int64_t h_, std::int64_t dk_, std::int64_t dv_,
       const core::InputSpec& gate = kGate, std::uint64_t seed = 11)
      : b(b_),
        h(h_),
        dk(dk_),
        dv(dv_),
        q(make_input(dtype, {b, h, dk}, kNormal, seed, 0)),
        k(make_input(dtype, {b, h, dk}, kNormal, seed, 1)),
        v(make_input(dtype, {b, h, dv}, kNormal, seed, 2)),
        gk(make_input(dtype, {b, h, dk}, gate, seed, 3)),
        state(make_input(dtype, {b, h, dk, dv}, kNormal, seed, 4)) {}

  GlaInputs inputs() const { return {.q = q, .k = k, .v = v, .gk = gk, .state = state}; }
};

const GlaBound kBound = gla_bound({.state_chain = 66, .qk_chain = 9, .terms = 64});

struct Naive {
  std::vector<long double> o, new_state;
};

/// The definition, and o by the second form of the specification.
Naive naive_step(const Step& s, long double scale, bool second_form) {
  Naive result;
  for (std::int64_t head = 0; head < s.b * s.h; ++head) {
    std::vector<long double> o(static_cast<std::size_t>(s.dv), 0.0L);
    long double qk = 0.0L;
    for (std::int64_t i = 0; i < s.dk; ++i) {
      const std::int64_t key = head * s.dk + i;
      const long double decay = std::exp(static_cast<long double>(s.gk.at(key)));
      qk += static_cast<long double>(s.q.at(key)) * s.k.at(key);
      for (std::int64_t j = 0; j < s.dv; ++j) {
        const long double old = s.state.at(key * s.dv + j);
        const long double updated =
            decay * old + static_cast<long double>(s.k.at(key)) * s.v.at(head * s.dv + j);
        result.new_state.push_back(updated);
        o[static_cast<std::size_t>(j)] +=
            second_form ? decay * s.q.at(key) * old : s.q.at(key) * updated;
      }
    }
    for (std::int64_t j = 0; j < s.dv; ++j) {
      const long double sum = o[static_cast<std::size_t>(j)];
      result.o.push_back(scale * sum + (second_form ? scale * qk * s.v.at(head * s.dv + j) : 0.0L));
    }
  }
  return result;
}

/// max |a - b| / max |b|
double relative_difference(const std::vector<double>& a, const std::vector<long double>& b) {
  long double difference = 0.0L, largest = 0.0L;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return static_cast<double>(largest > 0 ? difference / largest : difference);
}

TEST(GlaDecodeReference, AgreesWithBothFormsOfTheDefinition) {
  const core::InputSpec strong{core::Distribution::uniform, -20.0f, 0.0f};
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    for (const core::InputSpec& gate : {kGate, strong}) {
      for (const Step& step : {Step(dtype, 1, 1, 16, 64, gate), Step(dtype, 2, 3, 48, 64, gate),
                               Step(dtype, 1, 2, 256, 128, gate), Step(dtype, 1, 1, 1, 1, gate)}) {
        for (const double scale : {1.0, 0.125, -2.0}) {
          SCOPED_TRACE(fmt::format("{} dk={} dv={} scale={}", core::name_of(dtype), step.dk,
                                   step.dv, scale));
          const std::vector<core::ReferenceTensor> outputs =
              gla_decode(step.inputs(), scale, kBound);
          ASSERT_EQ(outputs.size(), 2u);
          const Naive first = naive_step(step, scale, false),
                      second = naive_step(step, scale, true);
          ASSERT_EQ(outputs[0].expected.size(), first.o.size());
          ASSERT_EQ(outputs[1].expected.size(), first.new_state.size());
          EXPECT_LT(relative_difference(outputs[0].expected, first.o), 1e-13);
          EXPECT_LT(relative_difference(outputs[0].expected, second.o), 1e-13);
          EXPECT_LT(relative_difference(outputs[1].expected, first.new_state), 1e-15);
        }
      }
    }
  }
}

TEST(GlaDecodeReference, HeadsAreIndependent) {
  const Step both(Dtype::bf16, 1, 2, 32, 64);
  Step changed = both;
  for (std::int64_t i = 32 * 64; i < 2 * 32 * 64; ++i) {
    changed.state.set(i, 0.0);
  }
  const auto a = gla_decode(both.inputs(), 1.0, kBound);
  const auto b = gla_decode(changed.inputs(), 1.0, kBound);
  for (std::size_t i = 0; i < 32 * 64; ++i) {
    ASSERT_EQ(a[1].expected[i], b[1].expected[i]);
    ASSERT_EQ(a[1].bound[i], b[1].bound[i]);
  }
  for (std::size_t j = 0; j < 64; ++j) {
    ASSERT_EQ(a[0].expected[j], b[0].expected[j]);
    ASSERT_EQ(a[0].bound[j], b[0].bound[j]);
  }
  EXPECT_NE(a[0].expected[64], b[0].expected[64]);
}

TEST(GlaDecodeReference, WrongShapesAreRefused) {
  Step step(Dtype::bf16, 1, 1, 32, 64);
  step.v = core::Tensor(Dtype::bf16, {1, 1, 32});
  EXPECT_THROW(gla_decode(step.inputs(), 1.0, kBound), core::UsageError);
  step.v = core::Tensor(Dtype::bf16, {64});
  EXPECT_THROW(gla_decode(step.inputs(), 1.0, kBound), core::UsageError);
}

TEST(GlaDecodeHypotheses, AreTheStepOnAStateWithOneTileReplaced) {
  const Step step(Dtype::bf16, 1, 2, 64, 64);
  const auto hypotheses = gla_decode_hypotheses(step.inputs(), 0.25, 16, 2);
  ASSERT_EQ(hypotheses.size(), 2u * 4 * 3);
  for (const core::TileHypothesis& hypothesis : hypotheses) {
    ASSERT_NE(hypothesis.destination, hypothesis.source);
    Step replaced = step;
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t i = 0; i < 16 * 64; ++i) {
        const std::int64_t base = head * 64 * 64;
        replaced.state.set(base + hypothesis.destination * 16 * 64 + i,
                           step.state.at(base + hypothesis.source * 16 * 64 + i));
      }
    }
    const auto outputs = gla_decode(replaced.inputs(), 0.25, kBound);
    const auto& expected = outputs[hypothesis.output].expected;
    ASSERT_EQ(hypothesis.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(hypothesis.values[i], expected[i], 1e-12);
    }
  }
}

TEST(GlaDecodeHypotheses, AreLimited) {
  const Step step(Dtype::bf16, 1, 1, 128, 64);  // 8 tiles
  EXPECT_EQ(gla_decode_hypotheses(step.inputs(), 1.0, 16, 2).size(), 2u * 8 * 7);
  const auto limited = gla_decode_hypotheses(step.inputs(), 1.0, 16, 2, 50 * 129 * 64);
  EXPECT_EQ(limited.size(), 2u * 8 * 3);
  for (const core::TileHypothesis& hypothesis : limited) {
    EXPECT_EQ(hypothesis.destination % 2, hypothesis.source % 2);
  }
  EXPECT_TRUE(gla_decode_hypotheses(step.inputs(), 1.0, 16, 2, 1000).empty());
  const Step one_tile(Dtype::bf16, 1, 1, 16, 64);
  EXPECT_TRUE(gla_decode_hypotheses(one_tile.inputs(), 1.0, 16, 2).empty());
}

}  // namespace
}  // namespace faultline::reference
