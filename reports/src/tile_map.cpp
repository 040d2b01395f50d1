// SPDX-License-Identifier: Apache-2.0
#include "tile_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/diagnosis/footprint.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

// An output's totals over several results, tile by tile.
struct Gathered {
  TileMap map;
  std::vector<core::TileTotals> tiles;
  std::size_t results = 0;
  std::vector<std::string_view> problems;  // of a sweep, each once
  std::vector<std::string_view> dtypes;
};

// "n=33: k=3000 and 2 more problems; 18 failing configurations": of the results of one map, without
// the words that all problems of the run share.
std::string shared_scope(const Gathered& gathered, const CommonWords& of_run) {
  std::vector<std::string> lines;
  for (const std::string_view problem : gathered.problems) {
    lines.push_back(of_run.without(problem));
  }
  const CommonWords here({lines.begin(), lines.end()});
  std::string text = here.text();
  if (!lines.empty()) {
    text += (text.empty() ? "" : ": ") + here.without(lines.front());
  }
  if (lines.size() > 1) {
    text += fmt::format(" and {}", count_text(lines.size() - 1, "more problem"));
  }
  return fmt::format("{}{}{} failing configurations", text, text.empty() ? "" : "; ",
                     gathered.results);
}

// Decides what stands where.
void lay_out(TileMap& map, std::int64_t tiles, std::int64_t max_cells) {
  const core::TileGeometry& geometry = map.geometry;
  std::int64_t group = geometry.tiles_per_group > 0 ? geometry.tiles_per_group : tiles;
  map.by_buffer = geometry.pipeline_depth > 1 && group > 1;
  map.groups = geometry.tiles_per_group > 0 && tiles > 0 ? (tiles + group - 1) / group : 1;
  const std::int64_t count = map.groups > 1 ? group : tiles;
  std::int64_t down = geometry.tiles_down();
  map.columns = geometry.tiles_across();
  if (map.by_buffer) {
    const std::int64_t depth = geometry.pipeline_depth;
    down = std::min<std::int64_t>(depth, count);
    map.columns = (count + depth - 1) / depth;
  } else if (map.groups > 1) {  // one group as a strip
    down = 1;
    map.columns = count;
  } else if (map.columns == 1) {  // a column of tiles reads better as a strip
    std::swap(down, map.columns);
  }
  if (down * map.columns > max_cells) {
    const std::int64_t side = std::max<std::int64_t>(1, std::llround(std::sqrt(max_cells)));
    if (down > 1) {
      map.bin_down = map.by_buffer ? 1 : (down + side - 1) / side;
    }
    const std::int64_t rows = (down + map.bin_down - 1) / map.bin_down;
    map.bin_across = std::max<std::int64_t>(1, (map.columns * rows + max_cells - 1) / max_cells);
  }
  map.down = (down + map.bin_down - 1) / map.bin_down;
  map.across = (map.columns + map.bin_across - 1) / map.bin_across;
  map.cells.resize(static_cast<std::size_t>(map.down * map.across));
}

std::int64_t elements_of(const core::TileGeometry& geometry, std::int64_t tile) {
  const std::int64_t across = std::max<std::int64_t>(1, geometry.tiles_across());
  const std::int64_t row = tile / across * geometry.tile_rows;
  const std::int64_t column = tile % across * geometry.tile_cols;
  return std::max<std::int64_t>(0, std::min(geometry.tile_rows, geometry.rows - row)) *
         std::max<std::int64_t>(0, std::min(geometry.tile_cols, geometry.cols - column));
}

void fill(TileMap& map, const std::vector<core::TileTotals>& tiles) {
  const auto count = std::ssize(tiles);
  const std::int64_t group = map.groups > 1 ? map.geometry.tiles_per_group : count;
  for (std::int64_t position = 0; position < std::min(group, count); ++position) {
    core::TileTotals folded;
    TileCell& cell = map.cells[map.cell_of(position)];
    for (std::int64_t tile = position; tile < count; tile += group) {
      diagnosis::accumulate(folded, tiles[static_cast<std::size_t>(tile)]);
      cell.elements += elements_of(map.geometry, tile);
    }
    ++cell.tiles;
    cell.first = cell.present ? std::min(cell.first, position) : position;
    cell.last = cell.present ? std::max(cell.last, position) : position;
    cell.present = true;
    const std::uint64_t worst_trials = std::max(cell.totals.bad_trials, folded.bad_trials);
    diagnosis::accumulate(cell.totals, folded);
    if (map.binned()) {
      cell.totals.bad_trials = worst_trials;  // a trial must not count once per tile of the cell
    }
  }
}

// Passing configs of a sweep have nothing to show tile by tile; failing ones of one geometry share
// a map.
bool has_map(const core::OutputTotals& output, bool is_config) {
  return !output.tiles.empty() && (!is_config || output.bad_elements > 0);
}

bool is_of(const core::OutputTotals& output, bool is_config, const TileMap& map) {
  return map.output == output.name && map.geometry == output.geometry &&
         map.scope.empty() != is_config;
}

}  // namespace

std::string TileMap::cell_range(const TileCell& cell) const {
  const auto range = [](std::int64_t first, std::int64_t last) {
    return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  };
  if (cell.last - cell.first + 1 == cell.tiles) return range(cell.first, cell.last);
  if (by_buffer) {
    const std::int64_t depth = geometry.pipeline_depth;
    return fmt::format("buffer {}, rounds {}", cell.first % depth,
                       range(cell.first / depth, cell.last / depth));
  }
  const std::int64_t column = cell.first % columns;
  return fmt::format("rows {}, columns {}", range(cell.first / columns, cell.last / columns),
                     range(column, std::min(column + bin_across, columns) - 1));
}

std::string TileMap::cell_name(const TileCell& cell) const {
  const std::string range = cell_range(cell);
  if (cell.last - cell.first + 1 != cell.tiles) return range + " of tiles";
  return (cell.tiles == 1 ? "tile " : "tiles ") + range;
}

std::size_t TileMap::cell_of(std::int64_t tile) const {
  const std::int64_t position = groups > 1 ? tile % geometry.tiles_per_group : tile;
  const std::int64_t depth = geometry.pipeline_depth;
  const std::int64_t row = by_buffer ? position % depth : position / columns;
  const std::int64_t column = by_buffer ? position / depth : position % columns;
  return static_cast<std::size_t>(row / bin_down * across + column / bin_across);
}

std::vector<TileMap> tile_maps_of(const core::RunRecord& record, std::int64_t max_cells) {
  std::vector<Gathered> gathered;
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource& source) {
    const std::string_view problem = source.problem;
    for (const auto& output : result.outputs) {
      const bool is_config = !source.scope.empty();
      if (!has_map(output, is_config)) {
        continue;
      }
      auto found = std::find_if(gathered.begin(), gathered.end(),
                                [&](const Gathered& g) { return is_of(output, is_config, g.map); });
      if (found == gathered.end()) {
        found = gathered.insert(gathered.end(), Gathered{});
        found->map.output = output.name;
        found->map.geometry = output.geometry;
        found->map.scope = source.scope;
        found->tiles.resize(output.tiles.size());
      }
      ++found->results;
      const std::string_view dtype = diagnosis::dtype_text(output.dtype);
      if (std::find(found->dtypes.begin(), found->dtypes.end(), dtype) == found->dtypes.end()) {
        found->dtypes.push_back(dtype);
      }
      if (!problem.empty() && (found->problems.empty() || found->problems.back() != problem) &&
          std::find(found->problems.begin(), found->problems.end(), problem) ==
              found->problems.end()) {
        found->problems.push_back(problem);
      }
      if (output.compared_elements > 0) {
        found->map.trials += result.trials - std::min(result.trials, result.abnormal);
      }
      found->map.bad_trials += output.bad_trials;
      found->map.bad_elements += output.bad_elements;
      found->map.compared_elements += output.compared_elements;
      found->map.worst_ratio = worse(found->map.worst_ratio, output.worst_ratio);
      for (std::size_t i = 0; i < std::min(found->tiles.size(), output.tiles.size()); ++i) {
        diagnosis::accumulate(found->tiles[i], output.tiles[i]);
      }
    }
  });
  std::vector<std::string_view> problems;
  for (const core::ConfigEvidence& config : record.evidence.configs) {
    if (problems.empty() || problems.back() != config.problem) problems.push_back(config.problem);
  }
  const CommonWords of_run(problems);
  std::vector<TileMap> maps;
  for (auto& g : gathered) {
    if (!g.map.scope.empty() && g.results > 1) {
      g.map.scope = shared_scope(g, of_run);
    }
    g.map.dtypes = fmt::format("{}", fmt::join(g.dtypes, ", "));
    lay_out(g.map, std::ssize(g.tiles), max_cells);
    fill(g.map, g.tiles);
    maps.push_back(std::move(g.map));
  }
  // Of a sweep, one whose squares are all alike tells least.
  const auto last_failed = std::stable_partition(maps.begin(), maps.end(),
                                                 [](const TileMap& map) { return map.failed(); });
  std::stable_partition(maps.begin(), last_failed,
                        [](const TileMap& map) { return map.scope.empty() || has_contrast(map); });
  return maps;
}

int heat_level(const TileMap& map, const TileCell& cell) {
  if (cell.totals.bad_trials == 0 && cell.totals.bad_elements == 0) {
    return 0;
  }
  const double share = static_cast<double>(cell.totals.bad_trials) /
                       static_cast<double>(std::max<std::uint64_t>(1, map.comparisons()));
  return share < 0.01 ? 1 : share < 0.1 ? 2 : share < 0.5 ? 3 : 4;
}

bool has_contrast(const TileMap& map) {
  int low = 4, high = 0;
  for (const TileCell& cell : map.cells) {
    if (!cell.present) continue;
    low = std::min(low, heat_level(map, cell));
    high = std::max(high, heat_level(map, cell));
  }
  return low < high;
}

std::vector<const TileCell*> wrong_cells_of(const TileMap& map) {
  std::vector<const TileCell*> wrong;
  for (const auto& cell : map.cells) {
    if (cell.present && heat_level(map, cell) > 0) {
      wrong.push_back(&cell);
    }
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const TileCell* a, const TileCell* b) {
    return std::pair(a->totals.bad_trials, a->totals.bad_elements) >
           std::pair(b->totals.bad_trials, b->totals.bad_elements);
  });
  return wrong;
}

std::string map_description(const TileMap& map) {
  std::string text = count_text(static_cast<std::uint64_t>(map.geometry.tile_count()), "tile");
  if (!map.geometry.tile_axis.empty()) {
    text += " of " + map.geometry.tile_axis;
  }
  if (map.groups > 1) {
    text += fmt::format(", {} groups folded into one",
                        count_text(static_cast<std::uint64_t>(map.groups)));
  }
  if (map.geometry.pipeline_depth > 0) {
    text += ", through " +
            count_text(static_cast<std::uint64_t>(map.geometry.pipeline_depth), "buffer");
  }
  return text;
}

std::string tile_details(const core::TileTotals& totals) {
  std::string text = fmt::format("{}, worst {}", count_text(totals.bad_elements, "wrong element"),
                                 bound_text(totals.worst_ratio));
  if (totals.first_bad_index >= 0) {
    text += fmt::format(", first at element {}", totals.first_bad_index);
  }
  if (totals.not_finite > 0) {
    text += fmt::format(", {} not finite", count_text(totals.not_finite));
  }
  if (totals.poison > 0) {
    text += fmt::format(", {} never written", count_text(totals.poison));
  }
  if (totals.no_reference > 0) {
    text += fmt::format(", {} without a usable reference", count_text(totals.no_reference));
  }
  return text;
}

std::string wrong_of_text(const TileMap& map, const TileCell& cell) {
  return fmt::format("{} of {}", count_text(cell.totals.bad_trials),
                     count_text(map.comparisons(), map.groups > 1 ? "comparison" : "trial"));
}
TrialFrames trial_frames_of(const core::RunRecord& record, const std::vector<TileMap>& maps,
                            std::size_t limit) {
  TrialFrames all;
  std::size_t sources = 0;
  const auto is_kept = [](const core::FailedTrial& failure) {
    return !failure.wrong_tiles.empty();
  };
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource&) {
    const auto kept = static_cast<std::size_t>(
        std::count_if(result.failures.begin(), result.failures.end(), is_kept));
    all.recorded += kept;
    sources += kept > 0 ? 1 : 0;
  });
  if (sources == 0) {
    return all;
  }
  const std::size_t share = std::max<std::size_t>(1, limit / sources);
  for_each_result(record, [&](const core::TrialResult& result, const ResultSource& source) {
    const bool is_config = !source.scope.empty();
    std::vector<std::size_t> drawn_on;
    for (const core::OutputTotals& output : result.outputs) {
      for (std::size_t m = 0; m < maps.size(); ++m) {
        if (is_of(output, is_config, maps[m])) drawn_on.push_back(m);
      }
    }
    std::size_t taken = 0;
    for (const core::FailedTrial& failure : result.failures) {
      if (taken == share || all.frames.size() == limit) {
        break;
      }
      TrialFrame frame{source.name(), drawn_on, failure.trial, {}};
      for (const core::WrongTile& wrong : failure.wrong_tiles) {
        if (wrong.output >= result.outputs.size()) {
          continue;
        }
        const core::OutputTotals& output = result.outputs[wrong.output];
        const auto map = std::find_if(maps.begin(), maps.end(), [&](const TileMap& m) {
          return is_of(output, is_config, m);
        });
        if (map == maps.end() || wrong.tile < 0 || wrong.tile >= std::ssize(output.tiles)) {
          continue;
        }
        const auto index = static_cast<std::size_t>(map - maps.begin());
        const std::size_t cell = map->cell_of(wrong.tile);
        const auto same =
            std::find_if(frame.tiles.begin(), frame.tiles.end(), [&](const TrialFrame::Tile& tile) {
              return tile.map == index && tile.cell == cell;
            });
        if (same == frame.tiles.end()) {
          frame.tiles.push_back({index, cell, wrong.bad_elements, wrong.worst_ratio});
        } else {
          same->bad_elements += wrong.bad_elements;
          same->worst_ratio = worse(same->worst_ratio, wrong.worst_ratio);
        }
      }
      if (!frame.tiles.empty()) {
        all.frames.push_back(std::move(frame));
        ++taken;
      }
    }
  });
  return all;
}

std::vector<std::string> footprint_lines(const core::Evidence& evidence,
                                         const std::string& output) {
  std::vector<std::string> lines;
  for (const core::FootprintEvidence& f : evidence.footprints) {
    if (f.output != output) continue;
    const std::string text = diagnosis::footprint_text(f);
    if (!text.empty()) lines.push_back("footprint: " + text);
  }
  const std::string error = diagnosis::template_text(evidence, output);
  if (!error.empty()) lines.push_back((error.starts_with("tile ") ? "worst " : "error: ") + error);
  return lines;
}

}  // namespace faultline::reports
