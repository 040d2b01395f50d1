// SPDX-License-Identifier: Apache-2.0
#include "run_folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "faultline/core/errors.hpp"
#include "faultline/store/journal.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

bool set_aside_in(const fs::path& folder) {
  const fs::path record = folder / "run.json";
  std::error_code error;
  if (!fs::exists(fs::symlink_status(record, error))) return false;
  fs::rename(record, folder / "run.previous.json", error);
  if (error) {
    throw core::EnvironmentError(
        fmt::format("{} is of an earlier run and cannot be renamed to run.previous.json ({}): "
                    "give --run another folder",
                    record.string(), error.message()));
  }
  return true;
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) folders.push_back(entry->path().string());
  }
  return folders;
}

}  // namespace

std::string run_folder_of(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") break;
    if (argument.starts_with("--run=")) return std::string(argument.substr(6));
    if (argument == "--run" && i + 1 < argc) return argv[i + 1];
  }
  return {};
}

bool set_old_record_aside(const std::string& folder, bool and_below) {
  const std::vector<std::string> below =
      and_below ? folders_in(folder) : std::vector<std::string>();
  // A run that is not over keeps all its files.
  store::Journal::require_free(folder);
  for (const std::string& one : below) store::Journal::require_free(one);
  bool any = set_aside_in(folder);
  for (const std::string& one : below) {
    // Nor may what an earlier run had finished be taken for this one's.
    store::Journal::set_aside(one);
    any = set_aside_in(one) || any;
  }
  return any;
}

}  // namespace faultline::app
