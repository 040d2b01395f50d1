// SPDX-License-Identifier: Apache-2.0
// A subject: an implementation under test, its domains, its reference and its variants.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/problem.hpp"
#include "faultline/core/trial.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::kernels {

/// One named intermediate of a kernel and where it rounds: the tolerance is derived from these.
struct RoundingPoint {
  std::string name{};                     ///< "q_tile = q * exp(gk)"
  core::Dtype stored = core::Dtype::f32;  ///< may equal the problem's dtype
  core::Dtype accumulate = core::Dtype::f32;
  std::string reduction{};  ///< length as text, e.g. "dk", "" when none
};

/// A clean implementation or a mutant of one.
struct Variant {
  std::string name{};
  std::string description{};  ///< one line; for mutants the defect and its origin
  bool is_mutant = false;
  std::string clean_twin{};  ///< mutants: the variant it differs from in one defect
  std::optional<core::FindingClass> required_finding{};  ///< mutants: the class it must get
  /// Mutants: the core::ErrorHypothesis (by name) that the defect is. Where its effect is below the
  /// bound the run is inconclusive (bound_vacuous), never a pass. Empty: none.
  std::string hypothesis{};
  /// Mutants: problem and config values at which it shows.
  std::vector<core::Assignment::Value> shows_at{};
  /// Mutants that no device is expected to show, with the reason; the race check of the simulator
  /// has to. Empty: a device can show it.
  std::string model_only{};
  /// Clean variants: problem and config values at which it is declared weak, each alone, and why.
  /// It is tested there all the same; what tests of the whole domain leave out is what this lists.
  std::vector<core::Assignment::Value> weak_at{};
  std::string weakness{};
  /// Warnings that its author knows of and leaves alone (they are reported all the same): a
  /// mutant's kill does not count by them, a clean variant is not blamed for them. With the reason.
  std::vector<core::FindingClass> known_warnings{};
  std::string known_reason{};

  /// "declared weak at keys=identical: its powers grow"; empty where nothing is declared.
  std::string declared_weakness(const core::Assignment& problem,
                                const core::Assignment& config) const;
};

/// Lengths that diagnosis compares failures with (tail, missed rows). 0 = does not apply.
struct TileLengths {
  std::int64_t tile_k = 0, reduction = 0, tile_rows = 0, rows = 0;
};

/// What a project registers. Every function is required: the registry refuses a subject that lacks
/// one, and says which.
struct Subject {
  std::string name;
  std::string description;
  core::Domain problem_domain;
  /// Config domain of a variant; the first config of `configs` is the default.
  std::function<core::Domain(const std::string& variant)> config_domain;
  /// All configs that a sweep covers for a problem, the default first. Never empty.
  std::function<std::vector<core::Config>(const core::Problem&, const std::string& variant)>
      configs;
  /// Problems that `verify` covers when none is given; `small` keeps them fit for the simulator.
  std::function<std::vector<core::Problem>(bool small)> verify_problems;
  /// Problems that `bench` times when none is given; may be empty (then the default problem).
  std::function<std::vector<core::Problem>()> bench_problems;
  std::vector<Variant> variants;  ///< the first is the default
  std::function<std::vector<RoundingPoint>(const core::Problem&)> numeric_plan;
  bool deterministic = true;
  /// Problem, variant and config are already complete and valid here; UsageError when the
  /// combination is refused.
  std::function<core::TrialPlan(const core::Problem&, const std::string& variant,
                                const core::Config&)>
      plan;
  std::function<TileLengths(const core::Problem&, const std::string& variant, const core::Config&)>
      lengths;
  /// Bytes read and written once per launch, for bandwidth; 0 when it means nothing.
  std::function<double(const core::Problem&)> traffic_bytes;
  /// Problem parameters that say how data lie in memory (pitches, offsets, strides) and change no
  /// value, each with the value at which data lie back to back, or as near to it as there is.
  std::vector<core::Assignment::Value> contiguous{};

  const Variant* find_variant(std::string_view variant_name) const;
};

/// Subjects by name. Built explicitly in main (no static registration: linkers drop it).
class SubjectRegistry {
 public:
  /// Throws UsageError when the name is taken or the subject is incomplete.
  void add(Subject subject);
  /// Throws UsageError that lists the known names and the nearest one.
  const Subject& get(std::string_view name) const;
  const std::vector<std::unique_ptr<Subject>>& all() const { return subjects_; }

 private:
  std::vector<std::unique_ptr<Subject>> subjects_;
};

/// Throws UsageError for a plan that could not be judged honestly: a device oracle and no host
/// reference to check it against.
void check_plan(const core::TrialPlan& plan);

/// gemv and gla_decode, when this build has them (needs nvcc).
void register_builtin_subjects(SubjectRegistry& registry);

/// `SUBJECT`, `SUBJECT@VARIANT`: resolve and complete everything, then make the plan.
struct ResolvedTrial {
  const Subject* subject = nullptr;
  const Variant* variant = nullptr;
  core::Problem problem;
  core::Config config;
  core::TrialPlan plan;
};
ResolvedTrial resolve(const SubjectRegistry& registry, std::string_view subject_and_variant,
                      const std::vector<core::Assignment::Value>& problem_values,
                      const std::vector<core::Assignment::Value>& config_values);

}  // namespace faultline::kernels
