// SPDX-License-Identifier: Apache-2.0
// What a report shows, computed once for all formats: totals, tile maps, rate axis, excerpts.
// Nothing here judges; it only arranges what the record says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// Worst error over bound and compared elements of one result.
struct WorstError {
  double ratio = 0.0, ulps = 0.0, error = 0.0, rounded_error = 0.0;
  double relative_l2 = -1.0;  ///< negative: not measured
  std::uint64_t compared = 0, bad_elements = 0;
  std::string output;
};
WorstError worst_error_of(const core::TrialResult& result);

/// "0.00042"; "-" where it was not measured.
std::string relative_l2_text(const WorstError& worst);

/// One square of a tile map.
struct TileCell {
  bool present = false;              ///< false: beyond the last tile of the group
  std::int64_t first = 0, last = 0;  ///< tiles (positions in the group) that it stands for
  core::TileTotals totals;  ///< summed over groups and over first..last; worst of the worst
};

/// One output's tiles over all trials that share its geometry. With a pipeline the map is folded to
/// one group and shows buffers down, rounds across: tile = round * depth + buffer. Otherwise it is
/// the tile grid itself.
struct TileMap {
  std::string output;
  core::Dtype dtype = core::Dtype::f32;
  core::TileGeometry geometry;
  std::string scope;  ///< of a sweep: the problem and config, or how many failing ones
  bool by_buffer = false;
  std::int64_t groups = 1;                    ///< groups folded into one
  std::int64_t bin_down = 1, bin_across = 1;  ///< tiles that one cell stands for
  std::int64_t down = 0, across = 0;
  std::vector<TileCell> cells;  ///< down x across, row-major
  std::uint64_t trials = 0;     ///< in which the output was compared
  std::uint64_t bad_trials = 0;
  std::uint64_t bad_elements = 0, compared_elements = 0;
  double worst_ratio = 0.0;

  bool failed() const { return bad_trials > 0 || bad_elements > 0; }
  /// Trials that a cell's bad_trials is out of: each trial has `groups` of it.
  std::uint64_t comparisons() const { return trials * static_cast<std::uint64_t>(groups); }
  const TileCell& at(std::int64_t row, std::int64_t column) const {
    return cells[static_cast<std::size_t>(row * across + column)];
  }
  /// "tile 3" or "tiles 8-15".
  static std::string cell_name(const TileCell& cell);
};
/// Shade of a cell by the share of comparisons in which it was wrong: 0 never, 1 under 1 %, 2 under
/// 10 %, 3 under 50 %, 4 the rest.
int heat_level(const TileMap& map, const TileCell& cell);
/// Wrong cells, worst first.
std::vector<const TileCell*> wrong_cells_of(const TileMap& map);
/// "4 tiles of 16 rows of dk, 8 groups folded into one, through 2 buffers"
std::string map_description(const TileMap& map);
/// "501,120 wrong elements, worst 41.3 x bound, first at element 1024"
std::string tile_details(const core::TileTotals& totals);
/// "783 of 2,000 trials"
std::string wrong_of_text(const TileMap& map, const TileCell& cell);
/// "tile 1 <- tile 3" with the arrow given.
std::string held_text(const core::ProvenanceEvidence& row, std::string_view arrow);
/// "same (1)": the pipeline buffers of destination and source; empty without a pipeline.
std::string buffer_text(const core::ProvenanceEvidence& row);

/// Failing maps first, otherwise in the order of the record. No map has more than max_cells cells.
std::vector<TileMap> tile_maps_of(const core::RunRecord& record, std::int64_t max_cells);

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
/// The one sentence under the verdict: the first finding's headline, else the summary without its
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
