// SPDX-License-Identifier: Apache-2.0
// Synthetic residuals: two outputs, three terms that feed one or both of them, and noise of the
// size that the bound allows. From the regression to the finding.
#include "faultline/stress/term_regression.hpp"

#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/diagnose.hpp"

namespace faultline::test {
namespace {

using core::ErrorHypothesis;
using core::FindingClass;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kRows = 128, kCols = 8, kChunk = 32, kElements = kRows * kCols;
constexpr double kBound = 0.01;

/// Independent unit normals, the same in every run.
double normal(std::uint32_t tensor, std::int64_t i) {
  return core::unit_normal(
      core::element_bits(core::tensor_key(17, tensor), static_cast<std::uint64_t>(i)));
}

std::vector<double> noise(std::uint32_t tensor, double size) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kElements; ++i) values.push_back(size * normal(tensor, i));
  return values;
}

/// Outputs "dk" and "dv" of 4 chunks, hypotheses:
///   A_inv        dk only
///   dw_cross     dk only
///   du_corr      dk and dv
///   gamma_twice  a wrong form, both
///   bf16_state   a low precision, both
class Synthetic {
 public:
  Synthetic() {
    tiles_ = {.rows = kRows,
              .cols = kCols,
              .tile_rows = kChunk,
              .tile_cols = kCols,
              .tiles_per_group = 2,
              .tile_axis = "chunk"};
    for (std::uint32_t o = 0; o < 2; ++o) {
      references_[o].expected = noise(o, 1.0);
      references_[o].bound.assign(kElements, kBound);
      got_[o] = core::Tensor(core::Dtype::f32, {kRows, kCols});
      residual_[o] = noise(100 + o, kBound / 7);  // what a right kernel may do
    }
    const auto add = [&](const char* name, const char* terms, ErrorHypothesis::Kind kind, bool dk,
                         bool dv) {
      const auto tensor = static_cast<std::uint32_t>(10 + 2 * hypotheses_.size());
      hypotheses_.push_back({name,
                             terms,
                             kind,
                             {dk ? noise(tensor, size_) : std::vector<double>{},
                              dv ? noise(tensor + 1, size_) : std::vector<double>{}}});
    };
    using Kind = ErrorHypothesis::Kind;
    add("A_inv", "dk_A, dbeta_A", Kind::term, true, false);
    add("dw_cross", "dw_cross", Kind::term, true, false);
    add("du_corr", "du_corr", Kind::term, true, true);
    add("gamma_twice", "gamma", Kind::wrong_form, true, true);
    add("bf16_state", "state", Kind::low_precision, true, true);
  }

  /// Add `coefficient` times the effect of hypothesis `name`; `rows` chooses rows of a chunk.
  void apply(const std::string& name, double coefficient,
             const std::function<bool(std::int64_t)>& rows = {}) {
    for (const ErrorHypothesis& h : hypotheses_) {
      if (h.name != name) continue;
      for (std::size_t o = 0; o < 2; ++o) {
        for (std::size_t i = 0; i < h.effect[o].size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / kCols % kChunk;
          if (!rows || rows(row)) residual_[o][i] += coefficient * h.effect[o][i];
        }
      }
    }
  }
  void add(std::size_t o, const std::vector<double>& error) {
    for (std::size_t i = 0; i < error.size(); ++i) residual_[o][i] += error[i];
  }

  /// Evidence of a verify run of one cell.
  core::Evidence evidence() {
    stress::ExaminedTrial trial;
    core::ConfigEvidence cell;
    cell.problem = "t=64";
    cell.config = "chunk=32";
    cell.result.trials = 1;
    for (std::size_t o = 0; o < 2; ++o) {
      core::OutputTotals totals;
      totals.name = o == 0 ? "dk" : "dv";
      totals.geometry = tiles_;
      totals.compared_elements = kElements;
      for (std::int64_t i = 0; i < kElements; ++i) {
        const auto n = static_cast<std::size_t>(i);
        got_[o].set(i, references_[o].expected[n] + residual_[o][n]);
        const core::ElementCheck check = core::check_element(core::Dtype::f32, got_[o].bits(i),
                                                             references_[o].expected[n], kBound, 0);
        totals.bad_elements += core::is_failure(check.kind);
        totals.worst_ratio = std::max(totals.worst_ratio, check.ratio);
        totals.worst_error = std::max(totals.worst_error, check.error);
      }
      totals.bad_trials = totals.bad_elements > 0;
      cell.failed = cell.failed || totals.bad_elements > 0;
      cell.result.outputs.push_back(totals);
      trial.outputs.push_back(
          {.name = totals.name,
           .reference = &references_[o],
           .tiles = tiles_,
           .got = &got_[o],
           .dtype = core::Dtype::f32,
           .poison = core::Poison::plain(core::Dtype::f32, core::poison_word(0))});
    }
    cell.result.failed = cell.result.wrong_values = cell.failed ? 1 : 0;
    trial.hypotheses = hypotheses_;
    stress::TermRegression regression = stress::regress_terms({trial});
    core::Evidence evidence;
    evidence.subject = "deltanet_bwd";
    evidence.variant = "mutant";
    evidence.mode = "verify";
    evidence.configs = {cell};
    for (core::TermEvidence& term : regression.terms) {
      term.problem = cell.problem;
      term.config = cell.config;
    }
    for (core::TermCombinationEvidence& combination : regression.combinations) {
      combination.problem = cell.problem;
      combination.config = cell.config;
    }
    evidence.terms = regression.terms;
    evidence.term_combinations = regression.combinations;
    return evidence;
  }

  void scale_effects(double factor) {
    for (ErrorHypothesis& h : hypotheses_) {
      for (std::vector<double>& effect : h.effect) {
        for (double& e : effect) e *= factor;
      }
    }
  }
  core::Tensor& got(std::size_t o) { return got_[o]; }
  std::vector<double>& residual(std::size_t o) { return residual_[o]; }
  core::ReferenceTensor& reference(std::size_t o) { return references_[o]; }
  std::vector<ErrorHypothesis>& hypotheses() { return hypotheses_; }

 private:
  static constexpr double size_ = 5 * kBound;
  core::TileGeometry tiles_;
  core::ReferenceTensor references_[2];
  core::Tensor got_[2];
  std::vector<double> residual_[2];
  std::vector<ErrorHypothesis> hypotheses_;
};

const core::TermEvidence& term(const core::Evidence& evidence, const std::string& name) {
  for (const core::TermEvidence& t : evidence.terms) {
    if (t.name == name) return t;
  }
  throw std::out_of_range(name);
}

std::string text_of(const core::Finding& finding) {
  std::string text = finding.headline + "\n";
  for (const std::string& sentence : finding.evidence) text += sentence + "\n";
  return text + finding.runner_up_reason;
}

core::Finding first_finding(const core::Evidence& evidence) {
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  return verdict.findings.empty() ? core::Finding{} : verdict.findings.front();
}

TEST(TermRegression, EachMissingTermIsNamed) {
  for (const char* name : {"A_inv", "dw_cross", "du_corr"}) {
    Synthetic data;
    data.apply(name, -1.0);
    const core::Evidence evidence = data.evidence();
    EXPECT_NEAR(term(evidence, name).coefficient, -1.0, 0.01) << name;
    EXPECT_GT(term(evidence, name).r_squared, 0.99) << name;
    const core::Finding finding = first_finding(evidence);
    EXPECT_EQ(finding.finding, FindingClass::missing_term) << text_of(finding);
    EXPECT_THAT(finding.headline, HasSubstr(std::string("lacks the term ") + name));
    EXPECT_THAT(finding.headline, Not(HasSubstr(" and ")));
    EXPECT_EQ(finding.confidence > 0.96, true);
  }
}

TEST(TermRegression, TheFootprintIsComparedWithTheDataFlow) {
  Synthetic data;
  data.apply("A_inv", -1.0);
  const core::Evidence evidence = data.evidence();
  const core::TermEvidence& a = term(evidence, "A_inv");
  ASSERT_EQ(a.outputs.size(), 2u);
  EXPECT_GT(a.outputs[0].wrong, 100u);
  EXPECT_GT(a.outputs[0].visibility, 10.0);
  EXPECT_EQ(a.outputs[1].wrong, 0u);
  EXPECT_EQ(a.outputs[1].visibility, 0.0);
  EXPECT_EQ(a.elements, static_cast<std::uint64_t>(kElements));  // dv is right and stays out
  EXPECT_THAT(text_of(first_finding(evidence)),
              HasSubstr("only dk is wrong (dv right), as the data flow of A_inv predicts"));
}

TEST(TermRegression, AnOutputThatTheTermCannotReachSpeaksAgainstIt) {
  Synthetic data;
  data.apply("A_inv", -1.0);
  data.residual(1)[7] += 2 * kBound;  // one element of dv
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_THAT(text_of(finding), HasSubstr("A_inv has no effect on dv"));
  EXPECT_LT(finding.confidence, 0.96);
}

TEST(TermRegression, AnOutputThatShouldBeWrongAndIsNotSpeaksAgainstIt) {
  Synthetic data;
  data.apply("du_corr", -1.0);
  for (std::int64_t i = 0; i < kElements; ++i) {
    data.residual(1)[static_cast<std::size_t>(i)] = kBound / 7 * normal(101, i);
  }
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_THAT(text_of(finding), HasSubstr("du_corr should show in dv"));
  EXPECT_LT(finding.confidence, 0.96);
}

TEST(TermRegression, CountedTwiceIsAMissingTermToo) {
  Synthetic data;
  data.apply("dw_cross", 1.0);
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::missing_term);
  EXPECT_THAT(finding.headline, HasSubstr("counts the term dw_cross twice"));
}

TEST(TermRegression, AnotherFactorIsAWrongTerm) {
  for (const double coefficient : {-0.875, -0.5, 0.5, 3.0}) {
    Synthetic data;
    data.apply("du_corr", coefficient);
    const core::Finding finding = first_finding(data.evidence());
    EXPECT_EQ(finding.finding, FindingClass::wrong_term) << coefficient << text_of(finding);
    EXPECT_THAT(finding.headline, HasSubstr("du_corr with the wrong factor"));
  }
}

TEST(TermRegression, AWrongFormIsAWrongTerm) {
  Synthetic data;
  data.apply("gamma_twice", 1.0);
  core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::wrong_term);
  EXPECT_THAT(finding.headline, HasSubstr("computes a wrong form: gamma_twice"));
  // Half of it is not that form.
  Synthetic half;
  half.apply("gamma_twice", 0.5);
  finding = first_finding(half.evidence());
  EXPECT_EQ(finding.finding, FindingClass::unknown) << text_of(finding);
}

TEST(TermRegression, ALowPrecisionFormIsAccumulation) {
  Synthetic data;
  data.apply("bf16_state", 0.95);
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::accumulation) << text_of(finding);
  EXPECT_THAT(finding.headline, HasSubstr("bf16_state"));
}

TEST(TermRegression, ALowPrecisionFormThatDriftedApartIsStillTold) {
  // Half of the emulated roundings are those of the kernel.
  Synthetic data;
  data.apply("bf16_state", 0.5);
  data.add(0, noise(78, 2.5 * kBound));
  data.add(1, noise(79, 2.5 * kBound));
  EXPECT_EQ(first_finding(data.evidence()).finding, FindingClass::accumulation);
  // A tenth of a coefficient is not.
  Synthetic hardly;
  hardly.apply("bf16_state", 0.1);
  hardly.add(0, noise(78, 2.5 * kBound));
  EXPECT_EQ(first_finding(hardly.evidence()).finding, FindingClass::unknown);
}

/// Predicted sizes of 40 bounds in the second half of each chunk, none in the first.
std::vector<double> sizes() {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kElements; ++i) {
    values.push_back(i / kCols % kChunk < kChunk / 2 ? 0.0 : 40 * kBound);
  }
  return values;
}

/// Errors of random sign, `factor` times those sizes.
std::vector<double> errors_of(const std::vector<double>& sizes, std::uint32_t tensor,
                              double factor) {
  std::vector<double> errors = noise(tensor, factor);
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] *= sizes[i];
  return errors;
}

TEST(TermRegression, RoundingErrorsOfThePredictedSizeAreAccumulation) {
  for (const double factor : {0.3, 1.0, 2.5}) {
    Synthetic data;
    data.hypotheses().push_back(
        {"squaring", "A^-1", ErrorHypothesis::Kind::rounding, {sizes(), sizes()}});
    data.add(0, errors_of(sizes(), 200, factor));
    data.add(1, errors_of(sizes(), 201, factor));
    const core::Evidence evidence = data.evidence();
    EXPECT_NEAR(term(evidence, "squaring").coefficient / factor, 1.0, 0.1);
    EXPECT_GT(term(evidence, "squaring").r_squared, 0.999);
    const core::Finding finding = first_finding(evidence);
    EXPECT_EQ(finding.finding, FindingClass::accumulation) << text_of(finding);
    EXPECT_THAT(finding.headline, HasSubstr("amplifies rounding errors: squaring (A^-1)"));
  }
}

TEST(TermRegression, ErrorsOfAnotherSizeOrElsewhereAreNotThoseRoundings) {
  const auto finding_with = [](const std::vector<double>& dk, const std::vector<double>& dv) {
    Synthetic data;
    data.hypotheses().push_back(
        {"squaring", "A^-1", ErrorHypothesis::Kind::rounding, {sizes(), sizes()}});
    data.add(0, dk);
    data.add(1, dv);
    return first_finding(data.evidence()).finding;
  };
  const std::vector<double> right = errors_of(sizes(), 200, 1.0);
  EXPECT_EQ(finding_with(errors_of(sizes(), 200, 0.04), errors_of(sizes(), 201, 0.04)),
            FindingClass::unknown);
  EXPECT_EQ(finding_with(errors_of(sizes(), 200, 30.0), errors_of(sizes(), 201, 30.0)),
            FindingClass::unknown);
  std::vector<double> elsewhere = right;
  for (std::size_t i = 0; i < kElements; i += 7) elsewhere[i] += 40 * kBound;
  EXPECT_EQ(finding_with(elsewhere, right), FindingClass::unknown);
}

TEST(TermRegression, AValueThatFitsOutranksASizeThatDoes) {
  Synthetic data;
  data.hypotheses().push_back({"squaring",
                               "A^-1",
                               ErrorHypothesis::Kind::rounding,
                               {std::vector<double>(kElements, 5 * kBound), {}}});
  data.apply("A_inv", -1.0);
  EXPECT_EQ(first_finding(data.evidence()).finding, FindingClass::missing_term);
}

TEST(TermRegression, ALowPrecisionWhoseRoundingsDriftedFarApartIsToldByItsSize) {
  const auto evidence_with = [](double factor, double along) {
    Synthetic data;
    data.scale_effects(4.0);
    data.apply("bf16_state", along * factor);
    for (std::uint32_t o = 0; o < 2; ++o) data.add(o, noise(300 + o, factor * 20 * kBound));
    return data.evidence();
  };
  EXPECT_EQ(first_finding(evidence_with(0.7, 0.62)).finding, FindingClass::accumulation);
  // The same noise alone, and noise of another size.
  EXPECT_EQ(first_finding(evidence_with(1.0, 0.0)).finding, FindingClass::unknown);
  EXPECT_EQ(first_finding(evidence_with(0.2, 0.0)).finding, FindingClass::unknown);
  EXPECT_EQ(first_finding(evidence_with(3.0, 0.0)).finding, FindingClass::unknown);
}

TEST(TermRegression, TwoAndThreeTermsTogether) {
  Synthetic two;
  two.apply("A_inv", -1.0);
  two.apply("du_corr", -1.0);
  core::Finding finding = first_finding(two.evidence());
  EXPECT_EQ(finding.finding, FindingClass::missing_term);
  EXPECT_THAT(finding.headline, HasSubstr("lacks the terms A_inv (dk_A, dbeta_A) and du_corr"));
  Synthetic three;
  for (const char* name : {"A_inv", "dw_cross", "du_corr"}) three.apply(name, -1.0);
  finding = first_finding(three.evidence());
  EXPECT_THAT(finding.headline,
              HasSubstr("lacks the terms A_inv (dk_A, dbeta_A), dw_cross and du_corr"));
  Synthetic mixed;
  mixed.apply("A_inv", -1.0);
  mixed.apply("dw_cross", 1.0);
  finding = first_finding(mixed.evidence());
  EXPECT_THAT(finding.headline, HasSubstr("lacks A_inv (dk_A, dbeta_A) and counts dw_cross twice"));
}

TEST(TermRegression, ATermMissingOnTheLastRowOfEachChunk) {
  Synthetic data;
  data.apply("du_corr", -1.0, [](std::int64_t row) { return row == kChunk - 1; });
  core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::missing_term) << text_of(finding);
  EXPECT_THAT(finding.headline, HasSubstr("du_corr on the last row of each chunk"));
  Synthetic first;
  first.apply("du_corr", -1.0, [](std::int64_t row) { return row == 0; });
  finding = first_finding(first.evidence());
  EXPECT_THAT(finding.headline, HasSubstr("du_corr on the first row of each chunk"));
}

TEST(TermRegression, AnErrorOfAnotherKindStaysUnknown) {
  Synthetic data;
  data.add(0, noise(77, 4 * kBound));
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::unknown) << text_of(finding);
}

TEST(TermRegression, ATermAndMuchElseStaysUnknown) {
  Synthetic data;
  data.apply("A_inv", -1.0);
  data.add(0, noise(77, 4 * kBound));
  EXPECT_EQ(first_finding(data.evidence()).finding, FindingClass::unknown);
}

TEST(TermRegression, RoundingAloneIsNoFinding) {
  Synthetic data;
  const core::Evidence evidence = data.evidence();
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::pass);
  for (const core::TermEvidence& t : evidence.terms) {
    EXPECT_EQ(t.elements, 0u) << t.name;
    EXPECT_GT(t.visibility, 10.0) << t.name;
  }
}

TEST(TermRegression, NanInfAndPoisonAreLeftOutAndCounted) {
  Synthetic data;
  data.apply("A_inv", -1.0);
  const double infinity = std::numeric_limits<double>::infinity();
  data.residual(0)[1] = infinity;
  data.residual(0)[2] = std::numeric_limits<double>::quiet_NaN();
  data.reference(0).bound[3] = infinity;
  data.reference(0).expected[4] = std::numeric_limits<double>::quiet_NaN();
  data.hypotheses()[1].effect[0][5] = infinity;
  const core::Evidence evidence = data.evidence();
  const core::TermEvidence& a = term(evidence, "A_inv");
  EXPECT_EQ(a.excluded, 5u);
  EXPECT_EQ(a.elements + a.excluded, static_cast<std::uint64_t>(kElements));
  EXPECT_NEAR(a.coefficient, -1.0, 0.01);
  EXPECT_TRUE(std::isfinite(term(evidence, "dw_cross").coefficient));
  EXPECT_THAT(text_of(first_finding(evidence)), HasSubstr("5 left out"));
}

TEST(TermRegression, ATwinTermIsNamedAsRunnerUp) {
  Synthetic data;
  data.hypotheses()[1].effect[0] = data.hypotheses()[0].effect[0];
  for (std::int64_t i = 0; i < kElements; ++i) {
    data.hypotheses()[1].effect[0][static_cast<std::size_t>(i)] += 0.01 * kBound * normal(55, i);
  }
  data.apply("A_inv", -1.0);
  const core::Finding finding = first_finding(data.evidence());
  EXPECT_EQ(finding.finding, FindingClass::missing_term);
  EXPECT_THAT(finding.runner_up_reason, HasSubstr("can hardly be told apart"));
}

TEST(TermRegression, InvisibleTermsAreANoteAndForTheMutantItselfNoPass) {
  Synthetic data;
  data.scale_effects(0.001);
  data.apply("A_inv", -1.0);
  core::Evidence evidence = data.evidence();
  core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, core::Outcome::pass);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].severity, core::Severity::note);
  EXPECT_THAT(verdict.findings[0].headline,
              HasSubstr("terms not visible with these inputs: A_inv"));
  EXPECT_THAT(verdict.findings[0].headline, HasSubstr("of the bound), bf16_state"));

  evidence.hypothesis = "A_inv";
  verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, core::Outcome::inconclusive);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::bound_vacuous);
  evidence.hypothesis = "unheard_of";
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::inconclusive);
  evidence.terms.clear();
  EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::inconclusive);
}

TEST(TermRegression, AMutantThatShowsIsNotExcusedByOtherInvisibleTerms) {
  Synthetic data;
  for (double& e : data.hypotheses()[1].effect[0]) e *= 0.001;
  data.apply("A_inv", -1.0);
  core::Evidence evidence = data.evidence();
  evidence.hypothesis = "A_inv";
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, core::Outcome::fail);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::missing_term);
  EXPECT_EQ(verdict.findings[1].finding, FindingClass::bound_vacuous);
  EXPECT_THAT(verdict.findings[1].headline, HasSubstr("dw_cross"));
}

TEST(TermRegression, VisibilityCountsTheRoundingOfTheOutputAsAcceptanceDoes) {
  // Half an ulp of bf16 at 1 is 2^-8: an effect of half of that is accepted however small the
  // bound.
  const core::ReferenceTensor reference{.expected = {1.0}, .bound = {1e-9}};
  const double effect = std::ldexp(1.0, -9);
  for (const auto kind : {ErrorHypothesis::Kind::term, ErrorHypothesis::Kind::rounding}) {
    stress::ExaminedTrial trial;
    trial.outputs.push_back({.name = "dk",
                             .reference = &reference,
                             .tiles = {.rows = 1, .cols = 1, .tile_rows = 1, .tile_cols = 1},
                             .got = nullptr,
                             .dtype = core::Dtype::bf16});
    trial.hypotheses = {{"A_inv", "dk_A", kind, {{effect}}}};
    EXPECT_NEAR(stress::regress_terms({trial}).terms.at(0).visibility, 0.5, 1e-6);
  }
}

TEST(TermRegression, AnEffectOfTheWrongLengthIsRefused) {
  Synthetic data;
  data.hypotheses()[0].effect[0].pop_back();
  EXPECT_THROW(data.evidence(), core::UsageError);
}

}  // namespace
}  // namespace faultline::test
