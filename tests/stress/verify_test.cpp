// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/token.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/stress/verify.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using core::Outcome;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

core::Problem problem(std::int64_t n) {
  core::Problem p{"toy", {}};
  p.values.set("n", n);
  return p;
}

/// The toy kernel does not know its config; a wrapped plan hands it over through the seed-free path
/// that a real kernel has: its own plan.
struct VerifyTest : testing::Test {
  kernels::Subject subject = toy_subject();
  std::string running;  ///< "n=64 [stages=2]"

  VerifyTest() {
    subject.plan = [this](const core::Problem& p, const std::string& variant,
                          const core::Config& config) {
      running = p.values.line() + " [" + config.line() + "]";
      return toy_plan(p, variant, config);
    };
  }

  core::Evidence run(const ToyKernel& kernel, const std::vector<core::Problem>& problems,
                     const stress::VerifyOptions& options = {}) {
    ToyBackend backend(true, kernel);
    return stress::run_verify(backend, subject, subject.variants[0], problems, options);
  }
};

TEST_F(VerifyTest, ARightKernelPassesEveryCell) {
  const core::Evidence evidence = run(right, {problem(64), problem(60)});
  EXPECT_EQ(evidence.configs.size(), 6u);
  EXPECT_THAT(evidence.null_outputs_accepted, IsEmpty());
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("2 problems x 3 configs"));
}

TEST_F(VerifyTest, TheSameErrorInEveryConfigIsAnOffset) {
  const core::Evidence evidence = run(
      [](const auto&, std::uint64_t, const core::Tensor& x, core::Tensor& y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y.set(i, 3 * x.at(i));
      },
      {problem(64)});
  ASSERT_EQ(evidence.configs.size(), 3u);
  EXPECT_GE(evidence.configs[0].error_sample.size(), 64u);
  EXPECT_EQ(evidence.configs[0].error_sample, evidence.configs[2].error_sample);
  EXPECT_EQ(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::systematic_offset);
  EXPECT_EQ(core::decode_token(evidence.configs[1].token).config, "stages=2");
}

TEST_F(VerifyTest, OneWrongConfigIsConfig) {
  const core::Evidence evidence = run(
      [this](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
             core::Tensor& y) {
        right(request, t, x, y);
        if (running.find("stages=2") != std::string::npos) y.set(5, 1e3);
      },
      {problem(64), problem(60)});
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::config) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("stages=2"));
}

TEST_F(VerifyTest, WrongAtRaggedSizesOnlyIsTail) {
  const core::Evidence evidence = run(
      [this](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
             core::Tensor& y) {
        right(request, t, x, y);
        if (running.find("n=60") != std::string::npos) y.set(5, 1e3);
      },
      {problem(64), problem(60)});
  EXPECT_EQ(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::tail);
}

TEST_F(VerifyTest, ATileThatIsNeverWrittenIsAMissedWrite) {
  const core::Evidence evidence = run(
      [](const auto&, std::uint64_t, const core::Tensor& x, core::Tensor& y) {
        for (std::int64_t i = 0; i < x.size() - kTileRows * kCols; ++i) y.set(i, 2 * x.at(i));
      },
      {problem(64)});
  EXPECT_EQ(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::missed_write);
}

TEST_F(VerifyTest, ABoundThatAcceptsZerosIsVacuous) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    plan.reference = [inner = plan.reference](const std::vector<core::Tensor>& inputs) {
      std::vector<core::ReferenceTensor> reference = inner(inputs);
      for (double& bound : reference[0].bound) bound = 100.0;
      return reference;
    };
    return plan;
  };
  const core::Evidence evidence = run(right, {problem(64)});
  EXPECT_THAT(evidence.null_outputs_accepted, Contains("zeros (n=64)"));
  EXPECT_THAT(evidence.null_outputs_accepted, Contains("the reference shuffled (n=64)"));
  ASSERT_FALSE(evidence.reference_notes.empty());
  EXPECT_EQ(evidence.reference_notes.front().text, "an all-zero y would be accepted");
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::inconclusive);
}

TEST_F(VerifyTest, ABoundIsWideNextToTheSpreadOfTheValuesNotNextToTheirOffset) {
  const auto note_of = [&](double scale, double offset) {
    subject.plan = [=](const core::Problem& p, const std::string& variant,
                       const core::Config& config) {
      core::TrialPlan plan = toy_plan(p, variant, config);
      plan.reference = [=, inner = plan.reference](const std::vector<core::Tensor>& inputs) {
        std::vector<core::ReferenceTensor> reference = inner(inputs);
        for (double& value : reference[0].expected) value = scale * value + offset;
        for (double& bound : reference[0].bound) bound = 0.9;
        return reference;
      };
      return plan;
    };
    const core::Evidence evidence = run(right, {problem(64)});
    return evidence.reference_notes.empty() ? "" : evidence.reference_notes.front().text;
  };
  EXPECT_EQ(note_of(2.0, 0.0), "");
  EXPECT_THAT(note_of(1.0, 10.0), HasSubstr("% of the spread of its values"));
  EXPECT_EQ(note_of(0.0, 10.0), "");  // equal values have their size alone
  EXPECT_EQ(note_of(0.0, 2.0), "the bound of y is 45 % of its size");
}

TEST_F(VerifyTest, AnOutputThatIsZeroIsNamedAsNotTested) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    if (p.values.integer("n") == 64) return plan;
    plan.reference = [inner = plan.reference](const std::vector<core::Tensor>& inputs) {
      std::vector<core::ReferenceTensor> reference = inner(inputs);
      for (double& value : reference[0].expected) value = 0.0;
      for (double& bound : reference[0].bound) bound = 100.0;
      return reference;
    };
    return plan;
  };
  const core::Evidence evidence = run(right, {problem(64), problem(60)});
  ASSERT_FALSE(evidence.reference_notes.empty());
  EXPECT_EQ(evidence.reference_notes.front().problem, "n=60");
  EXPECT_EQ(evidence.reference_notes.front().output, "y");
  EXPECT_EQ(evidence.reference_notes.front().text,
            "an all-zero y would be accepted: y is zero with these inputs");
  // It is the only output: nothing is left that could tell right from wrong.
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::inconclusive);
}

TEST_F(VerifyTest, AReferenceThatSpeaksAgainstItselfLeavesTheVerdictOpen) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    plan.reference_notes = [](const std::vector<core::Tensor>&) {
      return std::vector<core::ReferenceNote>{
          {"y", core::ReferenceNote::Kind::unusable, "the two forms of y differ"}};
    };
    return plan;
  };
  const core::Verdict verdict = diagnosis::diagnose(run(right, {problem(64)}));
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_THAT(verdict.findings.at(0).evidence, Contains(HasSubstr("the two forms of y differ (n")));
}

TEST_F(VerifyTest, ARefusedConfigIsSkippedWithTheReason) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    if (config.integer("stages") == 3) throw core::UsageError("stages=3 does not fit");
    return toy_plan(p, variant, config);
  };
  const core::Evidence evidence = run(right, {problem(64)});
  EXPECT_TRUE(evidence.configs[2].result.skipped);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(verdict.summary, HasSubstr("1 skipped (stages=3 does not fit)"));
}

TEST_F(VerifyTest, ASweepOfWhichNothingRanIsSkippedWithTheReason) {
  subject.plan = [](const core::Problem&, const std::string&,
                    const core::Config& config) -> core::TrialPlan {
    throw core::UsageError("stages=" + config.text("stages") + " does not fit");
  };
  const core::Verdict verdict = diagnosis::diagnose(run(right, {problem(64)}));
  EXPECT_EQ(verdict.outcome, Outcome::skipped);
  EXPECT_EQ(core::exit_code(verdict), core::ExitCode::skipped);
  EXPECT_THAT(verdict.summary, HasSubstr("stages=2 does not fit"));
}

TEST_F(VerifyTest, EveryFinishedCellReachesTheCheckpoint) {
  std::vector<core::Evidence> kept;
  stress::VerifyOptions options;
  options.run.checkpoint = [&](const core::Evidence& evidence) { kept.push_back(evidence); };
  run(right, {problem(64)}, options);
  ASSERT_EQ(kept.size(), 3u);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].configs.size(), i + 1);
    EXPECT_TRUE(kept[i].interrupted);
  }
}

TEST_F(VerifyTest, FewerTrialsThanPlannedAreAnErrorAndNoPass) {
  ToyBackend backend(true);
  backend.after = [](const core::TrialRequest&, core::TrialResult& result) { --result.trials; };
  const core::Evidence evidence =
      stress::run_verify(backend, subject, subject.variants[0], {problem(64)});
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::error) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("2 of 3 planned trials"));
}

TEST_F(VerifyTest, SharedMemoryThatADeviceDidNotDirtyIsNamed) {
  struct Case {
    bool model;
    std::uint32_t shared_bytes;
    core::StreamId second;
    bool proven;
    const char* named;
  };
  for (const Case& c : {Case{false, 16, 0, true, ""},
                        {false, 0, 1, true, ""},
                        {true, 16, 1, true, ""},
                        {false, 16, 1, true, "several streams"},
                        {false, 16, 0, false, "of n=64 [stages=1]: 2 blocks"}}) {
    subject.plan = [c](const core::Problem& p, const std::string& variant,
                       const core::Config& config) {
      core::TrialPlan plan = toy_plan(p, variant, config);
      plan.program = [c](std::uint32_t) {
        core::LaunchOperation launch;
        launch.dynamic_shared_bytes = c.shared_bytes;
        core::Program program;
        program.add(launch, 0);
        program.add(launch, c.second);
        return program;
      };
      return plan;
    };
    ToyBackend backend(c.model);
    backend.after = [c](const core::TrialRequest& request, core::TrialResult& result) {
      EXPECT_EQ(request.perturbation.dirty_shared, !c.model && c.shared_bytes > 0 && c.second == 0);
      result.overlap_proven = c.proven;
      if (!c.proven) result.note = "2 blocks did not see all the others";
    };
    const core::Evidence evidence =
        stress::run_verify(backend, subject, subject.variants[0], {problem(64)});
    EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::pass);
    const auto about = [](const char* text) {
      return testing::AllOf(HasSubstr("reads of shared memory that it has not written"),
                            HasSubstr(text));
    };
    EXPECT_EQ(testing::Value(evidence.not_examined, Contains(about(""))), *c.named != 0) << c.named;
    EXPECT_EQ(testing::Value(evidence.not_examined, Contains(about(c.named))), *c.named != 0);
  }
}

TEST_F(VerifyTest, ADeviceOracleThatNothingChecksIsRefused) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    plan.device_oracle = plan.program;
    plan.reference = nullptr;
    return plan;
  };
  EXPECT_THROW(run(right, {problem(64)}), core::UsageError);
}

// --- follow-ups ---

TEST_F(VerifyTest, AFailureThatComesAndGoesOnEqualInputsIsARace) {
  // Wrong in every trial of a sweep of stages=2, and, repeated on the same inputs, in some.
  const ToyKernel kernel = [](const core::TrialRequest& request, std::uint64_t t,
                              const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    const bool repeated = request.perturbation.name.starts_with("repeat");
    if (!repeated || core::mix64(t) % 2 == 0) y.set(5, 1e3);
  };
  // Races are not looked for: what the repeats show is all there is to go by.
  stress::VerifyOptions options;
  options.race = core::RaceMode::off;
  const core::Evidence evidence = run(kernel, {problem(64)}, options);
  EXPECT_EQ(evidence.arms.size(), 3u);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::race_async) << verdict.summary;

  // Where they are, none was found: a few repeats ask about the poison, and cost little.
  const core::Evidence checked = run(kernel, {problem(64)});
  EXPECT_EQ(checked.arms.size(), 2u);
  EXPECT_EQ(diagnosis::diagnose(checked).outcome, Outcome::fail);
}

/// On a device, a kernel with shared memory, or without.
core::Evidence run_on_device(kernels::Subject& subject, const ToyKernel& kernel, bool shared) {
  subject.plan = [shared](const core::Problem& p, const std::string& variant,
                          const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    plan.program = [inner = plan.program, shared](std::uint32_t batch) {
      core::Program program = inner(batch);
      auto& launch = std::get<core::LaunchOperation>(program.operations[0].what);
      launch.dynamic_shared_bytes = shared ? 64 : 0;
      return program;
    };
    return plan;
  };
  ToyBackend backend(false, kernel);
  return stress::run_verify(backend, subject, subject.variants[0], {problem(64)});
}

TEST_F(VerifyTest, RepeatsOfOneSharedMemoryAreComparedOnADevice) {
  // Wrong in the sweep; then in a tight loop alone, or beside stress alone, whatever is in shared
  // memory.
  for (const bool under_stress : {true, false}) {
    const core::Evidence evidence = run_on_device(
        subject,
        [&](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
            core::Tensor& y) {
          right(request, t, x, y);
          const bool stressed = request.perturbation.co_resident != core::CoResident::none;
          const bool repeated = request.perturbation.name.starts_with("repeat");
          if (!repeated || stressed == under_stress) y.set(5, 1e3);
        },
        true);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::race_async) << verdict.summary;
    ASSERT_EQ(evidence.arms.size(), 3u);
    const auto dirtied = [&](std::size_t i) { return evidence.arms[i].perturbation.dirty_shared; };
    EXPECT_EQ(evidence.arms[0].perturbation.name, "repeat");
    EXPECT_EQ(evidence.arms[1].perturbation.name, "repeat_dirty_shared");
    EXPECT_EQ(evidence.arms[2].perturbation.name, "repeat_memory_stress");
    EXPECT_TRUE(!dirtied(0) && dirtied(1) && !dirtied(2));
  }
}

TEST_F(VerifyTest, RepeatsOfUnwrittenSharedMemoryAreUninitialisedOnADevice) {
  // Dirtied it holds poison; in a tight loop zeros; beside stress what other kernels have left.
  std::uint64_t runs = 0;
  const core::Evidence evidence = run_on_device(
      subject,
      [&](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
          core::Tensor& y) {
        right(request, t, x, y);
        double left = 0.0;
        if (request.perturbation.dirty_shared) {
          left = core::decode(core::Dtype::f32, core::shared_poison_word(t));
        } else if (request.perturbation.co_resident != core::CoResident::none) {
          left = static_cast<double>(core::mix64(++runs) % 64);
        }
        for (std::int64_t i = y.size() - kCols; i < y.size(); ++i) y.set(i, y.at(i) + left);
      },
      true);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::uninitialised) << verdict.summary;
  EXPECT_EQ(evidence.arms.size(), 3u);
}

TEST_F(VerifyTest, SharedMemoryThatNoLaunchHasIsNotDirtiedInRepeats) {
  const core::Evidence evidence = run_on_device(
      subject,
      [](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
         core::Tensor& y) {
        right(request, t, x, y);
        y.set(5, 1e3);
      },
      false);
  ASSERT_EQ(evidence.arms.size(), 2u);
  for (const core::ArmEvidence& arm : evidence.arms) {
    EXPECT_FALSE(arm.perturbation.dirty_shared) << arm.perturbation.name;
  }
}

TEST_F(VerifyTest, ARightSubjectIsNotRunAgain) {
  const core::Evidence evidence = run(right, {problem(64)});
  EXPECT_TRUE(evidence.arms.empty());
  EXPECT_EQ(evidence.configs.size(), 3u);
}

TEST_F(VerifyTest, OneRaggedSizeIsComparedWithAWholeOne) {
  const core::Evidence evidence = run(
      [this](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
             core::Tensor& y) {
        right(request, t, x, y);
        if (running.find("n=60") != std::string::npos) y.set(5, 1e3);
      },
      {problem(60)});
  ASSERT_EQ(evidence.configs.size(), 6u);
  EXPECT_EQ(evidence.configs.back().problem, "n=64");
  EXPECT_THAT(evidence.configs.back().result.note, HasSubstr("control without a tail"));
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::tail) << verdict.summary;
}

TEST_F(VerifyTest, AWrongDesignAtARaggedSizeIsNoTail) {
  const core::Evidence evidence = run(
      [](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
         core::Tensor& y) {
        right(request, t, x, y);
        for (std::int64_t i = 0; i < y.size(); ++i) y.set(i, y.at(i) + 0.5);
      },
      {problem(60)});
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::systematic_offset) << verdict.summary;
}

TEST_F(VerifyTest, ABoundThatRejectsOneElementInAHundredIsVacuous) {
  subject.plan = [](const core::Problem& p, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(p, variant, config);
    plan.reference = [inner = plan.reference](const std::vector<core::Tensor>& inputs) {
      std::vector<core::ReferenceTensor> reference = inner(inputs);
      for (std::size_t i = 0; i < reference[0].bound.size(); ++i) {
        if (i % 100 != 0) reference[0].bound[i] = 100.0;
      }
      return reference;
    };
    return plan;
  };
  const core::Evidence evidence = run(right, {problem(64)});
  EXPECT_THAT(evidence.null_outputs_accepted, Contains(HasSubstr("zeros, but for 1.2 %")));
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::inconclusive);
}

TEST_F(VerifyTest, AProblemThatIsTooLargeForAChecksSaysSo) {
  stress::VerifyOptions options;
  options.null_check_elements = 10;
  const core::Verdict verdict = diagnosis::diagnose(run(right, {problem(64)}, options));
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(verdict.summary, HasSubstr("notes: vacuous"));
}

}  // namespace
}  // namespace faultline::test
