// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/problem.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"

namespace faultline::core {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

ParameterSpec integer(std::string name, std::int64_t low, std::int64_t high, std::int64_t multiple,
                      std::string value) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.minimum = low;
  spec.maximum = high;
  spec.multiple_of = multiple;
  spec.default_value = std::move(value);
  return spec;
}

Domain domain() {
  Domain d;
  d.parameters.push_back(integer("b", 1, 1024, 1, "1"));
  d.parameters.push_back(integer("dk", 16, 256, 16, "64"));
  ParameterSpec dtype;
  dtype.name = "dtype";
  dtype.kind = ParameterSpec::Kind::dtype;
  dtype.choices = {"f16", "bf16", "f32"};
  dtype.default_value = "bf16";
  d.parameters.push_back(dtype);
  ParameterSpec layout;
  layout.name = "layout";
  layout.kind = ParameterSpec::Kind::choice;
  layout.choices = {"row", "column"};
  layout.default_value = "row";
  d.parameters.push_back(layout);
  ParameterSpec scale;
  scale.name = "scale";
  scale.kind = ParameterSpec::Kind::real;
  scale.real_maximum = 2.0;
  scale.default_value = "0.1250";
  d.parameters.push_back(scale);
  ParameterSpec threads;
  threads.name = "threads";
  threads.allowed = {128, 256};
  threads.default_value = "128";
  d.parameters.push_back(threads);
  return d;
}

Assignment completed(std::string_view line) {
  return complete(domain(), parse_assignments(line), "problem of gla_decode");
}

TEST(Problem, FillsDefaultsInOrderAndPrintsCanonically) {
  const Assignment values = completed("dtype=bfloat16  dk=0128");
  EXPECT_EQ(values.line(), "b=1 dk=128 dtype=bf16 layout=row scale=0.125 threads=128");
  const Problem problem{"gla_decode", values};
  EXPECT_EQ(problem.line(), "gla_decode " + values.line());
  EXPECT_EQ(completed(values.line()), values);
  EXPECT_EQ(values.integer("dk"), 128);
  EXPECT_EQ(values.dtype(), Dtype::bf16);
  EXPECT_EQ(values.real("scale"), 0.125);
}

TEST(Problem, EveryValueInTheDomainRoundTrips) {
  for (int dk = 16; dk <= 256; dk += 16) {
    for (const char* dtype : {"f16", "bf16", "f32"}) {
      for (const char* scale : {"0", "0.1", "1e-300", "2", "0.30000000000000004"}) {
        Assignment given;
        given.set("dk", dk);
        given.set("dtype", dtype);
        given.set("scale", scale);
        const Assignment values = completed(given.line());
        EXPECT_EQ(completed(values.line()), values);
        EXPECT_EQ(values.real("scale"), std::stod(scale));
      }
    }
  }
}

TEST(Problem, RefusalsNameTheDomain) {
  Domain config;
  config.parameters.push_back(integer("stages", 1, 3, 1, "2"));
  EXPECT_EQ(message_of([&] { complete(config, parse_assignments("stages=0"), "config of gemv"); }),
            "stages=0 is outside the domain of config parameter 'stages' of gemv: integer in "
            "[1, 3]");
  const auto message = [](const char* line) { return message_of([&] { completed(line); }); };
  EXPECT_THAT(message("dk=72"), HasSubstr("integer in [16, 256], a multiple of 16"));
  EXPECT_THAT(message("dk=-16"), HasSubstr("dk=-16 is outside the domain of problem parameter"));
  for (const char* bad : {"dk=64.0", "dk=0x40", "dk=64k", "dk=+64", "dk=99999999999999999999",
                          "dk=nan", "dtype=f64", "dtype=int8", "layout=Row", "scale=nan",
                          "scale=inf", "scale=2.1", "scale=-0.1", "scale=1e", "threads=192"}) {
    EXPECT_THAT(message(bad), HasSubstr("is outside the domain of problem parameter")) << bad;
  }
  EXPECT_THAT(message("threads=192"), HasSubstr("one of the integers 128, 256"));
  EXPECT_THAT(message("dtype=f64"), HasSubstr("one of f16, bf16, f32"));
}

TEST(Problem, UnknownNamesSuggestTheNearest) {
  const auto message = [](const char* line) { return message_of([&] { completed(line); }); };
  EXPECT_THAT(message("dkk=64"), HasSubstr("unknown problem parameter 'dkk' of gla_decode"));
  EXPECT_THAT(message("dkk=64"), HasSubstr("did you mean 'dk'?"));
  EXPECT_THAT(message("dtyp=f16"), HasSubstr("did you mean 'dtype'?"));
  EXPECT_THAT(message("zzzzzzzz=1"), HasSubstr("Known: b, dk, dtype"));
  EXPECT_THAT(message("zzzzzzzz=1"), ::testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(message("dk=16 dk=32"), HasSubstr("given twice"));
  Domain none;
  EXPECT_THAT(message_of([&] {
                complete(none, {{"a", "1"}}, "config of x");
              }),
              HasSubstr("it has no parameters"));
  Domain required;
  required.parameters.push_back(integer("n", 1, 9, 1, ""));
  EXPECT_THAT(message_of([&] { complete(required, {}, "problem of x"); }),
              HasSubstr("has no value and no default"));
}

TEST(Problem, AssignmentsParse) {
  using Values = std::vector<Assignment::Value>;
  EXPECT_EQ(parse_assignments("a=1 b=2"), (Values{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(parse_assignments("a=1,b=2"), (Values{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(parse_assignments("  a=1 ,\tb=2\n"), (Values{{"a", "1"}, {"b", "2"}}));
  EXPECT_TRUE(parse_assignments("").empty());
  EXPECT_TRUE(parse_assignments("  ").empty());
  for (const char* bad : {"a", "=1", "a=", "a=1,", ",a=1", "a=1,,b=2", "a==1", "a=1=2", "a =1"}) {
    EXPECT_THROW(parse_assignments(bad), UsageError) << bad;
  }
}

TEST(Problem, AssignmentsAnswerByName) {
  Assignment values(std::vector<Assignment::Value>{{"n", "12x"}});
  EXPECT_TRUE(values.has("n"));
  EXPECT_FALSE(values.has("k"));
  EXPECT_THROW(values.text("k"), UsageError);
  EXPECT_THROW(values.integer("n"), UsageError);
  EXPECT_THROW(values.real("n"), UsageError);
  EXPECT_THROW(values.dtype("n"), UsageError);
  values.set("n", 3);
  values.set("k", "f16");
  EXPECT_EQ(values.line(), "n=3 k=f16");
}

}  // namespace
}  // namespace faultline::core
