// SPDX-License-Identifier: Apache-2.0
// The kill matrix on a backend that a test makes go wrong: what counts as survived, as seen, and as
// nobody's to see; and that a clean variant is looked at as hard as its mutants.
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/kill_matrix.hpp"
#include "faultline/stress/mutants.hpp"
#include "toy.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using core::Outcome;
using testing::HasSubstr;

/// The toy with a mutant of the given class, which the kernel below may or may not show.
kernels::Subject with_mutant(FindingClass required, std::string model_only) {
  kernels::Subject subject = toy_subject();
  kernels::Variant mutant;
  mutant.name = "mutant";
  mutant.description = "wrong in some way";
  mutant.is_mutant = true;
  mutant.clean_twin = "clean";
  mutant.required_finding = required;
  mutant.model_only = std::move(model_only);
  subject.variants.push_back(mutant);
  subject.verify_problems = [](bool) {
    std::vector<core::Problem> problems;
    for (const char* n : {"64", "61", "33"}) {
      core::Problem problem{"toy", {}};
      problem.values.set("n", std::string(n));
      problems.push_back(problem);
    }
    return problems;
  };
  return subject;
}

core::KillMatrix matrix_of(const kernels::Subject& subject, ToyBackend& backend,
                           stress::MutantOptions options = {}) {
  kernels::SubjectRegistry registry;
  registry.add(subject);
  options.tight_trials = options.stress_trials = 6;
  return stress::run_mutants(backend, registry, options);
}

const core::KillRow& row_of(const core::KillMatrix& matrix, const std::string& variant) {
  for (const core::KillRow& row : matrix.rows) {
    if (row.variant == variant) return row;
  }
  throw std::logic_error("no row of " + variant);
}

TEST(Mutants, WhatOnlyTheModelShowsIsNoEvidenceOnADevice) {
  const kernels::Subject subject = with_mutant(FindingClass::race_grid, "undefined, not seen");
  ToyBackend device(false);
  const core::KillMatrix matrix = matrix_of(subject, device);
  const core::KillRow& row = row_of(matrix, "mutant");
  EXPECT_TRUE(row.no_evidence);
  EXPECT_FALSE(row.applicable());
  EXPECT_EQ(matrix.mutants(), 0u);
  EXPECT_THAT(row.cells[0].note, HasSubstr("no evidence, rate below"));
  EXPECT_THAT(row.cells.back().note, HasSubstr("compute-sanitizer is not installed"));
  const core::Verdict verdict = stress::judge_matrix(matrix, false);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("no_evidence, as only the model shows them: toy@mutant"));
}

TEST(Mutants, WithoutThatReasonOrOnTheModelItSurvives) {
  for (const bool model : {false, true}) {
    ToyBackend backend(model);
    const core::KillMatrix matrix = matrix_of(
        with_mutant(FindingClass::race_grid, model ? "undefined, not seen" : ""), backend);
    EXPECT_FALSE(row_of(matrix, "mutant").no_evidence);
    const core::Verdict verdict = stress::judge_matrix(matrix, false);
    EXPECT_EQ(verdict.outcome, Outcome::fail);
    EXPECT_THAT(verdict.findings[0].headline, HasSubstr("toy@mutant survives"));
  }
}

TEST(Mutants, SeenOnADeviceAllTheSameItCounts) {
  ToyBackend device(false, [](const core::TrialRequest& request, std::uint64_t t,
                              const core::Tensor& x, core::Tensor& y) {
    right(request, t, x, y);
    if (t % 2 == 0) y.set(3, 1e3);
  });
  const core::KillMatrix matrix =
      matrix_of(with_mutant(FindingClass::race_grid, "undefined, not seen"), device);
  EXPECT_TRUE(row_of(matrix, "mutant").killed);
  EXPECT_FALSE(row_of(matrix, "mutant").no_evidence);
  EXPECT_EQ(matrix.mutants(), 1u);
}

TEST(Mutants, ADetectorThatBreaksIsNotNoEvidence) {
  ToyBackend device(false);
  device.before = [](const core::TrialRequest&) { throw std::runtime_error("out of memory"); };
  const core::KillMatrix broken =
      matrix_of(with_mutant(FindingClass::race_grid, "undefined, not seen"), device);
  EXPECT_FALSE(row_of(broken, "mutant").no_evidence);
  const core::Verdict verdict = stress::judge_matrix(broken, false);
  EXPECT_EQ(verdict.outcome, Outcome::fail) << verdict.summary;
  EXPECT_THAT(verdict.findings.back().headline, HasSubstr("toy@mutant survives"));
  EXPECT_THAT(verdict.findings.back().evidence[0], HasSubstr("verify: error: "));
}

TEST(Mutants, AnArmThatIsNotProvenNeitherBlamesNorClears) {
  ToyBackend device(false);
  device.after = [](const core::TrialRequest& request, core::TrialResult& result) {
    if (request.perturbation.co_resident == core::CoResident::none) return;
    result.overlap_proven = false;
    result.note = "no room beside it";
  };
  const core::KillMatrix matrix = matrix_of(with_mutant(FindingClass::vacuous, ""), device);
  const core::KillRow& clean = row_of(matrix, "clean");
  EXPECT_TRUE(clean.no_evidence);
  EXPECT_FALSE(clean.applicable());
  EXPECT_EQ(matrix.false_alarms(), 0u);
  EXPECT_THAT(clean.cells[2].note, HasSubstr("did not perturb as planned"));
  EXPECT_THAT(clean.cells[2].note, HasSubstr("no room beside it"));
  core::KillMatrix alone;
  alone.rows = {clean};
  core::Verdict verdict = stress::judge_matrix(alone, false);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.summary;
  EXPECT_THAT(verdict.summary, HasSubstr("not cleared: toy@clean"));
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_THAT(verdict.findings[0].evidence[0], HasSubstr("stress: no_evidence (arm "));
  // Together with a mutant that survives it is a failure, which comes first.
  alone.rows.push_back(row_of(matrix, "mutant"));
  alone.rows.back().killed = alone.rows.back().right = false;
  verdict = stress::judge_matrix(alone, false);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_THAT(verdict.findings[0].headline, HasSubstr("survives"));
  // Any other reason to leave a verdict open is still blame.
  alone.rows = {clean};
  alone.rows[0].no_evidence = false;
  EXPECT_EQ(stress::judge_matrix(alone, false).outcome, Outcome::fail);
}

TEST(Mutants, BehindAHangNothingIsAskedOfTheDevice) {
  ToyBackend device(false);
  device.after = [](const core::TrialRequest&, core::TrialResult& result) {
    result.status = core::ExecutionStatus::timeout;
    result.failed = result.abnormal = result.trials = 1;
    result.wrong_values = 0;
    result.message = "a kernel did not end within 3 s";
  };
  stress::MutantOptions options;
  options.subjects = {"toy@mutant"};
  options.sanitizer = [](const kernels::ResolvedTrial&) -> core::KillCell {
    throw std::logic_error("it would hang as well");
  };
  const core::KillMatrix matrix = matrix_of(with_mutant(FindingClass::hang, ""), device, options);
  const core::KillRow& row = row_of(matrix, "mutant");
  EXPECT_EQ(device.requests.size(), 1u);
  EXPECT_TRUE(row.right);
  EXPECT_TRUE(row.cells[0].right);
  for (std::size_t i = 1; i < row.cells.size(); ++i) {
    if (row.cells[i].detector == core::Detector::happens_before) continue;
    EXPECT_FALSE(row.cells[i].ran);
    EXPECT_EQ(row.cells[i].note, "the device was lost to the hang of toy@mutant (tight_loop)");
  }
}

TEST(Mutants, ASanitizerAloneJudgesNobody) {
  stress::MutantOptions options;
  options.sanitizer = [](const kernels::ResolvedTrial&) {
    core::KillCell cell;
    cell.detector = core::Detector::sanitizer;
    cell.ran = true;
    cell.outcome = Outcome::pass;
    return cell;
  };
  ToyBackend device(false);
  const core::KillMatrix slow =
      matrix_of(with_mutant(FindingClass::slow_uncoalesced, ""), device, options);
  EXPECT_FALSE(row_of(slow, "mutant").applicable()) << "a device counts no accesses";
  device.before = [](const core::TrialRequest&) { throw core::UnsupportedError("one GPU"); };
  const core::KillMatrix none =
      matrix_of(with_mutant(FindingClass::race_stream, ""), device, options);
  EXPECT_EQ(none.clean_variants() + none.mutants(), 0u);
  EXPECT_EQ(stress::judge_matrix(none, false).outcome, Outcome::inconclusive);
}

TEST(Mutants, ACleanVariantIsSweptAsFarAsItsMutants) {
  const auto swept = [](FindingClass required) {
    ToyBackend backend(true);
    const core::KillMatrix matrix = matrix_of(with_mutant(required, ""), backend);
    const core::KillRow& clean = row_of(matrix, "clean");
    EXPECT_TRUE(clean.right);
    EXPECT_EQ(clean.cells[1].detector, core::Detector::verify);
    return clean.cells[1].trials;
  };
  // The one problem, or where a class needs several the subject's own list of three.
  EXPECT_EQ(swept(FindingClass::tail), 3 * swept(FindingClass::race_shared));
}

}  // namespace
}  // namespace faultline::test
