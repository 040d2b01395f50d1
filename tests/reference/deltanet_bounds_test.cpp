// SPDX-License-Identifier: Apache-2.0
// The bounds of the DeltaNet family judged by kernels emulated apart from them: healthy ones never
// alarm, broken ones always do where the defect is above rounding, and where it is not the bounds
// say so.
#include <faultline/reference/deltanet_bounds.hpp>

#include "delta_simulation.hpp"
#include "deltanet_emulation.hpp"
#include "deltanet_inputs.hpp"

#include <faultline/core/acceptance.hpp>
#include <faultline/core/errors.hpp>
#include <faultline/core/visibility.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

namespace faultline::reference {
namespace {

using core::Dtype;
using test::Defect;
using test::EmulatedKernel;
using test::Emulation;
using test::kRegimes;
using test::make_delta_inputs;
using test::Problem;
using test::Regime;
using test::stored_inputs;

constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32};

Dtype stored_dtype(std::string_view output, Dtype dtype) {
  const bool f32 = output == "hT" || output == "dh0" || output == "dbeta" || output == "dg";
  return f32 ? Dtype::f32 : dtype;
}

/// What a comparison of a kernel's outputs with bounds found.
struct Verdict {
  std::int64_t elements = 0, rejected = 0;
  double worst_in_scales = 0.0;  ///< |got - ref| before storage, over s = B / 7
  double worst_ratio = 0.0;      ///< over B
  std::set<std::string> wrong;   ///< outputs with a rejected element
};

Verdict judge(const DeltaBounds& bounds, DeltaOutputs got, Dtype dtype) {
  Verdict verdict;
  for (const NamedReference& reference : bounds.outputs) {
    const std::vector<double>& values = got[*parse_delta_output(reference.name)];
    EXPECT_EQ(values.size(), reference.values.expected.size()) << reference.name;
    const Dtype stored = stored_dtype(reference.name, dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = reference.values.expected[i], bound = reference.values.bound[i];
      ++verdict.elements;
      if (core::is_failure(
              core::check_element(stored, core::encode(stored, values[i]), expected, bound, ~0ull)
                  .kind)) {
        ++verdict.rejected;
        verdict.wrong.insert(reference.name);
      }
      const double error = std::abs(values[i] - expected);
      const double ratio = error == 0.0 ? 0.0 : error / bound;
      verdict.worst_ratio = std::max(verdict.worst_ratio, ratio);
    }
  }
  verdict.worst_in_scales = kBoundLambda * verdict.worst_ratio;
  return verdict;
}

const Regime& regime(std::string_view name) {
  return *std::find_if(std::begin(kRegimes), std::end(kRegimes),
                       [&](const Regime& r) { return r.name == name; });
}

BoundRequest backward_request() { return {.backward = true, .threads = 1}; }

// --- rounding ------------------------------------------------------------------------------------

std::vector<float> awkward_floats() {
  std::vector<float> values{0.0f,         -0.0f,         1.0f,      65504.0f, 65519.9f,
                            65520.0f,     -70000.0f,     0x1p-24f,  0x1p-25f, 0x1.8p-25f,
                            3.4e38f,      0x1p-149f,     0x1p-133f, 1e-40f,   0x1p-14f,
                            0x1.ffcp-15f, 0x1.ffffp-15f, INFINITY,  -INFINITY};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t bits = core::mix64(i);
    // Around 1, and over f16's whole range with its subnormals.
    const int exponent = i % 2 == 0 ? 0 : static_cast<int>(bits >> 32 & 63) - 40;
    const double sign = bits >> 63 != 0 ? -1.0 : 1.0;
    const double mantissa = 1.0 + static_cast<double>(bits & 0x7fffff) * 0x1p-23;
    values.push_back(static_cast<float>(sign * mantissa * core::exp2_int(exponent)));
  }
  return values;
}

TEST(MonteCarloRounding, NearestIsTheDtypesOwn) {
  const std::vector<float> values = awkward_floats();
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    std::vector<float> rounded(values.size());
    Rounding::nearest()(RoundingPoint::w, grid_of(dtype), values.data(), rounded.data(),
                        static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(
          core::bits_of(rounded[i]),
          core::bits_of(static_cast<float>(core::round_to(dtype, static_cast<double>(values[i])))))
          << fmt::format("{} of {:a}", core::name_of(dtype), values[i]);
    }
  }
}

TEST(MonteCarloRounding, StepsToANeighbourWithTheRightProbability) {
  const std::vector<float> values = awkward_floats();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    std::vector<float> rounded(values.size());
    double shift = 0.0, variance = 0.0;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
      const Rounding round = Rounding::stochastic(seed);
      round(RoundingPoint::w, grid_of(dtype), values.data(), rounded.data(), count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double x = values[i], y = rounded[i], ulp = core::ulp_at(dtype, x);
        ASSERT_EQ(core::round_to(dtype, y), y);
        ASSERT_EQ(std::signbit(x), std::signbit(y));
        if (core::round_to(dtype, x) == x) {
          ASSERT_EQ(x, y) << "a number on the grid moved";
        } else if (std::isfinite(y)) {
          ASSERT_LT(std::abs(y - x), ulp);
          const double fraction = std::fmod(std::abs(x), ulp) / ulp;
          shift += (std::abs(y) - std::abs(x)) / ulp;
          variance += fraction * (1.0 - fraction);
        }
      }
    }
    // The mean step is 0; 5 standard deviations of a sum of independent ones, hash cells aside.
    EXPECT_LT(std::abs(shift), 5.0 * std::sqrt(variance)) << core::name_of(dtype);
  }
}

TEST(MonteCarloRounding, EqualValuesRoundAlikeInARunAndDifferentlyInAnother) {
  const std::vector<float> values(1003, 1.0009f);  // not a multiple of the vectors' width
  std::vector<float> first(values.size());
  int ups = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const RoundingPoint point : {RoundingPoint::w, RoundingPoint::u}) {
      Rounding::stochastic(seed)(point, Grid::bf16, values.data(), first.data(),
                                 static_cast<std::int64_t>(values.size()));
      ASSERT_TRUE(std::all_of(first.begin(), first.end(), [&](float y) { return y == first[0]; }));
      ups += first[0] > 1.0f;
    }
  }
  EXPECT_GT(ups, 8);  // of 200; expected 200 * 0.0009 / 2^-7 = 23
  EXPECT_LT(ups, 42);
}

TEST(MonteCarloRounding, NaNStays) {
  const float nan = core::float_of(0x7fffffffu);
  for (const Grid grid : {Grid::f16, Grid::bf16, Grid::tf32, Grid::f32}) {
    float y = 0.0f;
    Rounding::stochastic(3)(RoundingPoint::w, grid, &nan, &y, 1);
    EXPECT_TRUE(std::isnan(y));
    Rounding::nearest()(RoundingPoint::w, grid, &nan, &y, 1);
    EXPECT_TRUE(std::isnan(y));
  }
}

// --- products ------------------------------------------------------------------------------------

FloatMatrix integers(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  FloatMatrix m(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      m.row(i)[j] = static_cast<float>(
          static_cast<int>(core::mix64(seed + static_cast<std::uint64_t>(i * 1000 + j)) % 17) - 8);
    }
  }
  return m;
}

TEST(FloatMatrix, ProductsAreExactOnIntegersForEveryShapeAndTransposition) {
  std::vector<float> scratch;
  for (const std::int64_t m : {1, 3, 4, 17, 33}) {
    for (const std::int64_t k : {1, 5, 16, 40}) {
      for (const std::int64_t n : {1, 15, 16, 33}) {
        FloatMatrix a = integers(m, k, 1), b = integers(k, n, 2), at(k, m), bt(n, k);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t l = 0; l < k; ++l) at.row(l)[i] = a.row(i)[l];
        }
        for (std::int64_t l = 0; l < k; ++l) {
          for (std::int64_t j = 0; j < n; ++j) bt.row(j)[l] = b.row(l)[j];
        }
        FloatMatrix plain(m, n), left(m, n), right(m, n);
        multiply(plain.view(), a.view(), b.view());
        multiply_at(left.view(), at.view(), b.view(), Update::add);
        multiply_bt(right.view(), a.view(), bt.view(), scratch, Update::subtract);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < plain.stride(); ++j) {
            float sum = 0.0f;
            for (std::int64_t l = 0; l < k && j < n; ++l) sum += a.row(i)[l] * b.row(l)[j];
            ASSERT_EQ(plain.row(i)[j], sum);
            ASSERT_EQ(left.row(i)[j], sum);
            ASSERT_EQ(right.row(i)[j], -sum);
          }
        }
      }
    }
  }
}

TEST(FloatMatrix, TrianglesSkipOnlyZeros) {
  for (const std::int64_t n : {1, 7, 16, 45}) {
    FloatMatrix lower = integers(n, n, 3), b = integers(n, 20, 4), full = integers(n, n, 5);
    for (std::int64_t i = 0; i < n; ++i) std::fill(lower.row(i) + i + 1, lower.row(i) + n, 0.0f);
    FloatMatrix expected(n, 20), got(n, 20), square(n, n), half(n, n);
    multiply(expected.view(), lower.view(), b.view());
    multiply(got.view(), lower.view(), b.view(), Update::set, Triangle::a_lower);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(std::equal(got.row(i), got.row(i) + 20, expected.row(i)));
    }
    multiply_at(expected.view(), lower.view(), b.view());
    multiply_at(got.view(), lower.view(), b.view(), Update::set, Triangle::a_upper);
    multiply(square.view(), full.view(), full.view());
    multiply(half.view(), full.view(), full.view(), Update::set, Triangle::c_lower);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(std::equal(got.row(i), got.row(i) + 20, expected.row(i)));
      ASSERT_TRUE(std::equal(half.row(i), half.row(i) + i + 1, square.row(i)));
    }
  }
}

// --- the simulation ------------------------------------------------------------------------------

/// Every way of computing that a plan can declare is the same mathematics.
TEST(DeltaSimulation, EveryPlanComputesTheReference) {
  std::vector<DeltaNumerics> plans;
  DeltaNumerics plain{.dtype = Dtype::f32, .chunk = 32};
  plans.push_back(plain);
  for (const int block : {16, 32}) {
    plans.push_back(plain);
    plans.back().inverse_block = block;
  }
  plans.push_back(plain);
  plans.back().fused_v_new = true;
  for (const int block : {0, 16}) {
    plans.push_back(plain);
    plans.back().inverse_scaled = true;
    plans.back().inverse_block = block;
  }
  plans.push_back(plain);
  plans.back().decay_on_v_new = true;
  plans.push_back(plain);
  plans.back().scale_in_query = true;
  plans.back().set(RoundingPoint::q_hat_o, Grid::f32);
  plans.push_back(plain);
  plans.back().decay_on_gradient = true;
  plans.back().beta_on_e = true;
  plans.push_back(plain);
  plans.back().dw_in_pieces = true;
  plans.push_back(plain);
  plans.back().r_w_from_r_v = true;
  plans.back().sums_from_operands = true;
  for (const int segment : {1, 2, 3, 7}) {
    plans.push_back(plain);
    plans.back().segment_chunks = segment;
    plans.back().backward_segment_chunks = segment;
    plans.push_back(plans.back());
    plans.back().decay_on_v_new = true;
    plans.back().chunk = 24;
  }
  for (const Regime* r : {&regime("unit, -0.1 U"), &regime("correlated")}) {
    const DeltaInputs in = stored_inputs(
        make_delta_inputs(*r, {.shape = {1, 2, 117, 40, 24}, .scale = 0.3, .states = true}),
        Dtype::f16);
    const DeltaOutputs reference = recurrent_backward(in);
    for (const DeltaNumerics& plan : plans) {
      SCOPED_TRACE(fmt::format("{}: {}", r->name, to_string(plan)));
      const DeltaIntermediates kept =
          chunkwise_backward(in, {.chunk = plan.chunk, .intermediates = true}).intermediates;
      for (std::int64_t head = 0; head < 2; ++head) {
        SimulatedInputs head_inputs(in, head, true);
        DeltaSimulation simulation(head_inputs, plan, true);
        const SimulatedOutputs& y = simulation.run(Rounding::nearest());
        const auto close = [&](std::string_view name, const FloatMatrix& got,
                               const std::vector<double>& all) {
          const std::int64_t elements = got.rows() * got.columns();
          double difference = 0.0, largest = 0.0;
          for (std::int64_t i = 0; i < elements; ++i) {
            const double expected = all[static_cast<std::size_t>(head * elements + i)];
            difference = std::max(
                difference, std::abs(got.row(i / got.columns())[i % got.columns()] - expected));
            largest = std::max(largest, std::abs(expected));
          }
          EXPECT_LT(difference, 3e-5 * largest) << name;
        };
        for (std::size_t i = 0; i < kDeltaOutputCount; ++i) {
          const auto which = static_cast<DeltaOutput>(i);
          if (!reference[which].empty()) close(name_of(which), y.outputs[i], reference[which]);
        }
        for (std::size_t i = 0; i < kIntermediateCount; ++i) {
          const auto which = static_cast<Intermediate>(i);
          DeltaIntermediates all = kept;
          close(name_of(which), y.intermediates[i], array_of(all, which));
        }
      }
    }
  }
}

// --- false alarms --------------------------------------------------------------------------------

TEST(DeltaBounds, HealthyKernelsNeverAlarm) {
  struct Shape {
    DeltaShape shape;
    std::int64_t chunk;
  };
  const Shape shapes[] = {{{1, 1, 1, 32, 32}, 32},
                          {{1, 1, 33, 32, 48}, 32},
                          {{1, 1, 127, 48, 32}, 64},
                          {{1, 1, 192, 32, 32}, 32}};
  for (const Dtype dtype : kDtypes) {
    double worst = 0.0;
    std::int64_t elements = 0, unusable = 0, cases = 0;
    std::uint64_t seed = 40000;
    for (const Regime& r : kRegimes) {
      for (const Shape& shape : shapes) {
        for (const bool states : {false, true}) {
          const double scale = states ? 1.0 : 0.125;
          const DeltaInputs in = stored_inputs(
              make_delta_inputs(
                  r, {.shape = shape.shape, .scale = scale, .states = states, .seed = ++seed}),
              dtype);
          Emulation how{.dtype = dtype, .chunk = shape.chunk};
          how.x_in_f32 = seed % 3 == 0;
          how.decay_on_v_new = seed % 2 == 0;
          how.serial_sums = seed % 5 == 0;
          how.inverse_scaled = seed % 4 < 2;
          DeltaNumerics plan = DeltaNumerics::stored_in(dtype, static_cast<int>(shape.chunk));
          plan.decay_on_v_new = how.decay_on_v_new;
          plan.inverse_scaled = how.inverse_scaled && dtype != Dtype::f32;
          const DeltaBounds bounds = delta_bounds(in, plan, backward_request());
          ++cases;
          if (!bounds.report.usable()) {
            ++unusable;
            for (const std::string& sentence : bounds.report.sentences()) {
              fmt::print("{} {} t={}: {}\n", core::name_of(dtype), r.name, shape.shape.t, sentence);
            }
            continue;
          }
          const Verdict verdict = judge(bounds, EmulatedKernel(how)(in), dtype);
          elements += verdict.elements;
          worst = std::max(worst, verdict.worst_in_scales);
          EXPECT_EQ(verdict.rejected, 0) << fmt::format(
              "{} {} t={} chunk={} seed={}: worst err/s {:.2f}", core::name_of(dtype), r.name,
              shape.shape.t, shape.chunk, seed, verdict.worst_in_scales);
        }
      }
    }
    fmt::print("{}: worst err/s {:.2f} over {} elements, {} cases, {} not usable\n",
               core::name_of(dtype), worst, elements, cases, unusable);
    ::testing::Test::RecordProperty(fmt::format("worst_err_over_s_{}", core::name_of(dtype)),
                                    fmt::format("{:.2f}", worst));
    EXPECT_GT(worst, 1.0) << "bounds this wide cannot find anything";
    EXPECT_EQ(unusable, 0);
  }
}

// --- power ---------------------------------------------------------------------------------------

/// What the reference says that each defect of the emulation does.
std::vector<core::ErrorHypothesis> hypotheses_of(const DeltaInputs& in, std::int64_t chunk,
                                                 const DeltaBounds& bounds) {
  std::vector<DeltaOutput> outputs;
  for (const NamedReference& reference : bounds.outputs) {
    outputs.push_back(*parse_delta_output(reference.name));
  }
  return delta_hypotheses(in, chunk, outputs);
}

/// The largest effect of each on any output, in what the comparison allows.
std::map<std::string, double> visible_terms(const DeltaInputs& in, std::int64_t chunk,
                                            const DeltaBounds& bounds, Dtype dtype) {
  std::map<std::string, double> terms;
  for (const core::ErrorHypothesis& hypothesis : hypotheses_of(in, chunk, bounds)) {
    double& worst = terms[hypothesis.name];
    for (std::size_t o = 0; o < bounds.outputs.size(); ++o) {
      const auto allowed = core::allowed_errors(stored_dtype(bounds.outputs[o].name, dtype),
                                                bounds.outputs[o].values);
      worst = std::max(worst, core::visibility(allowed, hypothesis.effect[o]));
    }
  }
  return terms;
}
constexpr double kVisible = 1.5;  // as diagnosis has it

/// Unit or half-common keys and gates up to -0.01 U: every defect is far above rounding in f16 and
/// bf16, and what is said to be visible is seen.
TEST(DeltaBounds, EveryDefectIsSeenWhereItIsAboveRounding) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    double least = 1e300;
    std::string least_name;
    for (const char* name : {"unit", "unit, -0.01 U", "correlated", "correlated, -0.01 U"}) {
      for (const std::int64_t chunk : {32, 64}) {
        const DeltaInputs in = stored_inputs(
            make_delta_inputs(regime(name),
                              {.shape = {1, 1, 3 * chunk, 64, 64}, .states = true, .seed = 71}),
            dtype);
        const DeltaBounds bounds = delta_bounds(
            in, DeltaNumerics::stored_in(dtype, static_cast<int>(chunk)), backward_request());
        ASSERT_TRUE(bounds.report.usable());
        const std::map<std::string, double> terms = visible_terms(in, chunk, bounds, dtype);
        for (std::size_t d = 1; d < test::kDefectCount; ++d) {
          const auto defect = static_cast<Defect>(d);
          const bool gate_only = defect == Defect::gamma_twice ||
                                 defect == Defect::w_scaled_outside ||
                                 defect == Defect::no_reverse_cumsum;
          // A state in bf16 is bf16's own rounding.
          if ((gate_only && !in.gated()) ||
              (defect == Defect::bf16_state && dtype == Dtype::bf16)) {
            continue;
          }
          const Verdict verdict =
              judge(bounds, EmulatedKernel({.dtype = dtype, .chunk = chunk, .defect = defect})(in),
                    dtype);
          EXPECT_GT(verdict.rejected, 0)
              << fmt::format("{} {} C={} {}: worst err/B {:.2f}", core::name_of(dtype), name, chunk,
                             test::name_of(defect), verdict.worst_ratio);
          if (verdict.worst_ratio < least) {
            least = verdict.worst_ratio;
            least_name = fmt::format("{} in {} C={}", test::name_of(defect), name, chunk);
          }
          const auto term = terms.find(std::string(test::name_of(defect)));
          if (term != terms.end()) {
            EXPECT_GE(term->second, kVisible) << term->first << " in " << name;
          }
        }
      }
    }
    fmt::print("{}: least worst err/B of a defect {:.1f}: {}\n", core::name_of(dtype), least,
               least_name);
    ::testing::Test::RecordProperty(fmt::format("least_err_over_b_{}", core::name_of(dtype)),
                                    fmt::format("{:.2f}", least));
  }
}

/// One chunk with h0 != 0 and dhT != 0 exposes the three famous paths, in fp32 too.
TEST(DeltaBounds, OneChunkWithStatesExposesTheFamousPaths) {
  for (const Dtype dtype : kDtypes) {
    const DeltaInputs in = stored_inputs(
        make_delta_inputs(regime("unit"), {.shape = {1, 1, 64, 64, 64}, .states = true, .seed = 5}),
        dtype);
    const DeltaBounds bounds =
        delta_bounds(in, DeltaNumerics::stored_in(dtype, 64), backward_request());
    const auto wrong = [&](Defect defect) {
      return judge(bounds, EmulatedKernel({.dtype = dtype, .chunk = 64, .defect = defect})(in),
                   dtype)
          .wrong;
    };
    EXPECT_EQ(wrong(Defect::none), std::set<std::string>{});
    EXPECT_EQ(wrong(Defect::drop_a_inv), (std::set<std::string>{"dk", "dbeta"}));
    EXPECT_EQ(wrong(Defect::drop_dh_coefficient), std::set<std::string>{"dh0"});
    EXPECT_EQ(wrong(Defect::drop_dw_cross), (std::set<std::string>{"dk", "dbeta"}));
  }
}

/// The published failure: B 2, S 64, H 2, D 64, C 32, inputs 0.1 normal, A_inv dropped.
TEST(DeltaBounds, ThePublishedFailureIsSeen) {
  const DeltaInputs in = stored_inputs(
      make_delta_inputs(regime("small"), {.shape = {2, 2, 64, 64, 64}, .seed = 2}), Dtype::f16);
  const DeltaBounds bounds =
      delta_bounds(in, DeltaNumerics::stored_in(Dtype::f16, 32), backward_request());
  Emulation how{.dtype = Dtype::f16, .chunk = 32};
  EXPECT_EQ(judge(bounds, EmulatedKernel(how)(in), Dtype::f16).rejected, 0);
  how.defect = Defect::drop_a_inv;
  const Verdict verdict = judge(bounds, EmulatedKernel(how)(in), Dtype::f16);
  EXPECT_EQ(verdict.wrong, (std::set<std::string>{"dk", "dbeta"}));
  EXPECT_GT(verdict.worst_ratio, 5.0);
}

/// Behind gates of -U what crosses a chunk is below rounding: said, not passed over.
TEST(DeltaBounds, StrongGatesHideThreeTermsAndTheBoundsSayWhich) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const DeltaInputs in = stored_inputs(
        make_delta_inputs(regime("unit, -U"), {.shape = {1, 1, 256, 64, 64}, .seed = 9}), dtype);
    const DeltaBounds bounds =
        delta_bounds(in, DeltaNumerics::stored_in(dtype, 64), backward_request());
    const std::map<std::string, double> terms = visible_terms(in, 64, bounds, dtype);
    for (const char* hidden : {"dh_coefficient", "dw_cross", "gamma_twice"}) {
      ASSERT_TRUE(terms.contains(hidden));
      EXPECT_LT(terms.at(hidden), kVisible) << hidden;
    }
    EXPECT_GE(terms.at("A_inv"), kVisible);
  }
}

// --- self-checks ---------------------------------------------------------------------------------

TEST(DeltaBounds, NullOutputsFail) {
  for (const Dtype dtype : kDtypes) {
    const DeltaInputs in = stored_inputs(
        make_delta_inputs(regime("unit"), {.shape = {1, 1, 70, 32, 32}, .states = true}), dtype);
    const DeltaBounds bounds =
        delta_bounds(in, DeltaNumerics::stored_in(dtype, 32), backward_request());
    ASSERT_TRUE(bounds.report.usable());
    for (const BoundFigures& figures : bounds.report.outputs) {
      EXPECT_FALSE(figures.blind()) << figures.name;
      EXPECT_FALSE(figures.wide()) << figures.name;
      EXPECT_LE(figures.forms_difference, 1e-12) << figures.name;
      EXPECT_LT(figures.twin_ratio, kTwinLimit) << figures.name;
      EXPECT_GT(figures.twin_ratio, 0.0) << figures.name;
    }
    EXPECT_TRUE(bounds.report.sentences().empty());
  }
}

TEST(DeltaBounds, AnOverflowIsVacuousAndAcceptsNothing) {
  DeltaInputs in = make_delta_inputs(regime("unit"), {.shape = {1, 1, 40, 32, 32}});
  for (double& x : in.v) x *= 40000.0;
  in = stored_inputs(in, Dtype::f16);
  const DeltaBounds bounds =
      delta_bounds(in, DeltaNumerics::stored_in(Dtype::f16, 32), backward_request());
  EXPECT_FALSE(bounds.report.usable());
  const auto& figures = bounds.report.outputs[0];
  EXPECT_GT(figures.not_finite, 0);
  EXPECT_THAT(bounds.report.sentences(),
              ::testing::Contains(::testing::HasSubstr("bound_vacuous")));
  const core::ReferenceTensor& o = bounds.at("o");
  for (std::size_t i = 0; i < o.expected.size(); ++i) {
    ASSERT_EQ(core::check_element(Dtype::f16, core::encode(Dtype::f16, o.expected[i]),
                                  o.expected[i], o.bound[i], ~0ull)
                  .kind,
              core::ElementClass::no_reference);
  }
}

/// A running state in bf16 whose updates are a third of its ulp. Rounded to nearest it stands
/// still, and equal values that round alike stop it in the runs too: the bound grows to hold that,
/// and says that it can no longer see anything.
TEST(DeltaBounds, AStandingStateIsNotUsable) {
  constexpr std::int64_t kSteps = 200, kWidth = 16;
  DeltaInputs in;
  in.shape = {1, 1, kSteps, kWidth, kWidth};
  in.q.assign(kSteps * kWidth, 0.25);
  in.k = in.q;
  in.v.assign(kSteps * kWidth, 100.0);
  in.beta.assign(kSteps, 1e-4);
  in.h0.assign(kWidth * kWidth, 1.0);
  in = stored_inputs(in, Dtype::bf16);
  DeltaNumerics plan = DeltaNumerics::stored_in(Dtype::bf16, 1);
  plan.set(RoundingPoint::state, Grid::bf16);
  const DeltaBounds bounds = delta_bounds(in, plan, {.threads = 1});
  EXPECT_FALSE(bounds.report.usable());
  EXPECT_TRUE(bounds.report.outputs[1].blind());
  EXPECT_TRUE(bounds.report.outputs[1].wide());
  EXPECT_THAT(bounds.report.sentences(), ::testing::Contains(::testing::HasSubstr("hT")));
}

TEST(BoundReport, IsUsableOnlyWhenEveryCheckHolds) {
  const BoundFigures good{.name = "o", .elements = 4, .relative_scale = 0.01, .twin_ratio = 0.4};
  const auto report = [&](auto change) {
    BoundReport report{.outputs = {good, good}};
    change(report);
    return report;
  };
  EXPECT_TRUE(report([](BoundReport&) {}).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.outputs[1].twin_ratio = 0.86; }).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.outputs[1].twin_ratio = NAN; }).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.outputs[0].not_finite = 1; }).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.forms_difference = 2e-12; }).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.forms_difference = NAN; }).usable());
  EXPECT_TRUE(report([](BoundReport& r) { r.outputs[0].rejects_zero = 0.09; }).usable());
  EXPECT_FALSE(report([](BoundReport& r) {
                 r.outputs[0].rejects_zero = r.outputs[1].rejects_shuffled = 0.09;
               }).usable());
  EXPECT_FALSE(report([](BoundReport& r) { r.outputs.clear(); }).usable());
  const BoundReport unsound = report([](BoundReport& r) { r.outputs[1].twin_ratio = 0.86; });
  EXPECT_THAT(unsound.sentences(),
              ::testing::ElementsAre(::testing::HasSubstr("bound_unsound: rounded to nearest")));
}

TEST(DeltaBounds, RefusesWhatItCannotBound) {
  const DeltaInputs in = make_delta_inputs(regime("unit"), {.shape = {1, 1, 8, 16, 16}});
  DeltaInputs no_gradient = in;
  no_gradient.d_o.clear();
  const DeltaNumerics plan = DeltaNumerics::stored_in(Dtype::f16);
  EXPECT_THROW(delta_bounds(no_gradient, plan, backward_request()), core::UsageError);
  DeltaNumerics odd = plan;
  odd.inverse_block = 8;
  EXPECT_THROW(delta_bounds(in, odd), core::UsageError);
  EXPECT_THROW(DeltaNumerics::stored_in(Dtype::f64), core::UsageError);
  EXPECT_THROW(delta_bounds(in, plan).at("dk"), core::UsageError);
}

// --- determinism and the cache -------------------------------------------------------------------

bool equal(const std::vector<NamedReference>& a, const std::vector<NamedReference>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NamedReference& x, const NamedReference& y) {
                      return x.name == y.name && x.values.expected == y.values.expected &&
                             x.values.bound == y.values.bound;
                    });
}

TEST(DeltaBounds, AreTheSameForAnyNumberOfThreadsAndEveryTime) {
  const DeltaInputs in = stored_inputs(
      make_delta_inputs(regime("unit, -0.1 U"), {.shape = {1, 3, 50, 24, 40}, .states = true}),
      Dtype::f16);
  const DeltaNumerics plan = DeltaNumerics::stored_in(Dtype::f16, 32);
  BoundRequest request{.backward = true, .intermediates = true, .seed = 4, .threads = 1};
  const DeltaBounds one = delta_bounds(in, plan, request);
  ASSERT_EQ(one.intermediates.size(), kIntermediateCount);
  for (const int threads : {1, 2, 7}) {
    request.threads = threads;
    const DeltaBounds again = delta_bounds(in, plan, request);
    EXPECT_TRUE(equal(one.outputs, again.outputs)) << threads;
    EXPECT_TRUE(equal(one.intermediates, again.intermediates)) << threads;
  }
  request.seed = 5;
  EXPECT_FALSE(equal(one.outputs, delta_bounds(in, plan, request).outputs));
}

TEST(DeltaBounds, HeadsAreIndependent) {
  const DeltaInputs both = stored_inputs(
      make_delta_inputs(regime("unit"), {.shape = {1, 2, 40, 16, 16}, .states = true}),
      Dtype::bf16);
  DeltaInputs changed = both;
  for (std::size_t i = 40 * 16; i < changed.v.size(); ++i) changed.v[i] = 0.5;
  const DeltaNumerics plan = DeltaNumerics::stored_in(Dtype::bf16, 32);
  const DeltaBounds a = delta_bounds(both, plan), b = delta_bounds(changed, plan);
  const auto first_head = [](const std::vector<double>& values) {
    return std::vector<double>(values.begin(), values.begin() + 40 * 16);
  };
  EXPECT_EQ(first_head(a.at("o").bound), first_head(b.at("o").bound));
  EXPECT_NE(a.at("o").bound, b.at("o").bound);
}

TEST(DeltaBoundCache, ComputesOnceAndForgetsTheLeastRecentlyUsed) {
  std::vector<DeltaInputs> inputs;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    inputs.push_back(stored_inputs(
        make_delta_inputs(regime("unit"), {.shape = {1, 1, 32, 16, 16}, .seed = seed}),
        Dtype::f16));
  }
  const DeltaNumerics plan = DeltaNumerics::stored_in(Dtype::f16, 32);
  DeltaBoundCache measure(1 << 20);
  measure.get(inputs[0], plan);
  const std::size_t one = measure.statistics().bytes;

  DeltaBoundCache cache(2 * one + one / 2);
  const auto first = cache.get(inputs[0], plan);
  EXPECT_EQ(cache.get(inputs[0], plan), first);
  cache.get(inputs[1], plan);
  cache.get(inputs[0], plan);
  cache.get(inputs[2], plan);  // evicts inputs[1]
  EXPECT_EQ(cache.statistics().evictions, 1u);
  EXPECT_EQ(cache.get(inputs[0], plan), first);
  EXPECT_EQ(cache.statistics().misses, 3u);
  cache.get(inputs[1], plan);
  EXPECT_EQ(cache.statistics().misses, 4u);
  DeltaNumerics other = plan;
  other.set(RoundingPoint::x, Grid::none);
  EXPECT_NE(cache.get(inputs[0], other), first);
  EXPECT_LE(cache.statistics().bytes, 2 * one + one / 2);

  DeltaBoundCache none(16);
  EXPECT_NE(none.get(inputs[0], plan), nullptr);
  EXPECT_EQ(none.statistics().entries, 0u);
}

TEST(DeltaBoundCache, ConcurrentRequestsComputeOnce) {
  const DeltaInputs in =
      stored_inputs(make_delta_inputs(regime("unit"), {.shape = {1, 1, 200, 32, 32}}), Dtype::f16);
  DeltaBoundCache cache(1 << 24);
  std::vector<std::shared_ptr<const DeltaBounds>> results(4);
  {
    std::vector<std::jthread> threads;
    for (std::shared_ptr<const DeltaBounds>& result : results) {
      threads.emplace_back(
          [&] { result = cache.get(in, DeltaNumerics::stored_in(Dtype::f16), {.threads = 1}); });
    }
  }
  EXPECT_EQ(cache.statistics().misses, 1u);
  EXPECT_EQ(cache.statistics().hits, 3u);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_THROW(cache.get(in, DeltaNumerics{.dtype = Dtype::f64}), core::UsageError);
  EXPECT_THROW(cache.get(in, DeltaNumerics{.dtype = Dtype::f64}), core::UsageError);
}

}  // namespace
}  // namespace faultline::reference
