// SPDX-License-Identifier: Apache-2.0
// The simulator is a model of the device: for the same inputs both give the same outputs, within
// the bounds of both, whatever the subject, its problem and its config. Clean variants only: what a
// race does is a matter of timing.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/cuda/cuda_backend.hpp"
#include "faultline/properties/run_once.hpp"
#include "faultline/properties/run_property.hpp"
#include "faultline/properties/suite_settings.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

constexpr int kCases = 25;

class Device : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      // One context serves all subjects.
      static const std::shared_ptr<core::Backend> device = cuda::make_cuda_backend();
      device_ = device;
    } catch (const core::EnvironmentError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::shared_ptr<core::Backend> device_;
};

TEST_P(Device, GivesWhatTheSimulatorGives) {
  const auto domain = simulator_cases(GetParam(), {.race = {core::RaceMode::off}});
  int refused = 0;
  const PropertyResult result = run_property(
      [&] {
        const Case c = *domain.generator;
        const core::TrialPlan plan = plan_of(c);
        const auto inputs = draw_inputs(plan, c.regime.data, c.regime.seed);
        const auto bounds = plan.reference(inputs);
        const auto modelled = run_once(simulator(), plan, inputs);
        std::vector<core::Tensor> measured;
        try {
          measured = run_once(*device_, plan, inputs);
        } catch (const core::UnsupportedError&) {
          ++refused;  // a program for two devices, on one
          return;
        }
        for (std::size_t o = 0; o < modelled.size(); ++o) {
          check_same(modelled[o], bounds[o].bound, measured[o], bounds[o].bound, false);
        }
      },
      {.seed = kDefaultSeed, .cases = kCases});
  EXPECT_EQ(result.outcome, PropertyOutcome::held) << result.message;
  if (refused == kCases) GTEST_SKIP() << GetParam() << " does not run on this device";
  EXPECT_EQ(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Subjects, Device, testing::ValuesIn(subject_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace faultline::properties
