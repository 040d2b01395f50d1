// SPDX-License-Identifier: Apache-2.0
// Mutation testing of the detectors: every mutant must be killed, under its required name, by at
// least one of them, and no clean twin may be blamed by any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/kill_matrix.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

struct MutantOptions {
  std::vector<std::string> subjects;  ///< SUBJECT or SUBJECT@VARIANT; empty: all
  std::uint64_t seed = 1;
  /// Trials of the tight loop, and of the default campaign (as PlanOptions::trials). 0: 50 and 48
  /// on the simulator, 2,000 and 200 an arm on a device.
  std::uint64_t tight_trials = 0, stress_trials = 0;
  RunOptions run;
  /// On a device: compute-sanitizer over a few launches of the row, where it is installed. Its
  /// reports stand beside the detectors': they neither kill a mutant nor blame a clean variant.
  std::function<core::KillCell(const kernels::ResolvedTrial&)> sanitizer{};
  /// After each row that ran: the rows so far, of which it is the last.
  std::function<void(const core::KillMatrix&)> checkpoint;
  /// A row ("SUBJECT@VARIANT") that an earlier process of this run finished.
  std::function<std::optional<core::KillRow>(const std::string&)> earlier_row{};
};

/// "SUBJECT@VARIANT" of the rows that run_mutants() makes. UsageError for an unknown name.
std::vector<std::string> mutant_rows(const kernels::SubjectRegistry& registry,
                                     const std::vector<std::string>& subjects);

/// A row that names this variant and holds no cell yet.
core::KillRow start_row(const kernels::Subject& subject, const kernels::Variant& variant);

/// Rows in the order of the registry: each mutant and each clean variant. A detector that cannot
/// run here leaves a note. UsageError for an unknown name.
core::KillMatrix run_mutants(core::Backend& backend, const kernels::SubjectRegistry& registry,
                             const MutantOptions& options = {});

/// Passes when every mutant was killed and named right and no clean variant was blamed; otherwise
/// one finding for each that was not. Rows cut short by a stop make it inconclusive; `cut_by` is
/// how the summary says by what.
core::Verdict judge_matrix(const core::KillMatrix& matrix, bool interrupted,
                           std::string_view cut_by = "interrupted");

}  // namespace faultline::stress
