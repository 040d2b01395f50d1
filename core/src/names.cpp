// SPDX-License-Identifier: Apache-2.0
// name_of() and parsers of the enumerations.
#include "enum_names.hpp"

namespace faultline::core {

using detail::enum_name;
using detail::parse_enum;

std::string_view name_of(Dtype dtype) { return enum_name(dtype); }
std::string_view name_of(ExecutionStatus status) { return enum_name(status); }
std::string_view name_of(RaceKind kind) { return enum_name(kind); }
std::string_view name_of(MemorySpace space) { return enum_name(space); }
std::string_view name_of(SchedulePolicy policy) { return enum_name(policy); }
std::string_view name_of(CopyLateness lateness) { return enum_name(lateness); }
std::string_view name_of(CoResident co_resident) { return enum_name(co_resident); }
std::string_view name_of(HostWait wait) { return enum_name(wait); }
std::string_view name_of(DataMode mode) { return enum_name(mode); }
std::string_view name_of(RaceMode mode) { return enum_name(mode); }
std::string_view name_of(Detector detector) { return enum_name(detector); }
std::string_view name_of(ErrorReading::Kind kind) { return enum_name(kind); }
std::string_view name_of(FootprintEvidence::Kind kind) { return enum_name(kind); }
std::string_view name_of(TemplateEvidence::Kind kind) { return enum_name(kind); }
std::string_view name_of(ExperimentEvidence::Kind kind) { return enum_name(kind); }
std::string_view name_of(Outcome outcome) { return enum_name(outcome); }
std::string_view name_of(Severity severity) { return enum_name(severity); }
std::string_view name_of(FindingClass finding) { return enum_name(finding); }

std::optional<DataMode> parse_data_mode(std::string_view text) {
  return parse_enum<DataMode>(text);
}
std::optional<FindingClass> parse_finding_class(std::string_view text) {
  return parse_enum<FindingClass>(text);
}

std::optional<Dtype> parse_dtype(std::string_view text) {
  struct Alias {
    std::string_view name;
    Dtype dtype;
  };
  static constexpr Alias kAliases[] = {
      {"fp16", Dtype::f16},      {"float16", Dtype::f16}, {"half", Dtype::f16},
      {"bfloat16", Dtype::bf16}, {"fp32", Dtype::f32},    {"float32", Dtype::f32},
      {"float", Dtype::f32},     {"fp64", Dtype::f64},    {"float64", Dtype::f64},
      {"double", Dtype::f64},
  };
  if (const auto canonical = parse_enum<Dtype>(text)) {
    return canonical;
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == text) {
      return alias.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace faultline::core
