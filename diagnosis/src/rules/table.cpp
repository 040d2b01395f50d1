// SPDX-License-Identifier: Apache-2.0
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

using enum core::FindingClass;
constexpr Rule kRules[] = {
    {hang, Rule::Kind::fact, find_abnormal_hang},
    {crash, Rule::Kind::fact, find_abnormal_crash},
    {race_async, Rule::Kind::fact, find_race_async},
    {race_shared, Rule::Kind::fact, find_race_shared},
    {race_grid, Rule::Kind::fact, find_race_grid},
    {race_stream, Rule::Kind::fact, find_race_stream},
    {device, Rule::Kind::fact, find_device_race},
    {race_async, Rule::Kind::fact, find_race_note},
    {race_async, Rule::Kind::explanation, find_race_async_by_values},
    {race_shared, Rule::Kind::explanation, find_race_shared_by_values},
    {race_stream, Rule::Kind::explanation, find_race_stream_by_values},
    {race_grid, Rule::Kind::explanation, find_race_grid_by_values},
    {state, Rule::Kind::fact, find_changed_input},
    {state, Rule::Kind::explanation, find_state_carried},
    {state, Rule::Kind::explanation, find_wrong_later_call},
    {graph, Rule::Kind::explanation, find_graph},
    {stale_code, Rule::Kind::explanation, find_stale_code},
    {isolation, Rule::Kind::explanation, find_isolation},
    {index32, Rule::Kind::explanation, find_index32},
    {device, Rule::Kind::explanation, find_device},
    {layout, Rule::Kind::explanation, find_layout},
    {layout, Rule::Kind::explanation, find_layout_by_change},
    {oob, Rule::Kind::explanation, find_oob},
    {missed_write, Rule::Kind::explanation, find_missed_write},
    {uninitialised, Rule::Kind::explanation, find_uninitialised},
    {special_values, Rule::Kind::explanation, find_special_values},
    {tail, Rule::Kind::explanation, find_tail},
    {config, Rule::Kind::explanation, find_config},
    {systematic_offset, Rule::Kind::explanation, find_systematic_offset},
    {missing_term, Rule::Kind::explanation, find_missing_term},
    {wrong_term, Rule::Kind::explanation, find_wrong_term},
    {accumulation, Rule::Kind::explanation, find_accumulation},
    {nondeterminism_benign, Rule::Kind::fact, find_benign_nondeterminism},
    {output_rounding, Rule::Kind::fact, find_output_rounding},
    {slow_uncoalesced, Rule::Kind::fact, find_slow_uncoalesced},
    {slow_bank_conflicts, Rule::Kind::fact, find_slow_bank_conflicts},
    {slow_lane_folded, Rule::Kind::fact, find_slow_lane_folded},
    {slow_dispatch, Rule::Kind::fact, find_slow_dispatch},
    {contract, Rule::Kind::fact, find_contract},
    {vacuous, Rule::Kind::fact, find_vacuous},
    {vacuous, Rule::Kind::fact, find_not_examined},
    {bound_vacuous, Rule::Kind::fact, find_bound_vacuous},
    {bound_vacuous, Rule::Kind::fact, find_invisible_terms},
    {bound_vacuous, Rule::Kind::fact, find_reference_limits},
    {contract, Rule::Kind::fact, find_declared_weakness},
    {no_evidence, Rule::Kind::fact, find_no_evidence},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

}  // namespace faultline::diagnosis
