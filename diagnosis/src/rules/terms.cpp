// SPDX-License-Identifier: Apache-2.0
#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "../words.hpp"
#include "faultline/diagnosis/cell_text.hpp"

namespace faultline::diagnosis {
namespace {

using core::ErrorHypothesis;
using core::FindingClass;
using core::TermEvidence;
using How = TermCandidate::How;

/// All that is known of one cell in which something was wrong.
struct Cell {
  std::vector<const TermEvidence*> terms;
  std::vector<const core::TermCombinationEvidence*> combinations;
};
using CellKey = std::pair<std::string, std::string>;

std::map<CellKey, Cell> wrong_cells(const Facts& facts) {
  std::map<CellKey, Cell> cells;
  for (const TermEvidence* term : facts.terms) {
    if (term->elements > 0) cells[{term->problem, term->config}].terms.push_back(term);
  }
  for (const core::TermCombinationEvidence& combination : facts.evidence.term_combinations) {
    const auto cell = cells.find({combination.problem, combination.config});
    if (cell != cells.end()) cell->second.combinations.push_back(&combination);
  }
  return cells;
}

/// Rounding is not quite independent from element to element, so the standard error alone is too
/// strict.
bool near(double coefficient, double value, double standard_error, double slack = 0.05) {
  return std::fabs(coefficient - value) <= slack + 4.0 * standard_error;
}

std::optional<TermCandidate> candidate_of(const TermEvidence& term, double coefficient,
                                          double r_squared, std::string rows) {
  TermCandidate candidate;
  candidate.names = {term.name};
  candidate.coefficients = {coefficient};
  candidate.r_squared = r_squared;
  candidate.rows = std::move(rows);
  candidate.term = &term;
  switch (term.kind) {
  case ErrorHypothesis::Kind::term:
    candidate.how = near(coefficient, -1.0, term.standard_error)  ? How::missing
                    : near(coefficient, 1.0, term.standard_error) ? How::doubled
                                                                  : How::scaled;
    return candidate;
  case ErrorHypothesis::Kind::wrong_form:
    if (!near(coefficient, 1.0, term.standard_error)) return std::nullopt;
    candidate.how = How::wrong_form;
    return candidate;
  case ErrorHypothesis::Kind::low_precision:
    if (!(coefficient >= 0.25 && coefficient <= 1.25)) return std::nullopt;
    candidate.how = How::low_precision;
    return candidate;
  case ErrorHypothesis::Kind::rounding: return std::nullopt;  // a size, see below
  }
  return std::nullopt;
}

/// The same of sizes, where signs are not known or have drifted apart.
std::optional<TermCandidate> candidate_by_size(const TermEvidence& term) {
  const bool state = term.kind == ErrorHypothesis::Kind::low_precision;
  if (!state && term.kind != ErrorHypothesis::Kind::rounding) return std::nullopt;
  // Of a state some correlation is left, however far the roundings have drifted.
  if (state && !(term.coefficient >= kCertain * term.standard_error)) return std::nullopt;
  if (!(term.size_ratio >= (state ? kSmallestState : kSmallestSize))) return std::nullopt;
  if (!(term.size_ratio <= (state ? kLargestState : kLargestSize))) return std::nullopt;
  TermCandidate candidate;
  candidate.how = How::size;
  candidate.names = {term.name};
  candidate.coefficients = {term.size_ratio};
  candidate.r_squared = term.size_explained;
  candidate.term = &term;
  return candidate;
}

std::optional<TermCandidate> candidate_of(const core::TermCombinationEvidence& combination,
                                          const Cell& cell) {
  TermCandidate candidate;
  candidate.how = How::several;
  candidate.names = combination.names;
  candidate.coefficients = combination.coefficients;
  candidate.r_squared = combination.r_squared;
  for (const double c : combination.coefficients) {
    // Terms that feed each other do not add up exactly.
    if (!near(std::fabs(c), 1.0, 0.0, 0.15)) return std::nullopt;
  }
  for (const TermEvidence* term : cell.terms) {
    if (!combination.names.empty() && term->name == combination.names.front()) {
      candidate.term = term;
    }
  }
  if (!candidate.term) return std::nullopt;
  return candidate;
}

bool is_plain(const TermCandidate& candidate) {
  return candidate.how != How::scaled && candidate.how != How::several && candidate.rows.empty();
}

/// What a reading leaves unexplained, times what it asks for: a scaled term, single rows and each
/// further term must leave a third of what a plain reading leaves; of two that leave the same
/// (where they differ is below rounding), the one that the subject names first is the likelier.
double cost(const TermCandidate& candidate) {
  constexpr double kPerParameter = 3.0, kPerPlace = 1.02;
  const auto parameters = candidate.names.size() - 1 + (is_plain(candidate) ? 0u : 1u);
  return std::max(1.0 - candidate.r_squared, 1e-9) *
         std::pow(kPerParameter, static_cast<double>(parameters)) *
         std::pow(kPerPlace, static_cast<double>(candidate.order));
}

/// Those that may be claimed come first, of these the ones that no output contradicts. A size
/// explains less than a value.
bool better(const TermCandidate& a, const TermCandidate& b) {
  if (a.claimed() != b.claimed()) return a.claimed();
  const bool a_size = a.how == How::size, b_size = b.how == How::size;
  if (a_size != b_size) return b_size;
  if (a.contradicted() != b.contradicted()) return b.contradicted();
  return std::pair(cost(a), a.order) < std::pair(cost(b), b.order);
}

double coefficient_of(const TermCandidate& candidate, const std::string& name) {
  for (std::size_t i = 0; i < candidate.names.size(); ++i) {
    if (candidate.names[i] == name) return candidate.coefficients[i];
  }
  return 0.0;
}

/// Outputs of the cell against what the reading predicts.
void compare_footprint(const Cell& cell, TermCandidate& candidate) {
  constexpr double kUnseen = 0.25;  // of the bound: cannot make a right element wrong
  // Of a mean size one draw may well fall short.
  const double seen = candidate.how == How::size ? 2.0 * kVisible : kVisible;
  struct Footprint {
    double visibility = 0.0;
    bool wrong = false;
  };
  std::map<std::string, Footprint> outputs;
  for (const TermEvidence* term : cell.terms) {
    const double coefficient = coefficient_of(candidate, term->name);
    for (const core::TermOutputEvidence& output : term->outputs) {
      Footprint& footprint = outputs[output.output];
      footprint.wrong = footprint.wrong || output.wrong > 0;
      footprint.visibility =
          std::max(footprint.visibility, output.visibility * std::fabs(coefficient));
    }
  }
  for (const auto& [name, footprint] : outputs) {
    if (footprint.wrong && footprint.visibility < kUnseen) candidate.wrong_beyond.push_back(name);
    // Single rows may miss the element with the largest effect.
    if (!footprint.wrong && footprint.visibility >= seen && candidate.rows.empty()) {
      candidate.right_though_predicted.push_back(
          fmt::format("{} (effect {} times the bound)", name, number(footprint.visibility)));
    }
  }
}

/// The residual goes along with the effect of another hypothesis: it is not rounding, even if
/// nothing fits well enough to be claimed.
bool follows_another(const Cell& cell, const TermEvidence& term) {
  constexpr double kAlong = 0.25;
  return std::any_of(cell.terms.begin(), cell.terms.end(), [&](const TermEvidence* other) {
    return other != &term && other->kind != ErrorHypothesis::Kind::rounding &&
           other->r_squared >= kAlong;
  });
}

/// Readings of a cell, best first.
std::vector<TermCandidate> readings(const Cell& cell) {
  std::vector<TermCandidate> candidates;
  const auto add = [&](std::optional<TermCandidate> candidate) {
    if (candidate) candidates.push_back(std::move(*candidate));
  };
  for (const TermEvidence* term : cell.terms) {
    add(candidate_of(*term, term->coefficient, term->r_squared, ""));
    if (!follows_another(cell, *term)) add(candidate_by_size(*term));
    if (term->kind != ErrorHypothesis::Kind::term) continue;
    add(candidate_of(*term, term->first_row_coefficient, term->first_row_r_squared,
                     "on the first row of each chunk"));
    add(candidate_of(*term, term->last_row_coefficient, term->last_row_r_squared,
                     "on the last row of each chunk"));
  }
  for (const core::TermCombinationEvidence* combination : cell.combinations) {
    add(candidate_of(*combination, cell));
  }
  for (TermCandidate& candidate : candidates) {
    compare_footprint(cell, candidate);
    candidate.order = static_cast<std::size_t>(
        std::find(cell.terms.begin(), cell.terms.end(), candidate.term) - cell.terms.begin());
  }
  std::stable_sort(candidates.begin(), candidates.end(), better);
  return candidates;
}

std::string coefficient_text(double c) { return fmt::format("{:+.3f}", c); }
std::string r_squared_text(double r) {
  return r > 0.9995 && r < 1.0 ? fmt::format("{:.5f}", r) : fmt::format("{:.3f}", r);
}

std::string terms_text(const Facts& facts, const TermCandidate& candidate) {
  std::vector<std::string> names;
  for (const std::string& name : candidate.names) {
    const auto term = std::find_if(facts.terms.begin(), facts.terms.end(),
                                   [&](const TermEvidence* t) { return t->name == name; });
    const bool more =
        term != facts.terms.end() && !(*term)->terms.empty() && (*term)->terms != name;
    names.push_back(more ? fmt::format("{} ({})", name, (*term)->terms) : name);
  }
  return list(names);
}

std::string headline_of(const Facts& facts, const TermCandidate& best) {
  const std::string subject = subject_text(facts.evidence);
  const std::string terms = terms_text(facts, best);
  const std::string where = best.rows.empty() ? "" : " " + best.rows;
  switch (best.how) {
  case How::missing: return fmt::format("{} lacks the term {}{}", subject, terms, where);
  case How::doubled: return fmt::format("{} counts the term {} twice{}", subject, terms, where);
  case How::scaled:
    return fmt::format("{} has the term {} with the wrong factor {:.3g}{}", subject, terms,
                       1.0 + best.coefficients.front(), where);
  case How::several: {
    std::vector<std::string> missing, doubled;
    for (std::size_t i = 0; i < best.names.size(); ++i) {
      TermCandidate one;
      one.names = {best.names[i]};
      (best.coefficients[i] < 0 ? missing : doubled).push_back(terms_text(facts, one));
    }
    if (doubled.empty()) return fmt::format("{} lacks the terms {}", subject, list(missing));
    if (missing.empty()) return fmt::format("{} counts the terms {} twice", subject, list(doubled));
    return fmt::format("{} lacks {} and counts {} twice", subject, list(missing), list(doubled));
  }
  case How::wrong_form: return fmt::format("{} computes a wrong form: {}", subject, terms);
  case How::low_precision:
    return fmt::format("{} accumulates in too low a precision: {}", subject, terms);
  case How::size:
    return best.term->kind == ErrorHypothesis::Kind::low_precision
               ? fmt::format("{} accumulates in too low a precision: {}", subject, terms)
               : fmt::format("{} amplifies rounding errors: {}", subject, terms);
  }
  return subject;
}

std::string fit_sentence(const TermCandidate& best) {
  const TermEvidence& term = *best.term;
  if (best.how == How::size) {
    return fmt::format(
        "|got - expected| is {:.2g} times what the emulated rounding errors of {} are expected to "
        "be, up to {} times the bound; {:.4g} % of the squared error of {} is within their reach",
        best.coefficients.front(), best.name(), number(term.visibility), 100.0 * best.r_squared,
        plural(term.elements, "element"));
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < best.names.size(); ++i) {
    parts.push_back(fmt::format("{} times the effect of {}", coefficient_text(best.coefficients[i]),
                                best.names[i]));
  }
  std::string text = fmt::format("got - expected is {}{}: R^2 = {} over {} of the wrong outputs",
                                 list(parts), best.rows.empty() ? "" : " " + best.rows,
                                 r_squared_text(best.r_squared), plural(term.elements, "element"));
  if (term.excluded > 0) {
    text += fmt::format(" ({} left out: not finite, or never written)", count(term.excluded));
  }
  return text;
}

std::string meaning_sentence(const TermCandidate& best) {
  switch (best.how) {
  case How::missing:
  case How::doubled: return "a coefficient of -1 means missing, +1 counted twice";
  case How::scaled:
    return fmt::format("-1 would mean missing, +1 counted twice; {:+.3f} is a factor of {:.3g} "
                       "where 1 is right",
                       best.coefficients.front(), 1.0 + best.coefficients.front());
  case How::several: return "coefficients of -1 mean missing, +1 counted twice";
  case How::wrong_form: return "a coefficient of 1 means that exactly this wrong form is computed";
  case How::low_precision:
    return "a coefficient of 1 means exactly this rounding; less, that the kernel's and the "
           "emulated "
           "roundings drift apart; 0, that they have nothing in common";
  case How::size:
    return "sizes were compared, not values: each order of summation errs in its own way";
  }
  return {};
}

std::string footprint_sentence(const TermExplanation& explanation) {
  std::vector<std::string> wrong, right;
  for (const core::TermOutputEvidence& output : explanation.best.term->outputs) {
    (output.wrong > 0 ? wrong : right).push_back(output.output);
  }
  const std::string name = explanation.best.name();
  std::string text = right.empty()
                         ? fmt::format("{} {} wrong", list(wrong), wrong.size() == 1 ? "is" : "are")
                         : fmt::format("only {} {} wrong ({} right)", list(wrong),
                                       wrong.size() == 1 ? "is" : "are", list(right));
  if (!explanation.best.contradicted()) {
    return text + fmt::format(", as the data flow of {} predicts", name);
  }
  if (!explanation.best.wrong_beyond.empty()) {
    text += fmt::format("; {} has no effect on {}", name, list(explanation.best.wrong_beyond));
  }
  if (!explanation.best.right_though_predicted.empty()) {
    text += fmt::format("; {} should show in {} too", name,
                        list(explanation.best.right_though_predicted));
  }
  return text;
}

}  // namespace

std::string TermCandidate::name() const { return list(names); }

bool TermCandidate::supported() const {
  const std::uint64_t parameters = names.size() + (rows.empty() ? 0u : 1u);
  return term->elements >= std::max(kFewestElements, kElementsPerParameter * parameters) &&
         term->excluded <= term->elements;
}

bool TermCandidate::claimed() const {
  if (!supported()) return false;
  // A size without signs is weak evidence: nothing may speak against it.
  if (how == How::size) return r_squared >= kWithinReach && !contradicted();
  if (how != How::low_precision) return r_squared >= kClaimed;
  return r_squared >= kClaimedLowPrecision &&
         coefficients.front() >= kCertain * term->standard_error;
}

FindingClass TermExplanation::finding() const {
  switch (best.how) {
  case How::missing:
  case How::doubled:
  case How::several: return FindingClass::missing_term;
  case How::scaled:
  case How::wrong_form: return FindingClass::wrong_term;
  case How::low_precision:
  case How::size: return FindingClass::accumulation;
  }
  return FindingClass::unknown;
}

std::optional<TermExplanation> explain_terms(const Facts& facts) {
  const std::map<CellKey, Cell> cells = wrong_cells(facts);
  // The best reading of each cell votes for itself; its strongest cell speaks for it.
  struct Vote {
    std::size_t cells = 0;
    const Cell* strongest = nullptr;
    TermCandidate reading;
  };
  std::map<std::tuple<How, std::string, std::string>, Vote> votes;
  for (const auto& [key, cell] : cells) {
    const std::vector<TermCandidate> candidates = readings(cell);
    if (candidates.empty() || !candidates.front().claimed()) continue;
    const TermCandidate& best = candidates.front();
    Vote& vote = votes[{best.how, best.name(), best.rows}];
    ++vote.cells;
    if (!vote.strongest || best.r_squared > vote.reading.r_squared) {
      vote.strongest = &cell;
      vote.reading = best;
    }
  }
  if (votes.empty()) return std::nullopt;
  const Vote* won = nullptr;
  for (const auto& [key, vote] : votes) {
    if (!won || std::pair(vote.cells, vote.reading.r_squared) >
                    std::pair(won->cells, won->reading.r_squared)) {
      won = &vote;
    }
  }

  TermExplanation explanation;
  explanation.best = won->reading;
  explanation.cells = cells.size();
  explanation.explained = won->cells;
  for (const TermCandidate& rival : readings(*won->strongest)) {
    if (rival.name() == explanation.best.name() || !rival.rows.empty()) continue;
    // A combination that holds the winner says the same with more words.
    const std::vector<std::string>& names = rival.names;
    if (rival.how == How::several &&
        std::find(names.begin(), names.end(), explanation.best.names.front()) != names.end()) {
      continue;
    }
    explanation.runner_up = rival;  // they come best first
    break;
  }
  if (explanation.runner_up) {
    explanation.ambiguous =
        explanation.runner_up->claimed() && !explanation.runner_up->contradicted() &&
        1.0 - explanation.runner_up->r_squared <= 2.0 * (1.0 - explanation.best.r_squared) + 1e-6;
  }
  return explanation;
}

core::Finding term_finding(const Facts& facts, const TermExplanation& explanation) {
  const TermCandidate& best = explanation.best;
  core::Finding finding;
  finding.finding = explanation.finding();
  finding.severity = core::Severity::error;
  // Above systematic_offset and tail, which the same facts often fit too: this one names the term.
  finding.confidence = 0.97 + 0.02 * (best.r_squared - kClaimed) / (1.0 - kClaimed);
  if (best.how == How::low_precision) {
    finding.confidence = 0.6 + 0.37 * std::min(1.0, best.r_squared / kClaimed);
  } else if (best.how == How::size) {
    // Above config: where the errors are amplified says less than how.
    finding.confidence = best.term->kind == ErrorHypothesis::Kind::rounding ? 0.92 : 0.75;
  } else if (explanation.ambiguous) {
    finding.confidence = 0.965;
  }
  if (2 * explanation.explained < explanation.cells) finding.confidence = 0.8;
  if (explanation.best.contradicted()) finding.confidence = std::min(finding.confidence, 0.7);
  finding.headline = headline_of(facts, best);
  finding.evidence.push_back(fit_sentence(best));
  finding.evidence.push_back(meaning_sentence(best));
  finding.evidence.push_back(footprint_sentence(explanation));
  if (explanation.cells > 1) {
    finding.evidence.push_back(
        fmt::format("it explains {} of {} (problem, config) with wrong values",
                    count(explanation.explained), plural(explanation.cells, "cell")));
  }
  if (!best.term->problem.empty()) {
    finding.evidence.push_back(fmt::format("these figures are of {}, where its effect reaches "
                                           "{} times the bound",
                                           cell_text(best.term->problem, best.term->config),
                                           number(best.term->visibility)));
  }
  if (explanation.runner_up) {
    const TermCandidate& rival = *explanation.runner_up;
    finding.evidence.push_back(
        fmt::format("next best: {} with {}, R^2 = {}", rival.name(),
                    rival.coefficients.size() == 1
                        ? "coefficient " + coefficient_text(rival.coefficients.front())
                        : "one coefficient each",
                    r_squared_text(rival.r_squared)));
  }
  for (std::string& sentence : growth_sentences(facts)) {
    finding.evidence.push_back(std::move(sentence));
  }
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  if (explanation.runner_up) {
    const TermCandidate& rival = *explanation.runner_up;
    TermExplanation as_finding;
    as_finding.best = rival;
    const bool same = as_finding.finding() == finding.finding;
    finding.runner_up = same ? FindingClass::systematic_offset : as_finding.finding();
    finding.runner_up_reason = fmt::format(
        "the next best reading, {}, explains R^2 = {}{}", rival.name(),
        r_squared_text(rival.r_squared),
        explanation.ambiguous ? ": at these inputs the two can hardly be told apart" : "");
  } else {
    finding.runner_up = FindingClass::systematic_offset;
    finding.runner_up_reason = "the same numbers in every config, but without a name for them";
  }
  finding.advice = best.how == How::low_precision ? "Keep this sum or state in fp32."
                   : best.how == How::size
                       ? "Compute it in a way whose intermediate values stay of the size of the "
                         "result, or keep such inputs out of the domain."
                       : fmt::format("Compare the code that should compute {} with its formula.",
                                     best.term->terms.empty() ? best.name() : best.term->terms);
  return finding;
}

std::vector<std::string> growth_sentences(const Facts& facts) {
  std::map<std::tuple<std::string, std::string, std::string>,
           std::map<std::int64_t, const core::GrowthEvidence*>>
      series;
  std::set<std::string> wrong;
  for (const core::GrowthEvidence& row : facts.evidence.growth) {
    series[{row.output, row.config, row.others}][row.length] = &row;
    if (row.wrong) wrong.insert(row.output);
  }
  std::vector<std::string> sentences;
  std::set<std::string> said;
  for (const auto& [key, rows] : series) {
    const std::string& output = std::get<0>(key);
    if (rows.size() < 2 || !wrong.contains(output) || !said.insert(output).second) continue;
    std::vector<std::string> points;
    for (const auto& [length, row] : rows) {
      points.push_back(
          fmt::format("{}: {:.2g}", row->chunks > 0 ? row->chunks : length, row->relative_l2));
    }
    const bool chunks = rows.begin()->second->chunks > 0;
    sentences.push_back(
        fmt::format("relative L2 of {} by {}{}: {}", output, chunks ? "number of chunks" : "length",
                    std::get<1>(key).empty() ? "" : fmt::format(" [{}]", std::get<1>(key)),
                    fmt::join(points, ", ")));
  }
  return sentences;
}

}  // namespace faultline::diagnosis
