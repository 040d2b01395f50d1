// SPDX-License-Identifier: Apache-2.0
#include "divergence.hpp"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "faultline/diagnosis/cell_text.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

using core::IntermediateEvidence;
using Rows = std::vector<const IntermediateEvidence*>;

const IntermediateEvidence* first_wrong(const Rows& rows) {
  for (const IntermediateEvidence* row : rows) {
    if (row->wrong > 0) return row;
  }
  return nullptr;
}

std::string tiles_text(const IntermediateEvidence& row) {
  if (row.first_tile < 0 || row.tiles <= 1) return "";
  const std::int64_t last = row.tiles - 1;
  std::string text =
      row.first_tile == row.last_tile ? fmt::format(" in tile {} alone", row.first_tile)
      : row.first_tile == 0 && row.last_tile == last ? std::string(" in the first tile to the last")
      : row.last_tile == last ? fmt::format(" from tile {} on", row.first_tile)
      : row.first_tile == 0   ? fmt::format(" up to tile {}", row.last_tile)
                              : fmt::format(" in tiles {} to {}", row.first_tile, row.last_tile);
  text += fmt::format(" (of {}", row.tiles);
  if (!row.tile_axis.empty()) text += fmt::format(", a tile being {}", row.tile_axis);
  return text + ")";
}

}  // namespace

std::string first_divergence(const Facts& facts) {
  // Within a cell the order is the algorithm's; cells come in no order.
  std::map<std::pair<std::string, std::string>, Rows> cells;
  for (const IntermediateEvidence& row : facts.evidence.intermediates) {
    cells[{row.problem, row.config}].push_back(&row);
  }
  const Rows* shown = nullptr;
  std::map<std::string, std::size_t> first_in;
  std::size_t failing = 0;
  for (const auto& [key, rows] : cells) {
    const IntermediateEvidence* wrong = first_wrong(rows);
    if (!wrong) continue;
    ++failing;
    ++first_in[wrong->name];
    if (!shown) shown = &rows;
  }
  if (!shown) return "";

  const IntermediateEvidence& wrong = *first_wrong(*shown);
  std::vector<std::string> before;
  for (const IntermediateEvidence* row : *shown) {
    if (row == &wrong) break;
    if (!row->is_output) before.push_back(row->name);
  }
  std::string text = fmt::format("first divergence: {}{}, {} times the bound", wrong.name,
                                 tiles_text(wrong), number(wrong.worst_ratio));
  if (before.empty()) {
    text += wrong.is_output ? "; no intermediate is compared before it"
                            : "; it is the first intermediate of the algorithm";
  } else {
    text += fmt::format("; {} before it {} right", list(before), before.size() == 1 ? "is" : "are");
  }
  if (failing > 1) {
    text += fmt::format(" ({}; first in {} of {})", cell_text(wrong.problem, wrong.config),
                        count(first_in[wrong.name]), plural(failing, "failing cell"));
  }
  return text;
}

}  // namespace faultline::diagnosis
