// SPDX-License-Identifier: Apache-2.0
// The terminal report while it is written: its sections are defined in terminal.cpp (verdict,
// context, run, replay), terminal_findings.cpp, terminal_tiles.cpp and terminal_tables.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "faultline/core/run_record.hpp"
#include "faultline/reports/terminal.hpp"
#include "page.hpp"

namespace faultline::reports {

struct RateAxis;
struct TileMap;
class CommonWords;

class TerminalReport {
 public:
  TerminalReport(const core::RunRecord& record, const TerminalOptions& options)
      : record_(record), verbose_(options.verbosity == Verbosity::verbose), page_(options) {}

  std::string text(Verbosity verbosity);

 private:
  // The sections, in order. Each writes nothing where the record has nothing for it.
  void verdict();
  void context();
  void findings();
  void races();
  void stops();  ///< arms and configs that did not complete, with what they said
  void tile_maps();
  void provenance();
  void evidence_tables();
  void error_histograms();  ///< with -v
  void arms();
  void configs();
  void bench();
  void accesses();
  void further_evidence();
  void run();
  void replay();

  static Style style_of(core::Severity severity);
  void fact(std::string_view name, const std::string& value);
  void lines_of_fact(std::string_view name, std::string_view value);
  void excerpt(const core::SourceLocation& where);
  void labelled(std::string_view label, const Line& text);
  void site(const core::AccessSite& site);
  Span shade(int level) const;
  void map_title(const TileMap& map);
  bool numeric_map(const TileMap& map);
  Table numeric_table(const TileMap& map, std::int64_t per_line) const;
  void glyph_map(const TileMap& map);
  void worst_tiles(const TileMap& map, bool shares_shown);
  Line bar(const core::ArmEvidence& arm, const RateAxis& axis, int columns) const;
  Table::Row config_row(const core::ConfigEvidence& config, const CommonWords& problems,
                        const CommonWords& configs, bool relative, bool ulps) const;
  void summed_configs(const CommonWords& problem_words, const CommonWords& config_words);

  static constexpr int kLabelEnd = 13;  // of race sites: where text starts after the label
  const core::RunRecord& record_;
  bool verbose_;
  Page page_;
};

}  // namespace faultline::reports
