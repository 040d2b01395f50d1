// SPDX-License-Identifier: Apache-2.0
#include "arm_plan.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/core/launch_streams.hpp>

#include "co_resident.hpp"
#include "prepared_program.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faultline::cuda {
namespace {

/// One input of 1 MiB, one output of 256 elements, `blocks` blocks a trial.
core::TrialPlan make_plan(std::uint32_t blocks, std::uint32_t max_batch) {
  core::TrialPlan plan;
  plan.subject = "test";
  plan.max_batch = max_batch;
  plan.buffers.resize(2);
  plan.buffers[0].name = "x";
  plan.buffers[0].shape = {1 << 18};
  plan.buffers[1].name = "y";
  plan.buffers[1].shape = {256};
  plan.buffers[1].role = core::BufferRole::output;
  plan.buffers[1].tiles.rows = 256;
  plan.buffers[1].tiles.tile_rows = 16;
  plan.program = [blocks](std::uint32_t batch) {
    core::LaunchOperation launch;
    launch.grid[0] = blocks * batch;
    core::Program program;
    program.add(launch);
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>&) {
    return std::vector<core::ReferenceTensor>{};
  };
  plan.device_oracle = plan.program;
  return plan;
}

const DeviceLimits kH200{132, std::uint64_t{140} << 30, 228 * 1024};

ArmPlan planned(const core::TrialPlan& plan, std::uint64_t count, auto change) {
  core::TrialRequest request;
  request.count = count;
  change(request.perturbation);
  return plan_arm(plan, request, kH200);
}

TEST(ArmPlan, BatchReachesTheCtasPerSm) {
  const core::TrialPlan plan = make_plan(8, 1000);
  // ceil(3 * 132 / 8) = 50 trials make 400 blocks, at least 3 on each of 132 multiprocessors.
  const ArmPlan arm = planned(plan, 1000, [](auto& p) { p.ctas_per_sm = 3.0; });
  EXPECT_EQ(arm.batch, 50u);
  EXPECT_EQ(arm.launches, 20u);
  EXPECT_EQ(arm.note, "");
}

TEST(ArmPlan, BatchIsLimitedBySubjectAndCount) {
  const ArmPlan limited = planned(make_plan(8, 16), 1000, [](auto& p) { p.ctas_per_sm = 3.0; });
  EXPECT_EQ(limited.batch, 16u);
  EXPECT_THAT(limited.note, testing::HasSubstr("50 trials in one grid"));
  EXPECT_EQ(planned(make_plan(8, 16), 5, [](auto& p) { p.batch = 8; }).batch, 5u);
}

TEST(ArmPlan, TheLastLaunchMayBeSmaller) {
  const ArmPlan arm = planned(make_plan(8, 64), 130, [](auto& p) { p.batch = 64; });
  EXPECT_EQ(arm.launches, 3u);
}

TEST(ArmPlan, PoolRotatesAndFreshPoolMakesReferencesBeforehand) {
  const ArmPlan fixed = planned(make_plan(8, 64), 100, [](auto& p) { p.pool_bytes = 512u << 20; });
  EXPECT_EQ(fixed.input_sets, 512u);
  EXPECT_FALSE(fixed.oracle_per_launch);
  EXPECT_FALSE(fixed.references_per_set);
  const ArmPlan fresh = planned(make_plan(8, 64), 100, [](auto& p) {
    p.pool_bytes = 512u << 20;
    p.fresh_inputs = true;
  });
  EXPECT_TRUE(fresh.references_per_set);
  EXPECT_FALSE(fresh.oracle_per_launch);
  const ArmPlan small = planned(make_plan(8, 64), 100, [](auto& p) { p.pool_bytes = 1000; });
  EXPECT_EQ(small.input_sets, 1u);
  EXPECT_THAT(small.note, testing::HasSubstr("nothing rotates"));
}

TEST(ArmPlan, PoolFitsIntoTheDevice) {
  core::TrialRequest request;
  request.count = 10;
  request.perturbation.pool_bytes = std::uint64_t{1} << 40;
  DeviceLimits small = kH200;
  small.free_bytes = std::uint64_t{100} << 20;
  const ArmPlan arm = plan_arm(make_plan(8, 1), request, small);
  EXPECT_EQ(arm.input_sets, 79u);  // 80 MiB for sets of 1 MiB beside an output of 1 KiB
  EXPECT_THAT(arm.note, testing::HasSubstr("device memory"));
}

TEST(ArmPlan, BatchFitsIntoTheDevice) {
  DeviceLimits small = kH200;
  small.free_bytes = std::uint64_t{10}
                     << 20;  // 8 MiB of it for inputs of 1 MiB and outputs of 1 KiB
  core::TrialRequest request;
  request.count = 100;
  request.perturbation.batch = 64;
  const ArmPlan arm = plan_arm(make_plan(8, 64), request, small);
  EXPECT_EQ(arm.batch, 7u);
  EXPECT_EQ(arm.launches, 15u);
  EXPECT_THAT(arm.note, testing::HasSubstr("device memory"));
}

TEST(ArmPlan, SaysWhenTheHostComputesEachTrialsReference) {
  core::TrialPlan plan = make_plan(8, 1);
  plan.device_oracle = {};
  const auto note = [&](bool fresh) {
    return planned(plan, 10, [&](auto& p) { p.fresh_inputs = fresh; }).note;
  };
  EXPECT_EQ(note(false), "");
  EXPECT_THAT(note(true), testing::HasSubstr("the host computes the reference"));
}

TEST(ArmPlan, TakesManyWorkspacesAndRefusesTooMany) {
  core::TrialPlan plan = make_plan(8, 1);
  plan.buffers.resize(2 + 62);
  for (std::size_t i = 2; i < plan.buffers.size(); ++i) {
    plan.buffers[i].role = core::BufferRole::workspace;
  }
  plan.buffers.push_back(plan.buffers[0]);
  EXPECT_NO_THROW(planned(plan, 1, [](auto&) {}));
  plan.buffers[0].role = core::BufferRole::workspace;
  EXPECT_NO_THROW(planned(plan, 1, [](auto&) {}));
  plan.buffers.push_back(plan.buffers[0]);
  EXPECT_THROW(planned(plan, 1, [](auto&) {}), core::UsageError);
}

TEST(ArmPlan, GraphsHoldTheTrialsAskedFor) {
  const ArmPlan arm = planned(make_plan(8, 64), 2000, [](auto& p) {
    p.graph_trials = 500;
    p.batch = 4;
  });
  EXPECT_EQ(arm.launches_per_graph, 125u);
  const ArmPlan windows = planned(make_plan(8, 64), 2000, [](auto& p) {
    p.graph_trials = 500;
    p.pool_bytes = 100u << 20;
  });
  EXPECT_EQ(windows.launches_per_graph, 100u);  // one window of the pool's sets
}

TEST(ArmPlan, WhatCannotBeCapturedIsSkippedWithTheReason) {
  core::TrialPlan plan = make_plan(8, 1);
  plan.program = [](std::uint32_t) {
    core::Program program;
    program.add(core::LaunchOperation{});
    program.add(core::HostStepOperation{"step", [] {}});
    return program;
  };
  const ArmPlan steps = planned(plan, 10, [](auto& p) { p.graph_trials = 5; });
  EXPECT_TRUE(steps.skipped);
  EXPECT_THAT(steps.note, testing::HasSubstr("host steps"));
  core::TrialPlan no_oracle = make_plan(8, 1);
  no_oracle.device_oracle = {};
  const ArmPlan fresh = planned(no_oracle, 10, [](auto& p) {
    p.graph_trials = 5;
    p.fresh_inputs = true;
  });
  EXPECT_TRUE(fresh.skipped);
  EXPECT_THAT(fresh.note, testing::HasSubstr("device oracle"));
}

TEST(ArmPlan, RefusesWhatWouldCompareNothing) {
  const auto refused = [](const core::TrialPlan& plan, std::uint64_t count = 1) {
    EXPECT_THROW(planned(plan, count, [](auto&) {}), core::UsageError);
  };
  refused(make_plan(8, 1), 0);
  core::TrialPlan plan = make_plan(8, 1);
  plan.buffers[1].shape = {0};
  refused(plan);
  plan = make_plan(8, 1);
  plan.buffers.pop_back();
  refused(plan);
  plan = make_plan(8, 1);
  plan.buffers[1].tiles.rows = 255;
  refused(plan);
  plan = make_plan(8, 1);
  plan.reference = {};
  plan.device_oracle = {};
  refused(plan);
}

TEST(TimingPlan, ColdRotatesOverAtLeastThreeSetsAndSevenHundredMegabytes) {
  constexpr std::uint64_t kFree = std::uint64_t{100} << 30;
  EXPECT_EQ(timing_sets(2 << 20, true, kFree), 334u);
  EXPECT_EQ(timing_sets(235'000'000, true, kFree), 3u);
  EXPECT_EQ(timing_sets(822'000'000, true, kFree), 3u);
  EXPECT_EQ(timing_sets(2 << 20, false, kFree), 1u);
  EXPECT_EQ(timing_launches(334, 2 << 20), 334u);
  EXPECT_EQ(timing_launches(3, 235'000'000) % 3, 0u);
  EXPECT_GE(timing_launches(3, 235'000'000), 37u);
}

TEST(TimingPlan, FitsIntoMemoryAndTime) {
  constexpr std::uint64_t kBytes = std::uint64_t{40} << 30;
  EXPECT_EQ(timing_sets(kBytes, true, std::uint64_t{100} << 30), 2u);
  EXPECT_EQ(timing_sets(kBytes, true, kBytes - 1), 1u);
  EXPECT_EQ(timing_launches(7, 100'000'000, 30e6), 7u);  // a round takes more than 100 ms anyway
  EXPECT_EQ(timing_launches(1, 100'000'000, 10e6), 11u);
  EXPECT_EQ(timing_launches(1, 100'000, 100.0), 64u);
}

TEST(ArmPlan, FewerMultiprocessorsOnlyWhereTheSubjectCanDoWithThem) {
  const auto note_of = [](const core::TrialPlan& plan, auto change) {
    const ArmPlan arm = planned(plan, 100, change);
    EXPECT_EQ(arm.skipped, !arm.note.empty());
    return arm.note;
  };
  const auto left = [](std::uint32_t free) { return [free](auto& p) { p.free_sms = free; }; };
  core::TrialPlan plan = make_plan(8, 16);
  EXPECT_EQ(note_of(plan, left(1)), "");
  EXPECT_EQ(note_of(plan, left(131)), "");
  EXPECT_THAT(note_of(plan, left(132)), testing::HasSubstr("the device has 132"));
  EXPECT_THAT(note_of(plan,
                      [](auto& p) {
                        p.free_sms = 8;
                        p.co_resident = core::CoResident::memory_stress;
                      }),
              testing::HasSubstr("would fill the multiprocessors that are left"));
  EXPECT_THAT(note_of(plan,
                      [](auto& p) {
                        p.free_sms = 8;
                        p.reload_module = true;
                      }),
              testing::HasSubstr("loaded anew"));
  plan.program = [](std::uint32_t) {
    core::LaunchOperation launch;
    launch.cluster = {2, 1, 1};
    core::Program program;
    program.add(launch);
    return program;
  };
  EXPECT_EQ(note_of(plan, [](auto&) {}), "");
  EXPECT_THAT(note_of(plan, left(8)), testing::HasSubstr("neighbours"));
}

TEST(ArmPlan, ErrorsAreCountedInAtMostEveryEighthLaunchOfManyTrials) {
  const auto every = [](std::uint32_t wanted, std::uint32_t batch) {
    core::TrialRequest request;
    request.count = 100'000;
    request.histogram_every = wanted;
    request.perturbation.batch = batch;
    return plan_arm(make_plan(8, 1000), request, kH200).histogram_every;
  };
  EXPECT_EQ(every(32, 1), 32u);
  EXPECT_EQ(every(33, 1), 64u);
  EXPECT_EQ(every(32, 256), 2048u);
  EXPECT_EQ(every(32, 50), 512u);
  EXPECT_EQ(every(0, 256), 0u);
  EXPECT_EQ(every(1, 256), 1u) << "asked for all";
}

TEST(LaunchQueue, HoldsAsManyAsTakeATenthOfASecond) {
  const auto waits = [](std::uint64_t launches, double seconds_each) {
    LaunchQueue queue;
    std::vector<double> took;
    double since = 0.0;
    for (std::uint64_t i = 0; i < launches; ++i) {
      queue.issued();
      since += seconds_each;
      if (!queue.full()) continue;
      queue.drained(since);
      took.push_back(since);
      since = 0.0;
    }
    return took;
  };
  EXPECT_LT(waits(1'000'000, 10e-6).size(), 200u) << "seldom";
  const std::vector<double> slow = waits(200, 0.02);
  EXPECT_LT(*std::max_element(slow.begin(), slow.end()), 0.2);
  EXPECT_EQ(waits(20, 3.0).size(), 20u) << "one at a time";
}

TEST(ArmPlan, BlockersEnd) {
  const core::TrialPlan plan = make_plan(8, 16);
  EXPECT_FALSE(planned(plan, 100, [](auto& p) { p.blocker_ns = 1'000'000; }).skipped);
  EXPECT_TRUE(planned(plan, 100, [](auto& p) { p.blocker_ns = ~std::uint64_t{0}; }).skipped);
}

TEST(StreamBlocker, RotatesOverAllStreamsAndEachAlone) {
  for (const std::uint64_t trial : {0, 1, 2, 3}) EXPECT_EQ(chosen_blocker(trial, 1), 0u);
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t trial = 0; trial < 6; ++trial) chosen.push_back(chosen_blocker(trial, 2));
  EXPECT_THAT(chosen, testing::ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(HeldMultiprocessors, AreCountedAndNoneIsShared) {
  std::vector<std::uint32_t> held(32), found(32);
  held[0] = 0xfffffffe;
  held[4] = 0xf;
  found[0] = 1;
  HeldMultiprocessors count = count_multiprocessors(held, found);
  EXPECT_EQ(count.held, 35u);
  EXPECT_EQ(count.free, 1u);
  EXPECT_EQ(count.shared, 0u);
  found[4] = 2;
  EXPECT_EQ(why_not_held(count, 35), "");
  EXPECT_THAT(why_not_held(count, 36), testing::HasSubstr("36 multiprocessors were to be held"));
  count = count_multiprocessors(held, std::vector<std::uint32_t>(32));
  EXPECT_THAT(why_not_held(count, 35), testing::HasSubstr("no block was seen")) << "nothing looked";
  found[4] = 2;
  count = count_multiprocessors(held, found);
  EXPECT_EQ(count.shared, 1u);
  EXPECT_NE(why_not_held(count, 35), "");
}

TEST(StressBlocks, AreAsManyAsLeaveRoomForEveryLaunch) {
  const MultiprocessorSpace h200;
  const BlockNeeds stress{256, 40, 0};
  const auto beside = [&](const BlockNeeds& subject) {
    return stress_blocks_beside({{128, 32, 0}, subject}, stress, 3, h200);
  };
  EXPECT_EQ(beside({1024, 32, 48 * 1024}), 3u);
  EXPECT_EQ(beside({256, 168, 100 * 1024}), 2u) << "43008 of 65536 registers, 10240 a stress block";
  EXPECT_EQ(beside({1024, 64, 0}), 0u) << "all registers";
  EXPECT_EQ(beside({512, 128, 0}), 0u);
  EXPECT_EQ(beside({512, 96, 0}), 1u);
  const BlockNeeds small{256, 32, 0};
  EXPECT_EQ(stress_blocks_beside({{192, 168, 160'768}}, small, 3, h200), 2u)
      << "six warps: two of the four partitions hold two of them, 2 * 5376 + 3 * 2048 > 16384";
  EXPECT_EQ(stress_blocks_beside({{128, 168, 160'768}}, small, 3, h200), 3u);
  EXPECT_EQ(beside({256, 64, 224 * 1024}), 3u) << "225 + 3 KiB are all there is";
  EXPECT_EQ(beside({256, 64, 224 * 1024 + 1}), 2u);
  EXPECT_EQ(beside({256, 64, 227 * 1024}), 0u);
  EXPECT_EQ(stress_blocks_beside({}, stress, 3, h200), 3u);
}

TEST(SlowDown, IsThatOfTheMultiprocessorsThatAreInUse) {
  EXPECT_EQ(slow_down(1000, 132, 1), 132.0);
  EXPECT_EQ(slow_down(1000, 132, 66), 2.0);
  EXPECT_EQ(slow_down(4, 132, 1), 4.0);
  EXPECT_EQ(slow_down(4, 132, 8), 1.0) << "they fit";
}

TEST(ArmPlan, AddressesMoveByMultiplesOf16) {
  const core::TrialPlan plan = make_plan(8, 1);
  for (const std::uint32_t bytes : {0u, 16u, 240u, 4096u}) {
    EXPECT_EQ(planned(plan, 10, [&](auto& p) { p.offset_bytes = bytes; }).note, "");
  }
  try {
    planned(plan, 10, [](auto& p) { p.offset_bytes = 24; });
    FAIL() << "24 bytes were taken";
  } catch (const core::UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("offset_bytes=24"));
  }
}

TEST(ArmPlan, ChangesOfTheProgramAreNoneOfTheBackends) {
  EXPECT_TRUE(planned(make_plan(8, 1), 10, [](auto& p) { p.calls = 2; }).skipped);
  EXPECT_FALSE(planned(make_plan(8, 1), 10, [](auto& p) { p.dirty_shared = true; }).skipped);
}

TEST(ArmPlan, SharedMemoryIsNotDirtiedBesideAStressKernel) {
  const ArmPlan arm = planned(make_plan(8, 1), 10, [](auto& p) {
    p.dirty_shared = true;
    p.co_resident = core::CoResident::memory_stress;
  });
  EXPECT_TRUE(arm.skipped);
  EXPECT_THAT(arm.note, testing::HasSubstr("a stress kernel holds shared memory"));
}

/// Launches in these streams, some of them captured in stream 0 or 1 and replayed in stream 0.
core::Program launches_in(const std::vector<core::StreamId>& streams,
                          const std::vector<core::StreamId>& captured) {
  core::Program program;
  program.add(core::FillOperation{}, 5);  // no launch of the subject
  if (!captured.empty()) {
    program.add(core::CaptureBeginOperation{0}, captured.front());
    for (const core::StreamId stream : captured) program.add(core::LaunchOperation{}, stream);
    program.add(core::CaptureEndOperation{0}, captured.front());
    program.add(core::ReplayOperation{0, {}}, 0);
  }
  for (const core::StreamId stream : streams) program.add(core::LaunchOperation{}, stream);
  return program;
}

TEST(ArmPlan, SharedMemoryIsDirtiedWhereAllLaunchesAreInOneStream) {
  const auto skipped = [](const std::vector<core::StreamId>& streams,
                          const std::vector<core::StreamId>& captured = {}) {
    core::TrialPlan plan = make_plan(8, 1);
    plan.program = [=](std::uint32_t) { return launches_in(streams, captured); };
    const ArmPlan arm = planned(plan, 10, [](auto& p) { p.dirty_shared = true; });
    EXPECT_EQ(arm.skipped, arm.note == core::kSeveralStreamsNotDirtied) << arm.note;
    EXPECT_FALSE(planned(plan, 10, [](auto&) {}).skipped) << "it alone";
    return arm.skipped;
  };
  EXPECT_FALSE(skipped({0, 0}));
  EXPECT_FALSE(skipped({3, 3}));
  EXPECT_TRUE(skipped({0, 1})) << "the first may wait for what the second writes";
  EXPECT_FALSE(skipped({0}, {1, 1})) << "captured there, run in stream 0";
  EXPECT_TRUE(skipped({1}, {0}));
  EXPECT_TRUE(skipped({}, {0, 1})) << "branches of a graph run side by side";
}

}  // namespace
}  // namespace faultline::cuda
