// SPDX-License-Identifier: Apache-2.0
#include "deltanet/launch_arguments.hpp"

#include "deltanet/layout.hpp"

#include <algorithm>

namespace faultline::kernels::deltanet {

void add_buffers(core::LaunchOperation& launch, std::initializer_list<std::uint32_t> buffers) {
  for (const std::uint32_t buffer : buffers) {
    launch.arguments.push_back(core::BufferArgument{buffer});
  }
}

void add_optional(core::LaunchOperation& launch, std::optional<std::uint32_t> buffer) {
  launch.arguments.push_back(buffer ? core::Argument(core::BufferArgument{*buffer})
                                    : core::Argument(core::scalar(std::int64_t{0})));
}

void add_ints(core::LaunchOperation& launch, std::initializer_list<std::int64_t> values) {
  for (const std::int64_t value : values) {
    launch.arguments.push_back(core::scalar(static_cast<std::int32_t>(value)));
  }
}

void add_maps(core::LaunchOperation& launch, std::initializer_list<core::TensorMapArgument> maps) {
  launch.arguments.insert(launch.arguments.end(), maps.begin(), maps.end());
}

std::optional<std::uint32_t> find_buffer(const std::vector<core::BufferSpec>& buffers,
                                         std::string_view name) {
  const auto found = std::find_if(buffers.begin(), buffers.end(),
                                  [&](const auto& buffer) { return buffer.name == name; });
  if (found == buffers.end()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(found - buffers.begin());
}

core::TensorMapArgument tile_map(std::uint32_t buffer, core::Dtype dtype, std::int64_t columns,
                                 std::int64_t rows, std::int64_t matrices, std::int64_t box_rows,
                                 std::int64_t box_columns) {
  const std::int64_t element = static_cast<std::int64_t>(core::size_of(dtype));
  core::TensorMapArgument map;
  map.buffer = buffer;
  map.dtype = dtype;
  map.rank = 3;
  map.dims[0] = static_cast<std::uint64_t>(columns);
  map.dims[1] = static_cast<std::uint64_t>(rows);
  map.dims[2] = static_cast<std::uint64_t>(matrices);
  map.strides_bytes[0] = static_cast<std::uint64_t>(columns * element);
  map.strides_bytes[1] = static_cast<std::uint64_t>(rows * columns * element);
  map.box[0] = static_cast<std::uint32_t>(box_columns);
  map.box[1] = static_cast<std::uint32_t>(box_rows);
  map.box[2] = 1;
  map.swizzle = box_columns == kPanelColumns ? core::TensorMapArgument::Swizzle::bytes_128
                                             : core::TensorMapArgument::Swizzle::none;
  return map;
}

}  // namespace faultline::kernels::deltanet
