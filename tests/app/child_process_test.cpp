// SPDX-License-Identifier: Apache-2.0
// What is read of a child process and of a tool's report.
#include "child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "sanitizer.hpp"

namespace faultline::app {
namespace {

TEST(ChildProcess, TheLastWordsOfAToolAreKept) {
  const std::atomic<bool> stop{false};
  const ChildResult child =
      run_child({}, 20.0, stop, {"/bin/sh", "-c", "echo first; echo last >&2; exit 3", "sh"});
  EXPECT_TRUE(child.started);
  EXPECT_EQ(child.exit_code, 3);
  EXPECT_EQ(child.said, "first\nlast\n");
  EXPECT_EQ(last_line(child.said), "last");
  EXPECT_EQ(last_line("  \n"), "");
}

TEST(ChildProcess, WhatATimeOutKillsGoesWithItsChildren) {
  const std::atomic<bool> stop{false};
  const auto begin = std::chrono::steady_clock::now();
  const ChildResult child =
      run_child({}, 0.5, stop, {"/bin/sh", "-c", "sleep 30 & echo $!; wait; echo late", "sh"});
  EXPECT_TRUE(child.timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_NE(child.said, "");
  const pid_t grandchild = std::stoi(child.said);
  // Gone, or dead where nobody has fetched its end.
  const auto is_gone = [&] {
    if (kill(grandchild, 0) == -1 && errno == ESRCH) return true;
    std::ifstream file("/proc/" + std::to_string(grandchild) + "/stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    return stat.find(") Z ") != std::string::npos;
  };
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_gone() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(is_gone());
  EXPECT_FALSE(run_child({}, 1.0, stop, {"/nowhere/at/all"}).started);
}

TEST(ChildProcess, AChildKeepsNothingInTheStoreOfItsParent) {
  const std::atomic<bool> stop{false};
  ASSERT_EQ(setenv("FAULTLINE_STORE", "/tmp/runs.db", 1), 0);
  const ChildResult child = run_child(
      {}, 20.0, stop, {"/bin/sh", "-c", "echo ${FAULTLINE_STORE-none}; test \"$PATH\"", "sh"});
  unsetenv("FAULTLINE_STORE");
  EXPECT_EQ(child.said, "none\n");
  EXPECT_EQ(child.exit_code, 0);
}

TEST(Sanitizer, ErrorsAreReadFromTheSummary) {
  EXPECT_EQ(reported_errors("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"), 0);
  EXPECT_EQ(reported_errors("========= ERROR SUMMARY: 12 errors\n"), 12);
  EXPECT_EQ(reported_errors("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, "
                            "0 warnings)\n"),
            2);
  // A warning is none, and there are as many hazards as errors and warnings together.
  EXPECT_EQ(reported_errors("========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, "
                            "1 warning)\n"),
            0);
  EXPECT_EQ(reported_errors("========= RACECHECK SUMMARY: 3 hazards displayed (1 error, "
                            "2 warnings)\n"),
            1);
  EXPECT_EQ(reported_errors("faultline: error: no device"), -1);
  EXPECT_EQ(reported_errors("ERROR SUMMARY: none"), -1);
}

TEST(Sanitizer, NoErrorsIsAResultOnlyOfATargetThatDidItsWork) {
  ChildResult child{.started = true, .said = "========= ERROR SUMMARY: 0 errors\n"};
  for (const int verdict : {0, 1, 4}) {
    child.exit_code = verdict;
    EXPECT_EQ(read_tool(child, 60.0).errors, 0) << verdict;
  }
  for (const int error : {2, 3, 5, 130}) {
    child.exit_code = error;
    EXPECT_EQ(read_tool(child, 60.0).errors, -1) << error;
    EXPECT_THAT(read_tool(child, 60.0).said,
                testing::HasSubstr("target ended with exit code " + std::to_string(error)));
  }
  child.exit_code = -1;
  child.signal = SIGSEGV;
  EXPECT_EQ(read_tool(child, 60.0).said, "target ended by signal 11");
  child.timed_out = true;
  EXPECT_EQ(read_tool(child, 60.0).said, "did not end within 60 s");
  child.timed_out = false;
  child.said = "========= ERROR SUMMARY: 2 errors\n";  // what made it end, too
  EXPECT_EQ(read_tool(child, 60.0).errors, 2);
}

}  // namespace
}  // namespace faultline::app
