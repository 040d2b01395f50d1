// SPDX-License-Identifier: Apache-2.0
#include "kill_matrix_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "numbers.hpp"

namespace faultline::reports {
namespace {

using core::Detector;
using core::KillCell;
using core::KillRow;

constexpr Detector kDetectors[] = {Detector::tight_loop, Detector::verify, Detector::stress,
                                   Detector::happens_before, Detector::sanitizer};

const char* title_of(Detector detector) {
  switch (detector) {
  case Detector::tight_loop: return "tight loop";
  case Detector::verify: return "verify";
  case Detector::stress: return "stress";
  case Detector::happens_before: return "order";
  case Detector::sanitizer: return "sanitizer";
  }
  return "?";
}

const KillCell* cell_of(const KillRow& row, Detector detector) {
  for (const KillCell& cell : row.cells) {
    if (cell.detector == detector) return &cell;
  }
  return nullptr;
}

/// "right 3": the required finding, first seen in trial 3; otherwise what was said instead.
std::string text_of(const KillRow& row, const KillCell* cell) {
  if (!cell || !cell->ran) return "n/a";
  std::string text;
  if (row.is_mutant && cell->right) {
    text = "right";
  } else if (!cell->classes.empty()) {
    text = core::name_of(cell->classes.front());
  } else if (cell->killed) {
    text = "failed";
  } else {
    return cell->outcome == core::Outcome::pass ? "-" : std::string(core::name_of(cell->outcome));
  }
  if (cell->trials_to_kill > 0) text += fmt::format(" {}", cell->trials_to_kill);
  return text;
}

EvidenceTable::Mark mark_of(const KillRow& row, const KillCell* cell) {
  using enum EvidenceTable::Mark;
  if (!cell || !cell->ran) return quiet;
  if (!row.is_mutant) return cell->killed ? bad : quiet;
  if (cell->right) return good;
  return cell->killed || !cell->classes.empty() ? weak : quiet;
}

double seconds_of(const KillRow& row) {
  double seconds = 0.0;
  for (const KillCell& cell : row.cells) seconds += cell.seconds;
  return seconds;
}

}  // namespace

EvidenceTable kill_matrix_table(const core::RunRecord& record) {
  const core::KillMatrix& matrix = record.mutants;
  EvidenceTable table{.id = "mutants",
                      .title = "Kill matrix",
                      .remark = "what each detector says of each variant",
                      .columns = {{"variant", false, true}, {"required", false, true}},
                      .rows = {},
                      .footer = {}};
  std::vector<Detector> shown;
  for (const Detector detector : kDetectors) {
    const bool ran = std::any_of(matrix.rows.begin(), matrix.rows.end(), [&](const KillRow& row) {
      const KillCell* cell = cell_of(row, detector);
      return cell && cell->ran;
    });
    if (!ran) continue;
    shown.push_back(detector);
    table.columns.push_back({title_of(detector), false, true});
  }
  table.columns.push_back({"s", true});
  for (const KillRow& row : matrix.rows) {
    EvidenceTable::Row cells{
        {row.subject + "@" + row.variant,
         row.required ? std::string(core::name_of(*row.required)) : std::string("no finding")},
        !row.right && !row.no_evidence};
    cells.marks = {row.right         ? EvidenceTable::Mark::none
                   : row.no_evidence ? EvidenceTable::Mark::weak
                                     : EvidenceTable::Mark::bad,
                   EvidenceTable::Mark::none};
    for (const Detector detector : shown) {
      const KillCell* cell = cell_of(row, detector);
      cells.cells.push_back(text_of(row, cell));
      cells.marks.push_back(mark_of(row, cell));
    }
    cells.cells.push_back(fmt::format("{:.1f}", seconds_of(row)));
    table.rows.push_back(std::move(cells));
  }
  table.footer = fmt::format(
      "mutation score {} of {} under the right name ({} killed); {} of {} clean variants blamed. "
      "right 3: the required finding came first, and trial 3 was the first to fail; right: it came "
      "without a failed trial, as a warning of what leaves the values right; another name: what "
      "was said instead; -: nothing. tight loop, verify and stress judge values and "
      "counts (memory accesses, module loads), not the order of accesses; order is the "
      "happens-before check",
      matrix.named_right(), matrix.mutants(), matrix.killed(), matrix.false_alarms(),
      matrix.clean_variants());
  // Why a detector could not tell: the name of its class does not say.
  for (const KillRow& row : matrix.rows) {
    if (row.right) continue;
    for (const KillCell& cell : row.cells) {
      if (!cell.ran || cell.outcome != core::Outcome::inconclusive || cell.note.empty()) continue;
      table.footer += fmt::format(". {}@{}, {}: {}", row.subject, row.variant,
                                  title_of(cell.detector), cell.note);
    }
  }
  return table;
}

}  // namespace faultline::reports
