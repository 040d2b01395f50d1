// SPDX-License-Identifier: Apache-2.0
// Synthetic evidence for the rules, in the smallest form that each of them needs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::test {

inline core::Evidence clean_evidence(const std::string& mode, bool model) {
  core::Evidence evidence;
  evidence.subject = "gla_decode";
  evidence.variant = "pipelined";
  evidence.problem = "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16";
  evidence.backend = model ? "simulator" : "cuda";
  evidence.backend_is_model = model;
  evidence.mode = mode;
  return evidence;
}

/// An output of 4 tiles of 16 rows, streamed through 2 pipeline buffers unless depth is 0.
inline core::OutputTotals clean_output(std::uint64_t trials, std::int32_t depth = 2) {
  core::OutputTotals output;
  output.name = "new_state";
  output.dtype = core::Dtype::bf16;
  output.geometry = {.rows = 64,
                     .cols = 64,
                     .tile_rows = 16,
                     .tile_cols = 64,
                     .tiles_per_group = 4,
                     .pipeline_depth = depth,
                     .tile_axis = "16 rows of dk"};
  output.compared_elements = trials * 64 * 64;
  output.worst_ratio = 0.26;
  output.worst_ulps = 0.5;
  output.worst_error = 0.01;
  output.worst_rounded_error = 0.003;
  output.tiles.resize(4);
  return output;
}

inline core::TrialResult clean_result(std::uint64_t trials, std::int32_t depth = 2) {
  core::TrialResult result;
  result.trials = trials;
  result.outputs = {clean_output(trials, depth)};
  result.input_sets = 1;
  result.distinct_outputs = 1;
  return result;
}

/// `failed` trials, from trial `first` on and `step` apart, each with `elements` wrong ones in
/// `tile`.
inline void add_wrong(core::TrialResult& result, std::uint64_t failed, std::size_t tile,
                      std::uint64_t elements = 256, std::uint64_t first = 5,
                      std::uint64_t step = 7) {
  core::OutputTotals& output = result.outputs[0];
  output.bad_trials += failed;
  output.bad_elements += failed * elements;
  output.worst_ratio = std::max(output.worst_ratio, 50.0);
  output.worst_ulps = std::max(output.worst_ulps, 80.0);
  output.worst_error = 0.4;
  core::TileTotals& totals = output.tiles[tile];
  totals.bad_trials += failed;
  totals.bad_elements += failed * elements;
  result.failed += failed;
  result.wrong_values += failed;
  for (std::uint64_t i = 0; i < failed; ++i) {
    core::FailedTrial failure;
    failure.trial = first + i * step;
    failure.bad_elements = elements;
    result.failures.push_back(failure);
  }
  result.first_failed_trial = std::min(result.first_failed_trial, first);
}

inline core::ArmEvidence arm(const std::string& name, core::TrialResult result, double low = 0.0,
                             double high = 0.01) {
  core::ArmEvidence arm;
  arm.perturbation.name = name;
  arm.result = std::move(result);
  arm.wilson95 = {low, high};
  return arm;
}

inline core::ConfigEvidence cell(const std::string& problem, const std::string& config,
                                 std::int64_t reduction, std::int64_t tile_k, bool fails) {
  core::ConfigEvidence cell;
  cell.problem = problem;
  cell.config = config;
  cell.result = clean_result(3, 0);
  cell.result.input_sets = cell.result.distinct_outputs = 0;
  cell.reduction = reduction;
  cell.tile_k = tile_k;
  if (fails) add_wrong(cell.result, 3, 0, 16, 0, 1);
  cell.failed = fails;
  return cell;
}

inline core::AccessSite site(const std::string& file, int line, const std::string& instruction,
                             bool write, bool async) {
  core::AccessSite site;
  site.kernel = "gla_decode";
  site.instruction = instruction;
  site.where = {{file, line, ""}};
  site.actor = async ? "copy engine completing on mbarrier full[0]" : "cta 0 warp 0 lane 4";
  site.is_write = write;
  site.async_proxy = async;
  return site;
}

inline core::RaceReport async_race() {
  core::RaceReport race;
  race.kind = core::RaceKind::write_after_read;
  race.buffer = "tiles";
  race.byte_begin = 2048;
  race.byte_end = 4096;
  race.first = site("gla_decode.cuh", 79, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", false, false);
  race.second = site("gla_decode.cuh", 66, "cp.async.bulk.shared::cluster.global", true, true);
  race.missing_edge = "nothing orders the consumer's reads of pass 1 before this copy";
  return race;
}

inline core::RaceReport barrier_race() {
  core::RaceReport race = async_race();
  race.second = site("gemv.cuh", 41, "st.shared.v4.b32", true, false);
  return race;
}

inline core::AccessStatistics access(int line, std::uint64_t requests, std::uint64_t sectors,
                                     std::uint64_t ideal, std::int64_t stride,
                                     core::MemorySpace space = core::MemorySpace::global) {
  core::AccessStatistics access;
  access.where = {"gemv.cuh", line, ""};
  access.instruction = space == core::MemorySpace::global ? "ld.global.nc.v4.u32" : "ld.shared.f32";
  access.space = space;
  access.requests = requests;
  access.sectors = sectors;
  access.ideal_sectors = ideal;
  access.lane_stride_bytes = stride;
  return access;
}

inline core::ProvenanceEvidence moved(std::int64_t destination, std::int64_t source,
                                      std::uint64_t wrong, std::uint64_t matched) {
  core::ProvenanceEvidence entry;
  entry.output = 1;
  entry.output_name = "new_state";
  entry.destination = destination;
  entry.source = source;
  entry.wrong = wrong;
  entry.matched = matched;
  entry.pipeline_depth = 2;
  return entry;
}

inline const core::Finding* find(const core::Verdict& verdict, core::FindingClass wanted) {
  for (const core::Finding& finding : verdict.findings) {
    if (finding.finding == wanted) return &finding;
  }
  return nullptr;
}

inline std::string all_text(const core::Verdict& verdict) {
  std::string text = verdict.summary + "\n";
  for (const core::Finding& finding : verdict.findings) {
    text += finding.headline + "\n" + finding.runner_up_reason + "\n" + finding.advice + "\n";
    for (const std::string& sentence : finding.evidence) text += sentence + "\n";
  }
  return text;
}

/// Findings that count as errors, most important first.
inline std::vector<core::FindingClass> errors_of(const core::Verdict& verdict) {
  std::vector<core::FindingClass> classes;
  for (const core::Finding& finding : verdict.findings) {
    if (finding.severity == core::Severity::error) classes.push_back(finding.finding);
  }
  return classes;
}

}  // namespace faultline::test
