// SPDX-License-Identifier: Apache-2.0
// Arguments of the launches of the chunkwise forward and backward, and the tensor maps they take.
#pragma once

#include "deltanet/family.hpp"

#include <faultline/core/program.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace faultline::kernels::deltanet {

/// Each appends arguments to the launch, in the order given.
void add_buffers(core::LaunchOperation& launch, std::initializer_list<std::uint32_t> buffers);
/// A null pointer where there is no such buffer.
void add_optional(core::LaunchOperation& launch, std::optional<std::uint32_t> buffer);
/// As int32.
void add_ints(core::LaunchOperation& launch, std::initializer_list<std::int64_t> values);
void add_maps(core::LaunchOperation& launch, std::initializer_list<core::TensorMapArgument> maps);

/// Position of the buffer of that name; none where there is none.
std::optional<std::uint32_t> find_buffer(const std::vector<core::BufferSpec>& buffers,
                                         std::string_view name);

/// A 3-D map of 16-bit elements [matrices, rows, columns] with boxes of 64 columns, 128-byte
/// swizzle, or of `box_columns` < 64, not swizzled.
core::TensorMapArgument tile_map(std::uint32_t buffer, core::Dtype dtype, std::int64_t columns,
                                 std::int64_t rows, std::int64_t matrices, std::int64_t box_rows,
                                 std::int64_t box_columns = 64);

/// Maps of what `heads` heads (all trials of a batch) have of every row and of every chunk.
struct ChunkMaps {
  core::Dtype dtype;
  std::int64_t heads, t, chunk;

  std::int64_t chunks() const { return (t + chunk - 1) / chunk; }
  /// Chunks of a tensor [B, H, T, columns].
  core::TensorMapArgument rows(std::uint32_t buffer, std::int64_t columns) const {
    return tile_map(buffer, dtype, columns, t, heads, chunk);
  }
  /// States of chunks [B, H, N, DK, DV].
  core::TensorMapArgument states(std::uint32_t buffer, std::int64_t dk, std::int64_t dv) const {
    return tile_map(buffer, dtype, dv, dk, heads * chunks(), dk);
  }
};

}  // namespace faultline::kernels::deltanet
