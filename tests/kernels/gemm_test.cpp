// SPDX-License-Identifier: Apache-2.0
// gemm: its bound against emulated kernels and planted errors, its device oracle, and the verdicts
// on its mutants. That clean variants are right in every config: simulator_test.cpp.
#include <faultline/core/acceptance.hpp>
#include <faultline/core/errors.hpp>
#include <faultline/core/visibility.hpp>
#include <faultline/diagnosis/diagnose.hpp>
#include <faultline/kernels/subject.hpp>
#include <faultline/reference/gemm.hpp>
#include <faultline/simulator/simulator_backend.hpp>
#include <faultline/stress/race.hpp>
#include <faultline/stress/verify.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

using core::Dtype;
using core::FindingClass;
using ::testing::HasSubstr;
using Values = std::vector<core::Assignment::Value>;

const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    register_builtin_subjects(all);
    return all;
  }();
  return subjects;
}

core::Backend& simulator() {
  static const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  return *backend;
}

ResolvedTrial trial_of(const std::string& name, const Values& problem, const Values& config = {}) {
  return resolve(registry(), name, problem, config);
}

std::vector<core::Tensor> inputs_of(const core::TrialPlan& plan, std::uint64_t seed = 1) {
  std::vector<core::Tensor> inputs;
  for (const std::uint32_t i : plan.input_indices()) {
    inputs.emplace_back(plan.buffers[i].dtype, plan.buffers[i].shape);
    core::generate_input(plan.buffers[i].input, seed, i, inputs.back());
  }
  return inputs;
}

std::string all_text(const core::Verdict& verdict) {
  std::string text = verdict.summary + "\n";
  for (const core::Finding& finding : verdict.findings) {
    text += fmt::format("[{}] {}\n", core::name_of(finding.finding), finding.headline);
    for (const std::string& sentence : finding.evidence) text += "  - " + sentence + "\n";
  }
  return text;
}

core::Verdict race(const ResolvedTrial& trial) {
  return diagnosis::diagnose(stress::run_race(simulator(), trial, {.trials = 2, .run = {}}));
}

core::Evidence verified(const ResolvedTrial& trial, bool intermediates = false) {
  stress::VerifyOptions options;
  options.race = core::RaceMode::off;
  options.intermediates = intermediates;
  return stress::run_verify(simulator(), *trial.subject, *trial.variant, {trial.problem}, options);
}

core::Verdict verify(const ResolvedTrial& trial) { return diagnosis::diagnose(verified(trial)); }

// ---- the bound ----------------------------------------------------------------------------------

TEST(GemmBound, ShiftOfTheSigmoidIsBoundedAndTight) {
  double tightest = 0.0;
  for (double x = -40.0; x <= 40.0; x += 0.37) {
    for (double shift = 1e-9; shift < 100.0; shift *= 7.0) {
      const double bound = reference::logistic_shift(x, shift);
      ASSERT_LE(bound, 0.25 * shift);
      for (const double to : {x - shift, x + shift}) {
        // Differences near 1 from the other end, where they do not cancel.
        const double moved = x > 0 ? reference::logistic(-x) - reference::logistic(-to)
                                   : reference::logistic(to) - reference::logistic(x);
        ASSERT_LE(std::fabs(moved), bound * (1.0 + 1e-6)) << x << " by " << to - x;
        if (shift < 1e-3) tightest = std::max(tightest, std::fabs(moved) / bound);
      }
    }
  }
  EXPECT_GT(tightest, 0.99);
  EXPECT_LT(reference::logistic_shift(-30.0, 1e-3), 1e-15);  // relative where it saturates
  EXPECT_EQ(reference::logistic_shift(1e9, 3.0), 0.0);
}

/// One element as a kernel may compute it: an fp32 chain over k, `tensor` in steps of 16 whose
/// addends are cut two bits below the accumulator's precision; ex2 off by `ex2_error`.
float emulated(const float* a, const float* b, std::int64_t k, std::int64_t stride, float alpha,
               bool tensor, double ex2_error, Dtype logits) {
  float sum = 0.0f;
  for (std::int64_t k0 = 0; k0 < k; k0 += tensor ? 16 : 1) {
    if (!tensor) {
      sum = std::fmaf(a[k0], b[k0 * stride], sum);
      continue;
    }
    double largest = std::fabs(sum);
    for (std::int64_t i = k0; i < std::min(k0 + 16, k); ++i) {
      largest = std::max(largest, std::fabs(double{a[i]} * b[i * stride]));
    }
    if (largest == 0.0) continue;
    const double grid = std::ldexp(1.0, std::ilogb(largest) - 25);
    const auto cut = [](double x, double to) { return std::trunc(x / to) * to; };
    double step = cut(sum, grid);
    for (std::int64_t i = k0; i < std::min(k0 + 16, k); ++i) {
      step += cut(double{a[i]} * b[i * stride], grid);
    }
    if (step == 0.0) {
      sum = 0.0f;
      continue;
    }
    sum = static_cast<float>(cut(step, std::ldexp(1.0, std::ilogb(step) - 23)));
  }
  const float x = static_cast<float>(core::round_to(logits, alpha * sum));
  const float e = static_cast<float>(std::exp2(double{x * -1.44269504f}) * (1.0 + ex2_error));
  return 1.0f / (1.0f + e);
}

/// Inputs, and what the bound must show of itself there: the least that the worst healthy error is
/// of it, and the least shares of elements that may neither miss one of k products nor be off by
/// one ulp of a 16-bit T.
struct Regime {
  const char* name;
  core::InputSpec a, b;
  double alpha;
  double tight, dropped, one_ulp;
};

/// Of a [m, k] x [k, n] product in every regime: no healthy element is refused, errors of known
/// size are. The roundings of logits in T come close to the bound; of long sums they hide a
/// product.
void check_bound(Dtype dtype, Dtype logits, std::int64_t k) {
  constexpr std::int64_t kM = 6, kN = 7;
  const core::InputSpec normal{core::Distribution::normal, 0.0f, 1.0f};
  const core::InputSpec positive{core::Distribution::uniform, 0.0f, 1.0f};
  const double root = 1.0 / std::sqrt(static_cast<double>(k));
  const Regime regimes[] = {
      {"normal", normal, normal, root, 0.5, 0.95, 0.85},
      {"saturated", normal, normal, 1.0, 0.25, 0.7, 0.5},
      {"positive", positive, positive, root, 0.7, 0.9, 0.95},
      {"negative", positive, {core::Distribution::uniform, -1.0f, 0.0f}, root, 0.75, 0.9, 0.9},
      {"constant",
       {core::Distribution::constant, 1.1f, 0.0f},
       {core::Distribution::constant, 0.3f, 0.0f},
       0.01,
       0.25,
       0.95,
       0.95},
      {"tiny", {core::Distribution::normal, 0.0f, 1e-7f}, normal, root, 0.7, 0.0, 0.95},
  };
  const bool tensor = dtype != Dtype::f32;
  for (const Regime& regime : regimes) {
    SCOPED_TRACE(fmt::format("{} {} k={}", regime.name, core::name_of(dtype), k));
    core::Tensor a(dtype, {kM, k}), b(dtype, {k, kN});
    core::generate_input(regime.a, 5, 0, a);
    core::generate_input(regime.b, 5, 1, b);
    const auto floats = [](const core::Tensor& tensor_of) {
      const std::vector<double> values = tensor_of.to_doubles();
      return std::vector<float>(values.begin(), values.end());
    };
    const std::vector<float> af = floats(a), bf = floats(b);
    const auto alpha = static_cast<float>(regime.alpha);
    const reference::GemmBound bound =
        reference::gemm_bound({.chain = static_cast<double>(tensor ? (k + 15) / 16 * 16 : k),
                               .terms = static_cast<double>(k),
                               .tensor_cores = tensor,
                               .alpha = alpha,
                               .logits = logits});
    const core::ReferenceTensor c = reference::gemm(a, b, bound);
    double worst = 0.0, dropped = 0.0, one_ulp = 0.0;
    for (std::int64_t i = 0; i < kM * kN; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double expected = c.expected[at], allowed = c.bound[at];
      const auto judged = [&](double got) {
        std::uint32_t bits = 0;
        const auto value = static_cast<float>(got);
        std::memcpy(&bits, &value, sizeof bits);
        return core::check_element(Dtype::f32, bits, expected, allowed, 0xffffffffu);
      };
      for (const double ex2_error : {-0x1p-22, 0.0, 0x1p-22}) {
        const core::ElementCheck check = judged(emulated(af.data() + i / kN * k, bf.data() + i % kN,
                                                         k, kN, alpha, tensor, ex2_error, logits));
        ASSERT_EQ(check.kind, core::ElementClass::accepted) << i << ": " << check.ratio;
        worst = std::max(worst, check.ratio);
      }
      std::vector<float> without(af.begin() + i / kN * k, af.begin() + (i / kN + 1) * k);
      without[static_cast<std::size_t>(k / 2)] = 0.0f;
      const auto refused = [&](double got) {
        return judged(got).kind != core::ElementClass::accepted ? 1.0 / (kM * kN) : 0.0;
      };
      dropped +=
          refused(emulated(without.data(), bf.data() + i % kN, k, kN, alpha, tensor, 0.0, logits));
      one_ulp += refused(expected + core::ulp_at(dtype, expected));
    }
    const bool sharp = logits == Dtype::f32 || k <= 40;
    if (logits != Dtype::f32) {
      EXPECT_GE(worst, regime.tight) << "the bound is loose";
    }
    if (sharp) {
      EXPECT_GE(dropped, regime.dropped) << "of elements that miss a product are refused";
    }
    if (sharp && tensor) {
      EXPECT_GE(one_ulp, regime.one_ulp) << "of elements that are off by an ulp are refused";
    }
  }
}

TEST(GemmBound, HoldsForKernelsAndNotForPlantedErrors) {
  for (const std::int64_t k : {1, 40, 777}) {
    check_bound(Dtype::f16, Dtype::f32, k);
    check_bound(Dtype::f16, Dtype::f16, k);
    check_bound(Dtype::bf16, Dtype::bf16, k);
    check_bound(Dtype::f32, Dtype::f32, k);
  }
}

TEST(GemmBound, SeesAMissingProductOf512) {
  const ResolvedTrial trial = trial_of("gemm", {{"m", "16"}, {"n", "16"}, {"k", "512"}});
  std::vector<core::Tensor> inputs = inputs_of(trial.plan);
  const core::ReferenceTensor whole = trial.plan.reference(inputs)[0];
  for (std::int64_t row = 0; row < 16; ++row) inputs[0].set(row * 512 + 77, 0.0);
  const core::ReferenceTensor without = trial.plan.reference(inputs)[0];
  std::size_t seen = 0;
  for (std::size_t i = 0; i < whole.bound.size(); ++i) {
    seen += std::fabs(whole.expected[i] - without.expected[i]) > whole.bound[i];
  }
  EXPECT_GT(seen, whole.bound.size() * 9 / 10);
}

TEST(GemmBound, SaysFromWhichLengthOnAMissingTileIsHidden) {
  const auto visibility = [](const char* k) {
    const core::TrialPlan plan = trial_of("gemm", {{"m", "8"}, {"n", "8"}, {"k", k}}).plan;
    const std::vector<core::Tensor> inputs = inputs_of(plan);
    for (const core::ErrorHypothesis& hypothesis : plan.error_hypotheses(inputs)) {
      if (hypothesis.name != "first_k_tile") continue;
      return core::visibility(core::allowed_errors(Dtype::f16, plan.reference(inputs)[0]),
                              hypothesis.effect.at(0));
    }
    return std::nan("");
  };
  EXPECT_GT(visibility("512"), 20.0);
  EXPECT_GT(visibility("5000"), 5.0);
  EXPECT_LT(visibility("65536"), 0.5);  // said as bound_vacuous
}

TEST(GemmBound, AlphaScalesTheProductBeforeTheEpilogue) {
  const Values plain{{"m", "2"}, {"n", "3"}, {"k", "5"}, {"epilogue", "none"}, {"alpha", "-0.5"}};
  const core::TrialPlan linear = trial_of("gemm", plain).plan;
  Values with = plain;
  with[3].second = "sigmoid";
  const core::TrialPlan sigmoid = trial_of("gemm", with).plan;
  const std::vector<core::Tensor> inputs = inputs_of(linear);
  const core::ReferenceTensor x = linear.reference(inputs)[0], y = sigmoid.reference(inputs)[0];
  for (std::size_t i = 0; i < 6; ++i) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < 5; ++k) {
      sum += inputs[0].at(static_cast<std::int64_t>(i / 3) * 5 + k) *
             inputs[1].at(k * 3 + static_cast<std::int64_t>(i % 3));
    }
    EXPECT_NEAR(x.expected[i], -0.5 * sum, 1e-14);
    EXPECT_NEAR(y.expected[i], 1.0 / (1.0 + std::exp(0.5 * sum)), 1e-15);
  }
}

// ---- the device oracle --------------------------------------------------------------------------

TEST(Gemm, DeviceOracleAgreesWithTheReference) {
  const Values problems[] = {{{"dtype", "f16"}, {"k", "40"}},
                             {{"dtype", "bf16"}, {"k", "17"}, {"epilogue", "none"}},
                             {{"dtype", "f32"}, {"k", "33"}, {"alpha", "4"}}};
  for (const Values& values : problems) {
    for (const char* variant : {"gemm@fused", "gemm@unfused"}) {
      Values problem = values;
      problem.insert(problem.end(), {{"m", "66"}, {"n", "5"}});
      const ResolvedTrial trial = trial_of(variant, problem);
      SCOPED_TRACE(trial.problem.line());
      const core::TrialPlan& plan = trial.plan;
      const std::vector<core::Tensor> inputs = inputs_of(plan);
      const core::ReferenceTensor expected = plan.reference(inputs)[0];
      std::vector<core::BufferHandle> handles;
      for (const core::BufferSpec& buffer : plan.buffers) {
        handles.push_back(simulator().allocate(buffer.name, buffer.bytes()));
      }
      simulator().upload(handles[0], inputs[0].bytes);
      simulator().upload(handles[1], inputs[1].bytes);
      const std::size_t bytes = expected.expected.size() * sizeof(double);
      for (const char* name : {"expected", "bound"}) {
        handles.push_back(simulator().allocate(name, bytes));
        simulator().fill(handles.back(), 0xffffffffu);
      }
      const core::ExecutionReport report =
          simulator().execute(plan.device_oracle(1), handles, {}, 1, core::RaceMode::strict);
      ASSERT_EQ(report.status, core::ExecutionStatus::completed) << report.message;
      EXPECT_TRUE(report.races.empty());
      const auto compare = [&](core::BufferHandle handle, const std::vector<double>& wanted) {
        std::vector<double> got(wanted.size());
        simulator().download(handle, std::as_writable_bytes(std::span(got)));
        double largest = 0.0, worst = 0.0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(std::isfinite(got[i])) << i;
          largest = std::max(largest, std::fabs(wanted[i]));
          worst = std::max(worst, std::fabs(got[i] - wanted[i]));
        }
        EXPECT_LE(worst, 1e-12 * largest);
      };
      compare(handles[plan.buffers.size()], expected.expected);
      compare(handles[plan.buffers.size() + 1], expected.bound);
      for (const core::BufferHandle& handle : handles) simulator().release(handle);
    }
  }
}

// ---- verdicts -----------------------------------------------------------------------------------

const Values kShown{{"m", "64"}, {"n", "64"}, {"k", "96"}};

Values shown_in(const char* dtype) {
  Values values = kShown;
  values.push_back({"dtype", dtype});
  return values;
}

TEST(Gemm, MissingBarrierIsARaceWithTheCopiesInEveryDtype) {
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    SCOPED_TRACE(dtype);
    const core::Verdict mutant = race(trial_of("gemm@missing_barrier", shown_in(dtype)));
    EXPECT_EQ(mutant.outcome, core::Outcome::fail);
    ASSERT_FALSE(mutant.findings.empty());
    EXPECT_EQ(mutant.findings.front().finding, FindingClass::race_async) << all_text(mutant);
    const core::Verdict twin = race(trial_of("gemm@fused", shown_in(dtype)));
    EXPECT_EQ(twin.outcome, core::Outcome::pass) << all_text(twin);
  }
  // Rows that are not 16-byte aligned are copied by the threads themselves.
  const Values unaligned{{"m", "64"}, {"n", "63"}, {"k", "95"}};
  const core::Verdict mutant = race(trial_of("gemm@missing_barrier", unaligned));
  ASSERT_FALSE(mutant.findings.empty());
  EXPECT_EQ(mutant.findings.front().finding, FindingClass::race_shared) << all_text(mutant);
  const core::Verdict twin = race(trial_of("gemm@fused", unaligned));
  EXPECT_EQ(twin.outcome, core::Outcome::pass) << all_text(twin);
}

TEST(Gemm, EpilogueBeforeAccumulateIsAWrongFormInEveryDtype) {
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    SCOPED_TRACE(dtype);
    const core::Verdict mutant =
        verify(trial_of("gemm@epilogue_before_accumulate", shown_in(dtype)));
    EXPECT_EQ(mutant.outcome, core::Outcome::fail);
    ASSERT_FALSE(mutant.findings.empty());
    EXPECT_EQ(mutant.findings.front().finding, FindingClass::wrong_term) << all_text(mutant);
    EXPECT_THAT(mutant.findings.front().headline, HasSubstr("epilogue_per_tile"));
  }
}

TEST(Gemm, EpilogueBeforeAccumulateIsNoPassWhereItChangesNothing) {
  for (const Values& problem :
       {Values{{"m", "16"}, {"n", "16"}, {"k", "16"}, {"dtype", "f32"}},
        Values{{"m", "16"}, {"n", "16"}, {"k", "96"}, {"epilogue", "none"}}}) {
    const core::Verdict verdict = verify(trial_of("gemm@epilogue_before_accumulate", problem));
    EXPECT_EQ(verdict.outcome, core::Outcome::inconclusive) << all_text(verdict);
    ASSERT_FALSE(verdict.findings.empty());
    EXPECT_EQ(verdict.findings.front().finding, FindingClass::bound_vacuous);
  }
}

TEST(Gemm, UnfusedComparesItsLogitsToo) {
  for (const char* dtype : {"f16", "f32"}) {
    const core::Evidence evidence = verified(
        trial_of("gemm@unfused", {{"m", "65"}, {"n", "40"}, {"k", "70"}, {"dtype", dtype}}),
        /*intermediates=*/true);
    ASSERT_FALSE(evidence.configs.empty());
    for (const core::ConfigEvidence& cell : evidence.configs) {
      std::map<std::string, std::uint64_t> compared;
      for (const core::OutputTotals& output : cell.result.outputs) {
        compared[output.name] = output.compared_elements;
      }
      EXPECT_GE(compared["C"], 65u * 40u) << cell.config;
      EXPECT_GE(compared["logits"], 65u * 40u) << cell.config;
    }
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.outcome, core::Outcome::pass) << all_text(verdict);
  }
}

TEST(Gemm, AMutantWithTwoSumsIsNotBoundToTheRegistersOfOne) {
  for (const auto& [variant, blocks] :
       {std::pair("fused", 2), std::pair("epilogue_before_accumulate", 1)}) {
    const ResolvedTrial trial =
        trial_of(fmt::format("gemm@{}", variant), {{"m", "128"}, {"n", "128"}},
                 {{"tile_m", "128"}, {"tile_n", "128"}, {"stages", "4"}});
    const core::Program program = trial.plan.program(1);
    const auto& launch = std::get<core::LaunchOperation>(program.operations.at(0).what);
    const std::string& ptx = launch.module->ptx;
    const std::size_t entry = ptx.find(".entry " + launch.entry);
    ASSERT_NE(entry, std::string::npos) << launch.entry;
    const std::string of_entry = ptx.substr(entry, ptx.find('{', entry) - entry);
    EXPECT_THAT(of_entry, HasSubstr(fmt::format(".minnctapersm {}", blocks)));
  }
}

// ---- what is offered ----------------------------------------------------------------------------

TEST(Gemm, EveryChoiceIsVerified) {
  const kernels::Subject& subject = *trial_of("gemm", {}).subject;
  std::map<std::string, std::set<std::string>> values;
  for (const core::Problem& problem : subject.verify_problems(true)) {
    for (const char* name : {"epilogue", "inputs", "alpha", "dtype"}) {
      values[name].insert(problem.values.text(name));
    }
  }
  EXPECT_EQ(values["epilogue"].size(), 2u);
  EXPECT_EQ(values["inputs"].size(), 2u);
  EXPECT_GE(values["alpha"].size(), 2u);
  EXPECT_EQ(values["dtype"].size(), 3u);
}

TEST(Gemm, LargeProblemsGetLargeTilesFirst) {
  const auto first = [](const char* size, const char* dtype) {
    return trial_of("gemm", {{"m", size}, {"n", size}, {"k", "64"}, {"dtype", dtype}})
        .config.line();
  };
  EXPECT_EQ(first("128", "f16"), "tile_m=64 tile_n=64 tile_k=32 stages=3");
  EXPECT_EQ(first("4096", "bf16"), "tile_m=128 tile_n=256 tile_k=32 stages=4");
  EXPECT_EQ(first("4096", "f32"), "tile_m=128 tile_n=128 tile_k=16 stages=3");
}

TEST(Gemm, RefusesWhatIsNotBuilt) {
  try {
    trial_of("gemm", {{"dtype", "f32"}}, {{"tile_n", "256"}});
    FAIL() << "was accepted";
  } catch (const core::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is not built for config"));
    EXPECT_THAT(error.what(), HasSubstr("tile_m=128 tile_n=128 tile_k=16 stages=3"));
  }
  EXPECT_THROW(trial_of("gemm", {}).plan.program(2), core::UsageError);
}

}  // namespace
}  // namespace faultline::kernels
