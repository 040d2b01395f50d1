// SPDX-License-Identifier: Apache-2.0
#include "subject_support.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace faultline::kernels::detail {

core::ParameterSpec integer_parameter(std::string name, std::string description,
                                      std::int64_t minimum, std::int64_t maximum,
                                      std::int64_t default_value, std::int64_t multiple_of) {
  core::ParameterSpec spec;
  spec.name = std::move(name);
  spec.kind = core::ParameterSpec::Kind::integer;
  spec.description = std::move(description);
  spec.minimum = minimum;
  spec.maximum = maximum;
  spec.multiple_of = multiple_of;
  spec.default_value = std::to_string(default_value);
  return spec;
}

core::ParameterSpec listed_parameter(std::string name, std::string description,
                                     std::vector<std::int64_t> allowed,
                                     std::int64_t default_value) {
  core::ParameterSpec spec;
  spec.name = std::move(name);
  spec.kind = core::ParameterSpec::Kind::integer;
  spec.description = std::move(description);
  spec.allowed = std::move(allowed);
  spec.default_value = std::to_string(default_value);
  return spec;
}

core::ParameterSpec choice_parameter(std::string name, std::string description,
                                     std::vector<std::string> choices) {
  core::ParameterSpec spec;
  spec.name = std::move(name);
  spec.kind = core::ParameterSpec::Kind::choice;
  spec.description = std::move(description);
  spec.default_value = choices.front();
  spec.choices = std::move(choices);
  return spec;
}

core::ParameterSpec dtype_parameter(core::Dtype default_value) {
  core::ParameterSpec spec;
  spec.name = "dtype";
  spec.kind = core::ParameterSpec::Kind::dtype;
  spec.description = "element type of every buffer; sums are fp32";
  spec.choices = {"f16", "bf16", "f32"};
  spec.default_value = std::string(core::name_of(default_value));
  return spec;
}

core::ModuleRef cached_module(const core::EmbeddedModule& embedded) {
  static std::mutex mutex;
  static std::map<std::string_view, core::ModuleRef> modules;
  const std::lock_guard lock(mutex);
  core::ModuleRef& module = modules[embedded.name];
  if (!module) {
    module = core::make_module(embedded);
  }
  return module;
}

core::Problem make_problem(std::string_view subject, const core::Domain& domain,
                           std::vector<core::Assignment::Value> values) {
  return {.subject = std::string(subject),
          .values = core::complete(domain, values, "problem of " + std::string(subject))};
}

}  // namespace faultline::kernels::detail
