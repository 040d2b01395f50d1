// SPDX-License-Identifier: Apache-2.0
// Programs on several streams: what may run in which order, and what is reported of accesses that
// nothing orders.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/program.hpp"
#include "faultline/simulator/simulator_backend.hpp"
#include "harness.hpp"

namespace faultline::simulator {
namespace {

using core::BufferArgument;
using core::CaptureBeginOperation;
using core::CaptureEndOperation;
using core::CopyOperation;
using core::EventRecordOperation;
using core::EventWaitOperation;
using core::FillOperation;
using core::LaunchOperation;
using core::Program;
using core::ReplayOperation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum Buffer : std::uint32_t { kA, kB, kC, kBuffers };
constexpr std::size_t kWords = 32;

// One lane a word: %rd1 = &in[lane], %rd2 = &out[lane].
const std::string kPlaces =
    "mul.wide.u32 %rd3, %r31, 4;\nadd.u64 %rd1, %rd30, %rd3;\nadd.u64 %rd2, %rd31, %rd3;\n";

LaunchOperation launch_of(const std::string& body, Buffer in, Buffer out) {
  auto module = std::make_shared<core::Module>();
  module->name = "streams";
  module->ptx = testing::kernel(kPlaces + body);
  LaunchOperation launch;
  launch.module = module;
  launch.entry = "k";
  launch.block = {kWords, 1, 1};
  launch.arguments = {BufferArgument{in}, BufferArgument{out}};
  return launch;
}

// out[lane] = value
LaunchOperation store(std::uint32_t value, Buffer out, int line = 10) {
  return launch_of(".loc 1 " + std::to_string(line) + " 3\nmov.u32 %r1, " + std::to_string(value) +
                       ";\nst.global.u32 [%rd2], %r1;",
                   out, out);
}

// out[lane] = in[lane] + 1
LaunchOperation increment(Buffer in, Buffer out) {
  return launch_of(".loc 1 20 3\nld.global.u32 %r1, [%rd1];\n.loc 1 21 3\nadd.u32 %r1, %r1, 1;\n"
                   "st.global.u32 [%rd2], %r1;",
                   in, out);
}

LaunchOperation atomic_add(Buffer out) {
  return launch_of(".loc 1 30 3\nred.global.add.u32 [%rd2], 1;", out, out);
}

struct Ran {
  core::ExecutionReport report;
  std::array<std::uint32_t, kBuffers> first{};  // word of each buffer

  bool operator==(const Ran& other) const {
    return first == other.first && report.races == other.report.races;
  }
};

Ran run(const Program& program, std::uint64_t seed = 1,
        core::SchedulePolicy policy = core::SchedulePolicy::random,
        core::RaceMode race = core::RaceMode::strict) {
  const auto backend = make_simulator_backend();
  std::vector<core::BufferHandle> buffers;
  for (const char* name : {"a", "b", "c"}) {
    buffers.push_back(backend->allocate(name, kWords * 4));
    backend->fill(buffers.back(), 0);
  }
  core::Perturbation perturbation;
  perturbation.policy = policy;
  Ran result;
  result.report = backend->execute(program, buffers, perturbation, seed, race);
  for (std::size_t k = 0; k < kBuffers; ++k) {
    backend->download(buffers[k], std::as_writable_bytes(std::span(&result.first[k], 1)));
  }
  return result;
}

Program writer_and_reader() {
  Program program;
  program.name = "writer and reader";
  program.add(store(7, kA), 1);
  program.add(increment(kA, kB), 2);
  return program;
}

TEST(Streams, UnorderedWriteAndReadIsReportedOnOneSchedule) {
  const Ran ran = run(writer_and_reader(), 1, core::SchedulePolicy::round_robin);
  EXPECT_EQ(ran.report.status, core::ExecutionStatus::completed) << ran.report.message;
  EXPECT_EQ(ran.first[kB], 8u) << "issue order: the value is right";
  ASSERT_EQ(ran.report.races.size(), 1u);
  const core::RaceReport& race = ran.report.races[0];
  EXPECT_EQ(race.kind, core::RaceKind::read_after_write);
  EXPECT_EQ(race.space, core::MemorySpace::global);
  EXPECT_TRUE(race.cross_launch);
  EXPECT_FALSE(race.cross_device);
  EXPECT_EQ(race.buffer, "a");
  EXPECT_EQ(race.byte_begin, 0u);
  EXPECT_EQ(race.byte_end, kWords * 4);
  EXPECT_EQ(race.count, kWords);
  EXPECT_EQ(race.first.kernel, "k");
  EXPECT_EQ(race.first.instruction, "st.global.u32");
  ASSERT_FALSE(race.first.where.empty());
  EXPECT_EQ(race.first.where[0].line, 10);
  EXPECT_THAT(race.first.where[0].file, HasSubstr("test.cu"));
  EXPECT_TRUE(race.first.is_write);
  EXPECT_EQ(race.first.actor, "operation 0, stream 1");
  ASSERT_FALSE(race.second.where.empty());
  EXPECT_EQ(race.second.where[0].line, 20);
  EXPECT_FALSE(race.second.is_write);
  EXPECT_EQ(race.second.actor, "operation 1, stream 2");
  EXPECT_THAT(race.missing_edge, HasSubstr("nothing orders the launch of k (operation 0, stream 1) "
                                           "before the launch of k (operation 1, stream 2)"));
}

TEST(Streams, BothOrdersOccurOverSeeds) {
  std::set<std::uint32_t> values;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    const Ran ran = run(writer_and_reader(), seed);
    values.insert(ran.first[kB]);
    ASSERT_EQ(ran.report.races.size(), 1u) << "seed " << seed;
    EXPECT_EQ(ran.report.races[0].kind, core::RaceKind::read_after_write)
        << "in the words of the program, whatever ran first";
  }
  EXPECT_THAT(values, ElementsAre(1u, 8u));
}

TEST(Streams, OneSeedIsOneResult) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(run(writer_and_reader(), seed), run(writer_and_reader(), seed));
  }
}

TEST(Streams, AnEventOrders) {
  Program program;
  program.name = "ordered";
  program.add(store(7, kA), 1);
  program.add(EventRecordOperation{3}, 1);
  program.add(EventWaitOperation{3}, 2);
  program.add(increment(kA, kB), 2);
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    const Ran ran = run(program, seed);
    EXPECT_THAT(ran.report.races, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(ran.first[kB], 8u) << "seed " << seed;
  }
}

TEST(Streams, AnEventOrdersWhatIsBeforeItOnly) {
  Program program;
  program.name = "recorded too early";
  program.add(EventRecordOperation{3}, 1);
  program.add(store(7, kA), 1);
  program.add(EventWaitOperation{3}, 2);
  program.add(increment(kA, kB), 2);
  EXPECT_EQ(run(program).report.races.size(), 1u);
}

TEST(Streams, OrderIsTransitive) {
  Program program;
  program.name = "through a third stream";
  program.add(store(7, kA), 1);
  program.add(EventRecordOperation{1}, 1);
  program.add(EventWaitOperation{1}, 2);
  program.add(increment(kB, kC), 2);
  program.add(EventRecordOperation{2}, 2);
  program.add(EventWaitOperation{2}, 3);
  program.add(increment(kA, kB), 3);
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    EXPECT_THAT(run(program, seed).report.races, IsEmpty()) << "seed " << seed;
  }
}

TEST(Streams, OneStreamOrders) {
  Program program;
  program.name = "one stream";
  program.add(store(7, kA), 4);
  program.add(increment(kA, kB), 4);
  program.add(store(9, kA), 4);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Ran ran = run(program, seed);
    EXPECT_THAT(ran.report.races, IsEmpty());
    EXPECT_EQ(ran.first[kB], 8u);
    EXPECT_EQ(ran.first[kA], 9u);
  }
}

TEST(Streams, RightValuesAreReportedAllTheSame) {
  Program program;
  program.name = "the same value twice";
  program.add(store(7, kA, 10), 1);
  program.add(store(7, kA, 11), 2);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Ran ran = run(program, seed);
    EXPECT_EQ(ran.first[kA], 7u);
    ASSERT_EQ(ran.report.races.size(), 1u);
    EXPECT_EQ(ran.report.races[0].kind, core::RaceKind::write_after_write);
    EXPECT_EQ(ran.report.races[0].first.where[0].line, 10);
    EXPECT_EQ(ran.report.races[0].second.where[0].line, 11);
  }
}

TEST(Streams, DisjointBytesDoNotConflict) {
  // The two halves of every word, each in a stream of its own.
  const auto half = [](int side) {
    return launch_of(
        "mov.u16 %rs1, 1;\nst.global.u16 [%rd2+" + std::to_string(2 * side) + "], %rs1;", kA, kA);
  };
  Program program;
  program.name = "halves";
  program.add(half(0), 1);
  program.add(half(1), 2);
  EXPECT_THAT(run(program).report.races, IsEmpty());
  program.add(half(1), 3);
  ASSERT_EQ(run(program).report.races.size(), 1u);
  EXPECT_EQ(run(program).report.races[0].byte_begin, 2u);
}

TEST(Streams, AtomicsRaceWithPlainAccessesOnly) {
  Program program;
  program.name = "atomics";
  program.add(atomic_add(kA), 1);
  program.add(atomic_add(kA), 2);
  EXPECT_THAT(run(program).report.races, IsEmpty());
  program.add(increment(kA, kB), 3);
  const std::vector<core::RaceReport> races = run(program).report.races;
  ASSERT_EQ(races.size(), 1u) << "both atomics are one line of one kernel";
  EXPECT_EQ(races[0].kind, core::RaceKind::read_after_write);
  EXPECT_EQ(races[0].count, 2 * kWords);
}

TEST(Streams, CopiesAndFillsAreNamed) {
  Program program;
  program.name = "copies";
  program.add(CopyOperation{{kB, 0}, {kA, 0}, 64}, 1);
  program.add(FillOperation{{kA, 32}, 96, 5}, 2);
  const std::vector<core::RaceReport> races = run(program).report.races;
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(races[0].kind, core::RaceKind::write_after_read);
  EXPECT_EQ(races[0].buffer, "a");
  EXPECT_EQ(races[0].byte_begin, 32u);
  EXPECT_EQ(races[0].byte_end, 64u);
  EXPECT_EQ(races[0].first.instruction, "a copy of 64 bytes");
  EXPECT_THAT(races[0].first.kernel, IsEmpty());
  EXPECT_EQ(races[0].second.instruction, "a fill of 96 bytes");
}

TEST(Streams, NothingIsWatchedWithRacesOff) {
  EXPECT_THAT(
      run(writer_and_reader(), 1, core::SchedulePolicy::random, core::RaceMode::off).report.races,
      IsEmpty());
}

TEST(Streams, StreamsOfTwoDevicesAreTold) {
  Program program = writer_and_reader();
  program.devices = {{2, 1}};
  const std::vector<core::RaceReport> races = run(program).report.races;
  ASSERT_EQ(races.size(), 1u);
  EXPECT_TRUE(races[0].cross_launch);
  EXPECT_TRUE(races[0].cross_device);
  EXPECT_EQ(races[0].second.actor, "operation 1, stream 2 of device 1");
}

TEST(Streams, HostStepsKeepTheirOrder) {
  std::vector<int> steps;
  Program program;
  program.name = "host steps";
  for (int k = 0; k < 4; ++k) {
    program.add(core::HostStepOperation{"note", [&steps, k] { steps.push_back(k); }},
                static_cast<core::StreamId>(k % 2));
  }
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    steps.clear();
    run(program, seed);
    EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3));
  }
}

// Captured in stream 1, with a branch in stream 2 that runs beside nothing: a <- 7, b <- a + 1.
Program captured(bool wait_for_writer) {
  Program program;
  program.name = "captured";
  program.add(CaptureBeginOperation{5}, 1);
  program.add(EventRecordOperation{1}, 1);
  program.add(store(7, kA), 1);
  if (wait_for_writer) program.add(EventRecordOperation{1}, 1);
  program.add(EventWaitOperation{1}, 2);
  program.add(increment(kA, kB), 2);
  program.add(EventRecordOperation{2}, 2);
  program.add(EventWaitOperation{2}, 1);
  program.add(CaptureEndOperation{5}, 1);
  program.add(ReplayOperation{5, {}}, 1);
  return program;
}

TEST(Graphs, KeepTheOrderOfTheirCapture) {
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    const Ran ran = run(captured(true), seed);
    EXPECT_EQ(ran.report.status, core::ExecutionStatus::completed) << ran.report.message;
    EXPECT_THAT(ran.report.races, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(ran.first[kB], 8u) << "seed " << seed;
  }
  std::set<std::uint32_t> values;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    const Ran ran = run(captured(false), seed);
    ASSERT_EQ(ran.report.races.size(), 1u) << "seed " << seed;
    EXPECT_EQ(ran.report.races[0].first.actor, "operation 2, replayed in stream 1");
    values.insert(ran.first[kB]);
  }
  EXPECT_THAT(values, ElementsAre(1u, 8u));
}

TEST(Graphs, CaptureRunsNothing) {
  Program program = captured(true);
  program.operations.pop_back();
  EXPECT_EQ(run(program).first[kA], 0u);
}

TEST(Graphs, ReplaysOfOneGraphDoNotOverlap) {
  Program program = captured(true);
  program.add(ReplayOperation{5, {}}, 2);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_THAT(run(program, seed).report.races, IsEmpty()) << "seed " << seed;
  }
}

TEST(Graphs, AReplayIsInTheOrderOfItsStream) {
  Program program = captured(true);
  program.add(store(1, kA), 1);       // behind the replay
  program.add(increment(kA, kC), 3);  // beside both
  const std::vector<core::RaceReport> races = run(program).report.races;
  ASSERT_EQ(races.size(), 1u) << "one line wrote a both times";
  EXPECT_EQ(races[0].count, 2 * kWords);
}

TEST(Graphs, ArgumentsChangeForOneReplay) {
  Program program;
  program.name = "arguments";
  program.add(CaptureBeginOperation{0});
  const core::OperationId id = program.add(increment(kA, kB));
  program.add(CaptureEndOperation{0});
  program.add(ReplayOperation{0, {{id, {BufferArgument{kB}, BufferArgument{kC}}}}});
  EXPECT_EQ(run(program).first, (std::array<std::uint32_t, kBuffers>{0, 0, 1}));
  program.add(ReplayOperation{0, {}});
  EXPECT_EQ(run(program).first, (std::array<std::uint32_t, kBuffers>{0, 1, 1}));
}

// What run() refuses `operations` with, each with its stream.
std::string
refusal(const std::vector<std::pair<decltype(core::Operation::what), core::StreamId>>& operations) {
  Program program;
  program.name = "refused";
  for (const auto& [what, stream] : operations) program.add(what, stream);
  try {
    run(program);
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Streams, ProgramsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(refusal({{EventWaitOperation{4}, 1}}),
              HasSubstr("program 'refused' waits for event 4 in stream 1, which nothing before it "
                        "records"));
  EXPECT_THAT(refusal({{ReplayOperation{2, {}}, 0}}),
              HasSubstr("replays graph 2, which was never"));
  EXPECT_THAT(refusal({{CaptureBeginOperation{2}, 0}}),
              HasSubstr("does not end the capture of graph 2"));
  EXPECT_THAT(refusal({{CaptureEndOperation{2}, 0}}), HasSubstr("which it has not begun"));
  EXPECT_THAT(refusal({{CaptureBeginOperation{2}, 0}, {CaptureBeginOperation{3}, 1}}),
              HasSubstr("begins the capture of graph 3 inside that of graph 2"));
  EXPECT_THAT(refusal({{EventRecordOperation{1}, 1},
                       {CaptureBeginOperation{2}, 0},
                       {EventWaitOperation{1}, 0}}),
              HasSubstr("a graph cannot wait for work outside it"));
  EXPECT_THAT(refusal({{CaptureBeginOperation{2}, 0},
                       {EventRecordOperation{1}, 0},
                       {CaptureEndOperation{2}, 0},
                       {EventWaitOperation{1}, 1}}),
              HasSubstr("nothing outside the graph can wait for it"));
  EXPECT_THAT(refusal({{CaptureBeginOperation{2}, 0},
                       {EventRecordOperation{1}, 0},
                       {EventWaitOperation{1}, 1},
                       {store(1, kA), 1},
                       {CaptureEndOperation{2}, 0}}),
              HasSubstr("stream 1 has not joined stream 0 again"));
  EXPECT_THAT(refusal({{CaptureBeginOperation{2}, 0},
                       {store(1, kA), 0},
                       {CaptureEndOperation{2}, 0},
                       {ReplayOperation{2, {{99, {}}}}, 0}}),
              HasSubstr("changes arguments of operation 99, which is no launch of graph 2"));
}

}  // namespace
}  // namespace faultline::simulator
