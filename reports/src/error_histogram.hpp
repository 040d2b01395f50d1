// SPDX-License-Identifier: Apache-2.0
// How large the errors of an output were, over all trials.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// Elements of one output by error over bound and by error in ulps, in the bins of
/// core::error_bin().
struct ErrorHistogram {
  std::string output;
  core::Dtype dtype = core::Dtype::f32;
  std::vector<std::uint64_t> ratio, ulps;    ///< as long as their last bin that is not empty
  std::uint64_t counted = 0, compared = 0;   ///< elements; counted <= compared
  std::uint64_t beyond = 0, not_finite = 0;  ///< of those counted: error over bound > 1; no number
  std::uint32_t every = 1;                   ///< core::OutputTotals::bins_every, the largest
  std::uint32_t least_every = 0;             ///< and the smallest; 0: the same
};
/// One for each output of which errors were counted, those with errors beyond the bound first.
std::vector<ErrorHistogram> error_histograms_of(const core::RunRecord& record);

/// Which of the elements compared were counted: "counted in every 32nd trial, and in failing trials
/// that were kept"; empty: all.
std::string counted_in_text(const ErrorHistogram& histogram);
/// Error over bound, where the bound ends a bin, and ulps: a character for each bin from 0 up to
/// the last that is not empty or the bound. Its height is logarithmic, the bound a bar between two;
/// in ASCII the number of decimal digits of the count.
std::string ratio_bar(const ErrorHistogram& histogram, bool unicode);
std::string ulp_bar(const ErrorHistogram& histogram, bool unicode);
/// What the two bars are, in a line.
std::string bars_legend(bool unicode);

/// "0", "up to 2^-10", "0.25 to 0.5", "above 1,048,576", "not finite".
std::string bin_text(std::size_t bin);
/// Upper end of a bin that has one: "0.5", "1,024", "2^-10".
std::string bin_end_text(std::size_t bin);
/// The same in at most five characters, for an axis: "0.5", "512", "2^16".
std::string axis_text(std::size_t bin);

}  // namespace faultline::reports
