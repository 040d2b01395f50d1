// SPDX-License-Identifier: Apache-2.0
#include "race_reported.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "../words.hpp"

namespace faultline::diagnosis {
namespace {

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// A copy or a fill between launches: no kernel, no line.
bool is_host_operation(const core::AccessSite& site) {
  return site.where.empty() && site.kernel.empty() && !site.instruction.empty();
}

std::string accessor_text(const core::AccessSite& site) {
  return is_host_operation(site) ? site.instruction : line_text(site.where);
}

std::string what_happened(const core::RaceReport& race) {
  switch (race.kind) {
  case core::RaceKind::write_after_read: return "is overwritten while it may still be being read";
  case core::RaceKind::read_after_write: return "is read before it is sure to have been written";
  case core::RaceKind::write_after_write: return "is written twice in no order";
  }
  return "is accessed in no order";
}

}  // namespace

bool is_asynchronous(const core::AccessSite& site) {
  return site.async_proxy || starts_with(site.instruction, "cp.async") ||
         starts_with(site.instruction, "cp.reduce.async") ||
         starts_with(site.instruction, "wgmma") || starts_with(site.instruction, "tcgen05");
}

core::FindingClass class_of(const core::RaceReport& race) {
  if (race.cross_device) return core::FindingClass::device;
  if (race.cross_launch) return core::FindingClass::race_stream;
  if (race.space == core::MemorySpace::global && race.cross_cta) {
    return core::FindingClass::race_grid;
  }
  if (is_asynchronous(race.first) || is_asynchronous(race.second)) {
    return core::FindingClass::race_async;
  }
  return race.space == core::MemorySpace::shared ? core::FindingClass::race_shared
                                                 : core::FindingClass::race_grid;
}

std::string race_sentence(const core::RaceReport& race) {
  const char* first = race.first.is_write ? "write" : "read";
  const char* second = race.second.is_write ? "write" : "read";
  const auto at = [](const core::AccessSite& site) {
    return is_host_operation(site)
               ? "by " + site.instruction
               : fmt::format("at {} ({})", line_text(site.where), site.instruction);
  };
  return fmt::format("{} on {}: {} {}, then {} {}", kind_text(race.kind), place_text(race), first,
                     at(race.first), second, at(race.second));
}

std::vector<std::string> value_sentences(const Facts& facts) {
  std::vector<std::string> sentences;
  if (!facts.any_wrong()) {
    const std::uint64_t judged = facts.trials - std::min(facts.trials, facts.abnormal);
    if (facts.compared_elements > 0 && judged > 0) {
      sentences.push_back(fmt::format(
          "every value came out right in {}: the order of the accesses shows the race, not the "
          "values",
          plural(judged, "trial")));
    } else if (facts.trials > 0) {
      sentences.push_back("no values were compared: the order of the accesses shows the race");
    }
    return sentences;
  }
  constexpr std::size_t kProvenanceSentences = 3;
  std::size_t said = 0;
  for (const core::ProvenanceEvidence& entry : facts.provenance) {
    if (entry.source < 0 || said == kProvenanceSentences) continue;
    sentences.push_back(provenance_text(entry, is_streamed(facts, entry.output_name)));
    ++said;
  }
  sentences.push_back(
      fmt::format("values were wrong in {} trials", share(facts.wrong_values, facts.trials)));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    sentences.push_back(wrong_output_text(*output));
    sentences.push_back(wrong_place(facts, *output));
  }
  return sentences;
}

std::optional<core::Finding> reported_race(const Facts& facts, core::FindingClass wanted,
                                           const RaceWords& words) {
  std::vector<const core::RaceReport*> races;
  for (const core::RaceReport& race : facts.races) {
    if (!race.note_only && class_of(race) == wanted) races.push_back(&race);
  }
  if (races.empty()) return std::nullopt;
  // A race that a fence alone would cure says less than one that nothing orders. Two lines in no
  // order at all are seen both ways round: "overwritten while being read" is the way to think of
  // it.
  auto weight = [](const core::RaceReport* race) {
    const int by_kind = race->kind == core::RaceKind::write_after_read   ? 0
                        : race->kind == core::RaceKind::read_after_write ? 1
                                                                         : 2;
    return std::pair(race->missing_proxy_fence, by_kind);
  };
  std::stable_sort(races.begin(), races.end(),
                   [&](const auto* a, const auto* b) { return weight(a) < weight(b); });
  const core::RaceReport& worst = *races.front();

  core::Finding finding;
  finding.finding = wanted;
  finding.severity = core::Severity::error;
  finding.confidence = 1.0;
  finding.headline = fmt::format(
      "{}: {} {}: {} {} it and {} {} it, {}", subject_text(facts.evidence), place_text(worst),
      what_happened(worst), accessor_text(worst.first), worst.first.is_write ? "writes" : "reads",
      accessor_text(worst.second), worst.second.is_write ? "writes" : "reads",
      worst.missing_proxy_fence ? "with no proxy fence between" : "and nothing orders the two");

  finding.evidence.push_back("first: " + site_text(worst.first));
  finding.evidence.push_back("second: " + site_text(worst.second));
  if (!worst.missing_edge.empty()) finding.evidence.push_back(worst.missing_edge);
  if (worst.missing_proxy_fence) {
    finding.evidence.push_back(
        "the two are ordered in the generic proxy; only a fence.proxy.async between the generic "
        "access and the asynchronous one is missing, and hardware is known to reorder them");
  }
  for (std::size_t i = 1; i < races.size() && i < 4; ++i) {
    finding.evidence.push_back("also: " + race_sentence(*races[i]));
  }
  if (races.size() > 4) {
    finding.evidence.push_back(plural(races.size() - 4, "further pair") +
                               " of lines in the full report");
  }
  if (facts.trials > 0) {
    finding.evidence.push_back(
        fmt::format("a race was reported in {} trials", share(facts.raced, facts.trials)));
  }
  for (std::string& sentence : value_sentences(facts)) {
    finding.evidence.push_back(std::move(sentence));
  }
  finding.runner_up = words.runner_up;
  finding.runner_up_reason = words.runner_up_reason;
  finding.advice = worst.missing_proxy_fence
                       ? "Put a fence.proxy.async between the last generic read of the slot and "
                         "the arrive that releases it, or let the arrive depend on the data read."
                       : words.advice;
  return finding;
}

}  // namespace faultline::diagnosis
