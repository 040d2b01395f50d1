// SPDX-License-Identifier: Apache-2.0
// Laws between executions of one subject, for every subject that declares what they need
// (declared_laws.hpp). No reference says what is right; where rounding may differ, the tolerance is
// what the bounds of all executions and the rounding of their outputs leave.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "declared_laws.hpp"
#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/properties/run_once.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using core::Tensor;
using Indices = std::vector<std::int64_t>;
using Values = std::vector<core::Assignment::Value>;

// ---- Slices -------------------------------------------------------------------------------------

std::optional<std::size_t> place(const Axis& axis, const core::BufferSpec& buffer) {
  if (axis.places.empty()) return axis.everywhere;
  for (const Axis::Place& p : axis.places) {
    if (p.buffer == buffer.name) return p.dimension;
  }
  return std::nullopt;
}

/// Copies slices `from[i]` of `source` along a dimension to slices `to[i]` of `target`.
void copy_slices(const Tensor& source, const Indices& from, Tensor& target, const Indices& to,
                 std::size_t dimension) {
  std::size_t outer = 1, inner = core::size_of(source.dtype);
  for (std::size_t d = 0; d < source.shape.size(); ++d) {
    if (d < dimension) outer *= static_cast<std::size_t>(source.shape[d]);
    if (d > dimension) inner *= static_cast<std::size_t>(source.shape[d]);
  }
  const auto source_extent = static_cast<std::size_t>(source.shape.at(dimension));
  const auto target_extent = static_cast<std::size_t>(target.shape.at(dimension));
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::memcpy(
          target.bytes.data() + (o * target_extent + static_cast<std::size_t>(to[i])) * inner,
          source.bytes.data() + (o * source_extent + static_cast<std::size_t>(from[i])) * inner,
          inner);
    }
  }
}

Indices range(std::int64_t first, std::int64_t count) {
  Indices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

Tensor select(const Tensor& whole, const Indices& chosen, std::size_t dimension) {
  core::Shape shape = whole.shape;
  shape.at(dimension) = static_cast<std::int64_t>(chosen.size());
  Tensor part(whole.dtype, shape);
  copy_slices(whole, chosen, part, range(0, shape.at(dimension)), dimension);
  return part;
}

// ---- Calls --------------------------------------------------------------------------------------

/// A plan with the tensors of one execution.
struct Call {
  core::TrialPlan plan;
  std::vector<Tensor> inputs{}, outputs{};
  std::vector<core::ReferenceTensor> bounds{};

  const core::BufferSpec& input_spec(std::size_t i) const {
    return plan.buffers[plan.input_indices()[i]];
  }
  const core::BufferSpec& output_spec(std::size_t o) const {
    return plan.buffers[plan.output_indices()[o]];
  }
  Tensor& input(const std::string& name) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (input_spec(i).name == name) return inputs[i];
    }
    throw core::UsageError(plan.subject + " has no input " + name);
  }
  const Tensor& output(const std::string& name) const {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (output_spec(o).name == name) return outputs[o];
    }
    throw core::UsageError(plan.subject + " has no output " + name);
  }
  Call& run(std::uint64_t seed) {
    outputs = run_once(simulator(), plan, inputs, {.schedule_seed = seed, .poison = seed});
    return *this;
  }
  Call& find_bounds() {
    bounds = plan.reference(inputs);
    return *this;
  }
};

Call call_of(const Case& c, std::uint64_t seed) {
  Call call{plan_of(c)};
  call.inputs = draw_inputs(call.plan, core::DataMode::normal, seed);
  return call;
}

/// The case at these problem values, with one of the configs that it then has.
Case moved(Case c, const Values& values) {
  for (const auto& [name, value] : values) c.problem.values.set(name, value);
  const auto configs = subjects().get(c.problem.subject).configs(c.problem, c.variant);
  if (std::find(configs.begin(), configs.end(), c.config) == configs.end()) {
    c.config = configs[c.regime.seed % configs.size()];
  }
  return c;
}

const core::ParameterSpec& parameter(const Case& c, const std::string& name) {
  return *subjects().get(c.problem.subject).problem_domain.find(name);
}

/// The case with at least two steps of an axis.
Case with_two(Case c, const Axis& axis) {
  const std::int64_t two = 2 * parameter(c, axis.parameter).multiple_of;
  if (c.problem.values.integer(axis.parameter) >= two) return c;
  return moved(std::move(c), {{axis.parameter, std::to_string(two)}});
}

Case with_extent(Case c, const Axis& axis, std::int64_t extent) {
  c.problem.values.set(axis.parameter, extent);
  return c;
}

/// Bounds as a tensor, so that slices of an output have theirs.
std::vector<double> bounds_of(const Call& call, std::size_t o, const Axis& axis,
                              const Indices& chosen) {
  const auto at = place(axis, call.output_spec(o));
  if (!at) return call.bounds[o].bound;
  Tensor whole(core::Dtype::f64, call.outputs[o].shape);
  std::memcpy(whole.bytes.data(), call.bounds[o].bound.data(), whole.bytes.size());
  const Tensor part = select(whole, chosen, *at);
  std::vector<double> bounds(static_cast<std::size_t>(part.size()));
  std::memcpy(bounds.data(), part.bytes.data(), part.bytes.size());
  return bounds;
}

Tensor slices(const Call& call, std::size_t o, const Axis& axis, const Indices& chosen) {
  const auto at = place(axis, call.output_spec(o));
  return at ? select(call.outputs[o], chosen, *at) : call.outputs[o];
}

void take_slices(const Call& whole, Call& part, const Axis& axis, const Indices& chosen) {
  for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
    const auto at = place(axis, whole.input_spec(i));
    part.inputs[i] = at ? select(whole.inputs[i], chosen, *at) : whole.inputs[i];
  }
}

// ---- The laws -----------------------------------------------------------------------------------

/// What a law is applied to: a row of the table, and an axis of it where the law has one.
struct Application {
  const DeclaredLaws* declared = nullptr;
  const Axis* axis = nullptr;
};

using Law = void (*)(const Application&, const Case&);

Case at_declared(const Application& a, const Case& c) { return moved(c, a.declared->at); }

Indices permutation(std::int64_t extent) {
  Indices order = range(0, extent);
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

void permutes(const Application& a, const Case& drawn, bool exact) {
  const Case c = with_two(at_declared(a, drawn), *a.axis);
  Call one = call_of(c, c.regime.seed), other = one;
  const Indices order = permutation(c.problem.values.integer(a.axis->parameter));
  take_slices(one, other, *a.axis, order);
  one.run(1).find_bounds();
  other.run(2).find_bounds();
  for (std::size_t o = 0; o < one.outputs.size(); ++o) {
    check_same(other.outputs[o], other.bounds[o].bound, slices(one, o, *a.axis, order),
               bounds_of(one, o, *a.axis, order), exact && one.plan.declared_deterministic);
  }
}

void slices_permute(const Application& a, const Case& c) { permutes(a, c, true); }
void terms_permute(const Application& a, const Case& c) { permutes(a, c, false); }

void parts_are_the_whole(const Application& a, const Case& drawn) {
  const Case c = with_two(at_declared(a, drawn), *a.axis);
  const std::int64_t extent = c.problem.values.integer(a.axis->parameter);
  const std::int64_t step = parameter(c, a.axis->parameter).multiple_of;
  const std::int64_t cut = step * *rc::gen::inRange<std::int64_t>(1, extent / step);
  Call whole = call_of(c, c.regime.seed);
  whole.run(1).find_bounds();
  for (const Indices& chosen : {range(0, cut), range(cut, extent - cut)}) {
    const auto count = static_cast<std::int64_t>(chosen.size());
    Call part = call_of(with_extent(c, *a.axis, count), 1);
    take_slices(whole, part, *a.axis, chosen);
    part.run(2).find_bounds();
    for (std::size_t o = 0; o < part.outputs.size(); ++o) {
      check_same(part.outputs[o], part.bounds[o].bound, slices(whole, o, *a.axis, chosen),
                 bounds_of(whole, o, *a.axis, chosen), part.plan.declared_deterministic);
    }
  }
}

void slices_are_isolated(const Application& a, const Case& drawn) {
  const Case c = with_two(at_declared(a, drawn), *a.axis);
  const std::int64_t extent = c.problem.values.integer(a.axis->parameter);
  const std::int64_t changed = *rc::gen::inRange<std::int64_t>(0, extent);
  Call before = call_of(c, c.regime.seed), after = before;
  const Call others = call_of(c, c.regime.seed + 1);
  for (std::size_t i = 0; i < after.inputs.size(); ++i) {
    const auto at = place(*a.axis, after.input_spec(i));
    if (at) copy_slices(others.inputs[i], {changed}, after.inputs[i], {changed}, *at);
  }
  before.run(1).find_bounds();
  after.run(2).find_bounds();
  Indices rest = range(0, extent);
  rest.erase(rest.begin() + changed);
  for (std::size_t o = 0; o < before.outputs.size(); ++o) {
    check_same(slices(before, o, *a.axis, rest), bounds_of(before, o, *a.axis, rest),
               slices(after, o, *a.axis, rest), bounds_of(after, o, *a.axis, rest),
               before.plan.declared_deterministic);
  }
}

/// f(x + y) + f(0) = f(x) + f(y).
void is_affine(const Application& a, const Case& drawn) {
  const Case c = at_declared(a, drawn);
  Call none = call_of(c, c.regime.seed), first = none, second = none, both = none;
  std::uint32_t stream = 50;
  for (const std::string& name : a.declared->affine) {
    core::BufferSpec spec;
    spec.dtype = none.input(name).dtype;
    spec.shape = none.input(name).shape;
    none.input(name) = Tensor(spec.dtype, spec.shape);
    first.input(name) = small_integers(spec, c.regime.seed, stream++, 4.0f);
    second.input(name) = small_integers(spec, c.regime.seed, stream++, 4.0f);
    both.input(name) = sum(first.input(name), second.input(name));
  }
  std::uint64_t seed = 0;
  for (Call* call : {&none, &first, &second, &both}) call->run(++seed).find_bounds();
  for (std::size_t o = 0; o < none.outputs.size(); ++o) {
    for (std::int64_t i = 0; i < none.outputs[o].size(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      if (core::stays_untouched(none.bounds[o].bound[n])) continue;
      double allowed = 0.0;
      for (const Call* call : {&none, &first, &second, &both}) {
        allowed += distance_allowed(call->outputs[o], i, call->bounds[o].bound[n]);
      }
      const double left = both.outputs[o].at(i) + none.outputs[o].at(i);
      const double right = first.outputs[o].at(i) + second.outputs[o].at(i);
      RC_ASSERT(std::fabs(left - right) <= allowed);
    }
  }
}

/// A power of two goes through every rounding where no number is subnormal.
void scales_exactly(const Application& a, const Case& drawn) {
  const Case c = at_declared(a, drawn);
  const double factor = std::ldexp(1.0, *rc::gen::inRange(1, 4));
  Call one = call_of(c, c.regime.seed), other = one;
  for (const std::string& name : a.declared->scaled) {
    Tensor& tensor = other.input(name);
    for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, factor * tensor.at(i));
  }
  one.run(1).find_bounds();
  other.run(2);
  for (std::size_t o = 0; o < one.outputs.size(); ++o) {
    const Tensor &small = one.outputs[o], &large = other.outputs[o];
    const double smallest = core::exp2_int(core::min_exponent(small.dtype));
    for (std::int64_t i = 0; i < small.size(); ++i) {
      if (core::stays_untouched(one.bounds[o].bound[static_cast<std::size_t>(i)])) continue;
      const double value = small.at(i);
      if (value != 0.0 && std::fabs(value) <= smallest) continue;
      RC_ASSERT(large.at(i) == factor * value);
    }
  }
}

/// -1 and 1: sums of their products are exact, so that one of them changed shows.
void fill_with_signs(Tensor& tensor, std::uint64_t seed, std::uint32_t stream) {
  const std::uint64_t key = core::tensor_key(seed, stream);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const bool negative = core::element_bits(key, static_cast<std::uint64_t>(i)) >> 63;
    tensor.set(i, negative ? -1.0 : 1.0);
  }
}

void every_element_is_heard(const Application& a, const Case& drawn) {
  const Case c = moved(at_declared(a, drawn), a.declared->heard_at);
  Call before = call_of(c, c.regime.seed);
  std::uint32_t stream = 70;
  for (const std::string& name : a.declared->heard) {
    fill_with_signs(before.input(name), c.regime.seed, stream++);
  }
  Call after = before;
  Tensor& changed = after.input(*rc::gen::elementOf(a.declared->heard));
  const std::int64_t at = *rc::gen::inRange<std::int64_t>(0, changed.size());
  changed.set(at, changed.at(at) + 1.0);
  before.run(1);
  after.run(1);
  bool heard = false;
  for (std::size_t o = 0; o < before.outputs.size(); ++o) {
    heard = heard || before.outputs[o].bytes != after.outputs[o].bytes;
  }
  RC_ASSERT(heard);
}

void parts_with_the_state_handed_on(const Application& a, const Case& drawn) {
  for (const Recurrence& recurrence : a.declared->recurrences) {
    const Axis& steps = recurrence.steps;
    const Case c = with_two(at_declared(a, drawn), steps);
    const std::int64_t extent = c.problem.values.integer(steps.parameter);
    const std::int64_t cut = *rc::gen::inRange<std::int64_t>(1, extent);
    Call whole = call_of(c, c.regime.seed);
    whole.run(1).find_bounds();
    Tensor state = whole.input(recurrence.state_in);
    for (const Indices& chosen : {range(0, cut), range(cut, extent - cut)}) {
      Call part = call_of(with_extent(c, steps, static_cast<std::int64_t>(chosen.size())), 1);
      take_slices(whole, part, steps, chosen);
      part.input(recurrence.state_in) = state;
      part.run(2);
      for (std::size_t o = 0; o < part.outputs.size(); ++o) {
        if (!place(steps, part.output_spec(o))) continue;
        const std::vector<double> bound = bounds_of(whole, o, steps, chosen);
        check_same(part.outputs[o], bound, slices(whole, o, steps, chosen), bound, true);
      }
      state = part.output(recurrence.state_out);
    }
    RC_ASSERT(state.bytes == whole.output(recurrence.state_out).bytes);
  }
}

void layouts_are_twins(const Application& a, const Case& c) {
  Call one = call_of(c, c.regime.seed);
  one.run(1).find_bounds();
  for (const std::string& layout : a.declared->layouts) {
    for (const std::int64_t value : parameter(c, layout).allowed) {
      Call other{plan_of(c, {{layout, std::to_string(value)}}), one.inputs};
      other.run(2);
      for (std::size_t o = 0; o < one.outputs.size(); ++o) {
        check_same(one.outputs[o], one.bounds[o].bound, other.outputs[o], one.bounds[o].bound,
                   true);
      }
    }
  }
}

// ---- What holds of all --------------------------------------------------------------------------

void a_second_call_is_the_first(const Application&, const Case& c) {
  Call call = call_of(c, c.regime.seed);
  call.find_bounds();
  LoadedPlan loaded(simulator(), call.plan, call.inputs);
  const std::vector<Tensor> first = loaded.execute({.schedule_seed = 1, .poison = 0});
  const std::vector<Tensor> second = loaded.execute({.schedule_seed = 2, .poison = 1});
  for (std::size_t o = 0; o < first.size(); ++o) {
    check_same(first[o], call.bounds[o].bound, second[o], call.bounds[o].bound,
               call.plan.declared_deterministic);
  }
  const std::vector<Tensor> inputs = loaded.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    RC_ASSERT(inputs[i].bytes == call.inputs[i].bytes);
}

/// Another config of another clean variant, or, of a mutant, another config.
void configs_are_twins(const Application&, const Case& c) {
  const kernels::Subject& subject = subjects().get(c.problem.subject);
  const bool of_mutant = subject.find_variant(c.variant)->is_mutant;
  std::vector<Case> twins;
  for (const kernels::Variant& variant : subject.variants) {
    if (of_mutant ? variant.name != c.variant : variant.is_mutant) continue;
    if (!declared_weakness(c.problem, variant.name).empty()) continue;
    for (const core::Config& config : subject.configs(c.problem, variant.name)) {
      twins.push_back(c);
      twins.back().variant = variant.name;
      twins.back().config = config;
    }
  }
  Call one = call_of(c, c.regime.seed);
  Call other{plan_of(*rc::gen::elementOf(twins)), one.inputs};
  one.run(1).find_bounds();
  other.run(2).find_bounds();
  for (std::size_t o = 0; o < one.outputs.size(); ++o) {
    check_same(one.outputs[o], one.bounds[o].bound, other.outputs[o], other.bounds[o].bound, false);
  }
}

// ---- The table of laws and subjects -------------------------------------------------------------

std::vector<Application> along(const DeclaredLaws& d, const std::vector<Axis>& axes) {
  std::vector<Application> all;
  for (const Axis& axis : axes) all.push_back({&d, &axis});
  return all;
}
std::vector<Application> once(const DeclaredLaws& d, bool applies) {
  return applies ? std::vector<Application>{{&d, nullptr}} : std::vector<Application>{};
}

struct NamedLaw {
  const char* name;
  Law law;
  std::vector<Application> (*applications)(const DeclaredLaws&);
};

const NamedLaw kLaws[] = {
    {"SlicesPermute", slices_permute,
     [](const DeclaredLaws& d) { return along(d, d.independent); }},
    {"PartsAreTheWhole", parts_are_the_whole,
     [](const DeclaredLaws& d) { return along(d, d.independent); }},
    {"SlicesAreIsolated", slices_are_isolated,
     [](const DeclaredLaws& d) { return along(d, d.independent); }},
    {"TermsPermute", terms_permute, [](const DeclaredLaws& d) { return along(d, d.symmetric); }},
    {"IsAffine", is_affine, [](const DeclaredLaws& d) { return once(d, !d.affine.empty()); }},
    {"ScalesExactly", scales_exactly,
     [](const DeclaredLaws& d) { return once(d, !d.scaled.empty()); }},
    {"EveryElementIsHeard", every_element_is_heard,
     [](const DeclaredLaws& d) { return once(d, !d.heard.empty()); }},
    {"PartsWithTheStateHandedOn", parts_with_the_state_handed_on,
     [](const DeclaredLaws& d) { return once(d, !d.recurrences.empty()); }},
    {"LayoutsAreTwins", layouts_are_twins,
     [](const DeclaredLaws& d) { return once(d, !d.layouts.empty()); }},
    {"ASecondCallIsTheFirst", a_second_call_is_the_first,
     [](const DeclaredLaws& d) { return once(d, true); }},
    {"ConfigsAreTwins", configs_are_twins, [](const DeclaredLaws& d) { return once(d, true); }},
};

struct Check {
  const NamedLaw* law;
  Application application;
};

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const DeclaredLaws& declared : declared_laws()) {
    for (const NamedLaw& law : kLaws) {
      for (const Application& a : law.applications(declared)) all.push_back({&law, a});
    }
  }
  return all;
}

std::string name_of(const Check& check) {
  const Application& a = check.application;
  return std::string(check.law->name) + "_" + a.declared->subject +
         (a.axis ? "_" + a.axis->parameter : "");
}

/// Values alone decide. A sequence costs most: a short one, of one head.
ValueDomain<Case> law_cases(const std::string& name, std::vector<std::string> variants = {}) {
  const kernels::Subject& subject = subjects().get(name);
  ProblemLimits limits = simulator_limits(subject);
  for (ParameterLimit& limit : limits.parameters) {
    if (!is_sequence(subject)) break;
    limit = limit.name == "t" ? ParameterLimit{"t", 34, {32}} : ParameterLimit{limit.name, 1, {}};
  }
  for (const std::string& variant : variants) {
    limits = with_values(std::move(limits), subject, subject.find_variant(variant)->shows_at);
  }
  return cases(subjects(), name, limits,
               {.variants = std::move(variants),
                .data = {core::DataMode::normal},
                .race = {core::RaceMode::off},
                .largest_trials = 1,
                .weakness = declared_weakness});
}

class DeclaredLaw : public testing::TestWithParam<Check> {};

TEST_P(DeclaredLaw, Holds) {
  const Check& check = GetParam();
  const std::string& subject = check.application.declared->subject;
  const auto domain = law_cases(subject);
  check_property(is_sequence(subjects().get(subject)) ? 4 : 15,
                 [&] { check.law->law(check.application, *domain.generator); });
}

INSTANTIATE_TEST_SUITE_P(All, DeclaredLaw, testing::ValuesIn(all_checks()),
                         [](const auto& test) { return name_of(test.param); });

// ---- The table is complete and true -------------------------------------------------------------

TEST(DeclaredLaws, HaveARowForEverySubject) {
  std::vector<std::string> names;
  for (const DeclaredLaws& declared : declared_laws()) names.push_back(declared.subject);
  EXPECT_THAT(names, testing::ElementsAreArray(subject_names()));
}

TEST(DeclaredLaws, NameWhatTheSubjectHas) {
  for (const DeclaredLaws& declared : declared_laws()) {
    SCOPED_TRACE(declared.subject);
    const core::TrialPlan plan = kernels::resolve(subjects(), declared.subject, {}, {}).plan;
    std::set<std::string> buffers;
    for (const core::BufferSpec& buffer : plan.buffers) buffers.insert(buffer.name);
    std::vector<Axis> axes = declared.independent;
    axes.insert(axes.end(), declared.symmetric.begin(), declared.symmetric.end());
    for (const Axis& axis : axes) {
      EXPECT_TRUE(plan.problem.values.has(axis.parameter)) << axis.parameter;
      for (const Axis::Place& p : axis.places) EXPECT_TRUE(buffers.count(p.buffer)) << p.buffer;
    }
    for (const auto* list : {&declared.affine, &declared.scaled, &declared.heard}) {
      for (const std::string& name : *list) EXPECT_TRUE(buffers.count(name)) << name;
    }
  }
}

// ---- The laws have teeth ------------------------------------------------------------------------

/// A law and a mutant that breaks it: a law that no mutant breaks may be one that nothing breaks.
struct Bite {
  const char* law;  ///< name_of() of a check
  const char* mutant;
};

const Bite kBites[] = {
    {"SlicesPermute_masked_sum_batches", "neighbours_length"},
    {"SlicesPermute_cast_copy_rows", "ignored_pitch"},
    {"PartsAreTheWhole_masked_sum_batches", "neighbours_length"},
    {"PartsAreTheWhole_gemv_n", "wrong_config"},
    {"SlicesAreIsolated_masked_sum_batches", "neighbours_length"},
    {"TermsPermute_gemv_k", "dropped_tail"},
    {"IsAffine_attn_row", "unguarded_max"},
    {"ScalesExactly_attn_row", "unguarded_max"},
    {"ScalesExactly_unpack_bwd", "clipped_length"},
    {"EveryElementIsHeard_gemv", "dropped_tail"},
    {"PartsWithTheStateHandedOn_gdn_step", "scratch_is_input_twice"},
    {"LayoutsAreTwins_rowscale", "wrapped_offset"},
    {"LayoutsAreTwins_cast_copy", "aligned_down"},
    {"ASecondCallIsTheFirst_gdn_step", "scratch_is_input"},
    {"ASecondCallIsTheFirst_ticket_sum", "not_reset"},
    {"ConfigsAreTwins_tril_decay", "overshoot"},
};

class DeclaredLawsBite : public testing::TestWithParam<Bite> {};

TEST_P(DeclaredLawsBite, TheMutantBreaksTheLaw) {
  const std::vector<Check> checks = all_checks();
  const auto check = std::find_if(checks.begin(), checks.end(),
                                  [](const Check& c) { return name_of(c) == GetParam().law; });
  ASSERT_NE(check, checks.end());
  const auto domain = law_cases(check->application.declared->subject, {GetParam().mutant});
  const PropertyResult result =
      run_property([&] { check->law->law(check->application, *domain.generator); },
                   {.seed = kDefaultSeed, .cases = 100, .shrink = false});
  EXPECT_EQ(result.outcome, PropertyOutcome::falsified) << result.message;
  EXPECT_THAT(result.message, testing::HasSubstr("RC_ASSERT"));  // not an exception
}

INSTANTIATE_TEST_SUITE_P(Mutants, DeclaredLawsBite, testing::ValuesIn(kBites),
                         [](const auto& test) {
                           return std::string(test.param.law) + "_" + test.param.mutant;
                         });

TEST(DeclaredLaws, EachIsBrokenByAMutant) {
  for (const NamedLaw& law : kLaws) {
    EXPECT_TRUE(std::any_of(std::begin(kBites), std::end(kBites), [&](const Bite& bite) {
      return std::string(bite.law).starts_with(std::string(law.name) + "_");
    })) << law.name;
  }
}

}  // namespace
}  // namespace faultline::properties
