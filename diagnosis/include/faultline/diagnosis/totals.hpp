// SPDX-License-Identifier: Apache-2.0
// Sums over trial results.
#pragma once

#include <vector>

#include "faultline/core/trial.hpp"

namespace faultline::diagnosis {

/// Sums of counts, the worst of the errors (a ratio is never NaN: that of a NaN is infinite).
void accumulate(core::TileTotals& into, const core::TileTotals& from);

/// Add `from` to `into`, which may be empty (name == ""). Tiles are added when both have the same
/// geometry; otherwise `into` keeps no tiles, because tile 3 of one is not tile 3 of the other.
void accumulate(core::OutputTotals& into, const core::OutputTotals& from);

/// Outputs by name over several results, in order of first appearance.
std::vector<core::OutputTotals> total_outputs(const std::vector<const core::TrialResult*>& results);

/// Races with the same kind, space, buffer and sites are one root cause: add `report` to `races`,
/// or merge it with the one that is there.
void merge_race(std::vector<core::RaceReport>& races, const core::RaceReport& report);

/// Deterministic order: errors before notes, then by kind, sites and buffer.
void sort_races(std::vector<core::RaceReport>& races);

/// Add access statistics of the same line and instruction.
void merge_accesses(std::vector<core::AccessStatistics>& into,
                    const std::vector<core::AccessStatistics>& from);

}  // namespace faultline::diagnosis
