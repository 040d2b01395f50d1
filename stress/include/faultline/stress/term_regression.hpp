// SPDX-License-Identifier: Apache-2.0
// Which named term is missing, doubled or wrong? Least squares of the residuals of failing trials
// on the effects that the subject's error hypotheses predict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/core/tensor.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress {

/// One output of an examined trial. The pointers outlive the call.
struct ExaminedOutput {
  std::string name;
  const core::ReferenceTensor* reference = nullptr;
  core::TileGeometry tiles;           ///< a tile's rows are a chunk's
  const core::Tensor* got = nullptr;  ///< nullptr: nothing ran, only visibility is asked for
  core::Dtype dtype = core::Dtype::f32;
  core::Poison poison{};  ///< laid before the launch
};

/// A trial and what its inputs make the hypotheses predict: one effect per output, in order.
struct ExaminedTrial {
  std::vector<ExaminedOutput> outputs;
  std::vector<core::ErrorHypothesis> hypotheses;
};

struct TermRegression {
  std::vector<core::TermEvidence> terms;  ///< in the order of the hypotheses
  /// The best two and the best three terms together, where there are as many.
  std::vector<core::TermCombinationEvidence> combinations;
};

/// Residual r = (got - expected) / s and effects e = effect / s, where s = bound + half an output
/// ulp: what rounding may do weighs alike everywhere, so outputs of any scale go into one fit.
/// For each hypothesis coefficient c = <r,e> / <e,e>, R^2 = 1 - |r - c e|^2 / |r|^2 and the
/// standard error of c, over all elements of the outputs in which something was wrong, and over
/// each such output alone. Elements that are not finite, equal the poison unaccepted or have no
/// usable reference are left out and counted.
///
/// Rounding errors and low precisions are also compared by size: |r| over |e|, a geometric mean
/// over the elements that e moves, and the share of |r|^2 that 7 |e| and the bound together leave
/// room for. Of rounding errors nothing else is known: their coefficient and R^2 are these.
///
/// All trials must have the same outputs and hypotheses, in the same order; only the values differ.
/// UsageError when an effect has another length than its output. Deterministic.
TermRegression regress_terms(const std::vector<ExaminedTrial>& trials);

}  // namespace faultline::stress
