// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/errors.hpp>
#include <faultline/core/poison.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace faultline::core {
namespace {

TEST(PoisonWord, TwoNaNsAndOneLargeFiniteNumberInEveryDtype) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    std::set<std::uint64_t> patterns;
    for (std::uint64_t trial = 0; trial < 3; ++trial) {
      const std::uint64_t bits = poison_bits(dtype, poison_word(trial));
      patterns.insert(bits);
      const double value = decode(dtype, bits);
      if (trial == 1) {
        EXPECT_TRUE(std::isfinite(value) && value > 6e4) << name_of(dtype) << " " << value;
      } else {
        EXPECT_TRUE(std::isnan(value)) << name_of(dtype) << " " << value;
      }
    }
    EXPECT_EQ(patterns.size(), 3u);
    EXPECT_EQ(poison_word(5), poison_word(2));
  }
}

std::vector<BufferSpec> poisoned_buffers(Dtype dtype) {
  return {{.name = "x", .dtype = dtype, .shape = {64}},
          {.name = "y",
           .dtype = dtype,
           .shape = {7, 10},
           .role = BufferRole::output,
           .tiles = {.rows = 7, .cols = 10, .tile_rows = 3, .tile_cols = 4}},
          {.name = "huge",
           .dtype = dtype,
           .shape = {64},
           .role = BufferRole::workspace,
           .sparse = true},
          {.name = "ws", .dtype = dtype, .shape = {600}, .role = BufferRole::workspace}};
}

TEST(Poison, NamesThePlaceInThePayloadOfItsNaNs) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    const std::vector<BufferSpec> buffers = poisoned_buffers(dtype);
    const PoisonMap map(buffers);
    EXPECT_FALSE(map.has_tiles(0));
    EXPECT_FALSE(map.has_tiles(2));
    EXPECT_EQ(map.tiles(3).tile_count(), 3);  // runs of 256
    for (std::uint64_t trial = 0; trial < 3; ++trial) {
      const std::uint32_t word = poison_word(trial);
      std::set<std::uint64_t> seen;
      for (const std::size_t b : {std::size_t{1}, std::size_t{3}}) {
        Tensor laid(dtype, buffers[b].shape);
        map.lay(b, word, laid.bytes);
        const ElementPoison poison(map, b, word);
        for (std::int64_t i = 0; i < laid.size(); ++i) {
          ASSERT_EQ(laid.bits(i), poison[i]) << name_of(dtype) << " " << b << " " << i;
          ASSERT_EQ(std::isnan(laid.at(i)), trial != 1);
          seen.insert(laid.bits(i));
          const PoisonMap::Source source = map.source_of(dtype, laid.bits(i));
          ASSERT_EQ(source.word, word);
          const PoisonedTile place{static_cast<std::uint32_t>(b), map.tiles(b).tile_of(i)};
          ASSERT_EQ(source.places, std::vector{place});
        }
      }
      EXPECT_EQ(seen.size(), 9u + 3u);
      // What arithmetic gives, and memory without tiles, is nobody's tile.
      const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
      const std::uint64_t quiet = Poison{dtype, poison_word(0), 0, 1, true}.bits(0) - 1;
      for (const std::uint64_t none :
           {sign - 1, 2 * sign - 1, quiet, quiet | sign, poison_bits(dtype, word),
            poison_bits(dtype, shared_poison_word(trial)),
            poison_bits(dtype, local_poison_word(trial))}) {
        EXPECT_TRUE(map.source_of(dtype, none).places.empty()) << name_of(dtype) << " " << none;
      }
    }
    std::vector<std::byte> short_by_one(buffers[1].bytes() - 1);
    EXPECT_THROW(map.lay(1, poison_word(0), short_by_one), UsageError);
  }
}

TEST(Poison, WhereCodesAreSharedTheyStillTellTheBuffer) {
  std::vector<BufferSpec> buffers{{.name = "y",
                                   .dtype = Dtype::bf16,
                                   .shape = {60},
                                   .role = BufferRole::output,
                                   .tiles = {.rows = 60}}};
  ASSERT_EQ(poison_codes(Dtype::bf16), 56u);
  buffers.push_back(buffers[0]);
  buffers[1].role = BufferRole::workspace;
  const PoisonMap map(buffers);
  for (const std::uint32_t b : {0u, 1u}) {
    const Poison poison = map.of(b, poison_word(2));
    EXPECT_EQ(poison.span, 28u);
    EXPECT_EQ(poison.bits(3), poison.bits(59));
    EXPECT_EQ(map.source_of(Dtype::bf16, poison.bits(59)).places,
              (std::vector<PoisonedTile>{{b, 3}, {b, 31}, {b, 59}}));
    EXPECT_EQ(map.source_of(Dtype::bf16, poison.bits(27)).places,
              (std::vector<PoisonedTile>{{b, 27}, {b, 55}}));
  }
}

TEST(Poison, MoreBuffersThanCodesShareThem) {
  std::vector<BufferSpec> buffers;
  for (int i = 0; i < 60; ++i) {
    buffers.push_back(
        {.name = "w", .dtype = Dtype::bf16, .shape = {300}, .role = BufferRole::workspace});
  }
  const PoisonMap map(buffers);
  std::set<std::uint64_t> seen;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const std::uint64_t bits = map.of(b, poison_word(0)).bits(1);
    seen.insert(bits);
    const auto places = map.source_of(Dtype::bf16, bits).places;
    EXPECT_TRUE(std::any_of(places.begin(), places.end(),
                            [b](const PoisonedTile& place) { return place.buffer == b; }));
  }
  EXPECT_EQ(seen.size(), 56u);
}

TEST(KeptReference, IsMadeOncePerCampaignForTheFixedInputs) {
  int calls = 0;
  TrialPlan plan;
  plan.reference = [&calls](const std::vector<Tensor>& inputs) {
    ++calls;
    return std::vector<ReferenceTensor>{{{2.0 * inputs.at(0).at(0)}, {0.5}}};
  };
  const TrialPlan kept = with_kept_reference(plan);
  const auto ask = [](const TrialPlan& of, double x) {
    Tensor input(Dtype::f32, {1});
    input.set(0, x);
    return of.reference({input}).at(0).expected.at(0);
  };
  EXPECT_EQ(ask(kept, 1.0), 2.0);
  EXPECT_EQ(ask(kept, 1.0), 2.0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ask(kept, 3.0), 6.0);  // other inputs never get the kept one
  EXPECT_EQ(ask(kept, 3.0), 6.0);
  EXPECT_EQ(calls, 3);
  const TrialPlan copy = kept;
  EXPECT_EQ(ask(copy, 1.0), 2.0);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(ask(plan, 1.0), 2.0);  // the plan itself keeps nothing
  EXPECT_EQ(calls, 4);
  EXPECT_FALSE(with_kept_reference(TrialPlan{}).reference);
}

}  // namespace
}  // namespace faultline::core
