// SPDX-License-Identifier: Apache-2.0
// Sections of the HTML report about tiles: maps of each output, to be zoomed and read square by
// square; the failing trials one by one over them; whose data wrong tiles held.
//
// A map is a table with a square in each cell. Its figures travel in the attribute `data-cells`,
// from which the script (html_script.hpp) says what a square stands for: without a script the table
// of wrong tiles below says the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "html_page.hpp"
#include "numbers.hpp"
#include "tile_map.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kMostMaps = 24;
constexpr std::int64_t kMapCells = 2048;    // of one map
constexpr std::int64_t kPageCells = 8192;   // of all maps together
constexpr std::int64_t kNumericCells = 64;  // maps up to this size show a number in each square
constexpr std::int64_t kMatrixTiles = 16;   // provenance matrices up to this size
constexpr std::size_t kWrongTiles = 64;     // rows of the table of wrong tiles
constexpr std::size_t kFrames = 240;        // trials shown one by one
constexpr std::size_t kFrameTiles = 12000;  // wrong tiles of all of them
constexpr std::size_t kMapsInSight = 4;     // of a sweep, with contrast; others are folded away

// "a0.26": accepted, "x41.3": times the bound, "n": no number.
std::string coded_ratio(double ratio) {
  if (!std::isfinite(ratio)) {
    return "n";
  }
  return (ratio <= 1.0 ? "a" : "x") + ratio_text(ratio);
}

// Elements of a whole tile in all groups.
std::int64_t tile_size(const TileMap& map) {
  return map.geometry.tile_rows * map.geometry.tile_cols * map.groups;
}

std::string ulps_text(const core::TileTotals& totals) {
  return std::isfinite(totals.worst_ulps) ? fmt::format("{:.3g}", totals.worst_ulps) : "n";
}

// Tile, with "*" and its elements where these are not those of a whole tile; trials, wrong
// elements, worst error over bound, ulps; of wrong ones also the first element, how many are not
// finite, never written, without a reference. (A ratio may have a comma.)
std::string coded_cell(const TileMap& map, const TileCell& cell) {
  const core::TileTotals& totals = cell.totals;
  std::string text = map.cell_range(cell);
  if (cell.elements != tile_size(map)) text += fmt::format("*{}", cell.elements);
  text += fmt::format("/{}/{}/{}/{}", totals.bad_trials, totals.bad_elements,
                      coded_ratio(totals.worst_ratio), ulps_text(totals));
  if (totals.bad_elements > 0) {
    text += fmt::format("/{}/{}/{}/{}", totals.first_bad_index, totals.not_finite, totals.poison,
                        totals.no_reference);
  }
  return text;
}

bool is_numeric(const TileMap& map) {
  return map.down * map.across <= kNumericCells && !map.binned();
}

// "1=tile 3's data in 99.6 %": what wrong tiles of an output held.
std::string coded_provenance(const core::RunRecord& record, const TileMap& map) {
  std::vector<std::string> parts;
  for (const auto& row : record.evidence.provenance) {
    if (row.output_name == map.output && row.destination >= 0 && row.source >= 0 &&
        !names_input_tiles(record, row)) {
      parts.push_back(fmt::format("{}=tile {}'s data in {}", row.destination, row.source,
                                  share_text(row.matched, row.wrong)));
    }
  }
  return fmt::format("{}", fmt::join(parts, ";"));
}

// Squares of one line, from `start` on.
void write_line(HtmlPage& page, const TileMap& map, std::int64_t row, std::int64_t start,
                std::int64_t end, bool numeric) {
  page.out.put("<tr>");
  if (map.by_buffer) {
    page.out.put("<th scope=\"row\">buffer ", number(row), "</th>");
  } else if (!numeric) {
    page.out.put("<th scope=\"row\">tile ", number(map.at(row, start).first), "</th>");
  }
  for (std::int64_t column = start; column < end; ++column) {
    const TileCell& cell = map.at(row, column);
    if (!cell.present) {
      page.out.put("<td class=\"none\"></td>");
      continue;
    }
    page.out.put("<td class=\"h", number(heat_level(map, cell)), "\">");
    if (numeric) {
      page.out.put("<b>", escaped(map.cell_name(cell)), "</b><span>",
                   escaped(map.failed() ? share_text(cell.totals.bad_trials, map.comparisons())
                                        : ratio_text(cell.totals.worst_ratio)),
                   "</span>");
    }
    page.out.put("</td>");
  }
  page.out.put("</tr>\n");
}

void write_map(HtmlPage& page, const TileMap& map, std::size_t index) {
  const bool numeric = is_numeric(map);
  // A strip of tiles is laid in lines.
  const bool strip = map.down == 1 && !map.by_buffer;
  const std::int64_t per_line =
      strip ? std::min<std::int64_t>(map.across, numeric ? 8 : 64) : map.across;
  std::vector<std::string> cells;
  for (const TileCell& cell : map.cells) {
    if (cell.present) {
      cells.push_back(coded_cell(map, cell));
    }
  }
  page.out.put("<div class=\"tools\" role=\"group\" aria-label=\"Zoom of ", escaped(map.output),
               "\" hidden><button type=\"button\" data-zoom=\"-1\" aria-label=\"Zoom out of ",
               escaped(map.output),
               "\">&minus;</button><button type=\"button\" data-zoom=\"1\" "
               "aria-label=\"Zoom into ",
               escaped(map.output),
               "\">+</button><button type=\"button\" data-zoom=\"0\" "
               "aria-label=\"Original size of ",
               escaped(map.output), "\">Reset</button></div>\n");
  page.open_scroll("Tile map of " + map.output);
  const Safe level = numeric           ? literal("z4")
                     : per_line <= 24  ? literal("z2")
                     : per_line <= 128 ? literal("z1")
                                       : literal("z0");
  page.out.put("<table class=\"map ", level, "\" data-map=\"", number(index), "\" data-level=\"",
               level, "\" data-of=\"",
               escaped(count_text(map.comparisons(), map.groups > 1 ? "comparison" : "trial")),
               "\" data-out-of=\"", number(map.comparisons()), "\" data-size=\"",
               number(tile_size(map)), "\" data-held=\"",
               escaped(coded_provenance(page.record, map)), "\" data-cells=\"",
               escaped(fmt::format("{}", fmt::join(cells, ";"))),
               "\"><caption class=\"unseen\">Tile map of ", escaped(map.output), "</caption>");
  if (map.by_buffer) {
    page.out.put("<thead><tr><th scope=\"col\"><span class=\"unseen\">buffer</span></th>");
    for (std::int64_t column = 0; column < map.across; ++column) {
      page.out.put("<th scope=\"col\"><i>round </i>", number(column * map.bin_across), "</th>");
    }
    page.out.put("</tr></thead>");
  }
  page.out.put("<tbody>\n");
  for (std::int64_t row = 0; row < map.down; ++row) {
    for (std::int64_t start = 0; start < map.across; start += per_line) {
      write_line(page, map, row, start, std::min(start + per_line, map.across), numeric);
    }
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.out.put("<p class=\"readout\" hidden></p>\n");
  if (map.binned()) {
    page.out.put("<p class=\"note\">Each square is the worst of ",
                 number(map.bin_down * map.bin_across), " tiles.</p>\n");
  }
}

void write_wrong_tiles(HtmlPage& page, const TileMap& map) {
  const auto wrong = wrong_cells_of(map);
  if (wrong.empty()) {
    return;
  }
  const std::size_t shown = std::min(wrong.size(), kWrongTiles);
  const std::string noun = map.binned() ? "square" : "tile";
  page.out.put("<details><summary>", escaped(count_text(wrong.size(), "wrong " + noun)), " of ",
               escaped(map.output), " as a table</summary>\n");
  page.open_scroll("Wrong " + noun + "s of " + map.output);
  page.out.put("<table><caption class=\"unseen\">Wrong ", escaped(noun), "s of ",
               escaped(map.output), "</caption><thead><tr><th scope=\"col\">", escaped(noun),
               "</th>");
  for (const char* name : {"wrong in", "wrong elements", "worst", "ulps", "first", "not finite",
                           "never written", "without a reference"}) {
    page.out.put("<th scope=\"col\" class=\"num\">", escaped(name), "</th>");
  }
  page.out.put("</tr></thead><tbody>\n");
  for (std::size_t i = 0; i < shown; ++i) {
    const core::TileTotals& totals = wrong[i]->totals;
    page.out.put(
        "<tr><th scope=\"row\">", escaped(map.cell_name(*wrong[i])), "</th><td class=\"num\">",
        escaped(wrong_of_text(map, *wrong[i])), "</td><td class=\"num\">",
        escaped(count_text(totals.bad_elements)), "</td><td class=\"num\">",
        escaped(bound_text(totals.worst_ratio)), "</td><td class=\"num\">",
        escaped(std::isfinite(totals.worst_ulps) ? ulps_text(totals) : "-"),
        "</td><td class=\"num\">", number(totals.first_bad_index), "</td><td class=\"num\">",
        escaped(count_text(totals.not_finite)), "</td><td class=\"num\">",
        escaped(count_text(totals.poison)), "</td><td class=\"num\">",
        escaped(count_text(totals.no_reference)), "</td></tr>\n");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.more(wrong.size() - shown);
  page.out.put("</details>\n");
}

// Destination down, source across; the number is the share of the wrong elements that the source
// explains.
void write_matrix(HtmlPage& page, const std::vector<TileMap>& maps, const std::string& output,
                  const std::vector<const core::ProvenanceEvidence*>& rows) {
  std::int64_t size = 0;
  for (const auto& map : maps) {
    if (map.output == output) {
      size = map.geometry.tiles_per_group > 0 ? map.geometry.tiles_per_group
                                              : map.geometry.tile_count();
    }
  }
  for (const auto* row : rows) {
    size = std::max({size, row->destination + 1, row->source + 1});
  }
  if (size < 2 || size > kMatrixTiles) {
    return;
  }
  const bool of_input = std::any_of(rows.begin(), rows.end(), [&](const auto* row) {
    return names_input_tiles(page.record, *row);
  });
  page.out.put("<figure><figcaption><strong>", escaped(output), "</strong> <span class=\"label\">",
               of_input ? literal("row: the input tile that was due; column: the input tile "
                                  "that it was computed with")
                        : literal("row: the wrong tile; column: the tile whose data it held"),
               "</span></figcaption>\n");
  page.open_scroll("Whose data wrong tiles of " + output + " held");
  page.out.put("<table class=\"matrix\"><caption class=\"unseen\">Whose data wrong tiles of ",
               escaped(output),
               " held</caption><thead><tr><th scope=\"col\"><span class=\"unseen\">",
               of_input ? literal("input tile due") : literal("wrong tile"), "</span></th>");
  for (std::int64_t source = 0; source < size; ++source) {
    page.out.put("<th scope=\"col\">tile ", number(source), "</th>");
  }
  page.out.put("</tr></thead><tbody>");
  for (std::int64_t destination = 0; destination < size; ++destination) {
    page.out.put("<tr><th scope=\"row\">tile ", number(destination), "</th>");
    for (std::int64_t source = 0; source < size; ++source) {
      const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto* row) {
        return row->destination == destination && row->source == source;
      });
      if (found == rows.end()) {
        if (source == destination) {
          page.out.put("<td class=\"h0\">own</td>");
        } else {
          page.out.put("<td class=\"h0\"><span class=\"unseen\">0 %</span></td>");
        }
        continue;
      }
      const double share = (*found)->wrong > 0 ? static_cast<double>((*found)->matched) /
                                                     static_cast<double>((*found)->wrong)
                                               : 0.0;
      page.out.put("<td class=\"h",
                   number(share >= 0.5    ? 4
                          : share >= 0.1  ? 3
                          : share >= 0.01 ? 2
                                          : 1),
                   "\">", escaped(share_text((*found)->matched, (*found)->wrong)), "</td>");
    }
    page.out.put("</tr>");
  }
  page.out.put("</tbody></table>");
  page.close_scroll();
  page.out.put("</figure>\n");
}

void write_provenance(HtmlPage& page, const std::vector<TileMap>& maps) {
  const auto& rows = page.record.evidence.provenance;
  if (rows.empty()) {
    return;
  }
  page.open_section("provenance", "Whose data wrong tiles held",
                    "which other tile's data explains the wrong elements", "Whose data");
  page.out.put("<ul class=\"plain\">");
  std::vector<std::string> outputs;
  for (const auto& row : rows) {
    page.out.put("<li><span class=\"mono\">", escaped(row.output_name), "</span> <strong>",
                 escaped(held_text(page.record, row, "\u2190")), "</strong>");
    if (row.source >= 0) {
      page.out.put(": ", escaped(share_text(row.matched, row.wrong)), " of ",
                   escaped(count_text(row.wrong, "wrong element")));
    } else {
      page.out.put(": ", escaped(count_text(row.wrong, "wrong element")));
    }
    const std::string buffer = buffer_text(row);
    if (!buffer.empty()) {
      page.out.put(" <span class=\"label\">buffer: ", escaped(buffer), "</span>");
    }
    page.out.put("</li>");
    if (std::find(outputs.begin(), outputs.end(), row.output_name) == outputs.end()) {
      outputs.push_back(row.output_name);
    }
  }
  page.out.put("</ul>\n");
  if (const std::string legend = input_tiles_legend(page.record); !legend.empty()) {
    page.out.put("<p class=\"note\">", escaped(legend), ".</p>\n");
  }
  page.out.put("<div class=\"maps\">");
  for (const auto& output : outputs) {
    std::vector<const core::ProvenanceEvidence*> of_output;
    for (const auto& row : rows) {
      if (row.output_name == output) {
        of_output.push_back(&row);
      }
    }
    write_matrix(page, maps, output, of_output);
  }
  page.out.put("</div>\n");
  page.close_section();
}

// Where a trial came from, and the maps that its outputs lie on.
using FrameSource = std::pair<std::string, std::vector<std::size_t>>;

// "source/trial map/cell/elements/ratio map/..." for each trial; cells are counted among the
// squares that are there.
std::string coded_frames(const std::vector<TrialFrame>& frames, const std::vector<TileMap>& maps,
                         std::vector<FrameSource>& sources) {
  std::vector<std::vector<std::size_t>> place(maps.size());
  for (std::size_t m = 0; m < maps.size(); ++m) {
    std::size_t present = 0;
    for (const TileCell& cell : maps[m].cells) {
      place[m].push_back(present);
      present += cell.present ? 1 : 0;
    }
  }
  std::string text;
  for (const TrialFrame& frame : frames) {
    const FrameSource source{frame.source, frame.maps};
    const auto known = std::find(sources.begin(), sources.end(), source);
    text += fmt::format("{}{}/{}", text.empty() ? "" : ";", known - sources.begin(), frame.trial);
    if (known == sources.end()) {
      sources.push_back(source);
    }
    for (const TrialFrame::Tile& tile : frame.tiles) {
      text += fmt::format(" {}/{}/{}/{}", tile.map, place[tile.map][tile.cell], tile.bad_elements,
                          coded_ratio(tile.worst_ratio));
    }
  }
  return text;
}

void write_player(HtmlPage& page, const std::vector<TileMap>& maps, const RunTotals& totals) {
  TrialFrames all;
  for (std::size_t limit = kFrames; limit > 0; limit /= 2) {  // fewer where each is large
    all = trial_frames_of(page.record, maps, limit);
    std::size_t tiles = 0;
    for (const TrialFrame& frame : all.frames) {
      tiles += frame.tiles.size();
    }
    if (tiles <= kFrameTiles) {
      break;
    }
    all.frames.clear();
  }
  if (all.frames.empty()) {
    return;
  }
  std::vector<FrameSource> sources;
  const std::string frames = coded_frames(all.frames, maps, sources);
  page.out.put("<div class=\"player\" id=\"player\" role=\"group\" aria-label=\"Failing trials one "
               "by one\" hidden data-trials=\"",
               escaped(count_text(totals.trials, "trial")), "\" data-frames=\"", escaped(frames),
               "\">\n<div class=\"buttons\"><button type=\"button\" data-step=\"-1\" "
               "aria-label=\"Previous trial\">Previous</button><button type=\"button\" "
               "data-play>Play</button><button type=\"button\" data-step=\"1\" "
               "aria-label=\"Next trial\">Next</button><button type=\"button\" data-all>All "
               "trials</button></div><input type=\"range\" min=\"0\" max=\"",
               number(all.frames.size()),
               "\" value=\"0\" aria-label=\"Failing trial; 0: all trials\"><p class=\"shown\"></p>"
               "<p class=\"note\" data-still hidden>Motion is reduced, as your system asks: step "
               "instead of playing.</p>\n<ol hidden>");
  for (const auto& [source, of_maps] : sources) {
    page.out.put("<li data-maps=\"", escaped(fmt::format("{}", fmt::join(of_maps, " "))), "\">",
                 escaped(source), "</li>");
  }
  page.out.put("</ol>");
  std::string note;
  if (all.frames.size() < all.recorded) {
    note = fmt::format("{} of the {} whose tiles the record holds. ", count_text(all.frames.size()),
                       count_text(all.recorded, "failing trial"));
  }
  if (all.recorded < totals.wrong_values) {
    note += fmt::format("{} had wrong values; of each arm or configuration the record keeps the "
                        "first {} wrong tiles, on a device those of captured trials. ",
                        count_text(totals.wrong_values, "trial"),
                        count_text(core::TrialResult::kWrongTilesKept));
  }
  if (totals.wrong_values < totals.failed) {
    note += fmt::format("{} of the {} that failed had no wrong value to show.",
                        count_text(totals.failed - totals.wrong_values), count_text(totals.failed));
  }
  if (!note.empty()) page.out.put("<p class=\"note\">", escaped(note), "</p>");
  page.out.put("</div>\n");
}

void write_figure(HtmlPage& page, const TileMap& map, std::size_t index, bool first_of_output) {
  const bool drawn = (is_numeric(map) && map.compared_elements > 0) || map.failed();
  page.out.put(is_numeric(map) ? literal("<figure>") : literal("<figure class=\"drawn\">"),
               "\n<figcaption><strong>", escaped(map.output), "</strong> <span class=\"label\">",
               escaped(map.dtypes + ", " + map_description(map)));
  if (!map.scope.empty()) {
    page.out.put(" (", escaped(map.scope), ")");
  }
  if (map.compared_elements == 0) {
    page.out.put("; not compared");
  } else if (!map.failed()) {
    page.out.put("; right in all ", escaped(count_text(map.trials, "trial")), ", worst error ",
                 escaped(bound_text(map.worst_ratio)));
  }
  page.out.put("</span></figcaption>\n");
  if (drawn) {
    write_map(page, map, index);
  }
  if (map.failed() && first_of_output) {
    for (const std::string& line : footprint_lines(page.record.evidence, map.output)) {
      page.out.put("<p class=\"note\">", escaped(line), "</p>\n");
    }
  }
  write_wrong_tiles(page, map);
  page.out.put("</figure>\n");
}

void write_maps(HtmlPage& page, const std::vector<TileMap>& maps, std::size_t left_out) {
  const bool any_failed = maps.front().failed();
  const bool compared = std::any_of(maps.begin(), maps.end(),
                                    [](const TileMap& map) { return map.compared_elements > 0; });
  page.open_section("tiles", "Tiles",
                    any_failed ? "share of trials in which a tile was wrong"
                    : compared ? "none was wrong; worst error as a fraction of the bound"
                               : "nothing was compared");
  if (any_failed) {
    page.out.put("<ul class=\"legend\" aria-label=\"Shades\"><li class=\"h0\">never</li><li "
                 "class=\"h1\">under 1 %</li><li class=\"h2\">under 10 %</li><li "
                 "class=\"h3\">under 50 %</li><li class=\"h4\">more</li></ul>\n");
    write_player(page, maps, totals_of(page.record));
  }
  page.out.put("<p class=\"note\" data-hint hidden>Point at a square, or move with the arrow keys: "
               "its figures stand below the map. Zoom: the buttons, + - 0, or the wheel over a map "
               "that has the focus or with Ctrl.</p>\n<div class=\"maps\">\n");
  std::set<std::string> outputs;
  // Of a sweep with many problems only what tells something is in sight, one map at least.
  const auto tells = [](const TileMap& map) { return map.scope.empty() || has_contrast(map); };
  const bool is_sweep =
      std::any_of(maps.begin(), maps.end(), [](const TileMap& map) { return !map.scope.empty(); });
  const auto telling = static_cast<std::size_t>(std::count_if(maps.begin(), maps.end(), tells));
  const std::size_t in_sight =
      is_sweep ? std::clamp<std::size_t>(telling, 1, kMapsInSight) : maps.size();
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (i == in_sight) {
      page.out.put("</div>\n<details><summary>", escaped(count_text(maps.size() - i)),
                   " more maps</summary>\n<div class=\"maps\">\n");
    }
    write_figure(page, maps[i], i, outputs.insert(maps[i].output).second);
  }
  page.out.put("</div>\n");
  if (in_sight < maps.size()) {
    page.out.put("</details>\n");
  }
  page.more(left_out);
  page.close_section();
}

}  // namespace

void write_tiles(HtmlPage& page) {
  std::vector<TileMap> maps = tile_maps_of(page.record, kMapCells);
  if (!maps.empty()) {
    const std::size_t shown = std::min(maps.size(), kMostMaps);
    const std::int64_t cells = kPageCells / static_cast<std::int64_t>(shown);
    if (cells < kMapCells) {
      maps = tile_maps_of(page.record, cells);
    }
    const std::size_t left_out = maps.size() - shown;
    maps.resize(shown);
    write_maps(page, maps, left_out);
  }
  write_provenance(page, maps);
}

}  // namespace faultline::reports
