// SPDX-License-Identifier: Apache-2.0
// Inputs of the DeltaNet family for tests: every regime that a test of it must know.
#pragma once

#include <faultline/core/generator.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/reference/deltanet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "test_inputs.hpp"

namespace faultline::reference::test {

/// How q, k, v, do, beta and g are drawn. gate: g uniform on [-gate, 0); 0 makes it ungated.
struct Regime {
  const char* name;
  core::Distribution queries, keys, values;
  float beta_limit;  ///< beta uniform on [0, beta_limit); negative: 0 or 1
  float gate;
};

inline constexpr core::Distribution kUnit = core::Distribution::unit_row;
inline constexpr core::Distribution kPlain = core::Distribution::normal;

// Normal queries, keys and values have deviation 0.1; beside unit rows, 1.
inline constexpr Regime kRegimes[] = {
    {"small, -U", kPlain, kPlain, kPlain, 0.5f, 1.0f},
    {"small", kPlain, kPlain, kPlain, 0.5f, 0.0f},
    {"unit", kUnit, kUnit, kPlain, 1.0f, 0.0f},
    {"unit, -0.01 U", kUnit, kUnit, kPlain, 1.0f, 0.01f},
    {"unit, -0.1 U", kUnit, kUnit, kPlain, 1.0f, 0.1f},
    {"unit, -U", kUnit, kUnit, kPlain, 1.0f, 1.0f},
    {"unit, -20 U", kUnit, kUnit, kPlain, 1.0f, 20.0f},
    {"correlated", kUnit, core::Distribution::common_row, kPlain, 1.0f, 0.0f},
    {"correlated, -0.01 U", kUnit, core::Distribution::common_row, kPlain, 1.0f, 0.01f},
    {"identical", kUnit, core::Distribution::identical_row, kPlain, 1.0f, 0.0f},
    {"coin", kUnit, kUnit, kPlain, -1.0f, 0.0f},
    {"coin, correlated, -0.1 U", kUnit, core::Distribution::common_row, kPlain, -1.0f, 0.1f},
    {"repeated", kUnit, kUnit, core::Distribution::repeated_row, 1.0f, 0.0f},
};

struct Problem {
  DeltaShape shape{};
  double scale = 1.0;
  bool states = false;  ///< random h0 and dhT
  std::uint64_t seed = 1;
};

inline DeltaInputs make_delta_inputs(const Regime& regime, const Problem& problem) {
  const DeltaShape& s = problem.shape;
  std::uint32_t index = 0;
  const auto draw = [&](core::Shape shape, core::InputSpec spec) {
    return make_input(core::Dtype::f64, std::move(shape), spec, problem.seed, index++).to_doubles();
  };
  const bool small = regime.keys == kPlain;
  const auto spec = [&](core::Distribution distribution, std::int64_t row) {
    return core::InputSpec{distribution, 0.0f, small ? 0.1f : 1.0f, static_cast<std::int32_t>(row),
                           static_cast<std::int32_t>(s.t)};
  };
  const core::Shape keys{s.b, s.h, s.t, s.dk}, values{s.b, s.h, s.t, s.dv}, steps{s.b, s.h, s.t},
      states{s.b, s.h, s.dk, s.dv};
  DeltaInputs in;
  in.shape = s;
  in.scale = problem.scale;
  in.q = draw(keys, spec(regime.queries, s.dk));
  in.k = draw(keys, spec(regime.keys, s.dk));
  in.v = draw(values, spec(regime.values, s.dv));
  in.d_o = draw(values, spec(regime.values, s.dv));
  in.beta = regime.beta_limit < 0
                ? draw(steps, {core::Distribution::coin, 0.0f, 1.0f})
                : draw(steps, {core::Distribution::uniform, 0.0f, regime.beta_limit});
  if (regime.gate > 0) in.g = draw(steps, {core::Distribution::uniform, -regime.gate, 0.0f});
  if (problem.states) {
    in.h0 = draw(states, spec(kPlain, 0));
    in.dhT = draw(states, spec(kPlain, 0));
  }
  return in;
}

/// max |a - b| / max |b|; 0 for equal arrays, infinity when it is not a number.
inline double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a == b) return 0.0;
  double difference = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= difference)) difference = d;
    largest = std::max(largest, std::abs(b[i]));
  }
  const double ratio = difference / largest;
  return ratio == ratio ? ratio : std::numeric_limits<double>::infinity();
}

/// ||a - b|| / ||b||, Euclidean.
inline double relative_l2(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

inline constexpr DeltaOutput kAllOutputs[] = {DeltaOutput::o,  DeltaOutput::hT, DeltaOutput::dq,
                                              DeltaOutput::dk, DeltaOutput::dv, DeltaOutput::dbeta,
                                              DeltaOutput::dg, DeltaOutput::dh0};

}  // namespace faultline::reference::test
