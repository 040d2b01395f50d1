// SPDX-License-Identifier: Apache-2.0
// A test that a fake would pass tests nothing. For every subject of this build, at the smallest of
// its problems of each dtype: trivial outputs are refused, and a call that launches nothing fails.
#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/simulator/simulator_backend.hpp"
#include "faultline/stress/verify.hpp"

namespace faultline {
namespace {

std::int64_t elements_of(const core::TrialPlan& plan) {
  std::int64_t elements = 0;
  for (const core::BufferSpec& buffer : plan.buffers) elements += buffer.elements();
  return elements;
}

core::TrialPlan default_plan(const kernels::Subject& subject, const core::Problem& problem) {
  const std::string& variant = subject.variants.front().name;
  return subject.plan(problem, variant, subject.configs(problem, variant).front());
}

/// By the types of the outputs, the problem with the fewest elements.
std::map<std::string, core::Problem> smallest_problems(const kernels::Subject& subject) {
  std::map<std::string, std::pair<std::int64_t, core::Problem>> smallest;
  for (const core::Problem& problem : subject.verify_problems(true)) {
    const core::TrialPlan plan = default_plan(subject, problem);
    std::string types;
    for (const std::uint32_t index : plan.output_indices()) {
      types += std::string(core::name_of(plan.buffers[index].dtype)) + " ";
    }
    const std::int64_t elements = elements_of(plan);
    const auto known = smallest.find(types);
    if (known == smallest.end() || elements < known->second.first) {
      smallest.insert_or_assign(types, std::pair(elements, problem));
    }
  }
  std::map<std::string, core::Problem> problems;
  for (const auto& [types, entry] : smallest) problems.emplace(types, entry.second);
  return problems;
}

struct FakeOutputs : testing::Test {
  kernels::SubjectRegistry registry;
  FakeOutputs() { kernels::register_builtin_subjects(registry); }
};

TEST_F(FakeOutputs, TrivialOutputsAreRefused) {
  ASSERT_FALSE(registry.all().empty());
  for (const auto& subject : registry.all()) {
    for (const auto& [types, problem] : smallest_problems(*subject)) {
      const auto accepted =
          stress::accepted_null_outputs(default_plan(*subject, problem), core::DataMode::normal,
                                        core::trial_seed(1, 0), core::trial_seed(1, 1));
      EXPECT_TRUE(accepted.empty()) << problem.line() << ": " << fmt::format("{}", accepted.size())
                                    << " accepted, the first: " << accepted.front();
    }
  }
}

TEST_F(FakeOutputs, ACallThatLaunchesNothingFails) {
  ASSERT_FALSE(registry.all().empty());
  const auto backend = simulator::make_simulator_backend();
  for (const auto& subject : registry.all()) {
    kernels::Subject empty = *subject;
    empty.plan = [&subject](const core::Problem& problem, const std::string& variant,
                            const core::Config& config) {
      core::TrialPlan plan = subject->plan(problem, variant, config);
      plan.program = [](std::uint32_t) { return core::Program{}; };
      return plan;
    };
    for (const auto& [types, problem] : smallest_problems(*subject)) {
      stress::VerifyOptions options;
      options.configs = {subject->configs(problem, subject->variants.front().name).front()};
      const core::Verdict verdict = diagnosis::diagnose(
          stress::run_verify(*backend, empty, empty.variants.front(), {problem}, options));
      EXPECT_EQ(verdict.outcome, core::Outcome::fail) << problem.line() << ": " << verdict.summary;
    }
  }
}

}  // namespace
}  // namespace faultline
