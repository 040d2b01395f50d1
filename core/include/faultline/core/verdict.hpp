// SPDX-License-Identifier: Apache-2.0
// Findings and verdicts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/errors.hpp"

namespace faultline::core {

enum class Outcome : std::uint8_t { pass, fail, inconclusive, skipped, error };
enum class Severity : std::uint8_t { note, warning, error };

/// Classes of docs/verdicts.md; names on reports use '.', e.g. race.async.
enum class FindingClass : std::uint8_t {
  race_shared,
  race_async,
  race_grid,
  race_stream,
  nondeterminism_benign,
  systematic_offset,
  config,
  output_rounding,
  accumulation,
  missing_term,
  wrong_term,
  tail,
  isolation,
  index32,
  layout,
  oob,
  uninitialised,
  missed_write,
  special_values,
  state,
  graph,
  stale_code,
  device,
  hang,
  crash,
  contract,
  vacuous,
  slow_uncoalesced,
  slow_lane_folded,
  slow_bank_conflicts,
  slow_dispatch,
  timing_contaminated,
  no_evidence,
  bound_vacuous,
  unknown,
};

std::string_view name_of(Outcome outcome);
std::string_view name_of(Severity severity);
std::string_view name_of(FindingClass finding);  ///< "race.async"
std::optional<FindingClass> parse_finding_class(std::string_view text);
bool is_race(FindingClass finding);  ///< race.*
bool is_slow(FindingClass finding);  ///< slow.*: defects that leave the values right

struct Finding {
  FindingClass finding = FindingClass::unknown;
  Severity severity = Severity::error;
  std::string headline{};               ///< one sentence: what is wrong, where
  std::vector<std::string> evidence{};  ///< sentences with numbers, strongest first
  std::optional<FindingClass> runner_up{};
  std::string runner_up_reason{};  ///< why it came second
  double confidence = 1.0;         ///< rank among findings, in [0, 1]; not a probability
  std::string advice{};            ///< what to do next; may be empty
  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Outcome plus ranked findings: a pure function of Evidence.
struct Verdict {
  Outcome outcome = Outcome::inconclusive;
  std::string summary{};  ///< "fail(race.async): ..." one line
  std::vector<Finding> findings{};
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// Exit code of a verdict; with fail_on_warning, a pass that holds a warning fails.
ExitCode exit_code(const Verdict& verdict, bool fail_on_warning = false);

}  // namespace faultline::core
