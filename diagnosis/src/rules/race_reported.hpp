// SPDX-License-Identifier: Apache-2.0
// What the classes of reported races share.
#pragma once

#include <string>
#include <vector>

#include "faultline/diagnosis/race_class.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {

struct RaceWords {
  core::FindingClass runner_up;
  std::string runner_up_reason;
  std::string advice;
};

/// The finding for all races of `wanted` that are not notes, strongest first.
std::optional<core::Finding> reported_race(const Facts& facts, core::FindingClass wanted,
                                           const RaceWords& words);

/// "a read of X at file:1 and a later write at file:2": one sentence that names both lines.
std::string race_sentence(const core::RaceReport& race);

/// What the values say in a run with race reports: where the wrong elements lie and whose data they
/// hold, that every value came out right, or that none was compared.
std::vector<std::string> value_sentences(const Facts& facts);

}  // namespace faultline::diagnosis
