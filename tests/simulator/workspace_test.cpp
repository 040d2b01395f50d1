// SPDX-License-Identifier: Apache-2.0
// Workspaces are poisoned before every trial, so a program that reads one before it writes it does
// not meet a zero or what the trial before left there.
#include <faultline/core/tensor.hpp>
#include <faultline/simulator/simulator_backend.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace faultline::simulator {
namespace {

constexpr std::int64_t kElements = 32;
enum Buffer : std::uint32_t { kX, kY, kWork };

core::ModuleRef make_adder() {
  auto module = std::make_shared<core::Module>();
  module->name = "adder";
  // c[i] = a[i] + b[i], one element a thread.
  module->ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c) {\n"
                ".reg .b64 %rd<5>; .reg .b32 %r<2>; .reg .f32 %f<4>;\n"
                "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\n"
                "mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;\n"
                "add.s64 %rd1, %rd1, %rd4; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;\n"
                "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2];\n"
                "add.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3; ret;\n}\n";
  return module;
}

/// y = 2 x in two launches; `adds` says which buffers each adds and where it writes.
core::TrialPlan doubling(std::vector<std::array<Buffer, 3>> adds, bool fill_work_with_zeros) {
  core::TrialPlan plan;
  plan.subject = "doubling";
  plan.buffers.resize(3);
  for (core::BufferSpec& buffer : plan.buffers) buffer.shape = {kElements};
  plan.buffers[kX].name = "x";
  plan.buffers[kY].name = "y";
  plan.buffers[kY].role = core::BufferRole::output;
  plan.buffers[kY].tiles.rows = kElements;
  plan.buffers[kWork].name = "work";
  plan.buffers[kWork].role = core::BufferRole::workspace;
  plan.program = [adds, fill_work_with_zeros, module = make_adder()](std::uint32_t) {
    core::Program program;
    if (fill_work_with_zeros) program.add(core::FillOperation{{kWork, 0}, 4 * kElements, 0});
    for (const auto& [a, b, c] : adds) {
      core::LaunchOperation launch;
      launch.module = module;
      launch.entry = "add";
      launch.block[0] = kElements;
      launch.arguments = {core::BufferArgument{a, 0}, core::BufferArgument{b, 0},
                          core::BufferArgument{c, 0}};
      program.add(launch);
    }
    return program;
  };
  plan.reference = [](const std::vector<core::Tensor>& inputs) {
    core::ReferenceTensor y;
    for (const double x : inputs.at(0).to_doubles()) {
      y.expected.push_back(2.0 * x);
      y.bound.push_back(1e-6);
    }
    return std::vector<core::ReferenceTensor>{y};
  };
  return plan;
}

core::TrialResult run(const core::TrialPlan& plan, std::uint64_t trials) {
  core::TrialRequest request;
  request.count = trials;
  return make_simulator_backend()->run_trials(plan, request);
}

TEST(Workspace, AProgramThatInitialisesItsWorkspacePasses) {
  const core::TrialResult copied = run(doubling({{kX, kX, kWork}, {kWork, kWork, kY}}, false), 1);
  EXPECT_EQ(copied.failed, 1u);  // 4 x: the comparison is awake
  const core::TrialResult r = run(doubling({{kX, kWork, kWork}, {kX, kWork, kY}}, true), 6);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.trials, 6u);
  EXPECT_EQ(r.failed, 0u);
}

TEST(Workspace, OneThatReliesOnAZeroedWorkspaceFailsEveryTrial) {
  const core::TrialResult r = run(doubling({{kX, kWork, kWork}, {kX, kWork, kY}}, false), 6);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.failed, 6u);  // NaN with two of the patterns, 1e36 with the third
  EXPECT_EQ(r.outputs.at(0).bad_elements, 6u * kElements);
}

/// The workspace is written after it is read: from the second trial on, a workspace that nobody
/// poisons would hold the right values.
TEST(Workspace, OneThatReadsWhatTheTrialBeforeLeftFailsEveryTrial) {
  core::TrialPlan plan = doubling({{kX, kWork, kY}}, false);
  plan.program = [first = plan.program](std::uint32_t batch) {
    core::Program program = first(batch);
    program.add(core::CopyOperation{{kWork, 0}, {kX, 0}, 4 * kElements});
    return program;
  };
  const core::TrialResult r = run(plan, 6);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.failed, 6u);
}

core::TrialPlan sparse(core::TrialPlan plan) {
  plan.buffers[kWork].shape = {std::int64_t{1} << 33};
  plan.buffers[kWork].sparse = true;
  return plan;
}

// One of gigabytes costs what is touched of it.
TEST(Workspace, ASparseOneIsBackedPageByPage) {
  const core::TrialResult r = run(sparse(doubling({{kX, kWork, kWork}, {kX, kWork, kY}}, true)), 6);
  EXPECT_EQ(r.status, core::ExecutionStatus::completed) << r.message;
  EXPECT_EQ(r.trials, 6u);
  EXPECT_EQ(r.failed, 0u);
}

// And is poisoned before every launch all the same: neither zeros nor what the trial before left.
TEST(Workspace, ASparseOneIsPoisonedForEveryTrial) {
  const core::TrialResult zeros =
      run(sparse(doubling({{kX, kWork, kWork}, {kX, kWork, kY}}, false)), 6);
  EXPECT_EQ(zeros.failed, 6u);
  core::TrialPlan plan = doubling({{kX, kWork, kY}}, false);
  plan.program = [first = plan.program](std::uint32_t batch) {
    core::Program program = first(batch);
    program.add(core::CopyOperation{{kWork, 0}, {kX, 0}, 4 * kElements});
    return program;
  };
  EXPECT_EQ(run(sparse(plan), 6).failed, 6u);
}

}  // namespace
}  // namespace faultline::simulator
