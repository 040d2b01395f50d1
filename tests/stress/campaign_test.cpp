// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/run_record.hpp"
#include "faultline/core/token.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/campaign.hpp"
#include "faultline/stress/race.hpp"
#include "faultline/stress/replay.hpp"
#include "faultline/stress/resumable.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using core::Outcome;
using testing::HasSubstr;

/// Pass 2's tile 1 arrives before pass 1's tile 3, which uses the same buffer: in some trials only.
void late_copy(const core::TrialRequest& request, std::uint64_t trial, const core::Tensor& x,
               core::Tensor& y) {
  right(request, trial, x, y);
  const bool disturbed = request.perturbation.pool_bytes > 0 || request.perturbation.flush_l2 ||
                         request.perturbation.co_resident == core::CoResident::memory_stress;
  if (disturbed && core::mix64(trial) % 5 == 0) move_tile(x, y, 1, 3);
}

struct CampaignTest : testing::Test {
  kernels::Subject subject = toy_subject();
  kernels::ResolvedTrial trial = toy_trial(subject);

  core::Evidence run(ToyBackend& backend, std::uint64_t trials,
                     const stress::RunOptions& options = {}) {
    const stress::CampaignPlan plan =
        stress::default_plan(backend.info(), trial.plan, {.trials = trials, .seed = 7});
    return stress::run_campaign(backend, trial, plan, options);
  }
};

TEST_F(CampaignTest, ARightKernelPassesOnEitherBackend) {
  for (const bool model : {false, true}) {
    ToyBackend backend(model);
    const core::Evidence evidence = run(backend, 60);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
    ASSERT_TRUE(evidence.repeat.has_value());
    EXPECT_EQ(evidence.repeat->distinct, 1u);
    EXPECT_FALSE(evidence.error_shape.has_value());
  }
}

TEST_F(CampaignTest, ALateCopyIsARaceWithTheTilesNamed) {
  ToyBackend backend(false, late_copy);
  const core::Evidence evidence = run(backend, 800);
  ASSERT_EQ(evidence.provenance.size(), 1u);
  EXPECT_EQ(evidence.provenance[0].destination, 1);
  EXPECT_EQ(evidence.provenance[0].source, 3);
  EXPECT_EQ(evidence.provenance[0].matched, evidence.provenance[0].wrong);
  EXPECT_EQ(evidence.provenance[0].pipeline_depth, 2);

  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_EQ(verdict.findings[0].finding, FindingClass::race_async) << verdict.summary;
  EXPECT_THAT(verdict.findings[0].evidence[0],
              HasSubstr("y tile 1 held the data of tile 3 in 100 %"));
}

/// What a comparison on a device leaves of the errors: bins of every `every`-th trial, here of
/// one exact element in each; 1: nothing.
void keep_bins_of(std::uint32_t every, const core::TrialRequest& request,
                  core::TrialResult& result) {
  result.outputs[0].ratio_bins.clear();
  result.outputs[0].ulp_bins.clear();
  result.outputs[0].bins_every = every;
  if (every == 1) return;
  std::uint64_t counted = 0;
  for (std::uint64_t i = 0; i < result.trials; ++i)
    counted += (request.first_trial + i) % every == 0;
  if (counted > 0) result.outputs[0].ratio_bins = result.outputs[0].ulp_bins = {counted};
}

TEST_F(CampaignTest, BinsOfEveryTrialLeaveTheWrongTilesToBeFound) {
  ToyBackend backend(false, late_copy);  // its bins are complete, and it names no tiles
  const core::Evidence evidence = run(backend, 400);
  std::size_t with_tiles = 0;
  for (const core::ArmEvidence& arm : evidence.arms) {
    std::uint64_t counted = 0;
    for (const std::uint64_t n : arm.result.outputs[0].ratio_bins) counted += n;
    EXPECT_EQ(counted, arm.result.outputs[0].compared_elements) << arm.perturbation.name;
    for (const core::FailedTrial& f : arm.result.failures) with_tiles += !f.wrong_tiles.empty();
  }
  EXPECT_GT(with_tiles, 0u);
}

TEST_F(CampaignTest, ErrorsThatADeviceHasCountedAreNotCountedAgain) {
  ToyBackend backend(false, late_copy);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    keep_bins_of(2, request, result);
  };
  const core::Evidence evidence = run(backend, 800);
  std::size_t examined = 0;
  for (const core::ArmEvidence& arm : evidence.arms) {
    std::uint64_t counted = 0, on_the_host = 0;
    for (const std::uint64_t n : arm.result.outputs[0].ratio_bins) counted += n;
    for (const core::FailedTrial& failure : arm.result.failures) {
      on_the_host += !failure.wrong_tiles.empty() && failure.trial % 2 != 0;
    }
    EXPECT_EQ(arm.result.outputs[0].bins_every, 2u);
    EXPECT_EQ(counted, (arm.result.trials + 1) / 2 + on_the_host * kRows * kCols)
        << arm.perturbation.name;
    examined += on_the_host;
  }
  EXPECT_GT(examined, 0u);
}

TEST_F(CampaignTest, WhatADeviceDoesNotKeepIsFoundAgainFromCaptures) {
  ToyBackend backend(false, late_copy);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    keep_bins_of(1, request, result);
  };
  const core::Evidence evidence = run(backend, 800);
  std::size_t examined = 0;
  for (const core::ArmEvidence& arm : evidence.arms) {
    std::uint64_t kept = 0, wrong = 0, counted = 0, beyond = 0;
    for (const core::FailedTrial& failure : arm.result.failures) {
      if (failure.wrong_tiles.empty()) continue;
      ++kept;
      ASSERT_EQ(failure.wrong_tiles.size(), 1u);
      EXPECT_EQ(failure.wrong_tiles[0].tile, 1);
      EXPECT_EQ(failure.wrong_tiles[0].bad_elements, failure.bad_elements);
      wrong += failure.bad_elements;
    }
    const std::vector<std::uint64_t>& bins = arm.result.outputs[0].ratio_bins;
    for (std::size_t bin = 0; bin < bins.size(); ++bin) {
      counted += bins[bin];
      beyond += bin > core::error_bin(1.0) ? bins[bin] : 0;
    }
    EXPECT_EQ(kept > 0, arm.result.failed > 0) << arm.perturbation.name;
    EXPECT_EQ(counted, kept * kRows * kCols) << arm.perturbation.name;
    EXPECT_EQ(beyond, wrong) << arm.perturbation.name;
    examined += kept;
  }
  EXPECT_GT(examined, 0u);
}

/// The last bit of one element, within the bound, wherever `set` holds.
ToyKernel last_bit(std::function<bool(const core::TrialRequest&)> set) {
  return [set = std::move(set)](const core::TrialRequest& request, std::uint64_t trial,
                                const core::Tensor& x, core::Tensor& y) {
    right(request, trial, x, y);
    if (set(request)) core::store_bits(y.bytes.data(), 5, y.dtype, y.bits(5) ^ 1);
  };
}

TEST_F(CampaignTest, OtherBitsInAnotherArmAreSeen) {
  ToyBackend backend(false, last_bit([](const core::TrialRequest& request) {
                       return request.perturbation.name == "flush_l2";
                     }));
  const core::Evidence evidence = run(backend, 20);
  for (const core::ArmEvidence& arm : evidence.arms) {
    if (!arm.perturbation.fresh_inputs) {
      EXPECT_EQ(arm.result.distinct_outputs, 1u);
    }
  }
  ASSERT_TRUE(evidence.repeat.has_value());
  EXPECT_EQ(evidence.repeat->distinct, 2u);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::nondeterminism_benign) << verdict.summary;

  trial.plan.declared_deterministic = false;
  const core::Verdict allowed = diagnosis::diagnose(run(backend, 20));
  EXPECT_EQ(allowed.outcome, Outcome::pass) << allowed.summary;
}

TEST_F(CampaignTest, OtherBitsInALaterBlockOfAnArmAreSeen) {
  ToyBackend backend(false, last_bit([](const core::TrialRequest& request) {
                       return request.first_trial >= 200;
                     }));
  const stress::CampaignPlan plan = stress::default_plan(
      backend.info(), trial.plan, {.trials = 400, .seed = 7, .arms = {"memory_stress"}});
  stress::RunOptions alone;
  alone.follow_ups = false;
  const core::Evidence evidence = stress::run_campaign(backend, trial, plan, alone);
  ASSERT_EQ(evidence.arms.size(), 1u);
  EXPECT_EQ(evidence.arms[0].result.distinct_outputs, 2u);
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::fail);
}

TEST_F(CampaignTest, OtherBitsOnOtherInputsAreNothing) {
  // Arms with new inputs every trial share trial i's inputs, and their outputs.
  ToyBackend backend(false, right);
  const stress::CampaignPlan plan = stress::default_plan(
      backend.info(), trial.plan,
      {.trials = 20, .seed = 7, .arms = {"fresh_inputs", "memory_stress_fresh"}});
  const core::Evidence evidence = stress::run_campaign(backend, trial, plan);
  ASSERT_TRUE(evidence.repeat.has_value());
  EXPECT_EQ(*evidence.repeat, (core::RepeatEvidence{2, 1}));
  ToyBackend other(false, last_bit([](const core::TrialRequest& request) {
                     return request.perturbation.name == "fresh_inputs";
                   }));
  EXPECT_EQ(diagnosis::diagnose(stress::run_campaign(other, trial, plan)).outcome, Outcome::fail);
}

TEST_F(CampaignTest, BlocksOfAnArmAddUpAndTakeTurns) {
  ToyBackend backend(false, late_copy);
  const core::Evidence evidence = run(backend, 803);
  EXPECT_EQ(backend.requests[0].perturbation.name, "memory_stress");
  EXPECT_EQ(backend.requests[1].perturbation.name, "flush_l2");
  for (const core::ArmEvidence& arm : evidence.arms) {
    EXPECT_EQ(arm.result.trials, 803u) << arm.perturbation.name;
    EXPECT_EQ(arm.result.failures.size(), arm.result.failed);
    EXPECT_LE(arm.wilson95.low, arm.wilson95.high);
  }
}

TEST_F(CampaignTest, ArmsArePairedWithTheUnperturbedOneByTrialNumber) {
  ToyBackend backend(false, late_copy);
  const core::Evidence evidence = run(backend, 200);
  for (const core::ArmEvidence& arm : evidence.arms) {
    EXPECT_EQ(arm.failed_here_only, arm.result.failed) << arm.perturbation.name;
    EXPECT_EQ(arm.failed_there_only, 0u);
    if (arm.perturbation.name == "flush_l2") {
      EXPECT_GT(arm.log_e, 10.0);
    }
    if (arm.perturbation.name == "none") {
      EXPECT_EQ(arm.log_e, 0.0);
    }
  }
}

TEST_F(CampaignTest, AFailureThatDependsOnTheDataIsNotPairedWithOtherData) {
  // Wrong for some inputs, whatever runs around it.
  ToyBackend backend(false, [](const core::TrialRequest& request, std::uint64_t t,
                               const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    if (x.at(0) > 0.5) y.set(0, 1e3);
  });
  stress::CampaignPlan plan =
      stress::default_plan(backend.info(), trial.plan, {.trials = 200, .seed = 7});
  while (stress::make_inputs(trial.plan, {}, core::trial_seed(plan.seed, 0))[0].at(0) > 0.5) {
    ++plan.seed;
  }
  const core::Evidence evidence = stress::run_campaign(backend, trial, plan);
  for (const core::ArmEvidence& arm : evidence.arms) {
    EXPECT_EQ(arm.result.failed > 0, arm.perturbation.fresh_inputs);
    EXPECT_EQ(arm.failed_here_only + arm.failed_there_only, 0u) << arm.perturbation.name;
  }
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::unknown) << verdict.summary;
}

TEST_F(CampaignTest, AnArmThatThrowsLosesNothingElse) {
  ToyBackend backend(false);
  backend.before = [](const core::TrialRequest& request) {
    if (request.perturbation.name == "cold_pool_512mb") {
      throw core::EnvironmentError("out of memory: 512 MB for the pool");
    }
    if (request.perturbation.name == "graph_hot") throw core::UnsupportedError("no graphs here");
  };
  const core::Evidence evidence = run(backend, 20);
  std::size_t finished = 0;
  for (const core::ArmEvidence& arm : evidence.arms) finished += arm.result.trials == 20 ? 1 : 0;
  EXPECT_EQ(finished, evidence.arms.size() - 2);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::error);
  EXPECT_THAT(verdict.summary, HasSubstr("512 MB for the pool"));
}

TEST_F(CampaignTest, StopBringsBackWhatWasFinished) {
  std::atomic<bool> stop{false};
  ToyBackend backend(true);
  stress::RunOptions options;
  options.stop = &stop;
  std::uint64_t last = 0;
  options.progress = [&](const stress::Progress& progress) {
    EXPECT_GE(progress.done, last);
    EXPECT_EQ(progress.total, 600u);
    last = progress.done;
    if (progress.done >= 70) stop = true;
  };
  const core::Evidence evidence = run(backend, 600, options);
  EXPECT_TRUE(evidence.interrupted);
  std::uint64_t trials = 0;
  for (const core::ArmEvidence& arm : evidence.arms) trials += arm.result.trials;
  EXPECT_EQ(trials, 70u);
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::inconclusive);
}

TEST_F(CampaignTest, AStopDuringExperimentsIsNoFinishedRun) {
  std::atomic<bool> stop{false};
  bool stops = true;
  ToyBackend backend(false, late_copy);
  backend.before = [&](const core::TrialRequest& request) {
    if (request.capture_limit == 0) stop = stops;  // experiments alone keep no captures here
  };
  stress::RunOptions options;
  options.stop = &stop;
  const core::Evidence cut = run(backend, 400, options);
  ASSERT_TRUE(stop) << "nothing failed: there was nothing to experiment with";
  EXPECT_TRUE(cut.interrupted);
  EXPECT_FALSE(cut.experiments.empty());
  EXPECT_EQ(diagnosis::diagnose(cut).outcome, Outcome::fail);
  stops = stop = false;
  const core::Evidence whole = run(backend, 400, options);
  EXPECT_FALSE(whole.interrupted);
  EXPECT_GT(whole.experiments.size(), cut.experiments.size());
}

TEST_F(CampaignTest, ABoundThatAcceptsZerosIsVacuous) {
  const auto outcome_with = [&](double bound) {
    kernels::ResolvedTrial wide = trial;
    wide.plan.reference = [inner = trial.plan.reference,
                           bound](const std::vector<core::Tensor>& inputs) {
      std::vector<core::ReferenceTensor> reference = inner(inputs);
      for (double& b : reference[0].bound) b = std::max(b, bound);
      return reference;
    };
    ToyBackend backend(true);
    const stress::CampaignPlan plan =
        stress::default_plan(backend.info(), wide.plan, {.trials = 60, .seed = 7, .arms = {}});
    return diagnosis::diagnose(stress::run_campaign(backend, wide, plan, {})).outcome;
  };
  EXPECT_EQ(outcome_with(0.0), Outcome::pass);
  EXPECT_EQ(outcome_with(100.0), Outcome::inconclusive);
}

TEST_F(CampaignTest, TokensLeadBackToTheFirstFailingTrial) {
  ToyBackend backend(false, late_copy);
  const core::Evidence evidence = run(backend, 200);
  for (const core::ArmEvidence& arm : evidence.arms) {
    ASSERT_EQ(arm.token.empty(), arm.result.failed == 0);
    if (arm.token.empty()) continue;
    const core::TrialToken token = core::decode_token(arm.token);
    EXPECT_EQ(token.trial, arm.result.first_failed_trial);
    EXPECT_EQ(token.perturbation, arm.perturbation);
    EXPECT_EQ(token.seed, 7u);
    EXPECT_EQ(token.module_hash, "0123456789abcdef");
  }
}

TEST_F(CampaignTest, ReadingPoisonIsUninitialisedNotARace) {
  // The last row is added to what the output held before: NaN, a large number, NaN.
  auto kernel = [](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
                   core::Tensor& y) {
    const core::Tensor before = y;
    right(request, t, x, y);
    for (std::int64_t i = y.size() - kCols; i < y.size(); ++i) {
      y.set(i, 2 * x.at(i) + 0.5 * before.at(i));
    }
  };
  ToyBackend backend(true, kernel);
  const core::Verdict verdict = diagnosis::diagnose(run(backend, 240));
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::uninitialised) << verdict.summary;
}

TEST_F(CampaignTest, ReadingUnwrittenSharedMemoryIsUninitialisedOnADevice) {
  trial.plan.program = [program = trial.plan.program](std::uint32_t batch) {
    core::Program changed = program(batch);
    std::get<core::LaunchOperation>(changed.operations[0].what).dynamic_shared_bytes = 64;
    return changed;
  };
  // Where it is not dirtied it holds zeros, or whatever other kernels left there; or it does not
  // matter what it holds, and time decides.
  enum class Case { zeros, left_overs, race };
  for (const Case c : {Case::zeros, Case::left_overs, Case::race}) {
    std::uint64_t runs = 0;
    auto kernel = [&](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
                      core::Tensor& y) {
      right(request, t, x, y);
      ++runs;
      double left = c == Case::zeros ? 0.0 : static_cast<double>(core::mix64(runs) % 64);
      if (request.perturbation.dirty_shared && c != Case::race) {
        left = core::decode(core::Dtype::f32, core::poison_word(t + 1));
      }
      for (std::int64_t i = y.size() - kCols; i < y.size(); ++i) y.set(i, y.at(i) + left);
    };
    ToyBackend backend(false, kernel);
    const core::Evidence evidence = run(backend, 240);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.findings.at(0).finding == FindingClass::uninitialised, c != Case::race)
        << static_cast<int>(c) << ": " << verdict.summary;
  }
}

core::ExperimentEvidence row_of(const core::Evidence& evidence, core::ExperimentEvidence::Kind k) {
  for (const core::ExperimentEvidence& e : evidence.experiments) {
    if (e.kind == k) return e;
  }
  return {};
}

TEST_F(CampaignTest, AFailureIsRunAgainWithOneThingChanged) {
  // Wrong under contention, unless the host waits for each launch.
  ToyBackend backend(false, [](const core::TrialRequest& request, std::uint64_t t,
                               const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    const core::Perturbation& p = request.perturbation;
    const bool contended = p.co_resident == core::CoResident::memory_stress && !p.sync_each;
    if (contended && core::mix64(t) % 5 == 0) move_tile(x, y, 1, 3);
  });
  const core::Evidence evidence = run(backend, 200);
  const auto row = [&](core::ExperimentEvidence::Kind kind) {
    for (const core::ExperimentEvidence& e : evidence.experiments) {
      if (e.kind == kind) return e;
    }
    ADD_FAILURE() << "no row of " << name_of(kind);
    return core::ExperimentEvidence{};
  };
  const core::ExperimentEvidence serialised = row(core::ExperimentEvidence::Kind::serialised);
  EXPECT_EQ(serialised.after_wrong, 0u);
  EXPECT_GT(serialised.before_wrong, 0u);
  EXPECT_THAT(serialised.change, HasSubstr("memory_stress still beside it"));
  const core::ExperimentEvidence one_stage = row(core::ExperimentEvidence::Kind::one_stage);
  EXPECT_EQ(one_stage.left_out, "it has one stage as it is");
  EXPECT_EQ(row(core::ExperimentEvidence::Kind::twin).left_out,
            "the subject has no other implementation");
  EXPECT_THAT(diagnosis::diagnose(evidence).findings[0].evidence,
              testing::Contains(HasSubstr("cured by synchronising after every launch")));

  // Where the stress kernel is not proven to have run in them, the experiments decide nothing.
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    if (request.capture_limit > 0 || !request.perturbation.sync_each) return;
    result.overlap_proven = false;
    result.note = "no room beside it";
  };
  const core::ExperimentEvidence open =
      row_of(run(backend, 200), core::ExperimentEvidence::Kind::serialised);
  EXPECT_EQ(open.left_out, "no room beside it");
  EXPECT_EQ(open.after_trials, 0u);

  stress::RunOptions without;
  without.experiments = false;
  EXPECT_TRUE(run(backend, 200, without).experiments.empty());
  ToyBackend clean(false);
  EXPECT_TRUE(run(clean, 40).experiments.empty());
}

TEST_F(CampaignTest, AChangeThatHangsIsNoCure) {
  ToyBackend backend(false, late_copy);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    if (!request.perturbation.sync_each) return;
    result.wrong_values = 0;
    result.failed = result.abnormal = result.trials;
  };
  const auto row = row_of(run(backend, 200), core::ExperimentEvidence::Kind::serialised);
  EXPECT_THAT(row.left_out, HasSubstr("trials hung or faulted"));
  EXPECT_EQ(row.after_trials, 0u);
  EXPECT_EQ(diagnosis::effect_of(row), diagnosis::Effect::not_run);
}

TEST_F(CampaignTest, ACureIsHeldAgainstTrialsThatNoArmHasRun) {
  // By chance the first 200 trials fail and none after them: serialising cures nothing.
  ToyBackend backend(false, [](const core::TrialRequest& request, std::uint64_t t,
                               const core::Tensor& x, core::Tensor& y) {
    if (t < 200 && !request.perturbation.sync_each) return late_copy(request, t, x, y);
    right(request, t, x, y);
  });
  const auto row = row_of(run(backend, 200), core::ExperimentEvidence::Kind::serialised);
  EXPECT_GT(row.before_trials, 0u);
  EXPECT_EQ(row.before_wrong, 0u);
  EXPECT_EQ(diagnosis::effect_of(row), diagnosis::Effect::open);
}

/// The toy with a block for each n, and the text of its kernel.
kernels::Subject with_blocks(kernels::Subject subject, const std::string& ptx = "") {
  subject.plan = [ptx](const core::Problem& problem, const std::string& variant,
                       const core::Config& config) {
    core::TrialPlan plan = toy_plan(problem, variant, config);
    plan.program = [ptx, n = problem.values.integer("n"),
                    program = plan.program](std::uint32_t batch) {
      core::Program blocks = program(batch);
      auto& launch = std::get<core::LaunchOperation>(blocks.operations[0].what);
      auto module = std::make_shared<core::Module>(*launch.module);
      module->ptx = ptx;
      launch.module = module;
      launch.entry = "k";
      launch.grid = {static_cast<std::uint32_t>(n), 1, 1};
      return blocks;
    };
    return plan;
  };
  return subject;
}

/// A block for each n; with one block wrong once in `one_in` trials, 0: never.
class BlocksBackend : public ToyBackend {
 public:
  explicit BlocksBackend(std::uint64_t one_in)
      : ToyBackend(false, [this, one_in](const core::TrialRequest& request, std::uint64_t t,
                                         const core::Tensor& x, core::Tensor& y) {
          right(request, t, x, y);
          const bool stressed = request.perturbation.co_resident == core::CoResident::memory_stress;
          const std::uint64_t every = many_ ? 2 : one_in;
          if (stressed && every > 0 && core::mix64(t) % every == 0) move_tile(x, y, 1, 3);
        }) {}
  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    many_ = plan.problem.values.integer("n") > 1;
    return ToyBackend::run_trials(plan, request);
  }

 private:
  bool many_ = false;
};

TEST_F(CampaignTest, OneBlockOfManyHasToPassMoreOften) {
  subject = with_blocks(subject);
  trial = toy_trial(subject);
  using Kind = core::ExperimentEvidence::Kind;
  // A race inside a block, 1 % each: 47 % with 64 of them.
  BlocksBackend shared(92);
  const auto inside = row_of(run(shared, 100), Kind::one_block);
  EXPECT_GT(inside.after_wrong, 0u) << inside.left_out;
  EXPECT_NE(diagnosis::effect_of(inside), diagnosis::Effect::cured);
  EXPECT_THAT(inside.change, HasSubstr("of 64 before"));
  BlocksBackend grid(0);
  const auto between = row_of(run(grid, 100), Kind::one_block);
  EXPECT_EQ(diagnosis::effect_of(between), diagnosis::Effect::cured) << between.left_out;
  EXPECT_GT(between.after_trials, 6 * 64u);
}

/// A race inside each block that delays bring out, in one block by the n-th draw of them only.
class DelayedBlocksBackend : public ToyBackend {
 public:
  explicit DelayedBlocksBackend(std::size_t draw)
      : ToyBackend(false,
                   [this](const core::TrialRequest& request, std::uint64_t t, const core::Tensor& x,
                          core::Tensor& y) {
                     right(request, t, x, y);
                     if (hit_) move_tile(x, y, 1, 3);
                   }),
        draw_(draw) {}
  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    const core::Program program = plan.program(1);
    const auto& launch = std::get<core::LaunchOperation>(program.operations[0].what);
    hit_ = launch.module->ptx.find("nanosleep") != std::string::npos;
    if (plan.problem.values.integer("n") == 1) {
      if (hit_) draws_.insert(launch.module->ptx);
      hit_ = hit_ && draws_.size() == draw_;
    }
    return ToyBackend::run_trials(plan, request);
  }

 private:
  std::size_t draw_;
  std::set<std::string> draws_;  ///< of one block
  bool hit_ = false;
};

TEST_F(CampaignTest, OneBlockIsDelayedInSeveralWaysBeforeItIsACure) {
  subject = with_blocks(subject, ".visible .entry k() {\nld.shared.u32 %r1, [%r2];\nret;\n}\n");
  trial = toy_trial(subject);
  ToyBackend any(false);
  stress::PlanOptions options;
  options.trials = 40;
  options.arms = {"none", "ptx_delay_shared"};
  const stress::CampaignPlan plan = stress::default_plan(any.info(), trial.plan, options);
  const auto one_block = [&](std::size_t draw) {
    DelayedBlocksBackend backend(draw);
    return row_of(stress::run_campaign(backend, trial, plan),
                  core::ExperimentEvidence::Kind::one_block);
  };
  const auto inside = one_block(4);
  EXPECT_EQ(inside.before_wrong, inside.before_trials);
  EXPECT_GT(inside.after_wrong, 0u) << inside.left_out;
  EXPECT_EQ(inside.after_wrong, inside.after_trials) << "of that draw alone";
  EXPECT_NE(diagnosis::effect_of(inside), diagnosis::Effect::cured);
  // A race in the block as well, which takes a draw more than there are.
  const auto unlucky = one_block(9);
  EXPECT_EQ(unlucky.after_trials, 0u);
  EXPECT_EQ(diagnosis::effect_of(unlucky), diagnosis::Effect::not_run);
  EXPECT_THAT(unlucky.left_out, HasSubstr("none of 8 draws of delays"));
}

TEST_F(CampaignTest, WithoutFollowUpsAndExperimentsTheArmsAloneRun) {
  for (const bool fails : {false, true}) {
    ToyBackend backend(false, [fails](const core::TrialRequest& request, std::uint64_t t,
                                      const core::Tensor& x, core::Tensor& y) {
      right(request, t, x, y);
      if (fails && t % 7 == 3) move_tile(x, y, 1, 3);
    });
    stress::CampaignPlan plan;
    plan.arms.resize(1);
    plan.arms[0].trials = 50;
    plan.arms[0].perturbation.name = "fresh_inputs";
    plan.arms[0].perturbation.fresh_inputs = true;
    stress::RunOptions options;
    options.follow_ups = options.experiments = false;
    const core::Evidence evidence = stress::run_campaign(backend, trial, plan, options);
    EXPECT_EQ(evidence.arms.size(), 1u);
    EXPECT_TRUE(evidence.experiments.empty());
    EXPECT_EQ(evidence.arms[0].result.failed > 0, fails);
  }
}

TEST_F(CampaignTest, OnlyWhatDelaysBreakIsLeftOut) {
  const auto program = trial.plan.program;
  trial.plan.program = [program](std::uint32_t batch) {
    core::Program changed = program(batch);
    auto& launch = std::get<core::LaunchOperation>(changed.operations[0].what);
    auto module = std::make_shared<core::Module>(*launch.module);
    module->ptx = ".visible .entry k() {\nbar.sync 0;\nret;\n}\n";
    launch.module = module;
    launch.entry = "k";
    return changed;
  };
  stress::CampaignPlan plan;
  plan.arms.resize(1);
  plan.arms[0].trials = 5;
  plan.arms[0].perturbation.name = "ptx_delay";
  plan.arms[0].perturbation.delay_sites = ~0u;
  plan.arms[0].perturbation.delay_ns = 1024;
  const auto result = [&](std::uint64_t from_count) {
    ToyBackend backend(false);
    backend.before = [from_count](const core::TrialRequest& request) {
      if (request.count >= from_count) throw std::runtime_error("no such memory");
    };
    return stress::run_campaign(backend, trial, plan).arms.at(0).result;
  };
  EXPECT_EQ(result(1).status, core::ExecutionStatus::error) << "the kernel itself cannot run";
  EXPECT_FALSE(result(1).skipped);
  EXPECT_TRUE(result(2).skipped) << "without delays it runs";
}

TEST_F(CampaignTest, AnArmWhoseSharedMemoryWasNotAllDirtiedShowsNothing) {
  ToyBackend backend(false);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    if (!request.perturbation.dirty_shared) return;
    result.overlap_proven = false;
    result.note = "3 blocks did not see all the others";
  };
  stress::CampaignPlan plan;
  plan.arms = {{{.name = "dirty_shared", .dirty_shared = true}, 50, ""}};
  core::Evidence evidence = stress::run_campaign(backend, trial, plan);
  EXPECT_TRUE(evidence.arms.at(0).result.skipped);
  EXPECT_EQ(evidence.arms[0].result.note, "3 blocks did not see all the others");
  EXPECT_NE(diagnosis::diagnose(evidence).outcome, Outcome::pass) << "it is the only arm";
  plan.arms.push_back({{.name = "none"}, 50, ""});
  const core::Verdict verdict = diagnosis::diagnose(stress::run_campaign(backend, trial, plan));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("3 blocks did not see all the others"));
  // It ends no trial: fewer than planned are an error.
  backend.after = [](const core::TrialRequest&, core::TrialResult& result) {
    result.trials = 2;
    result.overlap_proven = false;
  };
  evidence = stress::run_campaign(backend, trial, plan);
  EXPECT_EQ(evidence.arms.at(0).result.status, core::ExecutionStatus::error);
}

TEST_F(CampaignTest, TrialsThatEndedBecauseNothingRanBesideThemAreNoError) {
  ToyBackend backend(false);
  bool proven = false;
  backend.after = [&](const core::TrialRequest& request, core::TrialResult& result) {
    if (request.perturbation.free_sms == 0) return;
    result.trials = 2;
    result.overlap_proven = proven;
    result.note = "3 multiprocessors were to be held and 2 were";
  };
  stress::CampaignPlan plan;
  plan.arms.resize(1);
  plan.arms[0].trials = 50;
  plan.arms[0].perturbation.name = "sm_limit_1";
  plan.arms[0].perturbation.free_sms = 1;
  const core::Evidence open = stress::run_campaign(backend, trial, plan);
  EXPECT_EQ(open.arms.at(0).result.status, core::ExecutionStatus::completed);
  EXPECT_TRUE(open.arms[0].result.skipped);
  EXPECT_EQ(open.arms[0].result.note, "3 multiprocessors were to be held and 2 were");
  EXPECT_NE(diagnosis::diagnose(open).outcome, Outcome::pass) << "it is the only arm";
  // Beside other arms it is left out with its reason, and run no further in the other rounds.
  stress::CampaignPlan both = plan;
  both.rounds = 4;
  both.arms.push_back({{.name = "none"}, 50, ""});
  backend.requests.clear();
  const core::Verdict verdict = diagnosis::diagnose(stress::run_campaign(backend, trial, both));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("3 multiprocessors were to be held and 2 were"));
  EXPECT_EQ(std::count_if(backend.requests.begin(), backend.requests.end(),
                          [](const auto& r) { return r.perturbation.free_sms > 0; }),
            1);
  // A failure stands, whatever ran beside it.
  ToyBackend wrong(false, late_copy);
  wrong.after = backend.after;
  const core::Evidence failed = stress::run_campaign(wrong, trial, plan);
  EXPECT_EQ(diagnosis::diagnose(failed).outcome,
            failed.arms.at(0).result.failed > 0 ? Outcome::fail : Outcome::skipped);
  proven = true;
  const core::Evidence broken = stress::run_campaign(backend, trial, plan);
  EXPECT_EQ(broken.arms.at(0).result.status, core::ExecutionStatus::error);
}

TEST_F(CampaignTest, ADelayedModuleIsMadeOnceForAllBlocksOfAnArm) {
  const auto program = trial.plan.program;
  trial.plan.program = [program](std::uint32_t batch) {
    core::Program changed = program(batch);
    auto& launch = std::get<core::LaunchOperation>(changed.operations[0].what);
    auto module = std::make_shared<core::Module>(*launch.module);
    module->ptx = ".visible .entry k() {\nbar.sync 0;\nret;\n}\n";
    launch.module = module;
    launch.entry = "k";
    return changed;
  };
  stress::CampaignPlan plan;
  plan.rounds = 4;
  for (const std::uint64_t seed : {1, 2}) {
    stress::PlannedArm arm;
    arm.trials = 8;
    arm.perturbation.name = seed == 1 ? "ptx_delay" : "ptx_delay_2";
    arm.perturbation.delay_sites = ~0u;
    arm.perturbation.delay_ns = 8192;
    arm.perturbation.delay_seed = seed;
    plan.arms.push_back(arm);
  }
  ToyBackend backend(false);
  stress::RunOptions options;
  options.experiments = false;
  options.follow_ups = false;
  stress::run_campaign(backend, trial, plan, options);
  std::set<core::ModuleRef> modules;
  for (const core::Program& issued : backend.programs) {
    modules.insert(std::get<core::LaunchOperation>(issued.operations[0].what).module);
  }
  EXPECT_GE(backend.programs.size(), 8u);
  EXPECT_EQ(modules.size(), 2u);
}

TEST_F(CampaignTest, OnlyNewInputsEachTimeAsksForARepeatAndRunsIt) {
  ToyBackend backend(false, late_copy);
  stress::CampaignPlan plan;
  plan.seed = 7;
  stress::PlannedArm arm;
  arm.perturbation.name = "flush_fresh";
  arm.perturbation.flush_l2 = true;
  arm.perturbation.fresh_inputs = true;
  arm.trials = 100;
  plan.arms = {arm};
  const core::Evidence evidence = stress::run_campaign(backend, trial, plan);
  ASSERT_EQ(evidence.arms.size(), 2u);
  EXPECT_EQ(evidence.arms[1].perturbation.name, "flush_fresh_fixed");
  EXPECT_FALSE(evidence.arms[1].perturbation.fresh_inputs);
  EXPECT_THAT(evidence.arms[1].result.note, HasSubstr("repeating one input set"));
}

TEST_F(CampaignTest, RacesOfAllArmsAreMerged) {
  ToyBackend backend(true);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    core::RaceReport race;
    race.buffer = "stage";
    race.first.where = {{"a.cu", 79, ""}};
    race.second.where = {{"a.cu", 66, ""}};
    race.second.instruction = "cp.async.bulk";
    race.count = request.count;
    result.races = {race};
    result.raced = result.failed = result.trials;
  };
  const core::Evidence evidence = run(backend, 120);
  ASSERT_EQ(evidence.races.size(), 1u);
  EXPECT_EQ(evidence.races[0].count, 120u);
  EXPECT_EQ(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::race_async);
}

TEST_F(CampaignTest, LongArmsReachTheCheckpointBeforeTheyEnd) {
  ToyBackend backend(true);
  std::vector<std::uint64_t> done;
  stress::RunOptions options;
  options.follow_ups = false;
  options.checkpoint_every_s = 0.05;
  options.checkpoint = [&](const core::Evidence& evidence) {
    std::uint64_t trials = 0;
    for (const core::ArmEvidence& arm : evidence.arms) trials += arm.result.trials;
    done.push_back(trials);
    EXPECT_TRUE(evidence.interrupted);
  };
  options.progress = [](const stress::Progress&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const stress::CampaignPlan plan = stress::default_plan(
      backend.info(), trial.plan, {.trials = 60, .seed = 7, .arms = {"random_random"}});
  const core::Evidence evidence = stress::run_campaign(backend, trial, plan, options);
  EXPECT_GT(done.size(), 2u);
  EXPECT_GT(done.front(), 0u);
  EXPECT_LT(done.front(), 60u);
  EXPECT_EQ(done.back(), 60u);
  ASSERT_EQ(evidence.arms.size(), 1u);
  EXPECT_EQ(evidence.arms[0].result.trials, 60u);
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, Outcome::pass);
}

/// The reproducible part of a record, but for the two sums that depend on where blocks were cut.
std::string record_of(core::Evidence evidence) {
  for (core::ArmEvidence& arm : evidence.arms) {
    for (core::OutputTotals& output : arm.result.outputs) {
      output.sum_squared_error = output.sum_squared_expected = 0.0;
    }
  }
  core::RunRecord record;
  record.evidence = std::move(evidence);
  return core::to_json(record, false);
}

TEST_F(CampaignTest, AResumedOneGoesOnBehindItsLastPiece) {
  const ToyKernel flaky = [](const core::TrialRequest& request, std::uint64_t i,
                             const core::Tensor& x, core::Tensor& y) {
    right(request, i, x, y);
    if (i % 7 == 3) y.set(5, 2 * x.at(5) + 1.5);
  };
  ToyBackend uninterrupted(true, flaky);
  const stress::CampaignPlan plan =
      stress::default_plan(uninterrupted.info(), trial.plan,
                           {.trials = 90, .seed = 7, .arms = {"random_random", "pct_lazy"}});
  const std::string expected = record_of(stress::run_campaign(uninterrupted, trial, plan));

  std::string folder = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::atomic<bool> stop{false};
  {
    store::Journal journal(folder, store::Journal::Start::anew);
    const auto backend =
        stress::make_resumable(std::make_unique<ToyBackend>(true, flaky), journal, &stop, {});
    stress::RunOptions options;
    options.stop = &stop;
    options.checkpoint_every_s = 0.05;
    options.checkpoint = [](const core::Evidence&) {};
    options.progress = [&](const stress::Progress& state) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (state.done >= 36) stop = true;
    };
    EXPECT_TRUE(stress::run_campaign(*backend, trial, plan, options).interrupted);
  }
  {
    store::Journal journal(folder, store::Journal::Start::resumed);
    EXPECT_GT(journal.entries().size(), 1u);
    EXPECT_EQ(journal.entries().back().kind, "piece");
    auto toy = std::make_unique<ToyBackend>(true, flaky);
    const ToyBackend& inner = *toy;
    const auto backend = stress::make_resumable(std::move(toy), journal, nullptr, {});
    EXPECT_EQ(record_of(stress::run_campaign(*backend, trial, plan)), expected);
    ASSERT_FALSE(inner.requests.empty());
    EXPECT_GT(inner.requests.front().first_trial, 0u);
    EXPECT_EQ(inner.requests.front().first_trial + inner.requests.front().count, 45u);
  }
  {
    // All of it is known now.
    store::Journal journal(folder, store::Journal::Start::resumed);
    auto toy = std::make_unique<ToyBackend>(true, flaky);
    const ToyBackend& inner = *toy;
    const auto backend = stress::make_resumable(std::move(toy), journal, nullptr, {});
    EXPECT_EQ(record_of(stress::run_campaign(*backend, trial, plan)), expected);
    EXPECT_TRUE(inner.requests.empty());
    // Another seed is another run.
    stress::CampaignPlan other = plan;
    other.seed = 8;
    stress::run_campaign(*backend, trial, other);
    EXPECT_FALSE(inner.requests.empty());
  }
  {
    // Fewer trials are not answered by more.
    const stress::CampaignPlan fewer =
        stress::default_plan(uninterrupted.info(), trial.plan,
                             {.trials = 60, .seed = 7, .arms = {"random_random", "pct_lazy"}});
    store::Journal journal(folder, store::Journal::Start::resumed);
    const auto backend =
        stress::make_resumable(std::make_unique<ToyBackend>(true, flaky), journal, nullptr, {});
    EXPECT_EQ(record_of(stress::run_campaign(*backend, trial, fewer)),
              record_of(stress::run_campaign(uninterrupted, trial, fewer)));
  }
  std::filesystem::remove_all(folder);
}

TEST_F(CampaignTest, OfEqualRequestsEachIsAnsweredByItsOwnResult) {
  std::string folder = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  core::TrialRequest request;
  request.count = 10;
  for (const bool resumed : {false, true}) {
    store::Journal journal(folder,
                           resumed ? store::Journal::Start::resumed : store::Journal::Start::anew);
    auto toy = std::make_unique<ToyBackend>(true);
    const ToyBackend& inner = *toy;
    if (!resumed) {
      // The first is not kept.
      toy->after = [&inner](const core::TrialRequest&, core::TrialResult& result) {
        if (inner.requests.size() == 1) result.status = core::ExecutionStatus::error;
      };
    }
    const auto backend = stress::make_resumable(std::move(toy), journal, nullptr, {});
    backend->run_trials(trial.plan, request);
    EXPECT_EQ(inner.requests.size(), 1u);
    backend->run_trials(trial.plan, request);
    EXPECT_EQ(inner.requests.size(), resumed ? 1u : 2u);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(CampaignTest, AFullJournalKeepsShortResultsOnly) {
  std::string folder = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  core::TrialRequest request;
  request.count = 3;
  for (const std::uint64_t most_bytes : {std::uint64_t{1000}, stress::kMostJournalBytes}) {
    const bool is_full = most_bytes == 1000;
    for (const bool resumed : {false, true}) {
      store::Journal journal(folder, resumed ? store::Journal::Start::resumed
                                             : store::Journal::Start::anew);
      auto toy = std::make_unique<ToyBackend>(true);
      const ToyBackend& inner = *toy;
      toy->after = [](const core::TrialRequest& asked, core::TrialResult& result) {
        if (asked.seed == 1) result.note = std::string(100'000, 'x');
      };
      const auto backend = stress::make_resumable(std::move(toy), journal, nullptr, {}, most_bytes);
      for (const std::uint64_t seed : {1, 2}) {
        request.seed = seed;
        const core::TrialResult result = backend->run_trials(trial.plan, request);
        EXPECT_EQ(result.note.size(), seed == 1 ? 100'000u : 0u);
        EXPECT_EQ(result.trials, 3u);
      }
      EXPECT_EQ(inner.requests.size(), !resumed ? 2u : is_full ? 1u : 0u);
    }
  }
  std::filesystem::remove_all(folder);
}

// --- race and replay ---

TEST_F(CampaignTest, RaceNeedsTheSimulator) {
  ToyBackend device(false), model(true);
  EXPECT_THROW(stress::run_race(device, trial), core::UnsupportedError);
  const core::Evidence evidence = stress::run_race(model, trial);
  EXPECT_EQ(evidence.mode, "race");
  EXPECT_EQ(evidence.arms.size(), 4u);
  EXPECT_EQ(stress::run_race(model, trial, {.trials = 1, .run = {}}).arms.size(), 1u);
}

TEST_F(CampaignTest, RaceKeepsEveryFinishedScheduleInTheCheckpoint) {
  ToyBackend model(true);
  std::vector<std::size_t> arms;
  stress::RaceOptions options;
  options.run.checkpoint = [&](const core::Evidence& evidence) {
    arms.push_back(evidence.arms.size());
  };
  stress::run_race(model, trial, options);
  EXPECT_THAT(arms, testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(CampaignTest, RaceCoversEveryPolicyWithEveryLateness) {
  std::set<std::pair<core::SchedulePolicy, core::CopyLateness>> seen;
  for (std::uint64_t i = 0; i < stress::kRaceSchedules; ++i) {
    const core::Perturbation schedule = stress::race_schedule(i);
    seen.insert({schedule.policy, schedule.lateness});
    EXPECT_EQ(schedule, stress::race_schedule(i + stress::kRaceSchedules));
  }
  EXPECT_EQ(seen.size(), stress::kRaceSchedules);
  ToyBackend model(true);
  EXPECT_EQ(stress::run_race(model, trial, {.trials = 30, .run = {}}).arms.size(),
            stress::kRaceSchedules);
}

TEST_F(CampaignTest, AnArmThatRanFewerTrialsThanPlannedIsAnError) {
  ToyBackend backend(true);
  backend.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    if (request.count > 1) result.trials = request.count - 1;
  };
  const core::Verdict verdict = diagnosis::diagnose(run(backend, 60));
  EXPECT_EQ(verdict.outcome, Outcome::error) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("planned trials"));
}

TEST(ReplaySeeds, GiveTheWantedInputsAtTrialZero) {
  for (std::uint64_t seed : {0ull, 1ull, 7ull, 0xdeadbeefcafef00dull}) {
    for (std::uint64_t trial : {0ull, 1ull, 99999ull}) {
      const std::uint64_t inputs = core::trial_seed(seed, trial);
      EXPECT_EQ(core::trial_seed(stress::seed_for_inputs(inputs), 0), inputs);
    }
  }
}

TEST_F(CampaignTest, ReplayRepeatsTheInputsOnADevice) {
  kernels::SubjectRegistry registry;
  registry.add(toy_subject());
  core::TrialToken token;
  token.backend = "cuda";
  token.subject = "toy";
  token.variant = "clean";
  token.problem = "n=64";
  token.config = "stages=1";
  token.seed = 7;
  token.trial = 41;
  token.perturbation.fresh_inputs = true;
  token.perturbation.flush_l2 = true;
  token.module_hash = "0123456789abcdef";

  std::set<std::uint64_t> seeds;
  ToyBackend backend(false, late_copy);
  backend.after = [&](const core::TrialRequest&, core::TrialResult& result) {
    for (const core::FailedTrial& f : result.failures) seeds.insert(f.input_seed);
  };
  const stress::Replay replay =
      stress::replay(backend, registry, token, {.repeats = 300, .run = {}});
  EXPECT_TRUE(replay.warning.empty()) << replay.warning;
  ASSERT_EQ(replay.evidence.arms.size(), 1u);
  EXPECT_EQ(replay.evidence.arms[0].result.trials, 300u);
  EXPECT_EQ(seeds, std::set<std::uint64_t>{core::trial_seed(7, 41)});

  ToyBackend model(true);
  EXPECT_THROW(stress::replay(model, registry, token), core::UsageError);
  token.module_hash = "ffffffffffffffff";
  EXPECT_THAT(stress::replay(backend, registry, token).warning, HasSubstr("kernel build"));
}

TEST_F(CampaignTest, ReplayOnTheSimulatorIsTheOneTrial) {
  kernels::SubjectRegistry registry;
  registry.add(toy_subject());
  ToyBackend backend(true, [](const core::TrialRequest& request, std::uint64_t t,
                              const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    if (t == 13) move_tile(x, y, 0, 2);
  });
  core::TrialToken token;
  token.backend = "simulator";
  token.subject = "toy";
  token.variant = "clean";
  token.problem = "n=64";
  token.config = "stages=1";
  token.trial = 13;
  const stress::Replay replay = stress::replay(backend, registry, token);
  EXPECT_EQ(replay.evidence.arms[0].result.trials, 1u);
  EXPECT_EQ(replay.evidence.arms[0].result.failed, 1u);
  ASSERT_EQ(replay.evidence.provenance.size(), 1u);
  EXPECT_EQ(replay.evidence.provenance[0].source, 2);
}

}  // namespace
}  // namespace faultline::test
