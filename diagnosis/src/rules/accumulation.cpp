// SPDX-License-Identifier: Apache-2.0
// accumulation: sums or a state kept in too low a precision. Either the residual is that of a named
// low-precision form, or the relative error grows with the length, steadily and from a small value.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"
#include "terms.hpp"

namespace faultline::diagnosis {
namespace {

/// Relative errors of one output over increasing lengths.
struct Series {
  std::string output, config;
  std::vector<const core::GrowthEvidence*> rows;

  double slope(std::size_t from, std::size_t to) const {
    return std::log(rows[to]->relative_l2 / rows[from]->relative_l2) /
           std::log(static_cast<double>(rows[to]->length) /
                    static_cast<double>(rows[from]->length));
  }
  bool any_wrong() const {
    return std::any_of(rows.begin(), rows.end(), [](const auto* row) { return row->wrong; });
  }
  /// From a small error upwards, never falling back by much, no faster than the length.
  bool grows() const {
    constexpr double kSmall = 0.03;  // a few bf16 roundings; a wrong formula starts higher
    if (rows.size() < 3 || !any_wrong() || !rows.back()->wrong) return false;
    double highest = 0.0;
    for (const core::GrowthEvidence* row : rows) {
      if (!std::isfinite(row->relative_l2) || !(row->relative_l2 > 0.0)) return false;
      if (row->relative_l2 < 0.8 * highest) return false;
      highest = std::max(highest, row->relative_l2);
    }
    if (rows.front()->relative_l2 > kSmall) return false;
    const double whole = slope(0, rows.size() - 1);
    return rows.back()->relative_l2 >= 2.0 * rows.front()->relative_l2 && whole <= 1.6;
  }
  bool saturates() const {
    return slope(rows.size() - 2, rows.size() - 1) < 0.5 * slope(0, rows.size() - 1);
  }
};

std::vector<Series> series_of(const Facts& facts) {
  std::map<std::tuple<std::string, std::string, std::string>,
           std::map<std::int64_t, const core::GrowthEvidence*>>
      by_length;
  for (const core::GrowthEvidence& row : facts.evidence.growth) {
    if (row.length > 0) by_length[{row.output, row.config, row.others}][row.length] = &row;
  }
  std::vector<Series> all;
  for (const auto& [key, rows] : by_length) {
    Series series{std::get<0>(key), std::get<1>(key), {}};
    for (const auto& [length, row] : rows) series.rows.push_back(row);
    all.push_back(std::move(series));
  }
  return all;
}

/// Best fit of a low-precision form, whether or not it is good enough to be claimed.
const core::TermEvidence* closest_low_precision(const Facts& facts) {
  const core::TermEvidence* best = nullptr;
  for (const core::TermEvidence* term : facts.terms) {
    if (term->kind != core::ErrorHypothesis::Kind::low_precision || term->elements == 0) continue;
    if (!best || term->r_squared > best->r_squared) best = term;
  }
  return best;
}

}  // namespace

std::optional<core::Finding> find_accumulation(const Facts& facts) {
  if (!facts.any_wrong()) return std::nullopt;
  const std::optional<TermExplanation> explanation = explain_terms(facts);
  if (explanation && explanation->finding() == core::FindingClass::accumulation) {
    return term_finding(facts, *explanation);
  }

  const std::vector<Series> all = series_of(facts);
  const Series* longest = nullptr;
  for (const Series& series : all) {
    if (!series.grows()) continue;
    if (!longest || series.rows.back()->relative_l2 > longest->rows.back()->relative_l2) {
      longest = &series;
    }
  }
  if (!longest) return std::nullopt;

  // A sum that is too coarse loses with the length in whatever config it is computed; of something
  // else one config among several may happen to grow.
  std::size_t growing = 0, wrong_series = 0;
  for (const Series& series : all) {
    if (series.output != longest->output || series.rows.size() < 3 || !series.any_wrong()) continue;
    ++wrong_series;
    growing += series.grows();
  }
  const bool by_chance = 2 * growing < wrong_series;

  const core::TermEvidence* form = closest_low_precision(facts);
  const bool fits = form && form->r_squared >= 0.5 && form->coefficient > 0.5;
  core::Finding finding;
  finding.finding = core::FindingClass::accumulation;
  finding.severity = core::Severity::error;
  finding.confidence = fits ? 0.9 : by_chance ? 0.45 : !longest->rows.front()->wrong ? 0.75 : 0.55;
  finding.headline = fmt::format(
      "{} loses accuracy with the length: {} is off by {} at {} {} and {} "
      "at {}",
      subject_text(facts.evidence), longest->output, number(longest->rows.front()->relative_l2),
      "length", longest->rows.front()->length, number(longest->rows.back()->relative_l2),
      longest->rows.back()->length);
  finding.evidence.push_back(
      fmt::format("the relative error of {} grows like length^{:.2f}{}{}", longest->output,
                  longest->slope(0, longest->rows.size() - 1),
                  longest->saturates() ? " and flattens towards the end" : "",
                  longest->config.empty() ? "" : fmt::format(" [{}]", longest->config)));
  for (std::string& sentence : growth_sentences(facts)) {
    finding.evidence.push_back(std::move(sentence));
  }
  const auto& shape = facts.evidence.error_shape;
  if (shape && shape->wrong_elements > 0) {
    finding.evidence.push_back(fmt::format("{} wrong elements are smaller in magnitude than "
                                           "expected; a sum that stagnates loses, it does not gain",
                                           share(shape->smaller, shape->wrong_elements)));
  }
  if (form) {
    finding.evidence.push_back(fmt::format("{}: coefficient {:+.3f}, R^2 = {:.3f}", form->name,
                                           form->coefficient, form->r_squared));
  }
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  finding.runner_up = core::FindingClass::missing_term;
  finding.runner_up_reason =
      facts.terms.empty()
          ? "a term that crosses chunks also grows with their number, and the "
            "subject names no terms to compare with"
          : "a term that crosses chunks also grows with their number; no named term "
            "explains the residual";
  finding.advice = "Keep the running sum or state in fp32, or shorten the chain of additions.";
  return finding;
}

}  // namespace faultline::diagnosis
