// SPDX-License-Identifier: Apache-2.0
// What a run folder and a headline say of a run: nothing stale, and what was not looked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "faultline/kernels/subject.hpp"
#include "files.hpp"
#include "record.hpp"
#include "resume.hpp"

namespace faultline::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunRecordTest : public ::testing::Test {
 protected:
  RunRecordTest() {
    options_.words = {"gemv"};
    options_.quiet = true;
    options_.run_dir = folder_.path().string();
  }

  std::string written() const {
    std::ifstream file(folder_ / "run.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Four trials on the simulator, none of which failed.
  static core::Evidence clean() {
    core::Evidence evidence;
    evidence.subject = "gemv";
    evidence.backend = "simulator";
    evidence.mode = "stress";
    evidence.backend_is_model = true;
    core::ArmEvidence arm;
    arm.result.trials = 4;
    arm.result.outputs.emplace_back().compared_elements = 32;
    evidence.arms.push_back(arm);
    return evidence;
  }

  /// The summary of a finished run and its exit code.
  std::pair<std::string, int> finish(core::Evidence evidence) {
    const Context context{options_, registry_, stop_, "faultline stress gemv"};
    app::Run run(context, "stress");
    testing::internal::CaptureStdout();
    const int code = run.finish(std::move(evidence));
    testing::internal::GetCapturedStdout();
    return {run.record().verdict.summary, code};
  }

  test::TemporaryFolder folder_;
  Options options_;
  kernels::SubjectRegistry registry_;
  std::atomic<bool> stop_{false};
};

TEST_F(RunRecordTest, AnOlderVerdictDoesNotOutliveTheStartOfARun) {
  finish(clean());
  ASSERT_THAT(written(), HasSubstr("pass: gemv"));
  const Context context{options_, registry_, stop_, "faultline stress gemv"};
  const app::Run killed(context, "stress");
  EXPECT_THAT(written(), Not(HasSubstr("pass: ")));
  EXPECT_THAT(written(), HasSubstr("inconclusive: no trial of gemv was finished (interrupted"));
}

TEST_F(RunRecordTest, SaysWhatCutItShort) {
  core::Evidence cut = clean();
  cut.interrupted = true;
  EXPECT_THAT(finish(cut).first, HasSubstr("interrupted before the plan was done"));
  options_.budget_s = 2.0;
  EXPECT_THAT(finish(cut).first, HasSubstr("the budget of 2 s ran out before the plan was done"));
  EXPECT_THAT(written(), HasSubstr("; cut short: the budget of 2 s ran out"));
  stop_ = true;  // Ctrl-C came first
  const auto [summary, code] = finish(cut);
  EXPECT_THAT(summary, HasSubstr("interrupted before the plan was done"));
  EXPECT_EQ(code, 130);
}

/// While it lives, files grow to so many bytes and no further, as on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(RunRecordTest, AJournalThatCannotBeWrittenCostsOneWarning) {
  const Context context{options_, registry_, stop_, "faultline stress gemv", {"stress", "gemv"}};
  const std::string path = store::Journal::path_in(options_.run_dir);
  {
    app::Run run(context, "stress");
    ASSERT_NE(run.journal(), nullptr);
    const std::vector<store::FailingCase> cases(3);
    testing::internal::CaptureStderr();
    {
      const SmallFiles full(std::filesystem::file_size(path));
      run.note_cases(cases);
      run.note_cases(cases);
      run.identify_results();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("faultline: warning: The journal '"));
    EXPECT_EQ(said.find("warning"), said.rfind("warning"));
    // It does not say what it is of, and so is none.
    EXPECT_EQ(run.journal(), nullptr);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  testing::internal::CaptureStderr();
  {
    const SmallFiles full(400);
    EXPECT_EQ(open_journal(context, "stress"), nullptr);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("faultline: warning: The journal"));
  EXPECT_FALSE(holds_journal(options_.run_dir));
}

TEST_F(RunRecordTest, TheSummarySaysThatRacesWereNotLookedFor) {
  EXPECT_THAT(finish(clean()).first, Not(HasSubstr("races")));
  options_.no_race = true;
  EXPECT_THAT(finish(clean()).first, HasSubstr("; races were not looked for (--no-race)"));
}

TEST_F(RunRecordTest, TheWorstIsTheFirstToReplay) {
  core::Evidence evidence = clean();
  const core::ArmEvidence right = evidence.arms.at(0);
  evidence.arms.clear();
  for (const auto& [token, ratio] :
       {std::pair("fl1.right", 0.5), std::pair("fl1.wrong", 3.0), std::pair("fl1.worst", 7.0)}) {
    core::ArmEvidence& arm = evidence.arms.emplace_back(right);
    arm.token = token;
    core::OutputTotals& output = arm.result.outputs.emplace_back();
    output.worst_ratio = ratio;
    output.bad_elements = ratio > 1.0;
  }
  finish(evidence);
  const std::string record = written();
  const std::size_t worst = record.find("faultline replay fl1.worst");
  EXPECT_LT(worst, record.find("faultline replay fl1.wrong"));
  EXPECT_NE(worst, std::string::npos);
  EXPECT_THAT(record, Not(HasSubstr("faultline replay fl1.right")));
}

TEST_F(RunRecordTest, AWarningThatFailsTheRunIsSaidInTheSummary) {
  core::Evidence evidence = clean();
  core::AccessStatistics& access = evidence.accesses.emplace_back();
  access.requests = 1000;
  access.sectors = 32000;
  access.ideal_sectors = 4000;
  access.lane_stride_bytes = 128;
  access.lanes = 32000;
  access.distinct_addresses = 32000;
  options_.fail_on_warning = true;
  const auto [summary, code] = finish(evidence);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(summary, HasSubstr("; exit 1: a warning, and --fail-on warning"));
  EXPECT_EQ(finish(clean()).second, 0);
}

}  // namespace
}  // namespace faultline::app
