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
  std::array<std::uint64_t, 4> next{};  // by dtype
  for (const BufferSpec& buffer : buffers) {
    Entry entry;
    entry.dtype = buffer.dtype;
    entry.has_tiles = buffer.role != BufferRole::input && !buffer.sparse && buffer.elements() > 0;
    if (entry.has_tiles) {
      entry.tiles = buffer.tiles;
      if (entry.tiles.rows * entry.tiles.cols != buffer.elements()) {
        entry.tiles = {.rows = 1, .cols = buffer.elements(), .tile_cols = kWorkspaceTile};
      }
      std::uint64_t& first = next.at(static_cast<std::size_t>(buffer.dtype));
      entry.first_tile = first;
      first += static_cast<std::uint64_t>(entry.tiles.tile_count());
    }
    entries_.push_back(std::move(entry));
  }
}

Poison PoisonMap::of(std::size_t buffer, std::uint32_t word) const {
  const Entry& entry = entries_.at(buffer);
  return {entry.dtype, word, entry.first_tile, entry.has_tiles};
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
  for (const std::uint32_t word : {poison_word(0), poison_word(2)}) {
    const std::uint64_t first = Poison{dtype, word, 0, true}.bits(0);  // code 1
    if (bits < first || bits - first >= codes) continue;
    const std::uint64_t code = bits - first;
    source.word = word;
    for (std::size_t b = 0; b < entries_.size(); ++b) {
      const Entry& entry = entries_[b];
      if (!entry.has_tiles || entry.dtype != dtype) continue;
      const auto tiles = static_cast<std::uint64_t>(entry.tiles.tile_count());
      for (std::uint64_t t = (code + codes - entry.first_tile % codes) % codes; t < tiles;
           t += codes) {
        source.places.push_back({static_cast<std::uint32_t>(b), static_cast<std::int64_t>(t)});
      }
    }
  }
  return source;
}

}  // namespace faultline::core
