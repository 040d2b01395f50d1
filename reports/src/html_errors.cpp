// SPDX-License-Identifier: Apache-2.0
// Section of the HTML report: how large the errors were, as fractions of the bound and in ulps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "error_histogram.hpp"
#include "faultline/core/comparison.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "html_page.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kMostOutputs = 40;
constexpr std::size_t kInSight = 6;  // beyond, they are folded away: those with errors come first

// Height of a count: logarithmic, so that a single wrong element is seen beside millions.
double height_of(std::uint64_t count, std::uint64_t largest) {
  if (count == 0) {
    return 0.0;
  }
  return (1.0 + std::log10(static_cast<double>(count))) /
         (1.0 + std::log10(static_cast<double>(std::max<std::uint64_t>(largest, 1))));
}

/// Columns of one histogram. `limit`: the last bin that is acceptable; kErrorBins: all are.
void write_columns(HtmlPage& page, const std::vector<std::uint64_t>& bins, std::size_t limit,
                   std::string_view label) {
  const std::size_t shown = std::max(bins.size(), limit < core::kErrorBins ? limit + 3 : 0);
  const std::uint64_t largest = bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end());
  const std::size_t one = core::error_bin(1.0);  // its label stays
  const double width = 1.0 / static_cast<double>(std::max<std::size_t>(shown, 12));
  page.out.put("<svg class=\"columns\" role=\"img\" aria-label=\"", escaped(label), "\">");
  for (std::size_t bin = 0; bin < shown; ++bin) {
    const double x = width * static_cast<double>(bin);
    const std::uint64_t count = bin < bins.size() ? bins[bin] : 0;
    const double height = 0.8 * height_of(count, largest);
    if (count > 0) {
      page.out.put("<rect class=\"", bin > limit ? literal("over") : literal("v"), "\" x=\"",
                   percent(x + 0.1 * width), "\" width=\"", percent(0.8 * width), "\" y=\"",
                   percent(0.8 - height), "\" height=\"", percent(height), "\"><title>",
                   escaped(fmt::format("{}: {}", bin_text(bin), count_text(count, "element"))),
                   "</title></rect>");
    }
    const bool last = bin == core::kErrorBins - 1;
    if (bin == 0 || last || (bin % 4 == 3 && bin + 2 < core::kErrorBins)) {
      // A bin ends at its right edge; zero and what is not finite have no end.
      const double place = bin == 0 || last ? x + 0.5 * width : x + width;
      // A phone has room for every other one.
      const bool between = bin != 0 && !last && bin % 8 != one % 8;
      page.out.put("<text y=\"95%\"",
                   place <= 0.95 ? (between ? literal(" class=\"between\"") : literal(""))
                   : between     ? literal(" class=\"end between\"")
                                 : literal(" class=\"end\""),
                   " x=\"", percent(std::min(place, 1.0)), "\">",
                   escaped(last ? std::string("inf") : axis_text(bin)), "</text>");
    }
  }
  if (limit < core::kErrorBins) {
    const Safe x = percent(width * static_cast<double>(limit + 1));
    page.out.put("<line class=\"limit\" y1=\"0\" y2=\"80%\" x1=\"", x, "\" x2=\"", x, "\"/>");
  }
  page.out.put("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"80%\" y2=\"80%\"/></svg>\n");
}

void write_counts(HtmlPage& page, const ErrorHistogram& h) {
  page.out.put("<details><summary>Errors of ", escaped(h.output), " as a table</summary>\n");
  page.open_scroll("Errors of " + h.output);
  page.out.put("<table><caption class=\"unseen\">Errors of ", escaped(h.output),
               "</caption><thead><tr>");
  page.column("error");
  page.column("of the bound", true);
  page.column("in ulps", true);
  page.out.put("</tr></thead><tbody>\n");
  for (std::size_t bin = 0; bin < std::max(h.ratio.size(), h.ulps.size()); ++bin) {
    const std::uint64_t ratio = bin < h.ratio.size() ? h.ratio[bin] : 0;
    const std::uint64_t ulps = bin < h.ulps.size() ? h.ulps[bin] : 0;
    if (ratio == 0 && ulps == 0) {
      continue;
    }
    page.out.put("<tr><th scope=\"row\">", escaped(bin_text(bin)), "</th><td class=\"num\">",
                 escaped(count_text(ratio)), "</td><td class=\"num\">", escaped(count_text(ulps)),
                 "</td></tr>\n");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.out.put("</details>\n");
}

void write_histogram(HtmlPage& page, const ErrorHistogram& h) {
  const std::size_t limit = core::error_bin(1.0);
  page.out.put("<article class=\"errors\"><h3>", escaped(h.output), " <small>",
               escaped(diagnosis::dtype_text(h.dtype)), "; ",
               h.beyond > 0 ? literal("<span class=\"bad\">") : literal("<span>"),
               escaped(fmt::format("{} of {} beyond the bound", count_text(h.beyond),
                                   count_text(h.counted, "element"))),
               "</span>");
  if (h.counted < h.compared) {
    page.out.put("; ", escaped(count_text(h.compared)),
                 " were compared: ", escaped(counted_in_text(h)));
  }
  page.out.put("</small></h3>\n<div class=\"pair\">\n<figure><figcaption>Error over "
               "bound</figcaption>");
  write_columns(page, h.ratio, limit,
                fmt::format("Histogram of error over bound of {}: {} of {} beyond 1; the table "
                            "below has the counts",
                            h.output, count_text(h.beyond), count_text(h.counted)));
  page.out.put("</figure>\n<figure><figcaption>Error in ulps of the output</figcaption>");
  write_columns(
      page, h.ulps, core::kErrorBins,
      fmt::format("Histogram of errors of {} in ulps; the table below has the counts", h.output));
  page.out.put("</figure>\n</div>\n");
  write_counts(page, h);
  page.out.put("</article>\n");
}

}  // namespace

void write_errors(HtmlPage& page) {
  const std::vector<ErrorHistogram> histograms = error_histograms_of(page.record);
  if (histograms.empty()) {
    return;
  }
  page.open_section("errors", "Errors",
                    "elements by size of error; powers of two, heights logarithmic");
  const std::size_t shown = std::min(histograms.size(), kMostOutputs);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i == kInSight) {
      page.out.put("<details><summary>", number(shown - kInSight), " more outputs</summary>\n");
    }
    write_histogram(page, histograms[i]);
  }
  if (shown > kInSight) {
    page.out.put("</details>\n");
  }
  page.more(histograms.size() - shown);
  page.close_section();
}

}  // namespace faultline::reports
