// SPDX-License-Identifier: Apache-2.0
// bound_vacuous, of the reference: an output that a null output would pass was not tested, and a
// reference that fails a check of its own judges nothing. Blind outputs beside tested ones are a
// note; a cell without a tested output, or with an unusable reference, leaves the verdict open.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "../words.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

using core::ReferenceNote;
using core::ReferenceNoteEvidence;

std::string where_text(const ReferenceNoteEvidence& note) {
  if (note.problem.empty()) return "";
  return fmt::format(" ({})", cell_text(note.problem, note.config));
}

/// Notes that say the same of the same output, with one of their places.
std::vector<std::string> sentences(const std::vector<const ReferenceNoteEvidence*>& notes) {
  std::map<std::pair<std::string, std::string>, std::vector<const ReferenceNoteEvidence*>> alike;
  for (const ReferenceNoteEvidence* note : notes) alike[{note->output, note->text}].push_back(note);
  std::vector<std::string> texts;
  for (const auto& [key, same] : alike) {
    const std::string others =
        same.size() > 1 ? fmt::format(", and {}", plural(same.size() - 1, "more cell")) : "";
    texts.push_back(key.second + where_text(*same.front()) + others);
  }
  return texts;
}

}  // namespace

std::optional<core::Finding> find_reference_limits(const Facts& facts) {
  std::vector<const ReferenceNoteEvidence*> blind, closed, unusable, wide;
  std::set<std::string> names;
  for (const ReferenceNoteEvidence& note : facts.evidence.reference_notes) {
    if (note.kind == ReferenceNote::Kind::unusable) {
      unusable.push_back(&note);
    } else if (note.kind == ReferenceNote::Kind::wide) {
      wide.push_back(&note);
    } else if (note.output.empty()) {
      closed.push_back(&note);
    } else {
      blind.push_back(&note);
      names.insert(note.output);
    }
  }
  if (blind.empty() && closed.empty() && unusable.empty() && wide.empty()) return std::nullopt;

  core::Finding finding;
  finding.finding = core::FindingClass::bound_vacuous;
  const std::string subject = subject_text(facts.evidence);
  const bool open = !closed.empty() || !unusable.empty();
  finding.severity = open ? core::Severity::warning : core::Severity::note;
  finding.confidence = open ? 0.9 : 0.35;
  if (!unusable.empty()) {
    finding.headline = fmt::format("the reference of {} fails a check of its own", subject);
  } else if (!closed.empty()) {
    finding.headline = fmt::format("no output of {} was tested by these inputs", subject);
  } else if (blind.empty()) {
    finding.headline = fmt::format("the bound of {} is wide next to the values at these inputs",
                                   wide.front()->output);
  } else {
    finding.headline = fmt::format("not tested at these inputs: {}",
                                   list(std::vector<std::string>(names.begin(), names.end())));
  }
  for (const auto* notes : {&unusable, &closed, &blind, &wide}) {
    for (std::string& sentence : sentences(*notes)) {
      finding.evidence.push_back(std::move(sentence));
    }
  }
  finding.runner_up = core::FindingClass::vacuous;
  finding.runner_up_reason = "a bound that is too wide and an output that is below rounding look "
                             "alike here";
  finding.advice = unusable.empty()
                       ? "Use inputs at which these outputs are above rounding: weaker "
                         "gates, states that are not zero, more chunks."
                       : "Use inputs at which the numeric plan is sound, or declare "
                         "where the kernel rounds.";
  return finding;
}

}  // namespace faultline::diagnosis
