// SPDX-License-Identifier: Apache-2.0
// The smallest case that still fails in the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/token.hpp"
#include "faultline/core/verdict.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress {

struct ReduceOptions {
  std::uint64_t executions = 1000;  ///< of the subject (on a device: of `repeats` each), at most
  std::uint64_t repeats = 200;      ///< on a device
  RunOptions run;
};

/// One smaller case that was tried.
struct ReduceStep {
  std::string change;  ///< "k 257 -> 1"
  bool accepted = false;
  std::string why;  ///< "fails as tail", "passes", "fails as oob instead", "4 of 200: below ..."
};

struct Reduction {
  core::TrialToken original, smallest;
  core::FindingClass finding = core::FindingClass::unknown;
  std::uint64_t failed = 0, trials = 0;  ///< of the smallest
  /// On a device: a smaller case is accepted when the lower 95 % bound of its rate is at least
  /// this, half that of the original.
  double floor = 0.0;
  std::string refused{};  ///< why nothing was tried: the case passes here
  std::vector<ReduceStep> steps{};
  std::uint64_t executions = 0;
  bool budget_spent = false;
};

/// Shrinks the problem first (each parameter to its smallest value that still fails, towards the
/// default for choices), then the config towards the default, data towards normal, schedule or
/// perturbation towards the plain one, trial and seed towards 0 and 1; again until nothing more is
/// accepted. A smaller case is accepted when it fails with the same finding class by itself, on a
/// device with the rate that `floor` asks for. Deterministic on the simulator.
Reduction reduce(core::Backend& backend, const kernels::SubjectRegistry& registry,
                 const core::TrialToken& trial, const ReduceOptions& options = {});

}  // namespace faultline::stress
