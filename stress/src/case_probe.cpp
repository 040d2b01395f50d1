// SPDX-License-Identifier: Apache-2.0
#include "case_probe.hpp"

#include <utility>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/stress/replay.hpp"
#include "reference_limits.hpp"
#include "run_arm.hpp"

namespace faultline::stress::detail {

kernels::ResolvedTrial resolve_case(const kernels::SubjectRegistry& registry,
                                    const core::TrialToken& trial) {
  return kernels::resolve(registry, trial.subject + "@" + trial.variant,
                          core::parse_assignments(trial.problem),
                          core::parse_assignments(trial.config));
}

void require_backend(const core::Backend& backend, const core::TrialToken& trial) {
  if (backend.info().name == trial.backend) return;
  throw core::UsageError(fmt::format("this case failed on the {} backend and cannot be asked about "
                                     "on {}: use --backend {}",
                                     trial.backend, backend.info().name, trial.backend));
}

CaseProbe::CaseProbe(core::Backend& backend, const kernels::SubjectRegistry& registry,
                     RunOptions run, std::uint64_t repeats, std::uint64_t executions)
    : backend_(backend),
      registry_(registry),
      run_(std::move(run)),
      repeats_(repeats),
      limit_(executions) {}

bool CaseProbe::spent() const { return done_ >= limit_ || stopped(run_); }

std::int64_t CaseProbe::elements(const core::TrialToken& trial) const {
  try {
    return elements_of(resolve_case(registry_, trial).plan);
  } catch (const core::UsageError&) {
    return 0;
  }
}

ProbeResult CaseProbe::run(const core::TrialToken& trial) {
  ProbeResult probe;
  try {
    const kernels::ResolvedTrial resolved = resolve_case(registry_, trial);
    if (std::string why = core::why_not(trial.data, resolved.plan.buffers); !why.empty()) {
      probe.refused = std::move(why);
      return probe;
    }
    RunOptions quiet = run_;
    quiet.progress = nullptr;
    if (run_.progress) run_.progress({trial.problem, done_, limit_, 0});
    ++done_;
    const Replay replayed =
        replay(backend_, registry_, trial, {.repeats = repeats_, .run = quiet, .templates = false});
    const core::TrialResult& result = replayed.evidence.arms.front().result;
    if (!replayed.evidence.contract_violations.empty()) {
      probe.refused = replayed.evidence.contract_violations.front();
    } else if (replayed.evidence.interrupted) {
      probe.refused = "interrupted";
    } else if (result.skipped || result.trials == 0 ||
               (result.failed == 0 && result.status != core::ExecutionStatus::completed)) {
      probe.refused = result.message.empty() ? result.note : result.message;
      if (probe.refused.empty()) probe.refused = "no trial was finished";
    }
    probe.failed = result.failed;
    probe.trials = result.trials;
    if (result.failed == 0) return probe;
    for (const core::Finding& finding : diagnosis::diagnose(replayed.evidence).findings) {
      if (finding.severity != core::Severity::error) continue;
      probe.finding = finding.finding;
      break;
    }
  } catch (const core::UsageError& error) {
    probe.refused = error.what();
  }
  return probe;
}

}  // namespace faultline::stress::detail
