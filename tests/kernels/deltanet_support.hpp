// SPDX-License-Identifier: Apache-2.0
// What the tests of the DeltaNet subjects share: trials on the simulator, their wrong outputs.
#pragma once

#include <faultline/kernels/subject.hpp>
#include <faultline/simulator/simulator_backend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace faultline::kernels::test {

using Values = std::vector<core::Assignment::Value>;

/// Inputs that keep states of order one, so that every path shows.
inline const Values kUnit{{"keys", "unit"}, {"beta", "uniform"}, {"states", "random"}};

inline Values with(Values values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

/// The built-in subjects.
inline const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    register_builtin_subjects(all);
    return all;
  }();
  return subjects;
}

/// One trial on the simulator, races looked for.
inline core::TrialResult run(const core::TrialPlan& plan) {
  const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  core::TrialRequest request;
  request.count = 1;
  request.race = core::RaceMode::strict;
  return backend->run_trials(plan, request);
}

/// Names of the outputs with wrong elements, in the order of the plan.
inline std::vector<std::string> wrong_outputs(const core::TrialResult& result) {
  std::vector<std::string> names;
  for (const core::OutputTotals& output : result.outputs) {
    if (output.bad_elements > 0) {
      names.push_back(output.name);
    }
  }
  return names;
}

}  // namespace faultline::kernels::test
