// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "evidence_builder.hpp"
#include "faultline/diagnosis/totals.hpp"

namespace faultline::test {
namespace {

TEST(Totals, AddTilesOfEqualGeometryOnly) {
  core::TrialResult a = clean_result(10), b = clean_result(20), c = clean_result(5, 0);
  add_wrong(a, 2, 1, 10);
  add_wrong(b, 3, 3, 10);
  std::vector<core::OutputTotals> totals = diagnosis::total_outputs({&a, &b});
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals[0].bad_trials, 5u);
  EXPECT_EQ(totals[0].bad_elements, 50u);
  ASSERT_EQ(totals[0].tiles.size(), 4u);
  EXPECT_EQ(totals[0].tiles[1].bad_trials, 2u);
  EXPECT_EQ(totals[0].tiles[3].bad_trials, 3u);

  totals = diagnosis::total_outputs({&a, &c});
  EXPECT_TRUE(totals[0].tiles.empty());
  EXPECT_EQ(totals[0].bad_trials, 2u);
}

TEST(Totals, OneRootCauseIsOneRace) {
  core::RaceReport first = async_race(), again = async_race();
  again.byte_begin = 0;
  again.byte_end = 16;
  again.count = 5;
  again.first.actor = "cta 3 warp 1 lane 0";
  std::vector<core::RaceReport> races;
  diagnosis::merge_race(races, first);
  diagnosis::merge_race(races, again);
  diagnosis::merge_race(races, barrier_race());
  ASSERT_EQ(races.size(), 2u);
  EXPECT_EQ(races[0].count, 6u);
  EXPECT_EQ(races[0].byte_begin, 0u);
  EXPECT_EQ(races[0].byte_end, 4096u);
}

TEST(Totals, AccessesOfOneLineAreAdded) {
  std::vector<core::AccessStatistics> all;
  diagnosis::merge_accesses(all, {access(10, 1, 4, 4, 16), access(11, 1, 1, 1, 0)});
  diagnosis::merge_accesses(all, {access(10, 5, 160, 20, 4096)});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].requests, 6u);
  EXPECT_EQ(all[0].sectors, 164u);
  EXPECT_EQ(all[0].lane_stride_bytes, 4096);
}

}  // namespace
}  // namespace faultline::test
