// SPDX-License-Identifier: Apache-2.0
#include "evidence_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "faultline/diagnosis/experiment.hpp"
#include "kill_matrix_table.hpp"
#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

constexpr std::size_t kTermRows = 8;
constexpr std::size_t kGrowthRows = 12;
constexpr double kVisible = 1.5;   // bounds that an effect needs to be relied on
constexpr double kFitsWell = 0.9;  // R^2 from which a row is marked

bool is_bad(const EvidenceTable::Row& row) { return row.bad; }

std::string coefficient_text(double value) {
  const std::string text = fmt::format("{:+.3f}", value);
  return text == "-0.000" ? "+0.000" : text;
}

std::string r_squared_text(double value) {
  return value > 0.9995 && value < 1.0 ? fmt::format("{:.5f}", value)
                                       : fmt::format("{:.3f}", value);
}

std::string cell_name(const std::string& problem, const std::string& config) {
  return config.empty() ? problem : fmt::format("{} [{}]", problem, config);
}

/// "dk, dbeta": outputs that `wanted` holds for.
template <class Wanted>
std::string outputs_text(const core::TermEvidence& term, const Wanted& wanted) {
  std::vector<std::string> names;
  for (const core::TermOutputEvidence& output : term.outputs) {
    if (wanted(output)) {
      names.push_back(output.output);
    }
  }
  return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
}

/// The fits of the cell in which some term explains most.
EvidenceTable term_fits(const core::Evidence& evidence) {
  const core::TermEvidence* best = nullptr;
  for (const core::TermEvidence& term : evidence.terms) {
    if (term.elements > 0 && (!best || term.r_squared > best->r_squared)) {
      best = &term;
    }
  }
  EvidenceTable table{.id = "terms",
                      .title = "Named terms",
                      .remark = "least squares of got - expected on each term's effect",
                      .columns = {{"term", false, true},
                                  {"coefficient", true},
                                  {"R^2", true},
                                  {"effect", true},
                                  {"predicts wrong", false, true}},
                      .rows = {},
                      .footer = {}};
  if (!best) {
    return table;
  }
  std::vector<const core::TermEvidence*> here;
  for (const core::TermEvidence& term : evidence.terms) {
    if (term.problem == best->problem && term.config == best->config) {
      here.push_back(&term);
    }
  }
  std::stable_sort(here.begin(), here.end(),
                   [](const auto* a, const auto* b) { return a->r_squared > b->r_squared; });
  const auto suffix = [](core::ErrorHypothesis::Kind kind) {
    return kind == core::ErrorHypothesis::Kind::term         ? ""
           : kind == core::ErrorHypothesis::Kind::wrong_form ? " (form)"
           : kind == core::ErrorHypothesis::Kind::rounding   ? " (size)"
                                                             : " (low precision)";
  };
  for (std::size_t i = 0; i < here.size() && i < kTermRows; ++i) {
    const core::TermEvidence& term = *here[i];
    table.rows.push_back({{term.name + suffix(term.kind), coefficient_text(term.coefficient),
                           r_squared_text(term.r_squared), bound_text(term.visibility),
                           outputs_text(term,
                                        [](const core::TermOutputEvidence& output) {
                                          return output.visibility >= kVisible;
                                        })},
                          term.r_squared >= kFitsWell});
  }
  for (const core::TermCombinationEvidence& several : evidence.term_combinations) {
    if (several.problem != best->problem || several.config != best->config) {
      continue;
    }
    std::vector<std::string> coefficients;
    for (const double coefficient : several.coefficients) {
      coefficients.push_back(coefficient_text(coefficient));
    }
    table.rows.push_back({{fmt::format("{}", fmt::join(several.names, " and ")),
                           fmt::format("{}", fmt::join(coefficients, " ")),
                           r_squared_text(several.r_squared), "-", "-"},
                          false});
  }
  table.footer = fmt::format(
      "wrong: {}",
      outputs_text(*best, [](const core::TermOutputEvidence& output) { return output.wrong > 0; }));
  if (!best->problem.empty()) {
    table.footer += fmt::format("; of {}", cell_name(best->problem, best->config));
  }
  if (here.size() > kTermRows) {
    table.footer += fmt::format("; {} more {} fit no better", count_text(here.size() - kTermRows),
                                here.size() - kTermRows == 1 ? "hypothesis" : "hypotheses");
  }
  table.footer += ". Terms: -1 missing, +1 counted twice; forms: 1 is exactly that form";
  if (std::count_if(table.rows.begin(), table.rows.end(), is_bad) > 1) {
    table.footer += fmt::format(
        ". In red: R^2 >= {}; effects that look alike all fit well, and the findings say which is "
        "blamed",
        kFitsWell);
  }
  return table;
}

/// Nothing was wrong: how far each term could have been seen, over all cells.
EvidenceTable term_visibility(const core::Evidence& evidence) {
  EvidenceTable table{.id = "terms",
                      .title = "Named terms",
                      .remark = "the largest effect that each has in this run, against the bound",
                      .columns = {{"term", false, true}, {"effect", true}, {"visible"}},
                      .rows = {},
                      .footer = {},
                      .detail_only = true};
  std::vector<std::pair<std::string, double>> largest;
  for (const core::TermEvidence& term : evidence.terms) {
    const auto known = std::find_if(largest.begin(), largest.end(),
                                    [&](const auto& row) { return row.first == term.name; });
    if (known == largest.end()) {
      largest.emplace_back(term.name, term.visibility);
    } else {
      known->second = std::max(known->second, term.visibility);
    }
  }
  for (const auto& [name, effect] : largest) {
    table.rows.push_back(
        {{name, bound_text(effect), effect >= kVisible ? "yes" : "no"}, !(effect >= kVisible)});
  }
  return table;
}

EvidenceTable growth(const core::Evidence& evidence) {
  EvidenceTable table{.id = "growth",
                      .title = "Accuracy by length",
                      .remark = "problems that differ in it alone; relative L2 error, pooled",
                      .columns = {{"output"}, {"problem", false, true}, {"config", false, true}},
                      .rows = {},
                      .footer = {}};
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, std::map<std::int64_t, const core::GrowthEvidence*>> series;
  std::map<std::int64_t, std::set<std::int64_t>> chunks_of;  // by length
  for (const core::GrowthEvidence& row : evidence.growth) {
    series[{row.output, row.config, row.others}][row.length] = &row;
    chunks_of[row.length].insert(row.chunks);
  }
  for (const auto& [length, chunks] : chunks_of) {
    table.columns.push_back({chunks.size() == 1 && *chunks.begin() > 0
                                 ? fmt::format("{} ({})", length, *chunks.begin())
                                 : std::to_string(length),
                             true});
  }
  // The problem without its length tells rows of one config apart.
  std::vector<std::string_view> other_lines;
  for (const auto& [key, by_length] : series) {
    other_lines.push_back(std::get<2>(key));
  }
  const CommonWords others(other_lines);
  std::vector<std::pair<Key, EvidenceTable::Row>> rows;
  for (const auto& [key, by_length] : series) {
    EvidenceTable::Row row{{std::get<0>(key), others.without(std::get<2>(key)), std::get<1>(key)},
                           false};
    for (const auto& [length, chunks] : chunks_of) {
      const auto found = by_length.find(length);
      if (found == by_length.end()) {
        row.cells.emplace_back("-");
        continue;
      }
      row.cells.push_back(
          fmt::format("{:.2g}{}", found->second->relative_l2, found->second->wrong ? "*" : ""));
      row.bad = row.bad || found->second->wrong;
    }
    rows.emplace_back(key, std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.bad > b.second.bad; });
  for (std::size_t i = 0; i < rows.size() && i < kGrowthRows; ++i) {
    table.rows.push_back(std::move(rows[i].second));
  }
  table.footer = "columns: length (chunks); * some element is beyond its bound";
  if (rows.size() > kGrowthRows) {
    table.footer += fmt::format("; {} more rows in the JSON report", rows.size() - kGrowthRows);
  }
  const auto same_problem = [](const EvidenceTable::Row& row) {
    return row.cells[1].empty() || row.cells[1] == "-";
  };
  if (std::all_of(table.rows.begin(), table.rows.end(), same_problem)) {
    table.columns.erase(table.columns.begin() + 1);
    for (EvidenceTable::Row& row : table.rows) {
      row.cells.erase(row.cells.begin() + 1);
    }
  } else if (!others.text().empty()) {
    table.footer += "; all with " + others.text();
  }
  table.detail_only = std::none_of(table.rows.begin(), table.rows.end(), is_bad);
  return table;
}

/// Of the first cell in which something was wrong, else of the first one.
EvidenceTable intermediates(const core::Evidence& evidence) {
  EvidenceTable table{.id = "intermediates",
                      .title = "Intermediates",
                      .remark = "in the order of the algorithm, the outputs last",
                      .columns = {{"name"},
                                  {""},
                                  {"worst error", true},
                                  {"wrong", true},
                                  {"of", true},
                                  {"wrong tiles", false, true}},
                      .rows = {},
                      .footer = {}};
  if (evidence.intermediates.empty()) {
    return table;
  }
  const auto wrong = std::find_if(evidence.intermediates.begin(), evidence.intermediates.end(),
                                  [](const auto& row) { return row.wrong > 0; });
  const core::IntermediateEvidence& first =
      wrong == evidence.intermediates.end() ? evidence.intermediates.front() : *wrong;
  for (const core::IntermediateEvidence& row : evidence.intermediates) {
    if (row.problem != first.problem || row.config != first.config) {
      continue;
    }
    const std::string tiles =
        row.first_tile < 0
            ? "-"
            : fmt::format("{}{} of {}", row.first_tile,
                          row.last_tile > row.first_tile ? fmt::format(" to {}", row.last_tile)
                                                         : "",
                          row.tiles);
    table.rows.push_back(
        {{row.name + (row.is_output ? " (output)" : ""),
          row.compared == 0 ? "nothing compared"
          : row.wrong > 0   ? "WRONG"
                            : "ok",
          bound_text(row.worst_ratio), count_text(row.wrong), count_text(row.compared), tiles},
         row.wrong > 0});
  }
  table.footer = fmt::format("of {}", cell_name(first.problem, first.config));
  return table;
}

/// Cures and knobs: a failing arm again with one thing changed.
EvidenceTable experiments(const core::Evidence& evidence) {
  EvidenceTable table{.id = "experiments",
                      .title = "Cures and knobs",
                      .remark =
                          "what failed, again with one thing changed, both in trials of their own",
                      .columns = {{"changed", false, true},
                                  {"wrong before", true},
                                  {"wrong after", true},
                                  {"effect", false, true}},
                      .rows = {},
                      .footer = {}};
  const auto effect = [](const core::ExperimentEvidence& row) -> std::string {
    switch (diagnosis::effect_of(row)) {
    case diagnosis::Effect::not_run: return "not run: " + row.left_out;
    case diagnosis::Effect::cured: return "cured";
    case diagnosis::Effect::lowered: return "less often";
    case diagnosis::Effect::raised:
      return row.place.empty() ? "more often" : "more often; one site is enough: " + row.place;
    case diagnosis::Effect::unchanged: return "none";
    case diagnosis::Effect::open: return "too few trials to say";
    }
    return {};
  };
  for (const core::ExperimentEvidence& row : evidence.experiments) {
    const bool ran = row.after_trials > 0;
    table.rows.push_back(
        {{row.change,
          fmt::format("{} of {}", count_text(row.before_wrong), count_text(row.before_trials)),
          ran ? fmt::format("{} of {}", count_text(row.after_wrong), count_text(row.after_trials))
              : "-",
          effect(row)},
         false});
  }
  return table;
}

}  // namespace

std::vector<EvidenceTable> evidence_tables_of(const core::RunRecord& record) {
  const core::Evidence& evidence = record.evidence;
  const bool fitted = std::any_of(evidence.terms.begin(), evidence.terms.end(),
                                  [](const auto& term) { return term.elements > 0; });
  std::vector<EvidenceTable> tables{kill_matrix_table(record), intermediates(evidence),
                                    fitted ? term_fits(evidence) : term_visibility(evidence),
                                    growth(evidence), experiments(evidence)};
  std::erase_if(tables, [](const EvidenceTable& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace faultline::reports
