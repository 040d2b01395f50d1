// SPDX-License-Identifier: Apache-2.0
#include "case_probe.hpp"

#include <algorithm>
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

std::set<std::int64_t> tiles_of(const kernels::ResolvedTrial& trial) {
  std::set<std::int64_t> tiles;
  for (const auto& [name, value] : trial.config.values()) {
    if (!value.empty() && value.size() < 10 &&
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      tiles.insert(std::stoll(value));
    }
  }
  if (trial.subject->lengths) {
    const kernels::TileLengths lengths =
        trial.subject->lengths(trial.problem, trial.variant->name, trial.config);
    tiles.insert({lengths.tile_k, lengths.tile_rows});
  }
  std::erase_if(tiles, [](std::int64_t tile) { return tile < 2; });
  return tiles;
}

std::vector<std::int64_t> beyond_threshold(const core::ParameterSpec& spec, std::int64_t value,
                                           const std::set<std::int64_t>& tiles, bool above) {
  if (!spec.allowed.empty()) return {};
  const std::int64_t m = spec.multiple_of;
  std::vector<std::int64_t> values;
  const auto add = [&](std::int64_t candidate) {
    candidate = candidate / m * m;
    const bool beyond = above ? candidate > value : candidate < value;
    if (!beyond || candidate < spec.minimum || candidate > spec.maximum) return;
    if (std::find(values.begin(), values.end(), candidate) == values.end()) {
      values.push_back(candidate);
    }
  };
  // The last multiple of q before `from`, or the next one after it.
  const auto multiple = [&](std::int64_t from, std::int64_t q) {
    return above ? (from / q + 1) * q : (from - 1) / q * q;
  };
  constexpr std::int64_t kPowers[] = {16, 8, 4, 2};
  for (const std::int64_t q : kPowers) add(multiple(value, q * m));
  for (const std::int64_t tile : tiles) {
    const std::int64_t whole = multiple(value, tile);
    for (const std::int64_t beside : {std::int64_t{0}, 8 * m, m, -m}) add(whole + beside);
  }
  for (const std::int64_t q : kPowers) add(multiple(above ? 2 * value : value / 2, q * m));
  for (const std::int64_t q : kPowers) add(multiple(multiple(value, q * m), q * m));
  return values;
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
