// SPDX-License-Identifier: Apache-2.0
// Errors that are powers of two have many causes: each is planted into right outputs, at random
// shapes, dtypes, places and sizes, and has to be read from the values alone. Faults without such
// a pattern, and outputs that only rounding moved, must give no reading. The numbers from 1000 on
// are a hold-out: the limits were shaped on the others.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline {
namespace {

using core::DataMode;
using Kind = core::ErrorReading::Kind;

/// A matrix-vector product y = A x, or (cols == 0) a copy of A; both with 8 rows a tile.
core::TrialPlan plan_of(std::int64_t rows, std::int64_t cols, core::Dtype dtype) {
  const bool copies = cols == 0;
  core::TrialPlan plan;
  plan.subject = "product";
  plan.buffers.resize(3);
  plan.buffers[0].name = "A";
  plan.buffers[0].dtype = copies ? dtype : core::Dtype::f32;
  plan.buffers[0].shape = copies ? core::Shape{rows} : core::Shape{rows, cols};
  if (!copies) plan.buffers[0].reduction = {.extent = cols, .stride = 1, .tile = 16};
  plan.buffers[1].name = "x";
  plan.buffers[1].shape = {std::max<std::int64_t>(cols, 1)};
  plan.buffers[2].name = "y";
  plan.buffers[2].dtype = dtype;
  plan.buffers[2].shape = {rows};
  plan.buffers[2].role = core::BufferRole::output;
  plan.buffers[2].tiles = {.rows = rows, .cols = 1, .tile_rows = 8, .tile_cols = 1};
  plan.reference = [=](const std::vector<core::Tensor>& in) {
    core::ReferenceTensor y;
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = copies ? in[0].at(i) : 0.0, magnitude = 0.0;
      for (std::int64_t k = 0; k < cols; ++k) {
        sum += in[0].at(i * cols + k) * in[1].at(k);
        magnitude += std::fabs(in[0].at(i * cols + k) * in[1].at(k));
      }
      y.expected.push_back(sum);
      y.bound.push_back(static_cast<double>(cols) * 0x1p-24 * magnitude);
    }
    return std::vector{y};
  };
  return plan;
}

struct Planted {
  Kind kind = Kind::offset;
  std::int64_t detail = 0, other = 0;
  bool nothing = false;  ///< no reading may come of it
};

enum class Fault {
  one_bit,
  offset,
  scale,
  saturated,
  missing,
  doubled,
  stale,
  address,
  trial,  // to be read
  noise,
  factor,
  rounding  // and not
};
constexpr Fault kFaults[] = {Fault::one_bit, Fault::offset,  Fault::scale,  Fault::saturated,
                             Fault::missing, Fault::doubled, Fault::stale,  Fault::address,
                             Fault::trial,   Fault::noise,   Fault::factor, Fault::rounding};

struct Case {
  core::TrialPlan plan;
  DataMode data = DataMode::normal;
  core::TrialResult result;
  Planted planted;
};

Case make_case(Fault fault, int number) {
  std::mt19937_64 engine(7919 * static_cast<std::uint64_t>(number) +
                         static_cast<std::uint64_t>(fault));
  const auto up_to = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  const bool digits = fault == Fault::missing || fault == Fault::doubled || fault == Fault::stale;
  const bool copies = fault == Fault::address || fault == Fault::trial;
  const std::int64_t rows = 8 * up_to(3, 12), slices = up_to(3, 7),
                     cols = copies ? 0 : 16 * slices - (up_to(0, 1) ? 0 : 5 + 2 * up_to(0, 1));
  constexpr core::Dtype kDtypes[] = {core::Dtype::f32, core::Dtype::f16, core::Dtype::bf16};
  // The last slice may be short, by 5 or 7: with others its code, or a difference to it, would be
  // that of whole slices. The small digits drown in 16 bits.
  const core::Dtype dtype = digits ? core::Dtype::f32 : kDtypes[up_to(0, 2)];
  Case c;
  c.plan = plan_of(rows, cols, copies ? core::Dtype::f32 : dtype);
  c.data = digits                    ? DataMode::digits
           : fault == Fault::address ? DataMode::address
           : fault == Fault::trial   ? DataMode::epoch
                                     : DataMode::normal;
  const std::uint64_t seed = engine(), trial = 5;
  const std::uint64_t input_seed = core::trial_seed(seed, trial);
  const std::vector<core::Tensor> inputs = stress::make_inputs(c.plan, c.data, input_seed);
  const core::ReferenceTensor reference = c.plan.reference(inputs)[0];
  const core::Dtype out = c.plan.buffers[2].dtype;
  core::Tensor y(out, {rows});
  std::uniform_real_distribution<double> unit(-1.0, 1.0);
  for (std::int64_t i = 0; i < rows; ++i) {  // right, with rounding errors of its own
    const auto n = static_cast<std::size_t>(i);
    y.set(i, reference.expected[n] + 0.4 * unit(engine) * reference.bound[n]);
  }
  const std::int64_t first = up_to(0, rows - 9), count = up_to(8, rows - first);
  const auto affected = [&](auto change) {
    for (std::int64_t i = first; i < first + count; ++i) change(i, static_cast<std::size_t>(i));
  };
  std::vector<double> codes;  // of the slices, 4^s, of the last as much as it is long
  for (std::int64_t s = 0; s < slices; ++s) {
    const auto steps = static_cast<double>(std::min<std::int64_t>(16, cols - 16 * s));
    codes.push_back(std::ldexp(steps / 16.0, static_cast<int>(2 * s)));
  }
  const std::int64_t slice = up_to(0, slices - 1), other = (slice + up_to(1, slices - 1)) % slices;
  const auto code = [&](std::int64_t s) { return codes[static_cast<std::size_t>(s)]; };
  switch (fault) {
  case Fault::one_bit: {
    const int width = static_cast<int>(8 * core::size_of(out));
    // From the exponent's bits up: of these each is a large change.
    const int mantissa = out == core::Dtype::f32 ? 23 : out == core::Dtype::f16 ? 10 : 7;
    const auto bit = static_cast<int>(up_to(mantissa, width - 3));
    const std::int64_t at = up_to(0, rows - 1);
    core::store_bits(y.bytes.data(), static_cast<std::size_t>(at), out,
                     y.bits(at) ^ (std::uint64_t{1} << bit));
    c.planted = {Kind::one_bit, bit};
    break;
  }
  case Fault::offset: {
    const double offset = std::ldexp(up_to(0, 1) ? 1.0 : -1.0, static_cast<int>(up_to(5, 8)));
    affected([&](std::int64_t i, std::size_t n) { y.set(i, reference.expected[n] + offset); });
    c.planted = {Kind::offset};
    break;
  }
  case Fault::scale: {
    const auto k = static_cast<int>(up_to(1, 6)) * (up_to(0, 1) ? 1 : -1);
    affected(
        [&](std::int64_t i, std::size_t n) { y.set(i, std::ldexp(reference.expected[n], k)); });
    c.planted = {Kind::scale, k};
    break;
  }
  case Fault::saturated: {
    double most = 0.0;
    for (const double e : reference.expected) most = std::max(most, e);
    const double limit = std::exp2(std::floor(std::log2(most)) - 2);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (reference.expected[static_cast<std::size_t>(i)] > limit) y.set(i, limit);
    }
    c.planted = {Kind::saturated};
    break;
  }
  case Fault::missing:
    affected([&](std::int64_t i, std::size_t n) { y.set(i, reference.expected[n] - code(slice)); });
    c.planted = {Kind::slice_missing, slice};
    break;
  case Fault::doubled:
    affected([&](std::int64_t i, std::size_t n) { y.set(i, reference.expected[n] + code(slice)); });
    c.planted = {Kind::slice_doubled, slice};
    break;
  case Fault::stale:
    affected([&](std::int64_t i, std::size_t n) {
      y.set(i, reference.expected[n] - code(slice) + code(other));
    });
    c.planted = {Kind::slice_stale, slice, other};
    break;
  case Fault::address: {
    const std::int64_t distance = up_to(1, first > 0 ? first : 1);
    affected(
        [&](std::int64_t i, std::size_t) { y.set(i, inputs[0].at((i - distance + rows) % rows)); });
    c.planted = {Kind::other_address, -distance};
    break;
  }
  case Fault::trial: {
    const std::int64_t back = up_to(1, 3);
    const auto before = stress::make_inputs(
        c.plan, c.data, core::trial_seed(seed, trial - static_cast<std::uint64_t>(back)));
    affected([&](std::int64_t i, std::size_t) { y.set(i, before[0].at(i)); });
    c.planted = {Kind::other_trial, back};
    break;
  }
  case Fault::noise:
    affected([&](std::int64_t i, std::size_t n) {
      y.set(i, reference.expected[n] * (1.0 + 0.37 * unit(engine)) + unit(engine));
    });
    c.planted.nothing = true;
    break;
  case Fault::factor:
    affected([&](std::int64_t i, std::size_t n) { y.set(i, 1.25 * reference.expected[n]); });
    c.planted.nothing = true;
    break;
  case Fault::rounding: c.planted.nothing = true; break;
  }
  c.result.trials = c.result.failed = c.result.wrong_values = 1;
  c.result.captures = {{trial, input_seed, core::poison_word(trial), {y}}};
  return c;
}

/// Is what was planted what is read first?
bool read_right(const Case& c, const std::vector<core::ErrorReading>& readings) {
  const auto explains = [](const core::ErrorReading& r) { return 10 * r.matched >= 9 * r.wrong; };
  if (c.planted.nothing) {
    return std::none_of(readings.begin(), readings.end(), explains);
  }
  if (readings.empty() || readings[0].kind != c.planted.kind || !explains(readings[0]))
    return false;
  const bool named = c.planted.kind != Kind::offset && c.planted.kind != Kind::saturated;
  return !named || (readings[0].detail == c.planted.detail && readings[0].other == c.planted.other);
}

class ErrorReadings : public testing::TestWithParam<int> {};

TEST_P(ErrorReadings, TellTheCausesApart) {
  constexpr int kEach = 40;
  int right = 0, all = 0;
  std::string misses;
  for (const Fault fault : kFaults) {
    for (int number = GetParam(); number < GetParam() + kEach; ++number) {
      const Case c = make_case(fault, number);
      const stress::CaptureExamination found =
          stress::examine_captures(c.plan, c.data, {&c.result});
      ++all;
      if (read_right(c, found.readings)) {
        ++right;
        continue;
      }
      misses += fmt::format("fault {} number {} ({}):", static_cast<int>(fault), number,
                            core::name_of(c.plan.buffers[2].dtype));
      for (const core::ErrorReading& r : found.readings) {
        misses += fmt::format(" {} {} of {} detail {} other {} value {}", name_of(r.kind),
                              r.matched, r.wrong, r.detail, r.other, r.value);
      }
      misses += "\n";
    }
  }
  fmt::print("readings: {} of {} right\n{}", right, all, misses);
  EXPECT_GE(100 * right, 99 * all) << misses;
}

INSTANTIATE_TEST_SUITE_P(ShapedAndHoldOut, ErrorReadings, testing::Values(0, 1000));

/// y is copied from a workspace of which tile 5 was never written: trial by trial, element by
/// element.
struct CopyCase {
  core::TrialPlan plan = plan_of(64, 0, core::Dtype::f32);
  core::TrialResult result;

  CopyCase() {
    core::BufferSpec ws = plan.buffers[2];
    ws.name = "ws";
    ws.role = core::BufferRole::workspace;
    plan.buffers.push_back(ws);
  }
  /// Elements `first` to `first + 7` of y become `bits(poisons, word, i)`.
  template <class Bits>
  void add(std::uint64_t trial, std::int64_t first, Bits&& bits) {
    const std::uint64_t seed = core::trial_seed(11, trial);
    core::Tensor y = stress::make_inputs(plan, DataMode::normal, seed)[0];
    const core::PoisonMap poisons(plan.buffers);
    const std::uint32_t word = core::poison_word(trial);
    for (std::int64_t i = first; i < first + 8; ++i) {
      core::store_bits(y.bytes.data(), static_cast<std::uint64_t>(i), y.dtype,
                       bits(poisons, word, i));
    }
    result.captures.push_back({trial, seed, word, {y}});
    ++result.trials;
    ++result.failed;
    ++result.wrong_values;
  }
  std::vector<core::ErrorReading> readings() const {
    return stress::examine_captures(plan, DataMode::normal, {&result}).readings;
  }
};

std::uint64_t tile_5_of_ws(const core::PoisonMap& poisons, std::uint32_t word, std::int64_t) {
  return core::ElementPoison(poisons, 3, word)[5 * 8];
}

TEST(ErrorReadingsOf, UnwrittenMemoryByThePlaceInItsPoison) {
  CopyCase c;
  c.add(0, 16, tile_5_of_ws);
  c.add(1, 16, tile_5_of_ws);
  c.add(2, 16, tile_5_of_ws);
  ASSERT_FALSE(c.readings().empty());
  const core::ErrorReading reading = c.readings().front();
  EXPECT_EQ(reading.kind, Kind::unwritten);
  EXPECT_EQ(reading.source, "ws");
  EXPECT_EQ(reading.detail, 5);
  EXPECT_EQ(reading.other, 1);
  EXPECT_EQ(reading.wrong, 24u);
  EXPECT_EQ(reading.matched, 24u);
  EXPECT_EQ(reading.tiles, 1u);
  EXPECT_EQ(reading.value, 0.0);
}

TEST(ErrorReadingsOf, UnwrittenMemoryIsNoOtherNaN) {
  const auto place_named = [](auto&& bits) {
    CopyCase c;
    for (std::uint64_t trial = 0; trial < 3; ++trial) c.add(trial, 16, bits);
    const auto readings = c.readings();
    return std::any_of(readings.begin(), readings.end(),
                       [](const auto& r) { return r.kind == Kind::unwritten; });
  };
  EXPECT_TRUE(place_named(tile_5_of_ws));
  // What arithmetic gives, what was laid in the element itself, and another trial's poison.
  EXPECT_FALSE(place_named([](const auto&, std::uint32_t, std::int64_t) { return 0x7fffffffu; }));
  EXPECT_FALSE(place_named([](const auto&, std::uint32_t, std::int64_t) { return 0xffc00000u; }));
  EXPECT_FALSE(place_named([](const auto& poisons, std::uint32_t word, std::int64_t i) {
    return core::ElementPoison(poisons, 2, word)[i];
  }));
  EXPECT_FALSE(place_named([](const auto& poisons, std::uint32_t word, std::int64_t i) {
    const bool first = word == core::poison_word(0);
    return tile_5_of_ws(poisons, core::poison_word(first ? 2 : 0), i);
  }));
  EXPECT_FALSE(place_named([](const auto&, std::uint32_t, std::int64_t) { return ~0u; }));
}

TEST(ErrorReadingsOf, UnwrittenSharedAndLocalMemoryAreNamedAsThat) {
  for (const bool shared : {true, false}) {
    CopyCase c;
    for (std::uint64_t trial = 0; trial < 3; ++trial) {
      c.add(trial, 16, [=](const auto&, std::uint32_t, std::int64_t) {
        return shared ? core::shared_poison_word(trial) : core::local_poison_word(trial);
      });
    }
    ASSERT_FALSE(c.readings().empty());
    const core::ErrorReading reading = c.readings().front();
    EXPECT_EQ(reading.kind, Kind::unwritten);
    EXPECT_EQ(reading.source, shared ? "shared memory" : "local memory");
    EXPECT_EQ(reading.detail, -1);
    EXPECT_EQ(reading.wrong, 24u);
    EXPECT_EQ(reading.matched, 24u);
  }
}

core::Verdict verdict_of(const core::TrialResult& result,
                         const std::vector<core::ErrorReading>& readings) {
  core::Evidence evidence;
  evidence.subject = "product";
  evidence.mode = "stress";
  core::ArmEvidence arm;
  arm.result = result;
  core::OutputTotals output;
  output.name = "y";
  output.compared_elements = 100;
  output.bad_elements = 8;
  output.bad_trials = 1;
  arm.result.outputs = {output};
  evidence.arms = {arm};
  evidence.readings = readings;
  return diagnosis::diagnose(evidence);
}

TEST(ErrorReadingsOf, SeveralCapturesWithInputsOfTheirOwn) {
  // Each holds the result of the trial before it.
  const core::TrialPlan plan = plan_of(64, 0, core::Dtype::f32);
  core::TrialResult result;
  for (std::uint64_t trial = 1; trial < 6; ++trial) {
    const std::uint64_t input_seed = core::trial_seed(11, trial);
    core::Tensor y(core::Dtype::f32, {64});
    const auto before = stress::make_inputs(plan, DataMode::epoch, core::trial_seed(11, trial - 1));
    for (std::int64_t i = 0; i < 64; ++i) y.set(i, before[0].at(i));
    result.captures.push_back({trial, input_seed, core::poison_word(trial), {y}});
  }
  const auto readings = stress::examine_captures(plan, DataMode::epoch, {&result}).readings;
  const auto found = std::find_if(readings.begin(), readings.end(),
                                  [](const auto& r) { return r.kind == Kind::other_trial; });
  ASSERT_NE(found, readings.end());
  EXPECT_EQ(found->detail, 1);
  EXPECT_EQ(found->matched, found->wrong);
}

TEST(ErrorReadingsOf, MoreSlicesThanCodes) {
  core::TrialPlan plan = plan_of(64, 256, core::Dtype::f32);
  plan.reference = [reference = plan.reference](const std::vector<core::Tensor>& inputs) {
    std::vector<core::ReferenceTensor> outputs = reference(inputs);
    for (double& bound : outputs[0].bound) bound *= 1e-3;  // the digits must not drown
    return outputs;
  };
  const std::uint64_t input_seed = core::trial_seed(11, 3);
  const auto inputs = stress::make_inputs(plan, DataMode::digits, input_seed);
  core::Tensor y(core::Dtype::f32, {64});
  for (std::int64_t i = 0; i < 64; ++i) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < 256; ++k) {
      if (k / 16 != 11) sum += inputs[0].at(i * 256 + k) * inputs[1].at(k);
    }
    y.set(i, sum);
  }
  core::TrialResult result;
  result.captures = {{3, input_seed, core::poison_word(3), {y}}};
  const auto readings = stress::examine_captures(plan, DataMode::digits, {&result}).readings;
  ASSERT_FALSE(readings.empty());
  EXPECT_EQ(readings[0].kind, Kind::slice_missing);
  EXPECT_EQ(readings[0].detail, 3);
  EXPECT_EQ(readings[0].value, 16.0);
  result.trials = result.failed = result.wrong_values = 1;
  EXPECT_THAT(verdict_of(result, readings).findings[0].headline,
              testing::HasSubstr("slice 3 or 11 of the reduction is missing"));
}

TEST(ErrorReadingWords, APlaceThatNobodyWroteIsUninitialised) {
  CopyCase c;
  for (std::uint64_t trial = 0; trial < 3; ++trial) c.add(trial, 16, tile_5_of_ws);
  const core::Verdict verdict = verdict_of(c.result, c.readings());
  ASSERT_EQ(verdict.findings[0].finding, core::FindingClass::uninitialised);
  EXPECT_THAT(verdict.findings[0].evidence, testing::Contains(testing::HasSubstr(
                                                "y: they hold the poison laid in tile 5 of ws")));
  EXPECT_THAT(verdict.findings[0].advice, testing::HasSubstr("who should write tile 5 of ws"));
}

TEST(ErrorReadingWords, StandInTheFinding) {
  const Case c = make_case(Fault::missing, 3);
  const core::Verdict verdict =
      verdict_of(c.result, stress::examine_captures(c.plan, c.data, {&c.result}).readings);
  EXPECT_EQ(verdict.findings[0].finding, core::FindingClass::unknown);
  const std::string slice = fmt::format("slice {} of the reduction is missing", c.planted.detail);
  EXPECT_THAT(verdict.findings[0].headline, testing::HasSubstr(slice));
  EXPECT_THAT(verdict.findings[0].evidence, testing::Contains(testing::HasSubstr("y: " + slice)));
}

}  // namespace
}  // namespace faultline
