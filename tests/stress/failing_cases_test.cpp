// SPDX-License-Identifier: Apache-2.0
// Failing cases on a toy backend: explained, reduced, replayed before a run; runs compared.
#include <boost/math/distributions/hypergeometric.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>

#include "faultline/core/errors.hpp"
#include "faultline/stress/compare.hpp"
#include "faultline/stress/explain.hpp"
#include "faultline/stress/reduce.hpp"
#include "faultline/stress/stored_cases.hpp"
#include "toy.hpp"

namespace faultline::stress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Role = Coordinate::Role;

/// What a trial is, for a fault that depends on it.
struct Where {
  std::int64_t n, stages;
  std::uint64_t seed, trial;
  std::uint32_t offset;  ///< bytes
};
using Fault = std::function<bool(const Where&)>;

/// The toy backend with a fault that knows problem and config; another that hangs.
class FaultyBackend : public test::ToyBackend {
 public:
  FaultyBackend(bool model, Fault wrong, Fault hangs = {})
      : ToyBackend(model,
                   [this](const core::TrialRequest& request, std::uint64_t trial,
                          const core::Tensor& x, core::Tensor& y) {
                     test::right(request, trial, x, y);
                     if (wrong_(where(request, trial))) y.set(5, 2 * x.at(5) + 1.5);
                   }),
        wrong_(std::move(wrong)),
        hangs_(std::move(hangs)) {}

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    plan_ = &plan;
    core::TrialResult result = ToyBackend::run_trials(plan, request);
    if (hangs_ && hangs_(where(request, request.first_trial))) {
      result.failed = result.abnormal = result.trials;
      result.wrong_values = 0;
      result.outputs = {core::make_output_totals(plan.buffers[1])};
      result.captures.clear();
      result.status = core::ExecutionStatus::timeout;
      result.first_failed_trial = request.first_trial;
    }
    return result;
  }

 private:
  Where where(const core::TrialRequest& request, std::uint64_t trial) const {
    return {plan_->problem.values.integer("n"), plan_->config.integer("stages"), request.seed,
            trial, request.perturbation.offset_bytes};
  }

  Fault wrong_, hangs_;
  const core::TrialPlan* plan_ = nullptr;
};

class FailingCases : public ::testing::Test {
 protected:
  FailingCases() {
    kernels::Subject subject = test::toy_subject();
    subject.lengths = [](const core::Problem&, const std::string&, const core::Config&) {
      return kernels::TileLengths{.tile_k = 16};
    };
    registry_.add(subject);
  }

  static core::TrialToken token(const std::string& backend, std::int64_t n,
                                std::int64_t stages = 3) {
    core::TrialToken trial;
    trial.backend = backend;
    trial.subject = "toy";
    trial.variant = "clean";
    trial.problem = "n=" + std::to_string(n);
    trial.config = "stages=" + std::to_string(stages);
    trial.seed = 7;
    trial.trial = 2;
    trial.perturbation.fresh_inputs = true;
    trial.module_hash = "0123456789abcdef";
    return trial;
  }

  Explanation explained(const Fault& wrong, std::int64_t n, std::uint64_t executions = 400) {
    FaultyBackend backend(true, wrong);
    return explain(backend, registry_, token("simulator", n),
                   {.executions = executions, .run = {}});
  }
  static const Coordinate& coordinate(const Explanation& explanation, const std::string& name) {
    for (const Coordinate& one : explanation.coordinates) {
      if (one.name == name) return one;
    }
    throw std::out_of_range(name);
  }

  kernels::SubjectRegistry registry_;
};

TEST_F(FailingCases, FreeAndNeededCoordinatesAreTold) {
  const Explanation all = explained([](const Where&) { return true; }, 100);
  EXPECT_EQ(all.refused, "");
  for (const Coordinate& one : all.coordinates) {
    EXPECT_EQ(one.role, Role::free) << one.name << ": " << one.text();
  }
  const Explanation some = explained([](const Where& w) { return w.stages == 3; }, 100);
  EXPECT_EQ(coordinate(some, "n").role, Role::free);
  EXPECT_EQ(coordinate(some, "stages").role, Role::needed);
  EXPECT_EQ(coordinate(some, "stages").text(), "passes at every other value tried: 1, 2");
  EXPECT_THAT(to_text(some), AllOf(HasSubstr("toy@clean n=100 [stages=3], seed 7, trial 2: fails"),
                                   HasSubstr("  config   stages")));
}

TEST_F(FailingCases, ABudgetThatEndsBetweenSeedsIsNoPass) {
  // Odd seeds fail; with other stages 5 alone does.
  const Fault wrong = [](const Where& w) {
    return w.seed % 2 == 1 && (w.stages == 3 || w.seed == 5);
  };
  EXPECT_EQ(coordinate(explained(wrong, 100), "stages").role, Role::free);
  for (std::uint64_t executions = 1; executions < 60; ++executions) {
    const Explanation partly = explained(wrong, 100, executions);
    if (!partly.refused.empty()) continue;
    EXPECT_NE(coordinate(partly, "stages").role, Role::needed) << executions << " executions";
  }
  std::atomic<bool> stop{false};
  FaultyBackend backend(true, [&](const Where& w) {
    if (w.seed != 7) stop = true;
    return true;
  });
  ExplainOptions options;
  options.run.stop = &stop;
  const Explanation stopped = explain(backend, registry_, token("simulator", 100), options);
  EXPECT_THAT(to_text(stopped), HasSubstr("stopped before everything was tried"));
}

TEST_F(FailingCases, ThresholdsAreBisected) {
  const Explanation from = explained([](const Where& w) { return w.n >= 37; }, 1000);
  EXPECT_EQ(coordinate(from, "n").role, Role::from);
  EXPECT_EQ(coordinate(from, "n").text(), "fails from 37 on; 36 passes");
  const Explanation up_to = explained([](const Where& w) { return w.n <= 777; }, 500);
  EXPECT_EQ(coordinate(up_to, "n").role, Role::up_to);
  EXPECT_EQ(coordinate(up_to, "n").text(), "fails up to 777; 778 passes");
  const Explanation ragged = explained([](const Where& w) { return w.n % 16 != 0; }, 100);
  EXPECT_EQ(coordinate(ragged, "n").role, Role::multiple);
  EXPECT_THAT(coordinate(ragged, "n").text(), HasSubstr("passes at multiples of 16 (96, 112, 128"));
  const Explanation whole = explained([](const Where& w) { return w.n % 16 == 0; }, 96);
  EXPECT_THAT(coordinate(whole, "n").text(), HasSubstr("fails at multiples of 16"));
}

TEST_F(FailingCases, AThresholdIsAskedAboutBelowWhatBisectionFound) {
  // From 55 on, and at 40, which bisection does not meet.
  const Fault mixed = [](const Where& w) { return w.n >= 55 || w.n == 40; };
  const Explanation two = explained(mixed, 62);
  EXPECT_EQ(coordinate(two, "n").role, Role::from_and_below);
  EXPECT_THAT(coordinate(two, "n").text(),
              HasSubstr("no single threshold: fails at every value tried from 55, and below it at "
                        "40; passes at 54 and "));
  EXPECT_EQ(name_of(coordinate(two, "n").role), "some");
  const Explanation up = explained([](const Where& w) { return w.n <= 57 || w.n == 120; }, 50);
  EXPECT_EQ(coordinate(up, "n").role, Role::up_to_and_above);
  EXPECT_THAT(coordinate(up, "n").text(),
              HasSubstr("tried up to 57, and above it at 120; passes at 58 and "));
  // Beyond its share of the executions nothing more is asked: the budget is for all coordinates.
  EXPECT_FALSE(explained(mixed, 62).budget_spent);

  FaultyBackend backend(true, mixed);
  const Reduction small = reduce(backend, registry_, token("simulator", 62));
  EXPECT_EQ(small.smallest.problem, "n=40");
}

TEST_F(FailingCases, ConfigsThatChangeTogetherAreTriedWhole) {
  kernels::SubjectRegistry combined;
  kernels::Subject subject = test::toy_subject();
  // No config differs in its stages alone.
  core::ParameterSpec threads;
  threads.name = "threads";
  threads.allowed = {32, 64, 96};
  threads.default_value = "32";
  subject.config_domain = [stages = subject.config_domain("clean").parameters[0],
                           threads](const std::string&) {
    return core::Domain{{stages, threads}};
  };
  subject.configs = [](const core::Problem&, const std::string&) {
    std::vector<core::Config> all;
    for (std::int64_t s = 1; s <= 3; ++s) {
      core::Config config;
      config.set("stages", s);
      config.set("threads", 32 * s);
      all.push_back(config);
    }
    return all;
  };
  subject.plan = [](const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
    if (config.integer("threads") != 32 * config.integer("stages")) {
      throw core::UsageError("not built");
    }
    return test::toy_plan(problem, variant, config);
  };
  combined.add(subject);
  FaultyBackend backend(true, [](const Where& w) { return w.stages >= 2; });
  core::TrialToken trial = token("simulator", 64);
  trial.config = "stages=3 threads=96";
  const Explanation whole = explain(backend, combined, trial, {});
  EXPECT_EQ(coordinate(whole, "stages").role, Role::with_others);
  EXPECT_EQ(coordinate(whole, "stages").text(),
            "never alone; in other whole configs fails at 2; passes at 1");
  EXPECT_EQ(coordinate(whole, "(whole)").text(),
            "fails at [stages=2 threads=64]; passes at [stages=1 threads=32]");
}

TEST_F(FailingCases, AddressesAreACoordinateOfACaseThatMovesThem) {
  FaultyBackend backend(true, [](const Where& w) { return w.offset % 128 != 0; });
  core::TrialToken moved = token("simulator", 64);
  EXPECT_THROW(coordinate(explain(backend, registry_, moved, {}), "offset_bytes"),
               std::out_of_range);
  moved.perturbation.offset_bytes = 48;
  const Explanation explanation = explain(backend, registry_, moved, {});
  const Coordinate& offset = coordinate(explanation, "offset_bytes");
  EXPECT_EQ(offset.role, Role::some);
  EXPECT_EQ(offset.text(), "fails at 16; passes at 0, 128");
  EXPECT_THROW(coordinate(explanation, "calls"), std::out_of_range);
}

TEST_F(FailingCases, AnotherFailureCountsNeitherWay) {
  FaultyBackend backend(
      true, [](const Where& w) { return w.n >= 37; }, [](const Where& w) { return w.n < 5; });
  const Explanation two = explain(backend, registry_, token("simulator", 40), {});
  EXPECT_EQ(coordinate(two, "n").role, Role::from);
  EXPECT_THAT(coordinate(two, "n").text(), AllOf(HasSubstr("fails from 37 on; 36 passes"),
                                                 HasSubstr("fails as another class at 1 (hang)")));
}

TEST_F(FailingCases, OtherSeedsAreAskedWhereTheSeedMatters) {
  // Even seeds fail from 37 on, and the case's own one from 37 on, too.
  const Explanation some =
      explained([](const Where& w) { return w.n >= 37 && (w.seed == 7 || w.seed % 2 == 0); }, 1000);
  EXPECT_EQ(coordinate(some, "seed").role, Role::some);
  EXPECT_EQ(coordinate(some, "n").text(), "fails from 37 on; 36 passes");
  // The own seed fails at n=1000 alone; with others in hand it is the others that show.
  const Explanation others =
      explained([](const Where& w) { return w.seed == 7 ? w.n == 1000 : w.seed % 2 == 0; }, 1000);
  EXPECT_EQ(coordinate(others, "n").role, Role::free);
  const Explanation own = explained([](const Where& w) { return w.seed == 7; }, 1000);
  EXPECT_EQ(coordinate(own, "seed").role, Role::needed);
  EXPECT_EQ(coordinate(own, "n").role, Role::free);
  // One of eight other seeds: a value may pass with all nine by chance.
  const Explanation rare =
      explained([](const Where& w) { return w.n >= 37 && (w.seed == 7 || w.seed == 4); }, 1000);
  EXPECT_EQ(coordinate(rare, "n").role, Role::unclear);
  EXPECT_EQ(coordinate(rare, "stages").role, Role::free);
  EXPECT_THAT(to_text(rare), HasSubstr("unclear: 1 of 8 other seeds fail"));
}

TEST_F(FailingCases, FlakyAndPassingCasesAreNotExplained) {
  FaultyBackend flaky(false, [](const Where& w) { return w.trial % 5 == 0; });
  const Explanation rate = explain(flaky, registry_, token("cuda", 100));
  EXPECT_THAT(rate.refused,
              HasSubstr("it fails in 10 of 50 runs with everything kept (10 .. 33.7 %)"));
  EXPECT_THAT(rate.coordinates, IsEmpty());
  EXPECT_EQ(rate.executions, 1u);
  FaultyBackend certain(false, [](const Where&) { return true; });
  EXPECT_EQ(explain(certain, registry_, token("cuda", 100)).refused, "");
  EXPECT_THAT(explained([](const Where&) { return false; }, 100).refused,
              HasSubstr("the case does not fail here: 0 of 1"));
  EXPECT_THROW(explain(certain, registry_, token("simulator", 100)), core::UsageError);
  const Explanation spent = explained([](const Where&) { return true; }, 100, 12);
  EXPECT_TRUE(spent.budget_spent);
  EXPECT_LE(spent.executions, 12u);
  EXPECT_EQ(coordinate(spent, "data").role, Role::not_tried);
}

TEST_F(FailingCases, AreReducedToTheSmallestOfTheSameClass) {
  FaultyBackend backend(true, [](const Where& w) { return w.n >= 37; });
  const Reduction small = reduce(backend, registry_, token("simulator", 5000));
  EXPECT_EQ(small.smallest.problem, "n=37");
  EXPECT_EQ(small.smallest.config, "stages=1");
  EXPECT_EQ(small.smallest.seed, 1u);
  EXPECT_EQ(small.smallest.trial, 0u);
  EXPECT_EQ(small.failed, 1u);
  EXPECT_FALSE(small.budget_spent);
  // Below 50 it fails otherwise: that is another bug.
  FaultyBackend two(
      true, [](const Where&) { return true; }, [](const Where& w) { return w.n < 50; });
  const Reduction same = reduce(two, registry_, token("simulator", 5000));
  EXPECT_EQ(same.smallest.problem, "n=50");
  EXPECT_THAT(same.steps,
              testing::Contains(testing::Field(&ReduceStep::why, "fails as hang instead")));
  FaultyBackend needs(true, [](const Where& w) { return w.stages >= 2 && w.seed == 7; });
  const Reduction kept = reduce(needs, registry_, token("simulator", 64));
  EXPECT_EQ(kept.smallest.config, "stages=3");  // towards the first of a sweep, or not at all
  EXPECT_EQ(kept.smallest.seed, 7u);
  EXPECT_EQ(kept.smallest.problem, "n=1");
  // A sweep that begins with the largest config makes no case larger.
  kernels::SubjectRegistry largest_first;
  kernels::Subject subject = test::toy_subject();
  subject.configs = [ascending = subject.configs](const core::Problem& problem,
                                                  const std::string& variant) {
    std::vector<core::Config> all = ascending(problem, variant);
    std::reverse(all.begin(), all.end());
    return all;
  };
  largest_first.add(subject);
  EXPECT_EQ(reduce(backend, largest_first, token("simulator", 64, 2)).smallest.config, "stages=1");
  EXPECT_EQ(reduce(needs, largest_first, token("simulator", 64, 2)).smallest.config, "stages=2");
  FaultyBackend passes(true, [](const Where&) { return false; });
  EXPECT_THAT(reduce(passes, registry_, token("simulator", 64)).refused,
              HasSubstr("does not fail"));
  EXPECT_TRUE(reduce(backend, registry_, token("simulator", 5000), {.executions = 4, .run = {}})
                  .budget_spent);
}

TEST_F(FailingCases, FlakyOnesAreReducedByTheLowerBoundOfTheirRate) {
  // Half of the runs fail from 37 on, one in 50 below: still there, and a rarer case.
  FaultyBackend backend(
      false, [](const Where& w) { return w.n >= 37 ? w.trial % 2 == 0 : w.trial % 50 == 0; });
  const Reduction small = reduce(backend, registry_, token("cuda", 640));
  EXPECT_EQ(small.smallest.problem, "n=37");
  EXPECT_EQ(small.failed, 100u);
  EXPECT_EQ(small.trials, 200u);
  EXPECT_NEAR(small.floor, 0.22, 0.01);
  EXPECT_THAT(small.steps,
              testing::Contains(testing::Field(&ReduceStep::why,
                                               HasSubstr("4 of 200: its rate may be below 0.22"))));
}

TEST_F(FailingCases, StoredOnesDecideWithTheRunThatFollows) {
  FaultyBackend backend(true, [](const Where& w) { return w.n == 40; });
  store::FailingCase again = failing_case(token("simulator", 40), "verify");
  again.id = 3;
  store::FailingCase fixed = failing_case(token("simulator", 41), "verify");
  fixed.id = 4;
  store::FailingCase outside = failing_case(token("simulator", 0), "verify");
  outside.id = 5;
  const auto outcome_with = [&](const std::vector<store::FailingCase>& cases, core::Outcome before,
                                core::Evidence& evidence) {
    const auto replayed = replay_cases(backend, registry_, cases, {});
    EXPECT_EQ(replayed.size(), cases.size());
    core::Verdict verdict;
    verdict.outcome = before;
    verdict.summary = "the sweep";
    add_replayed(replayed, evidence, verdict);
    return std::pair(verdict, results_of(replayed));
  };
  core::Evidence evidence;
  const auto [fails, results] =
      outcome_with({again, fixed, outside}, core::Outcome::pass, evidence);
  EXPECT_EQ(fails.outcome, core::Outcome::fail);
  EXPECT_THAT(
      fails.summary,
      AllOf(HasSubstr("fail: 1 of 3 stored cases failed again: stored case 3 (n=40 [stages=3]"),
            HasSubstr("the others: the sweep")));
  ASSERT_FALSE(fails.findings.empty());
  EXPECT_THAT(fails.findings.front().evidence.back(),
              HasSubstr("stored case 3 failed again: faultline replay fl1."));
  ASSERT_EQ(results.size(), 2u);  // the third is told nothing of
  EXPECT_EQ(results[0].failed, 1u);
  EXPECT_EQ(results[1].id, 4);
  EXPECT_EQ(results[1].failed, 0u);
  ASSERT_EQ(evidence.arms.size(), 2u);
  EXPECT_EQ(evidence.arms[0].perturbation.name, "stored_case_3");
  EXPECT_THAT(evidence.arms[1].result.note, HasSubstr("passes now, marked fixed"));
  EXPECT_THAT(evidence.not_examined, ElementsAre(HasSubstr("stored case 5 (n=0")));

  // Alone it is an unknown error; a run that fails under a name has not found a second defect.
  ASSERT_EQ(fails.findings.front().finding, core::FindingClass::unknown);
  core::Verdict named;
  named.outcome = core::Outcome::fail;
  named.findings.emplace_back().finding = core::FindingClass::tail;
  named.findings.front().severity = core::Severity::error;
  core::Evidence beside;
  add_replayed(replay_cases(backend, registry_, {again}, {}), beside, named);
  ASSERT_EQ(named.findings.size(), 1u);
  EXPECT_THAT(named.findings.front().evidence,
              ElementsAre(AllOf(HasSubstr("stored case 3 failed again"), HasSubstr("no name"))));

  core::Evidence none;
  EXPECT_EQ(outcome_with({again}, core::Outcome::inconclusive, none).first.outcome,
            core::Outcome::fail);
  EXPECT_EQ(outcome_with({again}, core::Outcome::error, none).first.outcome, core::Outcome::error);
  EXPECT_EQ(outcome_with({outside}, core::Outcome::pass, none).first.outcome,
            core::Outcome::inconclusive);
  EXPECT_EQ(outcome_with({outside}, core::Outcome::fail, none).first.outcome, core::Outcome::fail);
  EXPECT_EQ(outcome_with({fixed}, core::Outcome::pass, none).first.summary,
            "the sweep; 1 stored case passes now");
  EXPECT_EQ(outcome_with({}, core::Outcome::pass, none).first.summary, "the sweep");
}

TEST_F(FailingCases, AStoredOneThatCouldNotBeJudgedIsNotFixed) {
  FaultyBackend backend(true, [](const Where&) { return false; });
  backend.after = [](const core::TrialRequest&, core::TrialResult& result) {
    result.status = core::ExecutionStatus::unsupported;
    result.message = "no such opcode";
  };
  const auto replayed =
      replay_cases(backend, registry_, {failing_case(token("simulator", 40), "verify")}, {});
  ASSERT_EQ(replayed.size(), 1u);
  EXPECT_EQ(replayed[0].state, ReplayedCase::State::not_judged);
  EXPECT_THAT(replayed[0].why, HasSubstr("no such opcode"));
  EXPECT_THAT(results_of(replayed), IsEmpty());
}

TEST_F(FailingCases, ARareOneIsFixedOnlyWhenItsRateWouldHaveShown) {
  FaultyBackend backend(false, [](const Where&) { return false; });
  const auto replayed = [&](std::uint64_t failed, std::uint64_t trials) {
    store::FailingCase rare = failing_case(token("cuda", 40), "stress");
    rare.failed = failed;
    rare.trials = trials;
    return replay_cases(backend, registry_, {rare}, {.repeats = 200, .run = {}}).front();
  };
  // Wilson's lower end of 3 of 3 is 0.44, of 3 of 5000 0.0002: 14,683 runs tell.
  EXPECT_EQ(replayed(3, 3).state, ReplayedCase::State::fixed);
  EXPECT_EQ(replayed(3, 3).evidence.arms[0].result.trials, 200u);
  const ReplayedCase rare = replayed(3, 5000);
  EXPECT_EQ(rare.state, ReplayedCase::State::fixed);
  EXPECT_GT(rare.evidence.arms[0].result.trials, 14000u);
  EXPECT_LT(rare.evidence.arms[0].upper95, 0.000205);
  // More than any replay takes: not judged, and not a pass.
  const ReplayedCase rarer = replayed(1, 5000);
  EXPECT_EQ(rarer.state, ReplayedCase::State::not_judged);
  EXPECT_THAT(rarer.why, HasSubstr("no failure in 200 runs, too few to tell: it failed in 1 of "
                                   "5000 before"));
  EXPECT_THAT(results_of({rarer}), IsEmpty());
  EXPECT_EQ(replayed(0, 0).state, ReplayedCase::State::not_judged);
}

TEST_F(FailingCases, OfManyAlikeAFewAreReplayedAndTheOthersAreNotJudged) {
  FaultyBackend backend(true, [](const Where&) { return false; });
  std::vector<store::FailingCase> cases;
  for (std::uint64_t i = 0; i < kReplaysAlike + 3; ++i) {
    core::TrialToken trial = token("simulator", 40);
    trial.seed = 100 + i;
    cases.push_back(failing_case(trial, "stress"));
    cases.back().id = static_cast<std::int64_t>(i) + 1;
  }
  cases.push_back(failing_case(token("simulator", 41), "stress"));  // another problem
  cases.push_back(failing_case({}, "stress"));
  cases.back().unreadable = "version 'fl2' is not known here";
  const auto replayed = replay_cases(backend, registry_, cases, {});
  ASSERT_EQ(replayed.size(), cases.size());
  EXPECT_EQ(results_of(replayed).size(), kReplaysAlike + 1);
  EXPECT_THAT(to_lines(replayed),
              testing::Contains(HasSubstr("3 stored cases (5, 6, 7): not judged: 4 seen later")));
  core::Evidence evidence;
  core::Verdict verdict;
  verdict.outcome = core::Outcome::pass;
  add_replayed(replayed, evidence, verdict);
  EXPECT_EQ(verdict.outcome, core::Outcome::inconclusive);
  EXPECT_THAT(evidence.not_examined,
              ElementsAre(HasSubstr("(5, 6, 7)"), HasSubstr("version 'fl2' is not known")));

  const std::atomic<bool> over{true};
  ReplayOptions stopped;
  stopped.run.stop = &over;
  const auto late = replay_cases(backend, registry_, {cases[0], cases[7]}, stopped);
  EXPECT_THAT(to_lines(late), ElementsAre(HasSubstr("the time for stored cases ran out")));
}

TEST_F(FailingCases, TheFirstFailureOfAProblemLineIsItsToken) {
  FaultyBackend backend(true, [](const Where& w) { return w.trial == 2; });
  const auto trial = kernels::resolve(registry_, "toy", {{"n", "9"}}, {{"stages", "2"}});
  const auto found = first_failure(backend, trial, {.seed = 5, .trials = 4}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->trial, 2u);
  EXPECT_EQ(found->seed, 5u);
  EXPECT_EQ(found->problem, "n=9");
  EXPECT_EQ(found->config, "stages=2");
  EXPECT_FALSE(first_failure(backend, trial, {.seed = 5, .trials = 2}, {}));
  backend.before = [](const core::TrialRequest&) {
    throw core::UnsupportedError("no such opcode");
  };
  EXPECT_THROW(first_failure(backend, trial, {}, {}), core::UnsupportedError);
}

TEST(Fisher, AgreesWithTheHypergeometricDistribution) {
  EXPECT_NEAR(fisher_exact(3, 4, 1, 4), 0.4857142857, 1e-9);    // Fisher's tea
  EXPECT_NEAR(fisher_exact(3, 10, 9, 10), 0.0197666111, 1e-9);  // R: fisher.test
  EXPECT_EQ(fisher_exact(0, 0, 0, 0), 1.0);
  EXPECT_EQ(fisher_exact(0, 100, 0, 50), 1.0);
  EXPECT_LT(fisher_exact(0, 100000, 100000, 100000), 1e-300);
  EXPECT_THROW(fisher_exact(3, 2, 0, 1), std::invalid_argument);
  for (unsigned a = 0; a <= 12; ++a) {
    for (unsigned b = 0; b <= 17; ++b) {
      if (a + b == 0 || a + b == 29) continue;
      const boost::math::hypergeometric_distribution<> table(a + b, 12, 29);
      const double own = boost::math::pdf(table, a);
      double p = 0.0;
      for (unsigned x = a + b > 17 ? a + b - 17 : 0; x <= std::min(12u, a + b); ++x) {
        const double weight = boost::math::pdf(table, x);
        if (weight <= own * (1 + 1e-7)) p += weight;
      }
      EXPECT_NEAR(fisher_exact(a, 12, b, 17), p, 1e-12) << a << ", " << b;
    }
  }
}

core::RunRecord run_with(std::uint64_t failed, std::uint64_t trials, double ratio, bool model) {
  core::RunRecord record;
  record.command = "stress";
  record.subject = "toy";
  record.evidence.backend_is_model = model;
  core::ArmEvidence arm;
  arm.perturbation.name = "none";
  arm.result.trials = trials;
  arm.result.failed = failed;
  arm.result.outputs.resize(1);
  arm.result.outputs[0].name = "y";
  arm.result.outputs[0].compared_elements = 1;
  arm.result.outputs[0].worst_ratio = ratio;
  record.evidence.arms = {arm};
  record.verdict.outcome = failed > 0 ? core::Outcome::fail : core::Outcome::pass;
  if (failed > 0) {
    record.verdict.findings.emplace_back();
    record.verdict.findings[0].finding = core::FindingClass::tail;
  }
  return record;
}

std::vector<std::string> changes(const core::RunRecord& before, const core::RunRecord& after) {
  std::vector<std::string> texts;
  for (const RunChange& change : compare_runs(before, after).changes) {
    texts.push_back(std::string(name_of(change.kind)) + " " + change.text);
  }
  return texts;
}

TEST(Compare, SaysWhatGotWorseAndBetter) {
  const core::RunRecord clean = run_with(0, 1000, 0.25, false);
  EXPECT_THAT(changes(clean, clean), IsEmpty());
  EXPECT_FALSE(compare_runs(clean, clean).worse());

  const core::RunRecord broken = run_with(30, 1000, 7.0, false);
  EXPECT_THAT(
      changes(clean, broken),
      ElementsAre(HasSubstr("worse outcome: pass -> fail"), "worse finding: tail (error) is new",
                  HasSubstr("worse rate of arm none: 0 of 1000 (0 .. 0.383 %) -> 30 of 1000"),
                  "worse worst error of y: 0.25 -> 7 of the bound"));
  EXPECT_TRUE(compare_runs(clean, broken).worse());
  EXPECT_FALSE(compare_runs(broken, clean).worse());
  EXPECT_THAT(changes(broken, clean), testing::Contains("better finding: tail (error) is gone"));

  // Chance: 30 and 33 of 1,000 on a device, with other seeds.
  core::RunRecord other = run_with(33, 1000, 7.5, false);
  other.seed = 2;
  EXPECT_FALSE(compare_runs(broken, other).worse());
  EXPECT_THAT(changes(broken, other),
              ElementsAre("differs seed: 1 -> 2", HasSubstr("no evidence of a difference"),
                          "differs worst error of y: 7 -> 7.5 of the bound"));
  // The same trials on the simulator: no chance.
  EXPECT_THAT(changes(run_with(30, 1000, 7.0, true), run_with(31, 1000, 7.0, true)),
              ElementsAre(HasSubstr("the trials are the same ones")));
  EXPECT_TRUE(compare_runs(run_with(0, 9, 0.25, true), run_with(0, 9, 0.5, true)).worse());
  EXPECT_FALSE(compare_runs(run_with(0, 9, 0.5, true), run_with(0, 9, 0.51, true)).worse());

  core::RunRecord elsewhere = clean;
  elsewhere.evidence.arms[0].perturbation.name = "flush_l2";
  EXPECT_EQ(compare_runs(clean, clean).compared, 1u);
  EXPECT_EQ(compare_runs(clean, elsewhere).compared, 0u);

  core::RunRecord bench = clean;
  bench.command = "bench";
  EXPECT_THROW(compare_runs(clean, bench), core::UsageError);
  core::RunRecord slow = bench;
  bench.bench.resize(1);
  bench.bench[0].median_graph_us = 10.0;
  slow.bench = bench.bench;
  slow.bench[0].median_graph_us = 11.0;
  EXPECT_TRUE(compare_runs(bench, slow).worse());
  EXPECT_FALSE(compare_runs(slow, bench).worse());
  slow.bench[0].spread_graph = 0.05;
  EXPECT_FALSE(compare_runs(bench, slow).worse());
}

TEST(Compare, NothingComparedIsNotNoDifference) {
  const core::RunRecord clean = run_with(0, 9, 0.25, true), none = run_with(0, 0, 0.25, true);
  EXPECT_EQ(compare_runs(none, none).compared, 0u);
  EXPECT_EQ(compare_runs(clean, none).compared, 0u);
  // One arm of two ran before and is skipped now; one that is new is no loss.
  core::RunRecord two = clean;
  two.evidence.arms.push_back(two.evidence.arms[0]);
  two.evidence.arms[1].perturbation.name = "flush_l2";
  core::RunRecord skipped = two;
  skipped.evidence.arms[1].result.skipped = true;
  EXPECT_THAT(changes(two, skipped), testing::Contains(HasSubstr("no trials now: arm flush_l2")));
  EXPECT_TRUE(compare_runs(two, skipped).worse());
  EXPECT_FALSE(compare_runs(skipped, two).worse());
  EXPECT_TRUE(compare_runs(two, clean).worse());
  skipped.evidence.interrupted = true;
  EXPECT_FALSE(compare_runs(two, skipped).worse());
  // A failure has further arms, which a later pass does not plan; to skip a planned one is worse.
  two.verdict.outcome = core::Outcome::fail;
  skipped.evidence.interrupted = false;
  EXPECT_FALSE(compare_runs(two, clean).worse());
  EXPECT_TRUE(compare_runs(two, skipped).worse());
  core::RunRecord bench = clean;
  bench.bench.resize(1);
  bench.bench[0].name = "toy@clean";
  bench.bench[0].median_graph_us = 10.0;
  EXPECT_THAT(changes(bench, clean), ElementsAre(HasSubstr("toy@clean : measured before alone")));
}

TEST(Compare, OtherTrialsAreNotCalledTheSame) {
  const core::RunRecord before = run_with(30, 1000, 7.0, true);
  const auto after = [](auto change) {
    core::RunRecord record = run_with(31, 1000, 7.0, true);
    change(record);
    return record;
  };
  const auto same = testing::Contains(HasSubstr("the trials are the same ones"));
  EXPECT_THAT(changes(before, after([](auto&) {})), same);
  EXPECT_THAT(changes(before, after([](auto& r) { r.config = "stages=3"; })), Not(same));
  EXPECT_THAT(changes(before, after([](auto& r) { r.analysis_plan = "x"; })), Not(same));
  EXPECT_THAT(changes(before, after([](auto& r) {
                        r.provenance.command_line = "faultline stress toy --data zeros --seed 1";
                      })),
              testing::AllOf(Not(same), testing::Contains("differs the data mode")));
  EXPECT_THAT(
      changes(before, after([](auto& r) { r.evidence.arms[0].perturbation.delay_seed = 4; })),
      Not(same));
}

TEST(Compare, CleanRowsOfTheKillMatrix) {
  core::RunRecord right = run_with(0, 0, 0.0, true), open = right, failing = right, none = right;
  core::KillRow row;
  row.subject = "toy";
  row.variant = "clean";
  row.cells.resize(1);
  row.cells[0].ran = row.right = true;
  right.mutants.rows = {row};
  row.right = false;
  open.mutants.rows = {row};
  row.killed = true;
  failing.mutants.rows = {row};
  EXPECT_TRUE(compare_runs(right, open).worse());
  EXPECT_TRUE(compare_runs(open, failing).worse());
  EXPECT_FALSE(compare_runs(failing, open).worse());
  row.variant = "mutant";
  row.is_mutant = row.no_evidence = true;
  row.killed = false;
  none.mutants.rows = {row, right.mutants.rows[0]};
  EXPECT_THAT(changes(none, right),
              ElementsAre("worse toy@mutant: no evidence before, and has no row now"));
  EXPECT_FALSE(compare_runs(right, none).worse());
}

TEST(Compare, RowsOfTheKillMatrix) {
  core::RunRecord before = run_with(0, 0, 0.0, true), after = before;
  core::KillRow row;
  row.subject = "toy";
  row.variant = "m";
  row.is_mutant = row.killed = row.right = true;
  before.mutants.rows = {row};
  row.right = false;
  after.mutants.rows = {row};
  EXPECT_THAT(changes(before, after),
              ElementsAre("worse toy@m: killed, named right -> killed, named otherwise"));
  EXPECT_FALSE(compare_runs(after, before).worse());
}

}  // namespace
}  // namespace faultline::stress
