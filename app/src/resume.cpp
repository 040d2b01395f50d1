// SPDX-License-Identifier: Apache-2.0
#include "resume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "faultline/app/version.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"
#include "faultline/core/token.hpp"
#include "store_choice.hpp"
#include "whole_number.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

// Kinds of the journal's first lines.
constexpr const char* kBuild = "build";        ///< key: version, value: hash of the program
constexpr const char* kCommand = "command";    ///< value: "verify"
constexpr const char* kArgument = "argument";  ///< value: a word of the command line
constexpr const char* kVariant = "variant";    ///< value: of --variant all, this one
constexpr const char* kDecides = "decides";    ///< value: a line of deciding_lines()
constexpr const char* kBegun = "begun";        ///< the lines above are all there
constexpr const char* kRunsOn = "runs_on";     ///< value: backend, device, versions, tools
constexpr const char* kModule = "module";      ///< key: name, value: hash

/// Of this program, kernels included: 16 hexadecimal digits.
const std::string& build_hash() {
  static const std::string hash = [] {
    std::uint64_t sum = 0;
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::vector<std::uint64_t> block(1 << 15);
    while (file) {
      block.assign(block.size(), 0);
      file.read(reinterpret_cast<char*>(block.data()),
                static_cast<std::streamsize>(block.size() * sizeof block[0]));
      const auto words = (static_cast<std::size_t>(file.gcount()) + 7) / 8;
      for (std::size_t i = 0; i < words; ++i) sum = core::mix64(sum ^ block[i]);
    }
    return fmt::format("{:016x}", sum);
  }();
  return hash;
}

std::vector<std::string> values_of(const std::vector<store::JournalEntry>& entries,
                                   std::string_view kind) {
  std::vector<std::string> values;
  for (const store::JournalEntry& entry : entries) {
    if (entry.kind == kind) values.push_back(entry.value);
  }
  return values;
}

std::string value_of(const std::vector<store::JournalEntry>& entries, std::string_view kind) {
  const std::vector<std::string> values = values_of(entries, kind);
  return values.empty() ? "" : values.front();
}

bool is_begun(const std::vector<store::JournalEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const store::JournalEntry& entry) { return entry.kind == kBegun; });
}

/// Why `folder` has no run that could be continued.
[[noreturn]] void refuse_without_journal(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(store::Journal::path_in(folder), ignored)) {
    throw core::UsageError(fmt::format("--resume {}: the run there was cut off before anything was "
                                       "finished; begin it anew with --run",
                                       folder));
  }
  const fs::path record = fs::path(folder) / "run.json";
  if (!fs::exists(record, ignored)) {
    throw core::UsageError(fmt::format(
        "--resume {}: there is no run in this folder; give the folder of --run of a run that was "
        "cut off",
        folder));
  }
  std::ifstream file(record, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  bool interrupted = false;
  try {
    interrupted = core::record_from_json(text).evidence.interrupted;
  } catch (const core::UsageError&) {
    interrupted = true;
  }
  if (interrupted) {
    throw core::UsageError(fmt::format(
        "--resume {}: the run there was cut off and has no journal.tsv, which holds what it had "
        "finished; begin it anew with --run",
        folder));
  }
  throw core::UsageError(fmt::format("--resume {0}: the run there is finished; `faultline report "
                                     "{0}` shows it, --run begins it anew",
                                     folder));
}

/// The first line in which two command lines differ, as "--seed 1 instead of --seed 2".
std::string difference(const std::vector<std::string>& now, const std::vector<std::string>& then) {
  const auto lacks = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) == lines.end();
  };
  std::string here = "nothing", there = "nothing";
  for (const std::string& line : now) {
    if (here == "nothing" && lacks(then, line)) here = line;
  }
  for (const std::string& line : then) {
    if (there == "nothing" && lacks(now, line)) there = line;
  }
  return fmt::format("'{}' instead of '{}'", here, there);
}

/// A field of a line: what would end it becomes a space.
std::string one_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text + separator);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace

// A line a case, fields between tabs.
std::string cases_to_text(const std::vector<store::FailingCase>& cases) {
  std::string text;
  for (const store::FailingCase& one : cases) {
    text +=
        fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", one.id, core::encode(one.trial),
                    one_field(one.origin), one_field(one.command), one_field(one.finding),
                    one_field(one.reason), one.failed, one.trials, one_field(one.first_seen),
                    one_field(one.last_seen), one_field(one.unreadable));
  }
  return text;
}

std::vector<store::FailingCase> cases_from_text(const std::string& text) {
  std::vector<store::FailingCase> cases;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != 11) {
      throw core::UsageError(fmt::format("the stored cases of the run cannot be read (a line of {} "
                                         "fields, not 11): begin it anew with --run",
                                         fields.size()));
    }
    store::FailingCase& one = cases.emplace_back();
    one.id = whole_number(fields[0]).value_or(0);
    one.trial = core::decode_token(fields[1]);
    one.origin = fields[2];
    one.command = fields[3];
    one.finding = fields[4];
    one.reason = fields[5];
    one.failed = static_cast<std::uint64_t>(whole_number(fields[6]).value_or(0));
    one.trials = static_cast<std::uint64_t>(whole_number(fields[7]).value_or(0));
    one.first_seen = fields[8];
    one.last_seen = fields[9];
    one.unreadable = fields[10];
  }
  return cases;
}

bool holds_journal(const std::string& folder) { return is_begun(store::Journal::read(folder)); }

Options continued(const Options& given, const std::vector<std::string>& arguments) {
  const std::string& folder = given.resume_dir;
  const std::vector<store::JournalEntry> entries = store::Journal::read(folder);
  if (!is_begun(entries)) refuse_without_journal(folder);
  const std::vector<std::string> then = values_of(entries, kArgument);
  const std::string command = value_of(entries, kCommand);
  if (arguments.empty() || command != arguments.front()) {
    throw core::UsageError(fmt::format(
        "--resume {0}: the run there is one of `faultline {1}`; continue it with `faultline {1} "
        "--resume {0}`",
        folder, command));
  }
  Options options = options_of(then);
  if (const std::string variant = value_of(entries, kVariant); !variant.empty()) {
    options.variant = variant;
  }
  const auto flag = std::find_if(arguments.begin(), arguments.end(), is_deciding);
  const bool line_given = !given.words.empty() || flag != arguments.end();
  if (given.words.empty() && !options.words.empty() && line_given) {
    throw core::UsageError(fmt::format(
        "--resume {}: {} decides results, and those of the run there are decided: beside --resume "
        "stand reports, --budget and what is printed alone, or the whole command line: faultline "
        "{}",
        folder, flag->substr(0, flag->find('=')), fmt::join(then, " ")));
  }
  if (line_given && deciding_lines(given) != deciding_lines(options)) {
    throw core::UsageError(fmt::format(
        "--resume {}: the run there was begun as `faultline {}`, and this is another command line "
        "({}); leave it out, or begin anew with --run",
        folder, fmt::join(then, " "), difference(deciding_lines(given), deciding_lines(options))));
  }
  options.run_dir = options.resume_dir = folder;
  options.reports = given.reports;
  options.budget_s = given.budget_s;
  options.fail_on_warning = options.fail_on_warning || given.fail_on_warning;
  options.quiet = given.quiet;
  options.verbosity = given.verbosity;
  options.color = given.color;
  options.width = given.width;
  if (const std::string store = value_of(entries, kStoredRun); !store.empty()) {
    options.store = store;
  }
  if (is_store_given(given)) options.store = given.store;
  return options;
}

std::unique_ptr<store::Journal> open_journal(const Context& context, const char* command) {
  const Options& options = context.options;
  if (options.run_dir.empty()) return nullptr;
  const std::string build = build_hash();
  const std::vector<std::string> decides = deciding_lines(options);
  if (options.resume_dir.empty()) {
    auto journal = std::make_unique<store::Journal>(options.run_dir, store::Journal::Start::anew);
    std::vector<store::JournalEntry> head{{kBuild, kVersion, build}, {kCommand, "", command}};
    for (const std::string& argument : context.arguments) head.push_back({kArgument, "", argument});
    if (!options.variant.empty()) head.push_back({kVariant, "", options.variant});
    for (const std::string& line : decides) head.push_back({kDecides, "", line});
    head.push_back({kBegun, "", ""});
    try {
      for (const store::JournalEntry& entry : head) journal->append(entry);
    } catch (const core::EnvironmentError& error) {
      // Without its head no result of it could be used.
      fmt::print(stderr, "faultline: warning: {}\n", error.what());
      journal->finish();
      return nullptr;
    }
    return journal;
  }
  auto journal = std::make_unique<store::Journal>(options.run_dir, store::Journal::Start::resumed);
  const std::vector<store::JournalEntry>& entries = journal->entries();
  const auto made_by = std::find_if(entries.begin(), entries.end(),
                                    [](const auto& entry) { return entry.kind == kBuild; });
  if (made_by == entries.end() || made_by->key != kVersion || made_by->value != build) {
    const bool known = made_by != entries.end();
    throw core::UsageError(fmt::format(
        "--resume {}: the run there was begun by another build of faultline ({} {}; this is {} "
        "{}), and results of two builds do not mix: begin it anew with --run",
        options.run_dir, known ? made_by->key : "unknown", known ? made_by->value : "", kVersion,
        build));
  }
  const std::vector<std::string> then = values_of(entries, kDecides);
  if (then != decides) {
    throw core::UsageError(
        fmt::format("--resume {}: the run there was begun with another command line ({}): begin "
                    "it anew with --run",
                    options.run_dir, difference(decides, then)));
  }
  return journal;
}

std::vector<std::string> arguments_of(const store::Journal& journal) {
  return values_of(journal.entries(), kArgument);
}

std::string resumed_line(const store::Journal& journal) {
  return fmt::format("faultline {} (resumed)", fmt::join(arguments_of(journal), " "));
}

void identify_journal(store::Journal& journal, const core::RunRecord& record,
                      const std::string& tools) {
  const core::BackendInfo& info = record.provenance.backend;
  std::string runs_on = fmt::format("{}: {}", info.name, info.device);
  if (!info.driver.empty()) runs_on += ", driver " + info.driver;
  if (!info.runtime.empty()) runs_on += ", runtime " + info.runtime;
  if (!tools.empty()) runs_on += ", " + tools;
  const std::string then = value_of(journal.entries(), kRunsOn);
  if (then.empty()) {
    // This line says that the others are there.
    for (const auto& [name, hash] : record.module_hashes) journal.append({kModule, name, hash});
    journal.append({kRunsOn, "", runs_on});
    return;
  }
  if (then != runs_on) {
    throw core::UsageError(fmt::format("{}: the run was begun on {}, and this is {}: resume it "
                                       "there, or begin it anew with --run",
                                       journal.path(), then, runs_on));
  }
  for (const store::JournalEntry& entry : journal.entries()) {
    if (entry.kind != kModule) continue;
    const std::pair<std::string, std::string> module{entry.key, entry.value};
    const auto& now = record.module_hashes;
    if (std::find(now.begin(), now.end(), module) != now.end()) continue;
    throw core::UsageError(
        fmt::format("{}: the kernels' code is not what the run was begun with ({} was {}): begin "
                    "it anew with --run",
                    journal.path(), entry.key, entry.value));
  }
}

}  // namespace faultline::app
