// SPDX-License-Identifier: Apache-2.0
// uninitialised: the kernel reads memory that nobody wrote. With the poison fixed the wrong values
// repeat bit for bit; with another poison they change, or the failure comes and goes with it. What
// was merely copied still is the poison of the place that it came from.
#include <algorithm>

#include <fmt/format.h>

#include "faultline/core/poison.hpp"

#include "../readings.hpp"
#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

bool values_follow_poison(const Facts& facts) {
  // Two poisons that are NaN may well give the same NaN: not every pair has to differ. Equal poison
  // and equal inputs must never differ, and some pairs are needed to say so.
  constexpr std::uint64_t kPairs = 3;
  const auto& shape = facts.evidence.error_shape;
  return shape && shape->other_poison_differing > 0 && shape->same_poison_differing == 0 &&
         shape->same_poison_pairs >= kPairs;
}

namespace {

/// Failing trials with equal inputs gave equal bits whatever the poison was, the finite pattern
/// among them: NaN that came from NaN would be another value under it.
bool bits_ignore_poison(const Facts& facts) {
  constexpr std::uint64_t kPairs = 3;
  const auto& shape = facts.evidence.error_shape;
  if (!shape || shape->other_poison_pairs < kPairs || shape->other_poison_differing > 0) {
    return false;
  }
  const std::uint32_t finite = core::poison_word(1);
  for (const core::TrialResult* result : facts.results) {
    for (const core::FailedTrial& failure : result->failures) {
      if (failure.bad_elements > 0 && core::poison_word(failure.trial) == finite) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<core::Finding> find_uninitialised(const Facts& facts) {
  if (!facts.any_wrong()) return std::nullopt;
  // The place is named: no coincidence. What is read too early, though, is a race.
  const core::ErrorReading* unwritten = unwritten_reading(facts.evidence);
  const bool place_decides = unwritten && timing_dependence(facts).empty();
  // Some of the tiles that are copied from may be of the outputs, and hold their own poison; where
  // nearly all wrong elements do, it is a write that is missing.
  if (facts.poison_share() >= (place_decides ? 0.99 : 0.5)) return std::nullopt;
  core::Finding finding;
  finding.finding = core::FindingClass::uninitialised;
  finding.severity = core::Severity::error;
  finding.confidence = 0.0;

  const auto& shape = facts.evidence.error_shape;
  if (values_follow_poison(facts)) {
    finding.confidence = 0.93;
    finding.evidence.push_back(fmt::format(
        "with equal inputs, {} of failing trials with another poison gave other bits, and {} of {} "
        "with the same poison did",
        plural(shape->other_poison_differing, "pair"), count(shape->same_poison_differing),
        count(shape->same_poison_pairs)));
  }
  for (const core::TrialResult* result : facts.results) {
    if (poison_pattern(*result) != PoisonPattern::poison_decides) continue;
    if (poison_is_refuted(facts)) break;
    finding.confidence = std::max(finding.confidence, 0.9);
    finding.evidence.push_back(
        fmt::format("whether a trial fails depends on the poison alone: {} trials, all of those "
                    "with some of the poison patterns and none with the others",
                    share(result->failed, result->trials)));
    break;
  }
  if (place_decides) finding.confidence = 0.96;
  std::uint64_t not_finite = 0, bad = 0;
  for (const core::OutputTotals& output : facts.outputs) {
    not_finite += output.not_finite;
    bad += judged_wrong(output);
  }
  if (not_finite > 0 && not_finite * 10 >= bad * 9 && same_tiles_every_time(facts) &&
      !bits_ignore_poison(facts)) {
    finding.confidence = std::max(finding.confidence, 0.55);
    finding.evidence.push_back(fmt::format(
        "{} wrong elements are NaN or Inf, in the same tiles every time; the inputs are finite",
        share(not_finite, bad)));
  }
  if (finding.confidence == 0.0) return std::nullopt;

  const std::vector<const core::OutputTotals*> wrong = wrong_outputs(facts);
  finding.headline =
      unwritten ? fmt::format("{} copies into {} what it finds in memory that was never written",
                              subject_text(facts.evidence), unwritten->output)
                : fmt::format("{} computes {} from memory that was never written",
                              subject_text(facts.evidence), wrong.front()->name);
  for (const core::OutputTotals* output : wrong) {
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  const bool nan_only = finding.confidence < 0.6;
  finding.runner_up =
      nan_only ? core::FindingClass::special_values : core::FindingClass::missed_write;
  finding.runner_up_reason =
      nan_only ? "an overflow or 0 * Inf inside the kernel also gives NaN in fixed places"
      : unwritten
          ? "elements that are never written hold their own poison, not that of another place"
          : "elements that are never written equal the poison, these are computed from it";
  finding.advice =
      unwritten && unwritten->detail >= 0
          ? fmt::format("Find who should write {}, and why it does not before the read.",
                        unwritten_place_text(*unwritten))
          : std::string("Look for a buffer, accumulator or padding that is read before its first "
                        "write.");
  return finding;
}

}  // namespace faultline::diagnosis
