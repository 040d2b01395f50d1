// SPDX-License-Identifier: Apache-2.0
// The bounds hold for what kernels do, over thousands of heads, and wrong results break them.
#include <faultline/reference/gla_decode.hpp>

#include "test_inputs.hpp"

#include <faultline/core/acceptance.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace faultline::reference {
namespace {

using core::Dtype;
using test::kGate;
using test::kNormal;
using test::make_input;

constexpr std::int64_t kDv = 64;

struct Regime {
  const char* name;
  core::InputSpec q, k, v, gk, state;
};

constexpr core::InputSpec constant(float a) { return {core::Distribution::constant, a, 0.0f}; }
constexpr Regime kRegimes[] = {
    {"normal", kNormal, kNormal, kNormal, kGate, kNormal},
    {"constant", constant(1.3f), constant(0.7f), constant(-0.9f), constant(-0.37f), constant(1.1f)},
    {"cancelling", constant(1.3f), constant(1.0f), constant(-1.0f), constant(-0.01f),
     constant(1.0f)},
    {"strong gates",
     kNormal,
     kNormal,
     kNormal,
     {core::Distribution::uniform, -30.0f, 0.0f},
     kNormal},
    {"no gate", kNormal, kNormal, kNormal, constant(0.0f), kNormal},
    {"positive",
     {core::Distribution::uniform, 0.0f, 1.0f},
     {core::Distribution::uniform, 0.0f, 1.0f},
     {core::Distribution::uniform, 0.0f, 1.0f},
     kGate,
     {core::Distribution::uniform, 0.0f, 1.0f}},
    {"tiny q", {core::Distribution::normal, 0.0f, 1e-6f}, kNormal, kNormal, kGate, kNormal},
};

/// One head in fp32, as the kernels compute it. `nudge` in ulps is added to every decay: what
/// ex2.approx may be off, alternating in sign when it is negative.
struct Emulation {
  enum class Sum { serial, tensor_core } sum = Sum::serial;
  bool rounds_query = true;
  int nudge = 0;
};

float decay_of(double gk, int nudge, std::int64_t i) {
  float decay = std::exp2(static_cast<float>(gk) * 1.4426950408889634f);
  const int steps = nudge < 0 ? (i % 2 ? nudge : -nudge) : nudge;
  const float toward = steps > 0 ? INFINITY : 0.0f;
  for (int s = 0; s < std::abs(steps); ++s) {
    decay = std::nextafter(decay, toward);
  }
  return decay;
}

/// c + sum of exact products as tensor cores are known to do it: addends cut (towards zero) two
/// bits below fp32's precision of the largest, the sum cut to fp32.
float tensor_core_step(float c, const std::vector<double>& products) {
  double largest = std::abs(c);
  for (const double p : products) {
    largest = std::max(largest, std::abs(p));
  }
  if (largest == 0.0) {
    return 0.0f;
  }
  const double unit = std::ldexp(1.0, std::ilogb(largest) - 25);
  double sum = std::trunc(c / unit);
  for (const double p : products) {
    sum += std::trunc(p / unit);
  }
  const double exact = sum * unit;
  float result = static_cast<float>(exact);
  if (std::abs(static_cast<double>(result)) > std::abs(exact)) {
    result = std::nextafter(result, 0.0f);
  }
  return result;
}

struct Outputs {
  std::vector<double> o, new_state;  // before rounding to T
};

Outputs emulate(const std::vector<core::Tensor>& in, std::int64_t dk, float scale, Dtype dtype,
                const Emulation& how) {
  Outputs out;
  std::vector<float> query, decay;
  float qk = 0.0f;
  for (std::int64_t i = 0; i < dk; ++i) {
    decay.push_back(decay_of(in[3].at(i), how.nudge, i));
    const float x = static_cast<float>(in[0].at(i)) * decay.back();
    query.push_back(how.rounds_query ? static_cast<float>(core::round_to(dtype, x)) : x);
    qk = std::fmaf(static_cast<float>(in[0].at(i)), static_cast<float>(in[1].at(i)), qk);
  }
  for (std::int64_t j = 0; j < kDv; ++j) {
    float sum = 0.0f;
    for (std::int64_t tile = 0; tile < dk; tile += 16) {
      std::vector<double> products;
      for (std::int64_t i = tile; i < tile + 16; ++i) {
        const float s = static_cast<float>(in[4].at(i * kDv + j));
        if (how.sum == Emulation::Sum::serial) {
          sum = std::fmaf(s, query[static_cast<std::size_t>(i)], sum);
        } else {
          products.push_back(static_cast<double>(s) * query[static_cast<std::size_t>(i)]);
        }
      }
      if (how.sum == Emulation::Sum::tensor_core) {
        sum = tensor_core_step(sum, products);
      }
    }
    out.o.push_back(std::fmaf(scale * qk, static_cast<float>(in[2].at(j)), scale * sum));
  }
  for (std::int64_t i = 0; i < dk; ++i) {
    for (std::int64_t j = 0; j < kDv; ++j) {
      const float decayed =
          decay[static_cast<std::size_t>(i)] * static_cast<float>(in[4].at(i * kDv + j));
      out.new_state.push_back(
          std::fmaf(static_cast<float>(in[1].at(i)), static_cast<float>(in[2].at(j)), decayed));
    }
  }
  return out;
}

std::vector<core::Tensor> make_head(const Regime& r, Dtype dtype, std::int64_t dk,
                                    std::uint64_t seed) {
  return {make_input(dtype, {1, 1, dk}, r.q, seed, 0), make_input(dtype, {1, 1, dk}, r.k, seed, 1),
          make_input(dtype, {1, 1, kDv}, r.v, seed, 2),
          make_input(dtype, {1, 1, dk}, r.gk, seed, 3),
          make_input(dtype, {1, 1, dk, kDv}, r.state, seed, 4)};
}

GlaInputs view(const std::vector<core::Tensor>& in) {
  return {.q = in[0], .k = in[1], .v = in[2], .gk = in[3], .state = in[4]};
}

GlaBound bound_for(std::int64_t dk, Dtype query) {
  return gla_bound({.state_chain = static_cast<double>(dk + 2),
                    .qk_chain = static_cast<double>(dk + 2),
                    .terms = static_cast<double>(dk),
                    .query = query});
}

struct Tally {
  std::int64_t elements = 0, failures = 0;
  double worst = 0.0;

  void check(Dtype stored, const std::vector<double>& outputs,
             const core::ReferenceTensor& reference) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const core::ElementCheck check =
          core::check_element(stored, core::encode(stored, outputs[i]), reference.expected[i],
                              reference.bound[i], ~0ull);
      ++elements;
      failures += core::is_failure(check.kind);
      worst = std::max(worst, check.ratio);
    }
  }
};

TEST(GlaDecodeBound, HoldsForEveryArithmeticAndRegime) {
  // As stored, and in fp32, where output rounding cannot hide what the bound must cover.
  Tally o, new_state, o_exact, new_state_exact;
  for (const Regime& regime : kRegimes) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
      for (const std::int64_t dk : {16, 64, 256}) {
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
          const std::vector<core::Tensor> in = make_head(regime, dtype, dk, seed);
          const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dk)));
          for (const Emulation& how : {Emulation{Emulation::Sum::serial, true, 0},
                                       Emulation{Emulation::Sum::serial, false, 1},
                                       Emulation{Emulation::Sum::serial, false, -1},
                                       Emulation{Emulation::Sum::tensor_core, true, 1},
                                       Emulation{Emulation::Sum::tensor_core, true, -1}}) {
            const GlaBound bound = bound_for(dk, how.rounds_query ? dtype : Dtype::f32);
            const auto reference = gla_decode(view(in), scale, bound);
            const Outputs got = emulate(in, dk, scale, dtype, how);
            const std::int64_t before =
                o.failures + new_state.failures + o_exact.failures + new_state_exact.failures;
            o.check(dtype, got.o, reference[0]);
            new_state.check(dtype, got.new_state, reference[1]);
            o_exact.check(Dtype::f32, got.o, reference[0]);
            new_state_exact.check(Dtype::f32, got.new_state, reference[1]);
            ASSERT_EQ(before,
                      o.failures + new_state.failures + o_exact.failures + new_state_exact.failures)
                << fmt::format("{} {} dk={} seed={} tensor_core={} rounds={}", regime.name,
                               core::name_of(dtype), dk, seed,
                               how.sum == Emulation::Sum::tensor_core, how.rounds_query);
          }
        }
      }
    }
  }
  const auto record = [](const char* name, const Tally& tally) {
    ::testing::Test::RecordProperty(name, fmt::format("{:.3f}", tally.worst));
    fmt::print("{}: worst {:.3f} of bound, {} elements\n", name, tally.worst, tally.elements);
  };
  record("o", o);
  record("new_state", new_state);
  record("o_before_rounding", o_exact);
  record("new_state_before_rounding", new_state_exact);
  EXPECT_GT(o_exact.worst, 0.2);
  EXPECT_GT(new_state_exact.worst, 0.2);
}

TEST(GlaDecodeBound, ASwappedTileAlarmsAlmostEverywhereInItAndNowhereElse) {
  const std::int64_t dk = 64;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    const std::vector<core::Tensor> in = make_head(kRegimes[0], dtype, dk, 3);
    const auto reference = gla_decode(view(in), 0.125, bound_for(dk, dtype));
    for (const core::TileHypothesis& swap : gla_decode_hypotheses(view(in), 0.125, 16, 2)) {
      const core::ReferenceTensor& expected = reference[swap.output];
      std::int64_t inside = 0, outside = 0;
      for (std::size_t i = 0; i < swap.values.size(); ++i) {
        const bool bad =
            core::is_failure(core::check_element(dtype, core::encode(dtype, swap.values[i]),
                                                 expected.expected[i], expected.bound[i], ~0ull)
                                 .kind);
        const bool in_tile =
            swap.output == 0 || static_cast<std::int64_t>(i) / kDv / 16 == swap.destination;
        (in_tile ? inside : outside) += bad;
      }
      EXPECT_EQ(outside, 0);
      EXPECT_GE(inside, swap.output == 0 ? kDv * 8 / 10 : 16 * kDv * 9 / 10)
          << fmt::format("{} output {} tile {} <- {}", core::name_of(dtype), swap.output,
                         swap.destination, swap.source);
    }
  }
}

TEST(GlaDecodeBound, NullOutputsAreRejected) {
  const std::int64_t dk = 64;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    const std::vector<core::Tensor> in = make_head(kRegimes[0], dtype, dk, 9);
    const auto reference = gla_decode(view(in), 0.125, bound_for(dk, dtype));
    for (const core::ReferenceTensor& expected : reference) {
      const std::size_t size = expected.expected.size();
      const auto rejected = [&](const std::vector<double>& outputs) {
        Tally tally;
        tally.check(dtype, outputs, expected);
        return static_cast<double>(tally.failures) / static_cast<double>(tally.elements);
      };
      EXPECT_EQ(rejected(expected.expected), 0.0);
      EXPECT_GT(rejected(std::vector<double>(size, 0.0)), 0.9) << "zeros";
      EXPECT_GT(rejected(std::vector<double>(size, expected.expected[0])), 0.9) << "constant";
      std::vector<double> shuffled = expected.expected;
      std::rotate(shuffled.begin(), shuffled.begin() + 1, shuffled.end());
      EXPECT_GT(rejected(shuffled), 0.9) << "shuffled";
      std::vector<double> copy =
          size == static_cast<std::size_t>(kDv) ? in[2].to_doubles() : in[4].to_doubles();
      EXPECT_GT(rejected(copy), 0.9) << "an input's copy";
    }
  }
}

TEST(GlaDecodeBound, AForgottenTermIsSeen) {
  const std::int64_t dk = 64;
  const std::vector<core::Tensor> in = make_head(kRegimes[0], Dtype::bf16, dk, 21);
  const auto reference = gla_decode(view(in), 1.0, bound_for(dk, Dtype::bf16));
  std::vector<core::Tensor> no_write = in;
  no_write[1] = core::Tensor(Dtype::bf16, {1, 1, dk});  // k = 0: neither k v^T nor (q.k) v
  const auto without = gla_decode(view(no_write), 1.0, bound_for(dk, Dtype::bf16));
  for (std::size_t output = 0; output < 2; ++output) {
    Tally tally;
    tally.check(Dtype::bf16, without[output].expected, reference[output]);
    EXPECT_GT(tally.failures, tally.elements * 8 / 10);
  }
}

}  // namespace
}  // namespace faultline::reference
