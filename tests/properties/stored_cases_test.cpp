// SPDX-License-Identifier: Apache-2.0
// A property finds a case, stores it, explains it and begins with it the next time; a case of a
// store is one that verify and replay run, too.
#include <stdlib.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "case_property.hpp"
#include "faultline/properties/stored_cases.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Not a property of the suite: its failures are wanted.
const PropertySettings kApart{.seed = kDefaultSeed, .cases = 200};

TEST(StoredCases, AreReplayedFirstUntilTheyPass) {
  std::string folder = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    store::Store store(folder + "/store.db");
    const auto domain = simulator_cases("gemv", {.variants = {"dropped_tail"}});
    int calls = 0;
    const CaseLaw agrees = [&](const Case& c) {
      ++calls;
      const CaseVerdict verdict = check_case(simulator(), subjects(), c);
      if (!verdict.pass) RC_FAIL(verdict.reason);
    };
    const CasePropertyResult found = run_on_cases("P", 0, domain, agrees, &store, kApart);
    EXPECT_FALSE(found.held);
    EXPECT_THAT(found.message, AllOf(HasSubstr("faultline explain gemv n=1 k=1 dtype=f16"),
                                     HasSubstr("free"), HasSubstr("fails at every other value")));
    ASSERT_EQ(store.failing_cases().size(), 1u);
    const store::FailingCase stored = store.failing_cases().front();
    EXPECT_EQ(stored.origin, "P");
    EXPECT_FALSE(check_case(simulator(), subjects(), parse_case(subjects(), stored.command)).pass);
    EXPECT_GT(calls, 1);

    calls = 0;
    const CasePropertyResult again = run_on_cases("P", 0, domain, agrees, &store, kApart);
    EXPECT_FALSE(again.held);
    EXPECT_THAT(again.message, HasSubstr("stored case 1 fails again: faultline verify gemv n=1"));
    EXPECT_LT(calls, 5);  // RapidCheck asks for a failing case again

    // Another property does not know it; the fixed kernel passes it.
    const auto clean = simulator_cases("gemv");
    const CaseLaw nothing = [](const Case&) {};
    EXPECT_TRUE(run_on_cases("Q", 0, clean, nothing, &store, kApart).held);
    EXPECT_EQ(store.failing_cases().size(), 1u);
    EXPECT_TRUE(run_on_cases("P", 0, clean, nothing, &store, kApart).held);
    EXPECT_TRUE(store.failing_cases().empty());
    ASSERT_EQ(store.all_cases().size(), 1u);
    EXPECT_NE(store.all_cases().front().fixed_at, "");
  }
  std::filesystem::remove_all(folder);
}

TEST(StoredCases, ACaseAndItsTrialNameEachOther) {
  for (const char* subject : {"gemv", "gla_decode"}) {
    const auto domain = simulator_cases(subject, {.race = {core::RaceMode::off}});
    check_property(50, [&] {
      const Case c = *domain.generator;
      const core::TrialToken trial = token_of(subjects(), c, c.trials - 1);
      RC_ASSERT(core::decode_token(core::encode(trial)) == trial);
      RC_ASSERT(case_of(subjects(), trial) == c);
      core::TrialToken other = trial;
      other.perturbation.fresh_inputs = false;
      RC_ASSERT(!case_of(subjects(), other));
    });
  }
}

}  // namespace
}  // namespace faultline::properties
