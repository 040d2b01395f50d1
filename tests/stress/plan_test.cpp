// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/stress/campaign_plan.hpp"
#include "faultline/stress/ptx_delay.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using stress::default_plan;
using stress::PlannedArm;
using testing::HasSubstr;

core::BackendInfo device() {
  core::BackendInfo info;
  info.name = "cuda";
  info.multiprocessors = 132;
  return info;
}

core::BackendInfo model() {
  core::BackendInfo info;
  info.name = "simulator";
  info.is_model = true;
  return info;
}

const PlannedArm* find_arm(const stress::CampaignPlan& plan, const std::string& name) {
  for (const PlannedArm& arm : plan.arms) {
    if (arm.perturbation.name == name) return &arm;
  }
  return nullptr;
}

TEST(DevicePlan, HasEveryPromisedArmMostPowerfulFirst) {
  const kernels::Subject subject = toy_subject();
  const stress::CampaignPlan plan =
      default_plan(device(), toy_trial(subject).plan, {.trials = 5000});
  for (const char* name : {"none",
                           "sync_each",
                           "spin_1us",
                           "spin_10us",
                           "spin_100us",
                           "spin_1ms",
                           "sleep_1ms",
                           "sleep_5ms",
                           "reload_module",
                           "called_twice",
                           "cold_pool_20mb",
                           "cold_pool_32mb",
                           "cold_pool_512mb",
                           "flush_l2",
                           "memory_stress",
                           "memory_stress_fresh",
                           "memory_stress_cold",
                           "compute_stress",
                           "compute_stress_fresh",
                           "compute_stress_cold",
                           "one_cta_per_sm",
                           "three_ctas_per_sm",
                           "graph_hot",
                           "graph_cold",
                           "batched",
                           "sm_limit_1",
                           "sm_limit_8",
                           "sm_limit_half",
                           "blocker_2us",
                           "blocker_50us",
                           "blocker_1ms"}) {
    EXPECT_NE(find_arm(plan, name), nullptr) << name;
  }
  std::vector<std::string> first;
  for (int i = 0; i < 3; ++i)
    first.push_back(plan.arms[static_cast<std::size_t>(i)].perturbation.name);
  EXPECT_THAT(first, testing::ElementsAre("memory_stress", "flush_l2", "cold_pool_512mb"));
  std::set<std::string> names;
  for (const PlannedArm& arm : plan.arms) names.insert(arm.perturbation.name);
  EXPECT_EQ(names.size(), plan.arms.size());
  EXPECT_EQ(plan.race, core::RaceMode::off);
}

TEST(DevicePlan, WaitingArmsGetFewerTrialsAndSaySo) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  stress::CampaignPlan plan = default_plan(device(), trial, {.trials = 5000});
  EXPECT_EQ(find_arm(plan, "memory_stress")->trials, 5000u);
  EXPECT_EQ(find_arm(plan, "spin_1ms")->trials, 5000u);
  EXPECT_EQ(find_arm(plan, "sleep_5ms")->trials, 1000u);
  EXPECT_THAT(stress::to_text(plan), HasSubstr("1000 trials only, which wait 5 s in all"));
  EXPECT_EQ(find_arm(plan, "sm_limit_1")->trials, 100u);
  EXPECT_EQ(find_arm(plan, "sm_limit_half")->trials, 5000u);
  EXPECT_EQ(find_arm(plan, "sm_limit_half")->perturbation.free_sms, 66u);
  EXPECT_EQ(
      default_plan(device(), trial, {.trials = 50000, .arms = {"blocker_1ms"}}).arms[0].trials,
      5000u);
  plan = default_plan(device(), trial, {.trials = 3});
  for (const PlannedArm& arm : plan.arms) EXPECT_EQ(arm.trials, 3u);
}

TEST(DevicePlan, SaysWhatItLeavesOut) {
  const kernels::Subject subject = toy_subject();
  core::TrialPlan trial = toy_trial(subject).plan;
  trial.max_batch = 1;
  trial.buffers[0].pooled = false;
  const stress::CampaignPlan plan = default_plan(device(), trial, {});
  EXPECT_EQ(find_arm(plan, "batched"), nullptr);
  EXPECT_EQ(find_arm(plan, "graph_cold"), nullptr);
  const std::string text = stress::to_text(plan);
  EXPECT_THAT(text, HasSubstr("left out: batched: the subject runs one trial in a grid"));
  EXPECT_THAT(text, HasSubstr("left out: graph_cold: the subject names no input"));
}

/// The trial with one kernel in the place of its own.
core::TrialPlan with_kernel(core::TrialPlan trial, const std::string& body, std::uint32_t cluster) {
  auto module = std::make_shared<core::Module>();
  module->hash = "0";
  module->ptx = ".visible .entry k(\n)\n{\n" + body + "ret;\n}\n";
  trial.program = [module, cluster](std::uint32_t) {
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = "k";
    launch.cluster[0] = cluster;
    core::Program program;
    program.add(launch);
    return program;
  };
  return trial;
}

TEST(DevicePlan, DirtiesSharedMemoryWhereThereIsSome) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  const auto planned = [&](const core::TrialPlan& t) { return default_plan(device(), t, {}); };
  const stress::CampaignPlan none = planned(with_kernel(trial, "bar.sync 0;\n", 1));
  EXPECT_EQ(find_arm(none, "dirty_shared"), nullptr);
  EXPECT_THAT(stress::to_text(none),
              HasSubstr("left out: dirty_shared: no launch uses shared memory"));
  const core::TrialPlan partials = with_kernel(trial, ".shared .align 4 .b8 partials[16];\n", 1);
  const stress::CampaignPlan declared = planned(partials);
  ASSERT_NE(find_arm(declared, "dirty_shared"), nullptr);
  EXPECT_TRUE(find_arm(declared, "dirty_shared")->perturbation.dirty_shared);
  EXPECT_EQ(find_arm(default_plan(model(), partials, {}), "dirty_shared"), nullptr)
      << "the simulator does it in every trial";
}

TEST(DevicePlan, DirtiesNoSharedMemoryOfLaunchesThatMayOverlap) {
  const kernels::Subject subject = toy_subject();
  core::TrialPlan trial =
      with_kernel(toy_trial(subject).plan, ".shared .align 4 .b8 partials[16];\n", 1);
  const core::LaunchOperation launch =
      std::get<core::LaunchOperation>(trial.program(1).operations.at(0).what);
  for (const core::StreamId second : {0u, 1u}) {
    trial.program = [launch, second](std::uint32_t) {
      core::Program program;
      program.add(launch, 0);
      program.add(launch, second);
      return program;
    };
    const stress::CampaignPlan plan = default_plan(device(), trial, {});
    EXPECT_EQ(find_arm(plan, "dirty_shared") != nullptr, second == 0);
    EXPECT_EQ(stress::to_text(plan).find("left out: dirty_shared: its launches are in several "
                                         "streams") != std::string::npos,
              second == 1);
    EXPECT_EQ(stress::why_not_dirtied(trial.program(1)).empty(), second == 0);
  }
}

TEST(SharedMemory, IsThatOfTheKernelsThatAreLaunched) {
  auto module = std::make_shared<core::Module>();
  module->ptx = ".visible .entry sum_twice(\n.param .u64 x\n)\n{\n"
                ".shared .align 4 .b8 partials[16];\n{ ret; }\n}\n"
                ".visible .entry sum(\n.param .u64 x\n)\n{\n{ bar.sync 0; }\nret;\n}\n"
                ".visible .entry caller()\n{\ncall.uni f, ();\nret;\n}\n";
  const auto uses = [&](const char* entry, std::uint32_t dynamic) {
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = entry;
    launch.dynamic_shared_bytes = dynamic;
    core::Program program;
    program.add(core::FillOperation{});
    program.add(launch);
    return stress::uses_shared_memory(program);
  };
  EXPECT_TRUE(uses("sum_twice", 0));
  EXPECT_FALSE(uses("sum", 0));
  EXPECT_TRUE(uses("sum", 16));
  EXPECT_TRUE(uses("caller", 0)) << "what it calls may be the one";
}

TEST(DevicePlan, DelaysWhatTheTextHas) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  const stress::CampaignPlan shared =
      default_plan(device(), with_kernel(trial, "ld.shared.u32 %r1, [%r2];\n", 1), {});
  EXPECT_EQ(find_arm(shared, "ptx_delay"), nullptr);
  ASSERT_NE(find_arm(shared, "ptx_delay_shared"), nullptr);
  EXPECT_EQ(find_arm(shared, "ptx_delay_shared")->perturbation.delay_sites,
            bit(stress::DelaySite::shared));
  EXPECT_NE(find_arm(shared, "ptx_delay_shared_2"), nullptr);
  const stress::CampaignPlan barrier =
      default_plan(device(), with_kernel(trial, "bar.sync 0;\n", 1), {});
  EXPECT_NE(find_arm(barrier, "ptx_delay"), nullptr);
  EXPECT_EQ(find_arm(barrier, "ptx_delay_shared"), nullptr);
  EXPECT_THAT(
      stress::to_text(barrier),
      HasSubstr("left out: ptx_delay_shared: the PTX of its kernels has no access to shared "
                "memory that can be delayed"));
}

TEST(DevicePlan, LeavesBlocksThatWaitForOthersAllMultiprocessors) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  const auto why = [&](const std::string& body, std::uint32_t cluster) {
    const stress::CampaignPlan plan = default_plan(device(), with_kernel(trial, body, cluster), {});
    EXPECT_EQ(find_arm(plan, "sm_limit_8") == nullptr, find_arm(plan, "sm_limit_1") == nullptr);
    for (const std::string& reason : plan.left_out) {
      if (reason.rfind("sm_limit_8: ", 0) == 0) return reason.substr(12);
    }
    EXPECT_NE(find_arm(plan, "sm_limit_8"), nullptr);
    return std::string();
  };
  EXPECT_EQ(why("", 1), "");
  EXPECT_THAT(why("", 2), HasSubstr("neighbours"));
  const std::string back = "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $L1;\n";
  EXPECT_THAT(why("$L1:\nld.volatile.global.u32 %r1, [%rd1];\n" + back, 1),
              HasSubstr("blocks may wait for other blocks"));
  EXPECT_THAT(why("$L1:\nld.global.cv.u32 %r5, [%rd1];\n" + back, 1), HasSubstr("ld.global.cv"));
  // A load of L2 or of any kind, where the loop goes on by what it gave.
  EXPECT_THAT(why("$L1:\nld.global.cg.u32 %r1, [%rd1];\n" + back, 1), HasSubstr("ld.global.cg"));
  EXPECT_THAT(why("$L1:\nld.global.v2.u32 {%r7, %r8}, [%rd1];\nadd.s32 %r1, %r8, -1;\n" + back, 1),
              HasSubstr("ld.global.v2"));
  EXPECT_THAT(why("$L1:\nld.u32 %r2, [%rd1];\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra $L2;\n"
                  "bra $L1;\n$L2:\n",
                  1),
              HasSubstr("ld.u32"));
  EXPECT_EQ(why("$L1:\nld.global.cg.u32 %r2, [%rd1];\nst.global.u32 [%r1], %r2;\n" + back, 1), "")
      << "data";
  EXPECT_EQ(why("$L1:\nld.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra $L2;\n"
                "add.s32 %r3, %r3, 1;\n$L2:\n" +
                    back,
                1),
            "")
      << "only what the loop does with it";
  EXPECT_EQ(why("ld.global.u32 %r2, [%rd1];\n$L1:\nadd.s32 %r1, %r1, -1;\n" + back, 1), "");
  EXPECT_THAT(why("$L1:\natom.global.cas.b32 %r1, [%rd1], 0, 1;\n" + back, 1),
              HasSubstr("atom.global.cas.b32 in k"));
  // Once, not in a loop; a sum; shared memory, which is the block's own.
  EXPECT_EQ(why("ld.volatile.global.u32 %r1, [%rd1];\n$L1:\n" + back, 1), "");
  EXPECT_EQ(why("$L1:\natom.global.add.f32 %f1, [%rd1], %f2;\n" + back, 1), "");
  EXPECT_EQ(why("$L1:\nld.volatile.shared.u32 %r1, [%r2];\n" + back, 1), "");
  EXPECT_EQ(why("ld.volatile.global.u32 %r1, [%rd1];\n@%p1 bra $L1;\n$L1:\n", 1), "");
}

TEST(SimulatorPlan, SaysThatAnArmIsForADevice) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  for (const char* name : {"blocker_50us", "sm_limit_half", "memory_stress"}) {
    try {
      default_plan(model(), trial, {.arms = {name}});
      ADD_FAILURE() << name;
    } catch (const core::UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr(std::string(name) + "' is a CUDA arm"));
    }
  }
}

TEST(SimulatorPlan, RunsEveryArmThatItIsToldTo) {
  const kernels::Subject subject = toy_subject();
  core::BackendInfo model;
  model.is_model = true;
  stress::PlanOptions options;
  options.arms = {"random_random", "pct_lazy", "skew_eager"};
  options.trials = 3;
  EXPECT_EQ(default_plan(model, toy_trial(subject).plan, options).arms.size(), 3u);
  options.trials = 2;
  EXPECT_THROW(default_plan(model, toy_trial(subject).plan, options), core::UsageError);
}

TEST(SimulatorPlan, SpreadsTheTotalOverPoliciesAndLateness) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  for (std::uint64_t total : {1u, 5u, 12u, 2000u}) {
    const stress::CampaignPlan plan = default_plan(model(), trial, {.trials = total});
    EXPECT_EQ(plan.total_trials(), total);
  }
  const stress::CampaignPlan plan = default_plan(model(), trial, {});
  EXPECT_EQ(plan.total_trials(), 2000u);
  EXPECT_EQ(plan.arms.size(), 13u);
  // A few trials of two calls each: they cost 3 % in all.
  EXPECT_EQ(find_arm(plan, "called_twice")->trials, 31u);
  EXPECT_EQ(find_arm(default_plan(model(), trial, {.trials = 52}), "called_twice")->trials, 4u);
  EXPECT_EQ(find_arm(default_plan(model(), trial, {.trials = 12}), "called_twice"), nullptr);
  EXPECT_EQ(default_plan(model(), trial, {.trials = 9, .arms = {"called_twice"}}).arms[0].trials,
            9u);
  EXPECT_EQ(plan.race, core::RaceMode::strict);
  EXPECT_TRUE(find_arm(plan, "round_robin_lazy")->perturbation.fresh_inputs);
  EXPECT_FALSE(find_arm(plan, "random_random")->perturbation.fresh_inputs);
}

TEST(Plan, TakesTheArmsAskedForWhateverTheNumberOfTrials) {
  const kernels::Subject subject = toy_subject();
  core::TrialPlan trial = toy_trial(subject).plan;
  for (const std::uint64_t trials : {1u, 5u, 12u, 2000u}) {
    const stress::CampaignPlan plan =
        default_plan(model(), trial, {.trials = trials, .arms = {"round_robin_eager"}});
    ASSERT_EQ(plan.arms.size(), 1u) << trials;
    EXPECT_EQ(plan.arms[0].perturbation.name, "round_robin_eager");
    EXPECT_EQ(plan.arms[0].trials, trials);
  }
  EXPECT_EQ(default_plan(device(), trial, {.arms = {"none", "flush_l2"}}).arms.size(), 2u);
  EXPECT_THROW(default_plan(model(), trial, {.arms = {"none"}}), core::UsageError);
  trial.max_batch = 1;
  EXPECT_THROW(default_plan(device(), trial, {.arms = {"batched"}}), core::UsageError);
}

TEST(Plan, IsAPureFunction) {
  const kernels::Subject subject = toy_subject();
  const core::TrialPlan trial = toy_trial(subject).plan;
  EXPECT_EQ(stress::to_text(default_plan(device(), trial, {})),
            stress::to_text(default_plan(device(), trial, {})));
}

}  // namespace
}  // namespace faultline::test
