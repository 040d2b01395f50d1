// SPDX-License-Identifier: Apache-2.0
// race.grid: accesses to global memory, by several CTAs as a rule, that nothing orders inside one
// launch. Told by race reports alone.
#include "race_reported.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_race_grid(const Facts& facts) {
  return reported_race(
      facts, core::FindingClass::race_grid,
      {core::FindingClass::race_stream,
       "both accesses belong to one launch, so no stream or event could have ordered them",
       "CTAs of a launch run in any order: use a second launch, or a release/acquire flag at gpu "
       "scope after a __threadfence()."});
}

}  // namespace faultline::diagnosis
