// SPDX-License-Identifier: Apache-2.0
// Which blocks of an output do its wrong elements fill? Of many ways to cut the output, the one
// that says in the fewest bits where they lie (core::FootprintEvidence).
#pragma once

#include <cstdint>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

/// The wrong elements of captured trials, output by output.
///
/// Each tiling is a model of two states: a block is hit or clean, and an element of it is wrong
/// with a probability that all hit blocks share, or all clean ones. Its description is what the
/// tiling is named by (a share of one: the plan's own tiles are likelier than blocks of any other
/// shape), which blocks are hit (every number of them is as likely) and which elements are wrong
/// (probabilities integrated over their Jeffreys prior, so that none is fitted). Smaller blocks
/// pay for saying more often which are hit, larger ones for the right elements that they take in.
/// A tiling counts when it beats one density for the whole output by kLeastBits, when hit blocks
/// have at least eight times the density of clean ones, and when the wrong elements lie in the hit
/// blocks as the model says: no block much fuller than others, no lines within them, and blocks of
/// a shape that nothing suggests not side by side.
class Footprints {
 public:
  explicit Footprints(const core::TrialPlan& plan);

  /// The wrong elements of output `o` in one failing trial, ascending, without those that have no
  /// usable reference or must not be written.
  void add(std::uint32_t o, std::vector<std::int64_t> wrong);

  /// One for each output with wrong elements, in the order of the outputs.
  std::vector<core::FootprintEvidence> result() const;

  static constexpr double kLeastBits = 10.0;

 private:
  struct Output {
    std::uint64_t trials = 0;
    std::vector<std::vector<std::int64_t>> patterns;  ///< different ones, in the order of capture
  };

  const core::TrialPlan& plan_;
  std::vector<std::uint32_t> indices_;
  std::vector<Output> outputs_;
};

}  // namespace faultline::stress::detail
