// SPDX-License-Identifier: Apache-2.0
// The cells of a sweep as a table of sizes and configs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// Problems down, configs across; words that all share are left out.
struct ConfigMatrix {
  std::string all_problems, all_configs;  ///< the shared words
  std::vector<std::string> problems, configs;
  std::vector<const core::ConfigEvidence*> cells;  ///< row-major; nullptr: not run
  const core::ConfigEvidence* at(std::size_t problem, std::size_t config) const {
    return cells[problem * configs.size() + config];
  }
  /// "path=shared rows=8 at n=3001 k=3000": names a cell.
  std::string name_of(std::size_t problem, std::size_t config) const;
  /// Several of each: otherwise a list says the same.
  bool worth_showing() const { return problems.size() > 1 && configs.size() > 1; }
};
/// Of equal cells (the same problem and config run again) the failed one counts, else the last.
ConfigMatrix config_matrix_of(const core::RunRecord& record);

}  // namespace faultline::reports
