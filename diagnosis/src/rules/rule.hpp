// SPDX-License-Identifier: Apache-2.0
// A rule looks for one class of finding. Each has a file of its own; src/rules/table.cpp lists
// them.
//
// Rules that explain wrong values compete: the one with the highest confidence is kept and names
// its rival; the others are dropped. Rules that state facts (a reported race, a crash, a slow
// access) all stay.
#pragma once

#include <optional>
#include <span>

#include "faultline/core/verdict.hpp"

#include "../facts.hpp"

namespace faultline::diagnosis {

struct Rule {
  enum class Kind : std::uint8_t { fact, explanation };
  core::FindingClass finding;
  Kind kind;
  /// The finding, or nothing when the evidence does not speak for it.
  std::optional<core::Finding> (*examine)(const Facts&);
};

/// Every rule, in the order in which docs/verdicts.md states them.
std::span<const Rule> rules();

std::optional<core::Finding> find_abnormal_hang(const Facts&);
std::optional<core::Finding> find_abnormal_crash(const Facts&);
std::optional<core::Finding> find_race_async(const Facts&);
std::optional<core::Finding> find_race_shared(const Facts&);
std::optional<core::Finding> find_race_grid(const Facts&);
std::optional<core::Finding> find_race_stream(const Facts&);
std::optional<core::Finding> find_device_race(const Facts&);
std::optional<core::Finding> find_race_note(const Facts&);
std::optional<core::Finding> find_race_async_by_values(const Facts&);
std::optional<core::Finding> find_race_shared_by_values(const Facts&);
std::optional<core::Finding> find_race_stream_by_values(const Facts&);
std::optional<core::Finding> find_race_grid_by_values(const Facts&);
std::optional<core::Finding> find_missed_write(const Facts&);
std::optional<core::Finding> find_uninitialised(const Facts&);
std::optional<core::Finding> find_special_values(const Facts&);
std::optional<core::Finding> find_tail(const Facts&);
std::optional<core::Finding> find_config(const Facts&);
std::optional<core::Finding> find_systematic_offset(const Facts&);
std::optional<core::Finding> find_missing_term(const Facts&);
std::optional<core::Finding> find_wrong_term(const Facts&);
std::optional<core::Finding> find_accumulation(const Facts&);
std::optional<core::Finding> find_benign_nondeterminism(const Facts&);
std::optional<core::Finding> find_output_rounding(const Facts&);
std::optional<core::Finding> find_slow_uncoalesced(const Facts&);
std::optional<core::Finding> find_slow_bank_conflicts(const Facts&);
std::optional<core::Finding> find_slow_lane_folded(const Facts&);
std::optional<core::Finding> find_slow_dispatch(const Facts&);
std::optional<core::Finding> find_changed_input(const Facts&);
std::optional<core::Finding> find_state_carried(const Facts&);
std::optional<core::Finding> find_wrong_later_call(const Facts&);
std::optional<core::Finding> find_graph(const Facts&);
std::optional<core::Finding> find_stale_code(const Facts&);
std::optional<core::Finding> find_isolation(const Facts&);
std::optional<core::Finding> find_index32(const Facts&);
std::optional<core::Finding> find_device(const Facts&);
std::optional<core::Finding> find_layout(const Facts&);
std::optional<core::Finding> find_layout_by_change(const Facts&);
std::optional<core::Finding> find_oob(const Facts&);
std::optional<core::Finding> find_contract(const Facts&);
std::optional<core::Finding> find_vacuous(const Facts&);
std::optional<core::Finding> find_bound_vacuous(const Facts&);
std::optional<core::Finding> find_invisible_terms(const Facts&);
std::optional<core::Finding> find_reference_limits(const Facts&);
std::optional<core::Finding> find_declared_weakness(const Facts&);
std::optional<core::Finding> find_not_examined(const Facts&);
std::optional<core::Finding> find_no_evidence(const Facts&);

/// Equal inputs gave other values with another poison, and never with the same one.
bool values_follow_poison(const Facts&);

/// The run itself broke: outcome error.
std::optional<core::Finding> find_instrument_trouble(const Facts&);

/// Wrong values that no explanation fits; `rival` is the best of those that were too weak.
core::Finding unknown_finding(const Facts& facts, const core::Finding* rival);

}  // namespace faultline::diagnosis
