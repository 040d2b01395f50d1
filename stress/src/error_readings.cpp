// SPDX-License-Identifier: Apache-2.0
#include "error_readings.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "faultline/core/acceptance.hpp"
#include "seeds.hpp"

namespace faultline::stress::detail {
namespace {

/// Below it chance explains as much: of errors a few bounds wide some power of two is near any.
constexpr double kBounds = 64.0;

/// Of no dtype here an element that anything gives but unwritten memory.
constexpr std::uint64_t kNoPoison = ~0ull;

std::uint64_t tiles_of(const auto& matched) {
  std::set<std::int64_t> tiles;
  for (const auto* element : matched) tiles.insert(element->tile);
  return tiles.size();
}

/// The value that occurs most often, the smallest of several.
template <class T>
std::optional<T> mode_of(const std::map<T, std::size_t>& counts) {
  std::optional<T> mode;
  std::size_t most = 0;
  for (const auto& [value, count] : counts) {
    if (count <= most) continue;
    most = count;
    mode = value;
  }
  return mode;
}

}  // namespace

std::uint64_t input_seed_of_trial(std::uint64_t input_seed, std::uint64_t trial,
                                  std::uint64_t other) {
  return core::mix64(unmix64(input_seed) ^ trial_code(trial) ^ trial_code(other));
}

ErrorReadings::ErrorReadings(const core::TrialPlan& plan, core::DataMode data)
    : plan_(plan),
      data_(data),
      outputs_(plan.output_indices()),
      wrong_(outputs_.size(), 0),
      wrong_with_earlier_(outputs_.size(), 0),
      poisons_(plan.buffers),
      unwritten_(outputs_.size()) {
  if (data != core::DataMode::digits) return;
  for (const core::BufferSpec& buffer : plan.buffers) {
    const core::ReductionAxis& axis = buffer.reduction;
    if (buffer.role != core::BufferRole::input || axis.extent <= 0 || axis.tile <= 0) continue;
    for (std::int64_t begin = 0; begin < axis.extent; begin += axis.tile) {
      const std::int64_t steps = std::min(axis.tile, axis.extent - begin);
      const double code = std::ldexp(static_cast<double>(steps) / static_cast<double>(axis.tile),
                                     static_cast<int>(2 * (begin / axis.tile % kCodes)));
      code_sum_ += code;
      slices_.push_back(code);
      const bool known =
          std::any_of(codes_.begin(), codes_.end(), [&](const auto& c) { return c.first == code; });
      if (!known) codes_.emplace_back(code, static_cast<int>(begin / axis.tile));
    }
    return;
  }
}

void ErrorReadings::count(const Key& key, const std::vector<const Element*>& matched,
                          double value) {
  if (matched.empty()) return;
  Tally& tally = tallies_[key];
  // One value means one: another trial's counts where it has the same.
  const bool same = tally.matched == 0 || std::get<1>(key) == Kind::one_bit ||
                    std::fabs(value - tally.value) <= 1e-3 * std::fabs(tally.value);
  if (!same) return;
  tally.matched += matched.size();
  tally.tiles = std::max(tally.tiles, tiles_of(matched));
  tally.value = value;
}

void ErrorReadings::add(std::uint32_t o, const core::Capture& capture,
                        const core::ReferenceTensor& reference,
                        const std::vector<core::ReferenceTensor>& earlier) {
  read_poison(o, capture, reference);
  const core::BufferSpec& spec = plan_.buffers[outputs_[o]];
  const core::Tensor& got = capture.outputs[o];
  const core::ElementPoison poison(poisons_, outputs_[o], capture.poison);
  std::vector<Element> wrong;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    const double expected = reference.expected[n], bound = reference.bound[n];
    if (core::stays_untouched(bound)) continue;
    const core::ElementCheck check =
        core::check_element(spec.dtype, got.bits(i), expected, bound, poison[i]);
    if (check.kind != core::ElementClass::out_of_bound) continue;
    Element element{i, spec.tiles.tile_of(i), got.bits(i), got.at(i), expected, bound};
    element.slack = bound + 0.5 * core::ulp_at(spec.dtype, element.got);
    wrong.push_back(element);
  }
  if (wrong.empty()) return;
  // Every so many of very many: each is tried in many ways.
  constexpr std::size_t kLookedAt = 4096;
  if (const std::size_t step = (wrong.size() + kLookedAt - 1) / kLookedAt; step > 1) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < wrong.size(); i += step) wrong[kept++] = wrong[i];
    wrong.resize(kept);
  }
  wrong_[o] += wrong.size();
  if (!earlier.empty()) wrong_with_earlier_[o] += wrong.size();
  read_bits(o, wrong);
  read_offset(o, wrong);
  read_scale(o, wrong);
  read_saturation(o, wrong);
  read_slices(o, wrong);
  read_addresses(o, wrong);
  read_earlier(o, wrong, earlier);
}

/// Some bit turned back makes the element right, and the turn is no small thing.
void ErrorReadings::read_bits(std::uint32_t o, const std::vector<Element>& wrong) {
  const core::Dtype dtype = plan_.buffers[outputs_[o]].dtype;
  const int width = static_cast<int>(8 * core::size_of(dtype));
  std::map<std::int64_t, std::size_t> bits;
  std::vector<const Element*> matched;
  for (const Element& e : wrong) {
    for (int bit = 0; bit < width; ++bit) {
      const std::uint64_t back = e.bits ^ (std::uint64_t{1} << bit);
      const double turned = core::decode(dtype, back);
      if (!(std::fabs(turned - e.got) >= kBounds * e.bound)) continue;
      if (std::fabs(turned - e.got) < 8 * core::ulp_at(dtype, turned)) continue;
      if (core::is_failure(core::check_element(dtype, back, e.expected, e.bound, kNoPoison).kind)) {
        continue;
      }
      ++bits[bit];
      matched.push_back(&e);
      break;
    }
  }
  // Which bit it is differs from element to element; the commonest is named by the value.
  count({o, Kind::one_bit, -1, 0}, matched, static_cast<double>(mode_of(bits).value_or(0)));
}

void ErrorReadings::read_offset(std::uint32_t o, const std::vector<Element>& wrong) {
  std::vector<double> errors;
  for (const Element& e : wrong) errors.push_back(e.error());
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  const double offset = *middle;
  std::vector<const Element*> matched;
  for (const Element& e : wrong) {
    if (std::fabs(e.error() - offset) <= 2 * e.slack && std::fabs(offset) >= 16 * e.slack) {
      matched.push_back(&e);
    }
  }
  constexpr std::size_t kLeast = 4;  // any one error is equal to itself
  if (matched.size() < kLeast) return;
  // The median of many errors, which rounding moves: as many digits as the bound leaves.
  const double grain = std::exp2(std::round(std::log2(std::max(matched.front()->slack, 1e-300))));
  count({o, Kind::offset, 0, 0}, matched, std::round(offset / grain) * grain);
}

void ErrorReadings::read_scale(std::uint32_t o, const std::vector<Element>& wrong) {
  std::map<std::int64_t, std::map<std::int64_t, std::size_t>> exponents;  // by tile
  const auto exponent_of = [](const Element& e) -> std::int64_t {
    if (e.got == 0.0 || e.expected == 0.0 || (e.got < 0) != (e.expected < 0)) return 0;
    const auto k = static_cast<std::int64_t>(std::llround(std::log2(e.got / e.expected)));
    if (k == 0 || std::llabs(k) > 200) return 0;
    const double scale = std::exp2(static_cast<double>(k));
    const double room = scale * e.bound + e.slack;
    const bool fits = std::fabs(e.got - scale * e.expected) <= room;
    return fits && std::fabs(e.error()) >= 8 * room ? k : 0;
  };
  for (const Element& e : wrong) {
    if (const std::int64_t k = exponent_of(e)) ++exponents[e.tile][k];
  }
  std::map<std::int64_t, std::size_t> of_tiles;
  for (const auto& [tile, counts] : exponents) ++of_tiles[*mode_of(counts)];
  std::vector<const Element*> matched;
  for (const Element& e : wrong) {
    const auto tile = exponents.find(e.tile);
    if (tile != exponents.end() && exponent_of(e) == *mode_of(tile->second)) matched.push_back(&e);
  }
  constexpr std::size_t kLeast = 4;
  if (matched.size() < kLeast) return;
  count({o, Kind::scale, *mode_of(of_tiles), 0}, matched);
}

void ErrorReadings::read_saturation(std::uint32_t o, const std::vector<Element>& wrong) {
  std::map<std::uint64_t, std::size_t> values;
  for (const Element& e : wrong) ++values[e.bits];
  const std::uint64_t bits = *mode_of(values);
  std::vector<const Element*> matched;
  std::set<double> wanted;
  for (const Element& e : wrong) {
    if (e.bits != bits || std::fabs(e.expected) <= std::fabs(e.got)) continue;
    if (e.got == 0.0 || (e.expected < 0) != (e.got < 0)) continue;
    matched.push_back(&e);
    wanted.insert(e.expected);
  }
  constexpr std::size_t kLeast = 4;
  if (matched.size() < kLeast || wanted.size() < 2) return;
  count({o, Kind::saturated, 0, 0}, matched, matched.front()->got);
}

/// Digit-coded inputs: the output is a multiple of the sum of the slices' codes, and its error is
/// the same multiple of the codes of what went wrong.
void ErrorReadings::read_slices(std::uint32_t o, const std::vector<Element>& wrong) {
  if (code_sum_ <= 0.0) return;
  // The last: the number of slices where another of the same code is as likely.
  using Reading = std::tuple<Kind, int, int, double>;
  const double among = slices_.size() > kCodes ? static_cast<double>(slices_.size()) : 0.0;
  std::map<Reading, std::vector<const Element*>> readings;
  const auto one_or_two = [&](const auto& is) -> std::optional<Reading> {
    for (const auto& [code, slice] : codes_) {
      if (is(-code)) return Reading{Kind::slice_missing, slice, 0, among};
      if (is(code)) return Reading{Kind::slice_doubled, slice, 0, among};
    }
    for (const auto& [lost, slice] : codes_) {
      for (const auto& [added, other] : codes_) {
        if (slice != other && is(added - lost))
          return Reading{Kind::slice_stale, slice, other, among};
      }
    }
    return std::nullopt;
  };
  for (const Element& e : wrong) {
    const double unit = e.expected / code_sum_;
    if (!(std::fabs(unit) > 8 * e.slack)) continue;  // the digits drown in rounding
    const double code = e.error() / unit;
    const auto is = [&](double sum) {
      return std::fabs(code - sum) * std::fabs(unit) <= 2 * e.slack;
    };
    if (const auto reading = one_or_two(is)) {
      readings[*reading].push_back(&e);
      continue;
    }
    // All from one on, as of a loop that ends too early.
    double tail = 0.0;
    std::size_t from = slices_.size();
    while (from > 1 && !is(-(tail += slices_[--from]))) {
    }
    if (from < slices_.size() && is(-tail)) {
      for (; from < slices_.size(); ++from) {
        readings[{Kind::slice_missing, static_cast<int>(from), 0, 0.0}].push_back(&e);
      }
      continue;
    }
    // Base-4 digits of what is missing: each 0 or 1.
    const double whole = std::round(code);
    if (!is(whole) || !(whole < 0.0) || whole < -1e15) continue;
    std::vector<int> missing;
    bool plain = true;
    int digit = 0;
    for (auto rest = static_cast<std::int64_t>(-whole); plain && rest > 0; rest /= 4, ++digit) {
      plain = rest % 4 <= 1;
      if (rest % 4 == 1) missing.push_back(digit);
    }
    if (!plain) continue;
    for (const int slice : missing) readings[{Kind::slice_missing, slice, 0, among}].push_back(&e);
  }
  for (const auto& [what, matched] : readings) {
    const auto& [kind, slice, other, number] = what;
    count({o, kind, slice, other}, matched, number);
  }
}

/// Address-coded inputs that come out as they went in: the wrong value is an address, too.
void ErrorReadings::read_addresses(std::uint32_t o, const std::vector<Element>& wrong) {
  if (data_ != core::DataMode::address) return;
  constexpr double kAddresses = 2048.0;
  const auto is_address = [](double x) { return x >= 0 && x < kAddresses && x == std::floor(x); };
  std::map<std::int64_t, std::size_t> distances;
  const auto distance = [&](const Element& e) {
    const auto d = static_cast<std::int64_t>(e.error());
    return d < 0 ? d + static_cast<std::int64_t>(kAddresses) : d;
  };
  for (const Element& e : wrong) {
    if (is_address(e.got) && is_address(e.expected)) ++distances[distance(e)];
  }
  const std::optional<std::int64_t> mode = mode_of(distances);
  if (!mode) return;
  std::vector<const Element*> matched;
  for (const Element& e : wrong) {
    if (is_address(e.got) && is_address(e.expected) && distance(e) == *mode) matched.push_back(&e);
  }
  constexpr std::size_t kLeast = 4;
  if (matched.size() < kLeast) return;
  const auto half = static_cast<std::int64_t>(kAddresses) / 2;
  count({o, Kind::other_address, *mode > half ? *mode - 2 * half : *mode, 0}, matched);
}

void ErrorReadings::read_earlier(std::uint32_t o, const std::vector<Element>& wrong,
                                 const std::vector<core::ReferenceTensor>& earlier) {
  const core::Dtype dtype = plan_.buffers[outputs_[o]].dtype;
  for (std::size_t back = 0; back < earlier.size(); ++back) {
    std::vector<const Element*> matched;
    for (const Element& e : wrong) {
      const auto n = static_cast<std::size_t>(e.index);
      const double expected = earlier[back].expected[n], bound = earlier[back].bound[n];
      if (std::fabs(expected - e.expected) <= 16 * (bound + e.slack)) continue;
      if (!core::is_failure(core::check_element(dtype, e.bits, expected, bound, kNoPoison).kind)) {
        matched.push_back(&e);
      }
    }
    count({o, Kind::other_trial, static_cast<std::int64_t>(back + 1), 0}, matched);
  }
}

/// What was copied from memory that nobody had written still names the place (core::Poison).
void ErrorReadings::read_poison(std::uint32_t o, const core::Capture& capture,
                                const core::ReferenceTensor& reference) {
  const core::BufferSpec& spec = plan_.buffers[outputs_[o]];
  const core::Tensor& got = capture.outputs[o];
  const core::ElementPoison own(poisons_, outputs_[o], capture.poison);
  const std::uint64_t shared =
      core::poison_bits(spec.dtype, core::shared_poison_word(capture.trial));
  const std::uint64_t local = core::poison_bits(spec.dtype, core::local_poison_word(capture.trial));
  Unwritten& found = unwritten_[o];
  std::map<std::uint64_t, core::PoisonMap::Source> known;  // poison alone
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    const std::uint64_t bits = got.bits(i), unwritten = own[i];
    if (core::stays_untouched(reference.bound[n])) continue;
    const core::ElementClass kind =
        core::check_element(spec.dtype, bits, reference.expected[n], reference.bound[n], unwritten)
            .kind;
    if (!core::is_failure(kind) || kind == core::ElementClass::no_reference) continue;
    if (kind == core::ElementClass::poison) continue;
    ++found.wrong;
    if (bits == shared || bits == local) {
      (bits == shared ? found.shared : found.local).add(spec.tiles.tile_of(i));
      continue;
    }
    auto source = known.find(bits);
    if (source == known.end()) {
      core::PoisonMap::Source of_bits = poisons_.source_of(spec.dtype, bits);
      if (of_bits.places.empty() || of_bits.word != capture.poison) continue;
      source = known.emplace(bits, std::move(of_bits)).first;
    }
    const std::vector<core::PoisonedTile>& places = source->second.places;
    found.sharing = std::max(found.sharing, places.size());
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (p > 0 && places[p].buffer == places[p - 1].buffer) continue;  // one of many alike
      found.places[places[p]].add(spec.tiles.tile_of(i));
    }
  }
}

/// Of each buffer whose poison was found, the commonest tile; then shared and local memory.
std::vector<core::ErrorReading> ErrorReadings::unwritten(std::uint32_t o) const {
  const Unwritten& found = unwritten_[o];
  struct Source {
    std::uint64_t matched = 0, most = 0;
    std::int64_t tile = 0, tiles = 0;
    std::set<std::int64_t> in_tiles;
  };
  std::map<std::uint32_t, Source> buffers;
  for (const auto& [place, here] : found.places) {
    Source& source = buffers[place.buffer];
    source.matched += here.elements;
    ++source.tiles;
    source.in_tiles.insert(here.tiles.begin(), here.tiles.end());
    if (here.elements > source.most) {
      source.most = here.elements;
      source.tile = place.tile;
    }
  }
  core::ErrorReading reading;
  reading.kind = Kind::unwritten;
  reading.output = plan_.buffers[outputs_[o]].name;
  reading.wrong = found.wrong;
  std::vector<core::ErrorReading> readings;
  for (const auto& [buffer, source] : buffers) {
    reading.source = plan_.buffers[buffer].name;
    reading.matched = source.matched;
    reading.tiles = source.in_tiles.size();
    reading.detail = source.tile;
    reading.other = source.tiles;
    reading.value = found.sharing > 1 ? static_cast<double>(found.sharing) : 0.0;
    readings.push_back(reading);
  }
  for (const auto& [name, place] :
       {std::pair("shared memory", &found.shared), std::pair("local memory", &found.local)}) {
    if (place->elements == 0) continue;
    reading.source = name;
    reading.matched = place->elements;
    reading.tiles = place->tiles.size();
    reading.detail = -1;
    reading.other = 0;
    reading.value = 0.0;
    readings.push_back(reading);
  }
  std::erase_if(readings, [](const auto& r) { return 2 * r.matched < r.wrong; });
  std::stable_sort(readings.begin(), readings.end(),
                   [](const auto& a, const auto& b) { return a.matched > b.matched; });
  return readings;
}

std::vector<core::ErrorReading> ErrorReadings::result() const {
  // What coded inputs say goes before what the bits say by themselves, where both say as much.
  const auto order = [](Kind kind) {
    switch (kind) {
    case Kind::slice_missing: return 0;
    case Kind::slice_doubled: return 1;
    case Kind::slice_stale: return 2;
    case Kind::other_address: return 3;
    case Kind::other_trial: return 4;
    case Kind::offset: return 5;
    case Kind::scale: return 6;
    case Kind::saturated: return 7;
    case Kind::one_bit: return 8;
    case Kind::unwritten: break;
    }
    return 9;
  };
  std::vector<core::ErrorReading> all;
  for (std::uint32_t o = 0; o < outputs_.size(); ++o) {
    std::vector<core::ErrorReading> here = unwritten(o);
    const auto unwritten_count = static_cast<std::ptrdiff_t>(here.size());
    for (const auto& [key, tally] : tallies_) {
      const auto& [output, kind, detail, other] = key;
      // Of those captures in which it was looked for.
      const std::uint64_t wrong = kind == Kind::other_trial ? wrong_with_earlier_[o] : wrong_[o];
      if (output != o || 2 * tally.matched < wrong) continue;
      core::ErrorReading reading{kind,        plan_.buffers[outputs_[o]].name,
                                 wrong,       tally.matched,
                                 tally.tiles, detail,
                                 other,       tally.value,
                                 {}};
      if (kind == Kind::one_bit) {
        reading.detail = static_cast<std::int64_t>(tally.value);
        reading.value = 0.0;
      }
      here.push_back(std::move(reading));
    }
    // A place that is named is no coincidence: it goes first.
    std::stable_sort(here.begin() + unwritten_count, here.end(), [&](const auto& a, const auto& b) {
      return a.matched != b.matched ? a.matched > b.matched : order(a.kind) < order(b.kind);
    });
    constexpr std::size_t kMost = 4;
    if (here.size() > kMost) here.resize(kMost);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

}  // namespace faultline::stress::detail
