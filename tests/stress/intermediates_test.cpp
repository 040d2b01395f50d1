// SPDX-License-Identifier: Apache-2.0
// verify with intermediates: a program of three launches, z = x + 1, w = 3 z, y = w - x, of which a
// test may let any stage go wrong.
#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/stress/verify.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Values of all stages of one element; a stage that is wrong passes its error on.
struct Stages {
  double z = 0.0, w = 0.0, y = 0.0;
};
using Pipeline = std::function<Stages(std::int64_t row, double x)>;

Stages right_stages(std::int64_t, double x) {
  return {x + 1.0, 3.0 * (x + 1.0), 3.0 * (x + 1.0) - x};
}

enum Buffer : std::uint32_t { kX, kY, kZ, kW };

core::TrialPlan staged_plan(const core::Problem& problem, const std::string& variant,
                            const core::Config& config) {
  core::TrialPlan plan = toy_plan(problem, variant, config);
  core::BufferSpec workspace = plan.buffers[kY];
  workspace.role = core::BufferRole::workspace;
  for (const char* name : {"z", "w"}) {
    workspace.name = name;
    plan.buffers.push_back(workspace);
  }
  plan.intermediates = {kZ, kW};
  plan.hypotheses = {};
  const auto stage = [](double Stages::*which) {
    return [which](const core::Tensor& x) {
      core::ReferenceTensor reference;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        reference.expected.push_back(right_stages(0, x.at(i)).*which);
      }
      reference.bound.assign(reference.expected.size(), 1e-5);
      return reference;
    };
  };
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return std::vector{stage(&Stages::y)(inputs.at(0))};
  };
  plan.intermediate_reference = [=](const std::vector<core::Tensor>& inputs) {
    return std::vector{stage(&Stages::z)(inputs.at(0)), stage(&Stages::w)(inputs.at(0))};
  };
  // One term, "x": y without it is w.
  plan.error_hypotheses = [](const std::vector<core::Tensor>& inputs) {
    core::ErrorHypothesis minus_x{"minus_x", "-x", core::ErrorHypothesis::Kind::term, {{}}};
    for (const double x : inputs.at(0).to_doubles()) minus_x.effect[0].push_back(-x);
    core::ErrorHypothesis one{"one", "1", core::ErrorHypothesis::Kind::term, {{}}};
    one.effect[0].assign(minus_x.effect[0].size(), 3e-9);
    return std::vector{minus_x, one};
  };
  return plan;
}

/// Runs every trial by `pipeline`; compares whatever the plan says is an output.
class StagedBackend : public ToyBackend {
 public:
  explicit StagedBackend(Pipeline pipeline) : ToyBackend(true), pipeline_(std::move(pipeline)) {}

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    core::TrialResult result;
    const std::vector<std::uint32_t> outputs = plan.output_indices();
    for (const std::uint32_t index : outputs) {
      result.outputs.push_back(core::make_output_totals(plan.buffers[index]));
    }
    for (std::uint64_t trial = 0; trial < request.count; ++trial) {
      const std::uint64_t seed = core::trial_seed(request.seed, trial);
      const std::vector<core::Tensor> inputs = stress::make_inputs(plan, request.data, seed);
      const std::vector<core::ReferenceTensor> references = plan.reference(inputs);
      core::Capture capture{trial, seed, core::poison_word(trial), {}};
      std::uint64_t bad = 0;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const core::BufferSpec& spec = plan.buffers[outputs[o]];
        core::Tensor got(spec.dtype, spec.shape);
        for (std::int64_t i = 0; i < got.size(); ++i) {
          const Stages s = pipeline_(i / kCols, inputs[0].at(i));
          got.set(i, outputs[o] == kZ ? s.z : outputs[o] == kW ? s.w : s.y);
        }
        bad += core::compare_output(got, references[o], spec.tiles,
                                    core::PoisonMap(plan.buffers).of(outputs[o], capture.poison),
                                    result.outputs[o]);
        capture.outputs.push_back(std::move(got));
      }
      ++result.trials;
      if (bad == 0) continue;
      ++result.failed;
      ++result.wrong_values;
      result.first_failed_trial = std::min(result.first_failed_trial, trial);
      result.failures.push_back({.trial = trial, .input_seed = seed, .bad_elements = bad});
      result.captures.push_back(std::move(capture));
    }
    return result;
  }

 private:
  Pipeline pipeline_;
};

core::Evidence run(const Pipeline& pipeline, bool intermediates,
                   const std::string& hypothesis = "") {
  kernels::Subject subject = toy_subject();
  subject.plan = staged_plan;
  subject.variants[0].hypothesis = hypothesis;
  StagedBackend backend(pipeline);
  stress::VerifyOptions options;
  options.intermediates = intermediates;
  return stress::run_verify(backend, subject, subject.variants[0], subject.verify_problems(true),
                            options);
}

std::string text_of(const core::Evidence& evidence) {
  std::string text;
  for (const core::Finding& finding : diagnosis::diagnose(evidence).findings) {
    text += finding.headline + "\n";
    for (const std::string& sentence : finding.evidence) text += sentence + "\n";
  }
  return text;
}

TEST(Intermediates, AreListedInTheOrderOfTheAlgorithmThenTheOutputs) {
  const core::Evidence evidence = run(right_stages, true);
  ASSERT_EQ(evidence.intermediates.size(), 9u);  // 3 configs
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 3; ++i) {
    const core::IntermediateEvidence& row = evidence.intermediates[i];
    names.push_back(row.name);
    EXPECT_EQ(row.wrong, 0u);
    EXPECT_EQ(row.compared, 3u * kRows * kCols);
    EXPECT_EQ(row.first_tile, -1);
    EXPECT_EQ(row.tiles, kTiles);
    EXPECT_EQ(row.is_output, i == 2);
  }
  EXPECT_THAT(names, ElementsAre("z", "w", "y"));
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::pass);
}

TEST(Intermediates, AreNotComparedUnlessAskedFor) {
  const auto wrong_z_right_y = [](std::int64_t row, double x) {
    Stages s = right_stages(row, x);
    s.z += 1.0;
    return s;
  };
  EXPECT_TRUE(run(wrong_z_right_y, false).intermediates.empty());
  EXPECT_EQ(diagnosis::diagnose(run(wrong_z_right_y, false)).outcome, core::Outcome::pass);
  const core::Evidence evidence = run(wrong_z_right_y, true);
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::fail);
  EXPECT_THAT(text_of(evidence), HasSubstr("first divergence: z in the first tile to the last"));
}

TEST(Intermediates, TheFirstDivergenceIsNamedWithItsTile) {
  // Tile 1 of w is wrong, and y with it.
  const core::Evidence evidence = run(
      [](std::int64_t row, double x) {
        Stages s = right_stages(row, x);
        if (row / kTileRows == 1) {
          s.w += 0.5;
          s.y += 0.5;
        }
        return s;
      },
      true);
  EXPECT_THAT(text_of(evidence),
              HasSubstr("first divergence: w in tile 1 alone (of 4, a tile being 16 rows)"));
  EXPECT_THAT(text_of(evidence), HasSubstr("; z before it is right"));
  EXPECT_THAT(text_of(evidence), HasSubstr("first in 3 of 3 failing cells"));
}

TEST(Intermediates, TermsAreFittedToTheOutputsBesideThem) {
  // y lacks its last term; the intermediates are right.
  const auto without_x = [](std::int64_t row, double x) {
    Stages s = right_stages(row, x);
    s.y = s.w;
    return s;
  };
  for (const bool intermediates : {false, true}) {
    const core::Evidence evidence = run(without_x, intermediates, "minus_x");
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    ASSERT_FALSE(verdict.findings.empty());
    EXPECT_EQ(verdict.findings[0].finding, core::FindingClass::missing_term) << text_of(evidence);
    EXPECT_THAT(verdict.summary, HasSubstr("lacks the term minus_x (-x)"));
    EXPECT_THAT(text_of(evidence), HasSubstr("it explains 3 of 3 cells"));
    EXPECT_THAT(text_of(evidence), HasSubstr("terms not visible with these inputs: one"));
  }
}

TEST(Intermediates, AMutantWhoseDefectCannotBeSeenIsInconclusive) {
  const core::Evidence evidence = run(right_stages, false, "one");
  EXPECT_EQ(evidence.hypothesis, "one");
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::inconclusive);
  EXPECT_EQ(diagnosis::diagnose(run(right_stages, false, "minus_x")).outcome,
            core::Outcome::inconclusive);
}

/// A verify run of a right kernel whose hypotheses throw `error`.
template <class Error>
core::Evidence run_with_throwing_hypotheses(const Error& error) {
  kernels::Subject subject = toy_subject();
  subject.plan = [=](const core::Problem& p, const std::string& v, const core::Config& c) {
    core::TrialPlan plan = staged_plan(p, v, c);
    plan.error_hypotheses =
        [=](const std::vector<core::Tensor>&) -> std::vector<core::ErrorHypothesis> {
      throw error;
    };
    return plan;
  };
  StagedBackend backend(right_stages);
  return stress::run_verify(backend, subject, subject.variants[0], subject.verify_problems(true),
                            {});
}

TEST(Intermediates, HypothesesForWhichMemoryIsShortCostANoteNotTheRun) {
  const core::Evidence evidence = run_with_throwing_hypotheses(core::EnvironmentError("too large"));
  EXPECT_THAT(evidence.configs.at(0).result.note, HasSubstr("not examined: too large"));
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::pass);
  EXPECT_THAT(run_with_throwing_hypotheses(std::bad_alloc()).configs.at(0).result.note,
              HasSubstr("not examined"));
}

TEST(Intermediates, HypothesesOfTwoInputSetsAreMatchedByName) {
  kernels::Subject subject = toy_subject();
  subject.plan = [](const core::Problem& p, const std::string& v, const core::Config& c) {
    core::TrialPlan plan = staged_plan(p, v, c);
    // Of the second set the other way round, of which one term is left out.
    plan.error_hypotheses = [all = plan.error_hypotheses,
                             calls = std::make_shared<int>(0)](const auto& inputs) {
      std::vector<core::ErrorHypothesis> found = all(inputs);
      found.push_back({"first_set_alone", "1", core::ErrorHypothesis::Kind::term, {{}}});
      found.back().effect[0].assign(found[0].effect[0].size(), 1e-9);
      if ((*calls)++ > 0) {
        found.pop_back();
        std::swap(found[0], found[1]);
      }
      return found;
    };
    return plan;
  };
  StagedBackend backend([](std::int64_t row, double x) {
    Stages s = right_stages(row, x);
    s.y = s.w;  // without x
    return s;
  });
  const core::Evidence evidence =
      stress::run_verify(backend, subject, subject.variants[0], subject.verify_problems(true), {});
  ASSERT_GE(evidence.terms.size(), 3u);
  EXPECT_EQ(evidence.terms[0].name, "minus_x");
  EXPECT_EQ(evidence.terms[2].name, "first_set_alone");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(evidence.terms[i].elements + evidence.terms[i].excluded, 2u * kRows * kCols);
  }
  EXPECT_NEAR(std::fabs(evidence.terms[0].coefficient), 1.0, 1e-3);
  EXPECT_GT(evidence.terms[0].r_squared, 0.99);
}

TEST(Intermediates, ABugOfThePlansHypothesesIsNotANote) {
  EXPECT_THROW(run_with_throwing_hypotheses(core::UsageError("wrong length")), core::UsageError);
}

TEST(Intermediates, APlanWithoutThemIsSkippedWithTheReason) {
  kernels::Subject subject = toy_subject();
  ToyBackend backend(true);
  stress::VerifyOptions options;
  options.intermediates = true;
  const core::Evidence evidence = stress::run_verify(backend, subject, subject.variants[0],
                                                     subject.verify_problems(true), options);
  EXPECT_TRUE(evidence.configs.at(0).result.skipped);
  EXPECT_THAT(evidence.configs.at(0).result.note, HasSubstr("declares no intermediates"));
}

}  // namespace
}  // namespace faultline::test
