// SPDX-License-Identifier: Apache-2.0
// What got better or worse from one run to another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::stress {

/// Two-sided p-value of Fisher's exact test that two rates are equal: the probability, given the
/// margins, of all tables that are no likelier than this one. 1 where there are no trials.
/// Throws std::invalid_argument when failures > trials.
double fisher_exact(std::uint64_t failed_a, std::uint64_t trials_a, std::uint64_t failed_b,
                    std::uint64_t trials_b);

struct RunChange {
  enum class Kind : std::uint8_t {
    worse,
    better,
    differs,  ///< told, and counted neither way
  };
  Kind kind = Kind::differs;
  std::string text{};
};
std::string_view name_of(RunChange::Kind kind);

struct RunComparison {
  std::vector<RunChange> changes{};  ///< worse first
  std::uint64_t rates = 0;           ///< arms and cells whose rates were compared
  std::uint64_t compared = 0;  ///< these, bench rows and rows of the kill matrix; 0 is never green
  bool worse() const;
};

/// Outcomes; findings that are gone or new; rates of arms and cells that both runs have; the worst
/// error over bound of each output; bench times; rows of the kill matrix.
///
/// A rate has changed when Fisher's exact test says so at 0.05 over the number of rates compared.
/// On the simulator, where equal seeds give equal trials, any difference between runs of equal
/// seed and trials is one. Errors over bound count only between such runs or with equal seed and
/// trials on a device, from a tenth on. A run that did not finish is compared as far as it got.
///
/// UsageError for runs of different commands or subjects; the variant, config, backend or seed may
/// differ, and the comparison says so.
RunComparison compare_runs(const core::RunRecord& before, const core::RunRecord& after);

}  // namespace faultline::stress
