// SPDX-License-Identifier: Apache-2.0
// Delays in the PTX: which sites are found, that the text stays a kernel, and that a race which no
// wrong value shows under one schedule shows with them, at a named line, and none in its clean
// twin.
#include "faultline/stress/ptx_delay.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/token.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/simulator/simulator_backend.hpp"
#include "faultline/stress/campaign.hpp"
#include "faultline/stress/replay.hpp"

namespace faultline {
namespace {

using core::ExperimentEvidence;
using stress::DelaySite;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 128, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<9>;
	.loc	1 34 0
	// bar.sync 0; is no statement here
	.loc	1 35 3, function_name $L__info_string0, inlined_at 1 59 3
	@%p1 bar.sync 	0;
$L__BB0_2: bar.sync 1;
	.loc	2 7 3
	// begin inline asm
	{
.reg .pred complete;
mbarrier.try_wait.parity.shared::cta.b64 complete, [%r18], %r16;
selp.u32 %r58, 1, 0, complete;
}
	// end inline asm
	mov.b64 {%r1, %r2}, %rd1;
	ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]; cp.async.cg.shared.global [%r1], [%rd1], 16;
	cp.async.wait_all;
	atom.global.add.u32 %r1, [%rd1], 1;
	ret;
}
.visible .entry second()
{
	bar.sync 0;
	ret;
}
	.file	1 "kernels/a.cu"
	.file	2 "kernels/b.cuh"
	.section	.debug_str
	{
$L__info_string0:
.b8 98
.b8 97
	}
)";

std::vector<std::string> instructions(const std::vector<stress::PtxSite>& sites) {
  std::vector<std::string> names;
  for (const stress::PtxSite& site : sites) names.push_back(site.instruction);
  return names;
}

TEST(PtxSites, AreStatementsOfTheChosenKinds) {
  const auto all = stress::find_sites(kText, ~0u);
  EXPECT_THAT(instructions(all),
              ElementsAre("bar.sync", "bar.sync", "mbarrier.try_wait.parity.shared::cta.b64",
                          "ld.shared.v4.f32", "cp.async.cg.shared.global", "cp.async.wait_all",
                          "atom.global.add.u32", "bar.sync"));
  EXPECT_EQ(stress::find_sites(kText, stress::kSynchronisationSites).size(), 7u);
  const auto barriers = stress::find_sites(kText, bit(DelaySite::barrier));
  ASSERT_EQ(barriers.size(), 3u);
  EXPECT_EQ(barriers[0].function, "first");
  EXPECT_EQ(barriers[0].where.file, "kernels/a.cu");
  EXPECT_EQ(barriers[0].where.line, 35);
  EXPECT_EQ(all[2].where.file, "kernels/b.cuh");
  EXPECT_EQ(barriers[2].function, "second");
  EXPECT_EQ(barriers[2].where.line, 0);
  // Behind a barrier, in front of an atomic operation.
  EXPECT_EQ(std::string(kText).substr(barriers[1].offset - 2, 2), "1;");
  EXPECT_EQ(std::string(kText).substr(all[6].offset, 5), "atom.");
}

core::Program program_of(const std::string& entry) {
  auto module = std::make_shared<core::Module>();
  module->ptx = kText;
  module->hash = "0123456789abcdef";
  core::LaunchOperation launch;
  launch.module = module;
  launch.entry = entry;
  core::Program program;
  program.add(launch);
  return program;
}

TEST(PtxDelays, AreThoseOfTheLaunchedKernelAndTheSameAloneOrTogether) {
  const core::Program program = program_of("first");
  EXPECT_EQ(stress::find_sites(program, stress::kSynchronisationSites).size(), 6u);
  const auto text = [&](std::uint32_t site, std::uint64_t seed) {
    core::Perturbation p;
    p.delay_sites = stress::kSynchronisationSites;
    p.delay_site = site;
    p.delay_ns = 4096;
    p.delay_seed = seed;
    std::vector<std::pair<std::string, core::ModuleRef>> made;
    const core::Program delayed = stress::with_delays(program, p, made);
    const auto& launch = std::get<core::LaunchOperation>(delayed.operations[0].what);
    EXPECT_NE(launch.module->hash, "0123456789abcdef");
    EXPECT_TRUE(launch.module->cubin.empty());
    return launch.module->ptx;
  };
  const auto sleeps = [](const std::string& ptx) {
    std::size_t count = 0;
    for (std::size_t at = ptx.find("nanosleep"); at != ptx.npos; at = ptx.find("nanosleep", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(sleeps(text(0, 1)), 6u);
  EXPECT_EQ(sleeps(text(2, 1)), 1u);
  EXPECT_NE(text(0, 1), text(0, 2));
  // The delay of site 2 is that which it has among all.
  const std::string alone = text(2, 1);
  const std::size_t begin = alone.find("\n{\n.reg .b32 %delay_w");
  const std::string delay = alone.substr(begin, alone.find("}\n", begin) - begin);
  EXPECT_NE(text(0, 1).find(delay), std::string::npos);
}

TEST(PtxDelays, LeaveOutKernelsThatAreNotLaunched) {
  core::Perturbation p;
  p.delay_sites = stress::kSynchronisationSites;
  p.delay_ns = 4096;
  std::vector<std::pair<std::string, core::ModuleRef>> made;
  const auto delayed = [&](const std::string& entry) {
    const core::Program program = stress::with_delays(program_of(entry), p, made);
    return std::get<core::LaunchOperation>(program.operations[0].what).module->ptx;
  };
  const std::string all = kText, first = delayed("first"), second = delayed("second");
  // Nothing but the definition goes, with its linkage; what is behind it stays.
  const std::size_t begin = all.find(".visible .entry second()"), end = all.find("\t.file", begin);
  EXPECT_THAT(first, Not(HasSubstr("second")));
  EXPECT_THAT(first, HasSubstr(".entry first"));
  EXPECT_TRUE(first.ends_with("\n" + all.substr(end))) << first;
  EXPECT_THAT(second, Not(HasSubstr(".entry first")));
  EXPECT_THAT(second, HasSubstr(".visible .entry second()\n{\n\tbar.sync 0;"));
  EXPECT_EQ(std::count(second.begin(), second.end(), '{'),
            std::count(second.begin(), second.end(), '}'));
  EXPECT_LT(begin, end);
  // Sites are found again at the same instructions.
  EXPECT_EQ(stress::find_sites(first, stress::kSynchronisationSites).size(), 6u);
}

TEST(PtxSites, AccessesToSharedMemoryAreThoseOfEveryForm) {
  const std::string text =
      ".visible .entry k() {\n"
      "ld.volatile.shared.f32 %f1, [%r1];\nst.volatile.shared.f32 [%r1], %f1;\n"
      "ld.relaxed.cta.shared.u32 %r2, [%r1];\nst.shared::cta.u32 [%r1], %r2;\n"
      "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r3}, [%r1];\n"
      "ld.volatile.global.f32 %f2, [%rd1];\nst.global.f32 [%rd1], %f2;\n"
      "ret;\n}\n";
  const auto sites = stress::find_sites(text, bit(DelaySite::shared));
  EXPECT_THAT(instructions(sites),
              ElementsAre("ld.volatile.shared.f32", "st.volatile.shared.f32",
                          "ld.relaxed.cta.shared.u32", "st.shared::cta.u32",
                          "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"));
  EXPECT_TRUE(stress::find_sites(text, stress::kSynchronisationSites).empty());
}

TEST(PtxSites, ArrivingIsDelayedBeforeItAndWaitingBehindIt) {
  const auto behind = [](const std::string& instruction) {
    const std::string text = ".visible .entry k() {\n" + instruction + ";\nret;\n}\n";
    const auto sites = stress::find_sites(text, stress::kSynchronisationSites);
    return sites.size() == 1 ? static_cast<int>(sites[0].offset > text.find(instruction)) : -1;
  };
  EXPECT_EQ(behind("barrier.arrive 1, 64"), 0);
  EXPECT_EQ(behind("barrier.cta.arrive 1, 64"), 0);
  EXPECT_EQ(behind("barrier.cta.sync 1"), 1);
  EXPECT_EQ(behind("ld.acquire.gpu.global.u32 %r1, [%rd1]"), 1);
  EXPECT_EQ(behind("st.release.gpu.global.u32 [%rd1], %r1"), 0);
}

TEST(PtxDelays, OfAnotherKernelOfAModuleAreItsOwn) {
  core::Perturbation p;
  p.delay_sites = stress::kSynchronisationSites;
  p.delay_ns = 4096;
  std::vector<std::pair<std::string, core::ModuleRef>> made, fresh;
  const auto hash = [&](const std::string& entry, auto& known) {
    const core::Program delayed = stress::with_delays(program_of(entry), p, known);
    return std::get<core::LaunchOperation>(delayed.operations[0].what).module->hash;
  };
  const std::string first = hash("first", made);
  EXPECT_NE(hash("second", made), first);
  EXPECT_EQ(hash("second", made), hash("second", fresh));
  EXPECT_EQ(hash("first", made), first);
}

struct Delays : testing::Test {
  kernels::SubjectRegistry registry;
  std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  Delays() { kernels::register_builtin_subjects(registry); }

  /// A tight loop under a schedule that hides the race, with delays in the kernel or without.
  core::Evidence run(const std::string& name, std::uint32_t sites, std::uint64_t seed) {
    std::vector<core::Assignment::Value> problem;
    if (name.starts_with("gla_decode")) problem = {{"b", "1"}, {"h", "1"}, {"dtype", "bf16"}};
    const kernels::ResolvedTrial trial = kernels::resolve(registry, name, problem, {});
    stress::PlannedArm arm;
    arm.perturbation.name = sites ? "ptx_delay" : "none";
    arm.perturbation.policy = core::SchedulePolicy::round_robin;
    arm.perturbation.lateness = core::CopyLateness::eager;
    arm.perturbation.delay_sites = sites;
    arm.perturbation.delay_ns = sites ? 8192 : 0;
    arm.perturbation.delay_seed = seed;
    arm.trials = 6;
    stress::CampaignPlan plan;
    plan.race = core::RaceMode::off;
    plan.arms = {arm};
    return stress::run_campaign(*backend, trial, plan);
  }
};

TEST_F(Delays, ShowARaceThatTheScheduleHidesAndNameALine) {
  const core::Evidence hidden = run("gla_decode@shared_buffer", 0, 0);
  EXPECT_EQ(hidden.arms[0].result.wrong_values, 0u) << "the schedule no longer hides it";
  EXPECT_EQ(diagnosis::diagnose(hidden).outcome, core::Outcome::pass);

  const core::Evidence shown =
      run("gla_decode@shared_buffer", stress::kSynchronisationSites | bit(DelaySite::shared), 1);
  ASSERT_EQ(shown.arms.size(), 1u);
  EXPECT_EQ(shown.arms[0].result.wrong_values, 6u) << shown.arms[0].result.note;
  const core::Verdict verdict = diagnosis::diagnose(shown);
  EXPECT_EQ(verdict.outcome, core::Outcome::fail);
  EXPECT_EQ(verdict.findings[0].finding, core::FindingClass::race_async) << verdict.summary;
  EXPECT_THAT(verdict.findings[0].evidence,
              testing::Contains(HasSubstr("how far warps drift apart decides")));
  const auto delay =
      std::find_if(shown.experiments.begin(), shown.experiments.end(),
                   [](const auto& row) { return row.kind == ExperimentEvidence::Kind::delay; });
  ASSERT_NE(delay, shown.experiments.end());
  EXPECT_EQ(diagnosis::effect_of(*delay), diagnosis::Effect::raised);
  EXPECT_EQ(delay->after_trials, delay->before_trials);
  EXPECT_THAT(delay->place, HasSubstr("kernels/gla_decode/"));

  // The token holds the delay: replayed, the one site alone fails again.
  const stress::Replay again = stress::replay(*backend, registry, core::decode_token(delay->token));
  EXPECT_EQ(again.evidence.arms[0].result.wrong_values, 1u);
}

TEST_F(Delays, LeaveACleanKernelRight) {
  for (const char* name :
       {"gla_decode@pipelined", "sgemm@tiled", "rowdot@double_buffered", "ring_copy@exact_bytes"}) {
    const core::Evidence evidence =
        run(name, stress::kSynchronisationSites | bit(DelaySite::shared), 3);
    EXPECT_EQ(evidence.arms[0].result.trials, 6u) << evidence.arms[0].result.note;
    EXPECT_EQ(diagnosis::diagnose(evidence).outcome, core::Outcome::pass) << name;
  }
}

TEST_F(Delays, WithoutASiteTheArmIsSkippedWithTheReason) {
  const core::Evidence evidence = run("cast_copy@pitched", stress::kSynchronisationSites, 1);
  EXPECT_TRUE(evidence.arms[0].result.skipped);
  EXPECT_THAT(evidence.arms[0].result.note, HasSubstr("no site for a delay"));
}

TEST_F(Delays, ACureOfEachKindIsTriedOnAFailureThatTimingDecides) {
  const kernels::ResolvedTrial trial =
      kernels::resolve(registry, "colsum_workspace@shared_workspace", {}, {});
  stress::PlanOptions options;
  options.trials = 48;
  options.race = core::RaceMode::off;
  const core::Evidence evidence = stress::run_campaign(
      *backend, trial, stress::default_plan(backend->info(), trial.plan, options));
  const core::Verdict verdict = diagnosis::diagnose(evidence);
  EXPECT_EQ(verdict.findings[0].finding, core::FindingClass::race_stream) << verdict.summary;
  const auto effect = [&](ExperimentEvidence::Kind kind) {
    const auto row = std::find_if(evidence.experiments.begin(), evidence.experiments.end(),
                                  [&](const auto& e) { return e.kind == kind; });
    return row == evidence.experiments.end() ? diagnosis::Effect::not_run
                                             : diagnosis::effect_of(*row);
  };
  EXPECT_EQ(effect(ExperimentEvidence::Kind::serialised), diagnosis::Effect::cured);
  EXPECT_EQ(effect(ExperimentEvidence::Kind::twin), diagnosis::Effect::cured);
  EXPECT_DOUBLE_EQ(verdict.findings[0].confidence, 0.9);
  EXPECT_THAT(verdict.findings[0].evidence,
              testing::Contains(HasSubstr("cured by one stream for all operations: 0 of")));
}

}  // namespace
}  // namespace faultline
