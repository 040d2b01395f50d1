// SPDX-License-Identifier: Apache-2.0
// The real subjects on the simulator, from a name to a verdict. Each mutant gets the finding that
// its subject says it must get; the clean variants get none.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/run_record.hpp"
#include "faultline/core/token.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/simulator/simulator_backend.hpp"
#include "faultline/stress/campaign.hpp"
#include "faultline/stress/race.hpp"
#include "faultline/stress/replay.hpp"
#include "faultline/stress/verify.hpp"

namespace faultline {
namespace {

using core::FindingClass;
using core::Outcome;
using core::Severity;
using testing::HasSubstr;

const std::vector<core::Assignment::Value> kOneHead{{"b", "1"}, {"h", "1"}};

std::string all_text(const core::Verdict& verdict) {
  std::string text = verdict.summary + "\n";
  for (const core::Finding& finding : verdict.findings) {
    text += "[" + std::string(core::name_of(finding.finding)) + "] " + finding.headline + "\n";
    for (const std::string& sentence : finding.evidence) text += "  - " + sentence + "\n";
    text += "  second: " + finding.runner_up_reason + "\n";
  }
  return text;
}

struct EndToEnd : testing::Test {
  kernels::SubjectRegistry registry;
  std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();

  EndToEnd() { kernels::register_builtin_subjects(registry); }

  core::Evidence stress(const std::string& name, std::uint64_t trials) {
    const kernels::ResolvedTrial trial = kernels::resolve(registry, name, kOneHead, {});
    const stress::CampaignPlan plan =
        stress::default_plan(backend->info(), trial.plan, {.trials = trials, .seed = 1});
    return stress::run_campaign(*backend, trial, plan);
  }

  core::Evidence race(const std::string& name, stress::RaceOptions options = {}) {
    return stress::run_race(*backend, kernels::resolve(registry, name, kOneHead, {}), options);
  }

  core::Evidence verify(const std::string& variant, const std::vector<std::string>& problems) {
    const kernels::Subject& subject = registry.get("gemv");
    std::vector<core::Problem> all;
    for (const std::string& line : problems) {
      all.push_back({"gemv", core::complete(subject.problem_domain, core::parse_assignments(line),
                                            "problem of gemv")});
    }
    return stress::run_verify(*backend, subject, *subject.find_variant(variant), all);
  }
};

TEST_F(EndToEnd, SumsInAnyOrderAreSeenByOneTrialOfEachSchedule) {
  const auto verdict_on = [&](const char* name) {
    return diagnosis::diagnose(
        stress::run_race(*backend, kernels::resolve(registry, name, {}, {}), {.run = {}}));
  };
  const core::Verdict promised = verdict_on("atomic_sum@declared");
  EXPECT_EQ(promised.outcome, Outcome::fail) << all_text(promised);
  EXPECT_EQ(promised.findings[0].finding, FindingClass::nondeterminism_benign);
  const core::Verdict open = verdict_on("atomic_sum@any_order");
  EXPECT_EQ(open.outcome, Outcome::pass) << all_text(open);
}

TEST_F(EndToEnd, DigitsSayWhichSlicesOfTheSumAreMissing) {
  const kernels::ResolvedTrial trial = kernels::resolve(
      registry, "gemv@dropped_tail", {{"n", "16"}, {"k", "3000"}, {"dtype", "f32"}}, {});
  stress::PlanOptions options;
  options.trials = 12;
  options.data = core::DataMode::digits;
  options.race = core::RaceMode::off;
  const core::Evidence evidence = stress::run_campaign(
      *backend, trial, stress::default_plan(backend->info(), trial.plan, options));
  // Whole tiles of 2048 alone: of the slices of 512 the last two are not there.
  ASSERT_EQ(evidence.readings.size(), 3u);
  EXPECT_EQ(evidence.readings[0].kind, core::ErrorReading::Kind::slice_missing);
  EXPECT_EQ(evidence.readings[0].detail, 4);
  EXPECT_EQ(evidence.readings[1].detail, 5);
  EXPECT_EQ(evidence.readings[0].matched, evidence.readings[0].wrong);
  EXPECT_THAT(all_text(diagnosis::diagnose(evidence)),
              HasSubstr("slices 4 and 5 of the reduction are missing"));
}

// What fails in every trial has no name from its arms alone: the campaign sweeps configs and a size
// without a tail.
TEST_F(EndToEnd, ACampaignAsksOtherConfigsAndSizesWhatFailsEveryTime) {
  struct Row {
    const char *name, *problem;
    FindingClass expected;
  };
  for (const Row& row :
       {Row{"gemv@dropped_tail", "n=16 k=3000 dtype=f32", FindingClass::tail},
        Row{"gemv@stage_sentinel", "n=16 k=2048 dtype=f16", FindingClass::systematic_offset}}) {
    const kernels::ResolvedTrial trial =
        kernels::resolve(registry, row.name, core::parse_assignments(row.problem), {});
    stress::PlanOptions options;
    options.trials = 12;
    options.race = core::RaceMode::off;
    const stress::CampaignPlan plan = stress::default_plan(backend->info(), trial.plan, options);
    const core::Evidence evidence = stress::run_campaign(*backend, trial, plan);
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.findings.at(0).finding, row.expected) << row.name << all_text(verdict);
    EXPECT_GT(evidence.configs.size(), 1u);
    stress::RunOptions arms_alone;
    arms_alone.follow_ups = arms_alone.experiments = false;
    EXPECT_TRUE(stress::run_campaign(*backend, trial, plan, arms_alone).configs.empty());
  }
}

// --- gla_decode ---

TEST_F(EndToEnd, SharedBufferIsFoundAndExplained) {
  const core::Evidence evidence = stress("gla_decode@shared_buffer", 240);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  const std::string text = all_text(verdict);
  EXPECT_EQ(verdict.outcome, Outcome::fail) << text;
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_async) << text;
  EXPECT_THAT(text, HasSubstr("held the data of tile"));
  EXPECT_THAT(text, HasSubstr("both use pipeline buffer"));
  // Whole tiles of the state hold what was computed from another tile of the same buffer.
  const auto state = std::find_if(evidence.footprints.begin(), evidence.footprints.end(),
                                  [](const auto& f) { return f.output == "new_state"; });
  ASSERT_NE(state, evidence.footprints.end());
  EXPECT_EQ(state->kind, core::FootprintEvidence::Kind::tile);
  EXPECT_GT(state->density, 0.95);
  EXPECT_GT(state->log10_ratio, 1.0);
  const auto moved = std::find_if(evidence.templates.begin(), evidence.templates.end(),
                                  [](const auto& t) { return t.output == "new_state"; });
  ASSERT_NE(moved, evidence.templates.end());
  EXPECT_EQ(moved->kind, core::TemplateEvidence::Kind::tile_input);
  EXPECT_EQ(moved->detail, moved->tile);
  EXPECT_EQ(moved->detail % 2, moved->other % 2);
  EXPECT_GT(moved->r_squared, 0.99);
  for (const core::RaceReport& report : evidence.races) {
    for (const core::AccessSite* site : {&report.first, &report.second}) {
      ASSERT_FALSE(site->where.empty());
      EXPECT_THAT(text, HasSubstr(":" + std::to_string(site->where[0].line)));
    }
  }
}

TEST_F(EndToEnd, OneScheduleSufficesForTheRace) {
  for (const char* copy : {"bulk", "tensor"}) {
    const kernels::ResolvedTrial trial =
        kernels::resolve(registry, "gla_decode@shared_buffer", kOneHead, {{"copy", copy}});
    const core::Evidence evidence = stress::run_race(*backend, trial, {.trials = 1, .run = {}});
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    ASSERT_FALSE(verdict.findings.empty()) << copy;
    EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_async) << all_text(verdict);
  }
}

TEST_F(EndToEnd, ARunWhoseValuesAreRightIsStillReported) {
  const kernels::ResolvedTrial trial =
      kernels::resolve(registry, "gla_decode@shared_buffer", kOneHead, {});
  stress::CampaignPlan plan;
  stress::PlannedArm arm;
  arm.perturbation.name = "round_robin_lazy";
  arm.perturbation.policy = core::SchedulePolicy::round_robin;
  arm.perturbation.lateness = core::CopyLateness::lazy;
  arm.trials = 3;
  plan.arms = {arm};
  const core::Evidence evidence = stress::run_campaign(*backend, trial, plan);
  EXPECT_EQ(evidence.arms[0].result.wrong_values, 0u);
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_THAT(all_text(verdict), HasSubstr("every value came out right in 3 trials"));
}

TEST_F(EndToEnd, EarlyReleaseMissesAProxyFence) {
  const core::Evidence evidence = race("gla_decode@early_release");
  core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.outcome, Outcome::fail) << all_text(verdict);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_async);
  EXPECT_THAT(all_text(verdict), HasSubstr("no proxy fence between"));

  verdict = diagnosis::diagnose(
      race("gla_decode@early_release", {.mode = core::RaceMode::lenient, .run = {}}));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << all_text(verdict);
  const auto note =
      std::find_if(verdict.findings.begin(), verdict.findings.end(),
                   [](const core::Finding& f) { return f.finding == FindingClass::race_async; });
  ASSERT_NE(note, verdict.findings.end()) << all_text(verdict);
  EXPECT_EQ(note->severity, Severity::note);
}

TEST_F(EndToEnd, CleanGlaDecodePasses) {
  for (const kernels::Variant& variant : registry.get("gla_decode").variants) {
    if (variant.is_mutant) continue;
    const core::Evidence evidence = stress("gla_decode@" + variant.name, 60);
    EXPECT_TRUE(evidence.footprints.empty() && evidence.templates.empty());
    const core::Verdict verdict = diagnosis::diagnose(evidence);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << all_text(verdict);
    for (const core::Finding& finding : verdict.findings) {
      // Unswizzled 128-byte rows read by ldmatrix are a true bank conflict of the bulk-copy
      // kernels.
      EXPECT_TRUE(finding.severity == Severity::note ||
                  finding.finding == FindingClass::slow_bank_conflicts)
          << all_text(verdict);
    }
  }
}

TEST_F(EndToEnd, AReplayedTokenGivesTheSameEvidence) {
  const core::Evidence campaign = stress("gla_decode@shared_buffer", 24);
  const auto failed = std::find_if(campaign.arms.begin(), campaign.arms.end(),
                                   [](const core::ArmEvidence& arm) { return !arm.token.empty(); });
  ASSERT_NE(failed, campaign.arms.end());
  auto replayed = [&] {
    core::RunRecord record;
    record.evidence =
        stress::replay(*backend, registry, core::decode_token(failed->token)).evidence;
    record.verdict = diagnosis::diagnose(record.evidence);
    return core::to_json(record, false);
  };
  const std::string once = replayed();
  EXPECT_EQ(once, replayed());
  EXPECT_THAT(once, HasSubstr("race.async"));
}

// --- gemv ---

TEST_F(EndToEnd, CleanGemvPassesRaggedAndWhole) {
  for (const kernels::Variant& variant : registry.get("gemv").variants) {
    if (variant.is_mutant) continue;
    const core::Verdict verdict = diagnosis::diagnose(verify(
        variant.name, {"n=33 k=3000 dtype=f16", "n=64 k=1024 dtype=bf16", "n=5 k=9 dtype=f32"}));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << all_text(verdict);
  }
}

TEST_F(EndToEnd, FootprintsFollowTheFault) {
  using Kind = core::FootprintEvidence::Kind;
  const core::Evidence missed = verify("missed_rows", {"n=64 k=256"});
  ASSERT_EQ(missed.footprints.size(), 1u);
  EXPECT_EQ(missed.footprints[0].kind, Kind::last_tile);
  EXPECT_THAT(all_text(diagnosis::diagnose(missed)), HasSubstr("footprint of y: the last tiles"));

  // A warp computes 32 columns of a row: parts of a tile, not tiles.
  stress::CampaignPlan plan;
  plan.race = core::RaceMode::off;
  plan.arms.resize(1);
  plan.arms[0].perturbation.name = "random";
  plan.arms[0].perturbation.policy = core::SchedulePolicy::random;
  plan.arms[0].trials = 3;
  stress::RunOptions options;
  options.experiments = false;
  for (const bool mutant : {true, false}) {
    const kernels::ResolvedTrial trial =
        kernels::resolve(registry, mutant ? "sgemm@missing_barrier" : "sgemm", {}, {});
    const core::Evidence evidence = stress::run_campaign(*backend, trial, plan, options);
    EXPECT_EQ(evidence.footprints.size(), mutant ? 1u : 0u);
    EXPECT_EQ(evidence.templates.empty(), !mutant);
    if (!mutant || evidence.footprints.empty()) continue;
    EXPECT_EQ(evidence.footprints[0].kind, Kind::block);
    EXPECT_EQ(evidence.footprints[0].block_rows, 1);
    EXPECT_EQ(evidence.footprints[0].block_cols, 32);
  }
}

// The loading thread of the recurrence over chunks fences between the arrival of the readers and
// the copies that refill their stage; they themselves do not. compute-sanitizer's racecheck reports
// the decays all the same; the memory model orders them, and without that fence it would not.
TEST_F(EndToEnd, AFenceOfTheLoadingThreadOrdersTheReadsBeforeTheRefill) {
  kernels::ResolvedTrial trial =
      kernels::resolve(registry, "gated_deltanet_fwd@chunkwise",
                       core::parse_assignments("b=1 h=1 t=512 dk=64 dv=64 dtype=f16 keys=unit "
                                               "beta=uniform gate=0 states=random"),
                       {});
  EXPECT_TRUE(stress::run_race(*backend, trial, {.trials = 2, .run = {}}).races.empty());

  const auto program = trial.plan.program;
  trial.plan.program = [program](std::uint32_t trials) {
    core::Program changed = program(trials);
    for (core::Operation& operation : changed.operations) {
      auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
      if (!launch || launch->entry.find("states") == std::string::npos) continue;
      std::string text = launch->module->ptx;
      const std::size_t begin = text.find(".entry " + launch->entry + "(");
      const std::size_t fence = text.find("fence.proxy.async", begin);
      if (fence == std::string::npos) throw std::runtime_error("no fence in " + launch->entry);
      text.erase(fence, text.find(';', fence) + 1 - fence);
      launch->module = core::with_ptx(*launch->module, std::move(text));
    }
    return changed;
  };
  const core::Evidence without = stress::run_race(*backend, trial, {.trials = 2, .run = {}});
  ASSERT_FALSE(without.races.empty());
  for (const core::RaceReport& race : without.races) {
    EXPECT_TRUE(race.missing_proxy_fence);
    EXPECT_EQ(race.kind, core::RaceKind::write_after_read);
  }
}

TEST_F(EndToEnd, EveryGemvMutantGetsItsFinding) {
  for (const kernels::Variant& variant : registry.get("gemv").variants) {
    if (!variant.is_mutant) continue;
    ASSERT_TRUE(variant.required_finding.has_value());
    std::string shows;
    for (const auto& [name, value] : variant.shows_at) shows += name + "=" + value + " ";
    const core::Verdict verdict =
        diagnosis::diagnose(verify(variant.name, {shows, "n=64 k=2048", "n=31 k=256"}));
    ASSERT_FALSE(verdict.findings.empty()) << variant.name;
    EXPECT_EQ(verdict.findings[0].finding, *variant.required_finding) << variant.name << "\n"
                                                                      << all_text(verdict);
  }
}

}  // namespace
}  // namespace faultline
