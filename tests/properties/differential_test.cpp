// SPDX-License-Identifier: Apache-2.0
// The clean variants agree with their references, whatever the shape, config, inputs and schedule.
#include <string>

#include "faultline/properties/perturbations.hpp"
#include "faultline/properties/run_once.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

void check_subject(const std::string& subject, int usual, core::RaceMode race) {
  const auto domain =
      cases(subjects(), subject, simulator_limits(subjects().get(subject)), {.race = {race}});
  check_property(usual, [&] {
    const Case c = *domain.generator;
    const CaseVerdict verdict = check_case(simulator(), subjects(), c);
    if (!verdict.pass) RC_FAIL(verdict.reason);
  });
}

TEST(Differential, Gemv) { check_subject("gemv", 400, core::RaceMode::off); }
TEST(Differential, GemvRaceChecked) { check_subject("gemv", 200, core::RaceMode::strict); }
TEST(Differential, GlaDecode) { check_subject("gla_decode", 300, core::RaceMode::off); }
TEST(Differential, GlaDecodeRaceChecked) {
  check_subject("gla_decode", 150, core::RaceMode::strict);
}

TEST(Differential, OutputsDoNotDependOnTheSchedule) {
  const auto schedules = simulator_perturbations();
  for (const auto& subject : subjects().all()) {
    const auto domain = cases(subjects(), subject->name, simulator_limits(*subject));
    check_property(100, [&] {
      const Case c = *domain.generator;
      const core::TrialPlan plan = plan_of(c);
      const auto inputs = draw_inputs(plan, c.regime.data, c.regime.seed);
      core::Perturbation in_order;
      in_order.policy = core::SchedulePolicy::round_robin;
      in_order.lateness = core::CopyLateness::eager;
      LoadedPlan loaded(simulator(), plan, inputs);
      const auto expected = loaded.execute({.perturbation = in_order});
      const auto got = loaded.execute({.perturbation = *schedules.generator,
                                       .schedule_seed = *rc::gen::arbitrary<std::uint64_t>(),
                                       .poison = 1});
      for (std::size_t o = 0; o < got.size(); ++o) RC_ASSERT(got[o].bytes == expected[o].bytes);
    });
  }
}

/// The verdict on a case is a function of the case: rerunning a counterexample's line shows it.
TEST(Differential, AVerdictIsTheSameTwice) {
  for (const char* variant : {"shared_buffer", "pipelined"}) {
    const auto domain =
        cases(subjects(), "gla_decode", simulator_limits(subjects().get("gla_decode")),
              {.variants = {variant}});
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
