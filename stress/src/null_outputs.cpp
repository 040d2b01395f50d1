// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "faultline/core/acceptance.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/verify.hpp"

namespace faultline::stress {
namespace {

/// Value of element i of output o that a fake kernel would give.
using Fake = std::function<double(std::size_t o, std::size_t i)>;

bool accepts(const core::TrialPlan& plan, const std::vector<core::ReferenceTensor>& reference,
             const Fake& fake) {
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const core::BufferSpec& spec = plan.buffers[outputs[o]];
    const std::uint64_t poison = core::poison_bits(spec.dtype, core::poison_word(0));
    for (std::size_t i = 0; i < reference[o].expected.size(); ++i) {
      const core::ElementCheck check =
          core::check_element(spec.dtype, core::encode(spec.dtype, fake(o, i)),
                              reference[o].expected[i], reference[o].bound[i], poison);
      if (core::is_failure(check.kind)) return false;
    }
  }
  return true;
}

bool equals_reference(const std::vector<core::ReferenceTensor>& reference, const Fake& fake) {
  for (std::size_t o = 0; o < reference.size(); ++o) {
    for (std::size_t i = 0; i < reference[o].expected.size(); ++i) {
      if (fake(o, i) != reference[o].expected[i]) return false;
    }
  }
  return true;
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
  for (const core::ReferenceTensor& output : reference) elements += output.expected.size();

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
  if (accepts(plan, reference, zeros)) accepted.push_back("zeros");
  // Of a single element a constant is the right answer, and there is nothing to shuffle.
  if (elements > reference.size()) {
    if (accepts(plan, reference, constant)) accepted.push_back("a constant");
    if (!equals_reference(reference, shuffled) && accepts(plan, reference, shuffled)) {
      accepted.push_back("the reference shuffled");
    }
  }
  if (!inputs.empty() && inputs[0].size() > 0 && accepts(plan, reference, copied)) {
    accepted.push_back("an input copied");
  }
  // Coded inputs are equal in every trial; then there is no other result to confuse it with.
  if (!equals_reference(reference, previous) && accepts(plan, reference, previous)) {
    accepted.push_back("the result of other inputs");
  }
  return accepted;
}

}  // namespace faultline::stress
