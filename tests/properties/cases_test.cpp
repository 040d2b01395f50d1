// SPDX-License-Identifier: Apache-2.0
// Domains over the built-in subjects keep the contract; a case's text is a command line.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/domain_contract.hpp"
#include "faultline/properties/integers.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

TEST(CaseContract, ProblemsOfEverySubject) {
  for (const auto& subject : subjects().all()) {
    EXPECT_THAT(domain_violations(problems(*subject, simulator_limits(*subject))), IsEmpty());
  }
}

TEST(CaseContract, CasesOfEveryVariant) {
  for (const auto& subject : subjects().all()) {
    for (const kernels::Variant& variant : subject->variants) {
      SCOPED_TRACE(variant.name);
      EXPECT_THAT(domain_violations(simulator_cases(subject->name, {.variants = {variant.name}}),
                                    {.values = 4, .shrinks = 8, .longest_walk = 8}),
                  IsEmpty());
    }
  }
}

TEST(CaseContract, CasesOfAllCleanVariants) {
  for (const auto& subject : subjects().all()) {
    const CaseOptions options{
        .race = {core::RaceMode::off, core::RaceMode::lenient, core::RaceMode::strict}};
    EXPECT_THAT(domain_violations(simulator_cases(subject->name, options),
                                  {.values = 12, .shrinks = 12, .longest_walk = 10}),
                IsEmpty());
  }
}

TEST(CaseContract, InputRegimes) {
  EXPECT_THAT(domain_violations(input_regimes()), IsEmpty());
  EXPECT_THAT(domain_violations(input_regimes({core::DataMode::exact})), IsEmpty());
}

TEST(Cases, PrintTheCommandThatRerunsThem) {
  Case c;
  const auto trial = kernels::resolve(subjects(), "gemv@pipelined",
                                      {{"n", "3"}, {"k", "257"}, {"dtype", "f16"}}, {});
  c.problem = trial.problem;
  c.variant = "pipelined";
  c.config = trial.config;
  c.regime = {core::DataMode::exact, 7};
  EXPECT_EQ(command_line(c),
            "faultline verify gemv n=3 k=257 dtype=f16 inputs=any --variant pipelined --config "
            "stages=3,rows=1,threads=128,tile_k=2048 --data exact --seed 7 --trials 1 --backend "
            "simulator");
  EXPECT_EQ(parse_case(subjects(), command_line(c)), c);
  c.race = core::RaceMode::off;
  EXPECT_EQ(parse_case(subjects(), command_line(c)), c);
}

TEST(Cases, WithoutOptionsHaveTheDefaults) {
  const Case c = parse_case(subjects(), "faultline verify gla_decode@serial dk=16");
  EXPECT_EQ(c.variant, "serial");
  EXPECT_EQ(c.problem.values.text("dk"), "16");
  EXPECT_EQ(c.trials, 1u);
}

TEST(Cases, RefuseWhatTheyDoNotKnow) {
  for (const char* text :
       {"", "faultline stress gemv", "faultline verify gemw", "faultline verify gemv --sed 3",
        "faultline verify gemv --seed", "faultline verify gemv --seed x",
        "faultline verify gemv n=0", "faultline verify gemv --data odd"}) {
    EXPECT_THROW(parse_case(subjects(), text), core::UsageError) << text;
  }
}

TEST(Cases, AreOneStepOrSequences) {
  for (const auto& subject : subjects().all()) {
    const std::vector<core::DataMode> modes = data_modes(*subject);
    EXPECT_EQ(modes.size(), is_sequence(*subject) ? 1u : 3u) << subject->name;
    EXPECT_EQ(modes.front(), core::DataMode::normal);
  }
}

TEST(Cases, AreNotDrawnWhereTheVariantIsDeclaredWeak) {
  const auto domain = simulator_cases("deltanet_fwd", {.variants = {"squaring"}});
  std::set<std::string> keys;
  for (std::uint64_t i = 0; i < 200; ++i) {
    keys.insert(domain.generator(rc::Random(i)).value().problem.values.text("keys"));
  }
  EXPECT_THAT(keys, UnorderedElementsAre("small", "unit", "repeated"));
  Case weak = parse_case(subjects(), "faultline verify deltanet_fwd@squaring t=1 keys=identical");
  EXPECT_THAT(domain.complaint(weak), HasSubstr("declared weak"));
  weak.variant = "chunkwise";
  EXPECT_EQ(simulator_cases("deltanet_fwd").complaint(weak), "");
}

/// What a parameter must be drawn as: all of its list, or the edges of its tiles.
std::vector<std::string> values_to_see(const core::ParameterSpec& spec,
                                       const ProblemLimits& limits) {
  std::vector<std::string> values;
  if (spec.kind != core::ParameterSpec::Kind::integer) return spec.choices;
  for (const std::int64_t value : spec.allowed) values.push_back(std::to_string(value));
  for (const ParameterLimit& limit : limits.parameters) {
    if (limit.name != spec.name || !spec.allowed.empty()) continue;
    const std::int64_t maximum = std::min(limit.maximum, spec.maximum);
    for (const std::int64_t edge :
         edges_of({spec.minimum, maximum, spec.multiple_of, limit.tiles})) {
      values.push_back(std::to_string(edge));
    }
  }
  return values;
}

TEST(Cases, CoverVariantsDtypesConfigsAndEdges) {
  for (const auto& subject : subjects().all()) {
    SCOPED_TRACE(subject->name);
    const auto domain = simulator_cases(subject->name);
    std::map<std::string, std::set<std::string>> seen, offered;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Case c = domain.generator(rc::Random(i)).value();
      seen["variant"].insert(c.variant);
      seen["data"].insert(std::string(core::name_of(c.regime.data)));
      for (const auto& [name, value] : c.problem.values.values()) seen[name].insert(value);
      const std::string configs = "configs of " + c.variant;
      seen[configs].insert(c.config.line());
      for (const core::Config& config : subject->configs(c.problem, c.variant)) {
        offered[configs].insert(config.line());
      }
    }
    for (const kernels::Variant& variant : subject->variants) {
      if (!variant.is_mutant) offered["variant"].insert(variant.name);
    }
    for (const core::DataMode data : data_modes(*subject)) {
      offered["data"].insert(std::string(core::name_of(data)));
    }
    for (const auto& [name, values] : offered) EXPECT_EQ(seen[name], values) << name;
    const ProblemLimits limits = simulator_limits(*subject);
    for (const core::ParameterSpec& spec : subject->problem_domain.parameters) {
      EXPECT_THAT(seen[spec.name], IsSupersetOf(values_to_see(spec, limits))) << spec.name;
      EXPECT_GT(seen[spec.name].size(), 1u) << spec.name;
    }
  }
}

TEST(CaseContract, LimitsThatLeaveNothingAreRefused) {
  ProblemLimits limits = simulator_limits(subjects().get("deltanet_bwd"));
  limits.traffic_bytes = 16.0 * 1024.0;  // four states of 64 x 64 are 64 KiB
  try {
    problems(subjects().get("deltanet_bwd"), limits);
    FAIL() << "no UsageError";
  } catch (const core::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("leave no problem of deltanet_bwd"));
  }
  limits.traffic_bytes = 80.0 * 1024.0;  // narrow states only: listed values step down
  EXPECT_THAT(domain_violations(problems(subjects().get("deltanet_bwd"), limits)), IsEmpty());
}

}  // namespace
}  // namespace faultline::properties
