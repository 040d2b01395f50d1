// SPDX-License-Identifier: Apache-2.0
// From the real reference to the finding: a kernel that computes the chunkwise form without one
// path, or in one wrong form, and otherwise rounds as its bounds allow, must be told by that name
// in every regime in which the defect can be seen.
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/comparison.hpp"
#include "faultline/core/visibility.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/growth.hpp"
#include "faultline/reference/deltanet_bounds.hpp"
#include "faultline/reference/deltanet_state.hpp"
#include "faultline/stress/term_regression.hpp"

#include "../reference/deltanet_inputs.hpp"

namespace faultline::test {
namespace {

using core::Dtype;
using core::FindingClass;
using reference::DeltaInputs;
using reference::DeltaOutput;
using reference::DeltaOutputs;
using reference::test::kRegimes;
using testing::HasSubstr;

constexpr std::int64_t kChunk = 32;

/// Where an output's dtype is that of the problem; the others are f32.
bool is_wide(DeltaOutput output) {
  return output == DeltaOutput::hT || output == DeltaOutput::dh0 || output == DeltaOutput::dbeta ||
         output == DeltaOutput::dg;
}

std::vector<DeltaOutput> outputs_of(bool gated) {
  std::vector<DeltaOutput> outputs{DeltaOutput::dq, DeltaOutput::dk, DeltaOutput::dv,
                                   DeltaOutput::dbeta};
  if (gated) outputs.push_back(DeltaOutput::dg);
  outputs.push_back(DeltaOutput::dh0);
  return outputs;
}

/// One problem: references, bounds and hypotheses.
struct Setting {
  DeltaInputs inputs;
  Dtype dtype = Dtype::f16;
  std::vector<DeltaOutput> outputs;
  std::vector<core::ReferenceTensor> references;
  std::vector<core::ErrorHypothesis> hypotheses;

  /// A forward: o and hT, with the low-precision states among the hypotheses.
  struct Forward {};
  Setting(Forward, const reference::test::Regime& regime, const reference::test::Problem& problem,
          Dtype stored)
      : inputs(make_delta_inputs(regime, problem)),
        dtype(stored),
        outputs{DeltaOutput::o, DeltaOutput::hT} {
    const reference::DeltaBounds bounds =
        delta_bounds(inputs, reference::DeltaNumerics::stored_in(dtype, kChunk));
    for (const DeltaOutput output : outputs) references.push_back(bounds.at(name_of(output)));
    hypotheses = delta_hypotheses(inputs, kChunk, outputs);
    hypotheses.push_back(narrow_state_hypothesis(inputs, kChunk, outputs, Dtype::bf16));
  }

  Setting(const reference::test::Regime& regime, const reference::test::Problem& problem,
          Dtype stored)
      : inputs(make_delta_inputs(regime, problem)),
        dtype(stored),
        outputs(outputs_of(inputs.gated())) {
    const reference::DeltaBounds bounds = delta_bounds(
        inputs, reference::DeltaNumerics::stored_in(dtype, kChunk), {.backward = true});
    for (const DeltaOutput output : outputs) {
      references.push_back(bounds.at(name_of(output)));
    }
    hypotheses = delta_hypotheses(inputs, kChunk, outputs);
  }

  double visibility(const std::string& name) const {
    double worst = 0.0;
    for (const core::ErrorHypothesis& hypothesis : hypotheses) {
      if (hypothesis.name != name) continue;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const Dtype stored = is_wide(outputs[o]) ? Dtype::f32 : dtype;
        worst = std::max(worst, core::visibility(core::allowed_errors(stored, references[o]),
                                                 hypothesis.effect[o]));
      }
    }
    return worst;
  }

  /// Evidence of a kernel that computes `values` and rounds.
  core::Evidence evidence(const DeltaOutputs& values, const std::string& hypothesis = "") const {
    core::Evidence evidence;
    evidence.subject = "deltanet_bwd";
    evidence.variant = "mutant";
    evidence.mode = "verify";
    evidence.hypothesis = hypothesis;
    core::ConfigEvidence cell;
    cell.problem = fmt::format("t={}", inputs.shape.t);
    cell.config = fmt::format("chunk={}", kChunk);
    cell.reduction = inputs.shape.t;
    cell.tile_k = kChunk;
    cell.result.trials = 1;
    std::vector<core::Tensor> got;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Dtype stored = is_wide(outputs[o]) ? Dtype::f32 : dtype;
      const core::ReferenceTensor& reference = references[o];
      const auto size = static_cast<std::int64_t>(reference.expected.size());
      core::Tensor tensor(stored, {size});
      for (std::int64_t i = 0; i < size; ++i) {
        const auto n = static_cast<std::size_t>(i);
        const double noise = core::unit_normal(core::element_bits(
            core::tensor_key(99, static_cast<std::uint32_t>(o)), static_cast<std::uint64_t>(i)));
        tensor.set(i, values[outputs[o]][n] + noise * reference.bound[n] / reference::kBoundLambda);
      }
      got.push_back(std::move(tensor));
    }
    stress::ExaminedTrial trial;
    std::uint64_t wrong = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      core::BufferSpec spec;
      spec.name = name_of(outputs[o]);
      spec.dtype = got[o].dtype;
      const std::int64_t size = got[o].size();
      const bool states = outputs[o] == DeltaOutput::dh0 || outputs[o] == DeltaOutput::hT;
      const std::int64_t rows = inputs.shape.heads() * (states ? inputs.shape.dk : inputs.shape.t);
      spec.tiles = {
          .rows = rows, .cols = size / rows, .tile_rows = kChunk, .tile_cols = size / rows};
      core::OutputTotals totals = make_output_totals(spec);
      wrong += compare_output(got[o], references[o], spec.tiles, core::Poison{}, totals);
      cell.result.outputs.push_back(totals);
      trial.outputs.push_back({.name = spec.name,
                               .reference = &references[o],
                               .tiles = spec.tiles,
                               .got = &got[o],
                               .dtype = spec.dtype});
    }
    trial.hypotheses = hypotheses;
    cell.failed = wrong > 0;
    cell.result.failed = cell.result.wrong_values = cell.failed ? 1 : 0;
    stress::TermRegression regression = stress::regress_terms({trial});
    for (core::TermEvidence& term : regression.terms) {
      term.problem = cell.problem;
      term.config = cell.config;
    }
    for (core::TermCombinationEvidence& combination : regression.combinations) {
      combination.problem = cell.problem;
      combination.config = cell.config;
    }
    evidence.terms = std::move(regression.terms);
    evidence.term_combinations = std::move(regression.combinations);
    evidence.configs = {std::move(cell)};
    return evidence;
  }
};

std::string text_of(const core::Verdict& verdict) {
  std::string text = verdict.summary + "\n";
  for (const core::Finding& finding : verdict.findings) {
    text += finding.headline + "\n";
    for (const std::string& sentence : finding.evidence) text += "  " + sentence + "\n";
    text += "  runner-up: " + finding.runner_up_reason + "\n";
  }
  return text;
}

struct Defect {
  std::string name;
  reference::ChunkwiseOptions options;
  FindingClass finding;
};

std::vector<Defect> defects(bool gated) {
  std::vector<Defect> all;
  for (const reference::DeltaPath& path : reference::delta_paths()) {
    all.push_back({std::string(path.name),
                   {.chunk = kChunk, .dropped = path.terms},
                   FindingClass::missing_term});
  }
  std::vector<reference::DeltaWrongForm> forms{reference::DeltaWrongForm::strict_tril};
  if (gated) {
    forms.push_back(reference::DeltaWrongForm::no_reverse_cumsum);
    forms.push_back(reference::DeltaWrongForm::gamma_twice);
    forms.push_back(reference::DeltaWrongForm::w_scaled_outside);
  }
  for (const reference::DeltaWrongForm form : forms) {
    all.push_back(
        {std::string(name_of(form)), {.chunk = kChunk, .wrong = form}, FindingClass::wrong_term});
  }
  return all;
}

/// What a verdict on a defective kernel may be, by how far the defect can be seen.
void expect_named(const Setting& setting, const Defect& defect, const std::string& where) {
  const DeltaOutputs values = chunkwise_backward(setting.inputs, defect.options).outputs;
  const core::Verdict verdict = diagnosis::diagnose(setting.evidence(values, defect.name));
  const double visible = setting.visibility(defect.name);
  if (visible < 1.0) {
    EXPECT_NE(verdict.outcome, core::Outcome::pass) << where << text_of(verdict);
    return;
  }
  // R^2 >= 0.9 asks for an effect that stands out of rounding in many elements, not in one.
  constexpr double kPlain = 6.0;
  if (visible < kPlain) return;
  ASSERT_FALSE(verdict.findings.empty()) << where << verdict.summary;
  const core::Finding& first = verdict.findings.front();
  EXPECT_EQ(first.finding, defect.finding) << where << text_of(verdict);
  // A part of a combination that cannot be seen cannot be named.
  if (defect.name.find('+') == std::string::npos) {
    EXPECT_THAT(first.headline, HasSubstr(" " + defect.name)) << where << text_of(verdict);
  }
}

class Regimes : public testing::TestWithParam<std::tuple<std::size_t, Dtype>> {};

TEST_P(Regimes, EveryDefectThatCanBeSeenIsNamed) {
  const auto [index, dtype] = GetParam();
  const reference::test::Regime& regime = kRegimes[index];
  for (const std::int64_t chunks : {1, 3}) {
    const reference::test::Problem problem{
        .shape = {.h = 2, .t = kChunk * chunks, .dk = 32, .dv = 32}, .states = true, .seed = 3};
    const Setting setting(regime, problem, dtype);
    for (const Defect& defect : defects(setting.inputs.gated())) {
      expect_named(setting, defect,
                   fmt::format("{}, {} chunks, {}, {}, effect {:.3g} bounds\n", regime.name, chunks,
                               core::name_of(dtype), defect.name, setting.visibility(defect.name)));
    }
    const DeltaOutputs right = chunkwise_backward(setting.inputs, {.chunk = kChunk}).outputs;
    const core::Verdict clean = diagnosis::diagnose(setting.evidence(right));
    EXPECT_EQ(clean.outcome, core::Outcome::pass) << regime.name << text_of(clean);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Regimes,
                         testing::Combine(testing::Range<std::size_t>(0, std::size(kRegimes)),
                                          testing::Values(Dtype::f16, Dtype::bf16)),
                         [](const auto& info) {
                           std::string name;
                           for (const char c :
                                std::string(kRegimes[std::get<0>(info.param)].name)) {
                             if (std::isalnum(static_cast<unsigned char>(c))) name += c;
                           }
                           return fmt::format("{}_{}_{}", std::get<0>(info.param), name,
                                              core::name_of(std::get<1>(info.param)));
                         });

// One chunk entered by a state and left by a gradient shows each of the three famous paths, in the
// outputs that its data flow reaches and in no other.
TEST(FamousPaths, OneChunkWithStatesIsEnough) {
  const Setting setting(kRegimes[2],
                        {.shape = {.h = 2, .t = kChunk, .dk = 32, .dv = 32}, .states = true},
                        Dtype::f16);
  const std::map<std::string, std::string> footprints{
      {"A_inv", "only dk and dbeta are wrong (dq, dv and dh0 right)"},
      {"dh_coefficient", "only dh0 is wrong"},
      {"dw_cross", "only dk and dbeta are wrong"}};
  for (const auto& [name, footprint] : footprints) {
    const DeltaOutputs values =
        chunkwise_backward(setting.inputs,
                           {.chunk = kChunk, .dropped = reference::parse_delta_terms(name)})
            .outputs;
    const std::string text = text_of(diagnosis::diagnose(setting.evidence(values, name)));
    EXPECT_THAT(text, HasSubstr("lacks the term " + name));
    EXPECT_THAT(text, HasSubstr(footprint));
    EXPECT_THAT(text, HasSubstr("as the data flow of " + name + " predicts"));
  }
}

// The published failure: B = 2, H = 2, T = 64, D = 64, C = 32, 0.1 normal inputs, no states.
TEST(PublishedFailure, IsNamedWithItsFootprint) {
  const Setting setting(kRegimes[1], {.shape = {.b = 2, .h = 2, .t = 64, .dk = 64, .dv = 64}},
                        Dtype::f16);
  const DeltaOutputs values =
      chunkwise_backward(setting.inputs,
                         {.chunk = kChunk, .dropped = reference::parse_delta_terms("A_inv")})
          .outputs;
  const core::Evidence evidence = setting.evidence(values, "A_inv");
  const std::string text = text_of(diagnosis::diagnose(evidence));
  EXPECT_THAT(text, HasSubstr("lacks the term A_inv (dk_A, dbeta_A"));
  EXPECT_THAT(text, HasSubstr("only dk and dbeta are wrong"));
  for (const core::TermEvidence& term : evidence.terms) {
    if (term.name != "A_inv") continue;
    EXPECT_GE(term.r_squared, 0.99);
  }
}

// A long scan whose state is rounded to bf16 after every chunk, by an fp32 recipe of its own: the
// emulation in double need not hit every bit of it.
TEST(LowPrecision, ABf16StateIsAccumulation) {
  const Setting setting(Setting::Forward{}, kRegimes[2],
                        {.shape = {.h = 2, .t = 16 * kChunk, .dk = 32, .dv = 32}, .states = true},
                        Dtype::f16);
  DeltaInputs perturbed = setting.inputs;  // the kernel's operands differ in the last bits
  for (double& x : perturbed.k) x = core::round_to(Dtype::f16, x);
  const DeltaOutputs values = narrow_state_forward(perturbed, kChunk, Dtype::bf16);
  const core::Verdict verdict = diagnosis::diagnose(setting.evidence(values, "bf16_state"));
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::accumulation) << text_of(verdict);
  EXPECT_THAT(verdict.summary, HasSubstr("bf16_state"));
  // The same kernel with an exact state passes.
  const core::Verdict clean = diagnosis::diagnose(
      setting.evidence(chunkwise_forward(setting.inputs, {.chunk = kChunk}).outputs));
  EXPECT_EQ(clean.outcome, core::Outcome::pass) << text_of(clean);
}

TEST(LowPrecision, AWideStateIsExactAndATruncatedOneIsRounded) {
  const DeltaInputs inputs = make_delta_inputs(
      kRegimes[3],
      {.shape = {.b = 2, .h = 2, .t = 3 * kChunk + 5, .dk = 16, .dv = 8}, .states = true});
  const DeltaOutputs right = chunkwise_forward(inputs, {.chunk = kChunk}).outputs;
  const DeltaOutputs wide = narrow_state_forward(inputs, kChunk, Dtype::f64);
  EXPECT_LE(reference::test::relative_difference(wide.o, right.o), 1e-13);
  EXPECT_LE(reference::test::relative_difference(wide.hT, right.hT), 1e-13);
  const DeltaOutputs narrow = narrow_state_forward(inputs, kChunk, Dtype::bf16);
  for (const double x : narrow.hT) EXPECT_EQ(x, core::round_to(Dtype::bf16, x));
  constexpr DeltaOutput kGradients[] = {DeltaOutput::dq};
  for (const auto& effect :
       narrow_state_hypothesis(inputs, kChunk, kGradients, Dtype::bf16).effect) {
    EXPECT_TRUE(effect.empty());
  }
}

// Relative L2 of dk at 1, 3 and 4 chunks of 32, D = 64, no states, 0.1 normal inputs.
TEST(GrowthTable, ComesOutOfTheTotalsOfASweep) {
  const std::map<std::string, std::map<std::int64_t, double>> published{
      {"A_inv", {{1, .12}, {3, .13}, {4, .13}}},
      {"dh_coefficient", {{1, 0.0}, {3, .07}, {4, .12}}},
      {"dw_cross", {{1, 0.0}, {3, .06}, {4, .09}}}};
  for (const auto& [name, row] : published) {
    std::vector<core::ConfigEvidence> cells;
    for (const auto& [chunks, value] : row) {
      const DeltaInputs inputs = make_delta_inputs(
          kRegimes[1], {.shape = {.h = 8, .t = kChunk * chunks, .dk = 64, .dv = 64}, .seed = 2});
      const DeltaOutputs right = recurrent_backward(inputs);
      const DeltaOutputs dropped =
          chunkwise_backward(inputs,
                             {.chunk = kChunk, .dropped = reference::parse_delta_terms(name)})
              .outputs;
      core::BufferSpec spec;
      spec.name = "dk";
      spec.dtype = Dtype::f16;
      const std::int64_t rows = inputs.shape.heads() * inputs.shape.t;
      spec.tiles = {.rows = rows, .cols = 64, .tile_rows = kChunk, .tile_cols = 64};
      core::Tensor got(Dtype::f16, {rows, 64});
      for (std::int64_t i = 0; i < got.size(); ++i) {
        got.set(i, dropped.dk[static_cast<std::size_t>(i)]);
      }
      core::ConfigEvidence cell;
      cell.problem = fmt::format("h=8 t={} d=64", inputs.shape.t);
      cell.config = "chunk=32";
      cell.reduction = inputs.shape.t;
      cell.tile_k = kChunk;
      core::OutputTotals totals = make_output_totals(spec);
      compare_output(got, {right.dk, std::vector<double>(right.dk.size(), 1e-4)}, spec.tiles,
                     core::Poison{}, totals);
      cell.result.outputs = {totals};
      cells.push_back(std::move(cell));
    }
    // h = 8 is no length: t alone equals the length in every cell.
    const std::vector<core::GrowthEvidence> growth = diagnosis::growth_of(cells);
    ASSERT_EQ(growth.size(), row.size()) << name;
    for (const core::GrowthEvidence& point : growth) {
      const double want = row.at(point.chunks);
      EXPECT_NEAR(point.relative_l2, want, 0.25 * want + 0.001) << name << " " << point.chunks;
    }
  }
}

}  // namespace
}  // namespace faultline::test
