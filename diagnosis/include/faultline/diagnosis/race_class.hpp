// SPDX-License-Identifier: Apache-2.0
// Which class a reported race belongs to (docs/verdicts.md, "Races").
#pragma once

#include "faultline/core/execution.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::diagnosis {

/// Class of one reported race: between devices device; between launches race.stream; between CTAs
/// in global memory race.grid; with an asynchronous copy engine on either side race.async; the rest
/// of shared memory race.shared.
core::FindingClass class_of(const core::RaceReport& race);

/// Done by a copy engine or another asynchronous unit rather than by the thread itself.
bool is_asynchronous(const core::AccessSite& site);

}  // namespace faultline::diagnosis
