// SPDX-License-Identifier: Apache-2.0
#include "subjects.hpp"

#include <cmath>
#include <memory>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/simulator/simulator_backend.hpp"

namespace faultline::properties {

const kernels::SubjectRegistry& subjects() {
  static const kernels::SubjectRegistry registry = [] {
    kernels::SubjectRegistry all;
    kernels::register_builtin_subjects(all);
    return all;
  }();
  return registry;
}

std::vector<std::string> subject_names() {
  std::vector<std::string> names;
  for (const auto& subject : subjects().all()) names.push_back(subject->name);
  return names;
}

core::Backend& simulator() {
  static const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  return *backend;
}

std::string declared_weakness(const core::Problem& problem, const std::string& variant) {
  const kernels::Variant* known = subjects().get(problem.subject).find_variant(variant);
  return known ? known->declared_weakness(problem.values, {}) : "";
}

ValueDomain<Case> simulator_cases(const std::string& subject, CaseOptions options) {
  options.weakness = declared_weakness;
  if (is_sequence(subjects().get(subject))) options.largest_trials = 1;
  return cases(subjects(), subject, simulator_limits(subjects().get(subject)), options);
}

core::TrialPlan plan_of(const Case& c, const std::vector<core::Assignment::Value>& changed) {
  const kernels::Subject& subject = subjects().get(c.problem.subject);
  core::Problem problem = c.problem;
  for (const auto& [name, value] : changed) problem.values.set(name, value);
  problem.values =
      core::complete(subject.problem_domain, problem.values.values(), "problem of " + subject.name);
  return subject.plan(problem, c.variant, c.config);
}

core::Tensor small_integers(const core::BufferSpec& buffer, std::uint64_t seed,
                            std::uint32_t stream, float magnitude) {
  core::Tensor tensor(buffer.dtype, buffer.shape);
  core::generate_input({core::Distribution::small_int, magnitude, 0.0f}, seed, stream, tensor);
  return tensor;
}

core::Tensor sum(const core::Tensor& a, const core::Tensor& b) {
  core::Tensor result(a.dtype, a.shape);
  for (std::int64_t i = 0; i < a.size(); ++i) result.set(i, a.at(i) + b.at(i));
  return result;
}

core::Tensor part_of(const core::Tensor& whole, std::int64_t parts, std::int64_t index,
                     const core::Shape& shape) {
  core::Tensor part(whole.dtype, shape);
  const auto bytes = static_cast<std::ptrdiff_t>(whole.bytes.size()) / parts;
  if (static_cast<std::ptrdiff_t>(part.bytes.size()) != bytes) {
    throw core::UsageError("a part of " + core::to_string(whole.shape) + " is no " +
                           core::to_string(shape));
  }
  const auto begin = whole.bytes.begin() + index * bytes;
  part.bytes.assign(begin, begin + bytes);
  return part;
}

double distance_allowed(const core::Tensor& tensor, std::int64_t i, double bound) {
  return bound + 0.5 * core::ulp_at(tensor.dtype, tensor.at(i));
}

void check_same(const core::Tensor& a, const std::vector<double>& a_bound, const core::Tensor& b,
                const std::vector<double>& b_bound, bool exact) {
  RC_ASSERT(a.shape == b.shape);
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (core::stays_untouched(a_bound[n])) continue;  // it holds the poison
    if (exact) {
      RC_ASSERT(a.bits(i) == b.bits(i));
    } else if (a_bound[n] == 0.0 && b_bound[n] == 0.0) {
      RC_ASSERT(a.at(i) == b.at(i));  // each is the exact value, rounded
    } else if (a.at(i) != b.at(i)) {  // equal infinities have no distance
      RC_ASSERT(std::fabs(a.at(i) - b.at(i)) <=
                distance_allowed(a, i, a_bound[n]) + distance_allowed(b, i, b_bound[n]));
    }
  }
}

}  // namespace faultline::properties
