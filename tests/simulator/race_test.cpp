// SPDX-License-Identifier: Apache-2.0
// Every kind of race seen to be reported, and its ordered twin seen to be spared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.hpp"

namespace faultline::simulator::testing {
namespace {

using ::testing::HasSubstr;

const std::string kShared = ".shared .align 8 .b8 full[16];\n.shared .align 8 .b8 "
                            "empty[8];\n.shared .align 128 .b8 data[512];\n";

std::vector<RaceReport> races(const std::string& body, LaunchSetup setup = {}) {
  if (setup.threads == 32) setup.threads = 64;
  const auto run = launch(kernel(body, kShared), setup);
  EXPECT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  return run.report.races;
}

// Warp 0 writes, warp 1 reads (or the other way round), with `between` in between on both sides.
std::string exchange(const std::string& first, const std::string& between,
                     const std::string& second) {
  return "mov.u32 %r21, data; and.b32 %r2, %r31, 31; shl.b32 %r2, %r2, 2; add.u32 %r3, %r21, %r2;\n"
         "setp.ge.u32 %p7, %r31, 32;\n@%p7 bra SECOND;\n" +
         first + "\n" + between + "\nbra END;\nSECOND:\n" + between + "\n" + second + "\nEND:";
}
const char* kWrite = "st.shared.u32 [%r3], %r31;";
const char* kRead = "ld.shared.u32 %r4, [%r3];";
const char* kBarrier = "bar.sync 1, 64;";

TEST(SharedRaces, ReadAfterWrite) {
  const auto found = races(exchange(kWrite, "", kRead));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, RaceKind::read_after_write);
  EXPECT_EQ(found[0].buffer, "data");
  EXPECT_EQ(found[0].byte_begin, 0u);
  EXPECT_EQ(found[0].byte_end, 128u);
  EXPECT_EQ(found[0].count, 32u);
  EXPECT_EQ(found[0].first.actor, "cta 0 warp 0 lane 0");
  EXPECT_EQ(found[0].first.instruction, "st.shared.u32");
  EXPECT_THAT(found[0].missing_edge, HasSubstr("no barrier"));
  EXPECT_TRUE(races(exchange(kWrite, kBarrier, kRead)).empty());
}

TEST(SharedRaces, WriteAfterReadAndWriteAfterWrite) {
  auto found = races(exchange(kRead, "", kWrite));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, RaceKind::write_after_read);
  found = races(exchange(kWrite, "", kWrite));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, RaceKind::write_after_write);
  EXPECT_TRUE(races(exchange(kRead, kBarrier, kWrite)).empty());
  EXPECT_TRUE(races(exchange(kWrite, kBarrier, kWrite)).empty());
}

TEST(SharedRaces, AreFoundWhicheverWayTheyFallOut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    LaunchSetup setup;
    setup.options.policy = SchedulePolicy::random;
    setup.options.seed = seed;
    EXPECT_EQ(races(exchange(kWrite, "", kRead), setup).size(), 1u);
    EXPECT_TRUE(races(exchange(kWrite, kBarrier, kRead), setup).empty());
  }
}

TEST(SharedRaces, NeighbouringBytesDoNotConflict) {
  const std::string bytes =
      "mov.u32 %r21, data; add.u32 %r3, %r21, %r31; st.shared.u8 [%r3], %r31;";
  EXPECT_TRUE(races(bytes).empty());
  const std::string overlapping =
      "mov.u32 %r21, data; shr.u32 %r2, %r31, 5; add.u32 %r3, %r21, %r2;"
      "st.shared.u8 [%r3], %r31; bar.sync 0; xor.b32 %r2, %r2, 1;"
      "add.u32 %r3, %r21, %r2; ld.shared.u8 %r4, [%r3];";
  EXPECT_TRUE(races(overlapping).empty());
  const std::string wide = "mov.u32 %r21, data; setp.ge.u32 %p1, %r31, 32; @%p1 bra S; "
                           "st.shared.u8 [%r21+3], %r31; bra E;"
                           "S: ld.shared.u32 %r1, [%r21]; E:";
  EXPECT_EQ(races(wide).size(), 1u);
}

TEST(SharedRaces, LanesOfOneWarpNeedSyncwarp) {
  const std::string body = "mov.u32 %r21, data; shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2; "
                           "xor.b32 %r2, %r2, 4; add.u32 %r4, %r21, %r2;";
  const auto found = races(body + "st.shared.u32 [%r3], 1; ld.shared.u32 %r5, [%r4];");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].missing_edge, HasSubstr("__syncwarp"));
  EXPECT_TRUE(
      races(body + "st.shared.u32 [%r3], 1; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];").empty());
}

TEST(GlobalRaces, WithinAndAcrossCtas) {
  LaunchSetup setup;
  setup.ctas = 2;
  auto found = races("st.global.u32 [%rd31], %r31;", setup);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].buffer, "out");
  bool cross = false;
  for (const RaceReport& race : found) cross = cross || race.cross_cta;
  EXPECT_TRUE(cross || found[0].count > 1);
  EXPECT_TRUE(races("atom.global.add.u32 %r1, [%rd31], 1;", setup).empty());
  EXPECT_TRUE(races("ld.global.u32 %r1, [%rd30];", setup).empty());
}

// A block zeroes what all add to. Its own atomic comes between its store and the others', and hides
// neither.
TEST(GlobalRaces, AnAtomicDoesNotHideTheWriteBeforeIt) {
  const auto zero_and_add = [](const std::string& between) {
    return R"(
      mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; mul.wide.u32 %rd1, %r31, 4;
      add.u64 %rd1, %rd1, %rd31;
      @%p1 bra ADD;
      st.global.u32 [%rd1], 0;
      )" + between +
           R"(
      bar.sync 0;
      ADD:
      atom.global.add.u32 %r3, [%rd1], 1;
      )";
  };
  LaunchSetup setup;
  setup.ctas = 3;
  const auto found = races(zero_and_add(""), setup);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].cross_cta);
  // A fence orders nothing for those that look at no flag.
  EXPECT_FALSE(races(zero_and_add("membar.gl;"), setup).empty());
  setup.ctas = 1;
  EXPECT_TRUE(races(zero_and_add(""), setup).empty());
}

// In one block the barrier orders the zeros of a histogram with every addition to it.
TEST(SharedRaces, AnAtomicDoesNotHideTheWriteBeforeIt) {
  const auto zero_and_add = [](const std::string& between) {
    return R"(
      mov.u32 %r1, data; setp.ge.u32 %p1, %r31, 32;
      @%p1 bra ADD;
      setp.ne.u32 %p2, %r31, 0;
      @!%p2 st.shared.u32 [%r1], 0;
      bar.warp.sync 0xffffffff;
      ADD:
      )" + between +
           R"(
      atom.shared.add.u32 %r3, [%r1], 1;
      )";
  };
  EXPECT_FALSE(races(zero_and_add("")).empty());
  EXPECT_TRUE(races(zero_and_add("bar.sync 0;")).empty());
}

// The counter of the last-block pattern: fence, atomic, fence.
TEST(GlobalRaces, ReleaseAndAcquireOrderCtas) {
  const auto last_block = [](const std::string& fence) {
    return R"(
      mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r1, 6; add.u32 %r2, %r2, %r31;
      mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %rd31;
      st.global.u32 [%rd1], %r31;
      )" + fence +
           R"(
      bar.sync 0;
      setp.ne.u32 %p1, %r31, 0;
      @%p1 bra END;
      )" + fence +
           R"(
      atom.global.add.u32 %r3, [%rd31+2048], 1;
      )" + fence +
           R"(
      setp.ne.u32 %p2, %r3, 2;
      @%p2 bra END;
      ld.global.u32 %r4, [%rd31]; ld.global.u32 %r5, [%rd31+300]; ld.global.u32 %r6, [%rd31+600];
      END:)";
  };
  LaunchSetup setup;
  setup.ctas = 3;
  EXPECT_TRUE(races(last_block("membar.gl;"), setup).empty());
  EXPECT_FALSE(races(last_block(""), setup).empty());
}

// Block 0 sends a word and raises a flag; thread 0 of block 1 waits for the flag, and behind a
// barrier all of its threads read the word.
TEST(GlobalRaces, AMessageNeedsAFenceOnEitherSideOfItsFlag) {
  const auto message = [](const std::string& producer, const std::string& consumer,
                          const std::string& behind) {
    return R"(
      mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r31, 0; setp.ne.u32 %p2, %r1, 0;
      @%p2 bra RECEIVE;
      @%p1 bra END;
      st.global.u32 [%rd31], 7;
      )" + producer +
           R"(
      st.volatile.global.u32 [%rd31+512], 1;
      bra END;
      RECEIVE:
      @%p1 bra READ;
      POLL: ld.volatile.global.u32 %r2, [%rd31+512]; setp.ne.u32 %p3, %r2, 1; @%p3 bra POLL;
      )" + consumer +
           R"(
      READ: bar.sync 0;
      )" + behind +
           R"(
      ld.global.u32 %r3, [%rd31];
      END:)";
  };
  const std::string fence = "membar.gl;";
  LaunchSetup setup;
  setup.ctas = 2;
  EXPECT_TRUE(races(message(fence, fence, ""), setup).empty());
  EXPECT_FALSE(races(message("", "", ""), setup).empty());
  EXPECT_FALSE(races(message("", fence, ""), setup).empty());
  // A barrier is a fence for its own block only; a fence speaks for the thread that saw the flag.
  EXPECT_FALSE(races(message(fence, "", ""), setup).empty());
  EXPECT_FALSE(races(message(fence, "", fence), setup).empty());
}

// ---- asynchronous copies
// --------------------------------------------------------------------------

// Warp 1 loads `data` in bulk, warp 0 reads it, then warp 1 loads it again.
std::string pipeline(const std::string& wait_full, const std::string& after_read,
                     const std::string& wait_empty) {
  return R"(
    mov.u32 %r20, full; add.u32 %r23, %r20, 8; mov.u32 %r21, data; mov.u32 %r22, empty;
    setp.ne.u32 %p7, %r31, 0;
    @%p7 bra READY;
    mbarrier.init.shared::cta.b64 [%r20], 1;
    mbarrier.init.shared::cta.b64 [%r23], 1;
    mbarrier.init.shared::cta.b64 [%r22], 32;
    fence.proxy.async.shared::cta;
    READY: bar.sync 0;
    setp.lt.u32 %p6, %r31, 32;
    @%p6 bra CONSUMER;
    setp.ne.u32 %p5, %r31, 32;
    @%p5 bra END;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd30], 512, [%r20];
    W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], 0;
    @!%p1 bra W0;
    )" + wait_empty +
         R"(
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r23], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd30], 512, [%r23];
    bra END;
    CONSUMER:
    )" + wait_full +
         R"(
    shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2;
    ld.shared.u32 %r4, [%r3];
    )" + after_read +
         R"(
    mbarrier.arrive.shared::cta.b64 _, [%r22];
    END:)";
}
const std::string kWaitFull =
    "W1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], 0;\n@!%p1 bra W1;";
const std::string kWaitEmpty =
    "W2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r22], 0;\n@!%p1 bra W2;";
const std::string kProxyFence = "fence.proxy.async.shared::cta;";

TEST(AsyncRaces, CleanPipelineIsSparedOnManySchedules) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    LaunchSetup setup;
    setup.options.policy = static_cast<SchedulePolicy>(seed % 4);
    setup.options.lateness = static_cast<CopyLateness>(seed / 4 % 3);
    setup.options.seed = seed;
    ASSERT_TRUE(races(pipeline(kWaitFull, kProxyFence, kWaitEmpty), setup).empty()) << seed;
  }
}

TEST(AsyncRaces, ReadThatDoesNotWaitForTheCopy) {
  const auto found = races(pipeline("", kProxyFence, kWaitEmpty));
  ASSERT_FALSE(found.empty());
  bool seen = false;
  for (const RaceReport& race : found) {
    const bool copy_first = race.first.async_proxy && !race.second.async_proxy;
    const bool copy_second = race.second.async_proxy && !race.first.async_proxy;
    seen = seen || copy_first || copy_second;
  }
  EXPECT_TRUE(seen);
}

TEST(AsyncRaces, CopyThatDoesNotWaitForTheReaders) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    LaunchSetup setup;
    setup.options.policy = static_cast<SchedulePolicy>(seed % 4);
    setup.options.lateness = static_cast<CopyLateness>(seed / 4 % 3);
    setup.options.seed = seed;
    const auto found = races(pipeline(kWaitFull, kProxyFence, ""), setup);
    ASSERT_FALSE(found.empty()) << seed;
    EXPECT_FALSE(found[0].missing_proxy_fence);
    EXPECT_THAT(found[0].second.async_proxy ? found[0].second.actor : found[0].first.actor,
                HasSubstr("completing on mbarrier full"));
  }
}

TEST(AsyncRaces, MissingProxyFenceIsAnErrorOrANote) {
  LaunchSetup setup;
  auto found = races(pipeline(kWaitFull, "", kWaitEmpty), setup);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, RaceKind::write_after_read);
  EXPECT_TRUE(found[0].missing_proxy_fence);
  EXPECT_FALSE(found[0].note_only);
  EXPECT_TRUE(found[0].second.async_proxy);
  EXPECT_THAT(found[0].missing_edge, HasSubstr("fence.proxy.async"));
  setup.options.race = RaceMode::lenient;
  found = races(pipeline(kWaitFull, "", kWaitEmpty), setup);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].note_only);
}

// Generic writes before an asynchronous access need the fence in lenient mode, too.
TEST(AsyncRaces, GenericWriteThenBulkStoreNeedsTheFence) {
  const auto store = [](const std::string& fence) {
    return "mov.u32 %r21, data; shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], "
           "%r31;\n" +
           fence +
           "\nbar.sync 0; setp.ne.u32 %p7, %r31, 0; @%p7 bra END;\n"
           "cp.async.bulk.global.shared::cta.bulk_group [%rd31], [%r21], 256;\n"
           "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:";
  };
  LaunchSetup setup;
  setup.options.race = RaceMode::lenient;
  EXPECT_TRUE(races(store(kProxyFence), setup).empty());
  const auto found = races(store(""), setup);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, RaceKind::read_after_write);
  EXPECT_TRUE(found[0].missing_proxy_fence);
  EXPECT_FALSE(found[0].note_only);
  // A fence by one thread does not speak for writes it has not been told of.
  const auto one = races(
      "mov.u32 %r21, data; shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], "
      "%r31;\n"
      "setp.ne.u32 %p7, %r31, 0; @%p7 bra S; fence.proxy.async; S: bar.sync 0; @%p7 bra END;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd31], [%r21], 256;\n"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:",
      setup);
  EXPECT_EQ(one.size(), 1u);
}

TEST(AsyncRaces, CpAsyncNeedsItsWaitAndABarrier) {
  const auto body = [](const std::string& wait, const std::string& barrier) {
    return "mov.u32 %r21, data; shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2; mul.wide.u32 %rd1, "
           "%r31, 4; add.u64 %rd1, %rd1, %rd30;\n"
           "cp.async.ca.shared.global [%r3], [%rd1], 4; cp.async.commit_group;\n" +
           wait + "\n" + barrier +
           "\nxor.b32 %r2, %r2, 128; add.u32 %r3, %r21, %r2; ld.shared.u32 %r4, [%r3];";
  };
  EXPECT_TRUE(races(body("cp.async.wait_group 0;", "bar.sync 0;")).empty());
  EXPECT_FALSE(races(body("", "bar.sync 0;")).empty());
  EXPECT_FALSE(races(body("cp.async.wait_group 1;", "bar.sync 0;")).empty());
  EXPECT_FALSE(races(body("cp.async.wait_group 0;", "")).empty());
}

TEST(AsyncRaces, UseOfAnMbarrierBeforeItsInitIsVisible) {
  const auto found = races(R"(
    mov.u32 %r20, full;
    setp.ne.u32 %p7, %r31, 0;
    setp.ge.u32 %p6, %r31, 32;
    @%p6 bra POLL;
    @%p7 bra END;
    mbarrier.init.shared::cta.b64 [%r20], 64;
    st.volatile.shared.u32 [data], 1;
    bra END;
    POLL: ld.volatile.shared.u32 %r1, [data];  // relaxed, without a fence: orders nothing
    setp.ne.u32 %p1, %r1, 1;
    @%p1 bra POLL;
    mbarrier.arrive.shared::cta.b64 _, [%r20];
    END:)");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].buffer, "full");
}

// ---- determinism, replay, statistics
// --------------------------------------------------------------

TEST(Determinism, SameSeedGivesTheSameReport) {
  for (const auto policy : {SchedulePolicy::round_robin, SchedulePolicy::random,
                            SchedulePolicy::pct, SchedulePolicy::skew}) {
    LaunchSetup setup;
    setup.threads = 64;
    setup.options.policy = policy;
    setup.options.seed = 42;
    setup.options.record = true;
    const auto a = launch(kernel(pipeline(kWaitFull, "", ""), kShared), setup);
    const auto b = launch(kernel(pipeline(kWaitFull, "", ""), kShared), setup);
    EXPECT_EQ(a.report.races, b.report.races);
    EXPECT_EQ(a.report.schedule, b.report.schedule);
    EXPECT_EQ(a.report.visible_steps, b.report.visible_steps);
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.report.token, b.report.token);
  }
}

TEST(Determinism, ARecordedScheduleReplaysUnderAnotherPolicy) {
  LaunchSetup setup;
  setup.threads = 64;
  setup.options.policy = SchedulePolicy::random;
  setup.options.lateness = CopyLateness::lazy;
  setup.options.seed = 9;
  setup.options.record = true;
  const auto recorded = launch(kernel(pipeline(kWaitFull, "", ""), kShared), setup);
  ASSERT_FALSE(recorded.report.schedule.empty());
  const Schedule schedule = parse_schedule(to_text(recorded.report.schedule));
  EXPECT_EQ(schedule, recorded.report.schedule);
  setup.options.replay = &schedule;
  setup.options.policy = SchedulePolicy::round_robin;
  const auto replayed = launch(kernel(pipeline(kWaitFull, "", ""), kShared), setup);
  EXPECT_EQ(replayed.report.schedule, recorded.report.schedule);
  EXPECT_EQ(replayed.report.races, recorded.report.races);
}

TEST(Statistics, SeeStridesAndBankConflicts) {
  LaunchSetup setup;
  setup.options.access_statistics = true;
  setup.options.race = RaceMode::off;
  const auto run = launch(kernel(R"(
    mul.wide.u32 %rd1, %r31, 4; add.u64 %rd1, %rd1, %rd30; ld.global.u32 %r1, [%rd1];
    mul.wide.u32 %rd1, %r31, 64; add.u64 %rd1, %rd1, %rd30; ld.global.u32 %r1, [%rd1];
    mov.u32 %r21, data; shl.b32 %r2, %r31, 4; add.u32 %r3, %r21, %r2; ld.shared.u32 %r4, [%r3];)",
                                 kShared),
                          setup);
  ASSERT_EQ(run.report.accesses.size(), 3u);
  EXPECT_EQ(run.report.accesses[0].sectors, 4u);
  EXPECT_EQ(run.report.accesses[0].lane_stride_bytes, 4);
  EXPECT_EQ(run.report.accesses[1].sectors, 32u);
  EXPECT_EQ(run.report.accesses[1].ideal_sectors, 4u);
  EXPECT_EQ(run.report.accesses[1].lane_stride_bytes, 64);
  EXPECT_EQ(run.report.accesses[2].space, core::MemorySpace::shared);
  EXPECT_EQ(run.report.accesses[2].sectors, 4u);
  for (const core::AccessStatistics& access : run.report.accesses) {
    EXPECT_EQ(access.lanes, 32u);
    EXPECT_EQ(access.distinct_addresses, 32u);
  }
}

TEST(Statistics, SeeLanesThatShareAnAddress) {
  LaunchSetup setup;
  setup.options.access_statistics = true;
  setup.options.race = RaceMode::off;
  const auto run = launch(kernel(R"(
    and.b32 %r2, %r31, 7; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %rd30;
    ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;)",
                                 kShared),
                          setup);
  ASSERT_EQ(run.report.accesses.size(), 2u);
  for (const core::AccessStatistics& access : run.report.accesses) {
    EXPECT_EQ(access.lanes, 32u);
    EXPECT_EQ(access.distinct_addresses, 8u);
    EXPECT_EQ(access.sectors, 1u);
  }
}

}  // namespace
}  // namespace faultline::simulator::testing
