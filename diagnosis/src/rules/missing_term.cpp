// SPDX-License-Identifier: Apache-2.0
// missing_term: the residual of the failing trials is a named term of the mathematics, absent
// (coefficient -1) or counted twice (+1), or two or three of them.
#include "rule.hpp"
#include "terms.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_missing_term(const Facts& facts) {
  const std::optional<TermExplanation> explanation = explain_terms(facts);
  if (!explanation || explanation->finding() != core::FindingClass::missing_term) {
    return std::nullopt;
  }
  return term_finding(facts, *explanation);
}

}  // namespace faultline::diagnosis
