// SPDX-License-Identifier: Apache-2.0
// Rules that small subjects brought: writes where nothing may be written, inputs that changed,
// values that a named fault foretells, inputs outside a contract.
#include <gtest/gtest.h>

#include "evidence_builder.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"

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

// --- call order ---

using Change = core::ExperimentEvidence::Kind;

core::ArmEvidence arm_of(const std::string& name, std::uint64_t trials, std::uint64_t wrong,
                         std::uint64_t first_wrong = 0) {
  core::TrialResult result = clean_result(trials, 0);
  if (wrong > 0) add_wrong(result, wrong, 1, 256, first_wrong, 1);
  const double rate = static_cast<double>(wrong) / static_cast<double>(trials);
  return arm(name, result, std::max(rate - 0.1, 0.0), std::min(rate + 0.1, 1.0));
}

/// A model, on which each trial loads its modules: one call is right, two are not.
core::Evidence right_once(std::uint64_t first, std::uint64_t second) {
  core::Evidence e = clean_evidence("stress", true);
  e.arms = {arm_of("random_random", first, 0), arm_of("called_twice", second, second)};
  e.arms[1].perturbation.calls = 2;
  e.arms[1].result.outputs[0].poison = e.arms[1].result.outputs[0].bad_elements;
  return e;
}

/// A device, on which modules stay loaded: all trials are wrong, the first call having been the
/// warm-up's, or (`first_counts`) all but the first.
core::Evidence right_when_loaded_anew(bool first_counts = true) {
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {first_counts ? arm_of("memory_stress", 500, 499, 1) : arm_of("memory_stress", 500, 500),
            arm_of("none", 500, 500), arm_of("called_twice", 500, 500),
            arm_of("reload_module", 500, 0)};
  e.arms[0].perturbation.co_resident = core::CoResident::memory_stress;
  e.arms[2].perturbation.calls = 2;
  e.arms[2].perturbation.reload_module = e.arms[3].perturbation.reload_module = true;
  return e;
}

TEST(CallOrder, AFirstCallThatIsRightAndASecondThatIsWrongAreState) {
  for (const core::Evidence& e :
       {right_once(45, 3), right_when_loaded_anew(), right_when_loaded_anew(false)}) {
    const core::Verdict verdict = diagnose(e);
    ASSERT_EQ(errors_of(verdict), std::vector{FindingClass::state}) << all_text(verdict);
    EXPECT_NE(all_text(verdict).find("first call of a freshly loaded module: 0 of"),
              std::string::npos)
        << all_text(verdict);
  }
  // It is no missed write either: a first call writes what the later ones leave.
  EXPECT_EQ(diagnose(right_once(45, 3)).findings[0].runner_up, FindingClass::missed_write);
}

TEST(CallOrder, TakesMoreThanChanceAndNoExceptions) {
  EXPECT_EQ(find(diagnose(right_once(23, 1)), FindingClass::state), nullptr) << "1 in 24";
  core::Evidence e = right_once(45, 3);
  add_wrong(e.arms[0].result, 1, 1);
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr) << "a first call was wrong";
  e = right_once(45, 3);
  e.arms[1].result.trials = 4;
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr) << "a second call was right";
  e = right_when_loaded_anew();
  add_wrong(e.arms[3].result, 2, 1);
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr);
  e = right_when_loaded_anew();
  e.arms.push_back(arm_of("sleep_1ms", 500, 0));
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr) << "a later call was right";
  core::Evidence clean = clean_evidence("stress", true);
  clean.arms = {arm_of("random_random", 48, 0), arm_of("called_twice", 3, 0)};
  clean.arms[1].perturbation.calls = 2;
  EXPECT_EQ(diagnose(clean).outcome, core::Outcome::pass);
}

TEST(CallOrder, IsNoTimingAndIsTriedWhereItIsOpen) {
  // Only the first trial of all was right: not a matter of timing, and open.
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {arm_of("none", 500, 499, 1)};
  auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->change, Change::first_call);
  EXPECT_TRUE(next->perturbation.reload_module);
  EXPECT_EQ(next->perturbation.calls, 1u);
  core::ExperimentEvidence row;
  row.kind = Change::first_call;
  row.baseline = "none";
  row.before_trials = row.before_wrong = row.after_trials = 24;
  e.experiments = {row};
  next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->change, Change::second_call);
  EXPECT_EQ(next->perturbation.calls, 2u);
  EXPECT_TRUE(next->perturbation.reload_module);
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr) << "not yet";
  row.kind = Change::second_call;
  row.after_wrong = 24;
  e.experiments.push_back(row);
  EXPECT_EQ(errors_of(diagnose(e)), std::vector{FindingClass::state});
  EXPECT_NE(all_text(diagnose(e)).find("cured by"), std::string::npos);

  // Where the first call is wrong as well, the order is not the matter.
  e.experiments[0].after_wrong = 24;
  e.experiments.pop_back();
  next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->change, Change::second_call);
  EXPECT_EQ(find(diagnose(e), FindingClass::state), nullptr);

  // On a model one trial of two calls that is wrong asks for more of it.
  e = right_once(23, 1);
  next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->change, Change::first_call);
  EXPECT_EQ(next->baseline, "called_twice");
  row = {};
  row.kind = Change::first_call;
  row.baseline = "called_twice";
  row.before_trials = row.before_wrong = row.after_trials = 24;
  e.experiments = {row};
  EXPECT_EQ(errors_of(diagnose(e)), std::vector{FindingClass::state});
}

TEST(CallOrder, APassAsksForASecondCall) {
  core::Evidence e = clean_evidence("stress", true);
  e.arms = {arm_of("random_random", 48, 0)};
  const auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, diagnosis::Experiment::Kind::second_call);
  EXPECT_EQ(next->perturbation.calls, 2u);
  e.arms[0].perturbation.calls = 2;
  EXPECT_FALSE(diagnosis::next_experiment(e).has_value());
}

// --- layout ---

/// Wrong in every trial, with an experiment of which `wrong` of 24 trials failed.
core::Evidence with_change(Change kind, std::uint64_t wrong) {
  core::Evidence e = clean_evidence("stress", true);
  e.arms = {arm_of("random_random", 24, 24)};
  core::ExperimentEvidence row;
  row.kind = kind;
  row.change = kind == Change::contiguous ? "contiguous data (src_before=0)" : "moved buffers";
  row.baseline = "random_random";
  row.before_trials = row.before_wrong = row.after_trials = 24;
  row.after_wrong = wrong;
  e.experiments = {row};
  return e;
}

TEST(Layout, IsWhatContiguousDataCure) {
  core::Evidence e = with_change(Change::contiguous, 0);
  EXPECT_EQ(errors_of(diagnose(e)), std::vector{FindingClass::layout}) << all_text(diagnose(e));
  EXPECT_NE(all_text(diagnose(e)).find("cured by contiguous data (src_before=0)"),
            std::string::npos);
  EXPECT_EQ(diagnose(e).findings[0].runner_up, FindingClass::index32);
  // Cells that a config or a size would divide do not decide against it.
  e.configs = {cell("n=61", "stages=1", 61, 8, true), cell("n=64", "stages=1", 64, 8, false)};
  EXPECT_EQ(errors_of(diagnose(e)), std::vector{FindingClass::layout}) << all_text(diagnose(e));
  e.experiments[0].after_wrong = 24;
  EXPECT_EQ(errors_of(diagnose(e)), std::vector{FindingClass::tail}) << all_text(diagnose(e));

  EXPECT_EQ(errors_of(diagnose(with_change(Change::contiguous, 24))),
            std::vector{FindingClass::unknown});
  EXPECT_EQ(errors_of(diagnose(with_change(Change::contiguous, 12))),
            std::vector{FindingClass::unknown});
}

TEST(Layout, IsNotSaidOfWhatTimingDecides) {
  core::Evidence e = with_change(Change::contiguous, 0);
  e.arms = {arm_of("random_random", 24, 12)};
  EXPECT_EQ(find(diagnose(e), FindingClass::layout), nullptr) << all_text(diagnose(e));
}

TEST(Layout, MayBeAnAlignment) {
  const core::Verdict moved = diagnose(with_change(Change::offset, 0));
  EXPECT_EQ(errors_of(moved), std::vector{FindingClass::layout}) << all_text(moved);
  EXPECT_EQ(moved.findings[0].runner_up, FindingClass::oob);
  EXPECT_EQ(errors_of(diagnose(with_change(Change::offset, 24))),
            std::vector{FindingClass::unknown});
}

TEST(Layout, SaysWhatCuresItBeforeWhatDoesNot) {
  core::Evidence e = with_change(Change::contiguous, 0);
  e.experiments.insert(e.experiments.begin(), with_change(Change::offset, 24).experiments[0]);
  const std::string text = all_text(diagnose(e));
  const std::size_t cured = text.find("cured by contiguous data"),
                    moved = text.find("buffers that begin 16 bytes further on");
  ASSERT_NE(cured, std::string::npos) << text;
  ASSERT_NE(moved, std::string::npos) << text;
  EXPECT_LT(cured, moved) << text;
  EXPECT_EQ(text.find("cured by contiguous data", cured + 1), std::string::npos) << "said once";
  EXPECT_NE(text.find("not cured by moved buffers"), std::string::npos) << text;
}

TEST(Layout, IsTriedBeforeOtherAddressesAre) {
  core::Evidence e = with_change(Change::contiguous, 0);
  const core::ExperimentEvidence row = e.experiments[0];
  e.experiments.clear();
  EXPECT_EQ(diagnosis::next_experiment(e)->change, Change::contiguous);
  e.experiments = {row};
  const auto next = diagnosis::next_experiment(e);
  EXPECT_EQ(next->change, Change::offset);
  EXPECT_EQ(next->perturbation.offset_bytes, 16u);
  e.experiments[0].after_wrong = 24;  // other addresses would tell nothing
  EXPECT_NE(diagnosis::next_experiment(e)->change, Change::offset);
  e.experiments[0].left_out = "it has no pitch or offset to leave out";
  EXPECT_EQ(diagnosis::next_experiment(e)->change, Change::offset);
  e.alternatives = {{.name = "another mask",
                     .finding = FindingClass::isolation,
                     .output = "new_state",
                     .wrong = 4096,
                     .matched = 4096}};
  EXPECT_NE(diagnosis::next_experiment(e)->change, Change::offset) << "it has a name";
}

}  // namespace
}  // namespace faultline::test
