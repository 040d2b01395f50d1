// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/visibility.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/verify.hpp"

namespace faultline::stress {
namespace {

/// Value of element i of output o that a fake kernel would give.
using Fake = std::function<double(std::size_t o, std::size_t i)>;

/// What all outputs together make of a fake. Those of which it gets nothing wrong decide nothing.
struct Examined {
  bool differs = false, seen = false;
  double share = 0.0;  ///< the largest of its outputs'

  /// `accepted` with what is rejected all the same: "zeros, but for 0.2 % of the elements".
  std::string name(const std::string& fake) const {
    return share > 0.0 ? fmt::format("{}, but for {:.2g} % of the elements", fake, 100.0 * share)
                       : fake;
  }
};

Examined examine(const core::TrialPlan& plan, const std::vector<core::ReferenceTensor>& reference,
                 const Fake& fake) {
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  Examined all;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const core::NullOutput here = core::compare_null_output(
        plan.buffers[outputs[o]].dtype, reference[o], [&](std::size_t i) { return fake(o, i); });
    all.differs = all.differs || here.wrong > 0;
    all.seen = all.seen || here.seen();
    all.share = std::max(all.share, here.share());
  }
  return all;
}

}  // namespace

std::vector<std::string> accepted_null_outputs(const core::TrialPlan& plan, core::DataMode data,
                                               std::uint64_t input_seed,
                                               std::uint64_t other_input_seed) {
  const std::vector<core::Tensor> inputs = make_inputs(plan, data, input_seed);
  const std::vector<core::ReferenceTensor> reference = plan.reference(inputs);
  const std::vector<core::ReferenceTensor> other =
      plan.reference(make_inputs(plan, data, other_input_seed));
  std::size_t elements = 0;
  for (const core::ReferenceTensor& output : reference) {
    elements += static_cast<std::size_t>(
        std::count_if(output.bound.begin(), output.bound.end(),
                      [](double bound) { return !core::stays_untouched(bound); }));
  }

  const Fake zeros = [](std::size_t, std::size_t) { return 0.0; };
  const Fake constant = [&](std::size_t o, std::size_t) { return reference[o].expected[0]; };
  const Fake shuffled = [&](std::size_t o, std::size_t i) {
    const std::vector<double>& values = reference[o].expected;
    return values[(i + values.size() / 2 + 1) % values.size()];
  };
  const Fake copied = [&](std::size_t o, std::size_t i) {
    const core::Tensor& input = inputs[o % inputs.size()];
    return input.at(static_cast<std::int64_t>(i) % input.size());
  };
  const Fake previous = [&](std::size_t o, std::size_t i) { return other[o].expected[i]; };

  std::vector<std::string> accepted;
  const auto examine_fake = [&](const std::string& name, const Fake& fake, bool may_be_right) {
    const Examined examined = examine(plan, reference, fake);
    if (examined.seen || (may_be_right && !examined.differs)) return;
    accepted.push_back(examined.name(name));
  };
  examine_fake("zeros", zeros, false);
  // A constant may be the right answer (of a single element, of coded inputs), so may an input be
  // (a sum of one term), and of a single element there is nothing to shuffle.
  if (elements > reference.size()) {
    examine_fake("a constant", constant, true);
    examine_fake("the reference shuffled", shuffled, true);
    if (!inputs.empty() && inputs[0].size() > 0) examine_fake("an input copied", copied, true);
  }
  // Coded inputs are equal in every trial; then there is no other result to confuse it with.
  examine_fake("the result of other inputs", previous, true);
  return accepted;
}

}  // namespace faultline::stress
