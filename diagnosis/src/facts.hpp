// SPDX-License-Identifier: Apache-2.0
// The evidence seen from the side of the rules: sorted, summed, with the questions that several
// rules ask answered once.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

/// How failures of one result follow the poison, which rotates with the trial number.
enum class PoisonPattern : std::uint8_t {
  unknown,        ///< too few trials, no failure, or the list of failures was cut short
  unrelated,      ///< some poison value saw both failing and passing trials
  every_trial,    ///< every trial failed
  poison_decides  ///< each poison value always failed or never did, and both occur
};

struct Facts {
  explicit Facts(const core::Evidence& evidence);

  const core::Evidence& evidence;

  // In canonical order, whatever the order in the evidence. Skipped ones are left out.
  std::vector<const core::ArmEvidence*> arms;
  std::vector<const core::ConfigEvidence*> configs;
  std::vector<const core::TrialResult*> results;  ///< of both
  std::vector<core::RaceReport> races;            ///< merged over everything, errors first
  std::vector<core::ProvenanceEvidence> provenance;
  std::vector<const core::TermEvidence*> terms;  ///< by problem and config, then as given
  std::vector<core::AccessStatistics> accesses;
  std::vector<core::OutputTotals> outputs;

  std::uint64_t trials = 0, failed = 0, wrong_values = 0, raced = 0, abnormal = 0;
  std::uint64_t compared_elements = 0;
  std::size_t skipped = 0;  ///< arms and configs that did not run

  bool any_race_error() const;
  bool any_wrong() const { return wrong_values > 0; }
  /// Some trial with wrong values was not reported as a race: the races do not explain everything.
  bool wrong_without_race() const;
  /// Every wrong element is one without a usable reference: nothing is known of the kernel there.
  bool only_without_reference() const;
  /// Fraction of the wrong elements with a usable reference that hold the poison.
  double poison_share() const;
};

/// Wrong elements of an output or a tile at which there is something to say: the reference is
/// usable.
template <class Totals>
std::uint64_t judged_wrong(const Totals& totals) {
  return totals.bad_elements - std::min(totals.no_reference, totals.bad_elements);
}

PoisonPattern poison_pattern(const core::TrialResult& result);

/// Why the failures depend on timing and on nothing else, as sentences, strongest first. Empty when
/// the evidence does not show it.
std::vector<std::string> timing_dependence(const Facts& facts);

/// An experiment in which delays inside the kernel raise its failure rate, or launches that overlap
/// no more cure it. Its trials with and without take turns, so that memory held the same before
/// both: timing decides. Of arms that is not so, where another one dirties memory in between.
bool delays_decide(const Facts& facts);

/// Every trial is wrong where shared memory is dirtied, by bits that follow the poison: what
/// differs in other arms is what shared memory happened to hold. A missing barrier gives the same
/// where its reader comes first, which an experiment with delays tells (delays_decide()).
bool shared_memory_explains_what_differs(const Facts& facts);

/// Delays decide, or trials with equal inputs and equal poison came out differently in more arms
/// than those in which the poison alone decides: what is read of it is read in some runs only.
bool poison_is_refuted(const Facts& facts);

/// Every failing trial of every result hit the same tiles.
bool same_tiles_every_time(const Facts& facts);

/// Outputs with wrong elements, the one with most wrong trials first.
std::vector<const core::OutputTotals*> wrong_outputs(const Facts& facts);

/// "wrong elements lie in tile 1 (12 trials) of new_state, a tile being 16 rows of dk". Where tiles
/// differ between configs, those of the first failing one, which is named.
std::string wrong_place(const Facts& facts, const core::OutputTotals& output);

/// The output is streamed tile by tile through a pipeline: its tiles hold what the buffers held.
bool is_streamed(const Facts& facts, const std::string& output_name);

/// Share of wrong elements whose content is the data of another tile of the same pipeline buffer,
/// and the strongest such entry.
struct BufferReuse {
  std::uint64_t wrong = 0, matched_same_buffer = 0;
  std::optional<core::ProvenanceEvidence> strongest;
  double share() const {
    return wrong == 0 ? 0.0 : static_cast<double>(matched_same_buffer) / static_cast<double>(wrong);
  }
};
BufferReuse buffer_reuse(const Facts& facts);

}  // namespace faultline::diagnosis
