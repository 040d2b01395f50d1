// SPDX-License-Identifier: Apache-2.0
#include "readings.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>

#include "words.hpp"

namespace faultline::diagnosis {
namespace {

bool explains(const core::ErrorReading& reading) {
  return reading.wrong > 0 && 10 * reading.matched >= 9 * reading.wrong;
}

/// Of each output the first that explains: the evidence has the best first.
std::vector<const core::ErrorReading*> best_of_outputs(const core::Evidence& evidence) {
  std::vector<const core::ErrorReading*> best;
  std::set<std::string> seen;
  for (const core::ErrorReading& reading : evidence.readings) {
    if (explains(reading) && seen.insert(reading.output).second) best.push_back(&reading);
  }
  return best;
}

/// "3", or "3 or 11" where codes that repeat after 8 slices do not tell which of `number`.
std::string slice_text(std::int64_t slice, double number) {
  constexpr std::int64_t kCodes = 8, kNamed = 3;
  std::string text = std::to_string(slice);
  std::int64_t named = 1;
  for (slice += kCodes; static_cast<double>(slice) < number; slice += kCodes) {
    if (named++ == kNamed) return text + " or a multiple of 8 further on";
    text += fmt::format(" or {}", slice);
  }
  return text;
}

/// "tile 3 of ws", "12 tiles of ws (most often tile 3)"; a code may stand for several places.
std::string unwritten_place(const core::ErrorReading& reading) {
  std::string text = reading.other > 1
                         ? fmt::format("{} tiles of {} (most often tile {}", reading.other,
                                       reading.source, reading.detail)
                         : fmt::format("tile {} of {}", reading.detail, reading.source);
  if (reading.value > 1) {
    text += fmt::format("{}or another of {} places with its code", reading.other > 1 ? ", " : " (",
                        reading.value);
  }
  return reading.other > 1 || reading.value > 1 ? text + ")" : text;
}

/// The reading in words, with the other slices that are missing beside the first.
std::string full_text(const core::Evidence& evidence, const core::ErrorReading& best) {
  if (best.kind != core::ErrorReading::Kind::slice_missing) return reading_text(best);
  std::vector<std::string> slices;
  for (const core::ErrorReading& other : evidence.readings) {
    if (other.output == best.output && other.kind == best.kind && explains(other)) {
      slices.push_back(slice_text(other.detail, other.value));
    }
  }
  return slices.size() < 2 ? reading_text(best)
                           : fmt::format("slices {} of the reduction are missing", list(slices));
}

}  // namespace

std::string reading_text(const core::ErrorReading& reading) {
  using Kind = core::ErrorReading::Kind;
  switch (reading.kind) {
  case Kind::one_bit:
    return fmt::format("one bit of the right value is flipped (bit {} most often)", reading.detail);
  case Kind::offset: return fmt::format("got - expected is {:.6g} every time", reading.value);
  case Kind::scale:
    return fmt::format("2^{} times the right values, one factor in each tile: the scale of another "
                       "block, or one that was left out",
                       reading.detail);
  case Kind::saturated: return fmt::format("stuck at {:.6g} where more is expected", reading.value);
  case Kind::slice_missing:
    return fmt::format("slice {} of the reduction is missing",
                       slice_text(reading.detail, reading.value));
  case Kind::slice_doubled:
    return fmt::format("slice {} of the reduction is added twice",
                       slice_text(reading.detail, reading.value));
  case Kind::slice_stale:
    return fmt::format("slice {} of the reduction is added in the place of slice {}",
                       slice_text(reading.other, reading.value),
                       slice_text(reading.detail, reading.value));
  case Kind::other_address:
    return fmt::format("they hold what belongs {} elements {}",
                       count(static_cast<std::uint64_t>(std::abs(reading.detail))),
                       reading.detail > 0 ? "further on" : "before");
  case Kind::other_trial:
    return reading.detail == 1
               ? "they hold the result of the trial before"
               : fmt::format("they hold the result of {} trials before", reading.detail);
  case Kind::unwritten:
    if (reading.detail < 0) {
      return fmt::format("they hold the poison of {}, copied before anything was written there",
                         reading.source);
    }
    return fmt::format("they hold the poison laid in {}, copied before anything was written there",
                       unwritten_place(reading));
  }
  return {};
}

std::vector<std::string> reading_texts(const core::Evidence& evidence) {
  std::vector<std::string> texts;
  for (const core::ErrorReading* reading : best_of_outputs(evidence)) {
    texts.push_back(fmt::format(
        "{}: {}, in {} wrong elements, in {}", reading->output, full_text(evidence, *reading),
        share(reading->matched, reading->wrong), plural(reading->tiles, "tile")));
  }
  return texts;
}

const core::ErrorReading* unwritten_reading(const core::Evidence& evidence) {
  const core::ErrorReading* most = nullptr;
  std::uint64_t matched = 0;
  for (const core::ErrorReading* reading : best_of_outputs(evidence)) {
    if (reading->kind != core::ErrorReading::Kind::unwritten) continue;
    matched += reading->matched;
    if (!most || reading->matched > most->matched) most = reading;
  }
  std::uint64_t wrong = 0;
  if (const auto& shape = evidence.error_shape) {
    wrong = shape->wrong_elements - std::min(shape->equal_poison, shape->wrong_elements);
  } else {
    std::map<std::string, std::uint64_t> of_output;
    for (const core::ErrorReading& reading : evidence.readings) {
      of_output[reading.output] = std::max(of_output[reading.output], reading.wrong);
    }
    for (const auto& [output, elements] : of_output) wrong += elements;
  }
  return 2 * matched >= wrong ? most : nullptr;
}

std::string unwritten_place_text(const core::ErrorReading& reading) {
  return reading.detail < 0 ? reading.source : unwritten_place(reading);
}

std::optional<std::string> common_reading(const core::Evidence& evidence) {
  std::set<std::string> outputs, texts;
  for (const core::ErrorReading& reading : evidence.readings) outputs.insert(reading.output);
  const auto best = best_of_outputs(evidence);
  for (const core::ErrorReading* reading : best) texts.insert(full_text(evidence, *reading));
  if (texts.size() != 1 || best.size() != outputs.size()) return std::nullopt;
  return *texts.begin();
}

}  // namespace faultline::diagnosis
