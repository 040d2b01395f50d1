// SPDX-License-Identifier: Apache-2.0
// What a report shows, computed once for all formats: totals, rate axis, excerpts, common words.
// Tile maps, error histograms and the table of configs and sizes have headers of their own.
// Nothing here judges; it only arranges what the record says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// Sums over arms and configs.
struct RunTotals {
  std::uint64_t trials = 0, failed = 0, wrong_values = 0, raced = 0, abnormal = 0;
  std::uint64_t compared_elements = 0;
  double worst_ratio = 0.0;  ///< over all outputs, accepted elements too
  std::string worst_output;  ///< where it was; empty when nothing was compared
  std::size_t arms = 0, configs = 0, failed_configs = 0, skipped = 0;
};
RunTotals totals_of(const core::RunRecord& record);

/// What a result is of: an arm, or a cell of a sweep.
struct ResultSource {
  std::string_view arm;      ///< its name; of a cell empty
  std::string_view problem;  ///< of a cell
  std::string scope;         ///< of a cell: problem and config; of an arm empty

  std::string name() const { return scope.empty() ? std::string(arm) : scope; }
};
/// Every result of the record: those of arms first, then those of cells.
void for_each_result(
    const core::RunRecord& record,
    const std::function<void(const core::TrialResult&, const ResultSource&)>& visit);
/// max() that lets NaN through: a ratio that is no number must not vanish behind a good one.
double worse(double a, double b);

/// Worst error over bound and compared elements of one result.
struct WorstError {
  double ratio = 0.0, ulps = 0.0, error = 0.0, rounded_error = 0.0;
  double relative_l2 = -1.0;  ///< negative: not measured
  std::uint64_t compared = 0, bad_elements = 0;
  std::string output;
};
WorstError worst_error_of(const core::TrialResult& result);

/// What the record says beside an arm's or a config's figures: its note, "131 multiprocessors
/// held", "990 of 1,000 launches were issued while the blocker held"; empty: nothing.
std::string remarks_text(const core::TrialResult& result);

/// What of the arm's perturbation is not proven; empty: nothing.
std::string unproven_text(const core::ArmEvidence& arm);

/// What ended arms or configs before their time: those that ended alike are one.
struct Stops {
  core::ExecutionStatus status = core::ExecutionStatus::completed;
  std::string message;               ///< "as in the finding above" where one says it
  std::vector<std::string> details;  ///< likewise none
  std::vector<std::string> names;
};
std::vector<Stops> stops_of(const core::RunRecord& record);
/// "random_random, skew_lazy and 2 more"
std::string names_text(const Stops& stops);

/// "0.00042"; "-" where it was not measured.
std::string relative_l2_text(const WorstError& worst);

/// The output is no tiles of a pipeline: the tiles that its provenance names are those of the input
/// that the pipeline streams, and the output was computed from them.
bool names_input_tiles(const core::RunRecord& record, const core::ProvenanceEvidence& row);
/// "tile 1 <- tile 3" with the arrow given; "input tile 1 <- input tile 3" of an input.
std::string held_text(const core::RunRecord& record, const core::ProvenanceEvidence& row,
                      std::string_view arrow);
/// What "input tile" means; empty where no row names one.
std::string input_tiles_legend(const core::RunRecord& record);
/// "same (1)": the pipeline buffers of destination and source; empty without a pipeline.
std::string buffer_text(const core::ProvenanceEvidence& row);

/// The axis on which failure rates are drawn: linear when something failed and every rate that is
/// not zero is at least 2 %, else logarithmic from a power of ten below all rates and bounds.
struct RateAxis {
  bool logarithmic = false;
  double low = 0.0;  ///< rate at the left end; 0 when linear
  /// Place of a rate, from 0 (left) to 1 (right, 100 %).
  double place(double rate) const;
  struct Tick {
    double rate = 0.0;
    std::string label;  ///< "0.1 %"
  };
  std::vector<Tick> ticks() const;
  std::string description() const;  ///< "linear, 0 to 100 %"
};
RateAxis rate_axis_of(const std::vector<core::ArmEvidence>& arms);
/// An arm that ran trials and can show a rate.
bool has_rate(const core::ArmEvidence& arm);

/// The excerpt that holds `line` of `file`; nullptr when there is none.
const core::SourceExcerpt* find_excerpt(const core::RunRecord& record, std::string_view file,
                                        int line);
/// Lines of an excerpt to show, [first, end), by number: without blank ones at its two ends, which
/// may lie past the end of the file; the line that is marked always.
std::pair<int, int> shown_lines(const core::SourceExcerpt& excerpt, int marked);
/// "kernels/gla_decode/x.cuh:214", with " in consume_tile" when the function is known.
std::string place_text(const core::SourceLocation& where, bool with_function = true);

std::string kind_text(core::RaceKind kind);  ///< "write after read"
/// "h_tiles, bytes 2048..4095"; the range is left out when it is empty.
std::string memory_text(const core::RaceReport& race);
/// "1,024 conflicting cells, between blocks, in kernel gla_decode_bf16"
std::string seen_text(const core::RaceReport& race);

/// "gla_decode@shared_buffer"
std::string subject_text(const core::RunRecord& record);
/// The problem line without config; falls back to the evidence's.
std::string problem_text(const core::RunRecord& record);
/// "CUDA: NVIDIA H200, driver 580.159.04" or "simulator: PTX simulator (model of sm_90a)".
std::string backend_text(const core::RunRecord& record);
/// The word of the verdict: "PASS", "FAIL", ...
std::string outcome_text(core::Outcome outcome);
/// What the outcome rests on: the first finding. None, where a run that did not pass has notes
/// alone (it was interrupted, say): a note is no reason for that.
const core::Finding* leading_finding(const core::Verdict& verdict);
/// The one sentence under the verdict: the leading finding's headline, else the summary without its
/// prefix.
std::string headline_of(const core::RunRecord& record);
/// Sectors over ideal sectors; 0 when unknown.
double waste_of(const core::AccessStatistics& access);
/// Repeat check, shape of the errors, null outputs, oracle gate: one sentence each.
std::vector<std::string> further_evidence_of(const core::RunRecord& record);
/// Plan, code, who and when: name and value.
std::vector<std::pair<std::string, std::string>> run_facts_of(const core::RunRecord& record);

/// The words ("dtype=f16") that all lines of a table column share: said once, left out of the rows.
class CommonWords {
 public:
  explicit CommonWords(const std::vector<std::string_view>& lines);
  /// The shared words; empty when there are fewer than two lines.
  std::string text() const;
  /// `line` without them; "-" when nothing is left of a line.
  std::string without(std::string_view line) const;

 private:
  std::vector<std::string> words_;
};

/// What stands under the headline, one string per fact: "3 of 2,000 trials failed", "4 arms", ...
std::vector<std::string> key_facts_of(const core::RunRecord& record);

}  // namespace faultline::reports
