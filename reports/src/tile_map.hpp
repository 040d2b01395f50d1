// SPDX-License-Identifier: Apache-2.0
// Which tiles of an output were wrong: over all trials, and in each trial that was kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One square of a tile map.
struct TileCell {
  bool present = false;              ///< false: beyond the last tile of the group
  std::int64_t first = 0, last = 0;  ///< of the tiles (positions in the group) it stands for
  std::int64_t tiles = 0;            ///< how many these are: with gaps where rows were binned
  std::int64_t elements = 0;         ///< of these tiles in all groups, ragged ones as they are
  core::TileTotals totals;  ///< summed over groups and over first..last; worst of the worst
};

/// One output's tiles over all trials that share its geometry. With a pipeline the map is folded to
/// one group and shows buffers down, rounds across: tile = round * depth + buffer. Otherwise it is
/// the tile grid itself.
struct TileMap {
  std::string output;
  std::string dtypes;  ///< "fp16"; "fp16, fp32" where a sweep's problems differ
  core::TileGeometry geometry;
  std::string scope;  ///< of a sweep: the problem and config, or what several failing ones share
  bool by_buffer = false;
  std::int64_t groups = 1;                    ///< groups folded into one
  std::int64_t columns = 0;                   ///< of tiles, before they are binned
  std::int64_t bin_down = 1, bin_across = 1;  ///< tiles that one cell stands for
  std::int64_t down = 0, across = 0;
  std::vector<TileCell> cells;  ///< down x across, row-major
  std::uint64_t trials = 0;     ///< in which the output was compared
  std::uint64_t bad_trials = 0;
  std::uint64_t bad_elements = 0, compared_elements = 0;
  double worst_ratio = 0.0;

  bool binned() const { return bin_down * bin_across > 1; }
  bool failed() const { return bad_trials > 0 || bad_elements > 0; }
  /// Trials that a cell's bad_trials is out of: each trial has `groups` of it.
  std::uint64_t comparisons() const { return trials * static_cast<std::uint64_t>(groups); }
  const TileCell& at(std::int64_t row, std::int64_t column) const {
    return cells[static_cast<std::size_t>(row * across + column)];
  }
  /// Index in `cells` of a tile of the whole output.
  std::size_t cell_of(std::int64_t tile) const;
  /// "3", "8-15", and where the tiles do not follow each other "rows 0-1, columns 2-3" or "buffer
  /// 1, rounds 0-7".
  std::string cell_range(const TileCell& cell) const;
  /// The same as a name of its own: "tile 3", "tiles 8-15".
  std::string cell_name(const TileCell& cell) const;
};
/// Its squares differ in shade: where every tile fails alike, a picture adds nothing.
bool has_contrast(const TileMap& map);
/// Shade of a cell by the share of comparisons in which it was wrong: 0 never, 1 under 1 %, 2 under
/// 10 %, 3 under 50 %, 4 the rest.
int heat_level(const TileMap& map, const TileCell& cell);
/// Wrong cells, worst first.
std::vector<const TileCell*> wrong_cells_of(const TileMap& map);
/// "4 tiles of 16 rows of dk, 8 groups folded into one, through 2 buffers"
std::string map_description(const TileMap& map);
/// "501,120 wrong elements, worst 41.3 x bound, first at element 1024"
std::string tile_details(const core::TileTotals& totals);
/// "783 of 2,000 trials"
std::string wrong_of_text(const TileMap& map, const TileCell& cell);

/// What the wrong elements of an output look like, in words: "footprint: its tiles of 16 x 64
/// (...)" and "worst tile 1: the error is that of ...". None where nothing was found out.
std::vector<std::string> footprint_lines(const core::Evidence& evidence, const std::string& output);

/// Failing maps first, otherwise in the order of the record. No map has more than max_cells cells.
std::vector<TileMap> tile_maps_of(const core::RunRecord& record, std::int64_t max_cells);

/// One failing trial: what of each map was wrong in it.
struct TrialFrame {
  struct Tile {
    std::size_t map = 0, cell = 0;  ///< indices among the maps, and in TileMap::cells
    std::uint64_t bad_elements = 0;
    double worst_ratio = 0.0;
  };
  std::string source;             ///< the arm, or problem and config
  std::vector<std::size_t> maps;  ///< on which its outputs lie, wrong or right
  std::uint64_t trial = 0;
  std::vector<Tile> tiles;
};

/// The failing trials whose tiles the record holds, in the order of its results. At most `limit`,
/// and of no result more than its equal share, so that each arm is seen.
struct TrialFrames {
  std::vector<TrialFrame> frames;
  std::size_t recorded = 0;  ///< that the record holds
};
TrialFrames trial_frames_of(const core::RunRecord& record, const std::vector<TileMap>& maps,
                            std::size_t limit);

}  // namespace faultline::reports
