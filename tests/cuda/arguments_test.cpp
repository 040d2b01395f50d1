// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <faultline/core/errors.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace faultline::cuda {
namespace {

std::byte g_memory[256];

void no_map(const core::TensorMapArgument&, std::byte*, std::byte*) { FAIL(); }

TEST(PackedArguments, BuffersScalarsAndTensorMapsInOrder) {
  const std::vector<BoundBuffer> bindings{{g_memory, 64}, {g_memory + 64, 192}};
  core::TensorMapArgument map;
  map.buffer = 1;
  map.byte_offset = 32;
  const std::vector<core::Argument> arguments{core::BufferArgument{1, 16},
                                              core::ScalarArgument{0x1122334455667788u, 4}, map};
  std::byte* encoded_base = nullptr;
  PackedArguments packed(arguments, bindings,
                         [&](const core::TensorMapArgument&, std::byte* base, std::byte* out) {
                           encoded_base = base;
                           std::memset(out, 0xab, 128);
                         });
  ASSERT_EQ(packed.size(), 3u);
  std::byte* pointer = nullptr;
  std::memcpy(&pointer, packed.pointers()[0], sizeof pointer);
  EXPECT_EQ(pointer, g_memory + 80);
  std::uint32_t scalar = 0;
  std::memcpy(&scalar, packed.pointers()[1], sizeof scalar);
  EXPECT_EQ(scalar, 0x55667788u);
  EXPECT_EQ(encoded_base, g_memory + 96);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed.pointers()[2]) % 64, 0u);
  EXPECT_EQ(static_cast<unsigned char*>(packed.pointers()[2])[127], 0xab);

  const void* before = packed.pointers()[1];
  PackedArguments moved = std::move(packed);
  EXPECT_EQ(moved.pointers()[1], before);  // launches keep pointing at the values
}

TEST(PackedArguments, RefusesWhatDoesNotFit) {
  const std::vector<BoundBuffer> bindings{{g_memory, 64}};
  const auto pack = [&](const core::Argument& argument) {
    PackedArguments(std::span(&argument, 1), bindings, no_map);
  };
  EXPECT_THROW(pack(core::BufferArgument{1, 0}), core::UsageError);
  EXPECT_THROW(pack(core::BufferArgument{0, 65}), core::UsageError);
  EXPECT_NO_THROW(pack(core::BufferArgument{0, 64}));
  EXPECT_THROW(pack(core::ScalarArgument{1, 0}), core::UsageError);
  EXPECT_THROW(pack(core::ScalarArgument{1, 9}), core::UsageError);
  EXPECT_THROW(address_of({0, 60}, bindings, 8, "a copy"), core::UsageError);
}

}  // namespace
}  // namespace faultline::cuda
