// SPDX-License-Identifier: Apache-2.0
// One table per enumeration: enumerators in declaration order beside their printed names.
// name_of(), the parsers and JSON all read it, so a name cannot differ between them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "faultline/core/dtype.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/core/execution.hpp"
#include "faultline/core/kill_matrix.hpp"
#include "faultline/core/perturbation.hpp"
#include "faultline/core/trial.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::core::detail {

template <class E>
struct EnumNames;

template <>
struct EnumNames<Dtype> {
  static constexpr std::array<std::string_view, 4> kNames{"f16", "bf16", "f32", "f64"};
};
template <>
struct EnumNames<ExecutionStatus> {
  static constexpr std::array<std::string_view, 7> kNames{
      "completed", "deadlock", "fault", "timeout", "out_of_time", "unsupported", "error"};
};
template <>
struct EnumNames<RaceKind> {
  static constexpr std::array<std::string_view, 3> kNames{"read_after_write", "write_after_read",
                                                          "write_after_write"};
};
template <>
struct EnumNames<MemorySpace> {
  static constexpr std::array<std::string_view, 2> kNames{"shared", "global"};
};
template <>
struct EnumNames<SchedulePolicy> {
  static constexpr std::array<std::string_view, 4> kNames{"round_robin", "random", "pct", "skew"};
};
template <>
struct EnumNames<CopyLateness> {
  static constexpr std::array<std::string_view, 3> kNames{"eager", "lazy", "random"};
};
template <>
struct EnumNames<CoResident> {
  static constexpr std::array<std::string_view, 3> kNames{"none", "memory_stress",
                                                          "compute_stress"};
};
template <>
struct EnumNames<HostWait> {
  static constexpr std::array<std::string_view, 3> kNames{"none", "spin", "sleep"};
};
template <>
struct EnumNames<DataMode> {
  static constexpr std::array<std::string_view, 7> kNames{
      "normal", "exact", "address", "digits", "epoch", "illconditioned", "special"};
};
template <>
struct EnumNames<ErrorHypothesis::Kind> {
  static constexpr std::array<std::string_view, 4> kNames{"term", "wrong_form", "low_precision",
                                                          "rounding"};
};
template <>
struct EnumNames<ReferenceNote::Kind> {
  static constexpr std::array<std::string_view, 3> kNames{"blind", "unusable", "wide"};
};
template <>
struct EnumNames<RaceMode> {
  static constexpr std::array<std::string_view, 3> kNames{"off", "lenient", "strict"};
};
template <>
struct EnumNames<Detector> {
  static constexpr std::array<std::string_view, 5> kNames{"tight_loop", "verify", "stress",
                                                          "happens_before", "sanitizer"};
};
template <>
struct EnumNames<ErrorReading::Kind> {
  static constexpr std::array<std::string_view, 10> kNames{
      "one_bit",       "offset",      "scale",         "saturated",   "slice_missing",
      "slice_doubled", "slice_stale", "other_address", "other_trial", "unwritten"};
};
template <>
struct EnumNames<FootprintEvidence::Kind> {
  static constexpr std::array<std::string_view, 12> kNames{
      "scattered", "everywhere", "tile",  "group", "buffer",  "position",
      "place",     "last_tile",  "strip", "rows",  "columns", "block"};
};
template <>
struct EnumNames<TemplateEvidence::Kind> {
  static constexpr std::array<std::string_view, 10> kNames{
      "slice_missing",   "slice_doubled", "slice_stale", "rounded_f16", "rounded_bf16",
      "previous_output", "other_tile",    "tile_input",  "transposed",  "zero"};
};
template <>
struct EnumNames<ExperimentEvidence::Kind> {
  static constexpr std::array<std::string_view, 11> kNames{
      "serialised", "one_block",  "one_stage", "eager",      "twin",       "knob",
      "delay",      "contiguous", "offset",    "first_call", "second_call"};
};
template <>
struct EnumNames<Outcome> {
  static constexpr std::array<std::string_view, 5> kNames{"pass", "fail", "inconclusive", "skipped",
                                                          "error"};
};
template <>
struct EnumNames<Severity> {
  static constexpr std::array<std::string_view, 3> kNames{"note", "warning", "error"};
};
template <>
struct EnumNames<FindingClass> {
  static constexpr std::array<std::string_view, 35> kNames{
      "race.shared",
      "race.async",
      "race.grid",
      "race.stream",
      "nondeterminism.benign",
      "systematic_offset",
      "config",
      "output_rounding",
      "accumulation",
      "missing_term",
      "wrong_term",
      "tail",
      "isolation",
      "index32",
      "layout",
      "oob",
      "uninitialised",
      "missed_write",
      "special_values",
      "state",
      "graph",
      "stale_code",
      "device",
      "hang",
      "crash",
      "contract",
      "vacuous",
      "slow.uncoalesced",
      "slow.lane_folded",
      "slow.bank_conflicts",
      "slow.dispatch",
      "timing.contaminated",
      "no_evidence",
      "bound_vacuous",
      "unknown",
  };
};

/// "?" for a value outside the enumeration.
template <class E>
std::string_view enum_name(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < EnumNames<E>::kNames.size() ? EnumNames<E>::kNames[index] : "?";
}

template <class E>
std::optional<E> parse_enum(std::string_view text) {
  for (std::size_t i = 0; i < EnumNames<E>::kNames.size(); ++i) {
    if (EnumNames<E>::kNames[i] == text) {
      return static_cast<E>(i);
    }
  }
  return std::nullopt;
}

/// "a, b or c": the names for messages.
template <class E>
std::string enum_choices() {
  std::string text;
  const auto& names = EnumNames<E>::kNames;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace faultline::core::detail
