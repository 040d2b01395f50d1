// SPDX-License-Identifier: Apache-2.0
// Poison: what is laid over memory that the kernel should write before it reads.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "faultline/core/tensor.hpp"

namespace faultline::core {

/// The pattern laid before a launch, named by a 32-bit word. Rotates with the trial number through
/// quiet NaN, large finite (61408 in f16, 1.3e36 in bf16 and f32) and negative NaN patterns; never
/// zero.
FAULTLINE_HD std::uint32_t poison_word(std::uint64_t trial) {
  const std::uint32_t words[3] = {0xffffffffu, 0x7b7f7b7fu, 0xfff9fff9u};
  return words[trial % 3];
}
/// Raw bits of one element of memory that has no tiles (shared, local, sparse): the word repeated.
FAULTLINE_HD std::uint64_t poison_bits(Dtype dtype, std::uint32_t word) {
  if (dtype == Dtype::f64) return static_cast<std::uint64_t>(word) << 32 | word;
  return dtype == Dtype::f32 ? word : word & 0xffffu;
}

/// Tiles that the payload of a NaN tells apart: seven eighths of what the bits below the quiet bit
/// hold. Its top eighth is left to poison_bits(dtype, word) and to the NaN with all bits set, which
/// arithmetic gives; a payload of 0 is what other arithmetic gives.
FAULTLINE_HD std::uint32_t poison_codes(Dtype dtype) {
  switch (dtype) {
  case Dtype::f16: return 7u << 6;
  case Dtype::bf16: return 7u << 3;
  case Dtype::f32: return 7u << 19;
  case Dtype::f64: return 7u << 29;
  }
  return 1;
}

/// The poison of one buffer in one trial. Its NaN patterns carry the tile that they were laid in,
/// so that what is copied from a place that nobody wrote says which place that was. Plain data: the
/// same on host and device.
struct Poison {
  Dtype dtype = Dtype::f32;
  std::uint32_t word = 0;        ///< poison_word()
  std::uint64_t first_tile = 0;  ///< number of the buffer's first tile among those of the plan
  bool has_tiles = false;        ///< false: one pattern for the whole buffer

  /// Do tiles differ? Not under the finite pattern.
  FAULTLINE_HD bool by_tile() const { return has_tiles && word != 0x7b7f7b7fu; }

  /// Raw bits of an element of tile `tile` of the buffer.
  FAULTLINE_HD std::uint64_t bits(std::uint64_t tile) const {
    if (!by_tile()) return poison_bits(dtype, word);
    const std::uint64_t code = 1 + (first_tile + tile) % poison_codes(dtype);
    const bool negative = word == 0xfff9fff9u;
    switch (dtype) {
    case Dtype::f16: return (negative ? 0xfe00u : 0x7e00u) | code;
    case Dtype::bf16: return (negative ? 0xffc0u : 0x7fc0u) | code;
    case Dtype::f32: return (negative ? 0xffc00000u : 0x7fc00000u) | code;
    case Dtype::f64: return (negative ? 0xfff8000000000000u : 0x7ff8000000000000u) | code;
    }
    return code;
  }

  /// One pattern whatever the tile.
  static FAULTLINE_HD Poison plain(Dtype dtype, std::uint32_t word) {
    return Poison{dtype, word, 0, false};
  }
};

/// A place whose poison some bits may be.
struct PoisonedTile {
  std::uint32_t buffer = 0;  ///< index among the plan's buffers
  std::int64_t tile = 0;
  friend auto operator<=>(const PoisonedTile&, const PoisonedTile&) = default;
};

/// The tiles of a plan's outputs and workspaces, numbered through for each dtype. An output and an
/// intermediate have those of BufferSpec::tiles; another workspace is cut into runs of
/// kWorkspaceTile elements. Sparse buffers and inputs have none.
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
  /// share a code. No places: not the poison of a tile.
  struct Source {
    std::uint32_t word = 0;
    std::vector<PoisonedTile> places{};
  };
  Source source_of(Dtype dtype, std::uint64_t bits) const;

 private:
  struct Entry {
    Dtype dtype = Dtype::f32;
    std::uint64_t first_tile = 0;
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
    return poison_.bits(poison_.by_tile() ? static_cast<std::uint64_t>(tiles_.tile_of(element))
                                          : 0);
  }
  const Poison& of_tiles() const { return poison_; }

 private:
  Poison poison_;
  TileGeometry tiles_;
};

}  // namespace faultline::core
