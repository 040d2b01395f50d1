// SPDX-License-Identifier: Apache-2.0
#include "trial_abi.hpp"

#include <faultline/core/tensor.hpp>

#include <gtest/gtest.h>

#include "comparator.hpp"

namespace faultline::cuda {
namespace {

TEST(FastDivisor, EqualsDivision) {
  constexpr std::uint32_t kLargest = (1u << 31) - 1;
  std::uint64_t state = 1;
  const auto next = [&] { return static_cast<std::uint32_t>(core::mix64(++state)) & kLargest; };
  for (int i = 0; i < 200'000; ++i) {
    const std::uint32_t divisor = (next() >> (next() % 31)) | 1u << (i % 31);
    const abi::FastDivisor fast = abi::fast_divisor(divisor);
    for (const std::uint32_t x : {next(), divisor - 1, divisor, kLargest, kLargest - 1, 0u}) {
      ASSERT_EQ(abi::divide(x, fast), x / divisor) << x << " / " << divisor;
    }
  }
  for (std::uint32_t divisor = 1; divisor < 300; ++divisor) {
    for (std::uint32_t x = 0; x < 2000; ++x) {
      ASSERT_EQ(abi::divide(x, abi::fast_divisor(divisor)), x / divisor);
    }
  }
}

TEST(TileOf, EqualsTheGeometrys) {
  for (const auto& [rows, cols, tile_rows, tile_cols] :
       {std::array{130, 70, 16, 32}, std::array{3001, 1, 4, 1}, std::array{1, 1, 1, 1},
        std::array{5, 64, 16, 64}}) {
    core::TileGeometry geometry;
    geometry.rows = rows;
    geometry.cols = cols;
    geometry.tile_rows = tile_rows;
    geometry.tile_cols = tile_cols;
    abi::CompareSlot slot;
    slot.cols = abi::fast_divisor(static_cast<std::uint32_t>(cols));
    slot.tile_rows = abi::fast_divisor(static_cast<std::uint32_t>(tile_rows));
    slot.tile_cols = abi::fast_divisor(static_cast<std::uint32_t>(tile_cols));
    slot.tiles_across = static_cast<std::uint32_t>(geometry.tiles_across());
    for (std::int64_t i = 0; i < geometry.rows * geometry.cols; ++i) {
      ASSERT_EQ(abi::tile_of(slot, static_cast<std::uint32_t>(i)), geometry.tile_of(i)) << i;
    }
  }
}

TEST(NumberChunks, ContinuesFromWhereItBegins) {
  const std::array<std::uint64_t, 3> elements{1, 512, 513};
  std::array<std::uint32_t, 4> chunks{};
  number_chunks(elements, 512, 10, chunks);
  EXPECT_EQ(chunks, (std::array<std::uint32_t, 4>{10, 11, 12, 14}));
}

TEST(KernelParameters, FitIntoALaunch) {
  EXPECT_LE(sizeof(abi::PrepareParameters), 4096u);
  EXPECT_LE(sizeof(abi::CompareParameters), 4096u);
}

}  // namespace
}  // namespace faultline::cuda
