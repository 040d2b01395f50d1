// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/verdict.hpp"

#include <algorithm>

namespace faultline::core {

bool is_race(FindingClass finding) { return name_of(finding).starts_with("race."); }
bool is_slow(FindingClass finding) { return name_of(finding).starts_with("slow."); }

ExitCode exit_code(const Verdict& verdict, bool fail_on_warning) {
  const auto holds = [&](Severity severity) {
    return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                       [&](const Finding& finding) { return finding.severity == severity; });
  };
  switch (verdict.outcome) {
  case Outcome::pass:
    // An error under a passing outcome is a contradiction; the error decides.
    return holds(Severity::error) || (fail_on_warning && holds(Severity::warning)) ? ExitCode::fail
                                                                                   : ExitCode::pass;
  case Outcome::fail: return ExitCode::fail;
  case Outcome::inconclusive: return ExitCode::inconclusive;
  case Outcome::skipped: return ExitCode::skipped;
  case Outcome::error: return ExitCode::error;
  }
  return ExitCode::error;
}

}  // namespace faultline::core
