// SPDX-License-Identifier: Apache-2.0
// What the command line refuses before anything runs, and what an old record becomes.
#include <faultline/app/main.hpp>
#include <faultline/core/errors.hpp>
#include <faultline/core/generator.hpp>
#include <faultline/core/stop.hpp>
#include <faultline/reference/gemv.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "files.hpp"
#include "layout.hpp"
#include "memory.hpp"
#include "operations.hpp"
#include "options.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Finished {
  int code = 0;
  std::string out, err;
};

class CommandLine : public ::testing::Test {
 protected:
  /// `faultline WORDS...` of a build without subjects.
  static Finished run(std::vector<std::string> words) {
    words.insert(words.begin(), "faultline");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Finished finished;
    finished.code = app::run(static_cast<int>(argv.size()), argv.data(), {});
    finished.out = testing::internal::GetCapturedStdout();
    finished.err = testing::internal::GetCapturedStderr();
    return finished;
  }
  static void refuse(const std::vector<std::string>& words, const std::string& message,
                     int code = 2) {
    const Finished finished = run(words);
    EXPECT_EQ(finished.code, code) << finished.err;
    EXPECT_THAT(finished.err, AllOf(StartsWith("faultline: "), HasSubstr(message)));
    EXPECT_EQ(finished.out, "");
  }
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string text_of(std::string_view name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryFolder folder_;
};

TEST_F(CommandLine, EmptyValuesAreRefused) {
  for (const char* flag :
       {"--run", "--json", "--html", "--variant", "--config", "--seed", "--sweep", "--data",
        "--budget", "--timeout", "--trials", "--backend", "--width", "--color", "--fail-on"}) {
    refuse({"verify", "gemv", flag, ""}, std::string("the argument after '") + flag + "' is empty");
    refuse({"verify", "gemv", flag, "  "}, std::string("or leave ") + flag + " out");
    refuse({"verify", "gemv", std::string(flag) + "="}, std::string(flag) + "= has an empty value");
  }
  refuse({"verify", ""}, "the argument after 'verify' is empty");
}

TEST_F(CommandLine, OutputsThatWouldMixAreRefused) {
  refuse({"verify", "gemv", "--json", "-", "--html", "-"}, "both write to standard output");
  refuse({"verify", "gemv", "--json", "/dev/stdout", "--html", "-"},
         "both write to standard output");
  const std::string file = path("r"), link = path("link"), dotted = path("./r");
  std::filesystem::create_symlink("r", link);
  const auto twice = [&](const std::string& a, const std::string& b) {
    refuse({"verify", "gemv", "--json", a, "--html", b}, "one would replace the other");
  };
  twice(file, file);
  twice(file, dotted);
  twice(file, link);  // also before the file is there
  test::write_bytes(file, "old");
  twice(file, link);
  std::filesystem::create_hard_link(file, path("hard"));
  twice(file, path("hard"));
  refuse({"verify", "gemv", "--run", path("d"), "--html", path("d/run.json")},
         "one would replace the other");
  refuse({"race", path("k.ptx"), "--entry", "k", "--json", path("./k.ptx")}, "the PTX file");
  refuse({"verify", "gemv", "--json", "a", "--json", "b"}, "--json is given more than once");
  EXPECT_EQ(text_of("r"), "old");
}

TEST_F(CommandLine, LinesFitTheWidth) {
  EXPECT_EQ(wrapped("  name  a line of words that is\nshort", 32),
            "  name  a line of words that is\nshort");
  EXPECT_EQ(wrapped("  name    one two three four five six seven\n", 36),
            "  name    one two three four five\n          six seven\n");
  EXPECT_EQ(wrapped("one two three", 9), "one two\n    three");
  const std::string command = "  faultline replay " + std::string(80, 'x');
  EXPECT_EQ(wrapped(command, 60), command);
  const auto fits = [](const std::string& text, std::size_t width) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.size() > width) return false;
    }
    return true;
  };
  const Finished doctor = run({"doctor", "--width", "60"});
  EXPECT_EQ(doctor.code, 0);
  EXPECT_TRUE(fits(doctor.out, 60)) << doctor.out;
  EXPECT_TRUE(fits(run({"list", "--width", "60"}).out, 60));
}

TEST_F(CommandLine, NumbersAreDecimalAndWhole) {
  for (const char* text : {"-1", "0x10", "1e3", "1.5", "18446744073709551616", "1 2", "+1"}) {
    refuse({"verify", "gemv", "--seed", text},
           std::string("--seed '") + text + "': a whole number from 0 to");
  }
  refuse({"verify", "gemv", "--budget", "-1s"}, "is not a duration");
}

TEST_F(CommandLine, WithoutFollowUpsIsPartOfWhatARunIs) {
  std::vector<std::string> words{"faultline", "stress", "gemv", "--no-follow-ups"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const app::Parsed parsed = app::parse_command_line(static_cast<int>(argv.size()), argv.data());
  EXPECT_TRUE(parsed.options.no_follow_ups);
  EXPECT_THAT(app::deciding_lines(parsed.options), testing::Contains("--no-follow-ups true"));
  EXPECT_TRUE(app::is_deciding("--no-follow-ups"));
}

TEST_F(CommandLine, AUsageErrorSetsAnOldRecordAside) {
  const std::string old = "the record of an earlier run: pass";
  const auto set_aside = [&](std::vector<std::string> words, const std::string& message) {
    test::write_bytes(folder_ / "run.json", old);
    std::filesystem::remove(folder_ / "run.previous.json");
    refuse(words, message);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run.json")) << message;
    EXPECT_EQ(text_of("run.previous.json"), old);
  };
  set_aside({"verify", "gemv", "--run", path(""), "--bogus"}, "is now run.previous.json");
  set_aside({"verify", "gemv", "--run=" + path(""), "--seed", "x"}, "nothing ran");
  set_aside({"verify", "no_such_subject", "--run", path("")}, "is now run.previous.json");
  set_aside({"verify", "gemv", "--run", path(""), "--data", "x"}, "unknown data mode");
  // A second error loses nothing.
  refuse({"verify", "no_such_subject", "--run", path("")}, "unknown subject");
  EXPECT_EQ(text_of("run.previous.json"), old);
}

TEST_F(CommandLine, ARunReplacesARecordAndKeepsThePrevious) {
  test::write_bytes(folder_ / "run.json", "earlier");
  test::write_bytes(folder_ / "k.ptx", ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                       ".visible .entry k()\n{\n ret;\n}\n");
  EXPECT_EQ(run({"race", path("k.ptx"), "--entry", "k", "--run", path("")}).code, 0);
  EXPECT_EQ(text_of("run.previous.json"), "earlier");
  EXPECT_THAT(text_of("run.json"), HasSubstr("\"outcome\": \"pass\""));
}

TEST_F(CommandLine, RaceNamesTheKernelsOfAFile) {
  test::write_bytes(folder_ / "k.ptx", ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                       ".visible .entry first(.param .u64 a)\n{\n ret;\n}\n"
                                       ".visible .entry second()\n{\n ret;\n}\n");
  refuse({"race", path("k.ptx"), "--entry", "nope"},
         "has no kernel 'nope': --entry takes one of first, second");
  refuse({"race", path("k.ptx"), "--entry", "secnd"}, "did you mean 'second'?");
  refuse({"race", path("k.ptx"), "--entry", "first"},
         "takes 1 argument, and 0 are given: repeat --arg");
  refuse({"race", path("k.ptx"), "--entry", "second", "n=8"}, "race FILE.ptx takes --entry");
  refuse({"race", "gemv", "--entry", "second"}, "'gemv' is taken for a subject");
  refuse({"race", "gemv", "--schedules", "2", "--trials", "2"}, "give one");
  refuse({"replay", "fl1.x", "--seed", "2"}, "a token holds the variant");
  ASSERT_EQ(mkfifo(path("p.ptx").c_str(), 0600), 0);
  refuse({"race", path("p.ptx"), "--entry", "k"}, "p.ptx: is a pipe (FIFO)");
  std::filesystem::create_directory(folder_ / "d.ptx");
  refuse({"race", path("d.ptx"), "--entry", "k"}, "d.ptx: is a folder");
  refuse({"race", path("absent.ptx"), "--entry", "k"}, "No such file", 3);
}

constexpr const char* kEmptyKernel =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n";

TEST_F(CommandLine, WhereItWritesIsRefusedByTheNameOfTheFlag) {
  const std::string file = path("k.ptx"), pipe = path("pipe");
  test::write_bytes(file, kEmptyKernel);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  refuse({"race", file, "--entry", "k", "--json", pipe}, "it is a named pipe (FIFO)", 3);
  refuse({"race", file, "--entry", "k", "--run", "-"}, "--run -: a run is kept in a folder");
  const Finished bad = run({"race", file, "--entry", "k", "--run", "/dev/null/x"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("Give --run a folder"), Not(HasSubstr(" - "))));
  refuse({"verify", "gemv", "--run", path("d"), "--csv", path("d/journal.tsv")},
         "one would replace the other");
  refuse({"verify", "gemv", "--width", "59"}, "a whole number from 60 to 1000");
}

TEST_F(CommandLine, ACaseIsATokenOrALineAndAnArmHasAName) {
  for (const char* plan : {",", "none,", ",none", "none,,flush_l2"}) {
    refuse({"stress", "gemv", "--plan", plan}, "the name of an arm is empty");
  }
  for (const char* command : {"explain", "reduce", "replay"}) {
    refuse({command, "fl1.x", "k=5"}, "a token is a whole case: leave 'k=5' out");
  }
  for (const char* command : {"explain", "reduce"}) {
    refuse({command, "faultline stress gemv n=1"}, "a `faultline stress` line is a whole run");
    refuse({command, "race", "gemv"}, "give the token of one of its failures");
    const Finished quoted =
        run({command, "faultline verify gemv n=1 --json r.json --run d --budget 5s"});
    EXPECT_EQ(quoted.code, 2);
    EXPECT_THAT(quoted.err, AllOf(HasSubstr("not used of the quoted line: --json r.json, --run d"),
                                  HasSubstr("unknown subject")));
    refuse({command, "fl1.x", "--store", path("absent.db")}, "does not exist", 3);
  }
}

TEST_F(CommandLine, RunsThatAreNotThereAreAllNamed) {
  const std::string file = path("k.ptx"), store = path("s.db");
  test::write_bytes(file, kEmptyKernel);
  EXPECT_EQ(run({"race", file, "--entry", "k", "--run", path("d"), "--store", store}).code, 0);
  const Finished both = run({"compare", path("one"), path("two")});
  EXPECT_EQ(both.code, 3);
  EXPECT_THAT(both.err, AllOf(HasSubstr("/one: cannot be read"), HasSubstr("/two: cannot be")));
  refuse({"compare", path("d"), path("two")}, "/two: cannot be read", 3);
  refuse({"report", path("d"), "--store", path("absent.db")}, "does not exist", 3);
  refuse({"compare", path("d"), path("d"), "--store", path("absent.db")}, "does not exist", 3);
  for (const char* number : {"99999999999999999999", "last-99999999999999999999", "last-1"}) {
    refuse({"report", number, "--store", store}, "holds 1 run; `faultline report --store ");
  }
  refuse({"report", "--store", store, "--", "-1"}, "holds 1 run");
  refuse({"report", "9223372036854775807", "--store", store}, "has no run 9223372036854775807");
}

core::TrialPlan plan_of(core::Shape input, core::Shape output) {
  core::TrialPlan plan;
  plan.problem = {"toy", {}};
  plan.buffers.push_back({.name = "a", .dtype = core::Dtype::f16, .shape = std::move(input)});
  plan.buffers.push_back({.name = "y",
                          .dtype = core::Dtype::f32,
                          .shape = std::move(output),
                          .role = core::BufferRole::output});
  return plan;
}

TEST(Memory, EstimateCountsEveryBufferAndReference) {
  const core::TrialPlan plan = plan_of({10, 100}, {10});
  const MemoryEstimate device = estimate_memory(plan, false, core::RaceMode::off);
  EXPECT_EQ(device.inputs, 2000u);
  EXPECT_EQ(device.outputs, 40u);
  EXPECT_EQ(device.references, 160u);
  EXPECT_EQ(device.total(), 2200u);
  const MemoryEstimate model = estimate_memory(plan, true, core::RaceMode::off);
  EXPECT_EQ(model.total(), 2200u + 2040u);
  EXPECT_GT(estimate_memory(plan, true, core::RaceMode::strict).race, 10u * 2040u);
}

TEST(Memory, EstimateSaturates) {
  const core::TrialPlan plan = plan_of({1ll << 31, 1ll << 30}, {1ll << 31, 1ll << 30});
  EXPECT_EQ(estimate_memory(plan, true, core::RaceMode::strict).total(), ~0ull);
}

TEST(Memory, TooLargeAProblemIsRefusedWithTheEstimate) {
  const core::TrialPlan plan = plan_of({1 << 20, 1 << 10}, {1 << 20});
  const core::BackendInfo model{.name = "simulator", .is_model = true};
  require_memory(plan, model, core::RaceMode::off, 1ull << 40);
  require_memory(plan, model, core::RaceMode::strict, std::nullopt);
  try {
    require_memory(plan, model, core::RaceMode::strict, 8ull << 30);
    FAIL() << "nothing was refused";
  } catch (const core::EnvironmentError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::error);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("out of memory"), HasSubstr("inputs 2.0 GiB"),
                                    HasSubstr("8.0 GiB can be had here"),
                                    HasSubstr("--no-race, which needs about 4.0 GiB")));
  }
}

TEST(Memory, AvailableIsTheLeastOfMachineAndGroups) {
  const test::TemporaryFolder root;
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / file).parent_path());
    test::write_bytes(root / file, text);
  };
  EXPECT_EQ(available_memory(root.path()), std::nullopt);
  put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(available_memory(root.path()), 8000u * 1024);
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("sys/fs/cgroup/outer/inner/memory.current", "5\n");
  EXPECT_EQ(available_memory(root.path()), 8000u * 1024);
  put("sys/fs/cgroup/outer/memory.max", "5000\n");
  put("sys/fs/cgroup/outer/memory.current", "2000\n");
  EXPECT_EQ(available_memory(root.path()), 3000u);
  put("sys/fs/cgroup/outer/memory.stat", "anon 100\ninactive_file 1500\n");
  EXPECT_EQ(available_memory(root.path()), 4500u);
  put("proc/self/cgroup", "4:memory:/group\n0::/\n");
  put("sys/fs/cgroup/memory/group/memory.limit_in_bytes", "700\n");
  put("sys/fs/cgroup/memory/group/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(available_memory(root.path()), 0u);
}

TEST(Memory, BytesAreReadable) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(~0ull), "16.0 EiB");
}

TEST(Bench, CountsTheOperationsOfProductsOnly) {
  core::Assignment product;
  for (const char* extent : {"m", "n", "k"}) {
    EXPECT_EQ(product_operations(product), 0.0);  // a transpose has no k, split-k gemv no n
    product.set(extent, std::int64_t{16});
  }
  EXPECT_EQ(product_operations(product), 2.0 * 16 * 16 * 16);
}

TEST(Stopping, InputsAndReferencesStopInTheMiddle) {
  std::atomic<bool> stop{false};
  core::Tensor a(core::Dtype::f32, {64, 32}), x(core::Dtype::f32, {32});
  const core::StopScope scope(&stop);
  for (const auto distribution : {core::Distribution::normal, core::Distribution::uniform}) {
    core::generate_input({distribution, 0.0f, 1.0f}, 1, 0, a);
  }
  reference::gemv(a, x, {});
  stop = true;
  EXPECT_THROW(core::generate_input({core::Distribution::normal, 0.0f, 1.0f}, 1, 0, a),
               core::Stopped);
  EXPECT_THROW(reference::gemv(a, x, {}), core::Stopped);
  const core::StopScope nothing_stops(nullptr);
  reference::gemv(a, x, {});
}

TEST(Stopping, ABudgetEndsWithoutAnyProgress) {
  Options options;
  options.budget_s = 0.05;
  options.quiet = true;
  const kernels::SubjectRegistry registry;
  const std::atomic<bool> interrupt{false};
  const Context context{options, registry, interrupt, "faultline"};
  Work work(context);
  const std::atomic<bool>* stop = work.run_options().stop;
  EXPECT_FALSE(*stop);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!*stop && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(*stop);
}

}  // namespace
}  // namespace faultline::app
