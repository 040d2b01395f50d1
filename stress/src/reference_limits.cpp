// SPDX-License-Identifier: Apache-2.0
#include "reference_limits.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "faultline/core/visibility.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/verify.hpp"
#include "run_arm.hpp"

namespace faultline::stress::detail {
namespace {

using core::ReferenceNote;

struct RelativeBound {
  double share = 0.0;
  const char* of = "";
};

/// Root mean square of the bounds over the standard deviation of the values: an offset that all of
/// them share (1/2 of a sigmoid) hides nothing. Where they are equal but for the reference's own
/// roundings, over their size. Of the elements with a usable bound.
RelativeBound relative_bound(const core::ReferenceTensor& reference) {
  constexpr double kEqual = 1e-12;
  const auto sum = [&](const auto& square) {
    double total = 0.0;
    for (std::size_t i = 0; i < reference.expected.size(); ++i) {
      const double expected = reference.expected[i], bound = reference.bound[i];
      if (std::isfinite(expected) && std::isfinite(bound) && bound >= 0.0) {
        total += square(expected, bound);
      }
    }
    return total;
  };
  const double count = sum([](double, double) { return 1.0; });
  const double bounds = sum([](double, double bound) { return bound * bound; });
  const double size = sum([](double value, double) { return value * value; });
  if (!(size > 0.0)) return {};
  const double mean = sum([](double value, double) { return value; }) / count;
  const double spread = sum([=](double value, double) { return (value - mean) * (value - mean); });
  if (spread <= kEqual * kEqual * size) return {std::sqrt(bounds / size), "its size"};
  return {std::sqrt(bounds / spread), "the spread of its values"};
}
/// Seven times the 5 % that the root mean square of the errors alone may be (docs/tolerances.md).
constexpr double kWide = 0.35;

/// Zeros are the right answer there, and the answer of a kernel that computes nothing.
bool is_zero(const core::ReferenceTensor& reference) {
  return !reference.expected.empty() &&
         std::all_of(reference.expected.begin(), reference.expected.end(),
                     [](double x) { return x == 0.0; });
}

std::vector<ReferenceNote> zero_outputs(const core::TrialPlan& plan,
                                        const std::vector<core::ReferenceTensor>& references) {
  std::vector<ReferenceNote> notes;
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!is_zero(references[o])) continue;
    const std::string& name = plan.buffers[outputs[o]].name;
    notes.push_back({.output = name,
                     .kind = ReferenceNote::Kind::blind,
                     .text = fmt::format("an all-zero {0} would be accepted: {0} is zero with "
                                         "these inputs",
                                         name)});
  }
  return notes;
}

/// Outputs of which all zeros, or the reference moved by one element, would be accepted, and those
/// whose bound is wide next to their values.
std::vector<ReferenceNote> weak_outputs(const core::TrialPlan& plan,
                                        const std::vector<core::ReferenceTensor>& references) {
  std::vector<ReferenceNote> notes;
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const core::BufferSpec& spec = plan.buffers[outputs[o]];
    const std::vector<double>& expected = references[o].expected;
    if (expected.empty() || is_zero(references[o])) continue;
    const core::NullOutput zeros =
        core::compare_null_output(spec.dtype, references[o], [](std::size_t) { return 0.0; });
    const core::NullOutput moved =
        core::compare_null_output(spec.dtype, references[o], [&](std::size_t i) {
          return expected[(i + 1) % expected.size()];
        });
    const auto add = [&](const core::NullOutput& null, const std::string& what) {
      const std::string seen = null.rejected > 0 ? fmt::format(", but for {:.2g} % of its elements",
                                                               100.0 * null.share())
                                                 : "";
      notes.push_back({.output = spec.name,
                       .kind = ReferenceNote::Kind::blind,
                       .text = fmt::format("{} would be accepted{}", what, seen)});
    };
    if (zeros.wrong > 0 && !zeros.seen()) {
      add(zeros, "an all-zero " + spec.name);
    } else if (moved.wrong > 0 && !moved.seen()) {
      add(moved, spec.name + " moved by one element");
    }
    const RelativeBound wide = relative_bound(references[o]);
    if (wide.share > kWide) {
      notes.push_back({.output = spec.name,
                       .kind = ReferenceNote::Kind::wide,
                       .text = fmt::format("the bound of {} is {:.2g} % of {}", spec.name,
                                           100.0 * wide.share, wide.of)});
    }
  }
  return notes;
}

std::vector<ReferenceNote> notes_of(const core::TrialPlan& plan, core::DataMode data,
                                    std::uint64_t input_seed) {
  const std::vector<core::Tensor> inputs = make_inputs(plan, data, input_seed);
  const std::vector<core::ReferenceTensor> references = plan.reference(inputs);
  std::vector<ReferenceNote> notes =
      plan.reference_notes ? plan.reference_notes(inputs) : weak_outputs(plan, references);
  std::set<std::string> blind;
  for (const ReferenceNote& note : notes) {
    if (note.kind == ReferenceNote::Kind::blind) blind.insert(note.output);
  }
  for (ReferenceNote& note : zero_outputs(plan, references)) {
    if (blind.insert(note.output).second) notes.push_back(std::move(note));
  }
  if (!blind.empty() && blind.size() == plan.output_indices().size()) {
    notes.push_back({.output = "",
                     .kind = ReferenceNote::Kind::blind,
                     .text = "no output is left that could tell right from wrong"});
  }
  return notes;
}

void add_notes(core::Evidence& evidence, std::vector<ReferenceNote> notes,
               const std::string& problem, const std::string& config) {
  for (ReferenceNote& note : notes) {
    evidence.reference_notes.push_back({.problem = problem,
                                        .config = config,
                                        .output = std::move(note.output),
                                        .kind = note.kind,
                                        .text = std::move(note.text)});
  }
}

}  // namespace

std::int64_t elements_of(const core::TrialPlan& plan) {
  std::int64_t elements = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    if (!buffer.sparse) elements += buffer.elements();
  }
  return elements;
}

std::string not_examined_text(const std::string& what, const core::TrialPlan& plan,
                              std::int64_t element_limit) {
  return fmt::format("{}: {} has {} elements, and beyond {} this is left out", what,
                     plan.problem.line(), elements_of(plan), element_limit);
}

void try_null_outputs(const core::TrialPlan& plan, core::DataMode data, std::uint64_t seed,
                      std::int64_t element_limit, core::Evidence& evidence) {
  if (!plan.reference) return;
  if (elements_of(plan) > element_limit) {
    add_not_examined(evidence,
                     not_examined_text("whether a trivial output would pass", plan, element_limit));
    return;
  }
  for (const std::string& fake :
       accepted_null_outputs(plan, data, core::trial_seed(seed, 0), core::trial_seed(seed, 1))) {
    evidence.null_outputs_accepted.push_back(
        fmt::format("{} ({})", fake, plan.problem.values.line()));
  }
}

void add_reference_limits(core::Evidence& evidence, const core::TrialPlan& plan,
                          core::DataMode data, std::uint64_t input_seed, std::int64_t element_limit,
                          const std::string& problem, const std::string& config) {
  if (!plan.reference) return;
  const std::int64_t elements = elements_of(plan);
  if (!plan.reference_notes && elements > element_limit) {
    add_not_examined(evidence,
                     not_examined_text("whether an output that computes nothing would be accepted",
                                       plan, element_limit));
    return;
  }
  std::vector<ReferenceNote> notes;
  try {
    notes = notes_of(plan, data, input_seed);
  } catch (const std::exception& e) {
    notes = {{.output = "", .kind = ReferenceNote::Kind::unusable, .text = e.what()}};
  }
  add_notes(evidence, std::move(notes), problem, config);
}

void add_intermediate_limits(core::Evidence& evidence, const core::TrialPlan& base,
                             core::DataMode data, std::uint64_t input_seed,
                             std::int64_t element_limit, const std::string& problem,
                             const std::string& config) {
  const core::TrialPlan plan = core::with_intermediates(base);
  if (elements_of(plan) > element_limit) {
    add_not_examined(evidence,
                     not_examined_text("whether intermediates that hold nothing would be accepted",
                                       plan, element_limit));
    return;
  }
  std::set<std::string> outputs;
  for (const std::uint32_t index : base.output_indices()) outputs.insert(base.buffers[index].name);
  std::vector<ReferenceNote> notes;
  try {
    const std::vector<core::ReferenceTensor> references =
        plan.reference(make_inputs(plan, data, input_seed));
    notes = weak_outputs(plan, references);
    for (ReferenceNote& note : zero_outputs(plan, references)) notes.push_back(std::move(note));
  } catch (const std::exception& e) {
    notes = {{.output = "", .kind = ReferenceNote::Kind::unusable, .text = e.what()}};
  }
  std::erase_if(notes, [&](const ReferenceNote& note) { return outputs.contains(note.output); });
  add_notes(evidence, std::move(notes), problem, config);
}

}  // namespace faultline::stress::detail
