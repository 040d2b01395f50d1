// SPDX-License-Identifier: Apache-2.0
// The clean variants agree with their references, whatever the shape, config, inputs and schedule.
#include <string>

#include "case_property.hpp"
#include "faultline/core/acceptance.hpp"
#include "faultline/properties/perturbations.hpp"
#include "faultline/properties/run_once.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

class Differential : public testing::TestWithParam<std::string> {
 protected:
  /// Cases of one property: what a sequence of cases costs is much the same for all subjects.
  int usual(int one_step, int sequences) const {
    const kernels::Subject& subject = subjects().get(GetParam());
    // Of a product of matrices a block computes a whole tile, however small the problem.
    const core::Domain& domain = subject.problem_domain;
    if (domain.find("m") && domain.find("n") && domain.find("k")) return one_step / 8;
    return is_sequence(subject) ? sequences : one_step;
  }

  void check(int cases, core::RaceMode race) const {
    const auto domain = simulator_cases(GetParam(), {.race = {race}});
    check_on_cases(cases, domain, [](const Case& c) {
      const CaseVerdict verdict = check_case(simulator(), subjects(), c);
      if (!verdict.pass) RC_FAIL(verdict.reason);
    });
  }
};

TEST_P(Differential, AgreesWithTheReference) { check(usual(300, 150), core::RaceMode::off); }

TEST_P(Differential, AgreesAndHasNoRace) { check(usual(150, 80), core::RaceMode::strict); }

TEST_P(Differential, OutputsDoNotDependOnTheSchedule) {
  const auto schedules = simulator_perturbations();
  const auto domain = simulator_cases(GetParam());
  check_property(usual(100, 50), [&] {
    const Case c = *domain.generator;
    const core::TrialPlan plan = plan_of(c);
    if (!plan.declared_deterministic) return;  // the bound is all that it promises
    const auto inputs = draw_inputs(plan, c.regime.data, c.regime.seed);
    const auto reference = plan.reference(inputs);
    core::Perturbation in_order;
    in_order.policy = core::SchedulePolicy::round_robin;
    in_order.lateness = core::CopyLateness::eager;
    LoadedPlan loaded(simulator(), plan, inputs);
    const auto expected = loaded.execute({.perturbation = in_order});
    const auto got = loaded.execute({.perturbation = *schedules.generator,
                                     .schedule_seed = *rc::gen::arbitrary<std::uint64_t>(),
                                     .poison = 1});
    for (std::size_t o = 0; o < got.size(); ++o) {
      for (std::int64_t i = 0; i < got[o].size(); ++i) {
        // What must stay untouched holds the poison, and that differs.
        if (core::stays_untouched(reference[o].bound[static_cast<std::size_t>(i)])) continue;
        RC_ASSERT(got[o].bits(i) == expected[o].bits(i));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Subjects, Differential, testing::ValuesIn(subject_names()),
                         [](const auto& test) { return test.param; });

/// The verdict on a case is a function of the case: rerunning a counterexample's line shows it.
TEST(Cases, AVerdictIsTheSameTwice) {
  for (const char* variant : {"shared_buffer", "pipelined"}) {
    const auto domain = simulator_cases("gla_decode", {.variants = {variant}});
    check_property(20, [&] {
      const Case c = *domain.generator;
      const CaseVerdict first = check_case(simulator(), subjects(), c);
      const CaseVerdict again =
          check_case(simulator(), subjects(), parse_case(subjects(), command_line(c)));
      RC_ASSERT(first.pass == again.pass);
      RC_ASSERT(first.reason == again.reason);
      RC_ASSERT(first.result.races == again.result.races);
    });
  }
}

}  // namespace
}  // namespace faultline::properties
