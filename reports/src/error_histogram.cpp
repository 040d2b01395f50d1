// SPDX-License-Identifier: Apache-2.0
#include "error_histogram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "faultline/core/comparison.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

std::uint64_t sum_from(const std::vector<std::uint64_t>& bins, std::size_t first) {
  return first < bins.size() ? std::accumulate(bins.begin() + static_cast<std::ptrdiff_t>(first),
                                               bins.end(), std::uint64_t{0})
                             : 0;
}

}  // namespace

std::vector<ErrorHistogram> error_histograms_of(const core::RunRecord& record) {
  std::vector<ErrorHistogram> histograms;
  for_each_result(record, [&](const core::TrialResult& result, std::string_view) {
    for (const core::OutputTotals& output : result.outputs) {
      auto found = std::find_if(histograms.begin(), histograms.end(), [&](const auto& h) {
        return h.output == output.name && h.dtype == output.dtype;
      });
      if (found == histograms.end()) {
        found = histograms.insert(histograms.end(), ErrorHistogram{});
        found->output = output.name;
        found->dtype = output.dtype;
      }
      core::add_bins(found->ratio, output.ratio_bins);
      core::add_bins(found->ulps, output.ulp_bins);
      found->compared += output.compared_elements;
    }
  });
  for (ErrorHistogram& h : histograms) {
    h.counted = sum_from(h.ratio, 0);
    h.beyond = sum_from(h.ratio, core::error_bin(1.0) + 1);
    h.not_finite = sum_from(h.ulps, core::kErrorBins - 1);
  }
  std::erase_if(histograms, [](const ErrorHistogram& h) { return h.counted == 0; });
  std::stable_partition(histograms.begin(), histograms.end(),
                        [](const ErrorHistogram& h) { return h.beyond > 0; });
  return histograms;
}

std::string bin_end_text(std::size_t bin) {
  const double end = core::error_bin_limit(bin);
  if (end == 0.0) {
    return "0";
  }
  if (end >= 1.0) {
    return count_text(static_cast<std::uint64_t>(end));
  }
  if (end >= 0.125) {
    return fmt::format("{:g}", end);
  }
  return fmt::format("2^{}", core::kLowestErrorExponent + static_cast<int>(bin) - 1);
}

std::string bin_text(std::size_t bin) {
  if (bin == 0) {
    return "0";
  }
  if (bin == 1) {
    return "up to " + bin_end_text(bin);
  }
  if (bin == core::kErrorBins - 1) {
    return "not finite";
  }
  if (bin == core::kErrorBins - 2) {
    return "above " + bin_end_text(bin - 1);
  }
  return bin_end_text(bin - 1) + " to " + bin_end_text(bin);
}

}  // namespace faultline::reports
