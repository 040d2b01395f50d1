// SPDX-License-Identifier: Apache-2.0
// Every rule: the case it is for, the near miss that is something else, and the clean twin.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evidence_builder.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "faultline/diagnosis/experiment.hpp"

namespace faultline::test {
namespace {

using core::FindingClass;
using core::Outcome;
using core::Severity;
using diagnosis::diagnose;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- the cases, by name, so that several tests can walk over all of them ---

core::Evidence clean_stress() {
  core::Evidence e = clean_evidence("stress", true);
  e.arms = {arm("random_random", clean_result(1000)), arm("pct_lazy", clean_result(1000))};
  return e;
}

core::Evidence async_reported() {
  core::Evidence e = clean_stress();
  e.variant = "shared_buffer";
  add_wrong(e.arms[0].result, 305, 1);
  for (core::ArmEvidence& a : e.arms) a.result.raced = a.result.failed = a.result.trials;
  core::RaceReport second = async_race();
  second.kind = core::RaceKind::write_after_write;
  second.first = second.second;
  e.races = {second, async_race()};
  e.provenance = {moved(1, 3, 2000, 1992)};
  return e;
}

core::Evidence shared_reported() {
  core::Evidence e = clean_stress();
  e.races = {barrier_race()};
  for (core::ArmEvidence& a : e.arms) a.result.raced = a.result.failed = a.result.trials;
  return e;
}

core::Evidence grid_reported() {
  core::Evidence e = shared_reported();
  e.races[0].space = core::MemorySpace::global;
  e.races[0].cross_cta = true;
  return e;
}

core::Evidence stream_reported() {
  core::Evidence e = shared_reported();
  e.races[0].space = core::MemorySpace::global;
  e.races[0].cross_launch = true;
  return e;
}

core::Evidence async_by_values() {
  core::Evidence e = clean_evidence("stress", false);
  e.variant = "shared_buffer";
  core::TrialResult failing = clean_result(5000);
  add_wrong(failing, 1000, 1, 256, 5, 3);
  e.arms = {arm("cold_pool", failing, 0.19, 0.21), arm("none", clean_result(5000), 0.0, 0.001)};
  e.provenance = {moved(1, 3, 256000, 255000)};
  return e;
}

core::Evidence shared_by_values() {
  core::Evidence e = clean_evidence("stress", false);
  core::TrialResult failing = clean_result(5000, 0);
  add_wrong(failing, 700, 2, 32, 5, 7);
  e.arms = {arm("three_ctas_per_sm", failing, 0.13, 0.15),
            arm("none", clean_result(5000, 0), 0.0, 0.001)};
  return e;
}

// The same failures in a call that uses two streams.
core::Evidence stream_by_values() {
  core::Evidence e = shared_by_values();
  e.streams = 2;
  return e;
}

// And in kernels without shared memory, in one stream.
core::Evidence grid_by_values() {
  core::Evidence e = shared_by_values();
  e.shared_memory = false;
  return e;
}

// The same failures in a kernel that has asynchronous copies: they, not its threads, come first.
core::Evidence async_by_instructions() {
  core::Evidence e = shared_by_values();
  e.asynchronous_instructions = {"cp.async.bulk"};
  return e;
}

core::Evidence missed_write() {
  core::Evidence e = clean_evidence("verify", true);
  e.configs = {cell("n=64 k=64", "rows=4", 64, 0, true), cell("n=64 k=64", "rows=1", 64, 0, true)};
  for (core::ConfigEvidence& c : e.configs) {
    c.result.outputs[0].poison = c.result.outputs[0].bad_elements;
  }
  return e;
}

core::Evidence uninitialised() {
  core::Evidence e = clean_evidence("stress", true);
  core::TrialResult failing = clean_result(300);
  // Trials 1, 4, 7, ...: one poison pattern of three.
  add_wrong(failing, 100, 1, 64, 1, 3);
  e.arms = {arm("random_random", failing, 0.28, 0.39)};
  return e;
}

/// NaN in every trial, under finite poisons too.
core::Evidence overflowing() {
  core::Evidence e = clean_evidence("verify", true);
  core::ConfigEvidence c = cell("t=64", "chunk=64", 64, 64, false);
  c.failed = true;
  c.result = clean_result(6, 0);
  add_wrong(c.result, 6, 1, 64, 0, 1);
  c.result.outputs[0].not_finite = c.result.outputs[0].bad_elements;
  e.configs = {c};
  return e;
}

core::Evidence tail() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "gemv";
  e.variant = "dropped_tail";
  for (const char* config : {"stages=1", "stages=2"}) {
    e.configs.push_back(cell("n=64 k=3000", config, 3000, 512, true));
    e.configs.push_back(cell("n=64 k=2048", config, 2048, 512, false));
  }
  return e;
}

core::Evidence wrong_config() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "gemv";
  e.variant = "wrong_config";
  for (const char* problem : {"n=64 k=3000", "n=64 k=2048"}) {
    const std::int64_t k = problem == std::string("n=64 k=3000") ? 3000 : 2048;
    e.configs.push_back(cell(problem, "rows=4 threads=32", k, 512, true));
    e.configs.push_back(cell(problem, "rows=1 threads=128", k, 512, false));
    e.configs.push_back(cell(problem, "rows=2 threads=64", k, 512, false));
  }
  return e;
}

core::Evidence systematic() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "gemv";
  e.variant = "stage_sentinel";
  double wobble = 0.0;
  for (const char* config : {"stages=1", "stages=2", "stages=3"}) {
    core::ConfigEvidence c = cell("n=64 k=2048", config, 2048, 512, true);
    for (int i = 0; i < 50; ++i) c.error_sample.push_back(std::sin(i) * 12.0 + wobble);
    wobble += 0.01;
    e.configs.push_back(c);
  }
  return e;
}

core::Evidence declared_weak() {
  core::Evidence e = clean_evidence("verify", true);
  e.configs = {cell("t=64 keys=identical", "chunk=32", 64, 32, false)};
  e.declared_weakness = "declared weak at keys=identical: its powers grow";
  return e;
}

core::Evidence reloading() {
  core::Evidence e = clean_stress();
  e.launches = e.reloading_launches = 2;
  return e;
}

core::Evidence benign() {
  core::Evidence e = clean_stress();
  e.declared_deterministic = false;
  e.arms[0].result.distinct_outputs = 17;
  return e;
}

core::Evidence rounding() {
  core::Evidence e = clean_evidence("verify", false);
  e.subject = "gemv";
  e.variant = "register";
  e.configs = {cell("n=7168 k=16384", "rows=1", 16384, 0, false)};
  core::OutputTotals& y = e.configs[0].result.outputs[0];
  y.name = "y";
  y.dtype = core::Dtype::f16;
  y.worst_rounded_error = 0.125;
  y.worst_error = 0.0622;
  y.worst_ulps = 0.51;
  y.worst_error_expected = 140.3;
  return e;
}

core::Evidence uncoalesced() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "gemv";
  e.variant = "uncoalesced";
  e.configs = {cell("n=64 k=1024", "rows=32", 1024, 0, false)};
  e.accesses = {access(88, 1000, 32000, 4000, 32768), access(95, 100, 100, 100, 0)};
  return e;
}

/// 32 lanes on 8 columns: a broadcast vector, the matrix that is loaded, the one that is stored.
core::Evidence lane_folded() {
  core::Evidence e = uncoalesced();
  e.subject = "deltanet_decode";
  e.variant = "lane_folded";
  const auto global = [](int line, const char* instruction, std::uint64_t lanes,
                         std::uint64_t distinct) {
    core::AccessStatistics a = access(line, lanes / 32, lanes / 32, lanes / 32, 2);
    a.instruction = instruction;
    a.is_write = a.instruction.starts_with("st.");
    a.lanes = lanes;
    a.distinct_addresses = distinct;
    return a;
  };
  e.accesses = {global(10, "ld.global.nc.u16", 4096, 128),
                global(12, "ld.global.nc.u16", 4096, 1024), global(20, "st.global.u16", 4096, 1024),
                global(24, "st.global.u16", 8, 8)};
  return e;
}

core::Evidence bank_conflicts() {
  core::Evidence e = uncoalesced();
  e.accesses = {access(70, 1000, 8000, 1000, 128, core::MemorySpace::shared)};
  return e;
}

core::Evidence vacuous() {
  core::Evidence e = tail();
  for (core::ConfigEvidence& c : e.configs) c = cell(c.problem, c.config, 64, 0, false);
  e.null_outputs_accepted = {"zeros (n=64 k=2048)"};
  return e;
}

core::Evidence unusable_bound() {
  core::Evidence e = clean_stress();
  add_wrong(e.arms[0].result, 1000, 0, 4096, 0, 1);
  const double infinity = std::numeric_limits<double>::infinity();
  core::OutputTotals& output = e.arms[0].result.outputs[0];
  output.worst_error = output.worst_ratio = infinity;
  output.no_reference = output.tiles[0].no_reference = output.bad_elements;
  return e;
}

/// One problem, two configs, both wrong in dk and dbeta alone; three terms were tried.
core::Evidence term_absent() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "deltanet_bwd";
  e.variant = "drop_a_inv";
  for (const char* config : {"chunk=32", "chunk=64"}) {
    core::ConfigEvidence c = cell("t=64 dk=64", config, 64, 32, true);
    c.result.outputs[0].name = "dk";
    c.error_sample = {0.5, -0.25, 0.125};  // the same in both: systematic_offset fits too
    e.configs.push_back(std::move(c));
    const auto add = [&](const char* name, const char* terms, double coefficient, double r_squared,
                         double on_dv) {
      core::TermEvidence term;
      term.problem = "t=64 dk=64";
      term.config = config;
      term.name = name;
      term.terms = terms;
      term.visibility = 24.0;
      term.elements = 4096;
      term.coefficient = coefficient;
      term.r_squared = r_squared;
      term.standard_error = 0.001;
      term.outputs = {{"dk", 24.0, 16, coefficient, r_squared},
                      {"dbeta", 12.0, 3, coefficient, r_squared},
                      {"dv", on_dv, 0, 0.0, 0.0}};
      e.terms.push_back(term);
    };
    add("A_inv", "dk_A, dbeta_A", -1.001, 0.998, 0.0);
    add("dw_cross", "dw_cross", -0.2, 0.31, 0.0);
    add("du_corr", "du_corr", 0.1, 0.02, 9.0);
  }
  return e;
}

core::Evidence term_scaled() {
  core::Evidence e = term_absent();
  for (core::TermEvidence& term : e.terms) {
    if (term.name == "A_inv") term.coefficient = -0.875;
  }
  return e;
}

/// Five lengths; wrong from the third on; the error grows like the root of the length, then stops.
core::Evidence stagnating() {
  core::Evidence e = clean_evidence("verify", true);
  e.subject = "deltanet_fwd";
  e.variant = "bf16_state";
  const double errors[] = {0.004, 0.006, 0.009, 0.013, 0.014};
  for (int i = 0; i < 5; ++i) {
    const std::int64_t length = std::int64_t{256} << i;
    const std::string problem = "t=" + std::to_string(length);
    e.configs.push_back(cell(problem, "chunk=64", length, 64, i >= 2));
    e.growth.push_back({"new_state", "chunk=64", "", length, length / 64, errors[i], 3.0, i >= 2});
  }
  e.error_shape = core::ErrorShapeEvidence{};
  e.error_shape->wrong_elements = 100;
  e.error_shape->smaller = 93;
  return e;
}

core::Evidence unseen() {
  core::Evidence e = term_absent();
  for (core::ConfigEvidence& c : e.configs) c = cell(c.problem, c.config, 64, 32, false);
  for (core::TermEvidence& term : e.terms) {
    term = {.problem = term.problem, .config = term.config, .name = term.name, .visibility = 0.02};
  }
  e.hypothesis = "A_inv";
  return e;
}

core::Evidence not_provoked() {
  core::Evidence e = clean_evidence("replay", false);
  e.arms = {arm("memory_stress", clean_result(1000))};
  return e;
}

core::Evidence hang() {
  core::Evidence e = clean_stress();
  core::TrialResult& r = e.arms[1].result;
  r.status = core::ExecutionStatus::deadlock;
  r.message = "warp 4 waits at gla_decode.cuh:90 for mbarrier empty[1], phase 0";
  r.details = {"warp 0: exited", "warp 4: mbarrier.try_wait on empty[1]"};
  r.trials = r.failed = r.abnormal = 1;
  r.outputs.clear();
  return e;
}

core::Evidence crash() {
  core::Evidence e = hang();
  e.arms[1].result.status = core::ExecutionStatus::fault;
  e.arms[1].result.message = "ld.global.f32 at gemv.cuh:12 reads 4 bytes beyond buffer 'x'";
  return e;
}

core::Evidence unexplained() {
  core::Evidence e = clean_stress();
  // Every trial of every arm, the same tile, one config only: no rule can tell.
  for (core::ArmEvidence& a : e.arms) {
    add_wrong(a.result, 1000, 2, 16, 0, 1);
    a.result.outputs[0].geometry.pipeline_depth = 0;
    a.wilson95 = {0.99, 1.0};
  }
  return e;
}

struct Case {
  const char* name;
  core::Evidence (*evidence)();
  FindingClass finding;
  Severity severity;
  Outcome outcome;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"async_reported", async_reported, FindingClass::race_async, Severity::error, Outcome::fail},
      {"shared_reported", shared_reported, FindingClass::race_shared, Severity::error,
       Outcome::fail},
      {"grid_reported", grid_reported, FindingClass::race_grid, Severity::error, Outcome::fail},
      {"stream_reported", stream_reported, FindingClass::race_stream, Severity::error,
       Outcome::fail},
      {"async_by_values", async_by_values, FindingClass::race_async, Severity::error,
       Outcome::fail},
      {"async_by_instructions", async_by_instructions, FindingClass::race_async, Severity::error,
       Outcome::fail},
      {"shared_by_values", shared_by_values, FindingClass::race_shared, Severity::error,
       Outcome::fail},
      {"stream_by_values", stream_by_values, FindingClass::race_stream, Severity::error,
       Outcome::fail},
      {"grid_by_values", grid_by_values, FindingClass::race_grid, Severity::error, Outcome::fail},
      {"missed_write", missed_write, FindingClass::missed_write, Severity::error, Outcome::fail},
      {"uninitialised", uninitialised, FindingClass::uninitialised, Severity::error, Outcome::fail},
      {"overflowing", overflowing, FindingClass::special_values, Severity::error, Outcome::fail},
      {"tail", tail, FindingClass::tail, Severity::error, Outcome::fail},
      {"wrong_config", wrong_config, FindingClass::config, Severity::error, Outcome::fail},
      {"systematic", systematic, FindingClass::systematic_offset, Severity::error, Outcome::fail},
      {"term_absent", term_absent, FindingClass::missing_term, Severity::error, Outcome::fail},
      {"term_scaled", term_scaled, FindingClass::wrong_term, Severity::error, Outcome::fail},
      {"stagnating", stagnating, FindingClass::accumulation, Severity::error, Outcome::fail},
      {"unseen", unseen, FindingClass::bound_vacuous, Severity::warning, Outcome::inconclusive},
      {"benign", benign, FindingClass::nondeterminism_benign, Severity::note, Outcome::pass},
      {"reloading", reloading, FindingClass::slow_dispatch, Severity::warning, Outcome::pass},
      {"declared_weak", declared_weak, FindingClass::contract, Severity::note, Outcome::pass},
      {"rounding", rounding, FindingClass::output_rounding, Severity::note, Outcome::pass},
      {"uncoalesced", uncoalesced, FindingClass::slow_uncoalesced, Severity::warning,
       Outcome::pass},
      {"lane_folded", lane_folded, FindingClass::slow_lane_folded, Severity::warning,
       Outcome::pass},
      {"bank_conflicts", bank_conflicts, FindingClass::slow_bank_conflicts, Severity::warning,
       Outcome::pass},
      {"vacuous", vacuous, FindingClass::vacuous, Severity::warning, Outcome::inconclusive},
      {"unusable_bound", unusable_bound, FindingClass::bound_vacuous, Severity::warning,
       Outcome::inconclusive},
      {"not_provoked", not_provoked, FindingClass::no_evidence, Severity::warning,
       Outcome::inconclusive},
      {"hang", hang, FindingClass::hang, Severity::error, Outcome::fail},
      {"crash", crash, FindingClass::crash, Severity::error, Outcome::fail},
      {"unexplained", unexplained, FindingClass::unknown, Severity::error, Outcome::fail},
  };
  return all;
}

// --- over all cases ---

class EveryCase : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Rules, EveryCase, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryCase, GetsItsFindingFirst) {
  const core::Verdict verdict = diagnose(GetParam().evidence());
  EXPECT_EQ(verdict.outcome, GetParam().outcome) << all_text(verdict);
  ASSERT_FALSE(verdict.findings.empty()) << verdict.summary;
  EXPECT_EQ(verdict.findings[0].finding, GetParam().finding) << all_text(verdict);
  EXPECT_EQ(verdict.findings[0].severity, GetParam().severity);
}

TEST_P(EveryCase, SaysWhyAndWhatCameSecond) {
  const core::Verdict verdict = diagnose(GetParam().evidence());
  for (const core::Finding& finding : verdict.findings) {
    EXPECT_FALSE(finding.headline.empty());
    EXPECT_FALSE(finding.evidence.empty()) << finding.headline;
    EXPECT_FALSE(finding.runner_up_reason.empty()) << finding.headline;
    EXPECT_NE(finding.runner_up, finding.finding);
    if (finding.finding != FindingClass::unknown) {
      EXPECT_TRUE(finding.runner_up.has_value()) << finding.headline;
    }
  }
}

TEST_P(EveryCase, IsAPureFunctionWhateverTheOrder) {
  core::Evidence evidence = GetParam().evidence();
  const core::Verdict verdict = diagnose(evidence);
  EXPECT_EQ(diagnose(evidence), verdict);
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(evidence.arms.begin(), evidence.arms.end(), random);
    std::shuffle(evidence.configs.begin(), evidence.configs.end(), random);
    std::shuffle(evidence.races.begin(), evidence.races.end(), random);
    std::shuffle(evidence.provenance.begin(), evidence.provenance.end(), random);
    std::shuffle(evidence.accesses.begin(), evidence.accesses.end(), random);
    std::shuffle(evidence.growth.begin(), evidence.growth.end(), random);
    EXPECT_EQ(diagnose(evidence), verdict);
  }
}

TEST_P(EveryCase, SentencesHoldOnePrintableLine) {
  const core::Verdict verdict = diagnose(GetParam().evidence());
  auto check = [](const std::string& text) {
    for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~') << text;
    EXPECT_THAT(text, testing::Not(HasSubstr("  "))) << text;
    EXPECT_THAT(text, testing::Not(HasSubstr("nan"))) << text;
  };
  check(verdict.summary);
  for (const core::Finding& finding : verdict.findings) {
    check(finding.headline);
    check(finding.runner_up_reason);
    check(finding.advice);
    for (const std::string& sentence : finding.evidence) check(sentence);
  }
}

TEST(Classes, EveryClassThatARuleProducesHasACase) {
  std::set<FindingClass> produced;
  for (const FindingClass c : diagnosis::produced_classes()) produced.insert(c);
  std::set<FindingClass> shown;
  for (const Case& c : cases()) shown.insert(c.finding);
  // catalogue_rules_test.cpp has the cases of these.
  for (const FindingClass c :
       {FindingClass::isolation, FindingClass::index32, FindingClass::layout, FindingClass::oob,
        FindingClass::state, FindingClass::graph, FindingClass::stale_code, FindingClass::device}) {
    EXPECT_TRUE(shown.insert(c).second);
  }
  EXPECT_EQ(produced, shown);
}

TEST(CleanTwin, PassesWithoutAFinding) {
  for (const char* mode : {"stress", "verify", "race", "replay"}) {
    core::Evidence e = clean_stress();
    e.mode = mode;
    const core::Verdict verdict = diagnose(e);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
    EXPECT_THAT(verdict.findings, IsEmpty()) << all_text(verdict);
    EXPECT_THAT(verdict.summary, HasSubstr("0 of 2,000 trials failed"));
    EXPECT_THAT(verdict.summary, HasSubstr("0.26 of the bound"));
  }
}

// --- races ---

TEST(RaceAsync, NamesBothLinesTheBufferAndWhoseDataWasFound) {
  const core::Verdict verdict = diagnose(async_reported());
  const std::string text = all_text(verdict);
  EXPECT_THAT(verdict.summary, HasSubstr("fail(race.async)"));
  EXPECT_THAT(text, HasSubstr("gla_decode.cuh:79"));
  EXPECT_THAT(text, HasSubstr("gla_decode.cuh:66"));
  EXPECT_THAT(text, HasSubstr("shared buffer 'tiles', bytes [2048, 4096)"));
  EXPECT_THAT(text, HasSubstr("new_state tile 1 held the data of tile 3 in 99.6 % of its wrong "
                              "elements (1,992 of 2,000): both use pipeline buffer 1"));
  EXPECT_THAT(text, HasSubstr("tile 1 (305 trials) of new_state"));
}

TEST(RaceAsync, NamesTheProjectsLineWhereAToolkitHeaderIsInnermost) {
  core::Evidence e = async_reported();
  e.races = {async_race()};
  e.races[0].first.where = {{"cuda_fp16.hpp", 1899, ""}, {"kernels/gla/tile.cuh", 41, ""}};
  const core::Verdict verdict = diagnose(e);
  EXPECT_THAT(verdict.findings[0].headline, HasSubstr("kernels/gla/tile.cuh:41 reads it"));
  EXPECT_THAT(all_text(verdict),
              HasSubstr("cuda_fp16.hpp:1899, inlined at kernels/gla/tile.cuh:41"));
}

TEST(RaceAsync, IsReportedThoughEveryValueIsRight) {
  core::Evidence e = shared_reported();
  e.races = {async_race()};
  const core::Verdict verdict = diagnose(e);
  EXPECT_THAT(errors_of(verdict), ElementsAre(FindingClass::race_async));
  EXPECT_THAT(all_text(verdict), HasSubstr("every value came out right in 2,000 trials"));
}

TEST(RaceAsync, WithoutAReferenceOrWithTrialsThatHungClaimsNoRightValues) {
  core::Evidence e = shared_reported();
  e.races = {async_race()};
  for (core::ArmEvidence& a : e.arms) a.result.abnormal = a.result.trials - 5;
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("every value came out right in 10 trials"));
  for (core::ArmEvidence& a : e.arms) a.result.outputs.clear();
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("no values were compared"));
  EXPECT_THAT(all_text(diagnose(e)), Not(HasSubstr("came out right")));
}

TEST(RaceAsync, MissingProxyFenceIsAnErrorInStrictAndANoteInLenientMode) {
  core::Evidence e = shared_reported();
  e.races = {async_race()};
  e.races[0].missing_proxy_fence = true;
  core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_THAT(all_text(verdict), HasSubstr("no proxy fence between"));

  for (core::ArmEvidence& a : e.arms) a.result.raced = a.result.failed = 0;
  e.races[0].note_only = true;
  verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << all_text(verdict);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_async);
  EXPECT_EQ(verdict.findings[0].severity, Severity::note);
}

TEST(RaceAsync, ADeterministicDefectBesideARaceIsNotHidden) {
  core::Evidence e = tail();
  e.configs.push_back(cell("n=64 k=2048", "stages=3", 2048, 512, false));
  e.configs.back().result.raced = e.configs.back().result.failed = 3;
  e.races = {async_race()};
  EXPECT_THAT(errors_of(diagnose(e)),
              testing::UnorderedElementsAre(FindingClass::race_async, FindingClass::tail));
}

TEST(RaceByValues, FailsEveryTimeIsNotARace) {
  for (const auto make : {shared_by_values, stream_by_values, grid_by_values}) {
    core::Evidence e = make();
    for (core::ArmEvidence& a : e.arms) {
      a.result = clean_result(5000, 0);
      add_wrong(a.result, 5000, 2, 32, 0, 1);
      a.wilson95 = {0.999, 1.0};
    }
    EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
  }
}

TEST(RaceByValues, SomeFailuresWithNewInputsEachTimeAreNotYetARace) {
  core::Evidence e = shared_by_values();
  for (core::ArmEvidence& a : e.arms) a.perturbation.fresh_inputs = true;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
  const auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, diagnosis::Experiment::Kind::repeat_fixed_inputs);
  EXPECT_FALSE(next->perturbation.fresh_inputs);
}

TEST(RaceByValues, StaleTilesOfOtherBuffersDoNotCount) {
  core::Evidence e = async_by_values();
  e.provenance = {moved(1, 2, 256000, 255000)};
  const core::Verdict verdict = diagnose(e);
  ASSERT_EQ(verdict.findings[0].finding, FindingClass::race_async);
  EXPECT_LT(verdict.findings[0].confidence, 0.9);
  EXPECT_THAT(all_text(verdict), testing::Not(HasSubstr("both use pipeline buffer")));
}

TEST(RaceByValues, PoisonThatMovesAboutIsARace) {
  core::Evidence e = shared_by_values();
  core::OutputTotals& output = e.arms[0].result.outputs[0];
  output.poison = output.bad_elements;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_shared));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("hold the poison, but not the same ones"));
}

TEST(RaceByValues, ThePairedTestCountsWhenItIsStrongEnough) {
  core::Evidence e = shared_by_values();
  for (core::ArmEvidence& a : e.arms) a.perturbation.fresh_inputs = true;
  e.arms[0].failed_here_only = 700;
  e.arms[0].log_e = 400.0;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_shared));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("DEPENDS"));
}

// --- slow accesses ---

TEST(LaneFolded, NamesTheStoreAndTheFold) {
  const std::string text = all_text(diagnose(lane_folded()));
  EXPECT_THAT(text, HasSubstr("4.0 lanes of a warp store each element at gemv.cuh:20"));
  EXPECT_THAT(text, HasSubstr("ld.global.nc.u16 at gemv.cuh:12"));
}

TEST(LaneFolded, SharedLoadsWithSeparateStoresAreOrdinary) {
  core::Evidence e = lane_folded();
  for (core::AccessStatistics& a : e.accesses) {
    if (a.is_write) a.distinct_addresses = a.lanes;
  }
  EXPECT_EQ(find(diagnose(e), FindingClass::slow_lane_folded), nullptr);
}

TEST(LaneFolded, AtomicsOnOneAddressCombineDifferentWork) {
  core::Evidence e = lane_folded();
  for (core::AccessStatistics& a : e.accesses) {
    if (a.is_write) a.instruction = "red.global.add.f32";
  }
  EXPECT_EQ(find(diagnose(e), FindingClass::slow_lane_folded), nullptr);
}

TEST(LaneFolded, OneSharedStoreAmongManyIsNotEnough) {
  core::Evidence e = lane_folded();
  e.accesses[3].lanes = e.accesses[3].distinct_addresses = 8192;
  EXPECT_EQ(find(diagnose(e), FindingClass::slow_lane_folded), nullptr);
}

// --- explanations of values ---

TEST(MissedWrite, AFewPoisonElementsAmongOthersAreNotEnough) {
  core::Evidence e = missed_write();
  for (core::ConfigEvidence& c : e.configs) c.result.outputs[0].poison /= 2;
  EXPECT_EQ(find(diagnose(e), FindingClass::missed_write), nullptr);
}

TEST(MissedWrite, SaysWhenNothingIsWrittenAtAll) {
  core::Evidence e = missed_write();
  for (core::ConfigEvidence& c : e.configs) {
    core::OutputTotals& output = c.result.outputs[0];
    output.poison = output.bad_elements = output.compared_elements;
    output.tiles[0].bad_elements = output.bad_elements;
  }
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("never writes new_state: every element"));
}

TEST(Uninitialised, OtherBitsUnderTheSamePoisonSpeakAgainstIt) {
  core::Evidence e = unexplained();
  core::ErrorShapeEvidence shape;
  shape.same_poison_pairs = 10;
  shape.other_poison_pairs = shape.other_poison_differing = 20;
  e.error_shape = shape;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  e.error_shape->same_poison_differing = 4;
  EXPECT_EQ(find(diagnose(e), FindingClass::uninitialised), nullptr);
}

/// Arms with new inputs every trial: `failing` of whose wrong elements all hold the poison, and the
/// unperturbed one.
core::Evidence fresh_arms(core::TrialResult failing, const core::TrialResult& unperturbed) {
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {arm("memory_stress_fresh", std::move(failing), 0.0003, 0.24),
            arm("fresh_inputs", unperturbed, 0.0, 0.24)};
  for (core::ArmEvidence& a : e.arms) {
    a.perturbation.fresh_inputs = true;
    a.result.outputs[0].poison = a.result.outputs[0].bad_elements;
  }
  return e;
}

TEST(MissedWrite, InAFewTrialsOnlyIsNoMissingStore) {
  // One trial of 500, whose twin on the same inputs and poison was right: the time decides.
  core::TrialResult failing = clean_result(500, 0);
  add_wrong(failing, 1, 1, 64, 271, 1);
  core::Evidence e = fresh_arms(failing, clean_result(500, 0));
  EXPECT_EQ(find(diagnose(e), FindingClass::missed_write), nullptr) << "nothing says why so seldom";
  e.arms[0].failed_here_only = 1;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_shared));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("on equal inputs and poison, 1 trial was wrong in "
                                               "'memory_stress_fresh' alone"));
  // Another grid is another program: that only it fails says nothing of timing.
  e.arms[0].perturbation.batch = 256;
  EXPECT_EQ(find(diagnose(e), FindingClass::race_shared), nullptr);
}

TEST(MissedWrite, TheSameTrialsOnEqualInputsAreLeftOutByTheData) {
  core::TrialResult failing = clean_result(500, 0);
  add_wrong(failing, 100, 1, 64, 2, 5);
  core::Evidence e = fresh_arms(failing, failing);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::missed_write));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("the data decide"));
  e.arms.pop_back();
  EXPECT_EQ(find(diagnose(e), FindingClass::missed_write), nullptr) << "nobody knows what decides";
}

TEST(Uninitialised, StandsWhereThePoisonDecidesWhateverElseFlickers) {
  core::Evidence e = uninitialised();
  e.backend_is_model = false;
  e.backend = "cuda";
  // Another program fails more often, and one trial of another arm came out otherwise.
  core::ArmEvidence batched = arm("batched", e.arms[0].result, 0.28, 0.39);
  batched.perturbation.fresh_inputs = true;
  batched.perturbation.batch = 256;
  batched.failed_here_only = 100;
  batched.log_e = 60.0;
  core::ArmEvidence flicker = arm("memory_stress_fresh", clean_result(300, 0), 0.0, 0.01);
  add_wrong(flicker.result, 1, 1, 64, 7, 1);
  flicker.perturbation.fresh_inputs = true;
  flicker.failed_here_only = 1;
  e.arms.push_back(batched);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  e.arms.push_back(flicker);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
}

TEST(Uninitialised, SharedMemoryThatIsDirtiedIsNoMatterOfTiming) {
  core::Evidence e = clean_evidence("stress", false);
  core::TrialResult dirtied = clean_result(300, 0);
  add_wrong(dirtied, 300, 1, 64, 0, 1);
  e.arms = {arm("dirty_shared", dirtied, 0.98, 1.0), arm("none", clean_result(300, 0), 0.0, 0.01)};
  e.arms[0].failed_here_only = 300;
  e.arms[0].log_e = 190.0;
  EXPECT_NE(find(diagnose(e), FindingClass::race_shared), nullptr);
  e.arms[0].perturbation.dirty_shared = true;
  EXPECT_EQ(find(diagnose(e), FindingClass::race_shared), nullptr);
  core::ErrorShapeEvidence shape;
  shape.same_poison_pairs = 10;
  shape.other_poison_pairs = shape.other_poison_differing = 20;
  e.error_shape = shape;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  // Where it is dirtied in all arms, what differs between them is timing.
  e.error_shape.reset();
  e.arms[1].perturbation.dirty_shared = true;
  EXPECT_NE(find(diagnose(e), FindingClass::race_shared), nullptr);
}

/// Two failing trials of every poison and more: other bits with another one, equal with the same.
core::ErrorShapeEvidence follows_poison() {
  core::ErrorShapeEvidence shape;
  shape.same_poison_pairs = 10;
  shape.other_poison_pairs = shape.other_poison_differing = 20;
  return shape;
}

core::ArmEvidence arm_with(const std::string& name, std::uint64_t wrong, double log_e = 0.0) {
  core::TrialResult result = clean_result(1000, 0);
  if (wrong > 0) add_wrong(result, wrong, 1, 64, 0, 1);
  const double rate = static_cast<double>(wrong) / 1000.0;
  core::ArmEvidence made =
      arm(name, result, std::max(0.0, rate - 0.03), std::min(1.0, rate + 0.03));
  made.failed_here_only = log_e > 0.0 ? wrong : 0;
  made.log_e = log_e;
  return made;
}

/// Dirtied, every trial is wrong by bits that follow the poison; as it is, some are under stress.
core::Evidence dirtied_and_delayed(std::uint64_t delayed_wrong, double log10_e) {
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {arm_with("dirty_shared", 1000, 690.0), arm_with("none", 0), arm_with("sync_each", 0),
            arm_with("ptx_delay", delayed_wrong, log10_e * std::log(10.0)),
            arm_with("memory_stress", 300, 190.0)};
  e.arms[0].perturbation.dirty_shared = true;
  e.arms[2].perturbation.sync_each = true;
  e.arms[3].perturbation.delay_sites = 3;
  e.arms[3].perturbation.delay_ns = 8192;
  e.arms[4].perturbation.co_resident = core::CoResident::memory_stress;
  e.error_shape = follows_poison();
  return e;
}

core::ExperimentEvidence experiment_of(core::ExperimentEvidence::Kind kind, std::uint64_t before,
                                       std::uint64_t after) {
  core::ExperimentEvidence row;
  row.kind = kind;
  row.change = "this change";
  row.baseline = "memory_stress";
  row.before_trials = row.after_trials = 500;
  row.before_wrong = before;
  row.after_wrong = after;
  return row;
}

TEST(Uninitialised, WhatDelaysInsideTheKernelTurnUpIsARaceThoughDirtiedMemoryShowsItToo) {
  using Kind = core::ExperimentEvidence::Kind;
  const core::Evidence stale = dirtied_and_delayed(0, 0.0);
  EXPECT_THAT(errors_of(diagnose(stale)), ElementsAre(FindingClass::uninitialised));

  // Arms take turns with the one that dirties: what memory held may be all that differs. An
  // experiment is asked for.
  core::Evidence delayed = dirtied_and_delayed(400, 108.0);
  EXPECT_THAT(errors_of(diagnose(delayed)), ElementsAre(FindingClass::uninitialised));
  bool asked = false;
  for (auto next = diagnosis::next_experiment(delayed); next && !asked;
       next = diagnosis::next_experiment(delayed)) {
    if (next->kind != diagnosis::Experiment::Kind::change) break;
    asked = next->change == Kind::delay;
    core::ExperimentEvidence row;
    row.kind = next->change;
    row.change = next->change_text;
    row.left_out = "not here";
    delayed.experiments.push_back(row);
  }
  EXPECT_TRUE(asked);
  delayed.experiments = {experiment_of(Kind::delay, 0, 480)};
  const core::Verdict decided = diagnose(delayed);
  EXPECT_THAT(errors_of(decided), ElementsAre(FindingClass::race_shared)) << all_text(decided);
  EXPECT_EQ(decided.findings[0].runner_up, FindingClass::uninitialised);

  core::Evidence e = stale;
  e.experiments = {experiment_of(Kind::delay, 0, 480)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_shared));
  e.experiments = {experiment_of(Kind::delay, 0, 1)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));

  e.experiments = {experiment_of(Kind::serialised, 150, 0)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_shared));
  e.experiments = {experiment_of(Kind::serialised, 150, 140)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  // Out of a graph other kernels run in between, too.
  e.experiments = {experiment_of(Kind::serialised, 150, 0)};
  e.arms[4].perturbation.graph_trials = 64;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
}

core::ErrorReading unwritten_reading(const std::string& output, std::uint64_t wrong,
                                     std::uint64_t matched) {
  core::ErrorReading reading;
  reading.kind = core::ErrorReading::Kind::unwritten;
  reading.output = output;
  reading.source = "ws";
  reading.wrong = wrong;
  reading.matched = matched;
  reading.tiles = 1;
  reading.detail = 3;
  reading.other = 1;
  return reading;
}

/// Every trial wrong in 64 elements, `own` of them by their own poison, `copied` by that of ws.
core::Evidence copied_poison(std::uint64_t own, std::uint64_t copied) {
  core::Evidence e = clean_evidence("stress", true);
  core::TrialResult failing = clean_result(9, 0);
  add_wrong(failing, 9, 1, 64, 0, 1);
  failing.outputs[0].poison = 9 * own;
  e.arms = {arm("random_random", failing, 0.6, 1.0)};
  e.error_shape = core::ErrorShapeEvidence{};
  e.error_shape->wrong_elements = 64 * 9;
  e.error_shape->equal_poison = 9 * own;
  if (copied > 0) e.readings = {unwritten_reading("new_state", copied * 9, copied * 9)};
  return e;
}

TEST(Uninitialised, WhatIsCopiedFromUnwrittenMemoryIsNamedBesideWhatIsUnwrittenItself) {
  const core::Verdict copied = diagnose(copied_poison(40, 24));
  EXPECT_THAT(errors_of(copied), ElementsAre(FindingClass::uninitialised)) << all_text(copied);
  EXPECT_THAT(all_text(copied), HasSubstr("Find who should write tile 3 of ws, and why"));
  EXPECT_THAT(errors_of(diagnose(copied_poison(64, 0))), ElementsAre(FindingClass::missed_write));
  EXPECT_THAT(errors_of(diagnose(copied_poison(40, 0))), ElementsAre(FindingClass::unknown));
  // Nearly all hold their own: a write is missing, whatever the few others hold.
  core::Evidence e = copied_poison(64, 1);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::missed_write));
}

TEST(Uninitialised, AReadingOfAFewElementsBesideManyOthersDoesNotDecide) {
  core::Evidence e = clean_evidence("stress", true);
  core::TrialResult failing = clean_result(30, 0);
  add_wrong(failing, 30, 1, 4096, 0, 1);
  e.arms = {arm("random_random", failing, 0.88, 1.0)};
  e.alternatives = {{.name = "another mask",
                     .finding = FindingClass::isolation,
                     .output = "new_state",
                     .wrong = 122'880,
                     .matched = 122'880}};
  e.readings = {unwritten_reading("aux", 1, 1)};
  e.error_shape = core::ErrorShapeEvidence{};
  e.error_shape->wrong_elements = 122'881;
  const core::Verdict verdict = diagnose(e);
  EXPECT_THAT(errors_of(verdict), ElementsAre(FindingClass::isolation)) << all_text(verdict);
  EXPECT_THAT(all_text(verdict), HasSubstr("aux: they hold the poison laid in tile 3 of ws"));
  // It does where those of all outputs together are half of what is to be explained.
  e.alternatives.clear();
  e.readings = {unwritten_reading("aux", 1, 1), unwritten_reading("new_state", 61'440, 61'440)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  EXPECT_THAT(diagnose(e).findings[0].headline, HasSubstr("copies into new_state"));
  e.readings.back().matched = e.readings.back().wrong = 61'439;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
  e.error_shape->equal_poison = 1;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
  // Without a count of all, the readings' own stand in.
  e.error_shape.reset();
  e.readings[1].kind = core::ErrorReading::Kind::offset;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
}

TEST(Uninitialised, APlaceThatSharesItsCodeIsNotNamedAsCertain) {
  core::Evidence e = copied_poison(0, 64);
  EXPECT_THAT(diagnose(e).findings[0].advice, Not(HasSubstr("another")));
  e.readings[0].value = 5;
  EXPECT_THAT(diagnose(e).findings[0].advice, HasSubstr("tile 3 of ws (or another of 5 places"));
  e.readings[0].detail = -1;
  e.readings[0].source = "shared memory";
  EXPECT_THAT(diagnose(e).findings[0].advice, Not(HasSubstr("tile")));
}

TEST(Uninitialised, NaNsThatNoPoisonChangesAreOfTheArithmetic) {
  core::Evidence e = clean_evidence("stress", true);
  core::TrialResult failing = clean_result(26, 0);
  // Some trials of every poison, the finite one among them, and never all of one.
  add_wrong(failing, 13, 1, 64, 0, 1);
  failing.outputs[0].not_finite = failing.outputs[0].bad_elements;
  e.arms = {arm("random_random", failing, 0.3, 0.7)};
  e.arms[0].perturbation.fresh_inputs = true;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised)) << "weak";
  e.error_shape = core::ErrorShapeEvidence{};
  e.error_shape->other_poison_pairs = 20;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::special_values));
  e.error_shape->other_poison_pairs = 2;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised)) << "too few";
  e.error_shape->other_poison_pairs = 20;
  e.error_shape->other_poison_differing = 1;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));

  // Two patterns that are NaN may give the same NaN: of the finite one nothing failed.
  core::TrialResult by_nan = clean_result(3, 0);
  add_wrong(by_nan, 2, 1, 64, 0, 2);
  by_nan.outputs[0].not_finite = by_nan.outputs[0].bad_elements;
  e.arms = {arm("repeat_random_random", by_nan, 0.0, 1.0),
            arm("repeat_pct_lazy", by_nan, 0.0, 1.0)};
  e.error_shape = core::ErrorShapeEvidence{};
  e.error_shape->same_poison_pairs = 2;
  e.error_shape->other_poison_pairs = 4;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::uninitialised));
}

TEST(Uninitialised, OneArmInWhichThePoisonSeemsToDecideIsOutvoted) {
  core::Evidence e = stream_by_values();
  // A pool whose turns have the period of the poison.
  core::TrialResult periodic = clean_result(300, 0);
  add_wrong(periodic, 100, 1, 64, 1, 3);
  core::ArmEvidence differing = arm("flush_l2", clean_result(300, 0), 0.2, 0.4);
  add_wrong(differing.result, 80, 1, 64, 0, 1);
  e.arms.push_back(arm("cold_pool_20mb", periodic, 0.28, 0.39));
  e.arms.push_back(differing);
  core::ErrorShapeEvidence shape;
  shape.same_poison_pairs = 10;
  shape.other_poison_pairs = shape.other_poison_differing = 20;
  e.error_shape = shape;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::race_stream));
}

TEST(Uninitialised, PoisonThatIsReadInSomeRunsOnlyIsARace) {
  core::Evidence e = stream_by_values();
  core::ErrorShapeEvidence shape;
  shape.same_poison_pairs = 10;
  shape.other_poison_pairs = shape.other_poison_differing = 20;
  e.error_shape = shape;
  const core::Verdict verdict = diagnose(e);
  EXPECT_THAT(errors_of(verdict), ElementsAre(FindingClass::race_stream));
  EXPECT_EQ(verdict.findings[0].runner_up, FindingClass::uninitialised);
}

TEST(Tail, OneFailureAtWholeTilesSpeaksAgainstIt) {
  core::Evidence e = tail();
  for (core::ConfigEvidence& c : e.configs) {
    if (!c.failed) c = cell(c.problem, c.config, 2048, 512, true);
  }
  EXPECT_EQ(find(diagnose(e), FindingClass::tail), nullptr);
}

TEST(Tail, WithoutAWholeSizeItIsOnlyTheRunnerUp) {
  core::Evidence e = tail();
  std::erase_if(e.configs, [](const auto& c) { return !c.failed; });
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::unknown) << all_text(verdict);
  const auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, diagnosis::Experiment::Kind::whole_tiles);
}

TEST(Tail, OfRowsOnlyWhenTheLastRowOfTilesIsWrong) {
  core::Evidence e = clean_evidence("verify", true);
  auto rows_cell = [](std::int64_t n, bool fails, std::size_t tile) {
    core::ConfigEvidence c = cell("n=" + std::to_string(n), "rows=16", 0, 0, false);
    c.rows = n;
    c.tile_rows = 16;
    if (fails) add_wrong(c.result, 3, tile, 16, 0, 1);
    c.failed = fails;
    return c;
  };
  e.configs = {rows_cell(64, false, 0), rows_cell(61, true, 3)};
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::tail));
  e.configs = {rows_cell(64, false, 0), rows_cell(61, true, 0)};
  EXPECT_EQ(find(diagnose(e), FindingClass::tail), nullptr);
}

TEST(Config, NamesTheSettingThatTells) {
  EXPECT_THAT(all_text(diagnose(wrong_config())), HasSubstr("configs with rows=4 and threads=32"));
}

TEST(Config, AFailureThatComesAndGoesIsNotConfig) {
  core::Evidence e = wrong_config();
  for (core::ConfigEvidence& c : e.configs) {
    if (!c.failed) continue;
    c = cell(c.problem, c.config, c.reduction, 512, false);
    add_wrong(c.result, 1, 0, 16, 1, 1);
    c.failed = true;
  }
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
  EXPECT_EQ(diagnose(e).findings[0].runner_up, FindingClass::config);
}

TEST(Config, ProblemsOnWhichNothingFailsDoNotWeakenIt) {
  core::Evidence e = wrong_config();
  for (const char* config : {"rows=4 threads=32", "rows=1 threads=128", "rows=2 threads=64"}) {
    e.configs.push_back(cell("n=1 k=1", config, 1, 512, false));
  }
  EXPECT_GE(find(diagnose(e), FindingClass::config)->confidence, 0.9);
}

TEST(Config, WhereEveryConfigIsWrongSomewhereNoneIsCalledRight) {
  core::Evidence e = wrong_config();
  for (std::size_t i = 0; i < 3; ++i) {  // those that pass there fail elsewhere
    e.configs.push_back(cell("n=2 k=1024", e.configs[i].config, 1024, 512, !e.configs[i].failed));
  }
  const core::Verdict verdict = diagnose(e);
  const core::Finding* config = find(verdict, FindingClass::config);
  ASSERT_NE(config, nullptr) << all_text(verdict);
  EXPECT_THAT(config->headline, HasSubstr("is wrong in every one of"));
  EXPECT_THAT(all_text(verdict), Not(HasSubstr("right in the others")));
  EXPECT_THAT(all_text(verdict), Not(HasSubstr("0 configs")));
}

TEST(SystematicOffset, DifferentErrorsAreNotTheSameError) {
  core::Evidence e = systematic();
  for (std::size_t i = 0; i < e.configs[1].error_sample.size(); ++i) {
    e.configs[1].error_sample[i] *= i % 2 == 0 ? 1.0 : -1.0;
  }
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
  EXPECT_EQ(diagnose(e).findings[0].runner_up, FindingClass::systematic_offset);
}

TEST(SystematicOffset, OnePassingConfigMakesItConfig) {
  core::Evidence e = systematic();
  e.configs[1] = cell("n=64 k=2048", "stages=2", 2048, 512, false);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::config));
}

TEST(SystematicOffset, SizesThatPassInEveryConfigDoNotSpeakAgainstIt) {
  core::Evidence e = systematic();
  for (const char* config : {"stages=1", "stages=2", "stages=3"}) {
    e.configs.push_back(cell("n=1 k=512", config, 512, 512, false));
  }
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::systematic_offset));
}

TEST(SystematicOffset, AnErrorJustBeyondTheBoundIsNotCalledAnOffset) {
  core::Evidence e = systematic();
  for (core::ConfigEvidence& c : e.configs) c.result.outputs[0].worst_ratio = 1.2;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
}

// --- notes and warnings ---

TEST(OutputRounding, SaysWhichBinade) {
  EXPECT_THAT(all_text(diagnose(rounding())), HasSubstr("exactly 1 fp16 ulp in [128, 256)"));
  core::Evidence e = rounding();
  for (core::ArmEvidence& a : e.arms) a.result.outputs[0].worst_ulps = 5e4;
  for (core::ConfigEvidence& c : e.configs) c.result.outputs[0].worst_ulps = 5e4;
  EXPECT_THAT(
      all_text(diagnose(e)),
      HasSubstr("elements near zero, where terms cancel, are up to 5e+04 of their own ulps off"));
}

TEST(OutputRounding, NotWhenSomeElementIsWrongOrTheErrorIsNoPowerOfTwo) {
  core::Evidence e = rounding();
  e.configs[0].result.outputs[0].worst_rounded_error = 0.12;
  EXPECT_THAT(diagnose(e).findings, IsEmpty());
  e = rounding();
  add_wrong(e.configs[0].result, 3, 0);
  e.configs[0].failed = true;
  EXPECT_EQ(find(diagnose(e), FindingClass::output_rounding), nullptr);
}

TEST(Benign, IsAFailureOfASubjectThatPromisesEqualBits) {
  core::Evidence e = benign();
  e.declared_deterministic = true;
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::nondeterminism_benign));
}

TEST(SlowUncoalesced, NamesLineAndStrideAndFailsOnlyOnRequest) {
  const core::Verdict verdict = diagnose(uncoalesced());
  EXPECT_THAT(all_text(verdict), HasSubstr("gemv.cuh:88"));
  EXPECT_THAT(all_text(verdict), HasSubstr("32768 bytes apart"));
  EXPECT_THAT(verdict.summary, HasSubstr("warnings: slow.uncoalesced"));
  EXPECT_EQ(core::exit_code(verdict), core::ExitCode::pass);
  EXPECT_EQ(core::exit_code(verdict, true), core::ExitCode::fail);
}

TEST(SlowUncoalesced, ALineThatCarriesLittleDoesNotMatter) {
  core::Evidence e = uncoalesced();
  e.accesses = {access(88, 100, 1000, 100, 4096), access(95, 10000, 40000, 40000, 16)};
  EXPECT_THAT(diagnose(e).findings, IsEmpty());
}

// --- named terms ---

TEST(MissingTerm, SaysTermCoefficientFootprintAndRival) {
  const core::Verdict verdict = diagnose(term_absent());
  const core::Finding& finding = verdict.findings.at(0);
  EXPECT_THAT(verdict.summary,
              HasSubstr("deltanet_bwd@drop_a_inv lacks the term A_inv (dk_A, dbeta_A)"));
  const std::string text = all_text(verdict);
  EXPECT_THAT(text, HasSubstr("got - expected is -1.001 times the effect of A_inv: R^2 = 0.998"));
  EXPECT_THAT(text, HasSubstr("only dk and dbeta are wrong (dv right), as the data flow of A_inv "
                              "predicts"));
  EXPECT_THAT(text, HasSubstr("next best: dw_cross with coefficient -0.200, R^2 = 0.310"));
  EXPECT_THAT(text, HasSubstr("it explains 2 of 2 cells"));
  EXPECT_EQ(finding.runner_up, FindingClass::systematic_offset);
}

TEST(MissingTerm, BelowNineTenthsIsNoClaim) {
  core::Evidence e = term_absent();
  for (core::TermEvidence& term : e.terms) term.r_squared = std::min(term.r_squared, 0.89);
  EXPECT_EQ(diagnose(e).findings.at(0).finding, FindingClass::systematic_offset);
}

TEST(MissingTerm, TooFewElementsAreNoClaimHoweverWellItFits) {
  const auto first = [](std::uint64_t elements, std::uint64_t excluded) {
    core::Evidence e = term_absent();
    for (core::TermEvidence& term : e.terms) {
      term.elements = elements;
      term.excluded = excluded;
    }
    return diagnose(e).findings.at(0).finding;
  };
  EXPECT_EQ(first(1, 0), FindingClass::systematic_offset);
  EXPECT_EQ(first(31, 0), FindingClass::systematic_offset);
  EXPECT_EQ(first(32, 0), FindingClass::missing_term);
  EXPECT_EQ(first(32, 32), FindingClass::missing_term);
  EXPECT_EQ(first(32, 33), FindingClass::systematic_offset);
}

TEST(MissingTerm, OneCellOfManyIsNotEnoughToOutrankTheRest) {
  core::Evidence e = term_absent();
  for (const char* problem : {"t=128 dk=64", "t=256 dk=64"}) {
    for (core::TermEvidence term : term_absent().terms) {
      term.problem = problem;
      term.r_squared *= 0.5;
      e.terms.push_back(term);
    }
  }
  for (core::TermEvidence& term : e.terms) {
    if (term.config == "chunk=64") term.r_squared *= 0.5;
  }
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.findings.at(0).finding, FindingClass::systematic_offset);
  EXPECT_EQ(verdict.findings.at(0).runner_up, FindingClass::missing_term);
}

TEST(MissingTerm, ARaceExplainsItsOwnValues) {
  core::Evidence e = term_absent();
  e.races = {async_race()};
  for (core::ConfigEvidence& c : e.configs) c.result.raced = c.result.trials;
  EXPECT_EQ(find(diagnose(e), FindingClass::missing_term), nullptr);
}

TEST(WrongTerm, NamesTheFactor) {
  EXPECT_THAT(diagnose(term_scaled()).summary, HasSubstr("with the wrong factor 0.125"));
}

TEST(Accumulation, SaysHowTheErrorGrows) {
  const std::string text = all_text(diagnose(stagnating()));
  EXPECT_THAT(text, HasSubstr("grows like length^0.45 and flattens towards the end"));
  EXPECT_THAT(text, HasSubstr("relative L2 of new_state by number of chunks [chunk=64]: 4: 0.004, "
                              "8: 0.006"));
  EXPECT_THAT(text, HasSubstr("93 of 100 (93 %) wrong elements are smaller"));
}

TEST(Accumulation, AnErrorThatDoesNotGrowOrStartsLargeIsSomethingElse) {
  core::Evidence flat = stagnating();
  for (core::GrowthEvidence& row : flat.growth) row.relative_l2 = 0.01;
  EXPECT_EQ(find(diagnose(flat), FindingClass::accumulation), nullptr);
  core::Evidence large = stagnating();
  for (core::GrowthEvidence& row : large.growth) row.relative_l2 *= 20;
  EXPECT_EQ(find(diagnose(large), FindingClass::accumulation), nullptr);
  core::Evidence falling = stagnating();
  falling.growth.back().relative_l2 = 0.005;
  EXPECT_EQ(find(diagnose(falling), FindingClass::accumulation), nullptr);
}

TEST(Accumulation, ANamedTermThatFitsComesFirst) {
  core::Evidence e = stagnating();
  e.terms = term_absent().terms;
  for (core::TermEvidence& term : e.terms) term.problem = "t=4096";
  EXPECT_EQ(diagnose(e).findings.at(0).finding, FindingClass::missing_term);
}

TEST(InvisibleTerms, AreANoteWhereTheyAreNotTheSubject) {
  core::Evidence e = unseen();
  e.hypothesis.clear();
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].severity, Severity::note);
  EXPECT_THAT(verdict.findings[0].headline,
              HasSubstr("terms not visible with these inputs: A_inv (0.02 of the bound), "));
}

TEST(InvisibleTerms, OneCellWhereTheyShowIsEnough) {
  core::Evidence e = unseen();
  e.hypothesis.clear();
  for (core::TermEvidence& term : e.terms) {
    if (term.config == "chunk=64") term.visibility = 1.6;
  }
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(verdict.findings, IsEmpty());
}

TEST(InvisibleTerms, AMutantThatShouldHaveShownAndDidNotIsNotAPass) {
  core::Evidence e = unseen();
  for (core::TermEvidence& term : e.terms) {
    if (term.config == "chunk=64") term.visibility = 1.5;
  }
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.summary;
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::bound_vacuous);
  EXPECT_EQ(verdict.findings[0].severity, Severity::warning);
  EXPECT_THAT(verdict.summary,
              HasSubstr("the defect A_inv that deltanet_bwd@drop_a_inv stands for should have "
                        "moved an output by 1.5 bounds, and nothing was wrong"));
  EXPECT_THAT(all_text(verdict), HasSubstr("largest in t=64 dk=64 [chunk=64]"));
}

TEST(InvisibleTerms, AFailureIsStillAFailure) {
  core::Evidence e = unseen();
  e.configs[0] = cell("t=64 dk=64", "chunk=32", 64, 32, true);
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail);
}

TEST(InvisibleTerms, RoundingsThatStaySmallAreNoDefect) {
  core::Evidence e = unseen();
  e.hypothesis.clear();
  for (core::TermEvidence& term : e.terms) term.kind = core::ErrorHypothesis::Kind::rounding;
  EXPECT_THAT(diagnose(e).findings, testing::IsEmpty());
}

TEST(InvisibleTerms, ADefectThatChangesNothingIsNotAPass) {
  core::Evidence e = unseen();
  e.hypothesis = "w_scaled_outside";
  core::TermEvidence term = e.terms.front();
  term.name = e.hypothesis;
  term.visibility = 0.0;
  e.terms.push_back(term);
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_THAT(verdict.summary, HasSubstr("has no effect of its own with these inputs"));
}

TEST(InvisibleTerms, WhatWasLeftOutIsListedWithTheReason) {
  core::Evidence e = unseen();
  e.hypothesis.clear();
  for (core::TermEvidence& term : e.terms) term.visibility = 50.0;
  EXPECT_THAT(diagnose(e).findings, IsEmpty());
  core::TermEvidence same = e.terms.front(), large = e.terms.front();
  same.name = "dw_local";
  same.left_out = "moves what A_inv moves";
  large.name = "dG_A";
  large.left_out = "not evaluated: too many values";
  same.visibility = large.visibility = 0.0;
  e.terms.push_back(same);
  e.terms.push_back(large);
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(all_text(verdict), HasSubstr("dw_local (moves what A_inv moves)"));
  EXPECT_THAT(all_text(verdict), HasSubstr("dG_A (not evaluated: too many values)"));
}

// --- footprints ---

TEST(Footprint, PartsOfTilesAndWholeOnesAreToldApartAndChangeNoClass) {
  using Kind = core::FootprintEvidence::Kind;
  core::Evidence e = shared_by_values();
  const core::OutputTotals& output = e.arms[0].result.outputs[0];
  core::FootprintEvidence f;
  f.output = output.name;
  f.kind = Kind::strip;
  f.block_rows = output.geometry.tile_rows / 2;
  f.block_cols = output.geometry.tile_cols;
  f.wrong = 64;
  f.hit = 1;
  f.blocks = 8;
  f.hit_blocks = {5};
  f.density = 0.996;
  f.runner_up = Kind::tile;
  f.runner_up_rows = output.geometry.tile_rows;
  f.runner_up_cols = output.geometry.tile_cols;
  f.log10_ratio = 12.3;
  const auto text_with = [&](Kind kind) {
    f.kind = kind;
    e.footprints = {f};
    const core::Verdict verdict = diagnose(e);
    EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_shared);
    EXPECT_EQ(verdict.findings[0].runner_up, FindingClass::race_grid);
    return all_text(verdict);
  };
  EXPECT_THAT(text_with(Kind::strip), HasSubstr("parts of tiles of"));
  EXPECT_THAT(text_with(Kind::strip), HasSubstr("(block 5 of 8), 99.6 % of their elements wrong; "
                                                "10^12 times as likely as its tiles of"));
  EXPECT_THAT(text_with(Kind::tile), HasSubstr("whole tiles of"));
  // Tiles that are half right are no whole ones, at whatever likelihood they are the tiling.
  for (const Kind kind : {Kind::tile, Kind::group}) {
    f.density = 0.9;
    EXPECT_THAT(text_with(kind), HasSubstr("whole tiles of"));
    f.density = 0.899;
    EXPECT_THAT(text_with(kind), HasSubstr("elements all over tiles of"));
    EXPECT_THAT(text_with(kind), Not(HasSubstr("whole tiles of")));
  }
  // Nothing to say of one that is scattered where a class is found.
  EXPECT_THAT(text_with(Kind::scattered), Not(HasSubstr("footprint of")));
}

// --- the decision order ---

/// Half of the configs of a sweep always fail, and their failure was repeated on equal inputs.
core::Evidence divided_and_repeated(std::uint64_t wrong_of_6) {
  core::Evidence e = wrong_config();
  core::TrialResult repeated = clean_result(6, 0);
  // 2 of every poison; trials 0, 1, ... fail.
  if (wrong_of_6 > 0) add_wrong(repeated, wrong_of_6, 0, 16, 0, 1);
  e.arms = {arm("repeat_random_random", repeated, 0.3, 0.9)};
  return e;
}

TEST(Order, WhatDiffersOnEqualInputsIsARaceWhateverTheConfigsSay) {
  const core::Verdict verdict = diagnose(divided_and_repeated(4));
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::race_shared) << all_text(verdict);
  EXPECT_EQ(find(verdict, FindingClass::config), nullptr);
  // The same of values that differ though all are wrong.
  core::Evidence e = divided_and_repeated(6);
  e.repeat = core::RepeatEvidence{18, 9};
  EXPECT_EQ(diagnose(e).findings[0].finding, FindingClass::race_shared);
}

TEST(Order, WhatRepeatsStaysAConfig) {
  core::Evidence e = divided_and_repeated(6);
  e.repeat = core::RepeatEvidence{18, 3};
  EXPECT_EQ(diagnose(e).findings[0].finding, FindingClass::config) << all_text(diagnose(e));
  // Where sums may be in any order, other bits are no sign.
  e.repeat = core::RepeatEvidence{18, 9};
  e.declared_deterministic = false;
  EXPECT_EQ(diagnose(e).findings[0].finding, FindingClass::config) << all_text(diagnose(e));
}

/// Overflow from chunk 64 on; chunk 32 is right.
core::Evidence overflow_by_chunk(std::uint64_t not_finite_of_16) {
  core::Evidence e = clean_evidence("verify", false);
  e.configs = {cell("t=512", "chunk=64", 512, 64, true), cell("t=512", "chunk=32", 512, 32, false)};
  e.configs[0].result.outputs[0].not_finite = 3 * not_finite_of_16;
  return e;
}

TEST(Order, OverflowFromASettingOnIsSpecialValuesAndNamesTheSetting) {
  const core::Verdict verdict = diagnose(overflow_by_chunk(8));
  const core::Finding& first = verdict.findings.at(0);
  EXPECT_EQ(first.finding, FindingClass::special_values) << all_text(verdict);
  EXPECT_EQ(first.runner_up, FindingClass::config);
  EXPECT_THAT(all_text(verdict), HasSubstr("wrong from chunk=64 on, right up to chunk=32"));
}

TEST(Order, FewOverflowsOrASettingThatDoesNotDivideThemStayAConfig) {
  EXPECT_EQ(diagnose(overflow_by_chunk(7)).findings.at(0).finding, FindingClass::config);
  core::Evidence e = overflow_by_chunk(16);
  e.configs[0].config = "chunk=32 copy=tensor";
  e.configs[1].config = "chunk=64 copy=bulk";
  EXPECT_EQ(diagnose(e).findings.at(0).finding, FindingClass::config) << all_text(diagnose(e));
}

// --- what a pass says of itself ---

TEST(Pass, WithARaceNoteSaysSoInItsHeadline) {
  core::Evidence e = clean_stress();
  e.races = {async_race()};
  e.races[0].note_only = true;
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(verdict.summary, HasSubstr("pass with a note (race.async, which strict mode"));
  EXPECT_THAT(diagnose(clean_stress()).summary, testing::StartsWith("pass: "));
}

TEST(Pass, SaysWhichChecksWereNotMade) {
  core::Evidence e = clean_stress();
  e.not_examined = {"whether a trivial output would pass: too large"};
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_THAT(verdict.summary, HasSubstr("notes: vacuous"));
  EXPECT_THAT(all_text(verdict), HasSubstr("not made: whether a trivial output would pass"));
}

TEST(Timeout, OfASimulationThatWentOnIsNotAHang) {
  core::Evidence e = clean_evidence("stress", true);
  core::TrialResult result = clean_result(0);
  result.status = core::ExecutionStatus::out_of_time;
  result.message = "timed out after 0.001 s while still making progress; raise --timeout";
  e.arms = {arm("random_random", result)};
  core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_THAT(verdict.summary, HasSubstr("inconclusive(no_evidence)"));
  EXPECT_THAT(verdict.summary, HasSubstr("raise --timeout"));
  e.arms[0].result.status = core::ExecutionStatus::timeout;
  verdict = diagnose(e);
  EXPECT_EQ(verdict.findings[0].finding, FindingClass::hang);
}

TEST(SpecialValues, AFailureUnderSomePoisonsOnlyIsSomethingElse) {
  core::Evidence e = overflowing();
  core::TrialResult& result = e.configs[0].result;
  result = clean_result(6, 0);
  add_wrong(result, 2, 1, 64, 1, 3);
  result.outputs[0].not_finite = result.outputs[0].bad_elements;
  EXPECT_EQ(diagnose(e).findings.at(0).finding, FindingClass::uninitialised);
}

TEST(ReferenceLimits, ABlindOutputIsANoteBesideThePass) {
  core::Evidence e = clean_evidence("verify", true);
  e.configs = {cell("t=64", "chunk=64", 64, 64, false), cell("t=64", "chunk=32", 64, 32, false)};
  for (const char* config : {"chunk=64", "chunk=32"}) {
    e.reference_notes.push_back({"t=64", config, "dg", core::ReferenceNote::Kind::blind,
                                 "an all-zero dg would be accepted"});
  }
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.summary;
  const core::Finding* finding = find(verdict, FindingClass::bound_vacuous);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::note);
  EXPECT_EQ(finding->headline, "not tested at these inputs: dg");
  EXPECT_EQ(finding->evidence.at(0),
            "an all-zero dg would be accepted (t=64 [chunk=64]), and 1 more cell");
}

TEST(ReferenceLimits, WithoutATestedOutputOrAUsableReferenceTheVerdictIsOpen) {
  for (const auto kind : {core::ReferenceNote::Kind::blind, core::ReferenceNote::Kind::unusable}) {
    core::Evidence e = clean_evidence("verify", true);
    e.configs = {cell("t=64", "chunk=64", 64, 64, false)};
    e.reference_notes = {{"t=64", "chunk=64", "", kind, "no output is left"}};
    const core::Verdict verdict = diagnose(e);
    EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.summary;
    EXPECT_THAT(verdict.summary, HasSubstr("inconclusive(bound_vacuous)"));
  }
}

TEST(Intermediates, TheFirstThatDivergesIsNamed) {
  core::Evidence e = term_absent();
  const auto row = [](const char* name, std::uint64_t wrong, std::int64_t first, bool output) {
    core::IntermediateEvidence r;
    r.problem = "t=64 dk=64";
    r.config = "chunk=32";
    r.name = name;
    r.is_output = output;
    r.compared = 4096;
    r.wrong = wrong;
    r.worst_ratio = wrong > 0 ? 7.5 : 0.3;
    r.first_tile = first;
    r.last_tile = wrong > 0 ? 3 : -1;
    r.tiles = 4;
    r.tile_axis = "a chunk of 32 rows";
    return r;
  };
  e.intermediates = {row("x", 0, -1, false), row("w", 12, 1, false), row("u", 9, 0, false),
                     row("dk", 16, 0, true)};
  EXPECT_THAT(all_text(diagnose(e)),
              HasSubstr("first divergence: w from tile 1 on (of 4, a tile being a chunk of 32 "
                        "rows), 7.5 times the bound; x before it is right"));
  e.intermediates = {row("x", 3, 3, false), row("dk", 16, 0, true)};
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("first divergence: x in tile 3 alone"));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("it is the first intermediate of the algorithm"));
  e.intermediates = {row("x", 0, -1, false), row("w", 0, -1, false), row("dk", 16, 0, true)};
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("dk in the first tile to the last"));
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("x and w before it are right"));
}

// --- elements without a usable reference ---

/// One more wrong element per failing trial, at which the reference is not finite.
void add_no_reference(core::TrialResult& result) {
  core::OutputTotals& output = result.outputs[0];
  const double infinity = std::numeric_limits<double>::infinity();
  output.worst_error = output.worst_rounded_error = output.worst_ratio = infinity;
  output.worst_ulps = infinity;
  output.no_reference += result.wrong_values;
  output.bad_elements += result.wrong_values;
  output.tiles[0].no_reference += result.wrong_values;
  output.tiles[0].bad_elements += result.wrong_values;
}

TEST(BoundVacuous, DoesNotHideTheWrongElementsBesideIt) {
  core::Evidence e = tail();
  for (core::ConfigEvidence& c : e.configs) {
    if (c.failed) add_no_reference(c.result);
  }
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::fail) << verdict.summary;
  EXPECT_THAT(errors_of(verdict), ElementsAre(FindingClass::tail));
  const core::Finding* finding = find(verdict, FindingClass::bound_vacuous);
  ASSERT_NE(finding, nullptr);
  EXPECT_THAT(finding->evidence.at(0), HasSubstr("6 elements"));

  e = unexplained();
  for (core::ArmEvidence& a : e.arms) add_no_reference(a.result);
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail) << diagnose(e).summary;
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
}

TEST(BoundVacuous, SpeaksAlsoWhereOtherElementsAreNotFiniteOrPoison) {
  core::Evidence e = missed_write();
  for (core::ConfigEvidence& c : e.configs) add_no_reference(c.result);
  const core::Verdict verdict = diagnose(e);
  EXPECT_THAT(errors_of(verdict), ElementsAre(FindingClass::missed_write));
  EXPECT_NE(find(verdict, FindingClass::bound_vacuous), nullptr);
}

TEST(BoundVacuous, AnInfiniteErrorAloneIsNotOne) {
  core::Evidence e = unexplained();
  const double infinity = std::numeric_limits<double>::infinity();
  for (core::ArmEvidence& a : e.arms) a.result.outputs[0].worst_error = infinity;
  EXPECT_EQ(find(diagnose(e), FindingClass::bound_vacuous), nullptr);
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail);
}

// --- outcomes ---

TEST(Outcomes, NothingComparedIsNeverGreen) {
  core::Evidence e = clean_stress();
  for (core::ArmEvidence& a : e.arms) a.result.outputs.clear();
  EXPECT_EQ(diagnose(e).outcome, Outcome::inconclusive);
  EXPECT_NE(find(diagnose(e), FindingClass::vacuous), nullptr);
  EXPECT_EQ(diagnose(core::Evidence{}).outcome, Outcome::inconclusive);
}

TEST(Outcomes, AllSkippedIsSkippedWithTheReasons) {
  core::Evidence e = clean_stress();
  for (core::ArmEvidence& a : e.arms) {
    a.result = {};
    a.result.skipped = true;
    a.result.note = "no device of this kind";
  }
  EXPECT_EQ(diagnose(e).outcome, Outcome::skipped);
  EXPECT_THAT(diagnose(e).summary, HasSubstr("no device of this kind"));
}

TEST(Outcomes, UnsupportedIsInconclusiveWithTheReason) {
  core::Evidence e = clean_stress();
  e.arms[0].result = {};
  e.arms[0].result.status = core::ExecutionStatus::unsupported;
  e.arms[0].result.message = "tcgen05.mma at k.cuh:3 is not implemented";
  EXPECT_EQ(diagnose(e).outcome, Outcome::inconclusive);
  EXPECT_THAT(diagnose(e).summary, HasSubstr("tcgen05.mma at k.cuh:3"));
}

TEST(Outcomes, AStressKernelThatDidNotOverlapProvesNothing) {
  core::Evidence e = clean_stress();
  e.arms[0].result.overlap_proven = false;
  EXPECT_EQ(diagnose(e).outcome, Outcome::inconclusive);
}

TEST(Outcomes, ErrorWinsOverFailAndKeepsTheFindings) {
  core::Evidence e = async_reported();
  core::TrialResult broken;
  broken.status = core::ExecutionStatus::error;
  broken.message = "out of memory: 512 MB for the pool";
  e.arms.push_back(arm("cold_pool", broken));
  const core::Verdict verdict = diagnose(e);
  EXPECT_EQ(verdict.outcome, Outcome::error);
  EXPECT_NE(find(verdict, FindingClass::race_async), nullptr);
  EXPECT_THAT(verdict.summary, HasSubstr("out of memory"));
}

TEST(Outcomes, AnOracleThatDisagreesWithTheReferenceIsAnError) {
  for (const double gate : {1e-9, std::numeric_limits<double>::quiet_NaN()}) {
    core::Evidence e = clean_stress();
    e.arms[0].result.gate_worst = gate;
    EXPECT_EQ(diagnose(e).outcome, Outcome::error);
  }
}

TEST(Outcomes, InterruptedKeepsItsFindingsAndIsNotAPass) {
  core::Evidence e = async_reported();
  e.interrupted = true;
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail);
  e = clean_stress();
  e.interrupted = true;
  EXPECT_EQ(diagnose(e).outcome, Outcome::inconclusive);
  EXPECT_THAT(diagnose(e).summary, HasSubstr("interrupted before the plan was done"));
  EXPECT_THAT(diagnose(e, "the budget of 2 s ran out").summary,
              HasSubstr("inconclusive: the budget of 2 s ran out before the plan was done; "));
}

TEST(Outcomes, AFailedTrialIsAFailureWhateverTheRulesSay) {
  core::Evidence e = clean_stress();
  e.arms[0].result.failed = 1;
  EXPECT_EQ(diagnose(e).outcome, Outcome::fail);
  EXPECT_THAT(errors_of(diagnose(e)), ElementsAre(FindingClass::unknown));
}

// --- what to try next ---

TEST(NextExperiment, ACleanCampaignWithoutMemoryStressAsksForIt) {
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {arm("none", clean_result(1000))};
  ASSERT_TRUE(diagnosis::next_experiment(e).has_value());
  EXPECT_EQ(diagnosis::next_experiment(e)->kind, diagnosis::Experiment::Kind::memory_stress);
  e.arms[0].perturbation.co_resident = core::CoResident::memory_stress;
  EXPECT_EQ(diagnosis::next_experiment(e)->kind, diagnosis::Experiment::Kind::second_call);
}

using Change = core::ExperimentEvidence::Kind;

/// What it asks for, one after the other, when nothing of it could be done.
std::vector<Change> changes_asked_for(core::Evidence& e) {
  std::vector<Change> kinds;
  for (int i = 0; i < 20; ++i) {
    const auto next = diagnosis::next_experiment(e);
    if (!next || next->kind != diagnosis::Experiment::Kind::change) break;
    kinds.push_back(next->change);
    core::ExperimentEvidence row;
    row.kind = next->change;
    row.change = next->change_text;
    row.left_out = "not here";
    e.experiments.push_back(row);
  }
  return kinds;
}

TEST(NextExperiment, CuresAndKnobsEachOnceThenTheSimulator) {
  core::Evidence e = async_by_values();
  e.arms[0].perturbation.pool_bytes = 512'000'000;
  e.arms[0].perturbation.co_resident = core::CoResident::memory_stress;
  const auto first = diagnosis::next_experiment(e);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->perturbation.sync_each);
  EXPECT_EQ(first->perturbation.co_resident, core::CoResident::memory_stress);
  EXPECT_EQ(first->baseline, "cold_pool");
  EXPECT_GE(first->trials, 12u);
  EXPECT_THAT(changes_asked_for(e),
              ElementsAre(Change::serialised, Change::one_block, Change::one_stage, Change::twin,
                          Change::knob, Change::knob, Change::delay));
  const auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, diagnosis::Experiment::Kind::race_check);
}

TEST(NextExperiment, IssuingWhatAGraphCapturedIsNoExperiment) {
  core::Evidence e = async_by_values();
  e.alternatives.emplace_back().finding = FindingClass::graph;
  EXPECT_THAT(changes_asked_for(e), testing::Not(testing::Contains(Change::eager)));
  e.experiments.clear();
  e.arms[0].perturbation.graph_trials = 16;
  EXPECT_THAT(changes_asked_for(e), testing::Contains(Change::eager));
}

TEST(Cures, ShareTheirAlphaAndSayNothingWhereTheBaselinePassed) {
  using diagnosis::Effect;
  core::ExperimentEvidence row;
  row.kind = Change::twin;
  row.before_trials = row.after_trials = 24;
  row.before_wrong = 8;  // 0.05 alone would call it a cure
  EXPECT_EQ(diagnosis::effect_of(row), Effect::open);
  row.before_wrong = 16;
  EXPECT_EQ(diagnosis::effect_of(row), Effect::cured);
  row.before_wrong = 0;
  EXPECT_EQ(diagnosis::effect_of(row), Effect::open);
  row.kind = Change::delay;
  EXPECT_EQ(diagnosis::effect_of(row), Effect::unchanged);
}

TEST(NextExperiment, AKnobThatAnArmHasTurnedAloneIsKnown) {
  core::Evidence e = async_by_values();
  e.arms[0].perturbation.pool_bytes = 512'000'000;
  e.arms[0].perturbation.flush_l2 = true;
  e.arms[1].perturbation.flush_l2 = true;
  const std::vector<Change> kinds = changes_asked_for(e);
  // The pool alone; and fewer multiprocessors, which no arm had.
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), Change::knob), 2);
  EXPECT_EQ(e.experiments[e.experiments.size() - 2].change, "8 multiprocessors left to it");
}

TEST(NextExperiment, WhatBringsARaceOutIsTriedWhereItIsPossible) {
  const auto asked = [](core::Evidence e, const std::string& change) {
    changes_asked_for(e);
    return std::any_of(e.experiments.begin(), e.experiments.end(),
                       [&](const auto& row) { return row.change == change; });
  };
  const std::string blocker = "a blocker of 50 us in front of each trial",
                    few = "8 multiprocessors left to it";
  core::Evidence e = async_by_values();
  EXPECT_FALSE(asked(e, blocker)) << "one stream";
  EXPECT_TRUE(asked(e, few));
  e.streams = 2;
  EXPECT_TRUE(asked(e, blocker));
  e.arms[0].perturbation.blocker_ns = 2000;
  e.arms[1].perturbation.free_sms = 1;
  EXPECT_FALSE(asked(e, blocker)) << "an arm had one";
  EXPECT_FALSE(asked(e, few));
  e.arms[1].perturbation.free_sms = 0;
  core::ExperimentEvidence row;
  row.kind = Change::one_block;
  row.before_trials = row.after_trials = 200;
  row.before_wrong = row.after_wrong = 100;
  e.experiments = {row};
  EXPECT_FALSE(asked(e, few)) << "it lies inside a block";
}

TEST(NextExperiment, ACleanCampaignOfTwoStreamsAsksForABlocker) {
  core::Evidence e = clean_evidence("stress", false);
  e.arms = {arm("memory_stress", clean_result(1000))};
  e.arms[0].perturbation.co_resident = core::CoResident::memory_stress;
  e.arms[0].perturbation.calls = 2;
  EXPECT_FALSE(diagnosis::next_experiment(e).has_value());
  e.streams = 2;
  ASSERT_TRUE(diagnosis::next_experiment(e).has_value());
  EXPECT_EQ(diagnosis::next_experiment(e)->kind, diagnosis::Experiment::Kind::blocker);
  e.arms[0].perturbation.blocker_ns = 2000;
  EXPECT_FALSE(diagnosis::next_experiment(e).has_value());
}

TEST(NextExperiment, OfAPassThereIsNothingToCure) {
  core::Evidence e = clean_evidence("stress", true);
  e.arms = {arm("random_random", clean_result(100))};
  EXPECT_TRUE(changes_asked_for(e).empty());
  core::Evidence sweep = wrong_config();
  EXPECT_TRUE(changes_asked_for(sweep).empty());
}

core::ExperimentEvidence changed(Change kind, std::uint64_t after, std::uint64_t trials = 200) {
  core::ExperimentEvidence row;
  row.kind = kind;
  row.change = "this change";
  row.baseline = "three_ctas_per_sm";
  row.before_trials = 5000;
  row.before_wrong = 700;
  row.after_trials = trials;
  row.after_wrong = after;
  return row;
}

TEST(Cures, AreClaimedWhenSoManyTrialsWouldHaveFailedBefore) {
  using diagnosis::Effect;
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 0)), Effect::cured);
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 0, 12)), Effect::open);
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 5)), Effect::lowered);
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 28)), Effect::unchanged);
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 150)), Effect::raised);
  EXPECT_EQ(diagnosis::effect_of(changed(Change::twin, 0, 0)), Effect::not_run);
  core::ExperimentEvidence row = changed(Change::twin, 0);
  row.left_out = "no other implementation";
  EXPECT_EQ(diagnosis::effect_of(row), Effect::not_run);
}

TEST(Cures, DecideBetweenRaces) {
  core::Evidence e = stream_by_values();
  e.experiments = {changed(Change::serialised, 0)};
  EXPECT_DOUBLE_EQ(diagnose(e).findings[0].confidence, 0.9);
  EXPECT_THAT(all_text(diagnose(e)),
              HasSubstr("cured by this change: 0 of 200 further trials wrong, against 700 of 5,000 "
                        "further ones of 'three_ctas_per_sm'"));
  // It goes away where launches do not overlap, but not under the same contention.
  e.experiments = {changed(Change::serialised, 30)};
  EXPECT_EQ(diagnose(e).findings[0].finding, FindingClass::unknown);
  EXPECT_THAT(all_text(diagnose(e)), HasSubstr("not cured by this change"));

  core::Evidence shared = shared_by_values();
  shared.experiments = {changed(Change::one_block, 26)};
  EXPECT_EQ(diagnose(shared).findings[0].finding, FindingClass::race_shared);
  EXPECT_DOUBLE_EQ(diagnose(shared).findings[0].confidence, 0.8);
  shared.experiments = {changed(Change::one_block, 0)};
  EXPECT_EQ(diagnose(shared).findings[0].finding, FindingClass::race_grid);
  EXPECT_EQ(diagnose(shared).findings[0].runner_up, FindingClass::race_shared);

  core::Evidence async = async_by_instructions();
  async.experiments = {changed(Change::one_stage, 0)};
  EXPECT_DOUBLE_EQ(diagnose(async).findings[0].confidence, 0.8);
}

TEST(NextExperiment, OneConfigThatAlwaysFailsAsksForASweep) {
  core::Evidence e = unexplained();
  changes_asked_for(e);
  const auto next = diagnosis::next_experiment(e);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, diagnosis::Experiment::Kind::config_sweep);
  EXPECT_FALSE(diagnosis::next_experiment(async_reported()).has_value());
}

}  // namespace
}  // namespace faultline::test
