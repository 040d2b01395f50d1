// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/generator.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/tensor.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::core {
namespace {

constexpr Dtype kAll[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64};
constexpr Distribution kDistributions[] = {
    Distribution::normal,       Distribution::uniform,    Distribution::small_int,
    Distribution::constant,     Distribution::index,      Distribution::coin,
    Distribution::unit_row,     Distribution::common_row, Distribution::identical_row,
    Distribution::repeated_row, Distribution::digits,     Distribution::epoch,
    Distribution::wide,         Distribution::edge};

TEST(Generator, KnownValues) {
  // SplitMix64 with state 0 gives mix64(0x9e3779b97f4a7c15) first: a published test vector.
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15ull), 0xe220a8397b1dcdafull);
  EXPECT_EQ(mix64(2 * 0x9e3779b97f4a7c15ull), 0x6e789e6aa1b965f4ull);
  // Tokens and stored runs hang on these: they must never change.
  EXPECT_EQ(tensor_key(1, 0), mix64(1 + 0x9e3779b97f4a7c15ull));
  EXPECT_EQ(trial_seed(1, 0), mix64(mix64(1) ^ mix64(0x632be59bd9b4e019ull)));
  const std::uint64_t key = tensor_key(1, 0);
  const std::uint64_t r = element_bits(key, 0);
  const int sum =
      static_cast<int>((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
  EXPECT_NEAR(draw({}, key, 0), (sum - 131070) / 37837.227, 1e-6);
}

TEST(Generator, TensorEqualsDrawElementByElement) {
  for (const Dtype dtype : kAll) {
    for (const Distribution distribution : kDistributions) {
      const InputSpec spec{distribution, 3.0f, 0.7f, 50, 5};  // 42 rows and a part of one
      Tensor tensor(dtype, {7, 301});
      generate_input(spec, 42, 3, tensor);
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        const double value = draw(spec, tensor_key(42, 3), static_cast<std::uint64_t>(i));
        ASSERT_EQ(tensor.bits(i), encode(dtype, value)) << i;
      }
      Tensor again(dtype, {7, 301});
      generate_input(spec, 42, 3, again);
      EXPECT_EQ(again.bytes, tensor.bytes);
    }
  }
}

TEST(Generator, RowsHaveTheNormAndTheDirectionThatTheyPromise) {
  constexpr std::int64_t kRow = 64, kGroup = 8, kRows = 4 * kGroup;
  const auto rows = [](Distribution distribution) {
    Tensor tensor(Dtype::f64, {kRows, kRow});
    generate_input({distribution, 0.0f, 2.0f, kRow, kGroup}, 9, 1, tensor);
    return tensor.to_doubles();
  };
  const auto dot = [](const std::vector<double>& x, std::int64_t i, std::int64_t j) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < kRow; ++c) {
      sum += x[static_cast<std::size_t>(i * kRow + c)] * x[static_cast<std::size_t>(j * kRow + c)];
    }
    return sum;
  };
  for (const Distribution distribution :
       {Distribution::unit_row, Distribution::common_row, Distribution::identical_row}) {
    const std::vector<double> x = rows(distribution);
    for (std::int64_t i = 0; i < kRows; ++i) {
      EXPECT_NEAR(dot(x, i, i), 4.0, 1e-12);
    }
  }
  // Cosines between rows of one group: about 0, 1/2 and exactly 1.
  const auto mean_cosine = [&](const std::vector<double>& x, std::int64_t apart) {
    double sum = 0.0;
    for (std::int64_t i = 0; i + apart < kRows; i += kGroup) {
      sum += dot(x, i, i + apart) / 4.0;
    }
    return sum / (kRows / kGroup);
  };
  EXPECT_NEAR(mean_cosine(rows(Distribution::unit_row), 3), 0.0, 0.2);
  EXPECT_NEAR(mean_cosine(rows(Distribution::common_row), 3), 0.5, 0.2);
  EXPECT_NEAR(mean_cosine(rows(Distribution::identical_row), 3), 1.0, 1e-12);
  const std::vector<double> repeated = rows(Distribution::repeated_row);
  EXPECT_EQ(dot(repeated, 0, 0), dot(repeated, 0, 7));
  EXPECT_NE(dot(repeated, 7, 7), dot(repeated, 8, 8));  // another group
}

TEST(Generator, RefusesRowsWithoutALength) {
  Tensor tensor(Dtype::f32, {4, 4});
  EXPECT_THROW(generate_input({Distribution::unit_row, 0.0f, 1.0f}, 1, 0, tensor), UsageError);
  EXPECT_THROW(generate_input({Distribution::common_row, 0.0f, 1.0f, 4, 0}, 1, 0, tensor),
               UsageError);
}

TEST(Generator, SeedsTensorsAndTrialsDiffer) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t trial = 0; trial < 50; ++trial) {
      for (std::uint32_t tensor = 0; tensor < 5; ++tensor) {
        seen.insert(tensor_key(trial_seed(seed, trial), tensor));
      }
    }
  }
  EXPECT_EQ(seen.size(), 20u * 50 * 5);
}

TEST(Generator, MomentsAndRanges) {
  const int count = 1 << 20;
  const auto moments = [&](const InputSpec& spec) {
    double sum = 0, squares = 0, low = 1e300, high = -1e300;
    for (int i = 0; i < count; ++i) {
      const double x = draw(spec, tensor_key(9, 1), static_cast<std::uint64_t>(i));
      sum += x;
      squares += x * x;
      low = std::min(low, x);
      high = std::max(high, x);
    }
    const double mean = sum / count;
    return std::vector<double>{mean, squares / count - mean * mean, low, high};
  };
  // Standard errors: 1/1024 of the mean, about 1.2/1024 of the variance.
  const auto normal = moments({Distribution::normal, 0.0f, 1.0f});
  EXPECT_NEAR(normal[0], 0.0, 0.005);
  EXPECT_NEAR(normal[1], 1.0, 0.006);
  EXPECT_GE(normal[2], -3.47);
  EXPECT_LE(normal[3], 3.47);
  const auto shifted = moments({Distribution::normal, 5.0f, 0.5f});
  EXPECT_NEAR(shifted[0], 5.0, 0.0025);
  EXPECT_NEAR(shifted[1], 0.25, 0.0015);
  const auto uniform = moments({Distribution::uniform, -1.0f, 3.0f});
  EXPECT_NEAR(uniform[0], 1.0, 0.006);
  EXPECT_NEAR(uniform[1], 16.0 / 12, 0.006);
  EXPECT_GE(uniform[2], -1.0);
  EXPECT_LT(uniform[3], 3.0);
  const auto integers = moments({Distribution::small_int, 2.0f, 0.0f});
  EXPECT_NEAR(integers[0], 0.0, 0.007);
  EXPECT_NEAR(integers[1], 2.0, 0.01);
  EXPECT_EQ(integers[2], -2.0);
  EXPECT_EQ(integers[3], 2.0);
}

TEST(Generator, DataModes) {
  BufferSpec buffer;
  buffer.input = {Distribution::uniform, 0.25f, 0.75f};
  EXPECT_EQ(input_for(DataMode::normal, buffer), buffer.input);
  EXPECT_EQ(input_for(DataMode::exact, buffer).distribution, Distribution::small_int);
  EXPECT_EQ(input_for(DataMode::address, buffer).distribution, Distribution::index);
  buffer.exponent = true;
  EXPECT_EQ(draw(input_for(DataMode::exact, buffer), 1, 1), 0.0);
  EXPECT_EQ(input_for(DataMode::normal, buffer), buffer.input);
  for (const DataMode mode :
       {DataMode::normal, DataMode::exact, DataMode::address, DataMode::digits, DataMode::epoch,
        DataMode::illconditioned, DataMode::special}) {
    EXPECT_EQ(parse_data_mode(name_of(mode)), mode);
  }
  EXPECT_FALSE(parse_data_mode("random"));
}

std::vector<double> drawn(DataMode mode, const BufferSpec& buffer, std::uint64_t seed) {
  Tensor tensor(buffer.dtype, buffer.shape);
  generate_input(input_for(mode, buffer), seed, 0, tensor);
  return tensor.to_doubles();
}

TEST(DataModes, DigitsGiveEachSliceOfTheReductionAPowerOfFour) {
  BufferSpec b;  // B [k, n]: the reduction index is the row
  b.dtype = Dtype::f16;
  b.shape = {300, 7};
  b.reduction = {.extent = 300, .stride = 7, .tile = 32};
  const std::vector<double> values = drawn(DataMode::digits, b, 1);
  for (std::size_t column = 0; column < 7; ++column) {
    for (std::size_t slice = 0; slice < 300 / 32; ++slice) {
      double sum = 0.0;
      for (std::size_t k = 32 * slice; k < 32 * (slice + 1); ++k) sum += values[7 * k + column];
      EXPECT_EQ(sum, std::exp2(2.0 * static_cast<double>(slice % 8))) << slice;
    }
  }
  BufferSpec a;  // carries no code: its factor is 1
  a.shape = {4};
  EXPECT_EQ(drawn(DataMode::digits, a, 1), std::vector<double>(4, 1.0));
}

TEST(DataModes, DigitsAreRefusedWhereTheyCannotBeExact) {
  BufferSpec b;
  b.name = "B";
  b.shape = {300};
  EXPECT_NE(why_not(DataMode::digits, {b}), "");
  EXPECT_EQ(why_not(DataMode::exact, {b}), "");
  b.reduction = {.extent = 300, .stride = 1, .tile = 32};
  EXPECT_EQ(why_not(DataMode::digits, {b}), "");
  for (const std::int64_t tile : {0, 3, 1024}) {
    b.reduction.tile = tile;
    EXPECT_THROW(input_for(DataMode::digits, b), UsageError) << tile;
  }
}

TEST(DataModes, AnEpochMarksOneTensorOfOneTrial) {
  BufferSpec buffer;
  buffer.dtype = Dtype::bf16;
  buffer.shape = {64};
  std::set<double> codes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> values = drawn(DataMode::epoch, buffer, seed);
    EXPECT_EQ(values, std::vector<double>(64, epoch_code(tensor_key(seed, 0))));
    codes.insert(values.front());
  }
  EXPECT_GE(*codes.begin(), 1.0);
  EXPECT_LE(*codes.rbegin(), 256.0);
  EXPECT_GT(codes.size(), 100u);
}

TEST(DataModes, SpecialHoldsZerosSubnormalsAndLargeValues) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    BufferSpec buffer;
    buffer.dtype = dtype;
    buffer.shape = {4000};
    const std::vector<double> values = drawn(DataMode::special, buffer, 3);
    const double normal = dtype == Dtype::f16 ? 0x1p-14 : 0x1p-126;
    EXPECT_GT(std::count(values.begin(), values.end(), 0.0), 500);
    EXPECT_GT(std::count_if(values.begin(), values.end(),
                            [&](double x) { return x != 0.0 && std::fabs(x) < normal; }),
              500);
    EXPECT_GT(std::count(values.begin(), values.end(), 256.0), 100);
    EXPECT_GT(std::count_if(values.begin(), values.end(),
                            [](double x) { return x == 0.0 && std::signbit(x); }),
              200);
  }
}

TEST(DataModes, IllConditionedSpreadsMagnitudes) {
  BufferSpec buffer;
  buffer.shape = {4000};
  double smallest = 1e9, largest = 0.0;
  for (const double x : drawn(DataMode::illconditioned, buffer, 3)) {
    largest = std::max(largest, std::fabs(x));
    if (x != 0.0) smallest = std::min(smallest, std::fabs(x));
  }
  EXPECT_GT(largest, 256.0);
  EXPECT_LT(smallest, 0x1p-8);
}

TEST(Tensor, ShapesAreChecked) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({std::int64_t{1} << 40, 0, std::int64_t{1} << 40}), 0);
  EXPECT_THROW(element_count({2, -1}), UsageError);
  EXPECT_THROW(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}), UsageError);
  EXPECT_EQ(element_count({std::int64_t{1} << 62}), std::int64_t{1} << 62);
  EXPECT_EQ(to_string(Shape{2, 4, 64}), "[2, 4, 64]");
  Tensor tensor(Dtype::bf16, {3});
  tensor.set(1, -2.5);
  EXPECT_EQ(tensor.to_doubles(), (std::vector<double>{0.0, -2.5, 0.0}));
  tensor.bytes.pop_back();
  EXPECT_THROW(generate_input({}, 1, 0, tensor), UsageError);
}

TEST(TileGeometry, RaggedTilesAndPositions) {
  const TileGeometry g{
      .rows = 37, .cols = 29, .tile_rows = 16, .tile_cols = 16, .tiles_per_group = 4};
  EXPECT_EQ(g.tile_count(), 3 * 2);
  EXPECT_EQ(g.tile_of(0), 0);
  EXPECT_EQ(g.tile_of(16), 1);
  EXPECT_EQ(g.tile_of(29 * 36 + 28), 5);
  EXPECT_EQ(g.position_of(5), 1);
}

}  // namespace
}  // namespace faultline::core
