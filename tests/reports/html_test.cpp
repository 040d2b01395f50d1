// SPDX-License-Identifier: Apache-2.0
// What can be told from the text; browser_test.py loads the pages.
#include "faultline/reports/html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "config_matrix.hpp"
#include "error_histogram.hpp"
#include "faultline/core/comparison.hpp"
#include "faultline/reports/renderer.hpp"
#include "html_script.hpp"
#include "html_style.hpp"
#include "report_text.hpp"
#include "samples.hpp"
#include "sha256.hpp"
#include "tile_map.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Html, HostileTextStaysText) {
  const std::string page = to_html(samples::hostile());
  EXPECT_EQ(count_of(page, "<script"), 1u);
  EXPECT_EQ(count_of(page, "</script"), 1u);
  EXPECT_EQ(count_of(page, "<style"), 1u);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\u202e")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(Html, NeedsNothingElse) {
  for (const auto& [name, record] : samples::all()) {
    const std::string page = to_html(record);
    for (const char* loading : {" src=", "url(", "@import", " srcset=", " action="}) {
      // The hostile record holds "src=" in its text.
      EXPECT_EQ(count_of(page, loading),
                name == "hostile" ? count_of(page, "&lt;img" + std::string(loading)) : 0u)
          << name << ": " << loading;
    }
    EXPECT_EQ(count_of(page, " href="), count_of(page, " href=\"#")) << name;
    EXPECT_THAT(page, Not(HasSubstr("<link"))) << name;
    EXPECT_THAT(page,
                HasSubstr("default-src 'none'; style-src 'sha256-" + sha256_base64(kStyle) + "'"))
        << name;
    EXPECT_THAT(page, HasSubstr("script-src 'sha256-" + sha256_base64(kScript) + "'")) << name;
  }
}

TEST(Html, IsOfModestSizeAndDeterministic) {
  for (const auto& [name, record] : samples::all()) {
    const std::string page = to_html(record);
    EXPECT_LT(page.size(), 200'000u) << name;
    EXPECT_EQ(page, to_html(record)) << name;
  }
}

TEST(TileMaps, EachSquareStandsForItsTilesAndEachTileForASquare) {
  for (const core::TileGeometry& geometry :
       {core::TileGeometry{64, 64, 16, 64, 4, 2, ""}, core::TileGeometry{128, 96, 16, 16, 0, 0, ""},
        core::TileGeometry{4096, 1, 1, 1, 0, 0, ""}, core::TileGeometry{56, 8, 1, 8, 7, 3, ""}}) {
    core::RunRecord record = samples::stress_clean();
    auto& output = record.evidence.arms[0].result.outputs[0];
    output.geometry = geometry;
    output.tiles.assign(static_cast<std::size_t>(geometry.tile_count()), {});
    for (const std::int64_t limit : {std::int64_t{16}, std::int64_t{4096}}) {
      for (const TileMap& map : tile_maps_of(record, limit)) {
        if (map.geometry != geometry) continue;
        EXPECT_LE(std::ssize(map.cells), limit);
        for (std::int64_t tile = 0; tile < geometry.tile_count(); ++tile) {
          const TileCell& cell = map.cells.at(map.cell_of(tile));
          const std::int64_t position = geometry.position_of(tile);
          EXPECT_TRUE(cell.present && cell.first <= position && position <= cell.last)
              << tile << " of " << geometry.tile_count();
        }
        std::int64_t elements = 0, tiles = 0;
        for (const TileCell& cell : map.cells) {
          elements += cell.elements;
          tiles += cell.tiles;
        }
        EXPECT_EQ(elements, geometry.rows * geometry.cols);
        EXPECT_EQ(tiles * map.groups, geometry.tile_count());
      }
    }
  }
}

TEST(TileMaps, ABinnedSquareIsNamedByItsRowsAndColumns) {
  core::RunRecord record = samples::stress_clean();
  auto& output = record.evidence.arms[0].result.outputs[0];
  output.bad_trials = output.bad_elements = 1;  // failing maps come first
  const auto map_of = [&](const core::TileGeometry& geometry, std::int64_t limit) {
    output.geometry = geometry;
    output.tiles.assign(static_cast<std::size_t>(geometry.tile_count()), {});
    output.tiles[0] = {.bad_trials = 1, .bad_elements = 1};
    return tile_maps_of(record, limit).front();
  };
  const TileMap grid = map_of({1024, 1020, 16, 16, 0, 0, ""}, 1024);  // 64 x 64 tiles, 2 x 2 binned
  EXPECT_EQ(grid.cell_name(grid.at(0, 0)), "rows 0-1, columns 0-1 of tiles");
  EXPECT_EQ(grid.at(0, 0).tiles, 4);
  EXPECT_EQ(grid.at(0, 0).elements, 4 * 256);
  EXPECT_EQ(grid.at(0, 31).elements, 2 * 256 + 2 * 16 * 12);  // the last column is ragged
  const TileMap buffers = map_of({4096, 1, 1, 1, 0, 2, ""}, 1024);
  EXPECT_EQ(buffers.cell_name(buffers.at(1, 0)), "buffer 1, rounds 0-3 of tiles");
  const TileMap strip = map_of({4096, 1, 1, 1, 0, 0, ""}, 1024);
  EXPECT_EQ(strip.cell_name(strip.at(0, 1)), "tiles 4-7");
  EXPECT_THAT(to_html(record), HasSubstr("1 wrong square of"));  // 2,048 squares of two tiles
}

TEST(TrialFrames, EveryArmIsSeen) {
  const core::RunRecord record = samples::stress_large();
  const TrialFrames all = trial_frames_of(record, tile_maps_of(record, 910), 30);
  EXPECT_EQ(all.frames.size(), 30u);
  std::set<std::string> sources;
  for (const TrialFrame& frame : all.frames) sources.insert(frame.source);
  EXPECT_EQ(sources.size(), 15u);
  // Of two tiles in one square the elements add up: 24 tiles are wrong in each of 9 outputs.
  std::uint64_t elements = 0;
  for (const TrialFrame::Tile& tile : all.frames.front().tiles) elements += tile.bad_elements;
  EXPECT_EQ(elements, 41u * 24 * 9);
}

// A trial of one problem says nothing of the tiles of another.
TEST(TrialFrames, ATrialConcernsTheMapsOfItsOwnProblemAlone) {
  const core::RunRecord record = samples::verify_dropped_tail();
  const std::vector<TileMap> maps = tile_maps_of(record, 4096);
  ASSERT_EQ(maps.size(), 2u);
  const TrialFrames all = trial_frames_of(record, maps, 30);
  ASSERT_EQ(all.frames.size(), 12u);
  for (const TrialFrame& frame : all.frames) {
    EXPECT_EQ(frame.maps, std::vector<std::size_t>{frame.tiles.front().map}) << frame.source;
  }
}

TEST(TileMaps, NameTheirProblemAndItsDtypes) {
  core::RunRecord record = samples::verify_dropped_tail();
  const auto first = std::find_if(record.evidence.configs.begin(), record.evidence.configs.end(),
                                  [](const core::ConfigEvidence& cell) { return cell.failed; });
  ASSERT_NE(first, record.evidence.configs.end());
  core::ConfigEvidence again = *first;
  again.problem += " seed=7";
  again.result.outputs.front().dtype = core::Dtype::f32;
  record.evidence.configs = {*first, again};
  const TileMap map = tile_maps_of(record, 4096).front();
  EXPECT_THAT(map.scope, HasSubstr("1 more problem"));
  EXPECT_THAT(map.scope, HasSubstr("2 failing configurations"));
  EXPECT_EQ(map.dtypes, "fp16, fp32");
}

TEST(Provenance, TilesOfAnInputAreCalledSo) {
  core::RunRecord record = samples::stress_shared_buffer();
  EXPECT_EQ(held_text(record, record.evidence.provenance.front(), "<-"), "tile 1 <- tile 3");
  EXPECT_EQ(input_tiles_legend(record), "");
  for (core::ArmEvidence& arm : record.evidence.arms) {
    for (core::OutputTotals& output : arm.result.outputs) output.geometry.pipeline_depth = 0;
  }
  EXPECT_EQ(held_text(record, record.evidence.provenance.front(), "<-"),
            "input tile 1 <- input tile 3");
  EXPECT_THAT(input_tiles_legend(record), HasSubstr("not of new_state"));
  EXPECT_THAT(to_html(record), HasSubstr("row: the input tile that was due"));
  EXPECT_THAT(to_html(record), HasSubstr("data-held=\"\""));
}

TEST(Excerpts, BlankLinesAtTheEndsAreNotShown) {
  core::SourceExcerpt excerpt{.file = "r.cu", .first_line = 2, .lines = {"", "x", "", "y", "", ""}};
  EXPECT_EQ(shown_lines(excerpt, 5), std::pair(3, 6));
  EXPECT_EQ(shown_lines(excerpt, 7), std::pair(3, 8));
}

// What did not come to an end was not compared, and is not right.
TEST(NothingCompared, IsNotAnErrorOfZero) {
  core::RunRecord record = samples::stress_clean();
  record.evidence.arms.resize(1);
  core::TrialResult& result = record.evidence.arms.front().result;
  for (core::OutputTotals& output : result.outputs) output.compared_elements = 0;
  for (const std::string& fact : key_facts_of(record)) {
    EXPECT_THAT(fact, Not(HasSubstr("worst error")));
  }
  EXPECT_THAT(to_html(record), HasSubstr("not compared"));
  EXPECT_THAT(to_html(record), Not(HasSubstr("right in all")));
}

TEST(ErrorHistograms, BinsHaveNamesAndTheBoundIsTheEndOfOne) {
  EXPECT_EQ(bin_text(0), "0");
  EXPECT_EQ(bin_text(1), "up to 2^-10");
  EXPECT_EQ(bin_text(core::error_bin(1.0)), "0.5 to 1");
  EXPECT_EQ(bin_text(core::error_bin(1.5)), "1 to 2");
  EXPECT_EQ(bin_text(core::kErrorBins - 2), "above 1,048,576");
  EXPECT_EQ(bin_text(core::kErrorBins - 1), "not finite");
  for (std::size_t bin = 0; bin + 2 < core::kErrorBins; ++bin) {
    EXPECT_LE(axis_text(bin).size(), 5u) << axis_text(bin);
  }
  const auto histograms = error_histograms_of(samples::stress_shared_buffer());
  ASSERT_EQ(histograms.size(), 2u);
  EXPECT_EQ(histograms[1].output, "new_state");
  EXPECT_EQ(histograms[1].beyond, 640u * 783);
  EXPECT_EQ(histograms[1].counted, histograms[1].compared);
}

TEST(ErrorHistograms, AreBarsOfOneCharacterABin) {
  ErrorHistogram h;
  h.ratio = {1000, 0, 1};
  h.ulps = {1, 0, 99, 1'000'000};
  EXPECT_EQ(ratio_bar(h, false), "4.1.........|");
  EXPECT_EQ(ulp_bar(h, false), "1.27");
  EXPECT_EQ(ulp_bar(h, true), "\u2581\u00b7\u2583\u2588");
  h.ratio.resize(core::error_bin(2.0) + 1);
  h.ratio.back() = 10;
  EXPECT_EQ(ratio_bar(h, false), "4.1.........|2");
  EXPECT_EQ(ratio_bar({}, false), "............|");
  EXPECT_EQ(ulp_bar({}, true), "");
}

TEST(ErrorHistograms, SayWhatWasCounted) {
  ErrorHistogram h;
  h.counted = h.compared = 64;
  EXPECT_EQ(counted_in_text(h), "");
  h.compared = 640;
  EXPECT_THAT(counted_in_text(h), HasSubstr("not kept"));
  h.every = 32;
  EXPECT_EQ(counted_in_text(h),
            "counted in every 32nd trial, and in failing trials that were kept");
  h.least_every = 32;
  h.every = 2048;
  EXPECT_THAT(counted_in_text(h), HasSubstr("every 32nd trial, in every 2048th where many share"));
}

TEST(ConfigMatrix, HasEachCellOnceAndTheFailedOneOfTwo) {
  core::RunRecord record = samples::verify_dropped_tail();
  ConfigMatrix matrix = config_matrix_of(record);
  EXPECT_EQ(matrix.problems.size() * matrix.configs.size(), record.evidence.configs.size());
  EXPECT_EQ(matrix.all_problems, "dtype=f16");
  EXPECT_EQ(matrix.name_of(1, 2), "path=shared rows=8 at n=3001 k=3000");
  ASSERT_NE(matrix.at(1, 2), nullptr);
  EXPECT_TRUE(matrix.at(1, 2)->failed);
  EXPECT_FALSE(matrix.at(0, 2)->failed);
  core::ConfigEvidence again = *matrix.at(1, 2);
  again.failed = false;
  record.evidence.configs.push_back(again);
  matrix = config_matrix_of(record);
  EXPECT_TRUE(matrix.at(1, 2)->failed);
}

TEST(Html, StaysSmallForManyTrials) {
  const std::string page = to_html(samples::stress_large());
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_THAT(page, HasSubstr("962 more are in the JSON record"));  // races
  EXPECT_THAT(page, HasSubstr("whose tiles the record holds"));
}

TEST(Html, ShowsBothSitesWithTheMarkedLine) {
  const std::string page = to_html(samples::stress_shared_buffer());
  for (const char* line : {"214", "171", "152", "61", "38"}) {
    EXPECT_THAT(page, HasSubstr(std::string("marked\" aria-current=\"true\"><span class=\"n\">") +
                                line + "<"));
  }
}

TEST(Html, HugeTileMapsAreBinned) {
  core::RunRecord record = samples::stress_clean();
  auto& output = record.evidence.arms[0].result.outputs[0];
  output.geometry = {4096, 4096, 16, 16, 0, 0, "16 x 16"};
  output.tiles.assign(65536, {.bad_trials = 1, .bad_elements = 7, .worst_ratio = 3.0});
  output.bad_trials = 1;
  output.bad_elements = 7 * 65536;
  const std::string page = to_html(record);
  EXPECT_THAT(page, HasSubstr("is the worst of"));
  EXPECT_LT(page.size(), 1'000'000u);
}

TEST(Renderer, TableFindsFormatsByName) {
  ASSERT_NE(find_renderer("html"), nullptr);
  ASSERT_NE(find_renderer("json"), nullptr);
  EXPECT_EQ(find_renderer("pdf"), nullptr);
  for (const auto& renderer : renderers()) {
    EXPECT_EQ(find_renderer(renderer.name), &renderer);
    EXPECT_FALSE(renderer.render(samples::stress_shared_buffer()).empty()) << renderer.name;
  }
}

}  // namespace
}  // namespace faultline::reports
