// SPDX-License-Identifier: Apache-2.0
// Sections of the terminal report about tiles: maps, and whose data wrong tiles held.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "numbers.hpp"
#include "terminal_report.hpp"
#include "tile_map.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::int64_t kMapCells = 1024;  // of one tile map
constexpr std::size_t kMapsShown = 4;     // failing maps, unless verbose

}  // namespace

Span TerminalReport::shade(int level) const {
  constexpr const char* kUnicode[] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
  constexpr const char* kAscii[] = {".", "-", "+", "x", "#"};
  constexpr Style kStyles[] = {Style::dim, Style::yellow, Style::yellow, Style::red, Style::red};
  return {page_.glyph(kUnicode[level], kAscii[level]), kStyles[level], true};
}

void TerminalReport::map_title(const TileMap& map) {
  const std::string text = fmt::format("{}: {}", map.dtypes, map_description(map));
  Line line{{map.output, Style::bold}, {" " + text}};
  if (!map.scope.empty()) {
    line.push_back({fmt::format(" ({})", map.scope), Style::dim});
  }
  page_.paragraph(line, 2, 4);
}

// Each cell with its number; false when that does not fit. A strip of tiles may take several
// lines.
bool TerminalReport::numeric_map(const TileMap& map) {
  const bool strip = map.down == 1 && !map.by_buffer;
  if (map.across * map.down > (strip ? 16 : 64) || map.binned()) {
    return false;
  }
  for (std::int64_t per_line = map.across; per_line > 0; per_line = strip ? per_line / 2 : 0) {
    const Table table = numeric_table(map, per_line);
    if (Page::natural_width(table, 4, page_.unicode()) <= page_.width()) {
      page_.table(table, 4);
      return true;
    }
  }
  return false;
}

Table TerminalReport::numeric_table(const TileMap& map, std::int64_t per_line) const {
  Table table;
  if (map.by_buffer) {
    table.columns.push_back({""});
  }
  for (std::int64_t column = 0; column < per_line; ++column) {
    table.columns.push_back({map.by_buffer ? fmt::format("  round {}", column) : ""});
  }
  for (std::int64_t row = 0; row < map.down; ++row) {
    for (std::int64_t start = 0; start < map.across; start += per_line) {
      Table::Row line;
      if (map.by_buffer) {
        line.cells.push_back({{fmt::format("buffer {}", row), Style::dim}});
      }
      for (std::int64_t column = start; column < start + per_line; ++column) {
        line.cells.emplace_back();
        if (column >= map.across || !map.at(row, column).present) {
          continue;
        }
        const TileCell& cell = map.at(row, column);
        const Span mark = shade(heat_level(map, cell));
        line.cells.back() = {mark,
                             {fmt::format(" tile {}  {}", cell.first,
                                          share_text(cell.totals.bad_trials, map.comparisons())),
                              mark.style, true}};
      }
      table.rows.push_back(std::move(line));
    }
  }
  return table;
}

void TerminalReport::glyph_map(const TileMap& map) {
  constexpr int kLabel = 12;
  const std::int64_t room = page_.width() - 4 - kLabel;
  const std::int64_t band = std::min(map.across, room >= 128  ? 128
                                                 : room >= 64 ? 64
                                                              : room / 16 * 16);
  for (std::int64_t start = 0; start < map.across; start += band) {
    const std::int64_t end = std::min(start + band, map.across);
    for (std::int64_t row = 0; row < map.down; ++row) {
      const std::string label = map.by_buffer ? fmt::format("buffer {}", row)
                                              : fmt::format("tile {}", map.at(row, start).first);
      Line line{{fmt::format("{:<{}}", label, kLabel), Style::dim, true}};
      for (std::int64_t column = start; column < end; ++column) {
        const TileCell& cell = map.at(row, column);
        line.push_back(cell.present ? shade(heat_level(map, cell)) : Span{" "});
      }
      page_.cut(line, 4);
    }
  }
  Line legend{{"    ", Style::plain, true}};
  constexpr const char* kNames[] = {" right  ", " < 1 %  ", " < 10 %  ", " < 50 %  ", " more"};
  for (int level = 0; level < 5; ++level) {
    legend.push_back(shade(level));
    legend.push_back({kNames[level], Style::dim, true});
  }
  page_.cut(legend, 0);
  if (map.binned()) {
    page_.paragraph(
        {{fmt::format("each mark is the worst of {} tiles", map.bin_down * map.bin_across),
          Style::dim}},
        4, 4);
  }
}

void TerminalReport::worst_tiles(const TileMap& map, bool shares_shown) {
  const auto wrong = wrong_cells_of(map);
  const std::size_t shown = verbose_ || wrong.size() <= 4 ? wrong.size() : 3;
  for (std::size_t i = 0; i < shown; ++i) {
    page_.paragraph({{fmt::format("{}: {}{}", map.cell_name(*wrong[i]),
                                  shares_shown ? "" : wrong_of_text(map, *wrong[i]) + ", ",
                                  tile_details(wrong[i]->totals))}},
                    4, 6);
  }
  if (shown < wrong.size()) {
    page_.paragraph({{fmt::format("{} more wrong {} with -v", wrong.size() - shown,
                                  map.binned() ? "squares" : "tiles"),
                      Style::dim}},
                    4, 4);
  }
}

void TerminalReport::tile_maps() {
  const auto maps = tile_maps_of(record_, kMapCells);
  if (maps.empty()) {
    return;
  }
  const auto failing = static_cast<std::size_t>(
      std::count_if(maps.begin(), maps.end(), [](const TileMap& map) { return map.failed(); }));
  const bool compared = std::any_of(maps.begin(), maps.end(),
                                    [](const TileMap& map) { return map.compared_elements > 0; });
  page_.heading("Tiles", failing > 0 ? "share of trials in which a tile was wrong"
                         : compared  ? "none was wrong; worst error in each output"
                                     : "nothing was compared");
  std::size_t shown = 0;
  std::set<std::string> described;
  for (const auto& map : maps) {
    if (map.compared_elements == 0) {
      page_.paragraph({{map.output, Style::bold}, {" not compared", Style::yellow}}, 2, 4);
      continue;
    }
    if (!map.failed()) {
      page_.paragraph(
          {{map.output, Style::bold},
           {fmt::format(" right in all {}: {}, worst {}", count_text(map.trials, "trial"),
                        count_text(map.compared_elements, "element"),
                        bound_text(map.worst_ratio))}},
          2, 4);
      continue;
    }
    if (++shown > kMapsShown && !verbose_) {
      continue;
    }
    map_title(map);
    const bool shares_shown = numeric_map(map);
    if (!shares_shown) {
      glyph_map(map);
    }
    worst_tiles(map, shares_shown);
    if (!described.insert(map.output).second) continue;
    for (const std::string& line : footprint_lines(record_.evidence, map.output)) {
      page_.paragraph({{line}}, 4, 6);
    }
  }
  if (shown > kMapsShown && !verbose_) {
    page_.paragraph({{fmt::format("{} more maps with -v", shown - kMapsShown), Style::dim}}, 2, 2);
  }
}

void TerminalReport::provenance() {
  const auto& rows = record_.evidence.provenance;
  if (rows.empty()) {
    return;
  }
  page_.heading("Whose data wrong tiles held",
                "which other tile's data explains the wrong elements");
  Table table{
      {{"output"}, {"tile held"}, {"buffer"}, {"explains", true}, {"of wrong elements", true}}, {}};
  for (const auto& row : rows) {
    const bool matched = row.source >= 0;
    table.rows.push_back({{{{row.output_name}},
                           {{held_text(record_, row, page_.glyph("\u2190", "<-")),
                             matched ? Style::bold : Style::plain}},
                           {{buffer_text(row)}},
                           {{matched ? share_text(row.matched, row.wrong) : "-"}},
                           {{count_text(row.wrong)}}},
                          {}});
  }
  page_.table(table);
  if (const std::string legend = input_tiles_legend(record_); !legend.empty()) {
    page_.paragraph({{legend, Style::dim}}, 2, 2);
  }
}

}  // namespace faultline::reports
