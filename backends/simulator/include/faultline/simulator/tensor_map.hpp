// SPDX-License-Identifier: Apache-2.0
// The simulator's own 128-byte tensor maps. A real driver's map is opaque and is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace faultline::simulator {

struct TensorMapSpec {
  enum class Swizzle : std::uint8_t { none, bytes_32, bytes_64, bytes_128 };
  std::uint64_t address = 0;                     ///< global, 16-byte aligned
  std::uint32_t element_bytes = 4;               ///< 1, 2, 4 or 8
  std::uint32_t rank = 2;                        ///< 1..5
  std::array<std::uint64_t, 5> dims{};           ///< extents in elements, innermost first
  std::array<std::uint64_t, 4> strides_bytes{};  ///< of dimensions 1..rank-1
  std::array<std::uint32_t, 5> box{};            ///< tile extents in elements
  Swizzle swizzle = Swizzle::none;
};

using TensorMapBytes = std::array<std::byte, 128>;

/// Checks what cuTensorMapEncodeTiled documents (alignment, extents, strides, inner box size
/// against the swizzle) and throws core::UsageError with the violated rule and the value.
TensorMapBytes encode_tensor_map(const TensorMapSpec& spec);

/// False when the bytes are not one of ours.
bool decode_tensor_map(const void* bytes, TensorMapSpec& spec);

}  // namespace faultline::simulator
