// SPDX-License-Identifier: Apache-2.0
// How far an effect, or an output that computes nothing, would be seen by the comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "faultline/core/tensor.hpp"

namespace faultline::core {

/// What each element of an output may be off by without being wrong: bound plus half an ulp of the
/// stored value. NaN where reference or bound is unusable.
std::vector<double> allowed_errors(Dtype dtype, const ReferenceTensor& reference);

/// The largest |effect| over what is allowed, of the elements with a usable reference: 0 for an
/// effect that is exactly zero (also given as an empty vector), infinite where nothing is allowed.
double visibility(const std::vector<double>& allowed, const std::vector<double>& effect);

/// What the comparison would make of an output that computes nothing. Elements without a usable
/// reference, and those at which the null output is right to the bit, say nothing of the check.
struct NullOutput {
  std::uint64_t wrong = 0;     ///< elements that differ from the rounded reference
  std::uint64_t rejected = 0;  ///< of these, elements that would not be accepted

  /// One rejected element in a thousand shows that such an output fails, not that a defect in the
  /// other elements would: a check counts as seeing when it rejects this share of the wrong ones.
  static constexpr double kSeen = 0.1;
  double share() const {
    return wrong == 0 ? 0.0 : static_cast<double>(rejected) / static_cast<double>(wrong);
  }
  bool seen() const { return share() >= kSeen; }
};

/// Compare `null(i)`, rounded to `dtype`, with the reference.
NullOutput compare_null_output(Dtype dtype, const ReferenceTensor& reference,
                               const std::function<double(std::size_t)>& null);

}  // namespace faultline::core
