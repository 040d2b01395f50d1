// SPDX-License-Identifier: Apache-2.0
// Laws between executions of one subject. They need no reference, so they also guard against a
// reference that shares a mistake with the kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "case_property.hpp"
#include "faultline/properties/run_once.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using core::Tensor;

// Inputs and outputs of gla_decode in plan order.
enum GlaInput : std::size_t { kQ, kK, kV, kGk, kState };
enum GlaOutput : std::size_t { kO, kNewState };
constexpr std::size_t kA = 0, kX = 1;  // of gemv

/// A law draws what it needs beside the case, and asserts.
using Law = void (*)(const Case&);

/// Values alone decide: empty `variants` are the clean ones.
ValueDomain<Case> cases_of(const std::string& subject, std::vector<std::string> variants = {}) {
  return simulator_cases(subject, {.variants = std::move(variants), .race = {core::RaceMode::off}});
}

void check_law(const std::string& subject, Law law) { check_on_cases(100, cases_of(subject), law); }

std::vector<Tensor> run(const core::TrialPlan& plan, const std::vector<Tensor>& inputs,
                        std::uint64_t seed) {
  return run_once(simulator(), plan, inputs, {.schedule_seed = seed, .poison = seed});
}

std::vector<Tensor> inputs_of(const Case& c, const core::TrialPlan& plan) {
  return draw_inputs(plan, c.regime.data, c.regime.seed);
}

std::string number(std::int64_t value) { return std::to_string(value); }

/// gla_decode inputs of small integers, gates 0: every intermediate is an integer of at most
/// 2 * dk * (1 + 1), exact in bf16 up to dk = 64.
std::vector<Tensor> exact_gla_inputs(const core::TrialPlan& plan, std::uint64_t seed) {
  std::vector<Tensor> inputs;
  for (const std::uint32_t i : plan.input_indices()) {
    inputs.push_back(small_integers(plan.buffers[i], seed, i, i == kGk ? 0.0f : 1.0f));
  }
  return inputs;
}

/// A of which every row has at most 100 elements that are not 0, spread over all of k: sums of
/// products with |x| <= 2 are exact in bf16 however long the row.
Tensor sparse_integers(const core::BufferSpec& buffer, std::uint64_t seed) {
  Tensor a = small_integers(buffer, seed, kA);
  const std::int64_t rows = buffer.shape[0], k = buffer.shape[1];
  const auto keep_one_in = static_cast<std::uint64_t>(std::max<std::int64_t>(1, k / 50));
  const std::uint64_t key = core::tensor_key(seed, 99);
  for (std::int64_t row = 0; row < rows; ++row) {
    int kept = 0;
    for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
      if (core::element_bits(key, static_cast<std::uint64_t>(i)) % keep_one_in != 0 ||
          kept == 100) {
        a.set(i, 0.0);
      } else {
        ++kept;
      }
    }
  }
  return a;
}

bool equal_values(const Tensor& a, const Tensor& b) { return a.to_doubles() == b.to_doubles(); }

bool equal_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.bytes == y.bytes; });
}

// ---- gla_decode ---------------------------------------------------------------------------------

void a_batch_of_two_is_two_batches_of_one(const Case& c) {
  const core::TrialPlan both = plan_of(c, {{"b", "2"}}), one = plan_of(c, {{"b", "1"}});
  const std::vector<Tensor> inputs = inputs_of(c, both);
  const std::vector<Tensor> together = run(both, inputs, 1);
  const std::vector<std::uint32_t> in = one.input_indices(), out = one.output_indices();
  for (std::int64_t half = 0; half < 2; ++half) {
    std::vector<Tensor> own;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      own.push_back(part_of(inputs[i], 2, half, one.buffers[in[i]].shape));
    }
    const std::vector<Tensor> alone = run(one, own, 2);
    for (std::size_t o = 0; o < alone.size(); ++o) {
      RC_ASSERT(part_of(together[o], 2, half, one.buffers[out[o]].shape).bytes == alone[o].bytes);
    }
  }
}

TEST(GlaDecode, ABatchOfTwoIsTwoBatchesOfOne) {
  check_law("gla_decode", a_batch_of_two_is_two_batches_of_one);
}

void heads_are_isolated(const Case& c) {
  const std::int64_t heads = *rc::gen::inRange<std::int64_t>(2, 5);
  const std::int64_t changed = *rc::gen::inRange<std::int64_t>(0, heads);
  const core::TrialPlan plan = plan_of(c, {{"b", "1"}, {"h", number(heads)}});
  std::vector<Tensor> inputs = draw_inputs(plan, core::DataMode::normal, c.regime.seed);
  const std::vector<Tensor> before = run(plan, inputs, 1);
  const std::vector<Tensor> others = draw_inputs(plan, core::DataMode::normal, c.regime.seed + 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t bytes = inputs[i].bytes.size() / static_cast<std::size_t>(heads);
    const std::size_t at = bytes * static_cast<std::size_t>(changed);
    std::memcpy(inputs[i].bytes.data() + at, others[i].bytes.data() + at, bytes);
  }
  const std::vector<Tensor> after = run(plan, inputs, 2);
  for (std::size_t o = 0; o < after.size(); ++o) {
    const std::size_t bytes = after[o].bytes.size() / static_cast<std::size_t>(heads);
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::size_t at = bytes * static_cast<std::size_t>(head);
      const bool same =
          std::memcmp(before[o].bytes.data() + at, after[o].bytes.data() + at, bytes) == 0;
      RC_ASSERT(same == (head != changed));
    }
  }
}

TEST(GlaDecode, AHeadsInputsReachItsOutputsAlone) { check_law("gla_decode", heads_are_isolated); }

void is_linear_in_state_and_value(const Case& c) {
  const std::int64_t dk = 16 * *rc::gen::inRange<std::int64_t>(1, 5);
  const char* scale = *rc::gen::element("1", "-0.5", "2");
  const core::TrialPlan plan = plan_of(c, {{"b", "1"}, {"dk", number(dk)}, {"scale", scale}});
  std::vector<Tensor> first = exact_gla_inputs(plan, c.regime.seed), second = first;
  second[kState] = small_integers(plan.buffers[kState], c.regime.seed, 50);
  second[kV] = small_integers(plan.buffers[kV], c.regime.seed, 51);
  std::vector<Tensor> both = first;
  both[kState] = sum(first[kState], second[kState]);
  both[kV] = sum(first[kV], second[kV]);
  const std::vector<Tensor> a = run(plan, first, 1), b = run(plan, second, 2);
  const std::vector<Tensor> together = run(plan, both, 3);
  for (const std::size_t o : {kO, kNewState}) {
    RC_ASSERT(equal_values(together[o], sum(a[o], b[o])));
  }
}

TEST(GlaDecode, IsLinearInStateAndValueJointly) {
  check_law("gla_decode", is_linear_in_state_and_value);
}

void a_power_of_two_scales_o_alone(const Case& c) {
  const int power = *rc::gen::inRange(-3, 4);
  const double factor = std::ldexp(1.0, power);
  const core::TrialPlan plan = plan_of(c, {{"b", "1"}, {"scale", "0.25"}});
  const core::TrialPlan scaled =
      plan_of(c, {{"b", "1"}, {"scale", fmt::format("{}", 0.25 * factor)}});
  const std::vector<Tensor> inputs = draw_inputs(plan, core::DataMode::normal, c.regime.seed);
  const std::vector<Tensor> one = run(plan, inputs, 1), other = run(scaled, inputs, 2);
  RC_ASSERT(one[kNewState].bytes == other[kNewState].bytes);
  std::int64_t compared = 0;
  const double smallest = core::exp2_int(core::min_exponent(one[kO].dtype));
  for (std::int64_t i = 0; i < one[kO].size(); ++i) {
    const double a = one[kO].at(i), b = other[kO].at(i);
    // Rounding commutes with powers of two where both are normal numbers.
    if (std::fabs(a) <= smallest || std::fabs(b) <= smallest) continue;
    RC_ASSERT(b == a * factor);
    ++compared;
  }
  RC_ASSERT(compared > 0);
}

TEST(GlaDecode, AScaleOfTwoToTheKScalesOAloneAndExactly) {
  check_law("gla_decode", a_power_of_two_scales_o_alone);
}

void gla_reacts_to_every_input(const Case& c) {
  const std::int64_t dk = 16 * *rc::gen::inRange<std::int64_t>(1, 5);
  const core::TrialPlan plan = plan_of(c, {{"dk", number(dk)}, {"scale", "1"}});
  std::vector<Tensor> inputs = exact_gla_inputs(plan, c.regime.seed);
  // Column 0 of the state, value 0 and all of k are 1: each element has something to act on.
  const std::int64_t dv = plan.buffers[kV].shape.back();
  for (std::int64_t i = 0; i < inputs[kState].size(); i += dv) inputs[kState].set(i, 1.0);
  for (std::int64_t i = 0; i < inputs[kV].size(); i += dv) inputs[kV].set(i, 1.0);
  for (std::int64_t i = 0; i < inputs[kK].size(); ++i) inputs[kK].set(i, 1.0);
  LoadedPlan loaded(simulator(), plan, inputs);
  const std::vector<Tensor> before = loaded.execute();
  const auto which = *rc::gen::inRange<std::size_t>(0, inputs.size());
  const auto at = *rc::gen::inRange<std::int64_t>(0, inputs[which].size());
  inputs[which].set(at, inputs[which].at(at) + (which == kGk ? -1.0 : 1.0));
  const std::vector<Tensor> after = run(plan, inputs, 2);
  // q reaches o only; everything else reaches the state, too.
  RC_ASSERT((before[kNewState].bytes == after[kNewState].bytes) == (which == kQ));
  if (which == kQ) RC_ASSERT(before[kO].bytes != after[kO].bytes);
}

TEST(GlaDecode, ReactsToEveryInput) { check_law("gla_decode", gla_reacts_to_every_input); }

// ---- gemv ---------------------------------------------------------------------------------------

void rows_are_independent(const Case& c) {
  const std::int64_t n = c.problem.values.integer("n");
  const std::int64_t row = *rc::gen::inRange<std::int64_t>(0, n);
  const core::TrialPlan all = plan_of(c), one = plan_of(c, {{"n", "1"}});
  const std::vector<Tensor> inputs = inputs_of(c, all);
  const Tensor y = run(all, inputs, 1)[0];
  const Tensor own =
      run(one, {part_of(inputs[kA], n, row, one.buffers[kA].shape), inputs[kX]}, 2)[0];
  RC_ASSERT(own.bits(0) == y.bits(row));
}

TEST(Gemv, RowsAreIndependent) { check_law("gemv", rows_are_independent); }

void is_linear_in_x(const Case& c) {
  const core::TrialPlan plan = plan_of(c);
  const Tensor a = sparse_integers(plan.buffers[kA], c.regime.seed);
  const Tensor x1 = small_integers(plan.buffers[kX], c.regime.seed, 50);
  const Tensor x2 = small_integers(plan.buffers[kX], c.regime.seed, 51);
  const Tensor y1 = run(plan, {a, x1}, 1)[0], y2 = run(plan, {a, x2}, 2)[0];
  RC_ASSERT(equal_values(run(plan, {a, sum(x1, x2)}, 3)[0], sum(y1, y2)));
}

TEST(Gemv, IsLinearInX) { check_law("gemv", is_linear_in_x); }

void gemv_reacts_to_every_input(const Case& c) {
  const core::TrialPlan plan = plan_of(c);
  const std::int64_t k = plan.buffers[kX].shape[0];
  Tensor a = sparse_integers(plan.buffers[kA], c.regime.seed);
  Tensor x = small_integers(plan.buffers[kX], c.regime.seed, kX);
  const std::int64_t element = *rc::gen::inRange<std::int64_t>(0, a.size());
  const bool of_a = *rc::gen::arbitrary<bool>();
  // The partner of the element that will change is 1, so that the change shows in its row.
  if (of_a) {
    x.set(element % k, 1.0);
  } else {
    a.set(element, 1.0);
  }
  const Tensor before = run(plan, {a, x}, 1)[0];
  if (of_a) {
    a.set(element, a.at(element) + 1.0);
  } else {
    x.set(element % k, x.at(element % k) + 1.0);
  }
  const Tensor after = run(plan, {a, x}, 2)[0];
  RC_ASSERT(after.at(element / k) == before.at(element / k) + 1.0);
}

TEST(Gemv, ReactsToEveryInput) { check_law("gemv", gemv_reacts_to_every_input); }

// ---- both ---------------------------------------------------------------------------------------

void a_second_call_gives_the_same(const Case& c) {
  const core::TrialPlan plan = plan_of(c);
  const std::vector<Tensor> inputs = inputs_of(c, plan);
  LoadedPlan loaded(simulator(), plan, inputs);
  const std::vector<Tensor> first = loaded.execute({.schedule_seed = 1, .poison = 0});
  const std::vector<Tensor> second = loaded.execute({.schedule_seed = 2, .poison = 1});
  RC_ASSERT(equal_bits(first, second));
  RC_ASSERT(equal_bits(loaded.inputs(), inputs));
}

TEST(GlaDecode, ASecondCallGivesTheSame) { check_law("gla_decode", a_second_call_gives_the_same); }

TEST(Gemv, ASecondCallGivesTheSame) { check_law("gemv", a_second_call_gives_the_same); }

// ---- the laws have teeth ------------------------------------------------------------------------

/// A law, and a mutant that breaks it. A law that no mutant breaks may be one that nothing breaks.
struct Bite {
  const char* name;
  const char* subject;
  const char* mutant;
  Law law;
};

const Bite kBites[] = {
    {"rows", "gemv", "wrong_config", rows_are_independent},
    {"reaction_dropped", "gemv", "dropped_tail", gemv_reacts_to_every_input},
    {"reaction_doubled", "gemv", "stage_sentinel", gemv_reacts_to_every_input},
    {"linearity_poison", "gemv", "missed_rows", is_linear_in_x},
    {"second_call_poison", "gemv", "missed_rows", a_second_call_gives_the_same},
    {"second_call_race", "gla_decode", "shared_buffer", a_second_call_gives_the_same},
    {"batch_race", "gla_decode", "shared_buffer", a_batch_of_two_is_two_batches_of_one},
    {"heads_race", "gla_decode", "shared_buffer", heads_are_isolated},
    {"reaction_race", "gla_decode", "shared_buffer", gla_reacts_to_every_input},
    {"linearity_race", "gla_decode", "shared_buffer", is_linear_in_state_and_value},
    {"scale_race", "gla_decode", "shared_buffer", a_power_of_two_scales_o_alone},
};

class LawsBite : public testing::TestWithParam<Bite> {};

TEST_P(LawsBite, TheMutantBreaksTheLaw) {
  const Bite& bite = GetParam();
  const auto domain = cases_of(bite.subject, {bite.mutant});
  const PropertyResult result =
      run_property([&] { bite.law(*domain.generator); }, {.seed = kDefaultSeed, .cases = 200});
  EXPECT_EQ(result.outcome, PropertyOutcome::falsified) << result.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, LawsBite, testing::ValuesIn(kBites),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace faultline::properties
