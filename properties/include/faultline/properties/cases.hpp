// SPDX-License-Identifier: Apache-2.0
// A case: everything that a differential check of a subject needs. Its text is the command that
// reruns it, so that a counterexample is a line to paste.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/properties/problems.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::properties {

/// How inputs are drawn.
struct InputRegime {
  core::DataMode data = core::DataMode::normal;
  std::uint64_t seed = 1;
  friend bool operator==(const InputRegime&, const InputRegime&) = default;
};
/// `--data exact --seed 7`
std::ostream& operator<<(std::ostream& out, const InputRegime& regime);

struct Case {
  core::Problem problem{};
  std::string variant{};
  core::Config config{};
  InputRegime regime{};
  std::uint64_t trials = 1;  ///< each with inputs, schedule and poison of its own
  core::RaceMode race = core::RaceMode::strict;
  std::string backend = "simulator";
  friend bool operator==(const Case&, const Case&) = default;
};

/// `faultline verify gemv n=3 k=257 dtype=f16 inputs=any --variant pipelined --config
/// stages=2,rows=4 --data exact --seed 7 --trials 1 --backend simulator`
std::string command_line(const Case& c);
std::ostream& operator<<(std::ostream& out, const Case& c);

/// Inverse of command_line(); every option may be left out. UsageError on what it does not know.
Case parse_case(const kernels::SubjectRegistry& registry, const std::string& text);

/// The data modes under which a subject can be judged: coded data for subjects of one step only.
/// Over a sequence the states of coded keys grow without limit (a step of a delta rule contracts
/// only while beta |k|^2 <= 2), and nothing is exact.
std::vector<core::DataMode> data_modes(const kernels::Subject& subject);

struct CaseOptions {
  std::vector<std::string> variants{};  ///< empty: the clean ones
  std::vector<core::DataMode> data{};   ///< empty: data_modes() of the subject
  std::vector<core::RaceMode> race{};   ///< empty: strict
  std::uint64_t largest_trials = 3;
  /// Declared weaknesses: why a variant is not judged on a problem, "" where it is. Empty: none.
  std::function<std::string(const core::Problem&, const std::string& variant)> weakness{};
};

/// Cases of one subject: a problem of its domain, a variant, one of the configs that the variant is
/// swept over, inputs. Combinations that the subject refuses, or at which the variant is declared
/// weak, are not in the domain. Shrinks the problem first, then the config towards the default (the
/// first), data towards normal, the number of trials and the seed towards 1; the variant stays. The
/// registry must outlive the domain.
ValueDomain<Case> cases(const kernels::SubjectRegistry& registry, const std::string& subject,
                        const ProblemLimits& limits, const CaseOptions& options = {});

/// Seeds and data modes alone; prints as "--data exact --seed 7".
ValueDomain<InputRegime> input_regimes(std::vector<core::DataMode> data = {});

/// What running a case showed.
struct CaseVerdict {
  bool pass = false;
  std::string reason{};  ///< why not: one sentence with the first wrong output
  core::TrialResult result{};
};

/// Run the case as `faultline verify` would. It passes only when every trial asked for was
/// finished, none failed, and every element of every output was compared in each.
/// A deterministic function of the case on the simulator. On a device a case of a racy kernel is
/// flaky; give it enough trials that its verdict is not, or keep it out of a property.
CaseVerdict check_case(core::Backend& backend, const kernels::SubjectRegistry& registry,
                       const Case& c);

}  // namespace faultline::properties
