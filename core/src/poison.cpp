// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/poison.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"

namespace faultline::core {
namespace {

template <class T>
void lay_elements(const Poison& poison, const TileGeometry& tiles, std::span<std::byte> bytes) {
  const auto store = [&](std::int64_t begin, std::int64_t end, std::uint64_t bits) {
    const T value = static_cast<T>(bits);
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  };
  const auto elements = static_cast<std::int64_t>(bytes.size() / sizeof(T));
  if (!poison.has_tiles) return store(0, elements, poison.bits(0));
  for (std::int64_t begin = 0; begin < elements;) {
    // The run of one row that lies in one tile.
    const std::int64_t col = begin % tiles.cols;
    const std::int64_t next = std::min((col / tiles.tile_cols + 1) * tiles.tile_cols, tiles.cols);
    const std::int64_t end = begin + next - col;
    store(begin, end, poison.bits(static_cast<std::uint64_t>(tiles.tile_of(begin))));
    begin = end;
  }
}

}  // namespace

PoisonMap::PoisonMap(std::span<const BufferSpec> buffers) {
  struct OfDtype {
    std::uint64_t tiles = 0;
    std::uint32_t buffers = 0, next = 0;  // poisoned buffers; the next one's first code
  };
  std::array<OfDtype, 4> all{};
  const auto of_dtype = [&all](Dtype dtype) -> OfDtype& {
    return all.at(static_cast<std::size_t>(dtype));
  };
  for (const BufferSpec& buffer : buffers) {
    Entry entry;
    entry.dtype = buffer.dtype;
    entry.has_tiles = buffer.role != BufferRole::input && !buffer.sparse && buffer.elements() > 0;
    if (entry.has_tiles) {
      entry.tiles = buffer.tiles;
      if (entry.tiles.rows * entry.tiles.cols != buffer.elements()) {
        entry.tiles = {.rows = 1, .cols = buffer.elements(), .tile_cols = kWorkspaceTile};
      }
      OfDtype& alike = of_dtype(buffer.dtype);
      alike.tiles += static_cast<std::uint64_t>(entry.tiles.tile_count());
      ++alike.buffers;
    }
    entries_.push_back(std::move(entry));
  }
  for (Entry& entry : entries_) {
    if (!entry.has_tiles) continue;
    OfDtype& alike = of_dtype(entry.dtype);
    const std::uint32_t codes = poison_codes(entry.dtype), unit = poison_span_unit(entry.dtype);
    const bool each_its_own = alike.tiles <= codes;
    entry.span = each_its_own ? codes : std::max(codes / unit / alike.buffers, 1u) * unit;
    entry.first_code = alike.next;
    alike.next += each_its_own ? static_cast<std::uint32_t>(entry.tiles.tile_count()) : entry.span;
    // More buffers than there are spans begin again.
    if (!each_its_own && codes - alike.next < entry.span) alike.next = 0;
  }
}

Poison PoisonMap::of(std::size_t buffer, std::uint32_t word) const {
  const Entry& entry = entries_.at(buffer);
  return {entry.dtype, word, entry.first_code, entry.span, entry.has_tiles};
}

void PoisonMap::lay(std::size_t buffer, std::uint32_t word, std::span<std::byte> bytes) const {
  const Entry& entry = entries_.at(buffer);
  const std::size_t size = size_of(entry.dtype);
  const auto elements = static_cast<std::size_t>(entry.tiles.rows * entry.tiles.cols);
  if (bytes.size() % size != 0 || (entry.has_tiles && bytes.size() != elements * size)) {
    throw UsageError(fmt::format("{} bytes cannot be poisoned as {} elements of {}", bytes.size(),
                                 elements, name_of(entry.dtype)));
  }
  const Poison poison = of(buffer, word);
  switch (size) {
  case 2: lay_elements<std::uint16_t>(poison, entry.tiles, bytes); break;
  case 4: lay_elements<std::uint32_t>(poison, entry.tiles, bytes); break;
  default: lay_elements<std::uint64_t>(poison, entry.tiles, bytes); break;
  }
}

PoisonMap::Source PoisonMap::source_of(Dtype dtype, std::uint64_t bits) const {
  Source source;
  const std::uint64_t codes = poison_codes(dtype);
  for (const std::uint32_t word : {poison_word(0), poison_word(1), poison_word(2)}) {
    const std::uint64_t first = Poison{dtype, word, 0, 1, true}.bits(0);  // code 1
    if (bits < first || bits - first >= codes) continue;
    const std::uint64_t code = bits - first;
    source.word = word;
    for (std::size_t b = 0; b < entries_.size(); ++b) {
      const Entry& entry = entries_[b];
      if (!entry.has_tiles || entry.dtype != dtype) continue;
      if (code < entry.first_code || code - entry.first_code >= entry.span) continue;
      const auto tiles = static_cast<std::uint64_t>(entry.tiles.tile_count());
      for (std::uint64_t t = code - entry.first_code; t < tiles; t += entry.span) {
        source.places.push_back({static_cast<std::uint32_t>(b), static_cast<std::int64_t>(t)});
      }
    }
  }
  return source;
}

}  // namespace faultline::core
