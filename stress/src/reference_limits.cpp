// SPDX-License-Identifier: Apache-2.0
#include "reference_limits.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "faultline/core/acceptance.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline::stress::detail {
namespace {

using core::ReferenceNote;

bool accepts_zeros(core::Dtype dtype, const core::ReferenceTensor& reference) {
  const std::uint64_t zero = core::encode(dtype, 0.0);
  const std::uint64_t poison = core::poison_bits(dtype, core::poison_word(0));
  for (std::size_t i = 0; i < reference.expected.size(); ++i) {
    if (core::is_failure(
            core::check_element(dtype, zero, reference.expected[i], reference.bound[i], poison)
                .kind)) {
      return false;
    }
  }
  return true;
}

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

std::vector<ReferenceNote> blind_outputs(const core::TrialPlan& plan,
                                         const std::vector<core::ReferenceTensor>& references) {
  std::vector<ReferenceNote> notes;
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const core::BufferSpec& spec = plan.buffers[outputs[o]];
    if (!references[o].expected.empty() && !is_zero(references[o]) &&
        accepts_zeros(spec.dtype, references[o])) {
      notes.push_back({.output = spec.name,
                       .kind = ReferenceNote::Kind::blind,
                       .text = fmt::format("an all-zero {} would be accepted", spec.name)});
    }
  }
  return notes;
}

std::vector<ReferenceNote> notes_of(const core::TrialPlan& plan, core::DataMode data,
                                    std::uint64_t input_seed) {
  const std::vector<core::Tensor> inputs = make_inputs(plan, data, input_seed);
  const std::vector<core::ReferenceTensor> references = plan.reference(inputs);
  std::vector<ReferenceNote> notes =
      plan.reference_notes ? plan.reference_notes(inputs) : blind_outputs(plan, references);
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

}  // namespace

void add_reference_limits(core::Evidence& evidence, const core::TrialPlan& plan,
                          core::DataMode data, std::uint64_t input_seed, std::int64_t element_limit,
                          const std::string& problem, const std::string& config) {
  std::int64_t elements = 0;
  for (const core::BufferSpec& buffer : plan.buffers) elements += buffer.elements();
  if (!plan.reference || (!plan.reference_notes && elements > element_limit)) return;
  std::vector<ReferenceNote> notes;
  try {
    notes = notes_of(plan, data, input_seed);
  } catch (const std::exception& e) {
    notes = {{.output = "", .kind = ReferenceNote::Kind::unusable, .text = e.what()}};
  }
  for (ReferenceNote& note : notes) {
    evidence.reference_notes.push_back({.problem = problem,
                                        .config = config,
                                        .output = std::move(note.output),
                                        .kind = note.kind,
                                        .text = std::move(note.text)});
  }
}

}  // namespace faultline::stress::detail
