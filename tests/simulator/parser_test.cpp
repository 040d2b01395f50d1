// SPDX-License-Identifier: Apache-2.0
// Text that is PTX, and text that is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "harness.hpp"

namespace faultline::simulator::testing {
namespace {

std::string parse_error(const std::string& text) {
  try {
    const Module module = Module::parse(text, "bad.ptx");
    Device device;
    for (const std::string& entry : module.entries()) {
      LaunchSpec spec{module, entry, {1, 1, 1}, {32, 1, 1}, {1, 1, 1}, 0, {}};
      spec.parameters.resize(module.parameter_bytes(entry));
      Options options;
      options.step_budget = 1000;
      device.launch(spec, options);
    }
  } catch (const ParseError& error) {
    return error.what();
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Parser, ListsEntriesAndParameters) {
  const Module module = Module::parse(
      ".version 9.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry first(.param .u64 .ptr .global .align 16 p, .param .u32 n,\n"
      ".param .align 64 .b8 map[128])\n{ ret; }\n.visible .entry second()\n{ ret; }\n");
  EXPECT_THAT(module.entries(), ::testing::ElementsAre("first", "second"));
  const auto parameters = module.parameters("first");
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[1].offset, 8u);
  EXPECT_EQ(parameters[2].offset, 64u);
  EXPECT_EQ(parameters[2].size, 128u);
  EXPECT_EQ(module.parameter_bytes("first"), 192u);
}

TEST(Parser, UnknownEntryListsTheKnownOnes) {
  const Module module = Module::parse(kernel(""));
  EXPECT_THAT([&] { module.parameters("kk"); },
              ::testing::ThrowsMessage<ParseError>(::testing::HasSubstr("there are: k")));
}

TEST(Parser, ErrorsNameFileAndLine) {
  EXPECT_THAT(parse_error("hello"), ::testing::StartsWith("bad.ptx:1: "));
  EXPECT_THAT(parse_error(""), ::testing::HasSubstr("no PTX"));
  EXPECT_THAT(parse_error("\x7f"
                          "ELF\x02"),
              ::testing::HasSubstr("ELF"));
  EXPECT_THAT(parse_error(std::string(".version 9.0\n\0", 14)), ::testing::HasSubstr("binary"));
  EXPECT_THAT(parse_error(kernel("bra NOWHERE;")), ::testing::HasSubstr("NOWHERE"));
  EXPECT_THAT(parse_error(kernel("@%q bra L; L:")), ::testing::HasSubstr("%q"));
  EXPECT_THAT(parse_error(kernel("add.u32 %r1, %r2, 0xzz;")), ::testing::HasSubstr("number"));
  EXPECT_THAT(parse_error(".version 9.0 /* never"), ::testing::HasSubstr("comment"));
}

// Every prefix of a module either parses or is refused with a sentence; nothing crashes or hangs.
TEST(Parser, TruncatedTextIsRefusedCleanly) {
  const std::string whole = kernel(
      "{ .reg .pred q; setp.eq.u32 q, %r31, 0; @q bra L; st.global.u32 [%rd31], {%r1}; L: }\n"
      ".loc 1 3 4, function_name $L, inlined_at 1 9 9\nmov.f32 %f1, 0f3F800000;",
      ".shared .align 8 .b8 buffer[64];\n");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = parse_error(whole.substr(0, size));
    if (!message.empty()) {
      EXPECT_THAT(message, ::testing::StartsWith("bad.ptx:")) << size;
    }
  }
}

TEST(Parser, GarbageIsRefusedCleanly) {
  std::uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::string text = kernel("mov.u32 %r1, 1;");
    for (int k = 0; k < 3; ++k) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      text[(state >> 33) % text.size()] = static_cast<char>(state >> 24);
    }
    parse_error(text);  // must return
  }
}

TEST(Parser, ScopesOfRegistersAndLabels) {
  const auto run = launch(kernel("mov.u32 %r1, 5;\n"
                                 "{ .reg .b32 %r1; mov.u32 %r1, 7; bra L; L: }\n"
                                 "{ bra L; L: add.u32 %r1, %r1, 1; }\n"
                                 "st.global.u32 [%rd31], %r1;"));
  EXPECT_EQ(run.out[0], 6u);
}

TEST(Parser, InlinedLocationsFormAChain) {
  LaunchSetup setup;
  setup.threads = 64;
  const auto run =
      launch(kernel(".loc 1 30 1\n.loc 1 12 3, function_name $L__1, inlined_at 1 30 1\n"
                    "st.shared.u32 [b], %r31;\n.loc 1 40 1\nld.shared.u32 %r1, [b];",
                    ".shared .align 4 .b8 b[4];\n"),
             setup);
  ASSERT_FALSE(run.report.races.empty());
  bool found = false;
  for (const RaceReport& race : run.report.races) {
    if (race.first.where.size() == 2) {
      found = true;
      EXPECT_EQ(race.first.where[0].file, "kernels/test.cu");
      EXPECT_EQ(race.first.where[0].line, 12);
      EXPECT_EQ(race.first.where[1].line, 30);
    }
  }
  EXPECT_TRUE(found);
}

TEST(Launch, RefusesImpossibleGeometryAndParameters) {
  Device device;
  LaunchSpec spec{Module::parse(kernel("")), "k", {1, 1, 1}, {32, 1, 1}, {1, 1, 1}, 0, {}};
  EXPECT_THROW(device.launch(spec, {}), core::UsageError);  // no parameters
  spec.parameters.resize(16);
  EXPECT_NO_THROW(device.launch(spec, {}));
  spec.block = {2048, 1, 1};
  EXPECT_THROW(device.launch(spec, {}), core::UsageError);
  spec.block = {32, 1, 1};
  spec.grid = {0, 1, 1};
  EXPECT_THROW(device.launch(spec, {}), core::UsageError);
  spec.grid = {3, 1, 1};
  spec.cluster = {2, 1, 1};
  EXPECT_THROW(device.launch(spec, {}), core::UsageError);
  spec.cluster = {1, 1, 1};
  spec.dynamic_shared_bytes = 1u << 20;
  EXPECT_THROW(device.launch(spec, {}), core::UsageError);
}

TEST(Unsupported, IsNamedWithItsPlaceAndOnlyWhenReached) {
  const auto run = launch(kernel(".loc 1 77 2\ntcgen05.frobnicate.b32 %r1, %r2;"));
  EXPECT_EQ(run.report.status, ExecutionStatus::unsupported);
  EXPECT_THAT(run.report.message,
              ::testing::HasSubstr("tcgen05.frobnicate.b32 at kernels/test.cu:77"));
  const auto skipped = launch(kernel("bra L;\ntcgen05.frobnicate.b32 %r1, %r2;\nL:"));
  EXPECT_EQ(skipped.report.status, ExecutionStatus::completed);
}

TEST(Unsupported, UnknownModifierIsNotIgnored) {
  EXPECT_EQ(launch(kernel("add.frob.u32 %r1, %r2, %r3;")).report.status,
            ExecutionStatus::unsupported);
  EXPECT_EQ(launch(kernel("ld.global.frob.u32 %r1, [%rd30];")).report.status,
            ExecutionStatus::unsupported);
  EXPECT_EQ(launch(kernel("add.u32 %r1, %rd2, %r3;")).report.status, ExecutionStatus::unsupported);
}

}  // namespace
}  // namespace faultline::simulator::testing
