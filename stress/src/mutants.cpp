// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/mutants.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>

#include <fmt/format.h>

#include "experiments.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/stress/race.hpp"
#include "faultline/stress/statistics.hpp"
#include "faultline/stress/verify.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

using core::Detector;
using core::FindingClass;

/// Told from counts of sectors and bank passes, which the simulator alone makes.
bool needs_access_statistics(FindingClass finding) {
  return core::is_slow(finding) && finding != FindingClass::slow_dispatch;
}

/// A defect that is told as an inconclusive run: where it stands alone it is the whole verdict.
bool is_inconclusive_class(FindingClass finding) {
  return finding == FindingClass::contract || finding == FindingClass::vacuous ||
         finding == FindingClass::bound_vacuous || finding == FindingClass::no_evidence;
}

void add_trials(core::KillCell& cell, const core::TrialResult& result) {
  if (cell.trials_to_kill == 0 && result.failed > 0) {
    const std::uint64_t first =
        result.failures.empty() ? result.trials : result.failures.front().trial + 1;
    cell.trials_to_kill = cell.trials + std::min(first, std::max<std::uint64_t>(result.trials, 1));
  }
  cell.trials += result.trials;
  cell.failed += result.failed;
}

std::string reason_of(const core::TrialResult& result, const std::string& known) {
  return !known.empty() ? known : result.message.empty() ? result.note : result.message;
}

std::string reason_of(const core::Finding& finding) {
  if (finding.evidence.empty()) return finding.headline;
  return fmt::format("{}: {}", finding.headline, finding.evidence.front());
}

/// Every detector that ran found nothing, and one at least could not tell: neither blame nor a
/// pass.
bool not_cleared(const core::KillRow& row) {
  bool open = false;
  for (const core::KillCell& cell : row.cells) {
    if (!cell.ran) continue;
    const bool passed = cell.outcome == core::Outcome::pass && cell.classes.empty();
    const bool untold =
        cell.outcome == core::Outcome::inconclusive &&
        std::all_of(cell.classes.begin(), cell.classes.end(),
                    [](FindingClass c) { return c == FindingClass::no_evidence; }) &&
        !cell.classes.empty();
    if (!passed && !untold) return false;
    open = open || untold;
  }
  return open;
}

/// What the evidence says of a variant, as one cell. `known`: warnings that do not count.
core::KillCell judge(Detector detector, const core::Evidence& evidence,
                     const kernels::Variant& variant, const std::vector<FindingClass>& known) {
  core::KillCell cell;
  cell.detector = detector;
  cell.ran = true;
  for (const core::ConfigEvidence& config : evidence.configs) add_trials(cell, config.result);
  // The arms of a sweep repeat a failure that its cells have counted.
  const bool sweep = !evidence.configs.empty();
  for (const core::ArmEvidence& arm : evidence.arms) {
    if (!sweep) add_trials(cell, arm.result);
  }
  // Nothing could be run: that is no verdict on the variant.
  const auto refused = [](const core::TrialResult& result) {
    return result.skipped || result.status == core::ExecutionStatus::unsupported;
  };
  const bool none_ran = cell.trials == 0 &&
                        std::all_of(evidence.arms.begin(), evidence.arms.end(),
                                    [&](const auto& arm) { return refused(arm.result); }) &&
                        std::all_of(evidence.configs.begin(), evidence.configs.end(),
                                    [&](const auto& config) { return refused(config.result); });
  if (none_ran) {
    cell.ran = false;
    for (const core::ArmEvidence& arm : evidence.arms) cell.note = reason_of(arm.result, cell.note);
    for (const core::ConfigEvidence& config : evidence.configs) {
      cell.note = reason_of(config.result, cell.note);
    }
    return cell;
  }
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  cell.outcome = verdict.outcome;
  for (const core::Finding& finding : verdict.findings) {
    if (finding.severity == core::Severity::note) continue;
    const bool expected = finding.severity == core::Severity::warning &&
                          std::find(known.begin(), known.end(), finding.finding) != known.end();
    if (expected) continue;
    // What leaves the verdict open is not told by the name of its class.
    if (cell.classes.empty() && is_inconclusive_class(finding.finding)) {
      cell.note = reason_of(finding);
    }
    cell.classes.push_back(finding.finding);
  }
  const bool warned = !cell.classes.empty() && (core::is_slow(cell.classes.front()) ||
                                                is_inconclusive_class(cell.classes.front()));
  const bool wants_warning =
      variant.required_finding && (core::is_slow(*variant.required_finding) ||
                                   is_inconclusive_class(*variant.required_finding));
  cell.killed = verdict.outcome == core::Outcome::fail || (wants_warning && warned);
  cell.right = cell.killed && !cell.classes.empty() && variant.required_finding &&
               cell.classes.front() == *variant.required_finding;
  if (verdict.outcome == core::Outcome::error) cell.note = verdict.summary;
  return cell;
}

/// Trials were run, and every detector that could run came to its end. One that broke, or that
/// compared nothing, is no evidence of a low rate.
bool all_passed(const core::KillRow& row) {
  std::uint64_t trials = 0;
  for (const core::KillCell& cell : row.cells) {
    if (cell.ran && cell.outcome != core::Outcome::pass) return false;
    trials += cell.trials;
  }
  return trials > 0;
}

core::KillCell not_run(Detector detector, std::string why) {
  core::KillCell cell;
  cell.detector = detector;
  cell.note = std::move(why);
  return cell;
}

using Rows = std::vector<std::pair<const kernels::Subject*, const kernels::Variant*>>;

Rows chosen(const kernels::SubjectRegistry& registry, const std::vector<std::string>& subjects) {
  Rows rows;
  std::set<std::string> wanted(subjects.begin(), subjects.end());
  for (const std::string& name : subjects) {
    const std::size_t at = name.find('@');
    const kernels::Subject& subject = registry.get(name.substr(0, at));
    if (at != std::string::npos && !subject.find_variant(name.substr(at + 1))) {
      throw core::UsageError(fmt::format("{} has no variant '{}': `faultline list {}` names them",
                                         subject.name, name.substr(at + 1), subject.name));
    }
  }
  for (const auto& subject : registry.all()) {
    for (const kernels::Variant& variant : subject->variants) {
      const bool named = wanted.empty() || wanted.contains(subject->name) ||
                         wanted.contains(subject->name + "@" + variant.name);
      if (named) rows.emplace_back(subject.get(), &variant);
    }
  }
  return rows;
}

class MatrixRun {
 public:
  MatrixRun(core::Backend& backend, const kernels::SubjectRegistry& registry,
            const MutantOptions& options)
      : backend_(backend), registry_(registry), options_(options) {
    quiet_ = options.run;
    quiet_.progress = nullptr;  // the matrix counts rows, not trials
    quiet_.checkpoint = nullptr;
    quiet_.experiments = false;  // of what has a name; what cures it is for who looks into it
  }

  core::KillMatrix run() {
    const Rows rows = chosen(registry_, options_.subjects);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (detail::stopped(options_.run)) break;
      const auto& [subject, variant] = rows[i];
      if (options_.earlier_row) {
        if (auto row = options_.earlier_row(subject->name + "@" + variant->name)) {
          matrix_.rows.push_back(std::move(*row));
          continue;
        }
      }
      if (options_.run.progress) {
        options_.run.progress({subject->name + "@" + variant->name, i, rows.size(),
                               matrix_.mutants() - matrix_.named_right()});
      }
      core::KillRow row = run_row(*subject, *variant);
      if (detail::stopped(options_.run)) break;  // a row that was cut short says nothing
      matrix_.rows.push_back(std::move(row));
      if (options_.checkpoint) options_.checkpoint(matrix_);
    }
    return std::move(matrix_);
  }

 private:
  core::KillRow run_row(const kernels::Subject& subject, const kernels::Variant& variant) {
    core::KillRow row = start_row(subject, variant);
    const kernels::Variant* twin = subject.find_variant(variant.clean_twin);
    known_ = twin ? twin->known_warnings : variant.known_warnings;
    const kernels::ResolvedTrial trial = resolve_where_it_shows(subject, variant);
    row.problem = trial.problem.values.line();
    row.config = trial.config.line();
    row.cells.push_back(timed(Detector::tight_loop, [&] { return tight_loop(trial, variant); }));
    row.cells.push_back(timed(Detector::verify, [&] { return verify(subject, variant, trial); }));
    row.cells.push_back(timed(Detector::stress, [&] { return stress(trial, variant); }));
    row.cells.push_back(
        timed(Detector::happens_before, [&] { return happens_before(trial, variant); }));
    if (!on_simulator() && variant.required_finding &&
        needs_access_statistics(*variant.required_finding)) {
      // The values are right and a device counts no accesses: no detector here could see it.
      for (core::KillCell& cell : row.cells) {
        cell = not_run(cell.detector, "the simulator alone counts accesses");
      }
    }
    for (const core::KillCell& cell : row.cells) {
      row.killed = row.killed || cell.killed;
      row.right = row.right || cell.right;
    }
    if (!on_simulator() && !row.killed && !variant.model_only.empty() && all_passed(row)) {
      row.no_evidence = true;
      for (core::KillCell& cell : row.cells) {
        if (!cell.ran || cell.trials == 0 || !cell.note.empty()) continue;
        cell.note = fmt::format("no evidence, rate below {:.2g} (95 %): {}",
                                zero_failure_upper_bound(cell.trials), variant.model_only);
      }
    }
    if (!variant.is_mutant) {
      row.right = std::all_of(row.cells.begin(), row.cells.end(), [](const core::KillCell& cell) {
        return !cell.ran || (cell.outcome == core::Outcome::pass && cell.classes.empty());
      });
      row.no_evidence = not_cleared(row);
    }
    row.cells.push_back(sanitize(trial));
    return row;
  }

  /// At the problem and config that a mutant names; a clean variant at those of its first mutant.
  kernels::ResolvedTrial resolve_where_it_shows(const kernels::Subject& subject,
                                                const kernels::Variant& variant) const {
    const kernels::Variant* shows = &variant;
    if (!variant.is_mutant) {
      for (const kernels::Variant& other : subject.variants) {
        if (other.clean_twin != variant.name) continue;
        shows = &other;
        break;
      }
    }
    std::vector<core::Assignment::Value> problem, config;
    for (const core::Assignment::Value& value : shows->shows_at) {
      (subject.problem_domain.find(value.first) ? problem : config).push_back(value);
    }
    return kernels::resolve(registry_, subject.name + "@" + variant.name, problem, config);
  }

  /// judge(), and whether a kernel has taken the device away from the detectors that follow.
  core::KillCell judged(Detector detector, const core::Evidence& evidence,
                        const kernels::Variant& variant) {
    const auto look_at = [&](const core::TrialResult& result) {
      if (!lost_to_.empty() || !detail::takes_the_device(backend_.info(), result)) return;
      hangs_ = result.status == core::ExecutionStatus::timeout;
      lost_to_ = fmt::format("{} of {}@{} ({})", hangs_ ? "hang" : "fault", evidence.subject,
                             evidence.variant, core::name_of(detector));
    };
    for (const core::ArmEvidence& arm : evidence.arms) look_at(arm.result);
    for (const core::ConfigEvidence& config : evidence.configs) look_at(config.result);
    return judge(detector, evidence, variant, known_);
  }

  template <class Work>
  core::KillCell timed(Detector detector, Work work) {
    if (detail::stopped(options_.run)) return not_run(detector, "stopped");
    if (!lost_to_.empty()) return not_run(detector, "the device was lost to the " + lost_to_);
    const auto begin = std::chrono::steady_clock::now();
    core::KillCell cell;
    try {
      cell = work();
    } catch (const core::UnsupportedError& error) {
      cell = not_run(detector, error.what());
    } catch (const core::Error& error) {
      // A detector that breaks has not cleared anybody.
      cell = not_run(detector, error.what());
      cell.ran = true;
      cell.outcome = core::Outcome::error;
    }
    cell.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return cell;
  }

  core::KillCell sanitize(const kernels::ResolvedTrial& trial) const {
    if (on_simulator()) return not_run(Detector::sanitizer, "runs on a device alone");
    if (!options_.sanitizer) {
      return not_run(Detector::sanitizer, "compute-sanitizer is not installed");
    }
    if (detail::stopped(options_.run)) return not_run(Detector::sanitizer, "stopped");
    if (hangs_) {  // it would hang there as well, beside the kernel that still runs
      return not_run(Detector::sanitizer, "the device was lost to the " + lost_to_);
    }
    return options_.sanitizer(trial);
  }

  bool on_simulator() const { return backend_.info().is_model; }

  core::KillCell tight_loop(const kernels::ResolvedTrial& trial, const kernels::Variant& variant) {
    PlannedArm arm;
    arm.perturbation.name = "none";
    arm.perturbation.policy = core::SchedulePolicy::round_robin;
    arm.perturbation.lateness = core::CopyLateness::eager;
    arm.trials = options_.tight_trials > 0 ? options_.tight_trials : on_simulator() ? 50 : 2000;
    CampaignPlan plan;
    plan.arms = {arm};
    plan.seed = options_.seed;
    plan.race = core::RaceMode::off;
    RunOptions loop = quiet_;
    loop.follow_ups = false;  // what a loop does not see, the loop does not kill
    return judged(Detector::tight_loop, run_campaign(backend_, trial, plan, loop), variant);
  }

  /// The problem where it shows, over all configs; where that names nothing right, the subject's
  /// own list of problems.
  core::KillCell verify(const kernels::Subject& subject, const kernels::Variant& variant,
                        const kernels::ResolvedTrial& trial) {
    VerifyOptions verify;
    verify.seed = options_.seed;
    verify.race = core::RaceMode::off;
    verify.run = quiet_;
    core::KillCell cell = judged(
        Detector::verify, run_verify(backend_, subject, variant, {trial.problem}, verify), variant);
    // A clean variant is looked at as hard as its mutants are.
    const bool several = variant.is_mutant
                             ? !cell.right && needs_several_problems(*variant.required_finding)
                             : std::any_of(subject.variants.begin(), subject.variants.end(),
                                           [&](const kernels::Variant& other) {
                                             return other.clean_twin == variant.name &&
                                                    needs_several_problems(*other.required_finding);
                                           });
    const bool blamed =
        !variant.is_mutant && (cell.outcome != core::Outcome::pass || !cell.classes.empty());
    if (!several || blamed || !lost_to_.empty()) return cell;
    return judged(Detector::verify,
                  run_verify(backend_, subject, variant, subject.verify_problems(true), verify),
                  variant);
  }

  /// Classes that one problem alone may not show.
  static bool needs_several_problems(FindingClass finding) {
    return finding == FindingClass::tail || finding == FindingClass::accumulation ||
           finding == FindingClass::special_values || finding == FindingClass::systematic_offset ||
           finding == FindingClass::config;
  }

  core::KillCell stress(const kernels::ResolvedTrial& trial, const kernels::Variant& variant) {
    PlanOptions options;
    options.trials = options_.stress_trials > 0 ? options_.stress_trials
                     : on_simulator()           ? 48
                                                : 500;
    options.seed = options_.seed;
    options.race = core::RaceMode::off;
    const CampaignPlan plan = default_plan(backend_.info(), trial.plan, options);
    core::Evidence evidence = run_campaign(backend_, trial, plan, quiet_);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    const bool unnamed =
        std::any_of(verdict.findings.begin(), verdict.findings.end(),
                    [](const auto& f) { return f.finding == FindingClass::unknown; });
    if (unnamed && !evidence.interrupted) {
      detail::run_experiments(backend_, trial, core::with_kept_reference(trial.plan), plan, quiet_,
                              evidence);
    }
    return judged(Detector::stress, evidence, variant);
  }

  core::KillCell happens_before(const kernels::ResolvedTrial& trial,
                                const kernels::Variant& variant) {
    if (!on_simulator()) return not_run(Detector::happens_before, "needs the simulator");
    RaceOptions race;
    race.seed = options_.seed;
    race.run = quiet_;
    return judged(Detector::happens_before, run_race(backend_, trial, race), variant);
  }

  core::Backend& backend_;
  const kernels::SubjectRegistry& registry_;
  const MutantOptions& options_;
  RunOptions quiet_;
  std::vector<FindingClass> known_;  ///< of the row under way
  std::string lost_to_;              ///< what took the device from this process; empty: nothing
  bool hangs_ = false;               ///< a kernel still runs there
  core::KillMatrix matrix_;
};

std::string names_of(const core::KillRow& row) {
  std::vector<std::string> said;
  for (const core::KillCell& cell : row.cells) {
    if (cell.ran && cell.outcome == core::Outcome::error) {
      said.push_back(fmt::format("{}: error: {}", core::name_of(cell.detector), cell.note));
      continue;
    }
    if (!cell.ran || cell.classes.empty()) continue;
    std::vector<std::string_view> names;
    for (const FindingClass finding : cell.classes) names.push_back(core::name_of(finding));
    const bool reason = is_inconclusive_class(cell.classes.front()) && !cell.note.empty();
    said.push_back(fmt::format("{}: {}{}", core::name_of(cell.detector), fmt::join(names, ", "),
                               reason ? fmt::format(" ({})", cell.note) : ""));
  }
  return said.empty() ? "no detector said anything" : fmt::format("{}", fmt::join(said, "; "));
}

}  // namespace

std::vector<std::string> mutant_rows(const kernels::SubjectRegistry& registry,
                                     const std::vector<std::string>& subjects) {
  std::vector<std::string> names;
  for (const auto& [subject, variant] : chosen(registry, subjects)) {
    names.push_back(subject->name + "@" + variant->name);
  }
  return names;
}

core::KillRow start_row(const kernels::Subject& subject, const kernels::Variant& variant) {
  core::KillRow row;
  row.subject = subject.name;
  row.variant = variant.name;
  row.clean_twin = variant.clean_twin;
  row.is_mutant = variant.is_mutant;
  row.required = variant.required_finding;
  return row;
}

core::KillMatrix run_mutants(core::Backend& backend, const kernels::SubjectRegistry& registry,
                             const MutantOptions& options) {
  return MatrixRun(backend, registry, options).run();
}

core::Verdict judge_matrix(const core::KillMatrix& matrix, bool interrupted,
                           std::string_view cut_by) {
  core::Verdict verdict;
  std::vector<std::string> not_applicable, no_evidence, not_cleared;
  bool failed = false;
  for (const core::KillRow& row : matrix.rows) {
    const std::string name = row.subject + "@" + row.variant;
    const bool open = row.no_evidence && !row.is_mutant;
    if (open) {
      not_cleared.push_back(name);
    } else if (row.no_evidence) {
      std::uint64_t trials = 0;
      for (const core::KillCell& cell : row.cells) trials += cell.trials;
      no_evidence.push_back(fmt::format("{} (0 of {}, rate below {:.2g})", name, trials,
                                        zero_failure_upper_bound(trials)));
    } else if (!row.applicable()) {
      not_applicable.push_back(name);
    }
    if (!open && (row.right || !row.applicable())) continue;
    core::Finding finding;
    finding.severity = open ? core::Severity::warning : core::Severity::error;
    if (open) {
      finding.finding = FindingClass::no_evidence;
      finding.headline = fmt::format("the clean {} is not cleared: a detector cannot tell", name);
    } else if (!row.is_mutant) {
      finding.headline = fmt::format("false alarm: the clean {} is blamed", name);
    } else if (!row.killed) {
      finding.finding = FindingClass::vacuous;
      finding.headline = fmt::format("{} survives: no detector saw it", name);
    } else {
      finding.headline = fmt::format("{} was killed under a wrong name; it must be {}", name,
                                     core::name_of(*row.required));
    }
    finding.evidence = {names_of(row), "at " + diagnosis::cell_text(row.problem, row.config)};
    verdict.findings.push_back(std::move(finding));
    failed = failed || !open;
  }
  std::string text = fmt::format(
      "{} of {} mutants killed, {} under the right name; {} of {} clean variants blamed",
      matrix.killed(), matrix.mutants(), matrix.named_right(), matrix.false_alarms(),
      matrix.clean_variants());
  if (!not_applicable.empty()) {
    text += fmt::format("; no detector can run here: {}", fmt::join(not_applicable, ", "));
  }
  if (!no_evidence.empty()) {
    text += fmt::format("; no_evidence, as only the model shows them: {}",
                        fmt::join(no_evidence, ", "));
  }
  if (!not_cleared.empty()) {
    text += fmt::format("; not cleared: {}", fmt::join(not_cleared, ", "));
  }
  const bool nothing_ran = matrix.mutants() + matrix.clean_variants() == 0;
  if (failed) {
    // What is held against a row comes first.
    std::stable_partition(verdict.findings.begin(), verdict.findings.end(),
                          [](const auto& f) { return f.severity == core::Severity::error; });
    verdict.outcome = core::Outcome::fail;
    verdict.summary = fmt::format("fail: {}", text);
    if (interrupted) verdict.summary += fmt::format("; {} before the last row", cut_by);
  } else if (interrupted || (nothing_ran && not_cleared.empty())) {
    verdict.outcome = core::Outcome::inconclusive;
    verdict.summary =
        fmt::format("inconclusive: {}; {}", text,
                    interrupted ? fmt::format("{} before the last row", cut_by) : "nothing ran");
  } else if (!not_cleared.empty()) {
    verdict.outcome = core::Outcome::inconclusive;
    verdict.summary = fmt::format("inconclusive: {}", text);
  } else {
    verdict.outcome = core::Outcome::pass;
    verdict.summary = fmt::format("pass: {}", text);
  }
  return verdict;
}

}  // namespace faultline::stress
