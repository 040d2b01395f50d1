// SPDX-License-Identifier: Apache-2.0
#include "footprint.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "faultline/diagnosis/footprint.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

using Tiling = core::FootprintEvidence::Kind;
using Template = core::TemplateEvidence::Kind;

bool names_blocks(const core::FootprintEvidence& f) {
  return f.kind != Tiling::scattered && f.kind != Tiling::everywhere;
}

std::string tiling_text(Tiling kind, std::int64_t rows, std::int64_t cols) {
  switch (kind) {
  case Tiling::scattered: return "no blocks at all";
  case Tiling::everywhere: return "the whole output";
  case Tiling::tile: return fmt::format("its tiles of {} x {}", rows, cols);
  case Tiling::group:
    return rows > 0 ? fmt::format("slices of {} rows, one index of the leading axes each", rows)
                    : "whole groups of tiles";
  case Tiling::buffer: return "the tiles that share a pipeline buffer";
  case Tiling::position: return "the tiles at one position of every group";
  case Tiling::place:
    return fmt::format("{} at one place of every {}", rows > 0 ? "rows" : "columns",
                       std::max(rows, cols));
  case Tiling::last_tile: return "the last tiles";
  case Tiling::strip:
    return fmt::format("strips of {} x {}, a part of a tile that one warp may hold", rows, cols);
  case Tiling::rows: return "whole rows";
  case Tiling::columns: return "whole columns";
  case Tiling::block: return fmt::format("blocks of {} x {}", rows, cols);
  }
  return {};
}

const char* block_noun(Tiling kind, bool of_rows) {
  switch (kind) {
  case Tiling::tile: return "tile";
  case Tiling::group: return "group";
  case Tiling::buffer: return "buffer";
  case Tiling::position: return "position";
  case Tiling::place: return of_rows ? "row" : "column";
  case Tiling::rows: return "row";
  case Tiling::columns: return "column";
  default: return "block";
  }
}

/// "tile 1 of 4", "tiles 1, 3 and 5 of 64, 12 in all"
std::string hit_text(const core::FootprintEvidence& f) {
  const std::string noun = block_noun(f.kind, f.block_rows > 0);
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> named;
  for (const std::int64_t block : f.hit_blocks) {
    if (named.size() < kNamed) named.push_back(std::to_string(block));
  }
  std::string text = fmt::format("{}{} {} of {}", noun, named.size() == 1 ? "" : "s", list(named),
                                 count(f.blocks));
  if (f.hit > named.size()) {
    text += fmt::format(" {}; {} in all", f.patterns > 1 ? "most often" : "first", count(f.hit));
  }
  return text;
}

std::string times_text(double log10_ratio) {
  if (log10_ratio > 99.0) return "more than 10^99 times";
  if (log10_ratio >= 3.0) return fmt::format("10^{:.0f} times", std::floor(log10_ratio));
  return fmt::format("{:.3g} times", std::pow(10.0, log10_ratio));
}

std::string template_name(const core::TemplateEvidence& t) {
  const auto name = [&]() -> std::string {
    switch (t.kind) {
    case Template::slice_missing:
      return t.other > t.detail
                 ? fmt::format("slices {} to {} of the reduction left out", t.detail, t.other)
                 : fmt::format("slice {} of the reduction left out", t.detail);
    case Template::slice_doubled:
      return fmt::format("slice {} of the reduction added twice", t.detail);
    case Template::slice_stale:
      return fmt::format("slice {} of the reduction in the place of slice {}", t.other, t.detail);
    case Template::rounded_f16: return "a sum rounded to fp16 after each slice";
    case Template::rounded_bf16: return "a sum rounded to bf16 after each slice";
    case Template::previous_output: return "the result of the trial before";
    case Template::other_tile: return fmt::format("what belongs to tile {}", t.other);
    case Template::tile_input:
      return fmt::format("the data of tile {} used in the place of tile {}", t.other, t.detail);
    case Template::transposed: return "rows and columns exchanged";
    case Template::zero: return "zeros";
    }
    return {};
  }();
  return t.rows == 0 ? name
                     : fmt::format("{} in rows {} to {} of the tile", name, t.first_row,
                                   t.first_row + t.rows - 1);
}

/// R^2 below which nothing is explained at all.
constexpr double kAny = 0.01;

struct Candidate {
  std::string name;
  double r_squared = 0.0;
  std::int64_t tile = -1;  ///< that R^2 is of; -1: of the whole output
};

std::string place_text(const Candidate& of) {
  return of.tile < 0 ? "over the output" : fmt::format("tile {}", of.tile);
}

/// A term whose coefficient says what became of it.
std::string term_name(const core::TermEvidence& term, double coefficient) {
  constexpr double kNear = 0.05;
  using Kind = core::ErrorHypothesis::Kind;
  if (term.kind == Kind::rounding) return fmt::format("rounding errors as of {}", term.name);
  if (term.kind != Kind::term) {
    return fmt::format("the form {} ({:.2f} times)", term.name, coefficient);
  }
  if (std::fabs(coefficient + 1.0) <= kNear) return fmt::format("the term {} left out", term.name);
  if (std::fabs(coefficient - 1.0) <= kNear) return fmt::format("the term {} twice", term.name);
  return fmt::format("{:.2f} times the term {}", coefficient, term.name);
}

void add_terms(const core::Evidence& evidence, const std::string& output,
               std::vector<Candidate>& bank) {
  const core::TermEvidence* first = nullptr;  // of a sweep, the first cell that failed
  for (const core::TermEvidence& term : evidence.terms) {
    if (term.elements == 0) continue;
    if (!first) first = &term;
    if (term.problem != first->problem || term.config != first->config) continue;
    for (const core::TermOutputEvidence& of : term.outputs) {
      if (of.output != output || of.wrong == 0 || !(of.r_squared > 0.0)) continue;
      bank.push_back({term_name(term, of.coefficient), of.r_squared});
    }
  }
}

/// Nine tenths of the wrong elements hold what a reading of their bits or an alternative foretells.
bool explained_elsewhere(const core::Evidence& evidence, const std::string& output) {
  const auto explains = [&](const auto& entry) {
    return entry.output == output && entry.wrong > 0 && 10 * entry.matched >= 9 * entry.wrong;
  };
  return std::any_of(evidence.readings.begin(), evidence.readings.end(), explains) ||
         std::any_of(evidence.alternatives.begin(), evidence.alternatives.end(), explains);
}

std::string r_squared_text(double r_squared, int digits = 3) {
  // Never 1 that is not exactly 1.
  const double unit = std::pow(10.0, digits);
  return fmt::format("{:.{}g}", r_squared < 1.0 ? std::floor(r_squared * unit) / unit : 1.0,
                     digits);
}

/// Digits that tell two of them apart; 0 where six do not.
int telling_digits(double a, double b) {
  for (int digits = 3; digits <= 6; ++digits) {
    if (r_squared_text(a, digits) != r_squared_text(b, digits)) return digits;
  }
  return 0;
}

}  // namespace

std::string footprint_text(const core::FootprintEvidence& f) {
  constexpr std::uint64_t kFewest = 8;
  if (f.kind == Tiling::everywhere) {
    return fmt::format("everywhere: {} of the elements are wrong", percent(f.wrong, f.compared));
  }
  if (f.kind == Tiling::scattered) {
    return f.wrong < kFewest ? std::string()
                             : "scattered: no tiling describes where the wrong elements lie";
  }
  const auto permille = static_cast<std::uint64_t>(std::floor(f.density * 1000.0));
  const std::string hit = f.kind == Tiling::last_tile ? "" : fmt::format(" ({})", hit_text(f));
  return fmt::format("{}{}, {} of their elements wrong; {} as likely as {}",
                     tiling_text(f.kind, f.block_rows, f.block_cols), hit, percent(permille, 1000),
                     times_text(f.log10_ratio),
                     tiling_text(f.runner_up, f.runner_up_rows, f.runner_up_cols));
}

std::string template_text(const core::Evidence& evidence, const std::string& output) {
  std::vector<Candidate> bank;
  for (const core::TemplateEvidence& t : evidence.templates) {
    if (t.output != output) continue;
    bank.push_back({template_name(t), t.r_squared, t.tile});
  }
  add_terms(evidence, output, bank);
  if (bank.empty()) return {};
  std::stable_sort(bank.begin(), bank.end(),
                   [](const auto& a, const auto& b) { return a.r_squared > b.r_squared; });
  const Candidate& best = bank[0];
  // What the bits or the plan's alternatives say exactly is not unknown.
  if (best.r_squared < kNamedFrom && explained_elsewhere(evidence, output)) return {};
  // Where all are of the whole output, it goes without saying.
  const bool of_a_tile = std::any_of(
      bank.begin(), bank.end(), [](const Candidate& candidate) { return candidate.tile >= 0; });
  const std::string place = of_a_tile ? place_text(best) + ": " : "";
  if (best.r_squared < kAny) return place + "unknown: no template explains any of the error";
  if (best.r_squared < kNamedFrom) {
    return fmt::format("{}unknown: no template explains half of the error (best: {}, R^2 = {})",
                       place, best.name, r_squared_text(best.r_squared));
  }
  const int telling = bank.size() > 1 ? telling_digits(best.r_squared, bank[1].r_squared) : 3;
  std::string text = fmt::format(
      "{}{}: R^2 = {}", place,
      best.r_squared >= kExplainsFrom
          ? fmt::format("the error is that of {}", best.name)
          : fmt::format("{} comes closest to the error, and leaves some of it", best.name),
      r_squared_text(best.r_squared, telling == 0 ? 3 : telling));
  if (bank.size() > 1) {
    const Candidate& next = bank[1];
    const std::string name =
        next.name + (next.tile == best.tile ? "" : fmt::format(" ({})", place_text(next)));
    text += telling == 0 ? fmt::format("; {} explains as much", name)
            : next.r_squared >= 0.001
                ? fmt::format("; next {}: {}", name, r_squared_text(next.r_squared, telling))
                : "; nothing else explains any of it";
  }
  return text;
}

std::vector<std::string> footprint_texts(const core::Evidence& evidence, bool all) {
  constexpr std::size_t kOutputs = 4;  // the maps of a report have every one
  std::vector<std::string> texts;
  std::size_t said = 0;
  for (const core::FootprintEvidence& f : evidence.footprints) {
    if (said == kOutputs) break;
    const std::string footprint = all || names_blocks(f) ? footprint_text(f) : std::string();
    std::string error = template_text(evidence, f.output);
    if (!all && error.find("unknown: ") != std::string::npos) error.clear();
    if (!footprint.empty())
      texts.push_back(fmt::format("footprint of {}: {}", f.output, footprint));
    if (!error.empty()) texts.push_back(fmt::format("{}, {}", f.output, error));
    said += !footprint.empty() || !error.empty();
  }
  return texts;
}

std::string race_footprint_text(const core::Evidence& evidence, const core::OutputTotals& output) {
  const core::TileGeometry& g = output.geometry;
  for (const core::FootprintEvidence& f : evidence.footprints) {
    if (f.output != output.name) continue;
    const bool part = f.kind == Tiling::strip || f.kind == Tiling::rows ||
                      f.kind == Tiling::columns || f.kind == Tiling::block;
    if (part && f.block_rows * f.block_cols < g.tile_rows * g.tile_cols &&
        f.block_rows <= g.tile_rows && f.block_cols <= g.tile_cols) {
      return fmt::format("parts of tiles of {} are wrong beside parts that are right, as warps of "
                         "one block leave it: blocks that race with each other rather spoil tiles",
                         f.output);
    }
    if (f.kind == Tiling::tile || f.kind == Tiling::group) {
      constexpr double kWhole = 0.9;  // of its elements
      if (f.density < kWhole) {
        return fmt::format("elements all over tiles of {} are wrong, and others of these tiles are "
                           "right: this tells neither warps of one block nor blocks that race with "
                           "each other",
                           f.output);
      }
      return fmt::format("whole tiles of {} are wrong: so blocks that race with each other may "
                         "leave it as well as warps of one block",
                         f.output);
    }
  }
  return {};
}

}  // namespace faultline::diagnosis
