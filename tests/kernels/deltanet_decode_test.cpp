// SPDX-License-Identifier: Apache-2.0
// The decode subjects of the DeltaNet family: their device oracle, batches of trials in one grid,
// configs, and what their folded mutant is recognised by.
#include "deltanet_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/diagnosis/diagnose.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

using test::registry;
using test::Values;
using ::testing::HasSubstr;

/// `trials` sets of inputs back to back; per buffer of the plan, empty for outputs.
std::vector<std::vector<std::byte>> inputs_of(const core::TrialPlan& plan, std::uint64_t trials) {
  std::vector<std::vector<std::byte>> inputs(plan.buffers.size());
  for (const std::uint32_t i : plan.input_indices()) {
    for (std::uint64_t trial = 0; trial < trials; ++trial) {
      core::Tensor tensor(plan.buffers[i].dtype, plan.buffers[i].shape);
      core::generate_input(plan.buffers[i].input, core::trial_seed(1, trial), i, tensor);
      inputs[i].insert(inputs[i].end(), tensor.bytes.begin(), tensor.bytes.end());
    }
  }
  return inputs;
}

/// Runs `program` on those inputs; buffers after the plan's have the sizes of `extra`. The contents
/// of every buffer afterwards.
std::vector<std::vector<std::byte>> execute(const core::Program& program,
                                            const core::TrialPlan& plan,
                                            const std::vector<std::vector<std::byte>>& inputs,
                                            std::uint64_t trials,
                                            const std::vector<std::size_t>& extra) {
  const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  std::vector<core::BufferHandle> handles;
  for (std::size_t i = 0; i < plan.buffers.size() + extra.size(); ++i) {
    const bool own = i < plan.buffers.size();
    const std::size_t bytes =
        own ? plan.buffers[i].bytes() * trials : extra[i - plan.buffers.size()];
    handles.push_back(backend->allocate(own ? plan.buffers[i].name : "extra", bytes));
    backend->fill(handles.back(), 0xffffffffu);
    if (own && !inputs[i].empty()) {
      backend->upload(handles.back(), inputs[i]);
    }
  }
  const core::ExecutionReport report =
      backend->execute(program, handles, {}, 1, core::RaceMode::strict);
  EXPECT_EQ(report.status, core::ExecutionStatus::completed) << report.message;
  EXPECT_TRUE(report.races.empty());
  std::vector<std::vector<std::byte>> contents;
  for (const core::BufferHandle& handle : handles) {
    contents.emplace_back(handle.bytes);
    backend->download(handle, contents.back());
  }
  return contents;
}

/// Problems that between them meet every oracle entry.
std::vector<std::pair<std::string, Values>> oracle_problems() {
  std::vector<std::pair<std::string, Values>> problems;
  for (const char* subject : {"deltanet_decode", "gated_deltanet_decode"}) {
    problems.push_back({subject, {{"h", "2"}, {"dk", "128"}, {"dv", "64"}, {"keys", "unit"}}});
    problems.push_back({subject, {{"dv", "128"}, {"state", "input"}, {"scale", "auto"}}});
    problems.push_back({subject, {{"dtype", "f16"}, {"beta", "coin"}, {"keys", "correlated"}}});
    problems.push_back({subject, {{"dtype", "f16"}, {"state", "input"}, {"states", "zero"}}});
    problems.push_back({subject, {{"dtype", "f32"}, {"dk", "128"}, {"dv", "128"}}});
  }
  problems.push_back({"gated_deltanet_decode", {{"gate", "20"}, {"keys", "unit"}}});
  return problems;
}

TEST(DeltanetDecode, DeviceOracleAgreesWithTheReference) {
  for (const auto& [subject, values] : oracle_problems()) {
    const ResolvedTrial trial = resolve(registry(), subject, values, {});
    SCOPED_TRACE(trial.problem.line());
    const core::TrialPlan& plan = trial.plan;
    const auto bytes = inputs_of(plan, 1);
    std::vector<core::Tensor> inputs;
    for (const std::uint32_t i : plan.input_indices()) {
      inputs.emplace_back(plan.buffers[i].dtype, plan.buffers[i].shape);
      inputs.back().bytes = bytes[i];
    }
    const std::vector<core::ReferenceTensor> expected = plan.reference(inputs);
    std::vector<std::size_t> extra;
    for (const std::uint32_t o : plan.output_indices()) {
      extra.insert(extra.end(), 2, static_cast<std::size_t>(plan.buffers[o].elements()) * 8);
    }
    const auto contents = execute(plan.device_oracle(1), plan, bytes, 1, extra);
    for (std::size_t o = 0; o < expected.size(); ++o) {
      const auto compare = [&](std::size_t buffer, const std::vector<double>& wanted) {
        std::vector<double> got(wanted.size());
        ASSERT_EQ(contents[buffer].size(), got.size() * sizeof(double));
        std::memcpy(got.data(), contents[buffer].data(), contents[buffer].size());
        double largest = 0.0, worst = 0.0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(std::isfinite(got[i])) << i;
          largest = std::max(largest, std::abs(wanted[i]));
          worst = std::max(worst, std::abs(got[i] - wanted[i]));
        }
        EXPECT_LE(worst, 1e-12 * largest);
      };
      compare(plan.buffers.size() + 2 * o, expected[o].expected);
      compare(plan.buffers.size() + 2 * o + 1, expected[o].bound);
    }
  }
}

TEST(DeltanetDecode, ABatchIsItsTrialsBackToBack) {
  for (const char* name : {"deltanet_decode", "gated_deltanet_decode@lanes"}) {
    const ResolvedTrial trial =
        resolve(registry(), name, {{"h", "2"}, {"dv", "128"}, {"state", "input"}}, {});
    const core::TrialPlan& plan = trial.plan;
    ASSERT_GE(plan.max_batch, 2u);
    const auto both_inputs = inputs_of(plan, 2);
    const auto together = execute(plan.program(2), plan, both_inputs, 2, {});
    for (std::size_t half = 0; half < 2; ++half) {
      std::vector<std::vector<std::byte>> inputs = both_inputs;
      for (std::vector<std::byte>& bytes : inputs) {
        const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
        bytes = half == 0 ? std::vector<std::byte>(bytes.begin(), middle)
                          : std::vector<std::byte>(middle, bytes.end());
      }
      const auto alone = execute(plan.program(1), plan, inputs, 1, {});
      for (const std::uint32_t o : plan.output_indices()) {
        const std::size_t bytes = plan.buffers[o].bytes();
        EXPECT_EQ(std::memcmp(alone[o].data(), together[o].data() + half * bytes, bytes), 0)
            << name << " " << plan.buffers[o].name << " trial " << half;
      }
    }
  }
}

TEST(DeltanetDecode, TheDefaultTileFollowsTheNumberOfHeads) {
  const auto tile = [](const char* b, const char* state) {
    return resolve(registry(), "deltanet_decode",
                   {{"b", b}, {"h", "32"}, {"dk", "128"}, {"dv", "128"}, {"state", state}}, {})
        .config.line();
  };
  EXPECT_EQ(tile("1", "f32"), "v_tile=16 group=16");
  EXPECT_EQ(tile("64", "f32"), "v_tile=64 group=16");
  EXPECT_EQ(tile("1", "input"), "v_tile=32 group=16");
  EXPECT_EQ(tile("64", "input"), "v_tile=32 group=16");
}

TEST(DeltanetDecode, ATileThatIsNotBuiltIsRefused) {
  try {
    resolve(registry(), "deltanet_decode", {}, {{"v_tile", "64"}, {"group", "32"}});
    FAIL() << "accepted";
  } catch (const core::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("v_tile=64 group=32 is not built"));
    EXPECT_THAT(error.what(), HasSubstr("v_tile=32 with group=32"));
  }
}

/// What one trial on the simulator says of the lanes.
core::Verdict verdict_of(const core::TrialPlan& plan) {
  const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  core::TrialRequest request;
  request.access_statistics = true;
  request.perturbation.fresh_inputs = true;
  core::Evidence evidence;
  evidence.subject = plan.subject;
  evidence.variant = plan.variant;
  evidence.backend = "simulator";
  evidence.backend_is_model = true;
  evidence.mode = "verify";
  core::ConfigEvidence cell;
  cell.problem = plan.problem.values.line();
  cell.config = plan.config.line();
  cell.result = backend->run_trials(plan, request);
  EXPECT_EQ(cell.result.status, core::ExecutionStatus::completed) << cell.result.message;
  evidence.accesses = cell.result.accesses;
  cell.failed = cell.result.failed > 0;
  evidence.configs.push_back(std::move(cell));
  return diagnosis::diagnose(evidence);
}

const core::Finding* folded(const core::Verdict& verdict) {
  for (const core::Finding& finding : verdict.findings) {
    if (finding.finding == core::FindingClass::slow_lane_folded) {
      return &finding;
    }
  }
  return nullptr;
}

TEST(LaneFolded, IsRightAndRecognisedInEveryDtypeOfVectorsAndState) {
  for (const char* subject : {"deltanet_decode", "gated_deltanet_decode"}) {
    for (const char* dtype : {"bf16", "f16", "f32"}) {
      for (const char* state : {"f32", "input"}) {
        for (const char* states : {"random", "zero"}) {
          const ResolvedTrial trial =
              resolve(registry(), fmt::format("{}@lane_folded", subject),
                      {{"dtype", dtype}, {"state", state}, {"states", states}}, {});
          SCOPED_TRACE(trial.problem.line());
          const core::Verdict verdict = verdict_of(trial.plan);
          EXPECT_EQ(verdict.outcome, core::Outcome::pass) << verdict.summary;
          const core::Finding* finding = folded(verdict);
          ASSERT_NE(finding, nullptr) << verdict.summary;
          EXPECT_EQ(finding->severity, core::Severity::warning);
          EXPECT_THAT(finding->headline, HasSubstr("4.0 lanes of a warp store each element"));
        }
      }
    }
  }
}

class CleanVariant : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> clean_variants() {
  std::vector<std::string> names;
  for (const auto& subject : registry().all()) {
    for (const Variant& variant : subject->variants) {
      if (!variant.is_mutant) {
        names.push_back(subject->name + "@" + variant.name);
      }
    }
  }
  return names;
}

TEST_P(CleanVariant, DoesNotLookFolded) {
  const Subject& subject = registry().get(GetParam().substr(0, GetParam().find('@')));
  const std::string variant = GetParam().substr(GetParam().find('@') + 1);
  const core::Problem problem = subject.verify_problems(true).front();
  for (const core::Config& config : subject.configs(problem, variant)) {
    const core::Verdict verdict = verdict_of(subject.plan(problem, variant, config));
    EXPECT_EQ(folded(verdict), nullptr) << config.line() << ": " << verdict.summary;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CleanVariant, ::testing::ValuesIn(clean_variants()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '@', '_');
                           return name;
                         });

}  // namespace
}  // namespace faultline::kernels
