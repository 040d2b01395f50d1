// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/compare.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/token.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/stress/statistics.hpp"

namespace faultline::stress {
namespace {

using Kind = RunChange::Kind;

constexpr double kAlpha = 0.05;
constexpr double kErrorGrowth = 1.1;  // of the worst error over bound
constexpr double kTimeGrowth = 0.05;  // and twice the spread

/// Larger is worse.
int badness(core::Outcome outcome) {
  switch (outcome) {
  case core::Outcome::pass: return 0;
  case core::Outcome::skipped: return 1;
  case core::Outcome::inconclusive: return 2;
  case core::Outcome::fail: return 3;
  case core::Outcome::error: return 4;
  }
  return 4;
}

/// Severity of each class among the findings above a note, the worst.
std::map<std::string, core::Severity> classes_of(const core::Verdict& verdict) {
  std::map<std::string, core::Severity> classes;
  for (const core::Finding& finding : verdict.findings) {
    if (finding.severity == core::Severity::note) continue;
    const auto [at, fresh] = classes.emplace(core::name_of(finding.finding), finding.severity);
    if (!fresh) at->second = std::max(at->second, finding.severity);
  }
  return classes;
}

/// Arms by name, cells by problem and config; also those that did not run, or those that did alone.
std::map<std::string, const core::TrialResult*> results_of(const core::Evidence& evidence,
                                                           bool planned = false) {
  std::map<std::string, const core::TrialResult*> results;
  const auto add = [&](std::string name, const core::TrialResult& result) {
    const bool ran = !result.skipped && result.trials > 0;
    if (ran || planned) results.emplace(std::move(name), &result);
  };
  for (const core::ArmEvidence& arm : evidence.arms) {
    add("arm " + arm.perturbation.name, arm.result);
  }
  for (const core::ConfigEvidence& cell : evidence.configs) {
    add(diagnosis::cell_text(cell.problem, cell.config), cell.result);
  }
  return results;
}

std::map<std::string, double> worst_ratios(const core::Evidence& evidence) {
  std::map<std::string, double> worst;
  for (const auto& [name, result] : results_of(evidence)) {
    for (const core::OutputTotals& output : result->outputs) {
      if (output.compared_elements == 0) continue;
      double& ratio = worst[output.name];
      ratio = std::max(ratio, output.worst_ratio);
    }
  }
  return worst;
}

std::uint64_t trials_of(const core::Evidence& evidence) {
  std::uint64_t trials = 0;
  for (const auto& [name, result] : results_of(evidence)) trials += result->trials;
  return trials;
}

/// What a record tells of how its inputs were drawn: tokens and the command line name the mode.
std::set<std::string> data_modes_of(const core::RunRecord& record) {
  std::set<std::string> modes;
  for (const core::ArmEvidence& arm : record.evidence.arms) {
    try {
      if (!arm.token.empty()) modes.emplace(name_of(core::decode_token(arm.token).data));
    } catch (const core::UsageError&) {
      modes.emplace("unreadable");
    }
  }
  const std::string& line = record.provenance.command_line;
  if (const std::size_t at = line.find("--data"); at != line.npos) {
    std::string_view mode = std::string_view(line).substr(at + 6);
    mode.remove_prefix(std::min(mode.find_first_not_of(" ="), mode.size()));
    modes.emplace(mode.substr(0, mode.find(' ')));
  }
  modes.erase(std::string(name_of(core::DataMode::normal)));
  return modes;
}

/// Arms of the same name, if both have one, do the same.
bool same_perturbations(const core::Evidence& a, const core::Evidence& b) {
  for (const core::ArmEvidence& x : a.arms) {
    for (const core::ArmEvidence& y : b.arms) {
      if (x.perturbation.name == y.perturbation.name && !(x.perturbation == y.perturbation)) {
        return false;
      }
    }
  }
  return true;
}

/// A row of the kill matrix in words, and how good that is.
std::pair<const char*, int> standing(const core::KillRow& row) {
  if (row.is_mutant) {
    if (row.right) return {"killed, named right", 3};
    if (row.killed) return {"killed, named otherwise", 2};
    if (row.no_evidence) return {"no evidence", 0};
    return {row.applicable() ? "alive" : "not run", 0};
  }
  if (row.no_evidence) return {"not cleared", 2};
  if (!row.applicable()) return {"not run", 2};
  if (row.right) return {"not blamed", 3};
  return row.killed ? std::pair{"blamed: fails", 0} : std::pair{"blamed: does not pass", 1};
}

std::string rate_text(const core::TrialResult& result) {
  const core::Interval interval =
      wilson_interval(std::min(result.failed, result.trials), result.trials);
  return fmt::format("{} of {} ({:.3g} .. {:.3g} %)", result.failed, result.trials,
                     100 * interval.low, 100 * interval.high);
}

class Comparer {
 public:
  Comparer(const core::RunRecord& before, const core::RunRecord& after)
      : before_(before),
        after_(after),
        equal_trials_(before.seed == after.seed && before.variant == after.variant &&
                      before.problem == after.problem && before.config == after.config &&
                      before.analysis_plan == after.analysis_plan &&
                      data_modes_of(before) == data_modes_of(after) &&
                      same_perturbations(before.evidence, after.evidence) &&
                      before.provenance.backend.name == after.provenance.backend.name &&
                      trials_of(before.evidence) == trials_of(after.evidence)) {}

  RunComparison run() {
    identities();
    outcome();
    findings();
    rates();
    errors();
    bench();
    mutants();
    std::stable_sort(comparison_.changes.begin(), comparison_.changes.end(),
                     [](const RunChange& a, const RunChange& b) { return a.kind < b.kind; });
    return comparison_;
  }

 private:
  void add(Kind kind, std::string text) { comparison_.changes.push_back({kind, std::move(text)}); }

  void identities() {
    if (before_.command != after_.command || before_.subject != after_.subject) {
      throw core::UsageError(fmt::format(
          "a run of `{} {}` and one of `{} {}` cannot be compared: give two of the same",
          before_.command, before_.subject, after_.command, after_.subject));
    }
    const auto note = [&](const char* what, const std::string& a, const std::string& b) {
      if (a != b) add(Kind::differs, fmt::format("{}: {} -> {}", what, a, b));
    };
    note("variant", before_.variant, after_.variant);
    note("problem", before_.problem, after_.problem);
    note("config", before_.config, after_.config);
    note("backend", before_.provenance.backend.name, after_.provenance.backend.name);
    note("device", before_.provenance.backend.device, after_.provenance.backend.device);
    note("seed", std::to_string(before_.seed), std::to_string(after_.seed));
    if (before_.module_hashes != after_.module_hashes) {
      add(Kind::differs, "the code of the kernels");
    }
    if (data_modes_of(before_) != data_modes_of(after_)) add(Kind::differs, "the data mode");
    if (!same_perturbations(before_.evidence, after_.evidence)) {
      add(Kind::differs, "what an arm does");
    }
    const std::uint64_t a = trials_of(before_.evidence), b = trials_of(after_.evidence);
    note("trials", std::to_string(a), std::to_string(b));
  }

  void outcome() {
    const core::Outcome a = before_.verdict.outcome, b = after_.verdict.outcome;
    if (a == b) return;
    add(badness(b) > badness(a) ? Kind::worse : Kind::better,
        fmt::format("outcome: {} -> {} ({})", core::name_of(a), core::name_of(b),
                    after_.verdict.summary));
  }

  void findings() {
    const auto a = classes_of(before_.verdict), b = classes_of(after_.verdict);
    for (const auto& [name, severity] : b) {
      const auto known = a.find(name);
      if (known == a.end()) {
        add(Kind::worse, fmt::format("finding: {} ({}) is new", name, core::name_of(severity)));
      } else if (known->second != severity) {
        add(severity > known->second ? Kind::worse : Kind::better,
            fmt::format("finding: {} was a {} and is a {}", name, core::name_of(known->second),
                        core::name_of(severity)));
      }
    }
    for (const auto& [name, severity] : a) {
      if (b.contains(name)) continue;
      add(Kind::better, fmt::format("finding: {} ({}) is gone", name, core::name_of(severity)));
    }
  }

  void rates() {
    const auto a = results_of(before_.evidence), b = results_of(after_.evidence);
    std::vector<std::string> both, lost;
    for (const auto& [name, result] : a) {
      if (b.contains(name)) {
        both.push_back(name);
      } else {
        lost.push_back(name);
      }
    }
    comparison_.rates = comparison_.compared = both.size();
    if (!lost.empty() || b.size() > both.size()) {
      constexpr std::size_t kNamed = 4;
      std::string text = fmt::format("arms and cells: {} in both, {} before alone, {} after alone",
                                     both.size(), lost.size(), b.size() - both.size());
      const std::size_t named = std::min(lost.size(), kNamed);
      if (named > 0) {
        text += fmt::format("; no trials now: {}{}",
                            fmt::join(lost.begin(), lost.begin() + named, ", "),
                            lost.size() > named ? ", ..." : "");
      }
      // A run that failed looks further, and one that passes does not: what is not even planned now
      // may be that.
      const auto planned = results_of(after_.evidence, true);
      const bool missing = std::any_of(lost.begin(), lost.end(), [&](const std::string& name) {
        return planned.contains(name) || before_.verdict.outcome != core::Outcome::fail;
      });
      add(lost_kind(missing && !both.empty()), text);
    }
    const bool exact = equal_trials_ && before_.evidence.backend_is_model;
    for (const std::string& name : both) {
      const core::TrialResult &x = *a.at(name), &y = *b.at(name);
      const std::uint64_t x_failed = std::min(x.failed, x.trials),
                          y_failed = std::min(y.failed, y.trials);
      const double p = fisher_exact(x_failed, x.trials, y_failed, y.trials);
      const bool same_trials = exact && x.trials == y.trials;
      if (x_failed == y_failed && x.trials == y.trials) continue;
      const bool changed =
          same_trials || p < kAlpha / static_cast<double>(std::max<std::size_t>(both.size(), 1));
      const double x_rate = static_cast<double>(x_failed) / static_cast<double>(x.trials),
                   y_rate = static_cast<double>(y_failed) / static_cast<double>(y.trials);
      const std::string text =
          fmt::format("rate of {}: {} -> {}", name, rate_text(x), rate_text(y));
      if (changed) {
        add(y_rate > x_rate ? Kind::worse : Kind::better,
            same_trials ? text + "; the trials are the same ones"
                        : fmt::format("{}; Fisher p = {:.2g} over {} rates", text, p, both.size()));
      } else if (x_rate != y_rate) {
        add(Kind::differs,
            fmt::format("{}; no evidence of a difference (Fisher p = {:.2g})", text, p));
      }
    }
  }

  void errors() {
    const auto a = worst_ratios(before_.evidence), b = worst_ratios(after_.evidence);
    for (const auto& [name, after] : b) {
      const auto known = a.find(name);
      if (known == a.end() || known->second == after) continue;
      const double before = known->second;
      const bool leaves = before <= 1.0 && after > 1.0, enters = before > 1.0 && after <= 1.0;
      const std::string text =
          fmt::format("worst error of {}: {:.3g} -> {:.3g} of the bound", name, before, after);
      if (leaves || (equal_trials_ && after > kErrorGrowth * before)) {
        add(Kind::worse, text);
      } else if (enters || (equal_trials_ && after * kErrorGrowth < before)) {
        add(Kind::better, text);
      } else {
        add(Kind::differs, text);
      }
    }
  }

  /// What ran before and did not run now is worse, unless the run was cut short.
  Kind lost_kind(bool lost) const {
    return lost && !after_.evidence.interrupted ? Kind::worse : Kind::differs;
  }

  static bool same_row(const core::BenchRow& a, const core::BenchRow& b) {
    return a.name == b.name && a.problem == b.problem && a.config == b.config;
  }
  static bool same_row(const core::KillRow& a, const core::KillRow& b) {
    return a.subject == b.subject && a.variant == b.variant;
  }
  template <class Row>
  static std::vector<const Row*> alone(const std::vector<Row>& rows,
                                       const std::vector<Row>& others) {
    std::vector<const Row*> left;
    for (const Row& row : rows) {
      const bool has_other = std::any_of(others.begin(), others.end(),
                                         [&](const Row& other) { return same_row(row, other); });
      if (!has_other) left.push_back(&row);
    }
    return left;
  }

  void bench() {
    for (const core::BenchRow* row : alone(before_.bench, after_.bench)) {
      add(Kind::differs, fmt::format("time of {} {}: measured before alone", row->name,
                                     diagnosis::cell_text(row->problem, row->config)));
    }
    for (const core::BenchRow* row : alone(after_.bench, before_.bench)) {
      add(Kind::differs, fmt::format("time of {} {}: measured after alone", row->name,
                                     diagnosis::cell_text(row->problem, row->config)));
    }
    for (const core::BenchRow& after : after_.bench) {
      for (const core::BenchRow& before : before_.bench) {
        const double x = before.median_graph_us, y = after.median_graph_us;
        if (!same_row(before, after)) continue;
        if (!(x > 0.0) || !(y > 0.0)) {
          if (x > 0.0 || y > 0.0) {
            add(Kind::differs, fmt::format("time of {} {}: measured {} alone", after.name,
                                           diagnosis::cell_text(after.problem, after.config),
                                           x > 0.0 ? "before" : "after"));
          }
          continue;
        }
        ++comparison_.compared;
        const double margin =
            1.0 + kTimeGrowth + 2 * std::max(before.spread_graph, after.spread_graph);
        const std::string text =
            fmt::format("time of {} {}: {:.4g} -> {:.4g} us", after.name,
                        diagnosis::cell_text(after.problem, after.config), x, y);
        if (before.contaminated || after.contaminated) {
          add(Kind::differs, text + "; contaminated");
        } else if (y > margin * x) {
          add(Kind::worse, text);
        } else if (y * margin < x) {
          add(Kind::better, text);
        }
      }
    }
  }

  void mutants() {
    const auto lost = alone(before_.mutants.rows, after_.mutants.rows);
    const bool any_both = lost.size() < before_.mutants.rows.size();
    for (const core::KillRow* row : lost) {
      add(lost_kind(any_both), fmt::format("{}@{}: {} before, and has no row now", row->subject,
                                           row->variant, standing(*row).first));
    }
    for (const core::KillRow* row : alone(after_.mutants.rows, before_.mutants.rows)) {
      add(Kind::differs, fmt::format("{}@{}: {}, and had no row before", row->subject, row->variant,
                                     standing(*row).first));
    }
    for (const core::KillRow& after : after_.mutants.rows) {
      for (const core::KillRow& before : before_.mutants.rows) {
        if (!same_row(before, after)) continue;
        ++comparison_.compared;
        const auto [was, was_good] = standing(before);
        const auto [is, is_good] = standing(after);
        if (std::string_view(was) == is) continue;
        add(is_good < was_good   ? Kind::worse
            : is_good > was_good ? Kind::better
                                 : Kind::differs,
            fmt::format("{}@{}: {} -> {}", after.subject, after.variant, was, is));
      }
    }
  }

  const core::RunRecord &before_, &after_;
  bool equal_trials_;
  RunComparison comparison_;
};

}  // namespace

double fisher_exact(std::uint64_t failed_a, std::uint64_t trials_a, std::uint64_t failed_b,
                    std::uint64_t trials_b) {
  if (failed_a > trials_a || failed_b > trials_b) {
    throw std::invalid_argument("Fisher's test needs failures <= trials");
  }
  // Tables with these margins, by the failures x of the first: hypergeometric weights relative to
  // the likeliest, from the ratio of neighbours; tails that underflow add nothing.
  const std::uint64_t failed = failed_a + failed_b;
  const std::uint64_t least = failed > trials_b ? failed - trials_b : 0;
  const std::uint64_t most = std::min(failed, trials_a);
  const auto ratio = [&](std::uint64_t x) {  // weight of x + 1 over that of x
    const auto d = [](std::uint64_t v) { return static_cast<double>(v); };
    return d(failed - x) * d(trials_a - x) / (d(x + 1) * d(trials_b - (failed - x) + 1));
  };
  const double mode = (static_cast<double>(failed) + 1) * (static_cast<double>(trials_a) + 1) /
                      (static_cast<double>(trials_a) + static_cast<double>(trials_b) + 2);
  const std::uint64_t middle = std::clamp(static_cast<std::uint64_t>(mode), least, most);
  std::vector<double> weights(most - least + 1);
  weights[middle - least] = 1.0;
  for (std::uint64_t x = middle; x < most; ++x) {
    weights[x + 1 - least] = weights[x - least] * ratio(x);
  }
  for (std::uint64_t x = middle; x > least; --x) {
    weights[x - 1 - least] = weights[x - least] / ratio(x - 1);
  }
  constexpr double kTie = 1.0 + 1e-7;  // equal weights may differ in rounding
  const double limit = weights[failed_a - least] * kTie;
  double as_rare = 0.0, all = 0.0;
  for (const double weight : weights) {
    all += weight;
    if (weight <= limit) as_rare += weight;
  }
  return std::min(1.0, as_rare / all);
}

std::string_view name_of(Kind kind) {
  switch (kind) {
  case Kind::worse: return "worse";
  case Kind::better: return "better";
  case Kind::differs: return "differs";
  }
  return "";
}

bool RunComparison::worse() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const RunChange& change) { return change.kind == Kind::worse; });
}

RunComparison compare_runs(const core::RunRecord& before, const core::RunRecord& after) {
  return Comparer(before, after).run();
}

}  // namespace faultline::stress
