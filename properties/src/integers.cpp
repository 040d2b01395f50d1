// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/integers.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"

namespace faultline::properties {
namespace {

std::int64_t lowest(const IntegerRange& range) {
  const std::int64_t m = range.multiple_of;
  return (range.minimum + m - 1) / m * m;
}

std::int64_t highest(const IntegerRange& range) {
  return range.maximum / range.multiple_of * range.multiple_of;
}

void sort_distinct(std::vector<std::int64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Uniform over the members from `low` to `high`, both members. (rc::gen::inRange never gives the
/// upper end and draws small values only at small sizes.)
rc::Gen<std::int64_t> uniform(std::int64_t low, std::int64_t high, std::int64_t multiple_of) {
  return make_generator(
      [=](Source& source) {
        const auto count = static_cast<std::uint64_t>((high - low) / multiple_of) + 1;
        return low + static_cast<std::int64_t>(source.below(count)) * multiple_of;
      },
      [](std::int64_t) { return std::vector<std::int64_t>{}; });
}

}  // namespace

std::vector<std::int64_t> edges_of(const IntegerRange& range) {
  const std::int64_t low = lowest(range), high = highest(range);
  std::vector<std::int64_t> edges{low, high};
  for (const std::int64_t tile : range.tiles) {
    if (tile < 1 || tile > high) continue;
    for (const std::int64_t k :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, high / tile}) {
      for (const std::int64_t edge : {k * tile - range.multiple_of, k * tile - 1, k * tile,
                                      k * tile + 1, k * tile + range.multiple_of}) {
        if (edge >= low && edge <= high && edge % range.multiple_of == 0) edges.push_back(edge);
      }
    }
  }
  sort_distinct(edges);
  return edges;
}

std::vector<std::int64_t> smaller_values(const IntegerRange& range, std::int64_t value) {
  const std::int64_t low = lowest(range), step = range.multiple_of;
  std::vector<std::int64_t> smaller;
  for (const std::int64_t edge : edges_of(range)) {
    if (edge < value) smaller.push_back(edge);
  }
  for (std::int64_t gap = (value - low) / step; gap > 0; gap /= 2) {
    smaller.push_back(value - gap * step);
  }
  sort_distinct(smaller);
  return smaller;
}

ValueDomain<std::int64_t> tile_edges(const IntegerRange& range) {
  const std::int64_t low = lowest(range), high = highest(range);
  if (range.minimum < 0 || range.multiple_of < 1 || low > high) {
    throw core::UsageError(fmt::format("no multiple of {} lies in [{}, {}], or the range is "
                                       "negative: nothing can be drawn",
                                       range.multiple_of, range.minimum, range.maximum));
  }
  const std::int64_t small = std::min(high, low + 8 * range.multiple_of);
  const rc::Gen<std::int64_t> drawn = rc::gen::weightedOneOf<std::int64_t>({
      {1, rc::gen::element(low, high)},
      {4, rc::gen::elementOf(edges_of(range))},
      {3, uniform(low, small, range.multiple_of)},
      {2, uniform(low, high, range.multiple_of)},
  });
  const auto shrink = [range](const std::int64_t& value) { return smaller_values(range, value); };
  return {
      .name = fmt::format("integers in [{}, {}]", low, high),
      .generator = make_generator([drawn](Source& source) { return source.draw(drawn); }, shrink),
      .complaint = [range, low, high](const std::int64_t& value) -> std::string {
        if (value >= low && value <= high && value % range.multiple_of == 0) return {};
        return fmt::format("not a multiple of {} in [{}, {}]", range.multiple_of, low, high);
      },
      .show = [](const std::int64_t& value) { return std::to_string(value); },
      .parse =
          [](const std::string& text) {
            std::int64_t value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc{} || end != text.data() + text.size()) {
              throw core::UsageError(fmt::format("'{}' is not an integer", text));
            }
            return value;
          },
      .measure =
          [low](const std::int64_t& value) {
            return std::vector{static_cast<std::uint64_t>(value - low)};
          },
      .smaller = shrink,
  };
}

}  // namespace faultline::properties
