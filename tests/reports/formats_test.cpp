// SPDX-License-Identifier: Apache-2.0
// JUnit, SARIF, Markdown and CSV. formats_test.py reads the same files with parsers of others.
// Golden files: FAULTLINE_APPROVE=1 rewrites them, as in terminal_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "faultline/reports/csv.hpp"
#include "faultline/reports/junit.hpp"
#include "faultline/reports/markdown.hpp"
#include "faultline/reports/output.hpp"
#include "faultline/reports/renderer.hpp"
#include "faultline/reports/sarif.hpp"
#include "report_text.hpp"
#include "samples.hpp"
#include "text.hpp"

namespace faultline::reports {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

core::RunRecord sample(std::string_view name) {
  for (auto& [sample_name, record] : samples::all()) {
    if (sample_name == name) return record;
  }
  ADD_FAILURE() << "no sample " << name;
  return {};
}

/// A campaign of one arm.
core::RunRecord one_arm(core::Outcome outcome, std::uint64_t failed, std::uint64_t trials) {
  core::RunRecord record;
  record.command = "stress";
  record.subject = "gemv";
  record.verdict.outcome = outcome;
  record.verdict.summary = "the verdict's text";
  core::ArmEvidence arm;
  arm.perturbation.name = "the arm";
  arm.result.trials = trials;
  arm.result.failed = arm.result.wrong_values = failed;
  record.evidence.arms = {arm};
  return record;
}

/// Golden files are ASCII, as all of the tree is: other characters are written as "[U+2588]".
std::string in_ascii(std::string_view text) {
  std::string out;
  for (const char32_t c : decode_utf8(text)) {
    out += c < 0x80 ? std::string(1, static_cast<char>(c))
                    : fmt::format("[U+{:04X}]", static_cast<std::uint32_t>(c));
  }
  return out;
}

class FormatGolden : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(FormatGolden, IsAsApproved) {
  const auto [name, format] = GetParam();
  const Renderer* renderer = find_renderer(format);
  ASSERT_NE(renderer, nullptr);
  const std::string text = in_ascii(renderer->render(sample(name)));
  const std::string path = fmt::format("{}/{}{}", FAULTLINE_GOLDEN_DIR, name, renderer->extension);
  if (std::getenv("FAULTLINE_APPROVE")) {
    write_output(path, text);
    return;
  }
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "not as in " << path
                                << "; set FAULTLINE_APPROVE=1 to accept the new text";
}

INSTANTIATE_TEST_SUITE_P(Formats, FormatGolden,
                         testing::Combine(testing::Values("stress_shared_buffer", "mutants_gemv",
                                                          "cuda_stress", "verify_uncoalesced"),
                                          testing::Values("md", "junit", "sarif", "csv")));

TEST(Junit, SomeFailingTrialsAreFlakyOnlyWhereTheRunPasses) {
  const std::string flaky = to_junit(one_arm(core::Outcome::pass, 3, 500));
  EXPECT_THAT(flaky,
              HasSubstr("<flakyFailure message=\"3 of 500 trials failed (3 with wrong "
                        "values)\" type=\"unknown\">\n      <stackTrace>the verdict&#39;s "));
  EXPECT_THAT(flaky, Not(HasSubstr("<failure")));
  EXPECT_THAT(flaky, HasSubstr("tests=\"2\" errors=\"0\" skipped=\"0\" failures=\"0\""));
  const std::string failing = to_junit(one_arm(core::Outcome::fail, 3, 500));
  EXPECT_THAT(failing, Not(HasSubstr("flakyFailure")));
  EXPECT_THAT(failing, HasSubstr("tests=\"2\" errors=\"0\" skipped=\"0\" failures=\"2\""));
  // All trials failed: nothing flaky about that, whatever the verdict says.
  const std::string always = to_junit(one_arm(core::Outcome::pass, 500, 500));
  EXPECT_THAT(always, Not(HasSubstr("flakyFailure")));
  EXPECT_THAT(always, HasSubstr("failures=\"1\""));
}

TEST(Junit, WhatWasNotJudgedIsNeverGreen) {
  EXPECT_THAT(to_junit(one_arm(core::Outcome::pass, 0, 0)),
              HasSubstr("<error message=\"no trial finished\" type=\"inconclusive\">"));
  EXPECT_THAT(to_junit(one_arm(core::Outcome::inconclusive, 0, 5)), HasSubstr("errors=\"1\""));
  EXPECT_THAT(to_junit(samples::unsupported()), HasSubstr("errors=\"2\""));
  EXPECT_THAT(to_junit(samples::empty()), HasSubstr("tests=\"1\" errors=\"1\""));
  core::RunRecord contradiction = one_arm(core::Outcome::pass, 0, 5);
  contradiction.verdict.findings = {{.headline = "an error in a run that passes"}};
  EXPECT_THAT(to_junit(contradiction), HasSubstr("failures=\"1\""));
  core::RunRecord skipped = one_arm(core::Outcome::skipped, 0, 0);
  skipped.evidence.arms[0].result.skipped = true;
  EXPECT_THAT(to_junit(skipped), HasSubstr("errors=\"0\" skipped=\"2\" failures=\"0\""));
  core::RunRecord crashed = one_arm(core::Outcome::error, 0, 0);
  core::KillRow row;
  row.is_mutant = row.right = true;
  row.cells = {{.note = "died", .outcome = core::Outcome::error}};
  crashed.mutants.rows = {row};
  EXPECT_THAT(to_junit(crashed), HasSubstr("<error message=\"died\" type=\"error\">"));
}

TEST(Junit, CharactersThatXmlDoesNotAdmitAreShown) {
  const std::string evil =
      std::string("a\0b", 3) + "\x01\x0b\r\x1b\x7f\xff ]]> <&\"'\n\t\u202e" + "\uffff\xed\xa0\x80";
  EXPECT_EQ(
      escape_markup(evil),
      "a[U+0000]b[U+0001][U+000B][U+000D][U+001B][U+007F]\ufffd ]]&gt; &lt;&amp;&quot;&#39;\n\t"
      "[U+202E][U+FFFF]\ufffd\ufffd\ufffd");
  EXPECT_THAT(escape_markup(evil, true), HasSubstr("&#39;&#10;&#9;[U+202E]"));
}

TEST(Sarif, HoldsWhatTheSchemaRequires) {
  for (const auto& [name, record] : samples::all()) {
    const Json log = Json::parse(to_sarif(record));
    EXPECT_EQ(log.at("version"), "2.1.0") << name;
    ASSERT_EQ(log.at("runs").size(), 1u) << name;
    const Json& run = log["runs"][0];
    const Json& rules = run.at("tool").at("driver").at("rules");
    EXPECT_EQ(run["tool"]["driver"].at("name"), "faultline");
    ASSERT_TRUE(run.at("invocations").is_array());
    EXPECT_TRUE(run["invocations"][0].at("executionSuccessful").is_boolean());
    EXPECT_GE(run.at("results").size(), record.verdict.findings.size()) << name;
    for (const Json& result : run["results"]) {
      EXPECT_TRUE(result.at("message").at("text").is_string());
      EXPECT_EQ(rules.at(result.at("ruleIndex").get<std::size_t>()).at("id"), result.at("ruleId"));
      EXPECT_EQ(result.at("partialFingerprints").size(), 1u);
      ASSERT_TRUE(result.at("locations").is_array()) << name;
    }
  }
}

TEST(Sarif, ARaceShowsBothSites) {
  const Json run = Json::parse(to_sarif(samples::stress_shared_buffer()))["runs"][0];
  ASSERT_EQ(run["results"].size(), 2u);
  const Json& result = run["results"][0];
  EXPECT_EQ(result["level"], "error");
  const auto line = [](const Json& location) {
    const Json& place = location.at("physicalLocation");
    EXPECT_EQ(place.at("artifactLocation").at("uri"), "kernels/gla_decode/async_copy.cuh");
    EXPECT_EQ(place["artifactLocation"].at("uriBaseId"), "%SRCROOT%");
    return place.at("region").at("startLine").get<int>();
  };
  EXPECT_EQ(line(result["locations"][0]), 38);
  EXPECT_EQ(line(result["relatedLocations"][0]), 61);
  EXPECT_EQ(line(result["relatedLocations"][1]), 38);
  const Json& threads = result["codeFlows"][0]["threadFlows"];
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0]["locations"].size(), 2u);  // the kernel's line, then the helper's
  EXPECT_EQ(line(threads[1]["locations"][1]["location"]), 38);
}

TEST(Sarif, FingerprintsOutliveMovedLinesAndOtherRuns) {
  const auto prints = [](const core::RunRecord& record) {
    std::vector<std::string> all;
    const Json log = Json::parse(to_sarif(record));
    for (const Json& result : log["runs"][0]["results"]) {
      all.push_back(result["partialFingerprints"][kFingerprintName]);
    }
    return all;
  };
  core::RunRecord record = samples::stress_shared_buffer();
  const auto before = prints(record);
  ASSERT_EQ(before.size(), 2u);
  EXPECT_NE(before[0], before[1]);
  record.seed = 7;
  record.provenance.started_at = "later";
  for (auto& race : record.evidence.races) {
    race.count *= 3;
    race.byte_begin += 64;
    for (auto* site : {&race.first, &race.second}) {
      site->actor = "another warp";
      for (auto& where : site->where) where.line += 5;
    }
  }
  EXPECT_EQ(prints(record), before);
  record.evidence.races[0].first.where[1].function = "renamed";
  EXPECT_NE(prints(record)[0], before[0]);
}

TEST(Sarif, SlowAccessesHaveALineAndTheHostHasNone) {
  core::RunRecord record = samples::verify_uncoalesced();
  record.excerpts = {{"kernels/other.cuh", 1, {"x"}, 1}};
  const auto place_of = [&](core::FindingClass finding) {
    record.verdict.findings[0].finding = finding;
    return Json::parse(to_sarif(record))["runs"][0]["results"][0]["locations"][0];
  };
  const Json slow = place_of(core::FindingClass::slow_uncoalesced);
  EXPECT_EQ(slow["physicalLocation"]["region"]["startLine"], 88);
  const Json dispatch = place_of(core::FindingClass::slow_dispatch);
  EXPECT_FALSE(dispatch.contains("physicalLocation")) << dispatch;
  EXPECT_EQ(dispatch["logicalLocations"][0]["name"], "gemv@uncoalesced");
  record.evidence.accesses.clear();
  EXPECT_FALSE(place_of(core::FindingClass::slow_dispatch).contains("physicalLocation"));
}

TEST(Sarif, PathsBecomeUris) {
  core::RunRecord record = samples::stress_shared_buffer();
  record.evidence.races.resize(1);
  record.evidence.races[0].second.where = {{"my kernels/a:b%.cu", 0, "f"}};
  const std::string text = to_sarif(record);
  EXPECT_THAT(text, HasSubstr("\"my%20kernels/a%3Ab%25.cu\""));
  EXPECT_THAT(text, Not(HasSubstr("\"startLine\": 0")));
}

TEST(Markdown, TextOfTheRecordStaysText) {
  core::RunRecord record = one_arm(core::Outcome::pass, 0, 5);
  const std::string evil =
      "1. <b>|`` ` *x* [a](http://b) ]]> $m$ \n# \"q\" " + std::string(1, '\0');
  record.evidence.arms[0].perturbation.name = evil;
  record.evidence.arms[0].result.note = evil;
  record.verdict.findings = {{.severity = core::Severity::note, .headline = evil}};
  const std::string text = to_markdown(record);
  EXPECT_THAT(text, HasSubstr("1\\. \\<b\\>\\|\\`\\` \\` \\*x\\* \\[a\\](http\\://b) \\]\\]\\> "
                              "\\$m\\$  \\# \"q\" \\[U+0000\\]"));
  EXPECT_THAT(text, HasSubstr("| ```1. <b>\\|`` ` *x* [a](http://b)"));
  EXPECT_EQ(text.find('\0'), std::string::npos);
  const auto lines = lines_of(text);
  const auto row = std::find_if(lines.begin(), lines.end(),
                                [](const auto& line) { return line.starts_with("| ```"); });
  ASSERT_NE(row, lines.end());
  EXPECT_EQ(count_of(*row, "|") - count_of(*row, "\\|"), 11u);  // ten columns
}

TEST(Markdown, VerdictComesFirst) {
  EXPECT_THAT(to_markdown(samples::stress_shared_buffer()),
              StartsWith("## FAIL `race.async`: stress `gla_decode@shared_buffer`\n"));
}

/// 100,000 arms and cells, of which the last ones failed.
core::RunRecord huge() {
  core::RunRecord record = one_arm(core::Outcome::fail, 0, 5);
  core::ArmEvidence arm = record.evidence.arms[0];
  core::ConfigEvidence cell;
  cell.result = arm.result;
  for (int i = 0; i < 100'000; ++i) {
    arm.perturbation.name = fmt::format("arm {}", i);
    cell.problem = fmt::format("n={}", i);
    arm.result.failed = cell.result.failed = i >= 99'990 ? 2 : 0;
    record.evidence.arms.push_back(arm);
    record.evidence.configs.push_back(cell);
  }
  return record;
}

TEST(Formats, HundredThousandArmsAndCells) {
  const core::RunRecord record = huge();
  const auto start = std::chrono::steady_clock::now();
  const std::string text = to_markdown(record);
  EXPECT_LE(text.size(), kMarkdownLimit);
  EXPECT_THAT(text, HasSubstr("99,501 of 100,001 rows left out here"));
  EXPECT_THAT(text, HasSubstr("99,500 of 100,000 rows left out here"));
  EXPECT_THAT(text, HasSubstr("arm 99999"));  // what failed is shown
  EXPECT_EQ(count_of(text, "<details>"), count_of(text, "</details>"));
  EXPECT_EQ(lines_of(to_csv(record)).size(), 200'002u);
  EXPECT_EQ(count_of(to_junit(record), "<testcase"), 200'002u);
  (void)to_sarif(record);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", fmt::format("{:.2f}", took.count()));
}

TEST(Markdown, NoTextIsLongEnoughToBreakTheLimit) {
  core::RunRecord record = samples::stress_shared_buffer();
  const std::string long_text(20'000, '|');
  core::Finding finding = record.verdict.findings[0];
  finding.headline = long_text;
  finding.evidence.assign(60, long_text);
  record.verdict.findings.assign(60, finding);
  core::RaceReport race = record.evidence.races[0];
  race.missing_edge = race.buffer = long_text;
  record.evidence.races.assign(100, race);
  record.replay_lines.assign(100, long_text);
  for (auto& arm : record.evidence.arms) arm.result.note = long_text;
  const std::string text = to_markdown(record);
  EXPECT_LE(text.size(), kMarkdownLimit);
  EXPECT_THAT(text, HasSubstr("findings left out here"));
  EXPECT_THAT(text, HasSubstr("replay lines left out here"));
}

TEST(Csv, FieldsAreQuotedAndNoFormula) {
  core::RunRecord record = one_arm(core::Outcome::fail, 1, 4);
  record.evidence.arms[0].perturbation.name = "=HYPERLINK(\"x\"),\na";
  const std::string text = to_csv(record);
  EXPECT_THAT(text, StartsWith("row,command,subject,variant,backend,seed,problem,config,arm,"
                               "detector,outcome,required,found,killed,right,trials,failed,"
                               "wrong_values,raced,abnormal,rate,wilson95_low,wilson95_high,"
                               "upper95,compared_elements,bad_elements,worst_output,worst_ratio,"
                               "worst_ulps,first_failed_trial,trials_to_kill,median_graph_us,"
                               "median_event_us,tb_per_s,ratio_to_baseline,seconds,token,note\n"));
  EXPECT_THAT(text, HasSubstr(",\"'=HYPERLINK(\"\"x\"\"),\na\",,fail,"));
  EXPECT_THAT(text, HasSubstr(",4,1,1,0,0,0.25,0,1,,"));
}

}  // namespace
}  // namespace faultline::reports
