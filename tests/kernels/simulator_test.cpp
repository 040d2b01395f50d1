// SPDX-License-Identifier: Apache-2.0
// Every subject on the simulator: clean variants are right and free of races in every config,
// mutants show where they say.
#include <faultline/kernels/subject.hpp>
#include <faultline/simulator/simulator_backend.hpp>

#include <faultline/core/errors.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    register_builtin_subjects(all);
    return all;
  }();
  return subjects;
}

struct Name {
  std::string subject, variant;
};

std::vector<Name> variants(bool mutants) {
  std::vector<Name> names;
  for (const auto& subject : registry().all()) {
    // Those of the catalogue have one dtype and a test of their own, catalogue_test.cpp.
    if (!subject->problem_domain.find("dtype")) continue;
    for (const Variant& variant : subject->variants) {
      if (variant.is_mutant == mutants) {
        names.push_back({subject->name, variant.name});
      }
    }
  }
  return names;
}

std::string test_name(const ::testing::TestParamInfo<Name>& info) {
  return info.param.subject + "_" + info.param.variant;
}

core::TrialResult run_one(const core::TrialPlan& plan,
                          core::DataMode data = core::DataMode::normal) {
  const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  core::TrialRequest request;
  request.seed = 1;
  request.count = 1;
  request.data = data;
  request.race = core::RaceMode::strict;
  request.perturbation.fresh_inputs = true;
  return backend->run_trials(plan, request);
}

std::string describe(const core::TrialResult& result) {
  std::string text = fmt::format("{} of {} trials failed, {} raced. {}", result.failed,
                                 result.trials, result.raced, result.message);
  for (const core::OutputTotals& output : result.outputs) {
    text += fmt::format("\n{}: {} bad elements, worst {:.3g} of bound", output.name,
                        output.bad_elements, output.worst_ratio);
  }
  for (const core::RaceReport& race : result.races) {
    text += fmt::format("\nrace on {}: {}", race.buffer, race.missing_edge);
  }
  return text;
}

class CleanVariant : public ::testing::TestWithParam<Name> {};

TEST_P(CleanVariant, IsRightInEveryConfigAndFreeOfRaces) {
  const Subject& subject = registry().get(GetParam().subject);
  double worst = 0.0;
  for (const core::Problem& problem : subject.verify_problems(true)) {
    if (!subject.find_variant(GetParam().variant)->declared_weakness(problem.values, {}).empty()) {
      continue;
    }
    for (const core::Config& config : subject.configs(problem, GetParam().variant)) {
      const core::TrialPlan plan = subject.plan(problem, GetParam().variant, config);
      const core::TrialResult result = run_one(plan);
      ASSERT_EQ(result.status, core::ExecutionStatus::completed)
          << problem.line() << " " << config.line() << "\n"
          << describe(result);
      ASSERT_EQ(result.trials, 1u);
      ASSERT_EQ(result.failed, 0u) << problem.line() << " " << config.line() << "\n"
                                   << describe(result);
      for (std::size_t o = 0; o < result.outputs.size(); ++o) {
        const auto index = plan.output_indices()[o];
        ASSERT_EQ(result.outputs[o].compared_elements,
                  static_cast<std::uint64_t>(plan.buffers[index].elements()));
        worst = std::max(worst, result.outputs[o].worst_ratio);
      }
    }
  }
  RecordProperty("worst_fraction_of_bound", fmt::format("{:.3f}", worst));
  fmt::print("worst {:.3f} of bound\n", worst);
}

class CodedData : public ::testing::TestWithParam<Name> {};

TEST_P(CodedData, IsRight) {
  const std::string name = GetParam().subject + "@" + GetParam().variant;
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    std::vector<core::Assignment::Value> problem{{"dtype", dtype}};
    // Behind a sigmoid no integer stays exact.
    if (registry().get(GetParam().subject).problem_domain.find("epilogue")) {
      problem.emplace_back("epilogue", "none");
    }
    const core::TrialPlan plan = resolve(registry(), name, problem, {}).plan;
    const core::TrialResult exact = run_one(plan, core::DataMode::exact);
    EXPECT_EQ(exact.failed, 0u) << dtype << "\n" << describe(exact);
    for (const core::OutputTotals& output : exact.outputs) {
      EXPECT_EQ(output.worst_rounded_error, 0.0) << dtype << " " << output.name;
    }
    const core::TrialResult address = run_one(plan, core::DataMode::address);
    EXPECT_EQ(address.failed, 0u) << dtype << "\n" << describe(address);
  }
}

INSTANTIATE_TEST_SUITE_P(Simulator, CleanVariant, ::testing::ValuesIn(variants(false)), test_name);

/// Subjects of one step. Over a sequence the states of coded keys grow without limit: a step of the
/// delta rule contracts only while beta |k|^2 <= 2.
std::vector<Name> one_step_variants() {
  std::vector<Name> names;
  for (const Name& name : variants(false)) {
    if (!registry().get(name.subject).problem_domain.find("t")) {
      names.push_back(name);
    }
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Simulator, CodedData, ::testing::ValuesIn(one_step_variants()), test_name);

class MutantVariant : public ::testing::TestWithParam<Name> {};

TEST_P(MutantVariant, ShowsWhereItSays) {
  const Subject& subject = registry().get(GetParam().subject);
  const Variant& variant = *subject.find_variant(GetParam().variant);
  const core::Problem problem =
      resolve(registry(), subject.name + "@" + variant.name, variant.shows_at, {}).problem;
  std::size_t configs = 0, wrong = 0, raced = 0;
  for (const core::Config& config : subject.configs(problem, variant.name)) {
    SCOPED_TRACE(config.line());
    const core::TrialResult result = run_one(subject.plan(problem, variant.name, config));
    ASSERT_EQ(result.status, core::ExecutionStatus::completed) << describe(result);
    ++configs;
    wrong += result.wrong_values != 0;
    raced += result.raced != 0;
  }
  switch (*variant.required_finding) {
  case core::FindingClass::race_async:
  case core::FindingClass::race_shared: EXPECT_EQ(raced, configs); break;
  case core::FindingClass::slow_uncoalesced:
  case core::FindingClass::slow_lane_folded:
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(raced, 0u);
    break;
  case core::FindingClass::config:
    EXPECT_GT(wrong, 0u);
    EXPECT_LT(wrong, configs);
    break;
  default:
    EXPECT_EQ(wrong, configs);
    EXPECT_EQ(raced, 0u);
    break;
  }
}

TEST_P(MutantVariant, CleanTwinPassesThere) {
  const Subject& subject = registry().get(GetParam().subject);
  const Variant& variant = *subject.find_variant(GetParam().variant);
  const ResolvedTrial twin =
      resolve(registry(), subject.name + "@" + variant.clean_twin, variant.shows_at, {});
  const core::TrialResult result = run_one(twin.plan);
  EXPECT_EQ(result.failed, 0u) << describe(result);
  EXPECT_EQ(result.trials, 1u);
}

INSTANTIATE_TEST_SUITE_P(Simulator, MutantVariant, ::testing::ValuesIn(variants(true)), test_name);

}  // namespace
}  // namespace faultline::kernels
