// SPDX-License-Identifier: Apache-2.0
// The axes of the evidence matrix that change a call as a whole: how often it is made, how its data
// lie, at which addresses. That a program is repeated as it should be, that the experiments are
// run, and what their rows say.
#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/token.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/campaign.hpp"
#include "faultline/stress/replay.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using testing::HasSubstr;
using Kind = core::ExperimentEvidence::Kind;

template <class What>
std::vector<std::pair<core::Operation, What>> all_of(const core::Program& program) {
  std::vector<std::pair<core::Operation, What>> found;
  for (const core::Operation& operation : program.operations) {
    if (const auto* what = std::get_if<What>(&operation.what)) found.push_back({operation, *what});
  }
  return found;
}

/// Two streams, one of which waits for the other, and a graph that is replayed with arguments of
/// its own.
core::Program streams_and_graph(std::uint32_t) {
  core::Program program;
  core::LaunchOperation launch;
  launch.module = std::make_shared<core::Module>();
  launch.arguments = {core::BufferArgument{0, 0}, core::BufferArgument{1, 0}};
  program.add(core::CaptureBeginOperation{0}, 1);
  const core::OperationId captured = program.add(launch, 1);
  program.add(core::CaptureEndOperation{0}, 1);
  program.add(core::ReplayOperation{0, {{captured, launch.arguments}}}, 1);
  program.add(core::EventRecordOperation{5}, 1);
  program.add(core::EventWaitOperation{5}, 2);
  program.add(launch, 2);
  return program;
}

struct EvidenceMatrix : testing::Test {
  kernels::Subject subject = toy_subject();
  kernels::ResolvedTrial trial = toy_trial(subject);

  core::Evidence run(core::Backend& backend, std::uint64_t trials,
                     std::vector<std::string> arms = {}) {
    const stress::CampaignPlan plan = stress::default_plan(
        backend.info(), trial.plan, {.trials = trials, .seed = 7, .arms = std::move(arms)});
    return stress::run_campaign(backend, trial, plan, {});
  }

  /// What the backend is given to run for so many calls of `program`.
  core::Program repeated(core::Program (*program)(std::uint32_t), std::uint32_t calls) {
    subject.plan = [program](const core::Problem& problem, const std::string& variant,
                             const core::Config& config) {
      core::TrialPlan plan = toy_plan(problem, variant, config);
      plan.program = program;
      return plan;
    };
    trial = toy_trial(subject);
    stress::CampaignPlan plan;
    plan.arms.emplace_back().trials = 1;
    plan.arms[0].perturbation.calls = calls;
    ToyBackend backend(true);
    stress::RunOptions alone;
    alone.follow_ups = alone.experiments = false;
    const core::Evidence evidence = stress::run_campaign(backend, trial, plan, alone);
    EXPECT_EQ(evidence.arms.at(0).result.note, "");
    EXPECT_EQ(backend.requests.at(0).perturbation.calls, 1u) << "the program says how often";
    return backend.programs.at(0);
  }
};

TEST_F(EvidenceMatrix, EachCallHasIdsOfItsOwnAndWaitsForTheOneBefore) {
  const core::Program program = repeated(streams_and_graph, 3);
  std::set<core::OperationId> ids;
  for (const core::Operation& operation : program.operations) ids.insert(operation.id);
  EXPECT_EQ(ids.size(), program.operations.size());
  EXPECT_EQ(all_of<core::LaunchOperation>(program).size(), 6u);

  std::set<std::uint32_t> graphs;
  const auto begins = all_of<core::CaptureBeginOperation>(program);
  const auto ends = all_of<core::CaptureEndOperation>(program);
  const auto replays = all_of<core::ReplayOperation>(program);
  ASSERT_EQ(begins.size(), 3u);
  ASSERT_EQ(ends.size(), 3u);
  ASSERT_EQ(replays.size(), 3u);
  for (std::size_t call = 0; call < 3; ++call) {
    graphs.insert(begins[call].second.graph);
    EXPECT_EQ(ends[call].second.graph, begins[call].second.graph);
    EXPECT_EQ(replays[call].second.graph, begins[call].second.graph);
    // The launch that its own call captured.
    const core::OperationId changed = replays[call].second.changed_arguments.at(0).first;
    EXPECT_EQ(changed, begins[call].first.id + 1);
  }
  EXPECT_EQ(graphs.size(), 3u);

  // Every event is recorded once, and before it is waited for.
  std::set<core::EventId> recorded;
  for (const core::Operation& operation : program.operations) {
    if (const auto* record = std::get_if<core::EventRecordOperation>(&operation.what)) {
      EXPECT_TRUE(recorded.insert(record->event).second) << record->event;
    } else if (const auto* wait = std::get_if<core::EventWaitOperation>(&operation.what)) {
      EXPECT_EQ(recorded.count(wait->event), 1u) << wait->event;
    }
  }
  // Of each call one of its own; between two calls the streams wait for one another.
  EXPECT_EQ(recorded.size(), 3u + 2u + 3u);
}

TEST_F(EvidenceMatrix, ALaterCallFindsTheOutputsAsTheFirstDid) {
  const core::Program program = repeated(streams_and_graph, 2);
  const auto copies = all_of<core::CopyOperation>(program);
  ASSERT_EQ(copies.size(), 2u);
  const std::uint64_t bytes = trial.plan.buffers[1].bytes();
  const std::uint32_t kept = static_cast<std::uint32_t>(trial.plan.buffers.size());
  EXPECT_EQ(copies[0].second.source.buffer, 1u);
  EXPECT_EQ(copies[0].second.destination.buffer, kept);
  EXPECT_EQ(copies[1].second.source.buffer, kept);
  EXPECT_EQ(copies[1].second.destination.buffer, 1u);
  EXPECT_EQ(copies[0].second.bytes, bytes);
  EXPECT_EQ(copies[1].second.bytes, bytes);
}

/// Keeps the buffers of the plan that it is given last, and runs nothing.
class BuffersBackend : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  std::vector<core::BufferSpec> buffers;
  core::TrialResult run_trials(const core::TrialPlan& plan, const core::TrialRequest&) override {
    buffers = plan.buffers;
    programs.push_back(plan.program(1));
    core::TrialResult result;
    result.skipped = true;
    return result;
  }
};

TEST_F(EvidenceMatrix, WhatSeveralCallsKeepIsOneWorkspaceHoweverManyOutputs) {
  subject.plan = [](const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan = toy_plan(problem, variant, config);
    for (int i = 0; i < 19; ++i) {
      core::BufferSpec more = plan.buffers[1];
      more.name = "y" + std::to_string(i);
      more.dtype = core::Dtype::f16;
      more.shape = {3, 5};
      more.tiles = {.rows = 3, .cols = 5, .tile_rows = 3, .tile_cols = 5};
      plan.buffers.push_back(std::move(more));
    }
    return plan;
  };
  const core::TrialPlan plan = toy_trial(subject).plan;
  kernels::SubjectRegistry registry;
  registry.add(subject);
  core::TrialToken token;
  token.backend = "simulator";
  token.subject = "toy";
  token.variant = "clean";
  token.problem = "n=64";
  token.config = "stages=1";
  token.perturbation.calls = 2;
  BuffersBackend backend(true);
  EXPECT_TRUE(
      stress::replay(backend, registry, token, {.run = {}}).evidence.arms[0].result.skipped);
  ASSERT_EQ(backend.buffers.size(), plan.buffers.size() + 1) << "one, not one for each output";
  const core::BufferSpec& kept = backend.buffers.back();
  EXPECT_EQ(kept.role, core::BufferRole::workspace);
  const auto copies = all_of<core::CopyOperation>(backend.programs.at(0));
  ASSERT_EQ(copies.size(), 2u * 20u);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const core::CopyOperation &away = copies[i].second, &back = copies[20 + i].second;
    EXPECT_EQ(away.source.buffer, i + 1);
    EXPECT_EQ(away.bytes, plan.buffers[i + 1].bytes());
    EXPECT_EQ(away.destination.buffer, plan.buffers.size());
    EXPECT_EQ(away.destination.byte_offset % 256, 0u);
    EXPECT_GE(away.destination.byte_offset, end) << "behind the one before";
    end = away.destination.byte_offset + away.bytes;
    EXPECT_EQ(back.source, away.destination);
    EXPECT_EQ(back.destination, away.source);
    EXPECT_EQ(back.bytes, away.bytes);
  }
  EXPECT_LE(end, kept.bytes());
}

TEST_F(EvidenceMatrix, AnArmWhoseChangedProgramCannotBeRunIsLeftOut) {
  const auto result = [&](bool one_call_too) {
    ToyBackend backend(false);
    backend.before = [&](const core::TrialRequest&) {
      const auto launches = all_of<core::LaunchOperation>(backend.programs.back());
      if (one_call_too || launches.size() > 1) throw core::UsageError("too many workspaces");
    };
    stress::CampaignPlan plan;
    plan.arms.emplace_back().trials = 5;
    plan.arms[0].perturbation.calls = 2;
    stress::RunOptions alone;
    alone.follow_ups = alone.experiments = false;
    return stress::run_campaign(backend, trial, plan, alone).arms.at(0).result;
  };
  EXPECT_TRUE(result(false).skipped);
  EXPECT_EQ(result(false).status, core::ExecutionStatus::completed);
  EXPECT_THAT(result(false).note,
              HasSubstr("the program as changed for the arm could not be run: too many"));
  EXPECT_FALSE(result(true).skipped) << "nor can the program as it is";
  EXPECT_EQ(result(true).status, core::ExecutionStatus::error);
}

TEST_F(EvidenceMatrix, ACampaignSaysWhereNoTrialCalledItTwice) {
  const auto said = [&](std::vector<std::string> arms, bool follow_ups) {
    ToyBackend backend(true);
    stress::RunOptions options;
    options.follow_ups = follow_ups;
    const core::Evidence evidence = stress::run_campaign(
        backend, trial,
        stress::default_plan(backend.info(), trial.plan,
                             {.trials = 26, .seed = 7, .arms = std::move(arms)}),
        options);
    EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::pass);
    return testing::Value(evidence.not_examined,
                          testing::Contains(HasSubstr("no trial called it twice")));
  };
  EXPECT_TRUE(said({"random_random"}, false));
  EXPECT_FALSE(said({"random_random"}, true)) << "a second call is asked for";
  EXPECT_FALSE(said({"random_random", "called_twice"}, false));
  EXPECT_FALSE(said({}, false));
}

TEST_F(EvidenceMatrix, ANumberOfCallsThatIsNoneIsRefused) {
  kernels::SubjectRegistry registry;
  registry.add(subject);
  ToyBackend backend(true);
  core::TrialToken token;
  token.backend = "simulator";
  token.subject = "toy";
  token.variant = "clean";
  token.problem = "n=64";
  token.config = "stages=1";
  token.module_hash = "0123456789abcdef";
  for (const std::uint32_t calls : {0u, 1001u, ~0u}) {
    token.perturbation.calls = calls;
    EXPECT_THROW(stress::replay(backend, registry, token, {.run = {}}), core::UsageError) << calls;
  }
  token.perturbation.calls = 1;
  token.perturbation.offset_bytes = 17;
  EXPECT_THROW(stress::replay(backend, registry, token, {.run = {}}), core::UsageError);
  token.perturbation.offset_bytes = 0;
  token.perturbation.calls = 2;
  EXPECT_EQ(stress::replay(backend, registry, token, {.run = {}}).evidence.arms[0].result.trials,
            1u);
  token.perturbation.ctas_per_sm = 1.0;
  EXPECT_TRUE(
      stress::replay(backend, registry, token, {.run = {}}).evidence.arms[0].result.skipped);
}

/// Right in the first `right_calls` calls of a module. On a model each trial loads it anew.
class CountingBackend : public ToyBackend {
 public:
  CountingBackend(bool model, std::uint64_t right_calls)
      : ToyBackend(model,
                   [this, model, right_calls](const core::TrialRequest& request, std::uint64_t t,
                                              const core::Tensor& x, core::Tensor& y) {
                     if (model || request.perturbation.reload_module) calls_ = 0;
                     calls_ += each_;
                     if (calls_ <= right_calls) right(request, t, x, y);
                   }) {}
  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    each_ = all_of<core::LaunchOperation>(plan.program(1)).size();
    return ToyBackend::run_trials(plan, request);
  }

 private:
  std::uint64_t calls_ = 0, each_ = 1;
};

TEST_F(EvidenceMatrix, WhatTheSecondCallGetsWrongIsStateOnEitherBackend) {
  for (const bool model : {true, false}) {
    CountingBackend backend(model, 1);
    const core::Evidence evidence = run(backend, model ? 52 : 24);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    ASSERT_FALSE(verdict.findings.empty());
    EXPECT_EQ(verdict.findings[0].finding, FindingClass::state) << model << verdict.summary;
    CountingBackend clean(model, ~0ull);
    EXPECT_EQ(diagnosis::diagnose(run(clean, 52)).outcome, core::Outcome::pass);
  }
}

TEST_F(EvidenceMatrix, AnArmOfOneCallAloneAsksForTheSecond) {
  // On a device the first trial is right and no other, which a loop cannot tell from anything else.
  CountingBackend device(false, 1);
  core::Evidence evidence = run(device, 24, {"none"});
  EXPECT_EQ(evidence.arms.size(), 1u);
  core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::state) << verdict.summary;
  EXPECT_THAT(verdict.findings[0].evidence,
              testing::Contains(HasSubstr("a second call in each trial, of a module")));
  // A loop alone says nothing of it, and nothing wrong: no race, although one trial was right.
  stress::RunOptions loop;
  loop.follow_ups = loop.experiments = false;
  CountingBackend same(false, 1);
  stress::CampaignPlan plan;
  plan.arms.emplace_back().trials = 50;
  verdict = diagnosis::diagnose(stress::run_campaign(same, trial, plan, loop));
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::unknown) << verdict.summary;
  // A replay of a second call that is wrong tries the first one as well.
  kernels::SubjectRegistry registry;
  registry.add(subject);
  core::TrialToken token;
  token.backend = "simulator";
  token.subject = "toy";
  token.variant = "clean";
  token.problem = "n=64";
  token.config = "stages=1";
  token.module_hash = "0123456789abcdef";
  token.perturbation.calls = 2;
  for (const std::uint64_t right_calls : {1u, 0u}) {
    CountingBackend again(true, right_calls);
    const stress::Replay replay = stress::replay(again, registry, token, {.run = {}});
    EXPECT_EQ(replay.evidence.arms[0].result.trials, 1u);
    EXPECT_EQ(diagnosis::diagnose(replay.evidence).findings[0].finding == FindingClass::state,
              right_calls == 1);
  }
  // On a device each trial of either half is of a module loaded anew, whatever the token says.
  token.backend = "cuda";
  for (const bool reloaded : {false, true}) {
    token.perturbation.reload_module = reloaded;
    CountingBackend loop(false, 1);
    const stress::Replay replay = stress::replay(loop, registry, token, {.run = {}});
    ASSERT_EQ(replay.evidence.experiments.size(), 1u);
    const core::ExperimentEvidence& row = replay.evidence.experiments[0];
    EXPECT_EQ(row.after_wrong, 0u) << "the first calls are right";
    EXPECT_EQ(row.before_wrong, row.before_trials);
    EXPECT_GE(row.after_trials, 5u);
    ASSERT_EQ(loop.requests.size(), 3u);
    EXPECT_TRUE(loop.requests[1].perturbation.reload_module);
    EXPECT_TRUE(loop.requests[2].perturbation.reload_module);
    EXPECT_EQ(diagnosis::diagnose(replay.evidence).findings[0].finding, FindingClass::state);
  }
  // On a model nothing is wrong before it is called twice.
  CountingBackend model(true, 1);
  evidence = run(model, 8, {"random_random"});
  ASSERT_EQ(evidence.arms.size(), 2u);
  EXPECT_EQ(evidence.arms[1].perturbation.calls, 2u);
  verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::state) << verdict.summary;
  // Wrong from the first call on: not the order of calls.
  CountingBackend never(false, 0);
  verdict = diagnosis::diagnose(run(never, 24, {"none"}));
  EXPECT_NE(verdict.findings[0].finding, FindingClass::state) << verdict.summary;
}

/// The toy as one that has a pitch, and is wrong where that is not 0.
class PitchedBackend : public ToyBackend {
 public:
  explicit PitchedBackend(bool wrong_at_16)
      : ToyBackend(true, [this, wrong_at_16](const core::TrialRequest& request, std::uint64_t t,
                                             const core::Tensor& x, core::Tensor& y) {
          right(request, t, x, y);
          const bool moved = request.perturbation.offset_bytes == 16;
          if (pitched_ && (wrong_at_16 || !moved)) move_tile(x, y, 1, 3);
        }) {}
  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    pitched_ = plan.problem.values.integer("pad") > 0;
    return ToyBackend::run_trials(plan, request);
  }

 private:
  bool pitched_ = false;
};

TEST_F(EvidenceMatrix, WhatContiguousDataCureIsLayout) {
  core::ParameterSpec pad;
  pad.name = "pad";
  pad.minimum = 0;
  pad.maximum = 16;
  pad.default_value = "8";
  subject.problem_domain.parameters.push_back(pad);
  subject.verify_problems = [](bool) {
    core::Problem problem{"toy", {}};
    problem.values.set("n", "64");
    problem.values.set("pad", "8");
    return std::vector{problem};
  };
  const auto row = [](const core::Evidence& evidence, Kind kind) {
    for (const core::ExperimentEvidence& e : evidence.experiments) {
      if (e.kind == kind) return e;
    }
    ADD_FAILURE() << "no row of " << name_of(kind);
    return core::ExperimentEvidence{};
  };
  trial = toy_trial(subject);
  PitchedBackend always(true);
  core::Evidence evidence = run(always, 26);
  EXPECT_EQ(row(evidence, Kind::contiguous).left_out, "it has no pitch or offset to leave out");
  EXPECT_NE(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::layout);

  subject.contiguous = {{"pad", "0"}};
  evidence = run(always, 26);
  EXPECT_EQ(row(evidence, Kind::contiguous).change, "contiguous data (pad=0)");
  EXPECT_EQ(diagnosis::effect_of(row(evidence, Kind::contiguous)), diagnosis::Effect::cured);
  EXPECT_EQ(diagnosis::effect_of(row(evidence, Kind::offset)), diagnosis::Effect::unchanged);
  core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::layout) << verdict.summary;
  EXPECT_THAT(verdict.findings[0].evidence,
              testing::Contains(HasSubstr("an alignment of 16 bytes at most")));

  PitchedBackend at_256(false);
  verdict = diagnosis::diagnose(run(at_256, 26));
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::layout) << verdict.summary;
  EXPECT_THAT(verdict.findings[0].evidence,
              testing::Contains(HasSubstr("where buffers begin, too")));

  // Wrong without a pitch as well: something else.
  ToyBackend anyway(true, [](const core::TrialRequest& request, std::uint64_t t,
                             const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    move_tile(x, y, 1, 3);
  });
  evidence = run(anyway, 26);
  EXPECT_EQ(diagnosis::effect_of(row(evidence, Kind::contiguous)), diagnosis::Effect::unchanged);
  EXPECT_NE(diagnosis::diagnose(evidence).findings[0].finding, FindingClass::layout);
}

}  // namespace
}  // namespace faultline::test
