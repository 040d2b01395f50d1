// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/kernels/subject.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace faultline::kernels {
namespace {

using ::testing::HasSubstr;

/// A subject of two configs that do not combine freely: (a=1, b=2) and (a=3, b=4).
Subject make_toy(std::string name) {
  core::ParameterSpec n;
  n.name = "n";
  n.minimum = 1;
  n.maximum = 100;
  n.default_value = "10";
  const auto listed = [](const char* parameter, std::vector<std::int64_t> allowed) {
    core::ParameterSpec spec;
    spec.name = parameter;
    spec.allowed = allowed;
    spec.default_value = std::to_string(allowed.front());
    return spec;
  };
  Subject subject;
  subject.name = std::move(name);
  subject.problem_domain = {{n}};
  subject.config_domain = [=](const std::string&) {
    return core::Domain{{listed("a", {1, 3}), listed("b", {2, 4})}};
  };
  subject.configs = [](const core::Problem&, const std::string&) {
    return std::vector{core::Config({{"a", "1"}, {"b", "2"}}),
                       core::Config({{"a", "3"}, {"b", "4"}})};
  };
  subject.verify_problems = [](bool) { return std::vector<core::Problem>{}; };
  Variant clean;
  clean.name = "clean";
  Variant mutant;
  mutant.name = "broken";
  mutant.is_mutant = true;
  mutant.clean_twin = "clean";
  mutant.required_finding = core::FindingClass::tail;
  subject.variants = {clean, mutant};
  subject.numeric_plan = [](const core::Problem&) { return std::vector<RoundingPoint>{}; };
  subject.plan = [](const core::Problem& problem, const std::string& variant,
                    const core::Config& config) {
    core::TrialPlan plan;
    plan.problem = problem;
    plan.variant = variant;
    plan.config = config;
    return plan;
  };
  subject.lengths = [](const core::Problem&, const std::string&, const core::Config&) {
    return TileLengths{};
  };
  subject.traffic_bytes = [](const core::Problem&) { return 0.0; };
  return subject;
}

std::string usage_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

TEST(Registry, KeepsSubjectsByName) {
  SubjectRegistry registry;
  registry.add(make_toy("first"));
  registry.add(make_toy("second"));
  EXPECT_EQ(registry.get("second").name, "second");
  EXPECT_EQ(registry.all().size(), 2u);
  EXPECT_THAT(usage_error([&] { registry.add(make_toy("first")); }), HasSubstr("already"));
  const std::string unknown = usage_error([&] { registry.get("secondd"); });
  EXPECT_THAT(unknown, HasSubstr("did you mean 'second'?"));
  EXPECT_THAT(unknown, HasSubstr("first, second"));
}

TEST(Registry, EmptySaysWhy) {
  EXPECT_THAT(usage_error([] { SubjectRegistry().get("gemv"); }), HasSubstr("without nvcc"));
}

TEST(Registry, RefusesIncompleteSubjects) {
  SubjectRegistry registry;
  Subject no_plan = make_toy("toy");
  no_plan.plan = nullptr;
  EXPECT_THAT(usage_error([&] { registry.add(no_plan); }), HasSubstr("lacks plan"));
  Subject no_variant = make_toy("toy");
  no_variant.variants.clear();
  EXPECT_THAT(usage_error([&] { registry.add(no_variant); }), HasSubstr("a variant"));
  Subject no_twin = make_toy("toy");
  no_twin.variants[1].clean_twin = "gone";
  EXPECT_THAT(usage_error([&] { registry.add(no_twin); }), HasSubstr("'gone'"));
  Subject no_finding = make_toy("toy");
  no_finding.variants[1].required_finding.reset();
  EXPECT_THAT(usage_error([&] { registry.add(no_finding); }), HasSubstr("required finding"));
  Subject no_parameter = make_toy("toy");
  no_parameter.contiguous = {{"pitchh", "0"}};
  EXPECT_THAT(usage_error([&] { registry.add(no_parameter); }), HasSubstr("names 'pitchh'"));
  EXPECT_TRUE(registry.all().empty());
}

class Resolve : public ::testing::Test {
 protected:
  Resolve() { registry_.add(make_toy("toy")); }

  SubjectRegistry registry_;
};

TEST_F(Resolve, DefaultsEverything) {
  const ResolvedTrial trial = resolve(registry_, "toy", {}, {});
  EXPECT_EQ(trial.subject->name, "toy");
  EXPECT_EQ(trial.variant->name, "clean");
  EXPECT_EQ(trial.problem.line(), "toy n=10");
  EXPECT_EQ(trial.config.line(), "a=1 b=2");
  EXPECT_EQ(trial.plan.variant, "clean");
}

TEST_F(Resolve, TakesTheVariantFromTheName) {
  EXPECT_EQ(resolve(registry_, "toy@broken", {}, {}).variant->name, "broken");
  const std::string unknown = usage_error([&] { resolve(registry_, "toy@brokn", {}, {}); });
  EXPECT_THAT(unknown, HasSubstr("did you mean 'broken'?"));
  EXPECT_THAT(unknown, HasSubstr("clean, broken"));
  EXPECT_THAT(usage_error([&] { resolve(registry_, "toy@", {}, {}); }),
              HasSubstr("unknown variant"));
}

TEST_F(Resolve, FillsAConfigFromOneThatExists) {
  EXPECT_EQ(resolve(registry_, "toy", {}, {{"a", "3"}}).config.line(), "a=3 b=4");
  EXPECT_EQ(resolve(registry_, "toy", {}, {{"b", "4"}}).config.line(), "a=3 b=4");
  // Given in full, a config is the plan's to refuse.
  EXPECT_EQ(resolve(registry_, "toy", {}, {{"b", "4"}, {"a", "1"}}).config.line(), "a=1 b=4");
}

TEST_F(Resolve, RefusesAnOracleThatNothingChecks) {
  Subject unchecked = make_toy("unchecked");
  unchecked.plan = [inner = unchecked.plan](const core::Problem& problem,
                                            const std::string& variant,
                                            const core::Config& config) {
    core::TrialPlan plan = inner(problem, variant, config);
    plan.device_oracle = [](std::uint32_t) { return core::Program{}; };
    return plan;
  };
  registry_.add(unchecked);
  EXPECT_THAT(usage_error([&] { resolve(registry_, "unchecked", {}, {}); }),
              HasSubstr("no host reference"));
}

TEST_F(Resolve, RefusesValuesOutsideTheDomains) {
  EXPECT_THAT(usage_error([&] {
                resolve(registry_, "toy", {{"n", "0"}}, {});
              }),
              HasSubstr("[1, 100]"));
  EXPECT_THAT(usage_error([&] { resolve(registry_, "toy", {{"m", "1"}}, {}); }), HasSubstr("'m'"));
  EXPECT_THAT(usage_error([&] { resolve(registry_, "toy", {}, {{"a", "2"}}); }), HasSubstr("1, 3"));
}

}  // namespace
}  // namespace faultline::kernels
