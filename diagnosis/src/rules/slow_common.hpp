// SPDX-License-Identifier: Apache-2.0
// What the two rules about wasted memory transactions share.
#pragma once

#include <algorithm>
#include <vector>

#include "rule.hpp"

namespace faultline::diagnosis {

struct WastefulLine {
  const core::AccessStatistics* access = nullptr;
  double waste = 0.0;             ///< transactions over the ideal number
  std::uint64_t all_sectors = 0;  ///< of every line in that memory space
};

/// Lines of `space` that need at least `least_waste` times the ideal number of transactions and
/// carry at least `least_share` of all; the one with most transactions first.
inline std::vector<WastefulLine> wasteful_lines(const Facts& facts, core::MemorySpace space,
                                                double least_waste, double least_share) {
  std::uint64_t all = 0;
  for (const core::AccessStatistics& access : facts.accesses) {
    if (access.space == space) all += access.sectors;
  }
  std::vector<WastefulLine> lines;
  for (const core::AccessStatistics& access : facts.accesses) {
    if (access.space != space || access.ideal_sectors == 0) continue;
    const double waste =
        static_cast<double>(access.sectors) / static_cast<double>(access.ideal_sectors);
    const double carried = static_cast<double>(access.sectors) / static_cast<double>(all);
    if (waste >= least_waste && carried >= least_share) lines.push_back({&access, waste, all});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const WastefulLine& a, const WastefulLine& b) {
    return a.access->sectors > b.access->sectors;
  });
  return lines;
}

}  // namespace faultline::diagnosis
