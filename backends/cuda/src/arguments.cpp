// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <fmt/format.h>

#include <cstring>

#include "faultline/core/errors.hpp"

namespace faultline::cuda {

std::byte* address_of(const core::BufferArgument& argument, std::span<const BoundBuffer> bindings,
                      std::uint64_t bytes, const char* what) {
  if (argument.buffer >= bindings.size()) {
    throw core::UsageError(fmt::format("{} names buffer {}, and the program is bound to {} buffers",
                                       what, argument.buffer, bindings.size()));
  }
  const BoundBuffer& buffer = bindings[argument.buffer];
  if (argument.byte_offset > buffer.bytes || bytes > buffer.bytes - argument.byte_offset) {
    throw core::UsageError(fmt::format("{} reaches byte {} of buffer {}, which has {} bytes", what,
                                       argument.byte_offset + bytes, argument.buffer,
                                       buffer.bytes));
  }
  return buffer.data + argument.byte_offset;
}

PackedArguments::PackedArguments(std::span<const core::Argument> arguments,
                                 std::span<const BoundBuffer> bindings,
                                 const TensorMapEncoder& encode)
    : values_(arguments.size()) {
  pointers_.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::byte* value = values_[i].bytes.data();
    if (const auto* buffer = std::get_if<core::BufferArgument>(&arguments[i])) {
      std::byte* address = address_of(*buffer, bindings, 0, "a launch argument");
      std::memcpy(value, &address, sizeof address);
    } else if (const auto* scalar = std::get_if<core::ScalarArgument>(&arguments[i])) {
      if (scalar->size == 0 || scalar->size > sizeof scalar->bits) {
        throw core::UsageError(fmt::format(
            "launch argument {} is a scalar of {} bytes; 1 to 8 are possible", i, scalar->size));
      }
      std::memcpy(value, &scalar->bits, scalar->size);  // little-endian: the low bytes come first
    } else {
      const auto& map = std::get<core::TensorMapArgument>(arguments[i]);
      encode(map, address_of({map.buffer, map.byte_offset}, bindings, 0, "a tensor map"), value);
    }
    pointers_.push_back(value);
  }
}

}  // namespace faultline::cuda
