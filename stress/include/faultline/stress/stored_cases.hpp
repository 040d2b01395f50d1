// SPDX-License-Identifier: Apache-2.0
// What a run leaves in a store, and stored cases replayed before the next run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/run_record.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/store/store.hpp"
#include "faultline/stress/replay.hpp"

namespace faultline::stress {

/// Of one run at most so many cases are kept: what fails everywhere need not be replayed
/// everywhere.
inline constexpr std::size_t kCasesOfARun = 16;

/// The first failing trial of each arm and of each cell, up to kCasesOfARun; with the class and the
/// headline of the run's first error. The arms of a sweep repeat its cells and leave none, as do
/// arms and cells without a token (a PTX file).
std::vector<store::FailingCase> failing_cases_of(const core::RunRecord& record);

/// The same for one trial known by its token.
store::FailingCase failing_case(core::TrialToken trial, std::string origin);

/// A stored case and what it shows now.
struct ReplayedCase {
  enum class State : std::uint8_t {
    failed_again,
    fixed,      ///< it passes now
    not_judged  ///< it could not be run or judged; `why` says it. No pass.
  };
  store::FailingCase stored;
  State state = State::not_judged;
  std::string why{};
  core::Evidence evidence{};
  core::Verdict verdict{};
};

/// Of cases that differ in data and seed only, at most so many are replayed, those seen last.
inline constexpr std::size_t kReplaysAlike = 4;
/// On a device a case is run at most so often.
inline constexpr std::uint64_t kMostRuns = 20000;

/// Run each as `faultline replay` would; on a device as often as it takes to tell a fixed case from
/// the rate at which it failed, at least `options.repeats` times and at most kMostRuns. A case is
/// fixed when, with nothing failed, the upper bound on its rate is below the lower end of Wilson's
/// interval of the stored one. Not judged: too few runs for that, more than kReplaysAlike alike, a
/// token that cannot be read, a stop.
std::vector<ReplayedCase> replay_cases(core::Backend& backend,
                                       const kernels::SubjectRegistry& registry,
                                       const std::vector<store::FailingCase>& cases,
                                       const ReplayOptions& options);

/// What the store is told of them. Cases that were not judged stay as they are.
std::vector<store::CaseResult> results_of(const std::vector<ReplayedCase>& replayed);

/// "stored case 3 (gemv n=1 ... [stages=3], seed 7, seen last 2026-...): failed again"
std::string to_text(const ReplayedCase& replayed);

/// A line for each case that was judged; one for all that were not for the same reason.
std::vector<std::string> to_lines(const std::vector<ReplayedCase>& replayed);

/// The verdict and the evidence of the run that came after them, with them: each is an arm more,
/// named stored_case_N, and was judged by itself. The worst outcome wins: one that failed again
/// makes the run fail, one that could not be judged makes a pass inconclusive.
void add_replayed(const std::vector<ReplayedCase>& replayed, core::Evidence& evidence,
                  core::Verdict& verdict);

}  // namespace faultline::stress
