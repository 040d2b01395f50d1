// SPDX-License-Identifier: Apache-2.0
// Rules that small subjects brought: writes where nothing may be written, inputs that changed,
// values that a named fault foretells, inputs outside a contract.
#include <gtest/gtest.h>

#include "evidence_builder.hpp"
#include "faultline/diagnosis/diagnose.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using diagnosis::diagnose;

/// Three trials of one cell, all wrong in one tile.
core::Evidence wrong_sweep() {
  core::Evidence evidence = clean_evidence("verify", true);
  evidence.configs = {cell("rows=10", "", 0, 0, true)};
  return evidence;
}

core::Evidence overwritten(std::uint64_t displaced) {
  core::Evidence evidence = wrong_sweep();
  evidence.error_shape = core::ErrorShapeEvidence{};
  evidence.error_shape->guarded = 280;
  evidence.error_shape->overwritten = 200;
  evidence.error_shape->displaced = displaced;
  return evidence;
}

TEST(GuardedMemory, RightValuesInThePaddingAreALayout) {
  const core::Verdict verdict = diagnose(overwritten(195));
  EXPECT_EQ(verdict.outcome, core::Outcome::fail);
  EXPECT_EQ(errors_of(verdict), std::vector{FindingClass::layout}) << all_text(verdict);
  EXPECT_EQ(verdict.findings.front().runner_up, FindingClass::oob);
}

TEST(GuardedMemory, OtherValuesInThePaddingAreOutOfBounds) {
  const core::Verdict verdict = diagnose(overwritten(20));
  EXPECT_EQ(errors_of(verdict), std::vector{FindingClass::oob}) << all_text(verdict);
  EXPECT_NE(all_text(verdict).find("200"), std::string::npos);
}

TEST(GuardedMemory, PaddingThatHeldIsNoFinding) {
  core::Evidence evidence = wrong_sweep();
  evidence.error_shape = core::ErrorShapeEvidence{};
  evidence.error_shape->guarded = 280;
  const core::Verdict verdict = diagnose(evidence);
  EXPECT_EQ(find(verdict, FindingClass::oob), nullptr) << all_text(verdict);
  EXPECT_EQ(find(verdict, FindingClass::layout), nullptr) << all_text(verdict);
}

TEST(ChangedInput, FailsThoughEveryOutputIsRight) {
  core::Evidence evidence = clean_evidence("verify", true);
  evidence.configs = {cell("t=4", "", 0, 0, false)};
  core::TrialResult& result = evidence.configs[0].result;
  result.failed = result.inputs_checked = 3;
  result.changed_inputs = {{"h0", 3, 2048, 0}};
  evidence.configs[0].failed = true;
  const core::Verdict verdict = diagnose(evidence);
  EXPECT_EQ(verdict.outcome, core::Outcome::fail);
  EXPECT_EQ(errors_of(verdict), std::vector{FindingClass::state}) << all_text(verdict);
  EXPECT_NE(all_text(verdict).find("h0"), std::string::npos);
}

core::Evidence foretold(FindingClass finding, std::uint64_t matched) {
  core::Evidence evidence = wrong_sweep();
  evidence.alternatives = {{"the other thing", finding, "new_state", 48, matched}};
  return evidence;
}

TEST(HostAlternatives, WrongElementsThatHoldTheForetoldValuesAreThatFault) {
  for (const FindingClass finding :
       {FindingClass::graph, FindingClass::state, FindingClass::stale_code, FindingClass::isolation,
        FindingClass::index32, FindingClass::device}) {
    const core::Verdict verdict = diagnose(foretold(finding, 48));
    EXPECT_EQ(errors_of(verdict), std::vector{finding}) << all_text(verdict);
    EXPECT_NE(all_text(verdict).find("the other thing"), std::string::npos);
  }
}

TEST(HostAlternatives, AMinorityThatAgreesByChanceIsNot) {
  const core::Verdict verdict = diagnose(foretold(FindingClass::index32, 24));
  EXPECT_EQ(errors_of(verdict), std::vector{FindingClass::unknown}) << all_text(verdict);
}

TEST(Contract, InputsOutsideItLeaveTheVerdictOpenRightOrWrong) {
  core::Evidence evidence = clean_evidence("stress", true);
  core::TrialResult failing = clean_result(20, 0);
  add_wrong(failing, 20, 2, 32, 0, 1);
  evidence.arms = {arm("none", failing)};
  evidence.contract_violations = {"lengths[0] is 700, and a row has 300 elements"};
  const core::Verdict wrong = diagnose(evidence);
  EXPECT_EQ(wrong.outcome, core::Outcome::inconclusive) << all_text(wrong);
  EXPECT_EQ(wrong.findings.front().finding, FindingClass::contract) << all_text(wrong);
  EXPECT_EQ(errors_of(wrong), std::vector<FindingClass>{});

  evidence.arms = {arm("none", clean_result(20, 0))};
  const core::Verdict right = diagnose(evidence);
  EXPECT_EQ(right.outcome, core::Outcome::inconclusive) << all_text(right);
  EXPECT_EQ(right.findings.front().finding, FindingClass::contract) << all_text(right);
}

// A sweep leaves out the problems that violate the contract; the others are judged as ever.
TEST(Contract, OneProblemOutsideItDoesNotExcuseTheOthersOfASweep) {
  core::Evidence evidence = wrong_sweep();
  evidence.contract_violations = {"lengths[0] is 700, and a row has 300 elements (t=300)"};
  const core::Verdict wrong = diagnose(evidence);
  EXPECT_EQ(wrong.outcome, core::Outcome::fail) << all_text(wrong);

  evidence.configs = {cell("t=400", "", 0, 0, false)};
  EXPECT_EQ(diagnose(evidence).outcome, core::Outcome::inconclusive);
  evidence.configs[0].result = {};
  evidence.configs[0].result.skipped = true;
  EXPECT_EQ(diagnose(evidence).outcome, core::Outcome::inconclusive);
}

core::Evidence other_bits(bool declared) {
  core::Evidence evidence = clean_evidence("stress", true);
  evidence.declared_deterministic = declared;
  core::TrialResult result = clean_result(20, 0);
  result.distinct_outputs = 7;
  evidence.arms = {arm("none", result)};
  return evidence;
}

TEST(Nondeterminism, WithinTheBoundIsANoteUnlessEqualBitsWerePromised) {
  const core::Verdict note = diagnose(other_bits(false));
  EXPECT_EQ(note.outcome, core::Outcome::pass) << all_text(note);
  ASSERT_NE(find(note, FindingClass::nondeterminism_benign), nullptr) << all_text(note);
  EXPECT_EQ(find(note, FindingClass::nondeterminism_benign)->severity, core::Severity::note);

  const core::Verdict error = diagnose(other_bits(true));
  EXPECT_EQ(error.outcome, core::Outcome::fail) << all_text(error);
  EXPECT_EQ(errors_of(error), std::vector{FindingClass::nondeterminism_benign});
}

/// A launch on one stream and a fill on another, in no order.
core::Evidence launch_and_fill(bool other_device) {
  core::Evidence evidence = clean_evidence("race", true);
  core::RaceReport race;
  race.kind = core::RaceKind::write_after_read;
  race.space = core::MemorySpace::global;
  race.buffer = "inbox";
  race.byte_end = 64;
  race.first.kernel = "add";
  race.first.instruction = "ld.global.f32";
  race.first.where = {{"kernels/add.cu", 12, "add"}};
  race.first.actor = "operation 3, stream 0";
  race.second.instruction = "a fill of 64 bytes";
  race.second.actor = "operation 4, stream 1";
  race.second.is_write = true;
  race.cross_launch = true;
  race.cross_device = other_device;
  core::TrialResult raced = clean_result(20);
  raced.failed = raced.raced = 20;
  raced.races = {race};
  evidence.arms = {arm("random_random", raced)};
  evidence.races = {race};
  return evidence;
}

TEST(StreamRaces, NameCopiesAndFillsThatHaveNoLine) {
  const core::Verdict verdict = diagnose(launch_and_fill(false));
  EXPECT_EQ(verdict.outcome, core::Outcome::fail) << all_text(verdict);
  ASSERT_EQ(errors_of(verdict), std::vector{FindingClass::race_stream}) << all_text(verdict);
  const core::Finding& finding = verdict.findings.front();
  EXPECT_NE(finding.headline.find("kernels/add.cu:12 reads it and a fill of 64 bytes writes it"),
            std::string::npos)
      << finding.headline;
  EXPECT_EQ(all_text(verdict).find("a line that the module does not name"), std::string::npos)
      << all_text(verdict);
}

TEST(StreamRaces, BetweenDevicesAreOfTheDevice) {
  const core::Verdict verdict = diagnose(launch_and_fill(true));
  EXPECT_EQ(verdict.outcome, core::Outcome::fail) << all_text(verdict);
  EXPECT_EQ(errors_of(verdict), std::vector{FindingClass::device}) << all_text(verdict);
}

}  // namespace
}  // namespace faultline::test
