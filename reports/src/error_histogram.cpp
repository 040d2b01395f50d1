// SPDX-License-Identifier: Apache-2.0
#include "error_histogram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

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

/// `limit`: a bar goes behind that bin; kErrorBins: none does.
std::string bar(const std::vector<std::uint64_t>& bins, std::size_t limit, bool unicode) {
  static constexpr std::string_view kHeights[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                  "\u2585", "\u2586", "\u2587", "\u2588"};
  const std::uint64_t largest = bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end());
  const std::size_t shown = std::max(bins.size(), limit < core::kErrorBins ? limit + 1 : 0);
  std::string text;
  for (std::size_t bin = 0; bin < shown; ++bin) {
    const std::uint64_t count = bin < bins.size() ? bins[bin] : 0;
    if (count == 0) {
      text += unicode ? "\u00b7" : ".";
    } else if (unicode) {
      // One element is seen beside millions.
      const double share = largest == 1 ? 1.0
                                        : std::log(static_cast<double>(count)) /
                                              std::log(static_cast<double>(largest));
      text += kHeights[static_cast<std::size_t>(std::lround(7.0 * share))];
    } else {
      const std::size_t digits = std::to_string(count).size();
      text += digits > 9 ? '+' : static_cast<char>('0' + digits);
    }
    if (bin == limit) text += '|';
  }
  return text;
}

std::string nth(std::uint32_t n) {
  const bool teens = n / 10 % 10 == 1;
  return fmt::format("{}{}", n,
                     teens         ? "th"
                     : n % 10 == 1 ? "st"
                     : n % 10 == 2 ? "nd"
                     : n % 10 == 3 ? "rd"
                                   : "th");
}

}  // namespace

std::string counted_in_text(const ErrorHistogram& h) {
  if (h.counted >= h.compared) return {};
  if (h.every > 1 && h.least_every > 1 && h.least_every < h.every) {
    return fmt::format("counted in every {} trial, in every {} where many share a launch, and in "
                       "failing trials that were kept",
                       nth(h.least_every), nth(h.every));
  }
  if (h.every > 1) {
    return fmt::format("counted in every {} trial, and in failing trials that were kept",
                       nth(h.every));
  }
  return "the others are padding, or of trials whose errors were not kept";
}

std::string ratio_bar(const ErrorHistogram& h, bool unicode) {
  return bar(h.ratio, core::error_bin(1.0), unicode);
}
std::string ulp_bar(const ErrorHistogram& h, bool unicode) {
  return bar(h.ulps, core::kErrorBins, unicode);
}
std::string bars_legend(bool unicode) {
  return fmt::format("Elements by error: 0, up to 2^{}, then twice as much each time; {}; | is the "
                     "bound",
                     core::kLowestErrorExponent,
                     unicode ? "heights are logarithmic" : "decimal digits of the count");
}

std::vector<ErrorHistogram> error_histograms_of(const core::RunRecord& record) {
  std::vector<ErrorHistogram> histograms;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource&) {
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
      found->every = std::max(found->every, output.bins_every);
      found->least_every = found->least_every == 0
                               ? output.bins_every
                               : std::min(found->least_every, output.bins_every);
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

std::string axis_text(std::size_t bin) {
  const double end = core::error_bin_limit(bin);
  return end >= 1000.0 ? fmt::format("2^{}", std::ilogb(end)) : bin_end_text(bin);
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
