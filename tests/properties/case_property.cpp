// SPDX-License-Identifier: Apache-2.0
#include "case_property.hpp"

#include <cstdlib>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/stored_cases.hpp"
#include "faultline/stress/explain.hpp"
#include "faultline/stress/stored_cases.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

constexpr int kDrawsOfAStoredCase = 10;  // of what a law draws beside the case

/// What in the case matters, for a case that fails as a differential check, too.
std::string explanation_of(const core::TrialToken& trial, const Case& c) {
  constexpr std::uint64_t kExecutions = 120;
  const stress::Explanation explanation =
      stress::explain(simulator(), subjects(), trial, {.executions = kExecutions, .run = {}});
  // Without "faultline verify": the same words explain it.
  constexpr std::size_t kCommand = sizeof("faultline verify ") - 1;
  return fmt::format("{}\n  faultline explain {}\n",
                     explanation.refused.empty()
                         ? stress::to_text(explanation)
                         : "the law alone is broken: " + explanation.refused,
                     command_line(c).substr(kCommand));
}

/// The trial that a store keeps: the first that fails, or the last.
core::TrialToken trial_of(const Case& c) {
  const CaseVerdict verdict = check_case(simulator(), subjects(), c);
  const std::uint64_t first = verdict.result.first_failed_trial;
  return token_of(subjects(), c, first < c.trials ? first : c.trials - 1);
}

std::string broken_by(const PropertyResult& result, const Case& c, store::Store* store,
                      const std::string& id) {
  const core::TrialToken trial = trial_of(c);
  if (store) {
    store::FailingCase found = stress::failing_case(trial, id);
    found.command = command_line(c);
    found.reason = result.description;
    found.failed = found.trials = 1;
    store->add_cases({found});
  }
  return fmt::format("{}\n{}", result.message, explanation_of(trial, c));
}

}  // namespace

CasePropertyResult run_on_cases(const std::string& id, int usual, const ValueDomain<Case>& domain,
                                const CaseLaw& law, store::Store* store,
                                const std::optional<PropertySettings>& apart) {
  for (const store::FailingCase& stored :
       store ? store->failing_cases() : std::vector<store::FailingCase>{}) {
    if (stored.origin != id) continue;
    std::optional<Case> c;
    try {
      c = case_of(subjects(), stored.trial);
    } catch (const core::UsageError&) {
      // Outside the domain by now: kept, not judged.
    }
    if (!c) continue;
    const PropertyResult result = run_property([&] { law(*c); }, {.cases = kDrawsOfAStoredCase});
    const bool held = result.outcome == PropertyOutcome::held;
    store->update_cases({{stored.id, held ? 0u : 1u, 1}});
    if (held) continue;
    return {false, fmt::format("stored case {} fails again: {}\n{}\n{}", stored.id,
                               command_line(*c), result.message, explanation_of(stored.trial, *c))};
  }
  const auto drawn = [&] { law(*domain.generator); };
  const PropertyResult result =
      apart ? run_property(drawn, *apart)
            : run_configured_property(id, drawn, scaled_cases(suite_settings(), usual));
  if (result.outcome == PropertyOutcome::held) return {true, ""};
  if (result.outcome != PropertyOutcome::falsified || result.counterexample.empty()) {
    return {false, result.message};
  }
  return {false, broken_by(result, domain.parse(result.counterexample.front().second), store, id)};
}

void check_on_cases(int usual, const ValueDomain<Case>& domain, const CaseLaw& law) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string id = std::string(test.test_suite_name()) + "/" + test.name();
  if (suite_settings().reproducing && rc::detail::configuration().reproduce.count(id) == 0) {
    GTEST_SKIP() << "RC_PARAMS reproduces other properties";
  }
  const char* file = std::getenv("FAULTLINE_STORE");
  const auto store = file && *file ? std::make_unique<store::Store>(file) : nullptr;
  const CasePropertyResult result = run_on_cases(id, usual, domain, law, store.get());
  if (!result.held) FAIL() << result.message;
}

}  // namespace faultline::properties
