// SPDX-License-Identifier: Apache-2.0
// What the classes of reported races share.
#pragma once

#include <string>
#include <vector>

#include "rule.hpp"

namespace faultline::diagnosis {

/// Class of one reported race: between devices device; between launches race.stream; between CTAs
/// in global memory race.grid; with an asynchronous copy engine on either side race.async; the rest
/// of shared memory race.shared.
core::FindingClass class_of(const core::RaceReport& race);

/// Done by a copy engine or another asynchronous unit rather than by the thread itself.
bool is_asynchronous(const core::AccessSite& site);

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
/// hold, or that every value came out right.
std::vector<std::string> value_sentences(const Facts& facts);

}  // namespace faultline::diagnosis
