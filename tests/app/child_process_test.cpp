// SPDX-License-Identifier: Apache-2.0
// What is read of a child process and of a tool's report.
#include "child_process.hpp"

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>

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
      run_child({}, 0.1, stop, {"/bin/sh", "-c", "sleep 30; echo late", "sh"});
  EXPECT_TRUE(child.timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_FALSE(run_child({}, 1.0, stop, {"/nowhere/at/all"}).started);
}

TEST(Sanitizer, ErrorsAreReadFromTheSummary) {
  EXPECT_EQ(reported_errors("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"), 0);
  EXPECT_EQ(reported_errors("========= ERROR SUMMARY: 12 errors\n"), 12);
  EXPECT_EQ(reported_errors("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, "
                            "0 warnings)\n"),
            2);
  EXPECT_EQ(reported_errors("faultline: error: no device"), -1);
  EXPECT_EQ(reported_errors("ERROR SUMMARY: none"), -1);
}

}  // namespace
}  // namespace faultline::app
