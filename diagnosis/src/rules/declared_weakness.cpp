// SPDX-License-Identifier: Apache-2.0
// contract, a note: the variant declares itself weak at what was run. Its values are judged as
// anywhere; the note says that what is found here was foretold, or that it was not provoked.
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_declared_weakness(const Facts& facts) {
  const std::string& weakness = facts.evidence.declared_weakness;
  if (weakness.empty()) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::contract;
  finding.severity = core::Severity::note;
  finding.confidence = 0.4;
  finding.headline = fmt::format("{} is {}", subject_text(facts.evidence), weakness);
  finding.evidence.push_back(facts.failed > 0
                                 ? "it is judged there all the same, and failed"
                                 : "it is judged there all the same, and did not fail");
  finding.runner_up = core::FindingClass::unknown;
  finding.runner_up_reason = "what fails there may have another cause all the same";
  finding.advice = "Keep such inputs out of what it is used for, or use another variant there.";
  return finding;
}

}  // namespace faultline::diagnosis
