// SPDX-License-Identifier: Apache-2.0
// What the fits of error hypotheses add up to: shared by missing_term, wrong_term and accumulation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faultline/core/verdict.hpp"

#include "../facts.hpp"

namespace faultline::diagnosis {

/// An effect below this many bounds everywhere cannot be relied on to show (at 1.14 bounds all
/// ablations of the study were found, below 1 one in a hundred).
inline constexpr double kVisible = 1.5;
/// R^2 that a claim needs.
inline constexpr double kClaimed = 0.9;
/// Low precision is rounding among rounding, and an emulation drifts apart from the kernel step by
/// step: of a state in bf16 after 64 chunks it still meets 0.15 of the residual (coefficient 0.4),
/// where any other reading meets none. So a little is enough, when it cannot be chance.
inline constexpr double kClaimedLowPrecision = 0.1, kCertain = 20.0;

/// A predicted size of errors is met where nearly all of the residual is within its reach, and
/// where the errors found are, in the geometric mean, between these multiples of it. The errors of
/// one matrix move together, so that a draw may be far from the mean of many; those of a state
/// that is rounded again and again do not.
inline constexpr double kWithinReach = 0.99;
inline constexpr double kSmallestSize = 0.1, kLargestSize = 4.0;
inline constexpr double kSmallestState = 0.5, kLargestState = 2.0;

/// Through few elements anything fits: a claim needs this many in all and for each coefficient, and
/// no more left out (not finite, never written) than fitted.
inline constexpr std::uint64_t kFewestElements = 32, kElementsPerParameter = 8;

/// One reading of a cell's residual.
struct TermCandidate {
  enum class How : std::uint8_t {
    missing,        ///< coefficient -1
    doubled,        ///< coefficient +1
    scaled,         ///< another coefficient
    several,        ///< two or three terms, each missing or doubled
    wrong_form,     ///< a wrong form with coefficient 1
    low_precision,  ///< the same of a low precision
    size,           ///< errors of the size of those roundings, or of amplified ones
  };
  How how = How::missing;
  std::vector<std::string> names{};
  std::vector<double> coefficients{};  ///< one for each name
  double r_squared = 0.0;
  std::string rows{};                        ///< "on the last row of each chunk"; empty: everywhere
  const core::TermEvidence* term = nullptr;  ///< its first name's evidence, in the same cell
  std::size_t order = 0;  ///< of that name among the cell's hypotheses, which come likeliest first
  /// Outputs of the cell that speak against it: wrong ones on which it has no effect to speak of,
  /// and right ones in which it should be seen.
  std::vector<std::string> wrong_beyond{}, right_though_predicted{};

  /// Enough was compared for R^2 to mean something; single rows count as one parameter more.
  bool supported() const;
  bool claimed() const;  ///< fits, and is supported
  bool contradicted() const { return !wrong_beyond.empty() || !right_though_predicted.empty(); }
  std::string name() const;  ///< "A_inv", "A_inv and dw_cross"
};

/// The reading that explains most of the cells with wrong values.
struct TermExplanation {
  TermCandidate best{};                      ///< in the cell where it can be seen best
  std::optional<TermCandidate> runner_up{};  ///< of the other names, in the same cell
  std::size_t cells = 0, explained = 0;  ///< cells with wrong values, and those that it explains
  bool ambiguous = false;                ///< the runner-up fits about as well
  core::FindingClass finding() const;
};

/// Nothing when no reading reaches kClaimed anywhere.
std::optional<TermExplanation> explain_terms(const Facts& facts);

/// The finding of an explanation: headline, figures, footprint, growth, runner-up.
core::Finding term_finding(const Facts& facts, const TermExplanation& explanation);

/// "relative L2 of dk by number of chunks (chunk=32): 1: 0.12, 2: 0.13, 4: 0.13"; of the outputs
/// that are wrong somewhere, for lengths that a sweep has at least two of.
std::vector<std::string> growth_sentences(const Facts& facts);

}  // namespace faultline::diagnosis
