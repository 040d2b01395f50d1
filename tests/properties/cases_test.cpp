// SPDX-License-Identifier: Apache-2.0
// Domains over the built-in subjects keep the contract; a case's text is a command line.
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/domain_contract.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using ::testing::IsEmpty;

TEST(CaseContract, ProblemsOfEverySubject) {
  for (const auto& subject : subjects().all()) {
    EXPECT_THAT(domain_violations(problems(*subject, simulator_limits(*subject))), IsEmpty());
  }
}

TEST(CaseContract, CasesOfEveryVariant) {
  for (const auto& subject : subjects().all()) {
    for (const kernels::Variant& variant : subject->variants) {
      SCOPED_TRACE(variant.name);
      EXPECT_THAT(domain_violations(cases(subjects(), subject->name, simulator_limits(*subject),
                                          {.variants = {variant.name}}),
                                    {.values = 8, .longest_walk = 20}),
                  IsEmpty());
    }
  }
}

TEST(CaseContract, CasesOfAllCleanVariants) {
  for (const auto& subject : subjects().all()) {
    const CaseOptions options{
        .race = {core::RaceMode::off, core::RaceMode::lenient, core::RaceMode::strict}};
    EXPECT_THAT(
        domain_violations(cases(subjects(), subject->name, simulator_limits(*subject), options),
                          {.values = 30, .longest_walk = 20}),
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

TEST(Cases, CoverVariantsDtypesConfigsAndEdges) {
  for (const auto& subject : subjects().all()) {
    const auto domain = cases(subjects(), subject->name, simulator_limits(*subject));
    std::map<std::string, std::set<std::string>> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Case c = domain.generator(rc::Random(i)).value();
      seen["variant"].insert(c.variant);
      seen["config of " + c.variant].insert(c.config.line());
      seen["data"].insert(std::string(core::name_of(c.regime.data)));
      for (const auto& [name, value] : c.problem.values.values()) seen[name].insert(value);
    }
    EXPECT_EQ(seen["variant"].size(), 3u) << subject->name;
    EXPECT_EQ(seen["dtype"].size(), 3u) << subject->name;
    EXPECT_EQ(seen["data"].size(), 3u) << subject->name;
    for (const std::string& variant : seen["variant"]) {
      const core::Problem problem = subject->verify_problems(true).front();
      EXPECT_EQ(seen["config of " + variant].size(), subject->configs(problem, variant).size());
    }
    if (subject->name == "gemv") {
      for (const char* k : {"1", "255", "256", "257", "511", "512", "513", "1023", "1024", "1025",
                            "2047", "2048", "2049"}) {
        EXPECT_TRUE(seen["k"].contains(k)) << k;
      }
    } else {
      EXPECT_EQ(seen["dk"].size(), 16u);
    }
  }
}

}  // namespace
}  // namespace faultline::properties
