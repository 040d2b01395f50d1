// SPDX-License-Identifier: Apache-2.0
// The body of an HTML report while it is written: what the sections share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "html_writer.hpp"

namespace faultline::core {
struct RunRecord;
}

namespace faultline::reports {

/// Rows and articles that a page shows of one kind, the failed ones first: the JSON record has all.
inline constexpr std::size_t kMostRows = 500;

class HtmlPage {
 public:
  explicit HtmlPage(const core::RunRecord& record) : record(record) {}

  /// A section with a heading; `menu` is its name in the list of sections.
  void open_section(std::string_view id, std::string_view title, std::string_view remark = {},
                    std::string_view menu = {});
  void close_section() { out.put("</section>\n"); }
  /// What may be wider than the page: a region that the keyboard can scroll.
  void open_scroll(std::string_view label);
  void close_scroll() { out.put("</div>\n"); }
  /// One column's heading.
  void column(std::string_view title, bool right = false);
  void bullets(const std::vector<std::string>& sentences, bool plain);
  /// "kernels/x.cuh:214 in f", to be broken behind a '/', never between a file and its line.
  void place(std::string_view text);
  /// "gemv@missing_barrier", to be broken behind '@' and '_'.
  void name(std::string_view text);
  /// A bar of `share` of a whole; full and red when it is over.
  void bar(double share);
  /// "12 more are in the JSON record."
  void more(std::size_t left_out);

  struct Entry {
    std::string id, title;
  };
  const core::RunRecord& record;
  HtmlWriter out;
  std::vector<Entry> menu;  ///< of the sections written so far
};

// The sections, in the order of the page. Each writes nothing where the record has nothing for it.
void write_findings(HtmlPage& page);
void write_races(HtmlPage& page);
void write_stops(HtmlPage& page);  ///< arms and configs that did not complete
void write_tiles(HtmlPage& page);  ///< maps, trials one by one, whose data wrong tiles held
void write_errors(HtmlPage& page);
void write_evidence_tables(HtmlPage& page);
void write_arms(HtmlPage& page);
void write_configs(HtmlPage& page);
void write_bench(HtmlPage& page);
void write_accesses(HtmlPage& page);
void write_further_evidence(HtmlPage& page);

}  // namespace faultline::reports
