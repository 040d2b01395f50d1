// SPDX-License-Identifier: Apache-2.0
// race.stream: accesses of two launches or copies that no stream order and no event orders. Told by
// race reports alone: that a failure goes away under full synchronisation does not show it. Between
// launches on different devices the class is device.
#include "race_reported.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_race_stream(const Facts& facts) {
  return reported_race(
      facts, core::FindingClass::race_stream,
      {core::FindingClass::race_grid,
       "the accesses belong to different launches; inside one launch streams would not matter",
       "Order the two launches: the same stream, or an event recorded after the first and waited "
       "for before the second."});
}

std::optional<core::Finding> find_device_race(const Facts& facts) {
  return reported_race(
      facts, core::FindingClass::device,
      {core::FindingClass::race_stream,
       "the two launches run on different devices, so that no stream could order them",
       "Order the peer's access and this one: an event recorded on its device and waited for on "
       "this one."});
}

}  // namespace faultline::diagnosis
