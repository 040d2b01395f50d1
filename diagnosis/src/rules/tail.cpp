// SPDX-License-Identifier: Apache-2.0
// tail: wrong exactly where a length is not a multiple of the tile. Two lengths are looked at: the
// reduction (any output may be wrong), and the rows (only the last row of tiles may be wrong).
#include <utility>

#include <fmt/format.h>

#include "../words.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

struct Raggedness {
  std::uint64_t ragged_failed = 0, ragged_passed = 0, whole_failed = 0, whole_passed = 0;
  const core::ConfigEvidence* failed_example = nullptr;
  const core::ConfigEvidence* passed_example = nullptr;

  void add(const core::ConfigEvidence& cell, bool ragged) {
    (ragged ? (cell.failed ? ragged_failed : ragged_passed)
            : (cell.failed ? whole_failed : whole_passed))++;
    // The longest ones make the plainest examples: 3000 = 1 x 2048 + 952 rather than 1 = 0 x 2048
    // + 1.
    auto longer = [&](const core::ConfigEvidence* than) {
      return !than || std::pair(cell.reduction, cell.rows) > std::pair(than->reduction, than->rows);
    };
    if (ragged && cell.failed && longer(failed_example)) failed_example = &cell;
    if (!ragged && !cell.failed && longer(passed_example)) passed_example = &cell;
  }
  double confidence() const {
    if (ragged_failed == 0 || whole_failed > 0) return 0.0;
    if (whole_passed == 0) return 0.4;  // nothing to compare with
    return ragged_passed == 0 ? 0.96 : ragged_failed >= ragged_passed ? 0.75 : 0.55;
  }
};

bool wrong_in_last_tile_row_only(const core::TrialResult& result) {
  for (const core::OutputTotals& output : result.outputs) {
    const std::int64_t across = output.geometry.tiles_across();
    const std::int64_t last_row = (output.geometry.tiles_down() - 1) * across;
    for (std::size_t i = 0; i < output.tiles.size(); ++i) {
      if (judged_wrong(output.tiles[i]) > 0 && static_cast<std::int64_t>(i) < last_row)
        return false;
    }
  }
  return true;
}

core::Finding tail_finding(const Facts& facts, const Raggedness& lengths, bool by_rows) {
  const core::ConfigEvidence& cell = *lengths.failed_example;
  const std::int64_t length = by_rows ? cell.rows : cell.reduction;
  const std::int64_t tile = by_rows ? cell.tile_rows : cell.tile_k;
  const char* name = by_rows ? "number of rows" : "length of the reduction";

  core::Finding finding;
  finding.finding = core::FindingClass::tail;
  finding.severity = core::Severity::error;
  finding.confidence = lengths.confidence();
  finding.headline = fmt::format("{} is wrong only where the {} is not a multiple of the tile",
                                 subject_text(facts.evidence), name);
  finding.evidence.push_back(fmt::format("e.g. {}: {} = {} x {} + {}",
                                         cell_text(cell.problem, cell.config), length,
                                         length / tile, tile, length % tile));
  finding.evidence.push_back(fmt::format(
      "ragged: {} failed, {} passed; whole tiles: {} failed, {} passed (problems x configs)",
      count(lengths.ragged_failed), count(lengths.ragged_passed), count(lengths.whole_failed),
      count(lengths.whole_passed)));
  if (lengths.passed_example) {
    finding.evidence.push_back("right e.g. at " + cell_text(lengths.passed_example->problem,
                                                            lengths.passed_example->config));
  }
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  finding.runner_up = core::FindingClass::systematic_offset;
  finding.runner_up_reason =
      lengths.whole_passed > 0
          ? fmt::format("it would also fail at whole tiles, and {} of those passed",
                        count(lengths.whole_passed))
          : std::string("no size that is a multiple of the tile was tried");
  finding.advice = by_rows ? "Check the guard of the last row tile."
                           : fmt::format("Check how the last {} elements of the reduction are "
                                         "handled: a loop over whole tiles drops them.",
                                         length % tile);
  return finding;
}

}  // namespace

std::optional<core::Finding> find_tail(const Facts& facts) {
  Raggedness reduction, rows;
  bool last_row_only = true;
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (cell->tile_k > 0 && cell->reduction > 0) {
      reduction.add(*cell, cell->reduction % cell->tile_k != 0);
    }
    if (cell->tile_rows > 0 && cell->rows > 0) {
      rows.add(*cell, cell->rows % cell->tile_rows != 0);
      if (cell->failed && !wrong_in_last_tile_row_only(cell->result)) last_row_only = false;
    }
  }
  const double by_reduction = reduction.confidence();
  const double by_rows = last_row_only ? rows.confidence() : 0.0;
  if (by_reduction == 0.0 && by_rows == 0.0) return std::nullopt;
  return by_rows > by_reduction ? tail_finding(facts, rows, true)
                                : tail_finding(facts, reduction, false);
}

}  // namespace faultline::diagnosis
