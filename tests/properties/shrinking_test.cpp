// SPDX-License-Identifier: Apache-2.0
// A counterexample shrinks to the smallest line: for mutants whose defect is known, to one that is
// no larger than what a person would write by hand (docs/properties.md has the same table).
#include <string>
#include <vector>

#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

struct HandMade {
  const char* subject;
  const char* variant;
  const char* problem;
  const char* config;
};

const HandMade kMinima[] = {
    // One element is a ragged tile: nothing of it is added.
    {"gemv", "dropped_tail", "n=1 k=1 dtype=f16", "stages=3"},
    // One row is the last row tile.
    {"gemv", "missed_rows", "n=1 k=1 dtype=f16", "rows=4"},
    // The smallest config with several rows of several warps, and its second row.
    {"gemv", "wrong_config", "n=2 k=1 dtype=f16", "rows=2"},
    // One element is added twice.
    {"gemv", "stage_sentinel", "n=1 k=1 dtype=f16", "stages=3"},
    // One element: one thread of the block lays it in shared memory, a warp reads the tile.
    {"gemm", "missing_barrier", "m=1 n=1 k=1 dtype=f16", "tile_m=64"},
    // One state tile: pass 2 loads it over the one that pass 1 may still be reading.
    {"gla_decode", "shared_buffer", "b=1 h=1 dk=16 dv=64 dtype=f16", "copy=bulk"},
    // One step, of which nothing reaches the output.
    {"deltanet_fwd", "strict_tril", "t=1", "chunk=64"},
    // One step, left by a gradient.
    {"deltanet_bwd", "drop_dh_coefficient", "t=1 states=random", "chunk=64"},
    // The inverse differs from the identity from the second step on; what small keys add to it
    // there is below the bound.
    {"deltanet_bwd", "drop_a_inv", "t=4", "chunk=64"},
    // A state decays in any chunk.
    {"gated_deltanet_fwd", "gamma_twice", "t=1 states=random", "chunk=64"},
    // The gate of step 1 reaches both steps.
    {"gated_deltanet_bwd", "no_reverse_cumsum", "t=2", "chunk=64"},
};

class Shrinking : public testing::TestWithParam<HandMade> {};

TEST_P(Shrinking, EndsAtMostAtTheHandMadeMinimum) {
  const HandMade& minimum = GetParam();
  const auto domain = simulator_cases(minimum.subject, {.variants = {minimum.variant}});
  const PropertyResult result = run_property(
      [&] {
        const Case c = *domain.generator;
        const CaseVerdict verdict = check_case(simulator(), subjects(), c);
        if (!verdict.pass) RC_FAIL(verdict.reason);
      },
      {.seed = kDefaultSeed, .cases = 200});
  ASSERT_EQ(result.outcome, PropertyOutcome::falsified) << result.message;
  EXPECT_LT(result.cases, 200);
  ASSERT_EQ(result.counterexample.size(), 1u);
  const std::string& line = result.counterexample[0].second;
  RecordProperty("counterexample", line);
  RecordProperty("cases_before", result.cases);

  // The line printed is enough: it parses, and what it stands for fails.
  const Case shrunk = parse_case(subjects(), line);
  EXPECT_FALSE(check_case(simulator(), subjects(), shrunk).pass) << line;

  const kernels::ResolvedTrial by_hand = kernels::resolve(
      subjects(), std::string(minimum.subject) + "@" + minimum.variant,
      core::parse_assignments(minimum.problem), core::parse_assignments(minimum.config));
  Case smallest;
  smallest.problem = by_hand.problem;
  smallest.variant = minimum.variant;
  smallest.config = by_hand.config;
  EXPECT_FALSE(check_case(simulator(), subjects(), smallest).pass) << command_line(smallest);
  const std::vector<std::uint64_t> got = domain.measure(shrunk), limit = domain.measure(smallest);
  ASSERT_EQ(got.size(), limit.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(got[i], limit[i]) << "component " << i << " of " << line << ", by hand "
                                << command_line(smallest);
  }
}

INSTANTIATE_TEST_SUITE_P(Mutants, Shrinking, testing::ValuesIn(kMinima),
                         [](const auto& test) { return std::string(test.param.variant); });

}  // namespace
}  // namespace faultline::properties
