// SPDX-License-Identifier: Apache-2.0
// Every mutant against every detector: what finds it, how soon, and under which name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/verdict.hpp"

namespace faultline::core {

/// What looks for a mutant.
enum class Detector : std::uint8_t {
  tight_loop,      ///< values alone: the same inputs again and again, nothing perturbed
  verify,          ///< values over configs, new inputs and another poison in each trial
  stress,          ///< the default campaign; values alone
  happens_before,  ///< the race check, whatever the values are (simulator)
  sanitizer,       ///< compute-sanitizer's tools over the same launches (CUDA, where installed)
};

std::string_view name_of(Detector detector);  ///< "happens_before"

/// One detector on one variant.
struct KillCell {
  Detector detector = Detector::tight_loop;
  bool ran = false;
  std::string note{};  ///< why it did not run, or what it said
  Outcome outcome = Outcome::skipped;
  std::vector<FindingClass> classes{};  ///< of the findings above a note, the first is first
  bool killed = false;  ///< failed, or warned of a defect that leaves the values right
  bool right = false;   ///< the required finding came first
  std::uint64_t trials = 0, failed = 0;
  std::uint64_t trials_to_kill = 0;  ///< trials until the first failure, over the arms; 0: none
  double seconds = 0.0;              ///< provenance
};

/// One mutant, or a clean variant that must not be blamed.
struct KillRow {
  std::string subject{}, variant{}, clean_twin{};
  bool is_mutant = false;
  std::optional<FindingClass> required{};
  std::string problem{}, config{};
  std::vector<KillCell> cells{};
  bool killed = false;  ///< by some detector
  /// Nothing is known: only a model shows this mutant, no model looked, and no detector saw it; or
  /// no_evidence is all that was found of a clean variant.
  bool no_evidence = false;
  bool right = false;  ///< by some detector, under the required name; a clean variant: no finding

  /// Some detector could run and see it. A row that none can judge counts neither way, is named.
  bool applicable() const;
};

/// The counts are over the rows that apply.
struct KillMatrix {
  std::vector<KillRow> rows{};

  std::uint64_t mutants() const;
  std::uint64_t killed() const;
  std::uint64_t named_right() const;
  std::uint64_t clean_variants() const;
  std::uint64_t false_alarms() const;  ///< clean variants with a finding above a note
};

}  // namespace faultline::core
