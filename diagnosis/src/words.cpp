// SPDX-License-Identifier: Apache-2.0
#include "words.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "facts.hpp"

namespace faultline::diagnosis {

std::string count(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string number(double x) { return fmt::format("{:.3g}", x); }

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "none";
  if (part == whole) return "100 %";
  if (part == 0) return "0 %";
  const double p = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return p > 99.94 ? "more than 99.9 %" : fmt::format("{:.3g} %", p);
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{} of {} ({})", count(part), count(whole), percent(part, whole));
}

std::string plural(std::uint64_t n, const std::string& noun) {
  return fmt::format("{} {}{}", count(n), noun, n == 1 ? "" : "s");
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string subject_text(const core::Evidence& evidence) {
  return evidence.variant.empty() ? evidence.subject : evidence.subject + "@" + evidence.variant;
}

std::string line_text(const std::vector<core::SourceLocation>& where) {
  if (where.empty() || where[0].file.empty()) return "a line that the module does not name";
  const auto folder = [](const core::SourceLocation& at) {
    return at.file.substr(0, at.file.find_last_of('/') + 1);
  };
  const auto in_project = [](const core::SourceLocation& at) {
    return at.file.find('/') != std::string::npos;
  };
  // A helper from another folder is less telling than where the kernel's own folder calls it.
  const std::string home = folder(where.back());
  auto own = std::find_if(where.begin(), where.end(), [&](const core::SourceLocation& at) {
    return in_project(at) && folder(at) == home;
  });
  if (own == where.end()) own = std::find_if(where.begin(), where.end(), in_project);
  const core::SourceLocation& at = own == where.end() ? where[0] : *own;
  return fmt::format("{}:{}", at.file, at.line);
}

std::string line_chain(const std::vector<core::SourceLocation>& where) {
  if (where.empty()) return line_text(where);
  std::string text = fmt::format("{}:{}", where[0].file, where[0].line);
  for (std::size_t i = 1; i < where.size(); ++i) {
    text += fmt::format(", inlined at {}:{}", where[i].file, where[i].line);
  }
  return text;
}

std::string site_text(const core::AccessSite& site) {
  // Copies and fills between launches have no kernel and no line.
  const bool has_line = !site.where.empty() || !site.kernel.empty();
  std::string text = site.instruction;
  if (has_line) text += " at " + line_chain(site.where);
  if (!site.actor.empty()) text += " by " + site.actor;
  return text;
}

std::string place_text(const core::RaceReport& race) {
  const char* space = race.space == core::MemorySpace::shared ? "shared" : "global";
  std::string text = race.buffer.empty() ? fmt::format("{} memory", space)
                                         : fmt::format("{} buffer '{}'", space, race.buffer);
  if (race.byte_end > race.byte_begin) {
    text += fmt::format(", bytes [{}, {})", race.byte_begin, race.byte_end);
  }
  return text;
}

std::string kind_text(core::RaceKind kind) {
  switch (kind) {
  case core::RaceKind::read_after_write: return "read-after-write";
  case core::RaceKind::write_after_read: return "write-after-read";
  case core::RaceKind::write_after_write: return "write-after-write";
  }
  return "unordered accesses";
}

std::string wrong_tiles_text(const core::OutputTotals& output) {
  std::vector<std::size_t> bad;
  for (std::size_t i = 0; i < output.tiles.size(); ++i) {
    if (judged_wrong(output.tiles[i]) > 0) bad.push_back(i);
  }
  std::stable_sort(bad.begin(), bad.end(), [&](std::size_t a, std::size_t b) {
    return output.tiles[a].bad_trials > output.tiles[b].bad_trials;
  });
  if (bad.empty()) return fmt::format("no tile of {}", output.name);
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < bad.size() && i < kNamed; ++i) {
    names.push_back(
        fmt::format("tile {} ({})", bad[i], plural(output.tiles[bad[i]].bad_trials, "trial")));
  }
  if (bad.size() > kNamed) names.push_back(plural(bad.size() - kNamed, "other tile"));
  std::string text = fmt::format("{} of {}", list(names), output.name);
  if (!output.geometry.tile_axis.empty()) {
    text += fmt::format(", a tile being {}", output.geometry.tile_axis);
  }
  return text;
}

std::string wrong_output_text(const core::OutputTotals& output) {
  std::string text =
      fmt::format("{} ({}): {} in {}", output.name, dtype_text(output.dtype),
                  plural(output.bad_elements, "wrong element"), plural(output.bad_trials, "trial"));
  if (output.poison > 0) text += fmt::format(", {} equal to the poison", count(output.poison));
  if (output.not_finite > 0) text += fmt::format(", {} NaN or Inf", count(output.not_finite));
  if (output.no_reference > 0) {
    text += fmt::format(", {} without a usable reference", count(output.no_reference));
  }
  if (std::isfinite(output.worst_error)) {
    text += fmt::format(", worst error {}", number(output.worst_error));
    if (std::isfinite(output.worst_ratio)) {
      text += fmt::format(" = {} times the bound", number(output.worst_ratio));
    }
  }
  return text;
}

std::string provenance_text(const core::ProvenanceEvidence& entry, bool streamed) {
  const std::string share_text =
      fmt::format("{} of its wrong elements ({} of {})", percent(entry.matched, entry.wrong),
                  count(entry.matched), count(entry.wrong));
  std::string text =
      streamed ? fmt::format("{} tile {} held the data of tile {} in {}", entry.output_name,
                             entry.destination, entry.source, share_text)
               : fmt::format("{} was computed with the data of tile {} in place of tile {} in {}",
                             entry.output_name, entry.source, entry.destination, share_text);
  if (entry.pipeline_depth > 0) {
    const auto depth = entry.pipeline_depth;
    const auto to = entry.destination % depth, from = entry.source % depth;
    text += to == from ? fmt::format(": both use pipeline buffer {}", to)
                       : fmt::format(": they use pipeline buffers {} and {}", to, from);
  }
  return text;
}

double upper_bound(std::uint64_t trials) {
  return trials == 0 ? 1.0 : -std::expm1(std::log(0.05) / static_cast<double>(trials));
}

std::string upper_bound_text(std::uint64_t trials) {
  return fmt::format("below {:.2g} (95 %)", upper_bound(trials));
}

}  // namespace faultline::diagnosis
