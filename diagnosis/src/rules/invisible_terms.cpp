// SPDX-License-Identifier: Apache-2.0
// bound_vacuous, of named terms: a defect whose effect stays below the bound everywhere was not
// tested. For terms in general a note; for the very defect that a mutant is, an open verdict. So is
// a mutant whose defect should have shown and did not.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "../words.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "rule.hpp"
#include "terms.hpp"

namespace faultline::diagnosis {
namespace {

/// What is known of one name over all cells.
struct Seen {
  double visibility = 0.0;  ///< the largest
  std::string left_out{};   ///< why it was not evaluated anywhere; empty: it was
};

std::string visibility_text(const std::string& name, const Seen& seen) {
  if (!seen.left_out.empty()) return fmt::format("{} ({})", name, seen.left_out);
  return seen.visibility > 0.0 ? fmt::format("{} ({} of the bound)", name, number(seen.visibility))
                               : fmt::format("{} (no effect)", name);
}

/// The defect of a mutant that was compared and never wrong, in the cell where it should have
/// moved an output most; null when it need not have shown anywhere.
const core::TermEvidence* missed_defect(const Facts& facts) {
  const std::string& name = facts.evidence.hypothesis;
  if (name.empty() || facts.compared_elements == 0 || facts.failed > 0) return nullptr;
  const core::TermEvidence* most = nullptr;
  for (const core::TermEvidence* term : facts.terms) {
    if (term->name != name || !(term->visibility >= kVisible)) continue;
    if (!most || term->visibility > most->visibility) most = term;
  }
  return most;
}

core::Finding missed_defect_finding(const Facts& facts, const core::TermEvidence& term) {
  const std::string subject = subject_text(facts.evidence);
  core::Finding finding;
  finding.finding = core::FindingClass::bound_vacuous;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.9;
  finding.headline = fmt::format(
      "the defect {} that {} stands for should have moved an output by {} bounds, and nothing was "
      "wrong: either the defect is not in this build, or the check is blind",
      term.name, subject, number(term.visibility));
  finding.evidence.push_back(fmt::format("{} were compared, none of them wrong",
                                         plural(facts.compared_elements, "element")));
  if (!term.problem.empty()) {
    finding.evidence.push_back(
        fmt::format("its effect is largest in {}", cell_text(term.problem, term.config)));
  }
  finding.runner_up = core::FindingClass::vacuous;
  finding.runner_up_reason = "a kernel without the defect and a comparison that does not see it "
                             "look alike here";
  finding.advice = "Check that the variant selects the code with the defect in every config that "
                   "ran, and that a kernel with grossly wrong outputs fails here.";
  return finding;
}

}  // namespace

std::optional<core::Finding> find_invisible_terms(const Facts& facts) {
  const core::Evidence& evidence = facts.evidence;
  std::map<std::string, Seen> visibility;
  for (const core::TermEvidence* term : facts.terms) {
    // Roundings that stay small are no defect that could be missed.
    if (term->kind == core::ErrorHypothesis::Kind::rounding && term->name != evidence.hypothesis) {
      continue;
    }
    const auto [known, first] = visibility.try_emplace(term->name, Seen{0.0, term->left_out});
    Seen& seen = known->second;
    seen.visibility = std::max(seen.visibility, term->visibility);
    if (term->left_out.empty()) seen.left_out.clear();
  }
  std::vector<std::string> invisible;
  for (const auto& [name, seen] : visibility) {
    if (!(seen.visibility >= kVisible)) invisible.push_back(visibility_text(name, seen));
  }
  const auto own = visibility.find(evidence.hypothesis);
  const bool judged = facts.compared_elements > 0 && !facts.any_wrong();
  const bool own_unseen = !evidence.hypothesis.empty() && judged &&
                          (own == visibility.end() || !(own->second.visibility >= kVisible));
  if (const core::TermEvidence* missed = missed_defect(facts)) {
    core::Finding finding = missed_defect_finding(facts, *missed);
    if (!invisible.empty()) {
      finding.evidence.push_back(
          fmt::format("terms not visible with these inputs: {}", fmt::join(invisible, ", ")));
    }
    return finding;
  }
  if (!own_unseen && invisible.empty()) return std::nullopt;

  core::Finding finding;
  finding.finding = core::FindingClass::bound_vacuous;
  finding.severity = own_unseen ? core::Severity::warning : core::Severity::note;
  finding.confidence = own_unseen ? 0.85 : 0.3;
  if (!own_unseen) {
    finding.headline =
        fmt::format("terms not visible with these inputs: {}", fmt::join(invisible, ", "));
  } else if (own != visibility.end() &&
             (!own->second.left_out.empty() || own->second.visibility == 0.0)) {
    finding.headline = fmt::format("the defect {} of {} has no effect of its own with these inputs",
                                   evidence.hypothesis, subject_text(evidence));
    finding.evidence.push_back(own->second.left_out.empty()
                                   ? "with these inputs it changes nothing"
                                   : "with these inputs it has no fit of its own: " +
                                         own->second.left_out);
  } else if (own == visibility.end()) {
    finding.headline =
        fmt::format("whether the defect {} of {} could be seen at all was not examined",
                    evidence.hypothesis, subject_text(evidence));
    finding.evidence.push_back(
        "the plan names no such error hypothesis, or the problem is too large to evaluate it");
  } else {
    finding.headline =
        fmt::format("the defect of {} cannot be seen with these inputs: {}", subject_text(evidence),
                    visibility_text(evidence.hypothesis, own->second));
  }
  finding.evidence.push_back(fmt::format(
      "an effect below {} times the bound in every element of every output cannot be relied on to "
      "fail: nothing is said about these terms",
      number(kVisible)));
  if (own_unseen && !invisible.empty()) {
    finding.evidence.push_back(
        fmt::format("terms not visible with these inputs: {}", fmt::join(invisible, ", ")));
  }
  finding.runner_up = core::FindingClass::vacuous;
  finding.runner_up_reason =
      "inputs that make a term vanish and a bound that hides it look alike here";
  finding.advice = "Use inputs in which the terms matter: several chunks, an initial state, unit "
                   "keys, weaker gates.";
  return finding;
}

}  // namespace faultline::diagnosis
