// SPDX-License-Identifier: Apache-2.0
// Small helpers that the pairings of kernels with references share.
#pragma once

#include <faultline/core/module.hpp>
#include <faultline/core/problem.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::kernels::detail {

core::ParameterSpec integer_parameter(std::string name, std::string description,
                                      std::int64_t minimum, std::int64_t maximum,
                                      std::int64_t default_value, std::int64_t multiple_of = 1);
/// Exactly the values listed.
core::ParameterSpec listed_parameter(std::string name, std::string description,
                                     std::vector<std::int64_t> allowed, std::int64_t default_value);
/// The first choice is the default.
core::ParameterSpec choice_parameter(std::string name, std::string description,
                                     std::vector<std::string> choices);
core::ParameterSpec dtype_parameter(core::Dtype default_value);

/// ceil(a / b) for a >= 0, b > 0
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The module made once per process. `embedded` refers to static data.
core::ModuleRef cached_module(const core::EmbeddedModule& embedded);

/// Problem of `subject`, completed and validated.
core::Problem make_problem(std::string_view subject, const core::Domain& domain,
                           std::vector<core::Assignment::Value> values);

}  // namespace faultline::kernels::detail
