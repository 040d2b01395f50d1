// SPDX-License-Identifier: Apache-2.0
// The built-in subjects and one simulator for all properties of this executable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/properties/cases.hpp"

namespace faultline::properties {

const kernels::SubjectRegistry& subjects();
std::vector<std::string> subject_names();
core::Backend& simulator();

/// Why a variant is not judged on a problem (kernels::Variant::weak_at), "" where it is.
std::string declared_weakness(const core::Problem& problem, const std::string& variant);

/// What is drawn of a subject: simulator_limits(), all that is declared right. Sequences cost the
/// simulator most, so they get one trial.
ValueDomain<Case> simulator_cases(const std::string& subject, CaseOptions options = {});

/// The plan of a case, with some of its problem's values replaced.
core::TrialPlan plan_of(const Case& c, const std::vector<core::Assignment::Value>& changed = {});

/// Small integers in [-magnitude, magnitude], one independent tensor per `stream`.
core::Tensor small_integers(const core::BufferSpec& buffer, std::uint64_t seed,
                            std::uint32_t stream, float magnitude = 1.0f);

/// a + b element by element; exact when the sums are numbers of the dtype.
core::Tensor sum(const core::Tensor& a, const core::Tensor& b);

/// Part `index` of `parts` equal ones of a tensor, in memory order, with shape `shape`.
core::Tensor part_of(const core::Tensor& whole, std::int64_t parts, std::int64_t index,
                     const core::Shape& shape);

/// How far an accepted element may lie from the exact value: its bound, and half an ulp of what is
/// stored.
double distance_allowed(const core::Tensor& tensor, std::int64_t i, double bound);

/// In a property: fails it where two tensors that stand for the same exact values are further apart
/// than the bounds of both allow, element by element; or, when `exact`, where bits differ. Elements
/// that stay untouched are passed over.
void check_same(const core::Tensor& a, const std::vector<double>& a_bound, const core::Tensor& b,
                const std::vector<double>& b_bound, bool exact);

}  // namespace faultline::properties
