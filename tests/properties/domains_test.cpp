// SPDX-License-Identifier: Apache-2.0
// Every domain keeps the contract, and draws what it is there for.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/domain_contract.hpp"
#include "faultline/properties/floats.hpp"
#include "faultline/properties/integers.hpp"
#include "faultline/properties/perturbations.hpp"
#include "faultline/properties/problems.hpp"
#include "faultline/properties/records.hpp"
#include "faultline/properties/run_property.hpp"

namespace faultline::properties {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A subject of which only the problem domain matters.
kernels::Subject subject_with_every_kind_of_parameter() {
  using core::ParameterSpec;
  kernels::Subject subject;
  subject.name = "shapes";
  ParameterSpec rows, groups, width, mode, dtype, factor;
  rows.name = "rows";
  rows.maximum = 1 << 20;
  rows.default_value = "100";
  groups.name = "groups";
  groups.minimum = 16;
  groups.maximum = 256;
  groups.multiple_of = 16;
  groups.default_value = "64";
  width.name = "width";
  width.allowed = {128, 64};
  width.default_value = "64";
  mode.name = "mode";
  mode.kind = ParameterSpec::Kind::choice;
  mode.choices = {"plain", "swizzled"};
  mode.default_value = "plain";
  dtype.name = "dtype";
  dtype.kind = ParameterSpec::Kind::dtype;
  dtype.choices = {"f16", "bf16", "f32"};
  dtype.default_value = "f16";
  factor.name = "factor";
  factor.kind = ParameterSpec::Kind::real;
  factor.real_minimum = -2.0;
  factor.real_maximum = 64.0;
  factor.choices = {"auto"};
  factor.default_value = "auto";
  subject.problem_domain = {{rows, groups, width, mode, dtype, factor}};
  subject.traffic_bytes = [](const core::Problem& problem) {
    return 2.0 *
           static_cast<double>(problem.values.integer("rows") * problem.values.integer("groups"));
  };
  return subject;
}

template <typename T>
std::vector<T> draw(const ValueDomain<T>& domain, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(domain.generator(rc::Random(static_cast<std::uint64_t>(i))).value());
  }
  return values;
}

TEST(DomainContract, Integers) {
  for (const IntegerRange& range :
       {IntegerRange{1, 6200, 1, {8, 256, 512, 1024, 2048}}, IntegerRange{16, 256, 16, {16, 32}},
        IntegerRange{5, 5, 1, {}}, IntegerRange{1, std::int64_t{1} << 40, 1, {1 << 20}},
        IntegerRange{0, 100, 7, {7, 9}}}) {
    EXPECT_THAT(domain_violations(tile_edges(range)), IsEmpty());
  }
}

TEST(DomainContract, Elements) {
  EXPECT_THAT(domain_violations(elements(), {.values = 400}), IsEmpty());
  EXPECT_THAT(domain_violations(elements({core::Dtype::bf16}, FloatKind::finite)), IsEmpty());
}

TEST(DomainContract, Problems) {
  const kernels::Subject subject = subject_with_every_kind_of_parameter();
  ProblemLimits limits;
  limits.parameters = {{"rows", 5000, {32, 1000}}, {"groups", 128, {16, 64}}};
  EXPECT_THAT(domain_violations(problems(subject, limits)), IsEmpty());
  limits.dtypes = {core::Dtype::f32};
  EXPECT_THAT(domain_violations(problems(subject, limits)), IsEmpty());
  EXPECT_THAT(domain_violations(problems(subject, {})), IsEmpty());
}

TEST(DomainContract, Perturbations) {
  EXPECT_THAT(domain_violations(perturbations()), IsEmpty());
  EXPECT_THAT(domain_violations(simulator_perturbations()), IsEmpty());
}

TEST(DomainContract, Tokens) { EXPECT_THAT(domain_violations(trial_tokens()), IsEmpty()); }

TEST(DomainContract, Records) {
  EXPECT_THAT(domain_violations(run_records(), {.values = 20, .longest_walk = 12}), IsEmpty());
}

/// Domains with one defect each: the contract suite must not be satisfied by anything.
class BrokenDomain : public testing::Test {
 protected:
  ValueDomain<std::int64_t> domain_ = tile_edges({1, 100, 1, {8}});
  std::string violations() const {
    std::string all;
    for (const std::string& violation : domain_violations(domain_)) all += violation + "\n";
    return all;
  }
  void shrink_by(std::vector<std::int64_t> (*shrink)(const std::int64_t&)) {
    const auto good = domain_.generator;
    domain_.generator =
        make_generator([good](Source& source) { return source.draw(good); }, shrink);
  }
};

TEST_F(BrokenDomain, ValuesOutside) {
  domain_.generator = rc::gen::just(std::int64_t{101});
  EXPECT_THAT(violations(), HasSubstr("'101' is not in the domain"));
}

TEST_F(BrokenDomain, ShrinksOutside) {
  shrink_by([](const std::int64_t& value) { return std::vector<std::int64_t>{value - 1}; });
  EXPECT_THAT(violations(), HasSubstr("'0' is not in the domain"));
}

TEST_F(BrokenDomain, ShrinksThatNeverEnd) {
  shrink_by([](const std::int64_t& value) { return std::vector<std::int64_t>{value}; });
  EXPECT_THAT(violations(), HasSubstr("which is not smaller"));
}

TEST_F(BrokenDomain, TextThatIsNotTheValue) {
  domain_.show = [](const std::int64_t&) { return std::string("1"); };
  EXPECT_THAT(violations(), HasSubstr("parses back as another value"));
}

TEST_F(BrokenDomain, TextThatDoesNotParse) {
  domain_.show = [](const std::int64_t& value) { return std::to_string(value) + " rows"; };
  EXPECT_THAT(violations(), HasSubstr("does not parse"));
}

TEST_F(BrokenDomain, GeneratorsThatThrow) {
  domain_.generator =
      make_generator([](Source&) -> std::int64_t { throw std::runtime_error("no value today"); },
                     [](std::int64_t) { return std::vector<std::int64_t>{}; });
  EXPECT_THAT(violations(), HasSubstr("no value today"));
}

TEST(Integers, MeetEveryEdgeOfTheirTiles) {
  const IntegerRange range{1, 4096, 1, {256, 1024}};
  const std::vector<std::int64_t> values = draw(tile_edges(range), 2000);
  const std::set<std::int64_t> seen(values.begin(), values.end());
  for (const std::int64_t edge : {1, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048,
                                  2049, 3071, 3072, 3073, 4095, 4096}) {
    EXPECT_TRUE(seen.contains(edge)) << edge;
  }
  EXPECT_GT(seen.size(), 300u);  // and not only edges
}

TEST(Integers, EdgesKeepTheMultiple) {
  EXPECT_THAT(edges_of({16, 100, 16, {32}}), ElementsAre(16, 32, 48, 64, 80, 96));
  EXPECT_THAT(edges_of({1, 10, 1, {}}), ElementsAre(1, 10));
}

TEST(Integers, ShrinkToTheSmallestThatFails) {
  // Fails from 257 on; found by bisection, not by luck of the edges, at 300 too.
  for (const std::int64_t smallest : {2, 257, 300, 1025, 4000}) {
    const ValueDomain<std::int64_t> domain = tile_edges({1, 4096, 1, {256, 1024}});
    const PropertyResult result = run_property([&] {
      const std::int64_t value = *domain.generator;
      RC_ASSERT(value < smallest);
    });
    ASSERT_EQ(result.outcome, PropertyOutcome::falsified) << smallest;
    EXPECT_EQ(result.counterexample.at(0).second, std::to_string(smallest));
  }
}

TEST(Integers, RefuseAnEmptyRange) {
  EXPECT_THROW(tile_edges({5, 4, 1, {}}), core::UsageError);
  EXPECT_THROW(tile_edges({1, 7, 8, {}}), core::UsageError);
}

TEST(Elements, DrawWhatArbitraryDoublesNeverAre) {
  for (const core::Dtype dtype :
       {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32, core::Dtype::f64}) {
    std::map<std::string, int> seen;
    for (const ElementBits& e : draw(elements({dtype}), 1000)) {
      const double value = e.value();
      const bool subnormal = value != 0.0 && core::is_finite(value) &&
                             core::exponent_of(value) < core::min_exponent(dtype);
      ++seen[core::is_nan(value)   ? "nan"
             : core::is_inf(value) ? "inf"
             : value == 0.0        ? "zero"
             : subnormal           ? "subnormal"
                                   : "normal"];
    }
    for (const char* kind : {"nan", "inf", "zero", "subnormal"}) {
      EXPECT_GE(seen[kind], 15) << kind << " of " << core::name_of(dtype);
    }
    EXPECT_GE(seen["normal"], 300);
  }
}

TEST(Problems, AreTileEdgesInsideTheBudget) {
  const kernels::Subject subject = subject_with_every_kind_of_parameter();
  ProblemLimits limits;
  limits.parameters = {{"rows", 5000, {1000}}, {"groups", 256, {64}}};
  limits.traffic_bytes = 2.0 * 5000 * 64;
  std::set<std::string> rows, dtypes, factors;
  for (const core::Problem& problem : draw(problems(subject, limits), 500)) {
    rows.insert(problem.values.text("rows"));
    dtypes.insert(problem.values.text("dtype"));
    factors.insert(problem.values.text("factor"));
    EXPECT_LE(subject.traffic_bytes(problem), limits.traffic_bytes);
  }
  for (const char* edge : {"1", "999", "1000", "1001", "5000"}) EXPECT_THAT(rows, Contains(edge));
  EXPECT_THAT(dtypes, ElementsAre("bf16", "f16", "f32"));
  EXPECT_THAT(factors, Contains("auto"));
  EXPECT_GT(factors.size(), 20u);
}

TEST(Problems, ShrinkToTheSmallestLine) {
  const kernels::Subject subject = subject_with_every_kind_of_parameter();
  const ValueDomain<core::Problem> domain = problems(subject, {});
  const PropertyResult result = run_property([&] {
    const core::Problem problem = *domain.generator;
    RC_ASSERT(problem.values.integer("rows") < 33 || problem.values.text("dtype") == "f16");
  });
  ASSERT_EQ(result.outcome, PropertyOutcome::falsified);
  EXPECT_EQ(result.counterexample.at(0).second,
            "shapes rows=33 groups=16 width=64 mode=plain dtype=bf16 factor=auto");
}

}  // namespace
}  // namespace faultline::properties
