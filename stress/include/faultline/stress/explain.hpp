// SPDX-License-Identifier: Apache-2.0
// Which coordinates of a failing case matter: each is drawn anew with all others kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/token.hpp"
#include "faultline/core/verdict.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

/// A case as people write it: the first failing one of trials 0 to `trials` - 1 that `faultline
/// verify` would run.
struct CaseRequest {
  std::uint64_t seed = 1, trials = 3;
  core::DataMode data = core::DataMode::normal;
  core::RaceMode race = core::RaceMode::strict;
};
/// Its token; empty: all trials passed. UnsupportedError when they could not be run.
std::optional<core::TrialToken> first_failure(core::Backend& backend,
                                              const kernels::ResolvedTrial& trial,
                                              const CaseRequest& request, const RunOptions& run);

/// One coordinate of a case and what it has to do with the failure.
struct Coordinate {
  enum class Role : std::uint8_t {
    free,             ///< it fails at every other value tried
    needed,           ///< it fails at no other value tried
    from,             ///< it fails from `threshold` on, and not below
    up_to,            ///< it fails up to `threshold`, and not above
    multiple,         ///< multiples of `threshold` decide
    some,             ///< it fails at some values and not at others
    from_and_below,   ///< it fails at every value tried from `threshold` on, and at some below
    up_to_and_above,  ///< it fails at every value tried up to `threshold`, and at some above
    with_others,      ///< of a config: never changed alone, whole other configs were tried
    unclear,          ///< it passes at some values, which may be chance: few other seeds fail
    only_value,       ///< nothing else could be tried: domain, cost or contract
    not_tried,        ///< the budget was spent before
  };
  std::string group;  ///< "problem", "config" or "trial"
  std::string name, value;
  Role role = Role::not_tried;
  std::int64_t threshold = 0;
  std::vector<std::string> failed_at{}, passed_at{};  ///< values tried, in order
  /// Values at which it fails as another class, "1 (hang)": another bug, or data that cannot be
  /// judged. They count neither way.
  std::vector<std::string> otherwise_at{};
  /// What is said of it: "fails from 65 on; 64 passes".
  std::string text() const;

 private:
  std::string role_text() const;
};
std::string_view name_of(Coordinate::Role role);

struct ExplainOptions {
  std::uint64_t executions = 400;  ///< of the subject (on a device: of `repeats` each), at most
  std::uint64_t repeats = 50;      ///< on a device
  /// Values with more elements in the buffers than this many times the case's are not tried (with
  /// 2^16 allowed to any).
  std::int64_t growth = 4;
  RunOptions run;
};

struct Explanation {
  core::TrialToken trial;
  core::FindingClass finding = core::FindingClass::unknown;  ///< of the case by itself
  std::uint64_t failed = 0, trials = 0;  ///< of the case, with all coordinates kept
  core::Interval rate{};                 ///< Clopper-Pearson, 95 %
  /// Why no coordinate was tried: the case passes here, or fails only sometimes.
  std::string refused{};
  std::vector<Coordinate> coordinates{};
  std::uint64_t executions = 0;
  bool budget_spent = false;  ///< or the run was stopped: not everything was tried
  bool stopped = false;
  std::uint64_t other_seeds = 0, other_seeds_failed = 0;
};

/// Every parameter of the problem and of the config, the data mode, the seed, and the schedule
/// (simulator) or perturbation (device). Thresholds of integers are bisected, and multiples of
/// powers of two and of tiles on the passing side asked, where a case that has no single threshold
/// would fail. Where a subject has no config that differs in one parameter alone, its other configs
/// are tried whole.
///
/// Only of a case that fails every time: on the simulator a trial always does what it did, on a
/// device it must fail in all of `repeats` runs. Otherwise what one draw shows would be chance, and
/// the explanation is refused with the rate. Where other seeds pass, the data or the schedule
/// decide with the coordinate, and a value counts as failing when it does so with any of the seeds
/// tried; where a value at which the case is as it was would pass with all of these by chance with
/// a probability above 0.05, passing says nothing, and the coordinate is unclear.
Explanation explain(core::Backend& backend, const kernels::SubjectRegistry& registry,
                    const core::TrialToken& trial, const ExplainOptions& options = {});

/// The table that `faultline explain` prints.
std::string to_text(const Explanation& explanation);

}  // namespace faultline::stress
