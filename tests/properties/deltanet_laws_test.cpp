// SPDX-License-Identifier: Apache-2.0
// Laws between executions of the DeltaNet subjects, and of each with the others of its family: the
// gated with the ungated, the backward with the forward. They need no reference of the values;
// where rounding differs they borrow the bounds. Those of any subject (heads, linearity, calls) are
// in declared_laws_test.cpp.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "faultline/properties/run_once.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

using core::Tensor;
using Values = std::vector<core::Assignment::Value>;

/// A law draws what it needs beside the case, and asserts.
using Law = void (*)(const Case&);

/// Short sequences: laws execute several times.
ValueDomain<Case> cases_of(const std::string& subject, std::vector<std::string> variants = {}) {
  ProblemLimits limits = simulator_limits(subjects().get(subject));
  for (ParameterLimit& limit : limits.parameters) {
    limit = limit.name == "t" ? ParameterLimit{"t", 34, {32}} : ParameterLimit{limit.name, 1, {}};
  }
  return cases(subjects(), subject, limits,
               {.variants = std::move(variants),
                .data = {core::DataMode::normal},
                .race = {core::RaceMode::off},
                .largest_trials = 1,
                .weakness = declared_weakness});
}

/// The family by what its domains have.
std::vector<std::string> family(bool (*belongs)(const kernels::Subject&)) {
  std::vector<std::string> names;
  for (const auto& subject : subjects().all()) {
    if (subject->problem_domain.find("beta") && belongs(*subject)) names.push_back(subject->name);
  }
  return names;
}
bool any(const kernels::Subject&) { return true; }
bool is_gated(const kernels::Subject& subject) { return subject.problem_domain.find("gate"); }
bool is_backward(const kernels::Subject& subject) { return subject.name.ends_with("_bwd"); }
bool is_forward_sequence(const kernels::Subject& subject) {
  return is_sequence(subject) && !is_backward(subject);
}
bool is_forward(const kernels::Subject& subject) { return !is_backward(subject); }

/// Inputs that reach every output: a state to start from, no gate that ends it.
Values lively(const Case& c, Values more = {}) {
  more.insert(more.begin(), {{"states", "random"}, {"beta", "half"}});
  if (is_gated(subjects().get(c.problem.subject))) more.insert(more.begin(), {"gate", "0.1"});
  return more;
}

/// Planted by tests of the laws: every call adds 1 to the first element of each output.
bool offset_is_planted = false;

/// A plan with the tensors of one execution, by name.
class Call {
 public:
  explicit Call(core::TrialPlan plan) : plan_(std::move(plan)) {}
  Call(core::TrialPlan plan, std::uint64_t seed)
      : plan_(std::move(plan)), inputs_(draw_inputs(plan_, core::DataMode::normal, seed)) {}

  const core::TrialPlan& plan() const { return plan_; }
  bool has(std::string_view name) const { return find(plan_.input_indices(), name) >= 0; }
  bool gives(std::string_view name) const { return find(plan_.output_indices(), name) >= 0; }
  Tensor& input(std::string_view name) { return inputs_.at(place(plan_.input_indices(), name)); }
  const Tensor& output(std::string_view name) const {
    return outputs_.at(place(plan_.output_indices(), name));
  }
  const std::vector<double>& bound(std::string_view name) const {
    return references_.at(place(plan_.output_indices(), name)).bound;
  }
  std::vector<std::string> names(core::BufferRole role) const {
    std::vector<std::string> all;
    for (const core::BufferSpec& buffer : plan_.buffers) {
      if (buffer.role == role) all.push_back(buffer.name);
    }
    return all;
  }
  /// Inputs of the same name and shape.
  Call& take(Call& other) {
    if (inputs_.empty()) inputs_ = draw_inputs(plan_, core::DataMode::normal, 1);
    for (const std::string& name : names(core::BufferRole::input)) {
      if (other.has(name) && other.input(name).shape == input(name).shape) {
        input(name) = other.input(name);
      }
    }
    return *this;
  }
  Call& run(std::uint64_t seed) {
    outputs_ = run_once(simulator(), plan_, inputs_, {.schedule_seed = seed, .poison = seed});
    for (Tensor& output : outputs_) {
      if (offset_is_planted) output.set(0, output.at(0) + 1.0);
    }
    return *this;
  }
  Call& find_bounds() {
    references_ = plan_.reference(inputs_);
    return *this;
  }

 private:
  std::ptrdiff_t find(const std::vector<std::uint32_t>& indices, std::string_view name) const {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (plan_.buffers[indices[i]].name == name) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
  }
  std::size_t place(const std::vector<std::uint32_t>& indices, std::string_view name) const {
    return static_cast<std::size_t>(find(indices, name));  // at() throws where there is none
  }

  core::TrialPlan plan_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<core::ReferenceTensor> references_;
};

void fill(Tensor& tensor, double value) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, value);
}

// ---- Linearity ----------------------------------------------------------------------------------

/// Outputs are linear in the values and the state, gradients in the gradients: a power of two goes
/// through every rounding, bit for bit, where no number is subnormal, as in bf16 and fp32.
void a_power_of_two_goes_through(const Case& c) {
  const double factor = std::ldexp(1.0, *rc::gen::inRange(-3, 4));
  Call one(plan_of(c, lively(c)), c.regime.seed);
  Call scaled(one.plan(), c.regime.seed);
  for (const char* name : {"v", "h0", "state", "do", "dhT"}) {
    const bool gradient = std::string_view(name) == "do" || std::string_view(name) == "dhT";
    if (!scaled.has(name) || gradient != scaled.has("do")) continue;
    Tensor& tensor = scaled.input(name);
    for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, tensor.at(i) * factor);
  }
  one.run(1);
  scaled.run(2);
  const bool exact = c.problem.values.dtype() != core::Dtype::f16;
  if (!exact) {
    one.find_bounds();
    scaled.find_bounds();
  }
  for (const std::string& name : one.names(core::BufferRole::output)) {
    for (std::int64_t i = 0; i < one.output(name).size(); ++i) {
      const double a = one.output(name).at(i) * factor, b = scaled.output(name).at(i);
      if (exact) {
        RC_ASSERT(a == b);
      } else {
        const auto n = static_cast<std::size_t>(i);
        // The outputs' own rounding is not in their bounds.
        const double rounding = std::fabs(a) * 0x1p-10 + 0x1p-24 * (1.0 + factor);
        const double allowed = one.bound(name)[n] * factor + scaled.bound(name)[n] + rounding;
        RC_ASSERT(std::fabs(a - b) <= allowed);
      }
    }
  }
}

// ---- No step, no gate ---------------------------------------------------------------------------

/// Without beta nothing is written: the state only decays. Ungated, and with gates of zero, it is
/// the one that was given, bit for bit.
void without_beta_the_state_decays(const Case& c) {
  Call call(plan_of(c, lively(c)), c.regime.seed);
  const bool decode = call.has("state");
  const char *before = decode ? "state" : "h0", *after = decode ? "new_state" : "hT";
  fill(call.input("beta"), 0.0);
  const bool gated = call.has("g"), still = !gated || *rc::gen::arbitrary<bool>();
  if (gated && still) fill(call.input("g"), 0.0);
  call.run(1);
  if (still) {
    RC_ASSERT(call.output(after).bytes == call.input(before).bytes);
    return;
  }
  double decay = 0.0;
  for (std::int64_t i = 0; i < call.input("g").size(); ++i) decay += call.input("g").at(i);
  const Tensor &got = call.output(after), &start = call.input(before);
  const double unit = got.dtype == core::Dtype::f32 ? 1e-5 : core::exp2_int(-7);
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const double want = start.at(i) * std::exp(decay);
    RC_ASSERT(std::fabs(got.at(i) - want) <= unit * std::fabs(want) + 1e-7);
  }
}

/// Gates of zero are none: each output that both have, within the bounds of both. A mutant is
/// compared with its clean twin.
void gates_of_zero_are_none(const Case& c) {
  Call gated(plan_of(c, lively(c, {{"gate", "0"}})), c.regime.seed);
  fill(gated.input("g"), 0.0);
  Case plain = c;
  plain.problem.subject = c.problem.subject.substr(std::string_view("gated_").size());
  const kernels::Variant& variant = *subjects().get(c.problem.subject).find_variant(c.variant);
  if (variant.is_mutant) plain.variant = variant.clean_twin;
  Values values;
  for (const auto& [name, value] : gated.plan().problem.values.values()) {
    if (name != "gate") values.emplace_back(name, value);
  }
  plain.problem.values = core::Assignment(values);
  Call ungated(plan_of(plain), 1);
  ungated.take(gated);
  gated.run(1).find_bounds();
  ungated.run(2).find_bounds();
  for (const std::string& name : ungated.names(core::BufferRole::output)) {
    RC_ASSERT(gated.gives(name));
    const Tensor &a = gated.output(name), &b = ungated.output(name);
    for (std::int64_t i = 0; i < a.size(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      const double rounding =
          std::fabs(a.at(i)) * core::exp2_int(-7) * (a.dtype == core::Dtype::bf16 ? 1.0 : 0x1p-3) +
          0x1p-23;
      RC_ASSERT(std::fabs(a.at(i) - b.at(i)) <=
                gated.bound(name)[n] + ungated.bound(name)[n] + rounding);
    }
  }
}

// ---- Sequences ----------------------------------------------------------------------------------

/// Rows [first, first + count) of a tensor of one head.
Tensor rows_of(const Tensor& whole, std::int64_t rows, std::int64_t first, const Tensor& like) {
  Tensor part(whole.dtype, like.shape);
  const std::size_t row = whole.bytes.size() / static_cast<std::size_t>(rows);
  const auto begin = whole.bytes.begin() + static_cast<std::ptrdiff_t>(row) * first;
  part.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(part.bytes.size()));
  return part;
}

/// A sequence cut where a chunk ends, with the state handed on, is the whole sequence, bit for bit.
void a_sequence_is_its_parts(const Case& c) {
  const std::int64_t chunk = c.config.integer("chunk");
  const std::int64_t rest = *rc::gen::inRange<std::int64_t>(1, 20), t = chunk + rest;
  Case one_pass = c;
  one_pass.config.set("segments", "1");
  const auto plan = [&](std::int64_t length) {
    return plan_of(one_pass, lively(c, {{"b", "1"}, {"h", "1"}, {"t", std::to_string(length)}}));
  };
  Call whole(plan(t), c.regime.seed), first(plan(chunk), 1), second(plan(rest), 1);
  for (const char* name : {"q", "k", "v", "beta", "g"}) {
    if (!whole.has(name)) continue;
    first.input(name) = rows_of(whole.input(name), t, 0, first.input(name));
    second.input(name) = rows_of(whole.input(name), t, chunk, second.input(name));
  }
  whole.run(1);
  first.input("h0") = whole.input("h0");
  first.run(2);
  second.input("h0") = first.output("hT");
  second.run(3);
  RC_ASSERT(second.output("hT").bytes == whole.output("hT").bytes);
  RC_ASSERT(rows_of(whole.output("o"), t, 0, first.output("o")).bytes == first.output("o").bytes);
  RC_ASSERT(rows_of(whole.output("o"), t, chunk, second.output("o")).bytes ==
            second.output("o").bytes);
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

/// What the bound and the rounding of `a` leave of <a, b>.
double slack(const Tensor& a, const std::vector<double>& bound, const Tensor& b) {
  double sum = 0.0;
  const double unit = a.dtype == core::Dtype::f32   ? 0x1p-24
                      : a.dtype == core::Dtype::f16 ? 0x1p-11
                                                    : 0x1p-8;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    sum += std::fabs(b.at(i)) *
           (bound[static_cast<std::size_t>(i)] + unit * std::fabs(a.at(i)) + 0x1p-25);
  }
  return sum;
}

/// <o, do> + <hT, dhT> = <v, dv> + <h0, dh0>: the forward is linear in v and h0, and the backward
/// is its adjoint, whatever v and h0 it was given itself.
void the_backward_is_the_adjoint(const Case& c) {
  Call backward(plan_of(c, lively(c, {{"keys", "unit"}, {"b", "1"}, {"h", "1"}})), c.regime.seed);
  Case there = c;
  const std::string& name = c.problem.subject;
  there.problem.subject = name.substr(0, name.size() - std::string_view("bwd").size()) + "fwd";
  there.problem.values = backward.plan().problem.values;
  there.variant = "chunkwise";
  there.config.set("segments", "1");
  Call forward(plan_of(there), 1);
  forward.take(backward);
  Call direction(backward.plan(), c.regime.seed + 1);
  for (const char* linear : {"v", "h0"}) forward.input(linear) = direction.input(linear);
  forward.run(1).find_bounds();
  backward.run(2).find_bounds();
  const Tensor &d_o = backward.input("do"), &dhT = backward.input("dhT"), &v = forward.input("v"),
               &h0 = forward.input("h0");
  const double left = dot(forward.output("o"), d_o) + dot(forward.output("hT"), dhT);
  const double right = dot(backward.output("dv"), v) + dot(backward.output("dh0"), h0);
  const double allowed = slack(forward.output("o"), forward.bound("o"), d_o) +
                         slack(forward.output("hT"), forward.bound("hT"), dhT) +
                         slack(backward.output("dv"), backward.bound("dv"), v) +
                         slack(backward.output("dh0"), backward.bound("dh0"), h0);
  RC_ASSERT(std::fabs(left - right) <= allowed);
}

/// <o, do> = <q, dq>: o is linear in q, too, and hT knows nothing of it.
void queries_have_their_adjoint(const Case& c) {
  const Values values = lively(c, {{"keys", "unit"}, {"b", "1"}, {"h", "1"}});
  Call forward(plan_of(c, values), c.regime.seed);
  Case there = c;
  const std::string& name = c.problem.subject;
  there.problem.subject = name.substr(0, name.size() - std::string_view("fwd").size()) + "bwd";
  there.problem.values = forward.plan().problem.values;
  there.variant = "chunkwise";
  there.config.set("segments", "1");
  Call backward(plan_of(there), c.regime.seed + 1);
  const Tensor q = forward.input("q");
  backward.take(forward);
  backward.input("q") = Call(forward.plan(), c.regime.seed + 2).input("q");
  forward.run(1).find_bounds();
  backward.run(2).find_bounds();
  const Tensor& d_o = backward.input("do");
  const double left = dot(forward.output("o"), d_o), right = dot(backward.output("dq"), q);
  RC_ASSERT(std::fabs(left - right) <= slack(forward.output("o"), forward.bound("o"), d_o) +
                                           slack(backward.output("dq"), backward.bound("dq"), q));
}

// ---- The suite ----------------------------------------------------------------------------------

struct FamilyLaw {
  const char* name;
  bool (*belongs)(const kernels::Subject&);
  Law law;
  int cases;
};

const FamilyLaw kLaws[] = {
    {"APowerOfTwoGoesThrough", any, a_power_of_two_goes_through, 25},
    {"WithoutBetaTheStateDecays", is_forward, without_beta_the_state_decays, 40},
    {"GatesOfZeroAreNone", is_gated, gates_of_zero_are_none, 30},
    {"ASequenceIsItsParts", is_forward_sequence, a_sequence_is_its_parts, 30},
    {"TheBackwardIsTheAdjoint", is_backward, the_backward_is_the_adjoint, 30},
    {"QueriesHaveTheirAdjoint", is_forward_sequence, queries_have_their_adjoint, 20},
};

struct LawOfSubject {
  const FamilyLaw* law;
  std::string subject;
};

std::vector<LawOfSubject> laws_of_subjects() {
  std::vector<LawOfSubject> all;
  for (const FamilyLaw& law : kLaws) {
    for (std::string& subject : family(law.belongs)) all.push_back({&law, std::move(subject)});
  }
  return all;
}

class Family : public testing::TestWithParam<LawOfSubject> {};

TEST_P(Family, KeepsTheLaw) {
  const auto domain = cases_of(GetParam().subject);
  check_property(GetParam().law->cases, [&] { GetParam().law->law(*domain.generator); });
}

INSTANTIATE_TEST_SUITE_P(Laws, Family, testing::ValuesIn(laws_of_subjects()), [](const auto& test) {
  return std::string(test.param.law->name) + "_" + test.param.subject;
});

// ---- The laws have teeth ------------------------------------------------------------------------

struct Bite {
  const char* name;
  const char* subject;
  const char* mutant;  ///< null: a clean variant, with an offset planted
  Law law;
};

const Bite kBites[] = {
    {"power_of_two", "deltanet_fwd", nullptr, a_power_of_two_goes_through},
    {"decay", "gated_deltanet_fwd", "gamma_twice", without_beta_the_state_decays},
    {"gate", "gated_deltanet_fwd", "strict_tril", gates_of_zero_are_none},
    {"parts", "deltanet_fwd", nullptr, a_sequence_is_its_parts},
    {"adjoint_du", "deltanet_bwd", "drop_du_corr", the_backward_is_the_adjoint},
    {"adjoint_dh", "gated_deltanet_bwd", "drop_dh_coefficient", the_backward_is_the_adjoint},
    {"adjoint_q", "deltanet_fwd", "strict_tril", queries_have_their_adjoint},
};

class FamilyBites : public testing::TestWithParam<Bite> {
 protected:
  void TearDown() override { offset_is_planted = false; }
};

TEST_P(FamilyBites, TheDefectBreaksTheLaw) {
  const Bite& bite = GetParam();
  offset_is_planted = !bite.mutant;
  const auto domain = cases_of(bite.subject, bite.mutant ? std::vector<std::string>{bite.mutant}
                                                         : std::vector<std::string>{});
  const PropertyResult result = run_property([&] { bite.law(*domain.generator); },
                                             {.seed = kDefaultSeed, .cases = 60, .shrink = false});
  EXPECT_EQ(result.outcome, PropertyOutcome::falsified) << result.message;
  EXPECT_THAT(result.message, testing::HasSubstr("RC_ASSERT"));  // not an exception
}

TEST(FamilyLaws, EachIsBrokenByADefect) {
  for (const FamilyLaw& law : kLaws) {
    EXPECT_TRUE(std::any_of(std::begin(kBites), std::end(kBites), [&](const Bite& bite) {
      return bite.law == law.law;
    })) << law.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Mutants, FamilyBites, testing::ValuesIn(kBites),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace faultline::properties
