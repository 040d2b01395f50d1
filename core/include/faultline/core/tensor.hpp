// SPDX-License-Identifier: Apache-2.0
// Host tensors, buffer specifications and tile geometry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "faultline/core/dtype.hpp"
#include "faultline/core/generator.hpp"

namespace faultline::core {

using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for a scalar. Throws UsageError on overflow of 2^62 or a negative
/// extent.
std::int64_t element_count(const Shape& shape);
/// "[2, 4, 64]"
std::string to_string(const Shape& shape);

/// Row-major array in host memory.
struct Tensor {
  Dtype dtype = Dtype::f32;
  Shape shape{};
  std::vector<std::byte> bytes{};

  Tensor() = default;
  Tensor(Dtype dtype, Shape shape);  ///< zero-filled
  std::int64_t size() const { return element_count(shape); }
  double at(std::int64_t i) const {
    return load_element(bytes.data(), static_cast<size_t>(i), dtype);
  }
  std::uint64_t bits(std::int64_t i) const {
    return load_bits(bytes.data(), static_cast<size_t>(i), dtype);
  }
  void set(std::int64_t i, double x) {
    store_element(bytes.data(), static_cast<size_t>(i), dtype, x);
  }
  /// All elements as double, exact.
  std::vector<double> to_doubles() const;
};

enum class BufferRole : std::uint8_t { input, output, workspace };

/// How an output is cut into tiles: the flat array seen as rows x cols (row-major, rows * cols =
/// elements). Tiles are numbered row-major over the tile grid. With a software pipeline,
/// `tiles_per_group` consecutive tiles are streamed in order through `pipeline_depth` buffers, so
/// buffer = (tile mod tiles_per_group) mod depth.
struct TileGeometry {
  std::int64_t rows = 1, cols = 1;
  std::int64_t tile_rows = 1, tile_cols = 1;
  std::int64_t tiles_per_group = 0;  ///< 0: no grouping
  std::int32_t pipeline_depth = 0;   ///< 0: no pipeline behind this output
  std::string tile_axis{};           ///< what a tile is, e.g. "16 rows of dk" (for reports)

  std::int64_t tiles_down() const { return (rows + tile_rows - 1) / tile_rows; }
  std::int64_t tiles_across() const { return (cols + tile_cols - 1) / tile_cols; }
  std::int64_t tile_count() const { return tiles_down() * tiles_across(); }
  std::int64_t tile_of(std::int64_t element) const {
    return element / cols / tile_rows * tiles_across() + element % cols / tile_cols;
  }
  /// Position of a tile inside its group (the tile itself without grouping).
  std::int64_t position_of(std::int64_t tile) const {
    return tiles_per_group > 0 ? tile % tiles_per_group : tile;
  }
  friend bool operator==(const TileGeometry&, const TileGeometry&) = default;
};

/// Where the subject's reduction index k lies in an input: k = element / stride mod extent.
/// Digit-coded data cut it into slices of `tile` and let each slice add a power of four of its own,
/// so that the error of a sum says which slices are missing, doubled or stale.
struct ReductionAxis {
  std::int64_t extent = 0;  ///< 0: this input does not carry the code (it becomes 1)
  std::int64_t stride = 1;
  std::int64_t tile = 0;  ///< a power of two, at most 512, so that the code is exact
  friend bool operator==(const ReductionAxis&, const ReductionAxis&) = default;
};

/// One buffer of a subject. Sizes are per trial; a batched program sees `batch` of them back to
/// back.
struct BufferSpec {
  std::string name{};
  Dtype dtype = Dtype::f32;
  Shape shape{};
  BufferRole role = BufferRole::input;
  InputSpec input{};     ///< inputs: the default distribution
  TileGeometry tiles{};  ///< outputs
  bool pooled = false;   ///< input large enough to matter for cache state: rotated by the cold-pool
                         ///< perturbation
  /// Input that enters through exp(): coded data make it 0, a factor of exactly 1.
  bool exponent = false;
  /// Workspace of which only a small part is touched (a huge pitch). The simulator backs it page by
  /// page, poisoned like the others; a device allocates it whole, and poisons it once an arm.
  bool sparse = false;
  ReductionAxis reduction{};  ///< inputs: see ReductionAxis

  std::int64_t elements() const { return element_count(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
};

/// Expected value and acceptance bound of every element of one output, in double. A bound of
/// must_stay_untouched() (acceptance.hpp) marks an element that the kernel must not write.
struct ReferenceTensor {
  std::vector<double> expected{};
  std::vector<double> bound{};
};

/// Fill `out` with the trial's values for tensor number `tensor_index`; equal to the device
/// generator bit for bit.
void generate_input(const InputSpec& spec, std::uint64_t seed, std::uint32_t tensor_index,
                    Tensor& out);

}  // namespace faultline::core
