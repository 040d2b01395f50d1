// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/growth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evidence_builder.hpp"

namespace faultline::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

core::ConfigEvidence length_cell(const std::string& problem, const std::string& config,
                                 std::int64_t length, double relative_l2) {
  core::ConfigEvidence c = cell(problem, config, length, 32, false);
  c.result.outputs[0].sum_squared_expected = 4.0;
  c.result.outputs[0].sum_squared_error = 4.0 * relative_l2 * relative_l2;
  return c;
}

TEST(Growth, IsATableByLengthOfOtherwiseEqualProblems) {
  const auto growth = diagnosis::growth_of({length_cell("b=1 t=100 dk=64", "c=32", 100, 0.25),
                                            length_cell("b=1 t=32 dk=64", "c=32", 32, 0.125),
                                            length_cell("b=1 t=64 dk=64", "c=32", 64, 0.5),
                                            length_cell("b=2 t=64 dk=64", "c=32", 64, 0.5)});
  ASSERT_THAT(growth, SizeIs(3));  // the last one has no other length to compare with
  EXPECT_EQ(growth[0].length, 32);
  EXPECT_EQ(growth[0].chunks, 1);
  EXPECT_EQ(growth[0].others, "b=1 dk=64");
  EXPECT_DOUBLE_EQ(growth[0].relative_l2, 0.125);
  EXPECT_EQ(growth[1].chunks, 2);
  EXPECT_EQ(growth[2].chunks, 4);
  EXPECT_DOUBLE_EQ(growth[2].relative_l2, 0.25);
}

TEST(Growth, NeedsOneParameterThatIsTheLengthEverywhere) {
  EXPECT_THAT(diagnosis::growth_of({length_cell("t=64 dk=64", "c", 64, 0.1)}), IsEmpty());
  EXPECT_THAT(
      diagnosis::growth_of({length_cell("n=1", "c", 64, 0.1), length_cell("n=2", "c", 128, 0.1)}),
      IsEmpty());
  EXPECT_THAT(diagnosis::growth_of({}), IsEmpty());
}

TEST(Growth, SkipsCellsThatDidNotRun) {
  core::ConfigEvidence skipped = length_cell("t=64", "c", 64, 0.1);
  skipped.result.skipped = true;
  EXPECT_THAT(diagnosis::growth_of({skipped, length_cell("t=32", "c", 32, 0.1)}), IsEmpty());
}

}  // namespace
}  // namespace faultline::test
