// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "faultline/core/errors.hpp"

namespace faultline::reports {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Output : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "faultline_output_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string message_of(const std::string& path) {
    try {
      write_output(path, "text");
    } catch (const core::EnvironmentError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::error);
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(Output, WritesAndReplacesAndLeavesNothingElse) {
  const fs::path path = folder_ / "report.json";
  write_output(path, "old");
  write_output(path, "new and longer");
  EXPECT_EQ(read(path), "new and longer");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Output, KeepsPermissionsAndFollowsLinks) {
  const fs::path path = folder_ / "report.json", link = folder_ / "latest.json";
  write_output(path, "old");
  chmod(path.c_str(), 0640);
  fs::create_symlink("report.json", link);
  write_output(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(static_cast<unsigned>(fs::status(path).permissions()), 0640u);
}

TEST_F(Output, SaysWhichPathAndWhy) {
  EXPECT_THAT(message_of(folder_ / "absent" / "r.json"),
              AllOf(HasSubstr("r.json'"), HasSubstr("folder does not exist")));
  EXPECT_THAT(message_of(folder_), HasSubstr("it is a folder"));
  EXPECT_THAT(message_of("/dev/full"),
              AllOf(HasSubstr("'/dev/full'"), HasSubstr("the disk is full")));
  write_output(folder_ / "file", "x");
  EXPECT_THAT(message_of(folder_ / "file" / "r.json"), HasSubstr("not a folder"));
  EXPECT_THAT(message_of("/proc/version"), HasSubstr("Cannot write"));
}

TEST_F(Output, ANamedPipeIsRefusedAtOnce) {
  const fs::path pipe = folder_ / "pipe", link = folder_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", link);
  for (const fs::path& path : {pipe, link}) {
    EXPECT_THAT(message_of(path), HasSubstr("it is a named pipe (FIFO)"));
    EXPECT_THROW(check_writable(path), core::EnvironmentError);
  }
}

TEST_F(Output, CheckChangesNothing) {
  const fs::path path = folder_ / "report.json";
  check_writable(path);
  EXPECT_EQ(entries(), 0u);
  write_output(path, "kept");
  check_writable(path);
  EXPECT_EQ(read(path), "kept");
  EXPECT_EQ(entries(), 1u);
  check_writable("-");
  EXPECT_THROW(check_writable(folder_ / "absent" / "r.json"), core::EnvironmentError);
  EXPECT_THROW(check_writable(folder_), core::EnvironmentError);
}

}  // namespace
}  // namespace faultline::reports
