// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "faultline/core/errors.hpp"
#include "faultline/simulator/simulator_backend.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t plus(std::uint64_t a, std::uint64_t b) { return a > kMost - b ? kMost : a + b; }
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kMost / b ? kMost : a * b;
}

/// The number behind `key` in a file of "key value" lines, or the file's only number with an empty
/// key. "max" and what is not there: nothing.
std::optional<std::uint64_t> number_in(const fs::path& path, std::string_view key = {}) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    std::uint64_t value = 0;
    if (words >> value) return value;
    return std::nullopt;
  }
  return std::nullopt;
}

/// What the control group in `folder` still allows. Pages of files that can be dropped are counted
/// as used by the kernel, and are not.
std::optional<std::uint64_t> left_in_group(const fs::path& folder, const char* limit_file,
                                           const char* used_file, std::string_view cache_key) {
  const auto limit = number_in(folder / limit_file), used = number_in(folder / used_file);
  if (!limit || !used) return std::nullopt;
  const std::uint64_t cache = number_in(folder / "memory.stat", cache_key).value_or(0);
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

/// Limits of the group that /proc/self/cgroup names and of every group above it.
std::optional<std::uint64_t> left_in_groups(const fs::path& root) {
  std::optional<std::uint64_t> least;
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "4:memory:/path" (version 1), "0::/path" (version 2)
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers != "memory") continue;
    const fs::path top = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      const auto left =
          unified ? left_in_group(top / group, "memory.max", "memory.current", "inactive_file")
                  : left_in_group(top / group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file");
      if (left) least = std::min(least.value_or(kMost), *left);
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return least;
}

/// What `ulimit -v` leaves.
std::optional<std::uint64_t> left_of_address_space(const fs::path& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::uint64_t used =
      times(number_in(root / "proc/self/status", "VmSize:").value_or(0), 1024);
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, used);
}

}  // namespace

std::uint64_t MemoryEstimate::total() const {
  return plus(plus(plus(inputs, outputs), plus(references, simulated)), race);
}

std::string MemoryEstimate::to_string() const {
  std::string text;
  for (const auto& [what, bytes] : {std::pair{"inputs", inputs},
                                    {"outputs", outputs},
                                    {"references in double", references},
                                    {"simulated device memory", simulated},
                                    {"race detection", race}}) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, bytes_text(bytes));
  }
  return text;
}

MemoryEstimate estimate_memory(const core::TrialPlan& plan, bool is_model, core::RaceMode race) {
  MemoryEstimate estimate;
  for (const core::BufferSpec& buffer : plan.buffers) {
    const auto elements = static_cast<std::uint64_t>(buffer.elements());
    const std::uint64_t element_bytes = core::size_of(buffer.dtype);
    const std::uint64_t bytes = times(elements, element_bytes);
    if (buffer.role == core::BufferRole::input) estimate.inputs = plus(estimate.inputs, bytes);
    if (buffer.role == core::BufferRole::output) {
      estimate.outputs = plus(estimate.outputs, bytes);
      estimate.references = plus(estimate.references, times(elements, 2 * sizeof(double)));
    }
    if (!is_model || buffer.sparse) continue;  // the simulator backs what is touched, a small part
    estimate.simulated = plus(estimate.simulated, bytes);
    if (race == core::RaceMode::off) continue;
    // A cell is as wide as the accesses, at most a word.
    const std::uint64_t cell_bytes =
        std::min<std::uint64_t>(element_bytes, simulator::kRaceCellBytes);
    estimate.race =
        plus(estimate.race, times(bytes / cell_bytes, simulator::kRaceStateBytesPerCell));
  }
  return estimate;
}

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  std::optional<std::uint64_t> least = number_in(root / "proc/meminfo", "MemAvailable:");
  if (least) least = times(*least, 1024);
  for (const auto& left : {left_in_groups(root), left_of_address_space(root)}) {
    if (left) least = std::min(least.value_or(kMost), *left);
  }
  return least;
}

void require_memory(const core::TrialPlan& plan, const core::BackendInfo& backend,
                    core::RaceMode race, std::optional<std::uint64_t> available) {
  const MemoryEstimate estimate = estimate_memory(plan, backend.is_model, race);
  if (!available || estimate.total() <= *available) return;
  std::string advice = "take a smaller problem";
  if (race != core::RaceMode::off) {
    const MemoryEstimate without = estimate_memory(plan, backend.is_model, core::RaceMode::off);
    if (without.total() <= *available && backend.is_model) {
      advice += fmt::format(", or --no-race, which needs about {}", bytes_text(without.total()));
    }
  }
  throw core::EnvironmentError(
      fmt::format("out of memory before it began: {} needs about {} ({}), and {} can be had here: "
                  "{}",
                  plan.problem.line(), bytes_text(estimate.total()), estimate.to_string(),
                  bytes_text(*available), advice));
}

void require_memory(const kernels::SubjectRegistry& registry, const core::TrialToken& trial,
                    const core::BackendInfo& backend) {
  require_memory(kernels::resolve(registry, trial.subject + "@" + trial.variant,
                                  core::parse_assignments(trial.problem),
                                  core::parse_assignments(trial.config))
                     .plan,
                 backend, trial.race);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace faultline::app
