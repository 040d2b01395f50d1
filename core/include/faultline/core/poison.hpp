// SPDX-License-Identifier: Apache-2.0
// Poison: what is laid over memory that the kernel should write before it reads.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "faultline/core/tensor.hpp"

namespace faultline::core {

/// The pattern laid over outputs and workspaces before a launch, named by a 32-bit word. Rotates
/// with the trial number through quiet NaN, large finite (from 32768 on in f16, from 6.6e35 on in
/// bf16 and f32) and negative NaN patterns; never zero.
FAULTLINE_HD std::uint32_t poison_word(std::uint64_t trial) {
  const std::uint32_t words[3] = {0xffffffffu, 0x7b7f7b7fu, 0xfff9fff9u};
  return words[trial % 3];
}
/// Likewise of shared and of local memory: patterns that nothing else here lays or computes.
FAULTLINE_HD std::uint32_t shared_poison_word(std::uint64_t trial) {
  const std::uint32_t words[3] = {0x7ffa7ffau, 0x7b7d7b7du, 0xfffafffau};
  return words[trial % 3];
}
FAULTLINE_HD std::uint32_t local_poison_word(std::uint64_t trial) {
  const std::uint32_t words[3] = {0x7ffb7ffbu, 0x7b7b7b7bu, 0xfffbfffbu};
  return words[trial % 3];
}
/// Raw bits of one element of memory that has no tiles (shared, local, sparse): the word repeated.
FAULTLINE_HD std::uint64_t poison_bits(Dtype dtype, std::uint32_t word) {
  if (dtype == Dtype::f64) return static_cast<std::uint64_t>(word) << 32 | word;
  return dtype == Dtype::f32 ? word : word & 0xffffu;
}

/// Tiles that the low bits of a pattern tell apart: of the payload of a NaN (the bits below the
/// quiet bit) seven eighths, of f64 fewer. Payloads of 0 and of all ones are what arithmetic gives;
/// the top eighth holds the words above, too.
FAULTLINE_HD std::uint32_t poison_codes(Dtype dtype) {
  switch (dtype) {
  case Dtype::f16: return 7u << 6;
  case Dtype::bf16: return 7u << 3;
  case Dtype::f32: return 7u << 19;
  case Dtype::f64: return 7u << 29;
  }
  return 1;
}
/// Poison::span is a multiple of it, and 16 bits hold how many.
FAULTLINE_HD std::uint32_t poison_span_unit(Dtype dtype) {
  return dtype == Dtype::f64 ? 1u << 16 : dtype == Dtype::f32 ? 1u << 6 : 1u;
}

/// The poison of one buffer in one trial. Its patterns carry the tile that they were laid in, so
/// that what is copied from a place that nobody wrote says which place that was. Plain data: the
/// same on host and device.
struct Poison {
  Dtype dtype = Dtype::f32;
  std::uint32_t word = 0;        ///< poison_word()
  std::uint32_t first_code = 0;  ///< code of the buffer's first tile, from 0
  std::uint32_t span = 1;        ///< tiles of the buffer that are so many apart share a code
  bool has_tiles = false;        ///< false: one pattern for the whole buffer

  /// Raw bits of an element of tile `tile` of the buffer.
  FAULTLINE_HD std::uint64_t bits(std::uint64_t tile) const {
    if (!has_tiles) return poison_bits(dtype, word);
    const std::uint64_t code = 1 + first_code + (tile < span ? tile : tile % span);
    const bool finite = word == 0x7b7f7b7fu, negative = word == 0xfff9fff9u;
    switch (dtype) {
    case Dtype::f16: return (finite ? 0x7800u : negative ? 0xfe00u : 0x7e00u) | code;
    case Dtype::bf16: return (finite ? 0x7b00u : negative ? 0xffc0u : 0x7fc0u) | code;
    case Dtype::f32: return (finite ? 0x7b000000u : negative ? 0xffc00000u : 0x7fc00000u) | code;
    case Dtype::f64:
      return (finite     ? 0x7b00000000000000u
              : negative ? 0xfff8000000000000u
                         : 0x7ff8000000000000u) |
             code;
    }
    return code;
  }

  /// One pattern whatever the tile.
  static FAULTLINE_HD Poison plain(Dtype dtype, std::uint32_t word) {
    return Poison{dtype, word, 0, 1, false};
  }
};

/// A place whose poison some bits may be.
struct PoisonedTile {
  std::uint32_t buffer = 0;  ///< index among the plan's buffers
  std::int64_t tile = 0;
  friend auto operator<=>(const PoisonedTile&, const PoisonedTile&) = default;
};

/// The tiles of a plan's outputs and workspaces. An output and an intermediate have those of
/// BufferSpec::tiles; another workspace is cut into runs of kWorkspaceTile elements. Sparse buffers
/// and inputs have none. Where there are no more tiles of a dtype than poison_codes(), each has a
/// code of its own; otherwise the buffers share the codes equally, so that a code tells the buffer,
/// and tiles of one buffer share them in turn.
class PoisonMap {
 public:
  static constexpr std::int64_t kWorkspaceTile = 256;

  explicit PoisonMap(std::span<const BufferSpec> buffers);

  /// The poison of buffer number `buffer` with the pattern `word`.
  Poison of(std::size_t buffer, std::uint32_t word) const;
  /// How the buffer is cut; tile_of() of an element is what Poison::bits() takes.
  const TileGeometry& tiles(std::size_t buffer) const { return entries_[buffer].tiles; }
  bool has_tiles(std::size_t buffer) const { return entries_[buffer].has_tiles; }

  /// Lays it over the buffer's elements. UsageError when `bytes` are not as many as they take.
  void lay(std::size_t buffer, std::uint32_t word, std::span<std::byte> bytes) const;

  /// The pattern and the places of which `bits` are the poison; more than one place where tiles
  /// share a code, those of a buffer in a row. No places: not the poison of a tile.
  struct Source {
    std::uint32_t word = 0;
    std::vector<PoisonedTile> places{};
  };
  Source source_of(Dtype dtype, std::uint64_t bits) const;

 private:
  struct Entry {
    Dtype dtype = Dtype::f32;
    std::uint32_t first_code = 0, span = 1;
    TileGeometry tiles{};
    bool has_tiles = false;
  };
  std::vector<Entry> entries_;
};

/// The poison of one buffer in one trial, by element.
class ElementPoison {
 public:
  ElementPoison(const PoisonMap& map, std::size_t buffer, std::uint32_t word)
      : poison_(map.of(buffer, word)), tiles_(map.tiles(buffer)) {}
  std::uint64_t operator[](std::int64_t element) const {
    return poison_.bits(poison_.has_tiles ? static_cast<std::uint64_t>(tiles_.tile_of(element))
                                          : 0);
  }

 private:
  Poison poison_;
  TileGeometry tiles_;
};

}  // namespace faultline::core
