// SPDX-License-Identifier: Apache-2.0
// Kernel arguments as the bytes that a launch takes. No CUDA here: tested without a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "faultline/core/program.hpp"

namespace faultline::cuda {

/// Where a buffer of the bindings lies on the device.
struct BoundBuffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Writes the 128-byte map for an argument whose memory begins at `base`.
using TensorMapEncoder =
    std::function<void(const core::TensorMapArgument& argument, std::byte* base, std::byte* map)>;

/// Address of a buffer argument. UsageError when the index is beyond the bindings or the range
/// [byte_offset, byte_offset + bytes) beyond the buffer.
std::byte* address_of(const core::BufferArgument& argument, std::span<const BoundBuffer> bindings,
                      std::uint64_t bytes, const char* what);

/// Values of a launch's arguments, each at an address that lasts as long as this object.
class PackedArguments {
 public:
  PackedArguments() = default;
  /// UsageError for a bad buffer index, offset or scalar size.
  PackedArguments(std::span<const core::Argument> arguments, std::span<const BoundBuffer> bindings,
                  const TensorMapEncoder& encode);
  /// What cudaLaunchKernelExC takes.
  void** pointers() { return pointers_.data(); }
  std::size_t size() const { return pointers_.size(); }

 private:
  struct alignas(64) Value {
    std::array<std::byte, 128> bytes{};
  };
  std::vector<Value> values_;  // never resized after construction; moving keeps the addresses
  std::vector<void*> pointers_;
};

}  // namespace faultline::cuda
