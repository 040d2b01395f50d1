// SPDX-License-Identifier: Apache-2.0
// wrong_term: a named term is present with a wrong factor (coefficient neither -1 nor +1), or the
// residual is that of a known wrong form (coefficient 1).
#include "rule.hpp"
#include "terms.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_wrong_term(const Facts& facts) {
  const std::optional<TermExplanation> explanation = explain_terms(facts);
  if (!explanation || explanation->finding() != core::FindingClass::wrong_term) {
    return std::nullopt;
  }
  return term_finding(facts, *explanation);
}

}  // namespace faultline::diagnosis
