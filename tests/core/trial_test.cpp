// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>

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
