// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/stored_cases.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "faultline/stress/statistics.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

using State = ReplayedCase::State;

const core::Finding* first_error(const core::Verdict& verdict) {
  for (const core::Finding& finding : verdict.findings) {
    if (finding.severity == core::Severity::error) return &finding;
  }
  return nullptr;
}

std::string name_of_case(const ReplayedCase& replayed) {
  return fmt::format("stored case {}", replayed.stored.id);
}

std::size_t count_of(const std::vector<ReplayedCase>& replayed, State state) {
  return static_cast<std::size_t>(
      std::count_if(replayed.begin(), replayed.end(),
                    [&](const ReplayedCase& one) { return one.state == state; }));
}

std::string cases_text(std::size_t n, std::size_t of) {
  return fmt::format("{} of {} stored case{}", n, of, of == 1 ? "" : "s");
}

/// Runs without a failure after which the upper bound on the rate is below `rate`.
std::uint64_t runs_below(double rate) {
  if (rate <= 0.0) return ~0ull;
  if (rate >= 1.0) return 1;
  constexpr double kAlpha = 0.05;  // of zero_failure_upper_bound()
  return static_cast<std::uint64_t>(std::log(kAlpha) / std::log1p(-rate)) + 1;
}

double lowest_rate(const store::FailingCase& stored) {
  return stored.failed == 0 ? 0.0 : wilson_interval(stored.failed, stored.trials).low;
}

/// A case of which nothing failed: what that says.
void judge_without_failure(ReplayedCase& replayed) {
  const core::ArmEvidence& arm = replayed.evidence.arms.front();
  const store::FailingCase& stored = replayed.stored;
  if (arm.result.trials == 0 || replayed.verdict.outcome != core::Outcome::pass) {
    replayed.why = replayed.verdict.summary;
  } else if (replayed.evidence.backend_is_model || arm.upper95 < lowest_rate(stored)) {
    replayed.state = State::fixed;
  } else {
    replayed.why =
        fmt::format("no failure in {} runs, too few to tell: it failed in {} of {} "
                    "before, and its rate may be as low as {:.2g}",
                    arm.result.trials, stored.failed, stored.trials, lowest_rate(stored));
  }
}

/// What cases alike have in common.
std::string likeness(const core::TrialToken& trial) {
  return fmt::format("{}@{}|{}|{}|{}", trial.subject, trial.variant, trial.problem, trial.config,
                     core::to_text(trial.perturbation));
}

/// A line for each reason why cases were not judged.
std::vector<std::string> open_lines(const std::vector<ReplayedCase>& replayed) {
  std::vector<std::vector<const ReplayedCase*>> groups;
  for (const ReplayedCase& one : replayed) {
    if (one.state != State::not_judged) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front()->why == one.why;
    });
    if (same != groups.end()) {
      same->push_back(&one);
    } else {
      groups.push_back({&one});
    }
  }
  std::vector<std::string> lines;
  for (const auto& group : groups) {
    if (group.size() == 1) {
      lines.push_back(to_text(*group.front()));
      continue;
    }
    std::string ids;
    for (const ReplayedCase* one : group) {
      ids += fmt::format("{}{}", ids.empty() ? "" : ", ", one->stored.id);
    }
    lines.push_back(
        fmt::format("{} stored cases ({}): not judged: {}", group.size(), ids, group.front()->why));
  }
  return lines;
}

/// The error that the case shows, in the run's verdict: added, or as a sentence more of one of its
/// class. One case alone often cannot tell its class: where the run itself has a name for what is
/// wrong, "unknown" is no second defect, and a sentence of the first error.
void add_findings(const ReplayedCase& replayed, core::Verdict& verdict) {
  for (core::Finding finding : replayed.verdict.findings) {
    if (finding.severity != core::Severity::error) continue;
    const std::string sentence =
        fmt::format("{} failed again: {}", name_of_case(replayed), replayed.stored.command);
    const auto same = std::find_if(
        verdict.findings.begin(), verdict.findings.end(), [&](const core::Finding& known) {
          return known.finding == finding.finding && known.severity == finding.severity;
        });
    if (same != verdict.findings.end()) {
      same->evidence.push_back(sentence);
      continue;
    }
    if (finding.finding == core::FindingClass::unknown && !verdict.findings.empty() &&
        verdict.findings.front().severity == core::Severity::error) {
      verdict.findings.front().evidence.push_back(sentence + " (alone it has no name)");
      continue;
    }
    finding.evidence.push_back(sentence);
    const auto end_of_errors = std::find_if(
        verdict.findings.begin(), verdict.findings.end(),
        [](const core::Finding& known) { return known.severity != core::Severity::error; });
    verdict.findings.insert(end_of_errors, std::move(finding));
  }
}

}  // namespace

store::FailingCase failing_case(core::TrialToken trial, std::string origin) {
  store::FailingCase found;
  found.command = "faultline replay " + core::encode(trial);
  found.trial = std::move(trial);
  found.origin = std::move(origin);
  return found;
}

std::vector<store::FailingCase> failing_cases_of(const core::RunRecord& record) {
  std::vector<store::FailingCase> cases;
  const core::Finding* error = first_error(record.verdict);
  const auto add = [&](const std::string& token, const core::TrialResult& result) {
    if (token.empty() || result.failed == 0 || cases.size() == kCasesOfARun) return;
    store::FailingCase found = failing_case(core::decode_token(token), record.command);
    found.failed = result.failed;
    found.trials = result.trials;
    if (error) {
      found.finding = core::name_of(error->finding);
      found.reason = error->headline;
    }
    cases.push_back(std::move(found));
  };
  for (const core::ConfigEvidence& cell : record.evidence.configs) add(cell.token, cell.result);
  // The arms of a sweep repeat one of its cells, or a stored case.
  if (record.evidence.mode == "verify") return cases;
  for (const core::ArmEvidence& arm : record.evidence.arms) add(arm.token, arm.result);
  return cases;
}

std::vector<ReplayedCase> replay_cases(core::Backend& backend,
                                       const kernels::SubjectRegistry& registry,
                                       const std::vector<store::FailingCase>& cases,
                                       const ReplayOptions& options) {
  const bool is_model = backend.info().is_model;
  std::map<std::string, std::size_t> alike;
  std::vector<ReplayedCase> replayed;
  for (const store::FailingCase& stored : cases) {
    ReplayedCase& one = replayed.emplace_back();
    one.stored = stored;
    if (!stored.unreadable.empty()) {
      one.why = stored.unreadable;
      continue;
    }
    if (detail::stopped(options.run)) {
      one.why = "the time for stored cases ran out";
      continue;
    }
    if (++alike[likeness(stored.trial)] > kReplaysAlike) {
      one.why =
          fmt::format("{} seen later, alike but for data and seed, were replayed; a later run "
                      "takes these when those are fixed",
                      kReplaysAlike);
      continue;
    }
    ReplayOptions own = options;
    own.templates = false;  // the sweep's own failures have them
    const std::uint64_t needed = is_model ? 1 : runs_below(lowest_rate(stored));
    if (needed <= kMostRuns) own.repeats = std::max(own.repeats, needed);
    try {
      one.evidence = replay(backend, registry, stored.trial, own).evidence;
    } catch (const core::UsageError& error) {
      // The subject's domain has changed since.
      one.why = error.what();
      continue;
    }
    // Not as a replay, which asks whether the failure comes back: its absence is judged here.
    one.evidence.mode = "stress";
    one.verdict = diagnosis::diagnose(one.evidence);
    if (one.evidence.arms.front().result.failed > 0) {
      one.state = State::failed_again;
    } else if (one.evidence.interrupted) {
      one.evidence = {};
      one.why = "the time for stored cases ran out";
    } else {
      judge_without_failure(one);
    }
  }
  return replayed;
}

std::vector<store::CaseResult> results_of(const std::vector<ReplayedCase>& replayed) {
  std::vector<store::CaseResult> results;
  for (const ReplayedCase& one : replayed) {
    if (one.state == State::not_judged) continue;
    const core::TrialResult& result = one.evidence.arms.front().result;
    results.push_back({one.stored.id, result.failed, result.trials});
  }
  return results;
}

std::string to_text(const ReplayedCase& replayed) {
  const store::FailingCase& stored = replayed.stored;
  std::string text = fmt::format("{} ({}, seed {}, seen last {}): ", name_of_case(replayed),
                                 diagnosis::cell_text(stored.trial.problem, stored.trial.config),
                                 stored.trial.seed, stored.last_seen);
  switch (replayed.state) {
  case State::not_judged: return text + "not judged: " + replayed.why;
  case State::failed_again: return text + "failed again: " + replayed.verdict.summary;
  case State::fixed: break;
  }
  const core::TrialResult& result = replayed.evidence.arms.front().result;
  if (result.trials == 1) return text + "passes now, marked fixed";
  return text + fmt::format("no failure in {} runs now (rate below {:.2g}), marked fixed",
                            result.trials, replayed.evidence.arms.front().upper95);
}

std::vector<std::string> to_lines(const std::vector<ReplayedCase>& replayed) {
  std::vector<std::string> lines;
  for (const ReplayedCase& one : replayed) {
    if (one.state != State::not_judged) lines.push_back(to_text(one));
  }
  for (std::string& line : open_lines(replayed)) lines.push_back(std::move(line));
  return lines;
}

void add_replayed(const std::vector<ReplayedCase>& replayed, core::Evidence& evidence,
                  core::Verdict& verdict) {
  if (replayed.empty()) return;
  const std::size_t again = count_of(replayed, State::failed_again),
                    open = count_of(replayed, State::not_judged);
  std::string first_again;
  for (const ReplayedCase& one : replayed) {
    if (one.state == State::failed_again) {
      add_findings(one, verdict);
      if (first_again.empty()) first_again = to_text(one);
      for (const core::RaceReport& race : one.evidence.races) {
        diagnosis::merge_race(evidence.races, race);
      }
    }
    for (core::ArmEvidence arm : one.evidence.arms) {
      arm.perturbation.name = fmt::format("stored_case_{}", one.stored.id);
      std::string& note = arm.result.note;
      note = to_text(one) + (note.empty() ? "" : "; " + note);
      evidence.arms.push_back(std::move(arm));
    }
  }
  diagnosis::sort_races(evidence.races);
  for (std::string& line : open_lines(replayed)) evidence.not_examined.push_back(std::move(line));

  const std::string rest = verdict.summary;
  if (again > 0 && verdict.outcome != core::Outcome::fail &&
      verdict.outcome != core::Outcome::error) {
    verdict.outcome = core::Outcome::fail;
    verdict.summary = fmt::format("fail: {} failed again: {}; the others: {}",
                                  cases_text(again, replayed.size()), first_again, rest);
  } else if (again > 0) {
    verdict.summary += fmt::format("; {} failed again", cases_text(again, replayed.size()));
  } else if (open > 0 && (verdict.outcome == core::Outcome::pass ||
                          verdict.outcome == core::Outcome::skipped)) {
    verdict.outcome = core::Outcome::inconclusive;
    verdict.summary = fmt::format("inconclusive: {} could not be judged; the others: {}",
                                  cases_text(open, replayed.size()), rest);
  } else if (open == 0) {
    verdict.summary += fmt::format("; {} stored case{} now", replayed.size(),
                                   replayed.size() == 1 ? " passes" : "s pass");
  }
}

}  // namespace faultline::stress
