// SPDX-License-Identifier: Apache-2.0
// Golden tests: FAULTLINE_APPROVE=1 in the environment rewrites the files in golden/ instead of
// comparing.
#include "faultline/reports/terminal.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "faultline/core/errors.hpp"
#include "faultline/reports/output.hpp"
#include "report_text.hpp"
#include "samples.hpp"
#include "text.hpp"

namespace faultline::reports {
namespace {

std::string without_escapes(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      if (text[i] == '\n' && !out.empty() && out.back() == ' ') {
        out.pop_back();  // of a badge
      }
      out += text[i];
    }
  }
  return out;
}

class Golden : public testing::TestWithParam<std::tuple<const char*, int, bool>> {};

TEST_P(Golden, IsAsApproved) {
  const auto [name, width, color] = GetParam();
  for (const auto& sample : samples::all()) {
    if (sample.name != name) {
      continue;
    }
    const std::string text =
        render_terminal(sample.record, {.width = width, .color = color, .unicode = color});
    const std::string path =
        fmt::format("{}/{}.{}.{}", FAULTLINE_GOLDEN_DIR, name, width, color ? "ansi" : "txt");
    if (std::getenv("FAULTLINE_APPROVE")) {
      write_output(path, text);
      return;
    }
    std::ifstream file(path);
    std::stringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(text, golden.str()) << "not as in " << path
                                  << "; set FAULTLINE_APPROVE=1 to accept the new text";
    return;
  }
  FAIL() << "no sample of that name";
}

INSTANTIATE_TEST_SUITE_P(
    Plain, Golden,
    testing::Combine(testing::Values("stress_shared_buffer", "stress_clean", "verify_gemv",
                                     "verify_dropped_tail", "verify_missing_term",
                                     "verify_uncoalesced", "cuda_stress", "bench_gemv",
                                     "unsupported", "interrupted", "deadlock", "empty"),
                     testing::Values(80, 160), testing::Values(false)));
INSTANTIATE_TEST_SUITE_P(Color, Golden,
                         testing::Combine(testing::Values("stress_shared_buffer", "cuda_stress"),
                                          testing::Values(80, 160), testing::Values(true)));

TEST(Terminal, NoLineIsWiderThanThePageExceptCommands) {
  for (const auto& [name, record] : samples::all()) {
    for (const int width : {1, 60, 61, 72, 80, 100, 132, 160, 1000}) {
      for (const bool fancy : {false, true}) {
        for (const Verbosity verbosity :
             {Verbosity::quiet, Verbosity::normal, Verbosity::verbose}) {
          const std::string text = without_escapes(render_terminal(
              record, {.width = width, .color = fancy, .unicode = fancy, .verbosity = verbosity}));
          const int limit =
              std::clamp(width, TerminalOptions::kMinimumWidth, TerminalOptions::kMaximumWidth);
          bool replay = false;
          for (const auto& line : lines_of(text)) {
            replay = replay || line == "Replay";
            if (!replay) {
              EXPECT_LE(columns_of(line), limit) << name << " at " << width << ": " << line;
            }
          }
        }
      }
    }
  }
}

TEST(Terminal, QuietIsTheVerdictAlone) {
  for (const auto& [name, record] : samples::all()) {
    const std::string text = render_terminal(record, {.width = 80, .verbosity = Verbosity::quiet});
    EXPECT_EQ(text.find("Replay"), std::string::npos) << name;
    EXPECT_EQ(text.find("faultline replay"), std::string::npos) << name;
  }
}

TEST(Terminal, WithoutColourThereIsNothingButPrintableAsciiAndNewlines) {
  for (const auto& [name, record] : samples::all()) {
    const std::string text =
        render_terminal(record, {.width = 80, .verbosity = Verbosity::verbose});
    for (const char c : text) {
      ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << name << ": " << static_cast<int>(c);
    }
  }
}

TEST(Terminal, ColourChangesNoText) {
  for (const auto& [name, record] : samples::all()) {
    const TerminalOptions plain{.width = 90, .color = false, .unicode = true};
    TerminalOptions colored = plain;
    colored.color = true;
    EXPECT_EQ(without_escapes(render_terminal(record, colored)), render_terminal(record, plain))
        << name;
  }
}

TEST(Terminal, VerdictComesFirstAndReplayLast) {
  const auto lines = lines_of(render_terminal(samples::stress_shared_buffer(), {}));
  EXPECT_EQ(lines.front(), " FAIL  race.async  stress gla_decode@shared_buffer");
  EXPECT_EQ(lines.back().rfind("  faultline race gla_decode@shared_buffer ", 0), 0u);
}

TEST(Terminal, ArmsThatEndedAlikeAreToldOnceAndNotAgainAfterTheFinding) {
  core::RunRecord record = samples::deadlock();
  core::ArmEvidence again = record.evidence.arms.front();
  again.perturbation.name = "skew_lazy";
  record.evidence.arms.push_back(again);
  const auto times = [&](const std::string& what) {
    int count = 0;
    for (const std::string& line : lines_of(render_terminal(record, {.width = 160}))) {
      count += line.find(what) != std::string::npos ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(times("warp 3 waits on"), 1);
  EXPECT_EQ(times("(random schedule, lazy copies, skew_lazy): deadlock after"), 1);
  core::Finding& finding = record.verdict.findings.front();
  finding.headline += " " + again.result.message;
  finding.evidence = again.result.details;
  EXPECT_EQ(times("warp 3 waits on"), 1);
  EXPECT_EQ(times("(random schedule, lazy copies, skew_lazy): as in the finding above"), 1);
}

TEST(Terminal, SaysWhatOfAnArmIsNotProven) {
  core::RunRecord record = samples::cuda_stress();
  core::ArmEvidence& arm = record.evidence.arms[13];
  const std::string overlap = "overlap with the co-resident kernel not proven";
  const std::string dirtied = "shared memory not proven to be dirtied";
  const auto has = [&](const std::string& what) {
    return render_terminal(record, {.width = 160}).find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(overlap));
  EXPECT_FALSE(has(dirtied));
  arm.perturbation.dirty_shared = true;
  arm.perturbation.co_resident = core::CoResident::none;
  EXPECT_FALSE(has(overlap));
  EXPECT_TRUE(has(dirtied));
  arm.result.overlap_proven = true;
  EXPECT_FALSE(has(dirtied));
}

TEST(Terminal, HeadlineDoesNotRepeatTheBadge) {
  core::RunRecord record;
  record.verdict.outcome = core::Outcome::inconclusive;
  for (const char* summary :
       {"inconclusive(no_evidence, unknown): the reason", "inconclusive: the reason"}) {
    record.verdict.summary = summary;
    EXPECT_EQ(lines_of(render_terminal(record, {}))[1], "the reason");
  }
  record.verdict.summary = "inconclusive(";
  EXPECT_EQ(lines_of(render_terminal(record, {}))[1], "inconclusive(");
}

TEST(Terminal, AWordOfMegabytesIsLaidOutOnce) {
  core::RunRecord record;
  record.verdict.outcome = core::Outcome::error;
  record.verdict.summary = "error: " + std::string(4'000'000, 'x');  // minutes, were it quadratic
  const std::string text = render_terminal(record, {.width = 80});
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 4'000'000);
  for (const std::string& line : lines_of(text)) ASSERT_LE(line.size(), 80u);
}

TEST(Terminal, CommandsAreNeverBroken) {
  const auto record = samples::cuda_stress();
  const std::string text = render_terminal(record, {.width = 60});
  EXPECT_NE(text.find("\n  " + record.replay_lines[0] + "\n"), std::string::npos);
}

TEST(Terminal, AskedForColourItIsGivenAndNoColorIsHonoured) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(terminal_options_for(file).color);  // a file is no terminal
  EXPECT_TRUE(terminal_options_for(file, ColorMode::always).color);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(terminal_options_for(file).color);
  EXPECT_TRUE(terminal_options_for(file, ColorMode::always).color);  // said on the command line
  unsetenv("NO_COLOR");
  std::fclose(file);
}

TEST(Terminal, LocaleAndColumnsDecide) {
  std::FILE* file = std::tmpfile();
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(terminal_options_for(file).unicode);
  setenv("LC_ALL", "en_US.utf8", 1);
  EXPECT_TRUE(terminal_options_for(file).unicode);
  unsetenv("LC_ALL");
  setenv("COLUMNS", "123", 1);
  EXPECT_EQ(terminal_options_for(file).width, 123);
  setenv("COLUMNS", "20", 1);
  EXPECT_EQ(terminal_options_for(file).width, TerminalOptions::kMinimumWidth);
  unsetenv("COLUMNS");
  EXPECT_EQ(terminal_options_for(file).width, 80);
  std::fclose(file);
}

TEST(Terminal, FullDiskIsAnError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_THROW(print_terminal(samples::stress_clean(), {}, full), core::EnvironmentError);
  std::fclose(full);
}

}  // namespace
}  // namespace faultline::reports
