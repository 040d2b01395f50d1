// SPDX-License-Identifier: Apache-2.0
// systematic_offset: the design is wrong. Every config of the sweep fails in every trial, with the
// same error vector up to rounding, far above what rounding explains.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

struct Agreement {
  std::uint64_t pairs = 0;
  double worst_difference = 0.0;   ///< |a - b| / max(|a|, |b|), Euclidean
  double worst_correlation = 1.0;  ///< cosine of the angle between two error vectors
};

void compare(const std::vector<double>& a, const std::vector<double>& b, Agreement& agreement) {
  double aa = 0, bb = 0, ab = 0, dd = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
    dd += (a[i] - b[i]) * (a[i] - b[i]);
    ++used;
  }
  if (used < 2 || aa == 0.0 || bb == 0.0) return;
  ++agreement.pairs;
  agreement.worst_difference =
      std::max(agreement.worst_difference, std::sqrt(dd / std::max(aa, bb)));
  agreement.worst_correlation = std::min(agreement.worst_correlation, ab / std::sqrt(aa * bb));
}

}  // namespace

std::optional<core::Finding> find_systematic_offset(const Facts& facts) {
  if (facts.configs.empty() || facts.poison_share() > 0.5) return std::nullopt;
  std::map<std::string, std::vector<const core::ConfigEvidence*>> by_problem;
  std::set<std::string> config_names;
  double least_ratio = INFINITY;
  // A size at which every config passes does not reach the defect.
  std::set<std::string> failing_problems, passing_problems;
  for (const core::ConfigEvidence* cell : facts.configs) {
    (cell->failed ? failing_problems : passing_problems).insert(cell->problem);
  }
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (!failing_problems.contains(cell->problem)) continue;
    const core::TrialResult& r = cell->result;
    if (!cell->failed || r.wrong_values == 0 || r.wrong_values != r.trials) return std::nullopt;
    by_problem[cell->problem].push_back(cell);
    config_names.insert(cell->config);
    double ratio = 0.0;
    for (const core::OutputTotals& output : r.outputs) ratio = std::max(ratio, output.worst_ratio);
    least_ratio = std::min(least_ratio, ratio);
  }
  if (config_names.size() < 2) return std::nullopt;

  Agreement agreement;
  for (const auto& [problem, cells] : by_problem) {
    for (std::size_t i = 1; i < cells.size(); ++i) {
      compare(cells[0]->error_sample, cells[i]->error_sample, agreement);
    }
  }
  const bool same = agreement.pairs > 0 && agreement.worst_difference <= 0.05 &&
                    agreement.worst_correlation >= 0.99;
  const bool far_above_rounding = least_ratio >= 4.0;
  // The vectors of two configs are taken under the same poison: that what is computed from it
  // agrees says nothing. Where most of what is wrong is NaN or Inf, they hold the rounding of the
  // rest.
  std::uint64_t not_finite = 0, wrong = 0;
  for (const core::OutputTotals& output : facts.outputs) {
    not_finite += output.not_finite;
    wrong += judged_wrong(output);
  }
  const bool an_offset = !values_follow_poison(facts) && 2 * not_finite < wrong;

  core::Finding finding;
  finding.finding = core::FindingClass::systematic_offset;
  finding.severity = core::Severity::error;
  finding.confidence = !same || !far_above_rounding || !an_offset ? 0.45
                       : passing_problems.empty()                 ? 0.95
                                                                  : 0.85;
  finding.headline = fmt::format(
      "{} is wrong in the same way in every config: the defect is in the design, not in the tuning",
      subject_text(facts.evidence));
  finding.evidence.push_back(fmt::format("all {} fail in every trial, on {}",
                                         plural(config_names.size(), "config"),
                                         plural(by_problem.size(), "problem")));
  if (!passing_problems.empty()) {
    finding.evidence.push_back(fmt::format("{} passed, in every config alike",
                                           plural(passing_problems.size(), "other problem")));
  }
  if (agreement.pairs > 0) {
    finding.evidence.push_back(fmt::format(
        "the error vectors of different configs agree: relative difference at most {}, correlation "
        "at least {:.4f} ({} compared)",
        number(agreement.worst_difference), agreement.worst_correlation,
        plural(agreement.pairs, "pair")));
  }
  finding.evidence.push_back(fmt::format(
      "the worst error is at least {} times the bound in each of them, so it is not rounding",
      number(least_ratio)));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  finding.runner_up = core::FindingClass::config;
  finding.runner_up_reason = "no config is right, and a defect of one code path would not give the "
                             "same numbers in the others";
  finding.advice = "Look at what all configs share: an index, a term counted twice, a path that "
                   "should have been compiled out.";
  return finding;
}

}  // namespace faultline::diagnosis
