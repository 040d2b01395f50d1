// SPDX-License-Identifier: Apache-2.0
// Divergence, warp operations, memory, barriers, mbarriers, copies, calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.hpp"

namespace faultline::simulator::testing {
namespace {

using ::testing::HasSubstr;

// Address of this thread's word of `out` in %rd20.
const std::string kOutAddress = "mul.wide.u32 %rd20, %r31, 4;\nadd.u64 %rd20, %rd20, %rd31;\n";

TEST(Divergence, LanesTakeTheirOwnPathAndMeetAgain) {
  const auto run = launch(kernel(kOutAddress + R"(
    and.b32 %r1, %r31, 1;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra EVEN;
    mov.u32 %r2, 100;
    bra JOIN;
    EVEN: mov.u32 %r2, 200;
    JOIN: activemask.b32 %r3;
    add.u32 %r2, %r2, %r31;
    st.global.u32 [%rd20], %r2;
    st.global.u32 [%rd20+128], %r3;)"));
  for (std::uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(run.out[l], (l % 2 ? 100 : 200) + l);
    EXPECT_EQ(run.out[32 + l], 0xffffffffu);
  }
}

TEST(Divergence, LoopsOfDifferentLengthAndBranchTables) {
  const auto run = launch(kernel(kOutAddress + R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    LOOP: setp.gt.u32 %p1, %r1, %r31;
    @%p1 bra DONE;
    add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1;
    bra LOOP;
    DONE: and.b32 %r3, %r31, 3;
    TABLE: .branchtargets A, B, C, D;
    brx.idx %r3, TABLE;
    A: add.u32 %r2, %r2, 1000; bra END;
    B: add.u32 %r2, %r2, 2000; bra END;
    C: add.u32 %r2, %r2, 3000; bra END;
    D: add.u32 %r2, %r2, 4000;
    END: st.global.u32 [%rd20], %r2;)"));
  for (std::uint32_t l = 0; l < 32; ++l)
    EXPECT_EQ(run.out[l], l * (l + 1) / 2 + 1000 * (l % 4 + 1));
}

// One lane spins on what another lane of the same warp writes later in program order.
TEST(Divergence, SpinningLaneDoesNotStarveItsNeighbour) {
  const auto run = launch(kernel(R"(
    setp.ne.u32 %p1, %r31, 0;
    @%p1 bra OTHER;
    SPIN: ld.volatile.global.u32 %r1, [%rd31];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra SPIN;
    st.global.u32 [%rd31+4], %r1;
    bra END;
    OTHER: setp.ne.u32 %p3, %r31, 1;
    @%p3 bra END;
    st.volatile.global.u32 [%rd31], 7;
    END:)"));
  EXPECT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_EQ(run.out[1], 7u);
}

TEST(WarpOperations, ShufflesVotesAndReductions) {
  const auto run = launch(kernel(kOutAddress + R"(
    shfl.sync.down.b32 %r1|%p1, %r31, 4, 31, -1;
    st.global.u32 [%rd20], %r1;
    shfl.sync.bfly.b32 %r1, %r31, 1, 31, -1;
    st.global.u32 [%rd20+128], %r1;
    shfl.sync.up.b32 %r1, %r31, 2, 0, -1;
    st.global.u32 [%rd20+256], %r1;
    shfl.sync.idx.b32 %r1, %r31, 3, 0x181f, -1;
    st.global.u32 [%rd20+384], %r1;
    setp.lt.u32 %p2, %r31, 5;
    vote.sync.ballot.b32 %r1, %p2, -1;
    st.global.u32 [%rd20+512], %r1;
    redux.sync.add.u32 %r1, %r31, -1;
    st.global.u32 [%rd20+640], %r1;
    and.b32 %r2, %r31, 1;
    match.any.sync.b32 %r1, %r2, -1;
    st.global.u32 [%rd20+768], %r1;
    elect.sync %r1|%p3, -1;
    selp.b32 %r1, 1, 0, %p3;
    st.global.u32 [%rd20+896], %r1;)"));
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  for (std::uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(run.out[l], l + 4 < 32 ? l + 4 : l);
    EXPECT_EQ(run.out[32 + l], l ^ 1);
    EXPECT_EQ(run.out[64 + l], l >= 2 ? l - 2 : l);
    EXPECT_EQ(run.out[96 + l], (l & 24) + 3);
    EXPECT_EQ(run.out[128 + l], 31u);
    EXPECT_EQ(run.out[160 + l], 496u);
    EXPECT_EQ(run.out[192 + l], l % 2 ? 0xaaaaaaaau : 0x55555555u);
    EXPECT_EQ(run.out[224 + l], l == 0 ? 1u : 0u);
  }
}

TEST(Memory, VectorsSignExtensionAndLocalFrames) {
  LaunchSetup setup;
  setup.in[0] = 0x8080ff01;
  const auto run = launch(kernel(kOutAddress + R"(
    ld.global.s8 %r1, [%rd30+1];
    st.global.u32 [%rd31], %r1;
    ld.global.u16 %r1, [%rd30+2];
    st.global.u32 [%rd31+4], %r1;
    mov.u64 %rd1, frame;
    mul.lo.u32 %r2, %r31, 3;
    st.local.u32 [%rd1+4], %r2;
    cvta.local.u64 %rd2, %rd1;
    ld.u32 %r3, [%rd2+4];
    mul.wide.u32 %rd3, %r31, 16; add.u64 %rd3, %rd3, %rd31;
    st.global.v4.u32 [%rd3+512], {%r3, %r2, %r31, 9};)",
                                 ".local .align 8 .b8 frame[16];\n"),
                          setup);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_EQ(run.out[0], 0xffffffffu);
  EXPECT_EQ(run.out[1], 0x8080u);
  for (std::uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(run.out[128 + 4 * l], 3 * l);
    EXPECT_EQ(run.out[128 + 4 * l + 3], 9u);
  }
}

TEST(Memory, AtomicsAreExactUnderEveryPolicy) {
  for (const auto policy : {SchedulePolicy::round_robin, SchedulePolicy::random,
                            SchedulePolicy::pct, SchedulePolicy::skew}) {
    LaunchSetup setup;
    setup.threads = 64;
    setup.ctas = 3;
    setup.options.policy = policy;
    const auto run = launch(kernel(R"(
      atom.global.add.u32 %r1, [%rd31], 1;
      red.global.max.u32 [%rd31+4], %r1;
      LOCK: atom.global.cas.b32 %r2, [%rd31+8], 0, 1;
      setp.ne.u32 %p1, %r2, 0;
      @%p1 bra LOCK;
      ld.volatile.global.u32 %r3, [%rd31+12];
      add.u32 %r3, %r3, 1;
      st.volatile.global.u32 [%rd31+12], %r3;
      membar.gl;
      atom.global.exch.b32 %r2, [%rd31+8], 0;)"),
                            setup);
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    EXPECT_EQ(run.out[0], 192u);
    EXPECT_EQ(run.out[1], 191u);
    EXPECT_EQ(run.out[3], 192u);
    EXPECT_TRUE(run.report.races.empty());
  }
}

TEST(Memory, FaultsNameTheBufferAndThePlace) {
  auto run = launch(kernel(".loc 1 12 1\nadd.u64 %rd1, %rd31, 4096;\nst.global.u32 [%rd1], %r1;"));
  EXPECT_EQ(run.report.status, ExecutionStatus::fault);
  EXPECT_THAT(run.report.message, HasSubstr("at byte 4096 of buffer out (4096 bytes)"));
  EXPECT_THAT(run.report.message,
              HasSubstr("kernels/test.cu:12 [st.global.u32] by cta 0 warp 0 lane 0"));
  run = launch(kernel("ld.global.v2.u32 {%r1, %r2}, [%rd30+4];"));
  EXPECT_THAT(run.report.message, HasSubstr("misaligned"));
  run = launch(
      kernel("mov.u32 %r1, 64;\nst.shared.u32 [%r1], %r1;", ".shared .align 4 .b8 b[64];\n"));
  EXPECT_THAT(run.report.message, HasSubstr("outside the 64 bytes of shared memory"));
  run = launch(kernel("trap;"));
  EXPECT_THAT(run.report.message, HasSubstr("trap"));
}

TEST(Memory, BudgetEndsALoopThatDoesNotEnd) {
  LaunchSetup setup;
  setup.options.step_budget = 10000;
  const auto run = launch(kernel("L: add.u32 %r1, %r1, 1;\nbra L;"), setup);
  EXPECT_EQ(run.report.status, ExecutionStatus::timeout);
}

TEST(Calls, FunctionsWithParametersAndPrintf) {
  const std::string functions = R"(
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[8] = {105, 61, 37, 100, 10, 0};
.func (.param .b32 result) twice(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
)";
  const auto run = launch(kernel(kOutAddress + R"(
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r31; call.uni (y), twice, (x);
      ld.param.b32 %r1, [y]; }
    st.global.u32 [%rd20], %r1;
    setp.ne.u32 %p1, %r31, 3;
    @%p1 bra END;
    mov.u64 %rd1, frame; st.local.u32 [%rd1], %r1; cvta.local.u64 %rd2, %rd1;
    mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;
    { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd4; st.param.b64 [b], %rd2;
      call.uni (r), vprintf, (a, b); ld.param.b32 %r2, [r]; }
    END:)",
                                 ".local .align 8 .b8 frame[16];\n", functions));
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  for (std::uint32_t l = 0; l < 32; ++l) EXPECT_EQ(run.out[l], 2 * l);
  EXPECT_EQ(run.report.output, "i=6\n");
}

// Two warps exchange values through shared memory and a barrier; named barriers with counts.
TEST(Barriers, OrderWarpsUnderEveryPolicy) {
  for (const auto policy : {SchedulePolicy::round_robin, SchedulePolicy::random,
                            SchedulePolicy::pct, SchedulePolicy::skew}) {
    LaunchSetup setup;
    setup.threads = 128;
    setup.options.policy = policy;
    const auto run = launch(kernel(kOutAddress + R"(
      mov.u32 %r1, b; shl.b32 %r2, %r31, 2; add.u32 %r3, %r1, %r2;
      st.shared.u32 [%r3], %r31;
      bar.sync 0;
      xor.b32 %r4, %r2, 508; add.u32 %r4, %r4, %r1;
      ld.shared.u32 %r5, [%r4];
      st.global.u32 [%rd20], %r5;
      setp.lt.u32 %p1, %r31, 64;
      @!%p1 bra SECOND;
      bar.arrive 1, 128;
      bra END;
      SECOND: bar.sync 1, 128;
      END: setp.eq.u32 %p2, %r31, 5;
      bar.red.popc.u32 %r6, 2, 128, %p2;
      st.global.u32 [%rd20+512], %r6;)",
                                   ".shared .align 4 .b8 b[512];\n"),
                            setup);
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    EXPECT_TRUE(run.report.races.empty());
    for (std::uint32_t t = 0; t < 128; ++t) {
      EXPECT_EQ(run.out[t], t ^ 127);
      EXPECT_EQ(run.out[128 + t], 1u);
    }
  }
}

TEST(Barriers, MisuseIsAFaultOrADeadlockInWords) {
  LaunchSetup setup;
  setup.threads = 96;
  auto run = launch(kernel("setp.lt.u32 %p1, %r31, 32;\n@%p1 bra L;\nbar.sync 0, 64;\nbra E;\nL: "
                           "bar.sync 0, 96;\nE:"),
                    setup);
  EXPECT_EQ(run.report.status, ExecutionStatus::fault);
  EXPECT_THAT(run.report.message, HasSubstr("expects"));
  setup.threads = 64;
  run = launch(kernel("bar.sync 0, 33;"), setup);
  EXPECT_THAT(run.report.message, HasSubstr("multiple of 32"));
  run = launch(kernel(".loc 1 55 1\nsetp.lt.u32 %p1, %r31, 32;\n@%p1 bra E;\nbar.sync 3, 64;\nE:"),
               setup);
  EXPECT_EQ(run.report.status, ExecutionStatus::deadlock);
  ASSERT_EQ(run.report.details.size(), 1u);
  EXPECT_EQ(
      run.report.details[0],
      "cta 0 warp 1 all lanes waits at barrier 3 at kernels/test.cu:55: 32 of 64 threads arrived");
}

const std::string kMbarrier = ".shared .align 8 .b8 full[16];\n.shared .align 128 .b8 data[512];\n";
const std::string kInit = R"(
    mov.u32 %r20, full; mov.u32 %r21, data;
    setp.ne.u32 %p7, %r31, 0;
    @%p7 bra READY;
    mbarrier.init.shared::cta.b64 [%r20], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    READY: bar.sync 0;
)";
const std::string kLoad = R"(
    @%p7 bra ISSUED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd30], 512, [%r20];
    ISSUED:
)";
const std::string kWait = R"(
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], 0;
    @!%p1 bra WAIT;
)";
const std::string kRead = R"(
    shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2;
    ld.shared.u32 %r4, [%r3];
    st.global.u32 [%rd20], %r4;
)";

LaunchSetup copy_setup() {
  LaunchSetup setup;
  setup.threads = 128;
  for (std::uint32_t k = 0; k < setup.in.size(); ++k) setup.in[k] = 3 * k + 1;
  return setup;
}

TEST(Mbarriers, BulkCopyIsVisibleBehindTheWait) {
  for (const auto lateness : {CopyLateness::eager, CopyLateness::lazy, CopyLateness::random}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      LaunchSetup setup = copy_setup();
      setup.options.policy = SchedulePolicy::random;
      setup.options.lateness = lateness;
      setup.options.seed = seed;
      const auto run =
          launch(kernel(kOutAddress + kInit + kLoad + kWait + kRead, kMbarrier), setup);
      ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
      EXPECT_TRUE(run.report.races.empty());
      for (std::uint32_t t = 0; t < 128; ++t) ASSERT_EQ(run.out[t], 3 * t + 1);
    }
  }
}

TEST(Mbarriers, WaitByStateAndPendingCount) {
  const auto run = launch(kernel(kInit + R"(
    @%p7 bra END;
    mbarrier.arrive.shared::cta.b64 %rd1, [%r20];
    mbarrier.test_wait.shared::cta.b64 %p2, [%r20], %rd1;
    selp.b32 %r1, 1, 0, %p2;
    st.global.u32 [%rd31], %r1;
    mbarrier.pending_count.b64 %r2, %rd1;
    st.global.u32 [%rd31+4], %r2;
    END:)",
                                 kMbarrier));
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_EQ(run.out[0], 1u);
  EXPECT_EQ(run.out[1], 1u);
}

TEST(Mbarriers, DeadlockSaysWhoWaitsForWhat) {
  const auto run = launch(kernel(kInit + R"(
    @%p7 bra ISSUED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;
    ISSUED:
    .loc 1 91 1
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], 0;
    @!%p1 bra WAIT;)",
                                 kMbarrier));
  EXPECT_EQ(run.report.status, ExecutionStatus::deadlock);
  EXPECT_THAT(run.report.message,
              HasSubstr("waits on mbarrier full[0] at kernels/test.cu:91: phase "
                        "0, 1 of 1 arrivals, 64 bytes pending"));
}

TEST(Mbarriers, MisuseIsAFault) {
  auto run =
      launch(kernel("mov.u32 %r20, full;\nmbarrier.arrive.shared::cta.b64 _, [%r20];", kMbarrier));
  EXPECT_THAT(run.report.message, HasSubstr("before mbarrier.init"));
  run = launch(
      kernel(kInit + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 1048575;", kMbarrier));
  EXPECT_THAT(run.report.message, HasSubstr("overflows"));
  run = launch(kernel(kInit + R"(
    @%p7 bra END;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;
    mbarrier.arrive.shared::cta.b64 _, [%r20];
    END:)",
                      kMbarrier));
  EXPECT_THAT(run.report.message, HasSubstr("more arrivals than the expected 1"));
}

TEST(AsyncCopies, GroupsZeroFillAndWaits) {
  for (const auto lateness : {CopyLateness::eager, CopyLateness::lazy, CopyLateness::random}) {
    LaunchSetup setup = copy_setup();
    setup.threads = 32;
    setup.options.lateness = lateness;
    const auto run = launch(kernel(kOutAddress + R"(
      mov.u32 %r21, data; shl.b32 %r2, %r31, 4; add.u32 %r3, %r21, %r2;
      mul.wide.u32 %rd1, %r31, 16; add.u64 %rd1, %rd1, %rd30;
      cp.async.cg.shared.global [%r3], [%rd1], 16;
      cp.async.commit_group;
      cp.async.ca.shared.global [%r3+4], [%rd1], 4, 0;
      cp.async.commit_group;
      cp.async.wait_group 0;
      ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd20], %r4;
      ld.shared.u32 %r4, [%r3+4]; st.global.u32 [%rd20+128], %r4;)",
                                   ".shared .align 128 .b8 data[512];\n"),
                            setup);
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    for (std::uint32_t l = 0; l < 32; ++l) {
      EXPECT_EQ(run.out[l], 12 * l + 1);
      EXPECT_EQ(run.out[32 + l], 0u);
    }
    // Two copies of one thread to one place without a wait between them are not ordered.
    EXPECT_EQ(run.report.races.size(), 1u);
  }
}

TEST(AsyncCopies, BulkStoreReachesGlobalMemoryBehindItsGroup) {
  LaunchSetup setup = copy_setup();
  setup.options.lateness = CopyLateness::lazy;
  const auto run = launch(kernel(R"(
    mov.u32 %r21, data; shl.b32 %r2, %r31, 2; add.u32 %r3, %r21, %r2;
    st.shared.u32 [%r3], %r31;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p7, %r31, 0;
    @%p7 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd31], [%r21], 512;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    END:)",
                                 ".shared .align 128 .b8 data[512];\n"),
                          setup);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_TRUE(run.report.races.empty());
  for (std::uint32_t t = 0; t < 128; ++t) EXPECT_EQ(run.out[t], t);
}

TEST(Clusters, RemoteSharedMemoryAndBarrier) {
  LaunchSetup setup;
  setup.ctas = 4;
  setup.cluster = 2;
  const auto run = launch(kernel(R"(
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p7, %r31, 0;
    @%p7 bra STORED;
    st.shared.u32 [b], %r2;
    STORED:
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %r3, %r1, 1; mov.u32 %r4, b;
    mapa.shared::cluster.u32 %r5, %r4, %r3;
    ld.shared::cluster.u32 %r6, [%r5];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p7 bra END;
    mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %rd31; st.global.u32 [%rd1], %r6;
    END:)",
                                 ".shared .align 4 .b8 b[4];\n"),
                          setup);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  for (std::uint32_t c = 0; c < 4; ++c) EXPECT_EQ(run.out[c], c ^ 1);
  EXPECT_TRUE(run.report.races.empty()) << run.report.races[0].missing_edge;
}

// Warp 0 goes first under round-robin and warp 1 writes last: a turn of its own is not enough to
// get there, a long sleep of the other is.
TEST(Sleep, LetsTheOthersGoOn) {
  for (const auto& [ns, wanted] : {std::pair(0, 0u), std::pair(16, 0u), std::pair(16384, 7u)}) {
    LaunchSetup setup;
    setup.threads = 64;
    setup.options.race = RaceMode::off;
    setup.options.policy = SchedulePolicy::round_robin;
    std::string stores;
    for (int i = 1; i < 600; ++i) {
      stores += "st.global.u32 [%rd31+" + std::to_string(4 * i) + "], 1;";
    }
    const auto run = launch(
        kernel("setp.gt.u32 %p1, %r31, 31;\n@%p1 bra WRITE;\nnanosleep.u32 " + std::to_string(ns) +
               ";\nld.global.u32 %r1, [%rd31+4000];\nst.global.u32 [%rd31], %r1;"
               "\nbra END;\nWRITE: " +
               stores + "st.global.u32 [%rd31+4000], 7;\nEND:"),
        setup);
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    EXPECT_EQ(run.out[0], wanted) << ns;
  }
}

// Warp 1 writes after 10 us, warp 0 reads after 20 us of many short sleeps; nobody else runs. Its
// lanes sleep for different times: the longest counts.
TEST(Sleep, TimePassesWhileAllSleep) {
  LaunchSetup setup;
  setup.threads = 64;
  setup.options.race = RaceMode::off;
  setup.options.policy = SchedulePolicy::round_robin;
  const auto run =
      launch(kernel("setp.gt.u32 %p1, %r31, 31;\n@%p1 bra WRITE;\nmov.u32 %r2, 0;\n"
                    "mul.lo.u32 %r3, %r31, 33;\nLOOP: nanosleep.u32 %r3;\nadd.u32 %r2, %r2, 1;\n"
                    "setp.lt.u32 %p2, %r2, 20;\n@%p2 bra LOOP;\n"
                    "ld.global.u32 %r1, [%rd31+4000];\nst.global.u32 [%rd31], %r1;\nbra END;\n"
                    "WRITE: nanosleep.u32 10000;\nst.global.u32 [%rd31+4000], 7;\nEND:"),
             setup);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_EQ(run.out[0], 7u);
}

// A CTA that waits for a flag of a later one: CTAs come in when the first ones only poll.
TEST(Grid, LaterCtasStartWhenEarlierOnesPoll) {
  LaunchSetup setup;
  setup.ctas = 3;
  const auto run = launch(kernel(R"(
    mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra SIGNAL;
    SPIN: ld.acquire.gpu.global.u32 %r1, [%rd31];
    setp.lt.u32 %p2, %r1, 64;
    @%p2 bra SPIN;
    st.global.u32 [%rd31+4], 5;
    bra END;
    SIGNAL: red.release.gpu.global.add.u32 [%rd31], 1;
    END:)"),
                          setup);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_EQ(run.out[1], 5u);
}

}  // namespace
}  // namespace faultline::simulator::testing
