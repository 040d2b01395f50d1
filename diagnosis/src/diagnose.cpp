// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/diagnose.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "call_order.hpp"
#include "config_onset.hpp"
#include "cures.hpp"
#include "divergence.hpp"
#include "facts.hpp"
#include "footprint.hpp"
#include "readings.hpp"
#include "rules/rule.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

using core::Finding;
using core::FindingClass;
using core::Outcome;
using core::Severity;

/// Below this an explanation is too weak to be the verdict; it is named as what comes closest.
constexpr double kConvincing = 0.5;

bool makes_inconclusive(FindingClass finding) {
  return finding == FindingClass::no_evidence || finding == FindingClass::vacuous ||
         finding == FindingClass::contract || finding == FindingClass::bound_vacuous ||
         finding == FindingClass::timing_contaminated;
}

bool is_failure(const Finding& finding) {
  return finding.severity == Severity::error && !makes_inconclusive(finding.finding);
}

/// A note that names what could not be seen does not stand in for an explanation.
bool contains(const std::vector<Finding>& findings, FindingClass wanted) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.finding == wanted && f.severity != Severity::note;
  });
}

bool is_race(const Finding& finding) { return core::is_race(finding.finding); }

/// Below what convinces: named as what comes second, no more.
constexpr double kOutranked = kConvincing - 0.05;

/// The decision order of docs/verdicts.md, where the fit alone would decide otherwise.
///
/// Repeats come first: what differs between runs on equal inputs and poison is not decided by a
/// config, a size or a precision, however well these divide the few cells of a sweep.
///
/// So it is with what only a later call gets wrong: what it left unwritten, say, is not what is
/// missing. And what the layout of its data cures is decided by that, not by its size or config.
///
/// A value class comes before config where it names what the settings only turn up: most wrong
/// values overflow, or their errors are of the size of rounding errors, and the configs that pass
/// have a smaller value of the same setting.
void put_in_order(const Facts& facts, std::vector<Finding>& explanations) {
  if (call_order(facts).decides) {
    for (Finding& finding : explanations) {
      if (finding.finding == FindingClass::state) continue;
      finding.confidence = std::min(finding.confidence, kOutranked);
    }
    return;
  }
  if (!timing_dependence(facts).empty()) {
    double race = 0.0;
    for (const Finding& finding : explanations) {
      if (is_race(finding)) race = std::max(race, finding.confidence);
    }
    for (Finding& finding : explanations) {
      if (is_race(finding)) continue;
      if (finding.finding != FindingClass::uninitialised) {
        finding.confidence = std::min(finding.confidence, kOutranked);
      } else if (race >= kConvincing && poison_is_refuted(facts)) {
        // Read before its time: the race explains that, memory that nobody writes does not.
        finding.confidence = std::min(finding.confidence, race - 0.05);
      }
    }
    return;
  }
  const bool layout =
      effect_of(facts.evidence, core::ExperimentEvidence::Kind::contiguous) == Effect::cured;
  for (Finding& finding : explanations) {
    const bool of_the_cells = finding.finding == FindingClass::tail ||
                              finding.finding == FindingClass::config ||
                              finding.finding == FindingClass::systematic_offset;
    if (layout && of_the_cells) finding.confidence = std::min(finding.confidence, kOutranked);
  }
  const auto config = std::find_if(explanations.begin(), explanations.end(), [](const Finding& f) {
    return f.finding == FindingClass::config;
  });
  const std::optional<ConfigOnset> onset = config_onset(facts);
  if (config == explanations.end() || !onset) return;
  for (Finding& finding : explanations) {
    const bool of_values = finding.finding == FindingClass::special_values ||
                           finding.finding == FindingClass::accumulation;
    if (!of_values || finding.confidence < kConvincing) continue;
    config->confidence = std::min(config->confidence, kOutranked);
    finding.evidence.push_back(
        fmt::format("it depends on the config: wrong from {}={} on, right up to {}={}",
                    onset->setting, onset->least_failing, onset->setting, onset->largest_passing));
    finding.runner_up = FindingClass::config;
    finding.runner_up_reason =
        fmt::format("{} only sets how far it goes: the wrong values themselves say what goes wrong",
                    onset->setting);
  }
}

/// The best explanation of the wrong values, its runner-up filled in from the next best.
void add_explanation(const Facts& facts, std::vector<Finding> explanations,
                     std::vector<Finding>& findings) {
  put_in_order(facts, explanations);
  std::stable_sort(explanations.begin(), explanations.end(),
                   [](const Finding& a, const Finding& b) { return a.confidence > b.confidence; });
  Finding* best = explanations.empty() ? nullptr : &explanations.front();
  if (facts.any_race_error()) {
    // The races explain the values of the trials that raced. Only something else, and something
    // certain, is worth saying beside them.
    if (best && best->confidence >= 0.8 && facts.wrong_without_race()) findings.push_back(*best);
    return;
  }
  if (!facts.any_wrong()) return;
  if (facts.only_without_reference()) return;
  // Nothing to hold against the kernel. A sweep leaves such problems out, and judges the others.
  if (!facts.evidence.contract_violations.empty() && facts.evidence.mode != "verify") return;
  const std::string divergence = first_divergence(facts);
  const auto add = [&](Finding finding) {
    if (!divergence.empty()) finding.evidence.insert(finding.evidence.begin(), divergence);
    for (std::string& text : reading_texts(facts.evidence)) {
      finding.evidence.push_back(std::move(text));
    }
    const bool open = finding.finding == FindingClass::unknown;
    for (std::string& text : footprint_texts(facts.evidence, open)) {
      finding.evidence.push_back(std::move(text));
    }
    for (std::string& text : experiment_texts(facts.evidence)) {
      // A rule may have put the one that it rests on in front.
      const std::vector<std::string>& said = finding.evidence;
      if (std::find(said.begin(), said.end(), text) == said.end()) {
        finding.evidence.push_back(std::move(text));
      }
    }
    findings.push_back(std::move(finding));
  };
  if (!best || best->confidence < kConvincing) {
    add(unknown_finding(facts, best));
    return;
  }
  if (explanations.size() > 1 && explanations[1].confidence >= kConvincing &&
      explanations[1].finding != best->finding) {
    best->runner_up = explanations[1].finding;
    best->runner_up_reason =
        fmt::format("it fits less well ({:.2f} against {:.2f}): {}", explanations[1].confidence,
                    best->confidence, explanations[1].headline);
  }
  add(*best);
}

void rank(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    // What leaves the run open is the reason of its outcome: before warnings that do not.
    const bool a_open = makes_inconclusive(a.finding), b_open = makes_inconclusive(b.finding);
    if (a.severity == Severity::warning && a_open != b_open) return a_open;
    return a.confidence > b.confidence;
  });
}

std::string classes_text(const std::vector<Finding>& findings, bool (*wanted)(const Finding&)) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    if (!wanted(finding)) continue;
    const std::string name(core::name_of(finding.finding));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string skip_reasons(const core::Evidence& evidence) {
  std::set<std::string> reasons;
  auto add = [&](const core::TrialResult& result) {
    if (result.skipped) reasons.insert(result.note.empty() ? "no reason given" : result.note);
  };
  for (const core::ArmEvidence& arm : evidence.arms) add(arm.result);
  for (const core::ConfigEvidence& cell : evidence.configs) add(cell.result);
  constexpr std::size_t kNamed = 3;
  const std::size_t more = reasons.size() > kNamed ? reasons.size() - kNamed : 0;
  const auto end = std::next(reasons.begin(), static_cast<std::ptrdiff_t>(reasons.size() - more));
  return fmt::format("{}{}", fmt::join(reasons.begin(), end, "; "),
                     more > 0 ? fmt::format("; {}", plural(more, "other reason")) : "");
}

std::string clean_summary(const Facts& facts) {
  const core::Evidence& evidence = facts.evidence;
  std::string text = fmt::format("{}: 0 of {} failed, rate {}", subject_text(evidence),
                                 plural(facts.trials, "trial"), upper_bound_text(facts.trials));
  if (!facts.configs.empty()) {
    std::set<std::string> problems, configs;
    for (const core::ConfigEvidence* cell : facts.configs) {
      problems.insert(cell->problem);
      configs.insert(cell->config);
    }
    text += fmt::format("; {} x {}", plural(problems.size(), "problem"),
                        plural(configs.size(), "config"));
  }
  if (facts.compared_elements > 0) {
    double worst = 0.0;
    for (const core::OutputTotals& output : facts.outputs) {
      worst = std::max(worst, output.worst_ratio);
    }
    text += fmt::format("; worst error {} of the bound", number(worst));
  } else {
    text += "; no values were compared";
  }
  if (facts.skipped > 0) {
    text += fmt::format("; {} skipped ({})", facts.skipped, skip_reasons(evidence));
  }
  return text;
}

}  // namespace

core::Verdict diagnose(const core::Evidence& evidence, std::string_view cut_by) {
  const Facts facts(evidence);
  core::Verdict verdict;
  std::vector<Finding> explanations;
  for (const Rule& rule : rules()) {
    std::optional<Finding> finding = rule.examine(facts);
    if (!finding) continue;
    (rule.kind == Rule::Kind::fact ? verdict.findings : explanations)
        .push_back(std::move(*finding));
  }
  add_explanation(facts, std::move(explanations), verdict.findings);

  const std::optional<Finding> trouble = find_instrument_trouble(facts);
  if (trouble) verdict.findings.insert(verdict.findings.begin(), *trouble);
  // Whatever the rules say: a failed trial is a failure.
  const bool explained =
      std::any_of(verdict.findings.begin(), verdict.findings.end(), is_failure) ||
      (facts.only_without_reference() && contains(verdict.findings, FindingClass::bound_vacuous)) ||
      (contains(verdict.findings, FindingClass::contract) && evidence.mode != "verify");
  if (facts.failed > 0 && !explained) verdict.findings.push_back(unknown_finding(facts, nullptr));
  rank(verdict.findings);

  const bool failed = std::any_of(verdict.findings.begin(), verdict.findings.end(), is_failure);
  const bool open =
      std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) {
        return makes_inconclusive(f.finding) && f.severity != Severity::note;
      });
  const std::string first = verdict.findings.empty() ? "" : verdict.findings.front().headline;
  const std::string cut = evidence.interrupted ? fmt::format(" ({}: what ran so far)", cut_by) : "";

  if (trouble) {
    verdict.outcome = Outcome::error;
    verdict.summary = fmt::format("error: {}{}", trouble->headline, cut);
  } else if (failed) {
    verdict.outcome = Outcome::fail;
    verdict.summary =
        fmt::format("fail({}): {}{}", classes_text(verdict.findings, is_failure), first, cut);
  } else if (facts.trials == 0 && facts.skipped > 0 && facts.results.empty() &&
             !contains(verdict.findings, FindingClass::contract)) {
    verdict.outcome = Outcome::skipped;
    verdict.summary = fmt::format("skipped: {}", skip_reasons(evidence));
  } else if (open) {
    verdict.outcome = Outcome::inconclusive;
    const auto wanted = [](const Finding& f) { return makes_inconclusive(f.finding); };
    const auto reason = std::find_if(verdict.findings.begin(), verdict.findings.end(), wanted);
    verdict.summary = fmt::format("inconclusive({}): {}{}", classes_text(verdict.findings, wanted),
                                  reason->headline, cut);
  } else if (facts.trials == 0) {
    verdict.outcome = Outcome::inconclusive;
    verdict.summary =
        fmt::format("inconclusive: no trial of {} was finished{}", subject_text(evidence), cut);
  } else if (evidence.interrupted) {
    verdict.outcome = Outcome::inconclusive;
    verdict.summary =
        fmt::format("inconclusive: {} before the plan was done; {}", cut_by, clean_summary(facts));
  } else {
    verdict.outcome = Outcome::pass;
    const std::string races = classes_text(verdict.findings, [](const Finding& f) {
      return is_race(f) && f.severity == Severity::note;
    });
    verdict.summary =
        races.empty()
            ? fmt::format("pass: {}", clean_summary(facts))
            : fmt::format("pass with a note ({}, which strict mode reports as an error): {}", races,
                          clean_summary(facts));
    const std::string warnings = classes_text(
        verdict.findings, [](const Finding& f) { return f.severity == Severity::warning; });
    if (!warnings.empty()) verdict.summary += fmt::format("; warnings: {}", warnings);
    const std::string notes = classes_text(
        verdict.findings, [](const Finding& f) { return f.severity == Severity::note; });
    if (!notes.empty()) verdict.summary += fmt::format("; notes: {}", notes);
  }
  return verdict;
}

std::vector<FindingClass> produced_classes() {
  std::set<FindingClass> classes{FindingClass::unknown};
  for (const Rule& rule : rules()) classes.insert(rule.finding);
  return {classes.begin(), classes.end()};
}

}  // namespace faultline::diagnosis
