// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evidence_tables.hpp"
#include "html_assets.hpp"
#include "html_writer.hpp"
#include "numbers.hpp"
#include "sha256.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using core::RunRecord;

constexpr std::int64_t kMapCells = 2048;
constexpr std::int64_t kNumericCells = 64;  // maps up to this size show a number in each cell
constexpr std::int64_t kMatrixTiles = 16;   // provenance matrices up to this size
constexpr std::size_t kConfigRows = 60;     // beyond, passing rows are folded away
constexpr std::size_t kWrongTiles = 64;     // rows of the table of wrong tiles

class HtmlReport {
 public:
  explicit HtmlReport(const RunRecord& record)
      : record_(record),
        maps_(tile_maps_of(record, kMapCells)),
        tables_(evidence_tables_of(record)) {}

  std::string html() {
    head();
    out_.put(
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<main id=\"main\">\n");
    header();
    findings();
    races();
    stops();
    tiles();
    provenance();
    evidence_tables();
    arms();
    configs();
    bench();
    accesses();
    further_evidence();
    out_.put("</main>\n");
    footer();
    out_.put("<script>").put_asset(kScript).put("</script>\n</body>\n</html>\n");
    return out_.take();
  }

 private:
  struct Section {
    bool shown;
    std::string_view id, title;
  };

  std::vector<Section> sections() const {
    const core::Evidence& evidence = record_.evidence;
    std::vector<Section> sections{{!record_.verdict.findings.empty(), "findings", "Findings"},
                                  {!evidence.races.empty(), "races", "Races"},
                                  {!maps_.empty(), "tiles", "Tiles"},
                                  {!evidence.provenance.empty(), "provenance", "Whose data"}};
    for (const EvidenceTable& table : tables_) {
      sections.push_back({true, table.id, table.title});
    }
    const Section rest[] = {{!evidence.arms.empty(), "arms", "Arms"},
                            {!evidence.configs.empty(), "configs", "Configurations"},
                            {!record_.bench.empty(), "timing", "Timing"},
                            {!evidence.accesses.empty(), "accesses", "Memory accesses"},
                            {true, "run", "Run"}};
    sections.insert(sections.end(), std::begin(rest), std::end(rest));
    return sections;
  }

  void head() {
    std::string title = outcome_text(record_.verdict.outcome);
    if (record_.verdict.outcome != core::Outcome::pass && !record_.verdict.findings.empty()) {
      title += fmt::format(" {}", core::name_of(record_.verdict.findings.front().finding));
    }
    title += fmt::format(" - {} {} - faultline", record_.command, subject_text(record_));
    out_.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
             "'sha256-",
             escaped(sha256_base64(kStyle)), "'; script-src 'sha256-",
             escaped(sha256_base64(kScript)), "'; base-uri 'none'; form-action 'none'\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
             "<meta name=\"referrer\" content=\"no-referrer\">\n<title>", escaped(title),
             "</title>\n<style>");
    out_.put_asset(kStyle).put("</style>\n</head>\n");
  }

  void fact(std::string_view name, std::string_view value, bool code = false) {
    if (value.empty()) {
      return;
    }
    out_.put("<dt>", escaped(name), "</dt><dd>");
    if (code) {
      out_.put("<code>", escaped(value), "</code>");
    } else {
      out_.put(escaped(value));
    }
    out_.put("</dd>\n");
  }

  void header() {
    const core::Verdict& verdict = record_.verdict;
    const std::string outcome{core::name_of(verdict.outcome)};
    out_.put("<header>\n<div class=\"verdict\"><span class=\"badge ", escaped(outcome), "\">",
             escaped(outcome_text(verdict.outcome)), "</span>");
    if (!verdict.findings.empty()) {
      const core::Finding& first = verdict.findings.front();
      const bool passed = verdict.outcome == core::Outcome::pass;
      out_.put(
          "<span class=\"class\">",
          escaped((passed ? std::string(core::name_of(first.severity)) + ": " : std::string()) +
                  std::string(core::name_of(first.finding))),
          "</span>");
    }
    out_.put("<span class=\"subject\">", escaped(record_.command + " " + subject_text(record_)),
             "</span></div>\n<h1>");
    const std::string headline = headline_of(record_);
    out_.put(escaped(headline.empty() ? outcome_text(verdict.outcome) : headline), "</h1>\n");
    if (record_.evidence.interrupted) {
      out_.put("<p class=\"alert\">Interrupted: the figures below cover what had finished.</p>\n");
    }
    out_.put("<dl class=\"facts\">\n");
    fact("Problem", problem_text(record_), true);
    fact("Config", record_.config, true);
    std::string ran = fmt::format("{}; seed {}", backend_text(record_), record_.seed);
    if (record_.provenance.duration_s > 0.0) {
      ran += "; " + duration_text(record_.provenance.duration_s);
    }
    if (record_.evidence.backend_is_model || record_.provenance.backend.is_model) {
      ran += ". A model: it shows possible orders, not how often a GPU takes them.";
    }
    fact("Ran on", ran);
    fact("Result", fmt::format("{}", fmt::join(key_facts_of(record_), "; ")));
    out_.put("</dl>\n");
    if (!record_.replay_lines.empty()) {
      out_.put("<section aria-label=\"Replay\">\n");
      for (std::size_t i = 0; i < record_.replay_lines.size(); ++i) {
        out_.put("<div class=\"command\"><code id=\"replay", number(i), "\">",
                 escaped(record_.replay_lines[i]),
                 "</code><button type=\"button\" hidden data-copy=\"replay", number(i),
                 "\" aria-label=\"Copy replay command ", number(i + 1), "\">Copy</button></div>\n");
      }
      out_.put("</section>\n");
    }
    out_.put("<nav aria-label=\"Sections\"><ul>");
    for (const auto& section : sections()) {
      if (section.shown) {
        out_.put("<li><a href=\"#", escaped(section.id), "\">", escaped(section.title),
                 "</a></li>");
      }
    }
    out_.put("</ul></nav>\n</header>\n");
  }

  void open_section(std::string_view id, std::string_view title, std::string_view remark = {}) {
    out_.put("<section id=\"", escaped(id), "\" aria-labelledby=\"", escaped(id),
             "-title\">\n<h2 id=\"", escaped(id), "-title\">", escaped(title));
    if (!remark.empty()) {
      out_.put(" <small>", escaped(remark), "</small>");
    }
    out_.put("</h2>\n");
  }
  void close_section() { out_.put("</section>\n"); }

  void findings() {
    if (record_.verdict.findings.empty()) {
      return;
    }
    open_section("findings", "Findings");
    for (const auto& finding : record_.verdict.findings) {
      const Safe severity = escaped(core::name_of(finding.severity));
      out_.put("<article class=\"finding s-", severity, "\">\n<h3>",
               escaped(core::name_of(finding.finding)), " <span class=\"sev\">", severity,
               "</span></h3>\n");
      if (!finding.headline.empty() && finding.headline != headline_of(record_)) {
        out_.put("<p>", escaped(finding.headline), "</p>\n");
      }
      bullets(finding.evidence, false);
      if (finding.runner_up) {
        out_.put("<p><span class=\"label\">Runner-up</span> ",
                 escaped(core::name_of(*finding.runner_up)));
        if (!finding.runner_up_reason.empty()) {
          out_.put(": ", escaped(finding.runner_up_reason));
        }
        out_.put("</p>\n");
      }
      if (!finding.advice.empty()) {
        out_.put("<p><span class=\"label\">Next</span> ", escaped(finding.advice), "</p>\n");
      }
      out_.put("</article>\n");
    }
    close_section();
  }

  void bullets(const std::vector<std::string>& sentences, bool plain) {
    if (sentences.empty()) {
      return;
    }
    if (plain) {
      out_.put("<ul class=\"plain\">");
    } else {
      out_.put("<ul>");
    }
    for (const auto& sentence : sentences) {
      out_.put("<li>", escaped(sentence), "</li>");
    }
    out_.put("</ul>\n");
  }

  void frame(const core::SourceLocation& where, bool innermost) {
    out_.put("<div class=\"frame\"><p>");
    if (!innermost) {
      out_.put("<span class=\"label\">inlined at</span> ");
    }
    out_.put("<span class=\"mono\">", escaped(place_text(where)), "</span></p>\n");
    if (const core::SourceExcerpt* excerpt = find_excerpt(record_, where.file, where.line)) {
      out_.put("<pre tabindex=\"0\" role=\"region\" aria-label=\"Source of ",
               escaped(place_text(where, false)), "\"><code>");
      int line = excerpt->first_line;
      for (const auto& text : excerpt->lines) {
        if (line == where.line) {
          out_.put("<span class=\"row marked\" aria-current=\"true\">");
        } else {
          out_.put("<span class=\"row\">");
        }
        out_.put("<span class=\"n\">", number(line), "</span>", escaped(text), "\n</span>");
        ++line;
      }
      out_.put("</code></pre>\n");
    }
    out_.put("</div>\n");
  }

  void site(std::string_view ordinal, const core::AccessSite& site) {
    out_.put("<div class=\"site\">\n<h4>", escaped(ordinal), ": ",
             escaped(site.is_write ? "write" : "read"), ", ",
             escaped(site.async_proxy ? "async" : "generic"), " proxy</h4>\n");
    if (!site.actor.empty()) {
      out_.put("<p>by ", escaped(site.actor), "</p>\n");
    }
    out_.put("<p class=\"mono\">", escaped(site.instruction), "</p>\n");
    for (std::size_t i = 0; i < site.where.size(); ++i) {
      frame(site.where[i], i == 0);
    }
    out_.put("</div>\n");
  }

  void races() {
    const auto& races = record_.evidence.races;
    if (races.empty()) {
      return;
    }
    open_section("races", "Races", "accesses that nothing orders");
    for (std::size_t i = 0; i < races.size(); ++i) {
      const core::RaceReport& race = races[i];
      out_.put("<article class=\"race\">\n<h3>", number(i + 1), ". ", escaped(kind_text(race.kind)),
               ", ", escaped(memory_text(race)));
      if (race.note_only) {
        out_.put(" <small>note</small>");
      }
      out_.put("</h3>\n");
      if (!race.missing_edge.empty()) {
        out_.put("<p><span class=\"label\">Missing</span> ", escaped(race.missing_edge), "</p>\n");
      }
      out_.put("<p class=\"muted\">", escaped(seen_text(race)), "</p>\n<div class=\"sites\">\n");
      site("First", race.first);
      site("Second", race.second);
      out_.put("</div>\n</article>\n");
    }
    close_section();
  }

  void stops() {
    bool open = false;
    const auto stop = [&](const std::string& name, const core::TrialResult& result) {
      if (result.status == core::ExecutionStatus::completed) {
        return;
      }
      if (!open) {
        open_section("stopped", "Not completed");
        open = true;
      }
      out_.put("<p><span class=\"warn\">", escaped(core::name_of(result.status)),
               "</span> <span class=\"label\">(", escaped(name), ")</span> ",
               escaped(result.message), "</p>\n");
      bullets(result.details, true);
    };
    for (const auto& arm : record_.evidence.arms) {
      stop(arm.perturbation.name, arm.result);
    }
    for (const auto& config : record_.evidence.configs) {
      stop(config.problem + "; " + config.config, config.result);
    }
    if (open) {
      close_section();
    }
  }

  std::string hover(const TileMap& map, const TileCell& cell) const {
    return fmt::format("{}: wrong in {}{}", TileMap::cell_name(cell), wrong_of_text(map, cell),
                       cell.totals.bad_elements > 0
                           ? ", " + tile_details(cell.totals)
                           : ", worst " + bound_text(cell.totals.worst_ratio));
  }

  void numeric_map(const TileMap& map) {
    // A strip is laid out in lines of eight.
    const bool strip = map.down == 1 && !map.by_buffer;
    const std::int64_t per_line = strip ? std::min<std::int64_t>(map.across, 8) : map.across;
    out_.put("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Tile map of ",
             escaped(map.output), "\"><table class=\"tiles\">");
    if (map.by_buffer) {
      out_.put("<thead><tr><td class=\"none\"></td>");
      for (std::int64_t column = 0; column < map.across; ++column) {
        out_.put("<th scope=\"col\">round ", number(column), "</th>");
      }
      out_.put("</tr></thead>");
    }
    out_.put("<tbody>");
    for (std::int64_t row = 0; row < map.down; ++row) {
      for (std::int64_t start = 0; start < map.across; start += per_line) {
        out_.put("<tr>");
        if (map.by_buffer) {
          out_.put("<th scope=\"row\">buffer ", number(row), "</th>");
        }
        for (std::int64_t column = start; column < std::min(start + per_line, map.across);
             ++column) {
          const TileCell& cell = map.at(row, column);
          if (!cell.present) {
            out_.put("<td class=\"none\"></td>");
            continue;
          }
          out_.put("<td class=\"h", number(heat_level(map, cell)), "\" title=\"",
                   escaped(hover(map, cell)), "\"><b>", escaped(TileMap::cell_name(cell)),
                   "</b><span>",
                   escaped(map.failed() ? share_text(cell.totals.bad_trials, map.comparisons())
                                        : ratio_text(cell.totals.worst_ratio)),
                   "</span></td>");
        }
        out_.put("</tr>");
      }
    }
    out_.put("</tbody></table></div>\n");
  }

  // Many tiles: squares with hover titles; clean ones are one path.
  void drawn_map(const TileMap& map) {
    constexpr std::int64_t kPitch = 10, kSide = 9, kLabel = 58, kBand = 64;
    const std::int64_t band = std::min(map.across, kBand);
    const std::int64_t bands = (map.across + band - 1) / band;
    const std::int64_t band_gap = map.down > 1 ? 6 : 0;
    const auto wrong = wrong_cells_of(map);
    out_.put("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Tile map of ",
             escaped(map.output), "\"><svg class=\"map\" role=\"img\" viewBox=\"0 0 ",
             number(kLabel + kBand * kPitch), " ", number(bands * (map.down * kPitch + band_gap)),
             "\" aria-label=\"", number(wrong.size()), " of ", number(map.cells.size()),
             " squares wrong; the table below lists them\">\n");
    std::string clean;
    for (std::int64_t b = 0; b < bands; ++b) {
      for (std::int64_t row = 0; row < map.down; ++row) {
        const std::int64_t y = b * (map.down * kPitch + band_gap) + row * kPitch;
        out_.put("<text x=\"0\" y=\"", number(y + 8), "\">",
                 escaped(map.by_buffer ? fmt::format("buffer {}", row)
                                       : fmt::format("tile {}", map.at(row, b * band).first)),
                 "</text>");
        for (std::int64_t column = b * band; column < std::min((b + 1) * band, map.across);
             ++column) {
          const TileCell& cell = map.at(row, column);
          const std::int64_t x = kLabel + (column - b * band) * kPitch;
          if (!cell.present) {
            continue;
          }
          if (heat_level(map, cell) == 0) {
            clean += fmt::format("M{} {}h{}v{}h-{}z", x, y, kSide, kSide, kSide);
            continue;
          }
          out_.put("<rect class=\"h", number(heat_level(map, cell)), "\" x=\"", number(x),
                   "\" y=\"", number(y), "\" width=\"", number(kSide), "\" height=\"",
                   number(kSide), "\"><title>", escaped(hover(map, cell)), "</title></rect>");
        }
        out_.put("\n");
      }
    }
    if (!clean.empty()) {
      out_.put("<path class=\"h0\" d=\"", escaped(clean), "\"/>");
    }
    out_.put("</svg></div>\n");
    if (map.bin_down * map.bin_across > 1) {
      out_.put("<p class=\"note\">Each square is the worst of ",
               number(map.bin_down * map.bin_across), " tiles.</p>\n");
    }
  }

  void wrong_tiles(const TileMap& map) {
    const auto wrong = wrong_cells_of(map);
    if (wrong.empty()) {
      return;
    }
    const std::size_t shown = std::min(wrong.size(), kWrongTiles);
    out_.put(
        "<details><summary>", escaped(count_text(wrong.size(), "wrong tile")), " of ",
        escaped(map.output), " as a table</summary>\n<div class=\"scroll\"><table><thead><tr>",
        "<th scope=\"col\">tile</th><th scope=\"col\" class=\"num\">wrong in</th>",
        "<th scope=\"col\" class=\"num\">wrong elements</th><th scope=\"col\" "
        "class=\"num\">worst</th>",
        "<th scope=\"col\" class=\"num\">first</th><th scope=\"col\" class=\"num\">not finite</th>",
        "<th scope=\"col\" class=\"num\">never written</th></tr></thead><tbody>\n");
    for (std::size_t i = 0; i < shown; ++i) {
      const core::TileTotals& totals = wrong[i]->totals;
      out_.put("<tr><th scope=\"row\">", escaped(TileMap::cell_name(*wrong[i])),
               "</th><td class=\"num\">", escaped(wrong_of_text(map, *wrong[i])),
               "</td><td class=\"num\">", escaped(count_text(totals.bad_elements)),
               "</td><td class=\"num\">", escaped(bound_text(totals.worst_ratio)),
               "</td><td class=\"num\">", number(totals.first_bad_index), "</td><td class=\"num\">",
               escaped(count_text(totals.not_finite)), "</td><td class=\"num\">",
               escaped(count_text(totals.poison)), "</td></tr>\n");
    }
    out_.put("</tbody></table></div>\n");
    if (shown < wrong.size()) {
      out_.put("<p class=\"note\">", escaped(count_text(wrong.size() - shown)),
               " more are in the JSON record.</p>");
    }
    out_.put("</details>\n");
  }

  void tiles() {
    if (maps_.empty()) {
      return;
    }
    const bool any_failed = maps_.front().failed();
    open_section("tiles", "Tiles",
                 any_failed ? "share of trials in which a tile was wrong"
                            : "none was wrong; worst error as a fraction of the bound");
    if (any_failed) {
      out_.put("<ul class=\"legend\" aria-label=\"Shades\"><li class=\"h0\">never</li><li "
               "class=\"h1\">under 1 %</li>",
               "<li class=\"h2\">under 10 %</li><li class=\"h3\">under 50 %</li><li "
               "class=\"h4\">more</li></ul>\n");
    }
    out_.put("<div class=\"maps\">\n");
    for (const auto& map : maps_) {
      const bool numeric =
          map.down * map.across <= kNumericCells && map.bin_down * map.bin_across == 1;
      if (numeric) {
        out_.put("<figure>");
      } else {
        out_.put("<figure class=\"drawn\">");
      }
      out_.put("\n<figcaption><strong>", escaped(map.output), "</strong> <span class=\"label\">",
               escaped(std::string(core::name_of(map.dtype)) + ", " + map_description(map)));
      if (!map.scope.empty()) {
        out_.put(" (", escaped(map.scope), ")");
      }
      if (!map.failed()) {
        out_.put("; right in all ", escaped(count_text(map.trials, "trial")), ", worst error ",
                 escaped(bound_text(map.worst_ratio)));
      }
      out_.put("</span></figcaption>\n");
      if (numeric) {
        numeric_map(map);
      } else if (map.failed()) {
        drawn_map(map);
      }
      wrong_tiles(map);
      out_.put("</figure>\n");
    }
    out_.put("</div>\n");
    close_section();
  }

  // Destination down, source across; the number is the share of the wrong elements that the source
  // explains.
  void matrix(const std::string& output, const std::vector<const core::ProvenanceEvidence*>& rows) {
    std::int64_t size = 0;
    for (const auto& map : maps_) {
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
    out_.put(
        "<figure><figcaption><strong>", escaped(output),
        "</strong> <span class=\"label\">row: the wrong tile; ",
        "column: the tile whose data it held</span></figcaption>\n",
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Provenance matrix of ",
        escaped(output), "\"><table class=\"tiles matrix\"><thead><tr><td class=\"none\"></td>");
    for (std::int64_t source = 0; source < size; ++source) {
      out_.put("<th scope=\"col\">tile ", number(source), "</th>");
    }
    out_.put("</tr></thead><tbody>");
    for (std::int64_t destination = 0; destination < size; ++destination) {
      out_.put("<tr><th scope=\"row\">tile ", number(destination), "</th>");
      for (std::int64_t source = 0; source < size; ++source) {
        const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto* row) {
          return row->destination == destination && row->source == source;
        });
        if (found == rows.end()) {
          if (source == destination) {
            out_.put("<td class=\"h0\">own</td>");
          } else {
            out_.put("<td class=\"h0\"></td>");
          }
          continue;
        }
        const double share = (*found)->wrong > 0 ? static_cast<double>((*found)->matched) /
                                                       static_cast<double>((*found)->wrong)
                                                 : 0.0;
        out_.put("<td class=\"h",
                 number(share >= 0.5    ? 4
                        : share >= 0.1  ? 3
                        : share >= 0.01 ? 2
                                        : 1),
                 "\">", escaped(share_text((*found)->matched, (*found)->wrong)), "</td>");
      }
      out_.put("</tr>");
    }
    out_.put("</tbody></table></div></figure>\n");
  }

  void provenance() {
    const auto& rows = record_.evidence.provenance;
    if (rows.empty()) {
      return;
    }
    open_section("provenance", "Whose data wrong tiles held",
                 "which other tile's data explains the wrong elements");
    out_.put("<ul class=\"plain\">");
    std::vector<std::string> outputs;
    for (const auto& row : rows) {
      out_.put("<li><span class=\"mono\">", escaped(row.output_name), "</span> <strong>",
               escaped(held_text(row, "\u2190")), "</strong>");
      if (row.source >= 0) {
        out_.put(": ", escaped(share_text(row.matched, row.wrong)), " of ",
                 escaped(count_text(row.wrong, "wrong element")));
      } else {
        out_.put(": ", escaped(count_text(row.wrong, "wrong element")));
      }
      const std::string buffer = buffer_text(row);
      if (!buffer.empty()) {
        out_.put(" <span class=\"label\">buffer: ", escaped(buffer), "</span>");
      }
      out_.put("</li>");
      if (std::find(outputs.begin(), outputs.end(), row.output_name) == outputs.end()) {
        outputs.push_back(row.output_name);
      }
    }
    out_.put("</ul>\n<div class=\"maps\">");
    for (const auto& output : outputs) {
      std::vector<const core::ProvenanceEvidence*> of_output;
      for (const auto& row : rows) {
        if (row.output_name == output) {
          of_output.push_back(&row);
        }
      }
      matrix(output, of_output);
    }
    out_.put("</div>\n");
    close_section();
  }

  void evidence_tables() {
    for (const EvidenceTable& table : tables_) {
      open_section(table.id, table.title, table.remark);
      out_.put("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
               escaped(table.title), "\"><table class=\"wide\"><thead><tr>");
      for (const auto& column : table.columns) {
        if (column.right) {
          out_.put("<th scope=\"col\" class=\"num\">", escaped(column.title), "</th>");
        } else {
          out_.put("<th scope=\"col\">", escaped(column.title), "</th>");
        }
      }
      out_.put("</tr></thead><tbody>\n");
      for (const auto& row : table.rows) {
        out_.put("<tr>");
        for (std::size_t i = 0; i < row.cells.size(); ++i) {
          if (i == 0) {
            out_.put("<th scope=\"row\">");
            if (row.bad) {
              out_.put("<span class=\"bad\">", escaped(row.cells[i]), "</span>");
            } else {
              out_.put(escaped(row.cells[i]));
            }
            out_.put("</th>");
          } else if (table.columns[i].right) {
            out_.put("<td class=\"num\">", escaped(row.cells[i]), "</td>");
          } else {
            out_.put("<td>", escaped(row.cells[i]), "</td>");
          }
        }
        out_.put("</tr>\n");
      }
      out_.put("</tbody></table></div>\n");
      if (!table.footer.empty()) {
        out_.put("<p class=\"muted\">", escaped(table.footer), "</p>\n");
      }
      close_section();
    }
  }

  void axis_lines(const std::vector<RateAxis::Tick>& ticks, const RateAxis& axis) {
    for (const auto& tick : ticks) {
      const Safe x = percent(axis.place(tick.rate));
      out_.put("<line class=\"g\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"100%\"/>");
    }
  }

  void chart(const core::ArmEvidence& arm, const RateAxis& axis,
             const std::vector<RateAxis::Tick>& ticks) {
    const double rate =
        static_cast<double>(arm.result.failed) / static_cast<double>(arm.result.trials);
    out_.put("<svg aria-hidden=\"true\" focusable=\"false\">");
    axis_lines(ticks, axis);
    if (arm.result.failed > 0) {
      const Safe low = percent(axis.place(arm.wilson95.low)),
                 high = percent(axis.place(arm.wilson95.high));
      out_.put("<line class=\"e\" x1=\"", low, "\" x2=\"", high,
               "\" y1=\"11\" y2=\"11\"/><line class=\"e\" x1=\"", low, "\" x2=\"", low,
               "\" y1=\"7\" y2=\"15\"/><line class=\"e\" x1=\"", high, "\" x2=\"", high,
               "\" y1=\"7\" y2=\"15\"/><circle class=\"p\" cx=\"", percent(axis.place(rate)),
               "\" cy=\"11\" r=\"4\"/>");
    } else {
      const Safe high = percent(axis.place(arm.upper95));
      out_.put("<line class=\"z\" x1=\"0\" x2=\"", high,
               "\" y1=\"11\" y2=\"11\" stroke-dasharray=\"3 3\"/>", "<line class=\"z\" x1=\"", high,
               "\" x2=\"", high, "\" y1=\"6\" y2=\"16\"/>");
      if (!axis.logarithmic) {
        out_.put("<circle class=\"zp\" cx=\"0\" cy=\"11\" r=\"3.5\"/>");
      }
    }
    out_.put("</svg>");
  }

  void axis_labels(const std::vector<RateAxis::Tick>& ticks, const RateAxis& axis) {
    out_.put("<svg aria-hidden=\"true\" focusable=\"false\">");
    const std::size_t step = (ticks.size() + 3) / 4;
    for (std::size_t i = 0; i < ticks.size(); ++i) {
      if ((ticks.size() - 1 - i) % step != 0) {
        continue;
      }
      out_.put("<text y=\"12\" text-anchor=\"middle\" x=\"", percent(axis.place(ticks[i].rate)),
               "\">", escaped(ticks[i].label), "</text>");
    }
    out_.put("</svg>");
  }

  void arms() {
    const auto& arms = record_.evidence.arms;
    if (arms.empty()) {
      return;
    }
    const RateAxis axis = rate_axis_of(arms);
    const auto ticks = axis.ticks();
    const bool any_raced =
        std::any_of(arms.begin(), arms.end(), [](const auto& a) { return a.result.raced > 0; });
    open_section("arms", "Arms",
                 "failure rates with 95 % Wilson intervals; nothing failed: 95 % upper bound");
    // Roles are spelled out because the phone layout makes a grid of the table.
    out_.put("<table class=\"wide arms\" role=\"table\" aria-labelledby=\"arms-title\"><thead "
             "role=\"rowgroup\">",
             "<tr role=\"row\"><th role=\"columnheader\" scope=\"col\">arm</th>",
             "<th role=\"columnheader\" scope=\"col\" class=\"num\">failed</th>");
    if (any_raced) {
      out_.put("<th role=\"columnheader\" scope=\"col\" class=\"num\">raced</th>",
               "<th role=\"columnheader\" scope=\"col\" class=\"num\">wrong values</th>");
    }
    out_.put("<th role=\"columnheader\" scope=\"col\" class=\"num\">rate</th>",
             "<th role=\"columnheader\" scope=\"col\" class=\"num\">95 % interval</th>",
             "<th role=\"columnheader\" scope=\"col\" class=\"chart\" aria-label=\"chart, ",
             escaped(axis.description()), "\">");
    axis_labels(ticks, axis);
    out_.put("</th></tr></thead><tbody role=\"rowgroup\">\n");
    for (const auto& arm : arms) {
      const core::TrialResult& result = arm.result;
      const bool rated = has_rate(arm), failed = result.failed > 0;
      out_.put("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\" title=\"",
               escaped(core::to_text(arm.perturbation)), "\">", escaped(arm.perturbation.name));
      if (!result.note.empty()) {
        out_.put("<span class=\"note\">", escaped(result.note), "</span>");
      }
      if (!result.overlap_proven) {
        out_.put("<span class=\"note\">overlap with the co-resident kernel not proven</span>");
      }
      if (result.abnormal > 0) {
        out_.put("<span class=\"note\">", escaped(count_text(result.abnormal)),
                 " ended by deadlock, fault or time-out</span>");
      }
      out_.put("</th><td role=\"cell\" class=\"num count\" data-label=\"failed\">",
               escaped(count_text(result.failed) + " of " + count_text(result.trials)), "</td>");
      if (any_raced) {
        out_.put("<td role=\"cell\" class=\"num raced\" data-label=\"raced\">",
                 escaped(count_text(result.raced)),
                 "</td><td role=\"cell\" class=\"num wrong\" data-label=\"wrong values\">",
                 escaped(count_text(result.wrong_values)), "</td>");
      }
      if (failed) {
        out_.put("<td role=\"cell\" class=\"num rate bad\">");
      } else {
        out_.put("<td role=\"cell\" class=\"num rate\">");
      }
      out_.put(escaped(rated ? share_text(result.failed, result.trials) : "-"),
               "</td><td role=\"cell\" class=\"num interval\">",
               escaped(result.skipped ? "skipped"
                       : !rated       ? std::string(core::name_of(result.status))
                       : failed       ? interval_text(arm.wilson95)
                                      : upper_bound_text(arm.upper95)),
               "</td><td role=\"cell\" class=\"chart\">");
      if (rated) {
        chart(arm, axis, ticks);
      }
      out_.put("</td></tr>\n");
    }
    out_.put("</tbody></table>\n<p class=\"note\">Scale: ", escaped(axis.description()), ".</p>\n");
    close_section();
  }

  // A bar of `share` of a whole; full and red when it is over.
  void bar(double share) {
    const bool over = !(share <= 1.0);
    out_.put("<svg class=\"bar\" aria-hidden=\"true\" focusable=\"false\"><rect width=\"100%\" "
             "height=\"100%\" rx=\"2\"/>",
             "<rect height=\"100%\" rx=\"2\" class=\"");
    if (over) {
      out_.put("over");
    } else {
      out_.put("v");
    }
    out_.put("\" width=\"", percent(over ? 1.0 : std::max(0.0, share)), "\"/></svg>");
  }

  void config_rows(bool failing, bool passing) {
    for (const auto& config : record_.evidence.configs) {
      if (config.failed ? !failing : !passing) {
        continue;
      }
      const WorstError worst = worst_error_of(config.result);
      const bool compared = worst.compared > 0;
      out_.put("<tr><td>");
      if (config.result.skipped) {
        out_.put("<span class=\"warn\">skipped</span>");
      } else if (config.failed) {
        out_.put("<span class=\"bad\">fail</span>");
      } else if (config.result.status != core::ExecutionStatus::completed) {
        out_.put("<span class=\"warn\">", escaped(core::name_of(config.result.status)), "</span>");
      } else if (compared) {
        out_.put("<span class=\"good\">ok</span>");
      } else {
        out_.put("<span class=\"warn\">nothing compared</span>");
      }
      out_.put("</td><td class=\"num\">", escaped(compared ? bound_text(worst.ratio) : "-"));
      if (compared) {
        bar(worst.ratio);
      }
      out_.put("</td><td class=\"mono\">", escaped(problem_words_.without(config.problem)),
               "</td><td class=\"mono\">", escaped(config_words_.without(config.config)));
      if (!config.result.note.empty()) {
        out_.put("<span class=\"note\">", escaped(config.result.note), "</span>");
      }
      out_.put(
          "</td><td class=\"num\">", escaped(count_text(config.result.trials)),
          "</td><td class=\"num\">",
          escaped(compared && std::isfinite(worst.ulps) ? fmt::format("{:.3g}", worst.ulps) : "-"),
          "</td><td class=\"num\">",
          escaped(compared && std::isfinite(worst.error) ? real_text(worst.error) : "-"),
          "</td><td class=\"num\">", escaped(relative_l2_text(worst)), "</td></tr>\n");
    }
  }

  void config_table(bool failing, bool passing) {
    out_.put(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Configurations\"><table "
        "class=\"wide\">",
        "<thead><tr><th scope=\"col\">outcome</th><th scope=\"col\" class=\"num\">worst error</th>",
        "<th scope=\"col\">problem</th><th scope=\"col\">config</th><th scope=\"col\" "
        "class=\"num\">trials</th>",
        "<th scope=\"col\" class=\"num\">ulps</th><th scope=\"col\" "
        "class=\"num\">absolute</th><th scope=\"col\" class=\"num\">relative "
        "L2</th></tr></thead><tbody>\n");
    config_rows(failing, passing);
    out_.put("</tbody></table></div>\n");
  }

  void configs() {
    const auto& configs = record_.evidence.configs;
    if (configs.empty()) {
      return;
    }
    std::vector<std::string_view> problems, launches;
    for (const auto& config : configs) {
      problems.push_back(config.problem);
      launches.push_back(config.config);
    }
    problem_words_ = CommonWords(problems);
    config_words_ = CommonWords(launches);
    const RunTotals totals = totals_of(record_);
    open_section("configs", "Configurations", "worst error as a fraction of the derived bound");
    for (const CommonWords* words : {&problem_words_, &config_words_}) {
      if (!words->text().empty()) {
        out_.put("<p><span class=\"label\">All with</span> <span class=\"mono\">",
                 escaped(words->text()), "</span></p>\n");
      }
    }
    if (configs.size() <= kConfigRows || totals.failed_configs == configs.size()) {
      config_table(true, true);
    } else {
      if (totals.failed_configs > 0) {
        config_table(true, false);
      }
      out_.put("<details><summary>", escaped(count_text(configs.size() - totals.failed_configs)),
               " that did not fail</summary>\n");
      config_table(false, true);
      out_.put("</details>\n");
    }
    close_section();
  }

  void bench() {
    if (record_.bench.empty()) {
      return;
    }
    open_section("timing", "Timing",
                 "medians of graph replays and of single launches between events");
    for (std::size_t i = 0; i < record_.bench.size();) {
      const std::string& problem = record_.bench[i].problem;
      out_.put(
          "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timing of ",
          escaped(problem), "\"><table class=\"wide timing\"><caption class=\"mono\">",
          escaped(problem),
          "</caption><thead><tr><th scope=\"col\">program</th><th scope=\"col\" "
          "class=\"num\">graph us</th>",
          "<th scope=\"col\" class=\"num\">spread</th><th scope=\"col\" class=\"num\">event "
          "us</th>",
          "<th scope=\"col\" class=\"num\">spread</th><th scope=\"col\" class=\"num\">TB/s</th>",
          "<th scope=\"col\" class=\"num\">of read ceiling</th><th scope=\"col\" "
          "class=\"num\">speed</th></tr></thead><tbody>\n");
      for (; i < record_.bench.size() && record_.bench[i].problem == problem; ++i) {
        const core::BenchRow& row = record_.bench[i];
        const auto cell = [&](const std::string& text) {
          out_.put("<td class=\"num\">", escaped(text), "</td>");
        };
        const auto positive = [](double value, int decimals, std::string_view unit = "") {
          return value > 0.0 ? fmt::format("{:.{}f}{}", value, decimals, unit) : std::string("-");
        };
        out_.put("<tr><th scope=\"row\">", escaped(row.name), " <span class=\"label\">",
                 escaped(row.config), "</span>");
        if (row.contaminated) {
          out_.put("<span class=\"note warn\">contaminated: spread above 10 %, no claim from this "
                   "row</span>");
        }
        if (!row.note.empty()) {
          out_.put("<span class=\"note\">", escaped(row.note), "</span>");
        }
        out_.put("</th>");
        cell(positive(row.median_graph_us, 2));
        cell(percent_text(row.spread_graph));
        cell(positive(row.median_event_us, 2));
        cell(percent_text(row.spread_event));
        cell(positive(row.tb_per_s, 2));
        out_.put(
            "<td class=\"num\">",
            escaped(row.fraction_of_ceiling > 0.0 ? percent_text(row.fraction_of_ceiling) : "-"));
        if (row.fraction_of_ceiling > 0.0) {
          bar(std::min(1.0, row.fraction_of_ceiling));
        }
        out_.put("</td>");
        cell(positive(row.ratio_to_baseline, 3, " x"));
        out_.put("</tr>\n");
      }
      out_.put("</tbody></table></div>\n");
    }
    out_.put("<p class=\"note\">Ceiling: the read-only bandwidth measured in the same run. Speed: "
             "baseline time over own time.</p>\n");
    close_section();
  }

  void accesses() {
    auto rows = record_.evidence.accesses;
    if (rows.empty()) {
      return;
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return waste_of(a) > waste_of(b); });
    open_section("accesses", "Memory accesses", "sectors or passes moved, against a dense layout");
    out_.put(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Memory "
        "accesses\"><table class=\"wide\">",
        "<thead><tr><th scope=\"col\">line</th><th scope=\"col\">access</th><th scope=\"col\" "
        "class=\"num\">lane stride</th>",
        "<th scope=\"col\" class=\"num\">requests</th><th scope=\"col\" class=\"num\">moved</th>",
        "<th scope=\"col\" class=\"num\">dense</th><th scope=\"col\" "
        "class=\"num\">waste</th></tr></thead><tbody>\n");
    for (const auto& row : rows) {
      const double waste = waste_of(row);
      out_.put("<tr><th scope=\"row\" class=\"mono\">", escaped(place_text(row.where)),
               "</th><td class=\"mono\">", escaped(row.instruction), "</td><td class=\"num\">",
               number(row.lane_stride_bytes), " B</td><td class=\"num\">",
               escaped(count_text(row.requests)), "</td><td class=\"num\">",
               escaped(count_text(row.sectors)), "</td><td class=\"num\">",
               escaped(count_text(row.ideal_sectors)));
      if (waste >= 2.0) {
        out_.put("</td><td class=\"num bad\">");
      } else {
        out_.put("</td><td class=\"num\">");
      }
      out_.put(escaped(waste > 0 ? fmt::format("{:.1f} x", waste) : "-"), "</td></tr>\n");
    }
    out_.put("</tbody></table></div>\n");
    close_section();
  }

  void further_evidence() {
    const auto lines = further_evidence_of(record_);
    if (lines.empty()) {
      return;
    }
    open_section("further", "Further evidence");
    bullets(lines, true);
    close_section();
  }

  void footer() {
    out_.put("<footer id=\"run\">\n<h2>Run</h2>\n<dl class=\"facts\">\n");
    for (const auto& [name, value] : run_facts_of(record_)) {
      fact(name, value);
    }
    fact("backend", backend_text(record_));
    fact("seed", fmt::format("{}", record_.seed));
    const core::BackendInfo& backend = record_.provenance.backend;
    if (backend.multiprocessors > 0) {
      fact("device", fmt::format("{} multiprocessors, L2 {}", backend.multiprocessors,
                                 bytes_text(static_cast<double>(backend.l2_bytes))));
    }
    fact("runtime", backend.runtime);
    fact("schema", fmt::format("{}", RunRecord::kSchemaVersion));
    out_.put("</dl>\n</footer>\n");
  }

  const RunRecord& record_;
  std::vector<TileMap> maps_;
  std::vector<EvidenceTable> tables_;
  CommonWords problem_words_{{}}, config_words_{{}};  // of the configurations
  HtmlWriter out_;
};

}  // namespace

std::string to_html(const core::RunRecord& record) { return HtmlReport(record).html(); }

}  // namespace faultline::reports
