// SPDX-License-Identifier: Apache-2.0
// The trial kernels' quick arithmetic against core's, on the host: the same code runs on the
// device.
#include "trial_arithmetic.hpp"

#include <gtest/gtest.h>

#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"
#include "prepare.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace faultline::cuda::arithmetic {
namespace {

using core::mix64;

/// Doubles of all kinds: random bits, neighbours of D's numbers and of midpoints between them,
/// zero, infinities, NaN.
template <Dtype D>
double specimen(std::uint64_t i) {
  const std::uint64_t r = mix64(i), kind = mix64(r) % 8;
  if (kind == 0) {
    return core::double_of(r);
  }
  if (kind == 1) {
    const double special[] = {0.0,
                              -0.0,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::nan(""),
                              65504.0,
                              65520.0,
                              std::numeric_limits<double>::denorm_min(),
                              0x1p-24,
                              0x1p-25,
                              0x1p-133,
                              0x1p-149};
    return special[r % std::size(special)];
  }
  double x = core::decode(D, r);  // a number of D; now and then not finite
  if (!std::isfinite(x)) {
    return x;
  }
  const double ulp = core::ulp_at(D, x);
  if (kind >= 4) {
    x += 0.5 * ulp;
  }
  if (kind % 2 == 0) {
    x = std::nextafter(x, kind % 4 == 0 ? HUGE_VAL : -HUGE_VAL);
  }
  return x;
}

template <Dtype D>
void conversions_equal_cores() {
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    const double x = specimen<D>(i);
    ASSERT_EQ(encode<D>(x), core::encode(D, x)) << x;
    const auto bits = static_cast<Storage<D>>(mix64(i));
    ASSERT_EQ(core::bits_of(decode<D>(bits)), core::bits_of(core::decode(D, bits))) << bits;
    double rounded = 0.0;
    if (quick_round<D>(x, rounded) && !std::isnan(x)) {
      ASSERT_EQ(core::bits_of(rounded), core::bits_of(core::round_to(D, x))) << x;
    }
    const double y = core::decode(D, bits);
    if (D != Dtype::f64 && std::isfinite(y)) {
      ASSERT_EQ(inverse_ulp<D>(y), 1.0 / core::ulp_at(D, y)) << y;
      ASSERT_EQ(half_ulp<D>(y), 0.5 * core::ulp_at(D, y)) << y;
    }
  }
}

TEST(TrialArithmetic, ConversionsEqualCores) {
  conversions_equal_cores<Dtype::f16>();
  conversions_equal_cores<Dtype::bf16>();
  conversions_equal_cores<Dtype::f32>();
  conversions_equal_cores<Dtype::f64>();
}

template <Dtype D>
void quick_check_equals_the_rule() {
  constexpr std::uint64_t kPoison = 0x7b7f;
  std::uint64_t decided = 0, divided = 0;
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    const std::uint64_t r = mix64(i + 1'000'000'000);
    const double expected = specimen<D>(i);
    const double ulp = std::isfinite(expected) ? core::ulp_at(D, core::round_to(D, expected)) : 1.0;
    // From far below an ulp to several, and what no bound may be.
    double bound = std::ldexp(ulp, static_cast<int>(r % 24) - 20);
    if (r % 50 == 0) {
      const double odd[] = {0.0, -0.0, -1.0, HUGE_VAL, std::nan("")};
      bound = odd[r / 50 % std::size(odd)];
    }
    std::uint64_t got = core::encode(D, expected);
    switch (r >> 32 & 7) {
    case 0: got = mix64(r); break;
    case 1: got = kPoison; break;
    case 2:
    case 3: got += 1; break;
    case 4: got -= 1; break;
    case 5:
      got = core::encode(D, expected + bound * std::ldexp(1.0, -static_cast<int>(r & 3)));
      break;
    default: break;
    }
    const auto stored = static_cast<Storage<D>>(got);
    const core::ElementCheck rule = core::check_element(D, stored, expected, bound, kPoison);
    const double seen = r >> 40 & 1 ? 0.0 : static_cast<double>(r >> 41 & 0xff) / 256.0;
    const QuickCheck quick = quick_check<D>(stored, expected, bound, seen);
    if (!quick.decided) {
      continue;
    }
    ++decided;
    ASSERT_EQ(rule.kind, core::ElementClass::accepted) << expected << " " << bound << " " << got;
    ASSERT_EQ(quick.error, rule.error);
    ASSERT_EQ(quick.ulps, rule.ulps);
    if (rule.ratio > seen) {
      ASSERT_EQ(quick.ratio, rule.ratio) << expected << " " << bound << " " << got;
      ++divided;
    } else {
      ASSERT_TRUE(quick.ratio == 0.0 || quick.ratio == rule.ratio);
    }
    const double value = core::decode(D, stored), nearest = core::round_to(D, expected);
    ASSERT_EQ(quick.rounded_error, value == nearest ? 0.0 : std::fabs(value - nearest));
  }
  EXPECT_GT(decided, 50'000u);
  EXPECT_TRUE(D == Dtype::f64 || divided > 1'000u) << divided;
}

TEST(TrialArithmetic, QuickCheckDecidesOnlyAsTheRuleDoes) {
  quick_check_equals_the_rule<Dtype::f16>();
  quick_check_equals_the_rule<Dtype::bf16>();
  quick_check_equals_the_rule<Dtype::f32>();
  quick_check_equals_the_rule<Dtype::f64>();
}

TEST(TrialArithmetic, NormalDrawsEqualCores) {
  for (const auto& [a, b] : {std::pair{0.0f, 1.0f}, {-1.5f, 0.25f}, {0.0f, 1e-40f}, {3e4f, 2e4f}}) {
    core::InputSpec spec;
    spec.a = a;
    spec.b = b;
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      const std::uint64_t bits = core::element_bits(7, i);
      const double x = core::draw(spec, 7, i);
      ASSERT_EQ(draw_normal<Dtype::f16>(bits, a, b), core::encode(Dtype::f16, x));
      ASSERT_EQ(draw_normal<Dtype::bf16>(bits, a, b), core::encode(Dtype::bf16, x));
      ASSERT_EQ(draw_normal<Dtype::f32>(bits, a, b), core::encode(Dtype::f32, x));
      ASSERT_EQ(draw_normal<Dtype::f64>(bits, a, b), core::encode(Dtype::f64, x));
    }
  }
}

TEST(TrialArithmetic, ErrorBinsEqualCores) {
  const auto same = [](double error) {
    ASSERT_EQ(error_bin(error), core::error_bin(error)) << error;
  };
  for (std::uint64_t i = 0; i < 200'000; ++i) same(core::double_of(mix64(i) >> 1));
  for (int exponent = -1080; exponent < 1024; ++exponent) {
    const double power = std::ldexp(1.0, exponent);
    for (const double error : {power, std::nextafter(power, 0.0), std::nextafter(power, HUGE_VAL)})
      same(error);
  }
  for (const double error : {0.0, -0.0, HUGE_VAL, std::nan("")}) same(error);
}

core::BufferSpec cut_output(Dtype dtype, std::array<std::int64_t, 4> cut) {
  core::BufferSpec spec;
  spec.name = "y";
  spec.dtype = dtype;
  spec.role = core::BufferRole::output;
  spec.tiles = {.rows = cut[0], .cols = cut[1], .tile_rows = cut[2], .tile_cols = cut[3]};
  spec.shape = {cut[0], cut[1]};
  return spec;
}

/// Chunk by chunk, thread by thread, as the prepare kernel does; returns how many vectors.
template <Dtype D>
std::uint64_t lay_all(const abi::PoisonSlot& slot, std::uint32_t word, Storage<D>* trial) {
  std::uint64_t vectors = 0;
  for (std::uint64_t begin = 0; begin < slot.elements; begin += 512) {
    const std::uint64_t end = std::min<std::uint64_t>(begin + 512, slot.elements);
    for (std::uint32_t thread = 0; thread < abi::kThreads; ++thread) {
      lay_poison<D>(slot, word, trial, begin, end, thread, abi::kThreads,
                    [&](Storage<D>* to, const Vector& vector) {
                      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(to) % 16, 0u);
                      std::memcpy(to, &vector, sizeof vector);
                      ++vectors;
                    });
    }
  }
  return vectors;
}

/// `slot.data` and the pattern aside, what the device lays is what core::PoisonMap lays.
template <Dtype D>
void poison_equals_cores() {
  std::vector<core::BufferSpec> buffers;
  for (const auto& cut : std::vector<std::array<std::int64_t, 4>>{{130, 70, 16, 32},
                                                                  {301, 1, 4, 1},
                                                                  {1, 1, 1, 1},
                                                                  {5, 64, 16, 64},
                                                                  {1, 1000, 1, 96},
                                                                  {37, 129, 7, 50},
                                                                  {64, 64, 64, 64},
                                                                  {70, 3, 2, 2},
                                                                  {9, 2048, 3, 2048},
                                                                  {1000, 5, 1000, 1}}) {
    buffers.push_back(cut_output(D, cut));
  }
  core::BufferSpec workspace = cut_output(D, {1, 1, 1, 1});
  workspace.role = core::BufferRole::workspace;
  workspace.shape = {777};
  buffers.push_back(workspace);
  const core::PoisonMap map(buffers);
  std::uint64_t vectors = 0;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const auto elements = static_cast<std::size_t>(buffers[b].elements());
    for (const std::uint64_t trial : {0, 1, 2}) {
      const std::uint32_t word = core::poison_word(trial);
      const abi::PoisonSlot slot = poison_slot(buffers[b], map.tiles(b), map.of(b, word));
      std::vector<std::byte> expected(elements * sizeof(Storage<D>));
      map.lay(b, word, expected);
      for (const std::size_t behind : {0, 1}) {  // elements behind a boundary of 16 bytes
        std::vector<Vector> memory(expected.size() / sizeof(Vector) + 2, Vector{});
        auto* const begin = reinterpret_cast<Storage<D>*>(memory.data()) + behind;
        vectors += lay_all<D>(slot, word, begin);
        ASSERT_EQ(std::memcmp(begin, expected.data(), expected.size()), 0)
            << b << " " << trial << " " << behind;
        ASSERT_EQ(begin[elements], 0) << "written beyond the end";
      }
    }
  }
  EXPECT_GT(vectors, 1000u);
}

TEST(LayPoison, EqualsCores) {
  poison_equals_cores<Dtype::f16>();
  poison_equals_cores<Dtype::bf16>();
  poison_equals_cores<Dtype::f32>();
  poison_equals_cores<Dtype::f64>();
}

TEST(LayPoison, TilesOfHugeTensorsAreThoseOfTheGeometry) {
  for (const auto& cut :
       std::vector<std::array<std::int64_t, 4>>{{70'000, 50'001, 16, 100},
                                                {3'000'000'001, 1, 12, 1},
                                                {1, 5'000'000'000, 1, 256},
                                                {1, 5'000'000'001, 1, 1'000'000},
                                                {3, 1'000'000'007, 2, 1'000'000'007},
                                                {100'000, 100'000, 100'000, 100'000}}) {
    const core::BufferSpec spec = cut_output(Dtype::f32, cut);
    const abi::PoisonSlot slot =
        poison_slot(spec, spec.tiles, core::PoisonMap({&spec, 1}).of(0, 0));
    const std::int64_t elements = spec.elements();
    ASSERT_GE(elements, std::int64_t{1} << 31);
    for (std::uint64_t n = 0; n < 20'000; ++n) {
      const auto i =
          n < 64    ? static_cast<std::int64_t>(n)
          : n < 128 ? elements - 1 - static_cast<std::int64_t>(n - 64)
                    : static_cast<std::int64_t>(mix64(n) % static_cast<std::uint64_t>(elements));
      const abi::TileRun run = abi::tile_run(slot.tiles, static_cast<std::uint64_t>(i), true);
      ASSERT_EQ(run.tile, static_cast<std::uint64_t>(spec.tiles.tile_of(i))) << i;
      ASSERT_GT(run.end, static_cast<std::uint64_t>(i));
      const auto last =
          static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(elements), run.end) - 1);
      ASSERT_EQ(spec.tiles.tile_of(last), spec.tiles.tile_of(i)) << i;
    }
  }
  const core::BufferSpec odd = cut_output(Dtype::f16, {1, std::int64_t{1} << 33, 1, 3'000'000'000});
  EXPECT_THROW(poison_slot(odd, odd.tiles, core::PoisonMap({&odd, 1}).of(0, 0)),
               core::UnsupportedError);
}

TEST(LayPoison, IsWhatTheComparisonLooksFor) {
  const std::vector<core::BufferSpec> buffers{cut_output(Dtype::bf16, {130, 70, 16, 32}),
                                              cut_output(Dtype::bf16, {37, 129, 7, 50})};
  const core::PoisonMap map(buffers);
  core::TrialPlan plan;
  plan.buffers = buffers;
  const std::vector<abi::PoisonSlot> slots = poison_slots(plan);
  abi::CompareSlot compared;
  compared.dtype = Dtype::bf16;
  compared.poison_has_tiles = true;
  compared.poison_first_code = slots[1].first_code;
  compared.poison_span = slots[1].spans * core::poison_span_unit(slots[1].dtype);
  for (const std::uint64_t trial : {0, 1, 2, 3}) {
    const core::Poison poison = map.of(1, core::poison_word(trial));
    for (std::uint64_t tile = 0; tile < 18; ++tile) {
      ASSERT_EQ(abi::poison_of(compared, trial).bits(tile), poison.bits(tile));
    }
  }
  EXPECT_NE(map.of(1, core::poison_word(0)).bits(0), map.of(0, core::poison_word(0)).bits(0));
}

}  // namespace
}  // namespace faultline::cuda::arithmetic
