// SPDX-License-Identifier: Apache-2.0
// race.async: an asynchronous copy (cp.async, bulk, TMA) or wgmma and an access that nothing
// orders. Told by a race report with an asynchronous unit on one side, or, without race detection,
// by values: failures that depend on timing, in a pipelined output, holding what the same buffer
// held before.
#include <fmt/format.h>

#include "../cures.hpp"
#include "../words.hpp"
#include "race_reported.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_race_async(const Facts& facts) {
  return reported_race(
      facts, core::FindingClass::race_async,
      {core::FindingClass::race_shared,
       "both are unordered accesses to one buffer, but one side here is an asynchronous unit, "
       "which no __syncthreads() waits for",
       "Give the second user its own buffer, or make the copy wait (mbarrier, wait_group) until "
       "every reader of the slot has arrived."});
}

std::optional<core::Finding> find_race_async_by_values(const Facts& facts) {
  if (!facts.any_wrong() || facts.any_race_error()) return std::nullopt;
  std::vector<std::string> timing = timing_dependence(facts);
  const BufferReuse reuse = buffer_reuse(facts);
  const core::OutputTotals* pipelined = nullptr;
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    if (!pipelined && output->geometry.pipeline_depth > 0) pipelined = output;
  }
  const bool reused = reuse.strongest && reuse.share() >= 0.5;
  const std::vector<std::string>& units = facts.evidence.asynchronous_instructions;
  if (!pipelined && !reused && units.empty()) return std::nullopt;
  // Without a sign of timing the same picture is an indexing mistake.
  if (timing.empty() && !reused) return std::nullopt;

  core::Finding finding;
  finding.finding = core::FindingClass::race_async;
  finding.severity = core::Severity::error;
  if (reused) {
    finding.confidence = timing.empty() ? 0.55 : 0.95;
    const core::ProvenanceEvidence& entry = *reuse.strongest;
    finding.headline = fmt::format(
        "{} {} tile {} holds the data of tile {}: both pass through pipeline buffer {}, and a copy "
        "into it was not ordered with its other use",
        subject_text(facts.evidence), entry.output_name, entry.destination, entry.source,
        entry.destination % entry.pipeline_depth);
    finding.evidence.push_back(provenance_text(entry, is_streamed(facts, entry.output_name)));
    finding.evidence.push_back(
        fmt::format("over all wrong tiles, {} wrong elements hold data of a tile that shares their "
                    "pipeline buffer",
                    share(reuse.matched_same_buffer, reuse.wrong)));
  } else if (!pipelined) {
    finding.confidence = 0.6;
    finding.headline =
        fmt::format("{} is wrong in some runs only, on the same inputs, and its kernel uses {}",
                    subject_text(facts.evidence), fmt::join(units, " and "));
  } else {
    finding.confidence = 0.65;
    finding.headline = fmt::format(
        "{} {} is wrong in some runs only, in tiles that pass through a pipeline of {} buffers",
        subject_text(facts.evidence), pipelined->name, pipelined->geometry.pipeline_depth);
  }
  const Effect one_stage = effect_of(facts.evidence, core::ExperimentEvidence::Kind::one_stage);
  if (!reused && one_stage == Effect::cured) finding.confidence = 0.8;
  for (std::string& sentence : timing) finding.evidence.push_back(std::move(sentence));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  finding.runner_up =
      reused && timing.empty() ? core::FindingClass::config : core::FindingClass::race_shared;
  finding.runner_up_reason =
      reused && timing.empty()
          ? "an indexing mistake that reads the wrong tile looks the same when it fails every time"
          : "values alone cannot see which side was late; the pipeline buffers are what "
            "asynchronous copies fill";
  finding.advice = "Run `faultline race` on this problem: the simulator names both source lines.";
  return finding;
}

}  // namespace faultline::diagnosis
