// SPDX-License-Identifier: Apache-2.0
// How one arm, cell of a sweep or row of the kill matrix came out: the same words in JUnit,
// Markdown and CSV.
#pragma once

#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

struct Standing {
  core::Outcome outcome = core::Outcome::inconclusive;
  std::string reason;  ///< one sentence without a full stop; empty for a pass
  /// Failed in some of its trials and not in others.
  bool sometimes = false;
};

/// Of an arm or a cell. `failed`: the record says so beside the counts. Nothing finished, or
/// nothing that could be judged, is never a pass.
Standing standing_of(const core::TrialResult& result, bool failed = false);
/// Of a variant in the kill matrix: fails when a mutant was not found under its name, or a clean
/// variant was blamed.
Standing standing_of(const core::KillRow& row);

/// "n=3001 k=3000 [rows=4]"
std::string cell_text(const core::ConfigEvidence& cell);
/// The command that reruns what the token names; empty without one.
std::string replay_text(const std::string& token);
/// What a replay line of the record reruns: "arm flush_l2, worst error 3.25 x bound"; empty when no
/// arm and no cell has its token.
std::string replay_label(const core::RunRecord& record, const std::string& line);
/// "tight loop"
std::string detector_text(core::Detector detector);
/// "stress: race.shared, trial 3 was the first to fail"; "sanitizer: not run: ..."
std::string cell_text(const core::KillCell& cell);

}  // namespace faultline::reports
