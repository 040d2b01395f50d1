// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "text.hpp"

namespace faultline::reports {
namespace {

std::string written_to(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  return text;
}

TEST(Progress, HeartbeatIsOneLineEachTenSeconds) {
  std::FILE* file = std::tmpfile();
  double time = 100.0;
  Progress progress(file, {.clock = [&] { return time; }});
  for (std::uint64_t done = 0; done <= 350; ++done) {
    time = 100.0 + static_cast<double>(done) / 10.0;
    progress.update({.label = "random schedule", .done = done * 10, .total = 5000, .failed = 3});
  }
  progress.finish();
  progress.update({.label = "after the end", .done = 1});
  const std::string text = written_to(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "random schedule   20 %  1,000/5,000 trials, 3 failed  100/s  40 s left");
  std::fclose(file);
}

TEST(Progress, TerminalLineIsRewrittenAndErased) {
  std::FILE* file = std::tmpfile();
  double time = 0.0;
  {
    Progress progress(file, {.updating = true, .width = 60, .clock = [&] { return time; }});
    for (std::uint64_t done = 0; done < 100; ++done) {
      progress.update({.label = "arm", .done = done, .total = 100});
      time += 0.01;
    }
  }
  const std::string text = written_to(file);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K");
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 12);
  std::fclose(file);
}

TEST(Progress, ShortWorkIsSilentInALog) {
  std::FILE* file = std::tmpfile();
  double time = 0.0;
  Progress progress(file, {.clock = [&] { return time; }});
  progress.update({.label = "arm", .done = 1, .total = 2});
  time = 9.9;
  progress.update({.label = "arm", .done = 2, .total = 2});
  progress.finish();
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

TEST(Progress, LineFitsTheWidth) {
  const ProgressState state{.label = "memory stress, cold pool 512 MB, 256 trials in one grid",
                            .done = 123456,
                            .total = 1000000,
                            .failed = 42};
  for (int width = 45; width < 160; ++width) {
    for (const bool unicode : {false, true}) {
      EXPECT_LE(columns_of(Progress::line(state, 12.0, 34100.0, width, unicode)), width);
    }
  }
  EXPECT_EQ(Progress::line(state, 12.0, 34100.0, 72, false),
            "memo...   12 %  123,456/1,000,000 trials, 42 failed  34.1 k/s  26 s left");
}

TEST(Progress, DisabledPrintsNothing) {
  std::FILE* file = std::tmpfile();
  double time = 0.0;
  Progress progress(file, {.enabled = false, .updating = true, .clock = [&] { return time; }});
  time = 100.0;
  progress.update({.label = "arm", .done = 1, .total = 2});
  progress.finish();
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace faultline::reports
