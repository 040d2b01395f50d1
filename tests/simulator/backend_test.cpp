// SPDX-License-Identifier: Apache-2.0
// Trials on the simulator backend: what ends them early, and what is kept then.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/simulator/simulator_backend.hpp"
#include "harness.hpp"

namespace faultline::simulator {
namespace {

using ::testing::HasSubstr;

/// out[lane] = 0, or nothing when `body` says otherwise; one warp.
core::TrialPlan plan_of(const std::string& body) {
  core::TrialPlan plan;
  plan.subject = "small";
  plan.buffers.resize(2);
  plan.buffers[0].name = "in";
  plan.buffers[0].shape = {32};
  plan.buffers[1].name = "out";
  plan.buffers[1].shape = {32};
  plan.buffers[1].role = core::BufferRole::output;
  plan.buffers[1].tiles = {.rows = 1, .cols = 32, .tile_rows = 1, .tile_cols = 32};
  plan.program = [body](std::uint32_t) {
    auto module = std::make_shared<core::Module>();
    module->name = "small";
    module->ptx = testing::kernel(body);
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = "k";
    launch.block = {32, 1, 1};
    launch.arguments = {core::BufferArgument{0}, core::BufferArgument{1}};
    core::Program program;
    program.name = "small";
    program.add(launch);
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>&) {
    return std::vector{
        core::ReferenceTensor{std::vector<double>(32, 0.0), std::vector<double>(32, 0.0)}};
  };
  return plan;
}

const char* const kStoreZero =
    "mul.wide.u32 %rd1, %r31, 4;\nadd.u64 %rd2, %rd31, %rd1;\nmov.u32 %r1, 0;\n"
    "st.global.u32 [%rd2], %r1;";
const char* const kEndless = "L: add.u32 %r1, %r1, 1;\nbra L;";

TEST(TrialRunner, AnExceptionKeepsTheTrialsBeforeIt) {
  core::TrialPlan plan = plan_of(kStoreZero);
  plan.reference = [inner = plan.reference, calls = 0](const auto& inputs) mutable {
    if (++calls == 4) throw std::runtime_error("out of memory in the reference");
    return inner(inputs);
  };
  core::TrialRequest request;
  request.count = 10;
  request.perturbation.fresh_inputs = true;
  const auto backend = make_simulator_backend();
  const core::TrialResult result = backend->run_trials(plan, request);
  EXPECT_EQ(result.trials, 3u);
  EXPECT_EQ(result.outputs.at(0).compared_elements, 3u * 32);
  EXPECT_EQ(result.status, core::ExecutionStatus::error);
  EXPECT_THAT(result.message, HasSubstr("out of memory in the reference"));
}

TEST(TrialRunner, WallClockTimeEndsATrialAndSaysNothingOfIt) {
  const auto backend = make_simulator_backend();
  core::TrialRequest request;
  request.count = 5;
  request.race = core::RaceMode::off;
  request.timeout_s = 0.05;
  const auto begin = std::chrono::steady_clock::now();
  const core::TrialResult result = backend->run_trials(plan_of(kEndless), request);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(result.status, core::ExecutionStatus::out_of_time);
  EXPECT_EQ(result.trials, 0u) << "it was not judged, and the others would take as long";
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(result.abnormal, 0u);
  EXPECT_THAT(result.message, HasSubstr("timed out after 0.05 s while still making progress"));
  EXPECT_THAT(result.message, HasSubstr("raise --timeout"));
}

TEST(TrialRunner, AGenerousLimitChangesNothing) {
  const auto backend = make_simulator_backend();
  core::TrialRequest request;
  request.count = 3;
  const core::TrialResult result = backend->run_trials(plan_of(kStoreZero), request);
  EXPECT_EQ(result.status, core::ExecutionStatus::completed);
  EXPECT_EQ(result.trials, 3u);
  EXPECT_EQ(result.failed, 0u);
}

TEST(TrialRunner, SharedMemoryHoldsThePoisonUntilItIsWritten) {
  const std::string copies = std::string(".shared .align 4 .b8 s[4];\nmov.u32 %r2, s;\n") +
                             "ld.shared.u32 %r1, [%r2];\nmul.wide.u32 %rd1, %r31, 4;\n"
                             "add.u64 %rd2, %rd31, %rd1;\nst.global.u32 [%rd2], %r1;";
  core::TrialRequest request;
  request.count = 6;
  request.race = core::RaceMode::off;
  request.capture_limit = 6;
  const core::TrialResult result = make_simulator_backend()->run_trials(plan_of(copies), request);
  EXPECT_EQ(result.failed, 6u);
  EXPECT_EQ(result.outputs.at(0).poison, 0u) << "it was written, with what was read";
  ASSERT_EQ(result.captures.size(), 6u);
  for (const core::Capture& capture : result.captures) {
    std::uint32_t word = 0;
    std::memcpy(&word, capture.outputs.at(0).bytes.data(), sizeof word);
    EXPECT_EQ(word, core::shared_poison_word(capture.trial));
    EXPECT_NE(word, capture.poison);
  }
}

TEST(TrialRunner, EveryTrialBeginsWithTheVariablesOfItsModuleAsLoaded) {
  // out = n++ - 7, of a variable n that is 7 when it is loaded.
  core::TrialPlan plan = plan_of("mov.u64 %rd3, n;\nld.global.u32 %r2, [%rd3];\n"
                                 "add.u32 %r3, %r2, 1;\nbar.sync 0;\nst.global.u32 [%rd3], %r3;\n"
                                 "mul.wide.u32 %rd1, %r31, 4;\nadd.u64 %rd2, %rd31, %rd1;\n"
                                 "sub.u32 %r1, %r2, 7;\nst.global.u32 [%rd2], %r1;");
  const core::Program with_variable = [&] {
    core::Program program = plan.program(1);
    auto& launch = std::get<core::LaunchOperation>(program.operations[0].what);
    auto module = std::make_shared<core::Module>(*launch.module);
    module->ptx.insert(module->ptx.find(".visible"), ".global .align 4 .u32 n = 7;\n");
    launch.module = module;
    return program;
  }();
  plan.program = [&](std::uint32_t) { return with_variable; };
  core::TrialRequest request;
  request.count = 4;
  request.race = core::RaceMode::off;
  const auto backend = make_simulator_backend();
  EXPECT_EQ(backend->run_trials(plan, request).failed, 0u);
  // Launches of one trial share them.
  core::Program twice = with_variable;
  twice.add(twice.operations[0].what);
  plan.program = [&](std::uint32_t) { return twice; };
  EXPECT_EQ(backend->run_trials(plan, request).failed, 4u);
}

TEST(TrialRunner, BuffersBeginBehindABoundaryOf256AsFarAsAsked) {
  const core::TrialPlan plan =
      plan_of("cvt.u32.u64 %r2, %rd31;\nand.b32 %r2, %r2, 255;\nmul.wide.u32 %rd1, %r31, 4;\n"
              "add.u64 %rd2, %rd31, %rd1;\nsub.u32 %r1, %r2, 48;\nst.global.u32 [%rd2], %r1;");
  const auto backend = make_simulator_backend();
  core::TrialRequest request;
  EXPECT_EQ(backend->run_trials(plan, request).failed, 1u);
  request.perturbation.offset_bytes = 48;
  EXPECT_EQ(backend->run_trials(plan, request).failed, 0u);
  request.perturbation.offset_bytes = 0;
  EXPECT_EQ(backend->run_trials(plan, request).failed, 1u);
  request.perturbation.offset_bytes = 20;
  EXPECT_THROW(backend->run_trials(plan, request), core::UsageError);
}

TEST(Execute, HasTheLimitOfTheBackendsSettings) {
  const auto backend = make_simulator_backend({.timeout_s = 0.05});
  const std::vector<core::BufferHandle> buffers{backend->allocate("in", 128),
                                                backend->allocate("out", 128)};
  const core::ExecutionReport report =
      backend->execute(plan_of(kEndless).program(1), buffers, {}, 1, core::RaceMode::off);
  EXPECT_EQ(report.status, core::ExecutionStatus::out_of_time);
}

}  // namespace
}  // namespace faultline::simulator
