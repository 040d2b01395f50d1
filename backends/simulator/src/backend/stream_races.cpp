// SPDX-License-Identifier: Apache-2.0
#include "backend/stream_races.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "observe/access_statistics.hpp"

namespace faultline::simulator {
namespace {

struct Conflict {
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;  // offsets in the allocation
  std::uint64_t cells = 0;
  std::uint32_t first_site = 0, second_site = 0;
};

std::uint64_t lowest(unsigned bits) { return static_cast<std::uint64_t>(__builtin_ctz(bits)); }
std::uint64_t highest(unsigned bits) {
  return static_cast<std::uint64_t>(31 - __builtin_clz(bits));
}

core::RaceKind kind_of(Touch first, Touch second) {
  if (!is_write(first)) return core::RaceKind::write_after_read;
  return is_write(second) ? core::RaceKind::write_after_write : core::RaceKind::read_after_write;
}

class Pair {
 public:
  Pair(const core::Program& program, const OperationOrder& order, const TouchedBySteps& touched,
       std::uint32_t a, std::uint32_t b)
      : program_(program),
        first_(order.steps()[a]),
        second_(order.steps()[b]),
        a_(*touched.at(a)),
        b_(*touched.at(b)) {}

  void find(std::vector<core::RaceReport>& races) {
    for (const auto& [base, mine] : a_.allocations()) {
      const auto other = b_.allocations().find(base);
      if (other == b_.allocations().end()) continue;
      conflicts_.clear();
      for (const auto& [number, page] : mine.pages) {
        const auto same = other->second.pages.find(number);
        if (same != other->second.pages.end()) compare(number, *page, *same->second);
      }
      for (const auto& [key, conflict] : conflicts_) {
        races.push_back(report(mine.name, std::get<0>(key), conflict));
      }
    }
  }

 private:
  // Source positions stand for instructions: an unrolled loop has many on one line.
  static std::uint32_t group_of(const TouchedMemory& touched, std::uint32_t site) {
    if (touched.program() == nullptr) return 0;
    const int location = touched.program()->sites[site].location;
    return location < 0 ? 0x80000000u | site : static_cast<std::uint32_t>(location);
  }

  void compare(std::uint64_t number, const TouchedPage& mine, const TouchedPage& other) {
    for (std::size_t c = 0; c < mine.size(); ++c) {
      for (std::size_t i = 0; i < kTouches; ++i) {
        if (mine[c].bytes[i] == 0) continue;
        for (std::size_t j = 0; j < kTouches; ++j) {
          const auto first = static_cast<Touch>(i), second = static_cast<Touch>(j);
          if (!is_write(first) && !is_write(second)) continue;
          if (is_strong(first) && is_strong(second)) continue;
          const unsigned common = mine[c].bytes[i] & other[c].bytes[j];
          if (common == 0) continue;
          const std::uint32_t first_site = mine[c].site[i], second_site = other[c].site[j];
          const auto [it, fresh] = conflicts_.try_emplace(
              {kind_of(first, second), group_of(a_, first_site), group_of(b_, second_site)});
          Conflict& conflict = it->second;
          if (fresh) {
            conflict.first_site = first_site;
            conflict.second_site = second_site;
          }
          const std::uint64_t offset = number * kTouchedPageBytes + c * kTouchedCellBytes;
          conflict.begin = std::min(conflict.begin, offset + lowest(common));
          conflict.end = std::max(conflict.end, offset + highest(common) + 1);
          ++conflict.cells;
        }
      }
    }
  }

  std::uint32_t device_of(const Step& step) const {
    const auto device = program_.devices.find(step.stream);
    return device == program_.devices.end() ? 0 : device->second;
  }

  // "operation 3, stream 1"
  std::string actor_text(const Step& step) const {
    std::string text = fmt::format("operation {}, {}stream {}", step.operation->id,
                                   step.replayed ? "replayed in " : "", step.stream);
    if (!program_.devices.empty()) text += fmt::format(" of device {}", device_of(step));
    return text;
  }

  static core::AccessSite site(const Step& step, const TouchedMemory& touched,
                               std::uint32_t instruction, bool writes) {
    core::AccessSite result;
    result.is_write = writes;
    if (const auto* launch = std::get_if<core::LaunchOperation>(&step.operation->what)) {
      result.kernel = launch->entry;
      result.instruction = std::string(touched.program()->opcode_at(instruction));
      result.where = source_chain(*touched.program(), instruction);
      result.async_proxy = result.instruction.starts_with("cp.async.bulk") ||
                           result.instruction.starts_with("cp.reduce.async.bulk");
    } else if (const auto* copy = std::get_if<core::CopyOperation>(&step.operation->what)) {
      result.instruction = fmt::format("a copy of {} bytes", copy->bytes);
    } else if (const auto* fill = std::get_if<core::FillOperation>(&step.operation->what)) {
      result.instruction = fmt::format("a fill of {} bytes", fill->bytes);
    }
    return result;
  }

  core::RaceReport report(const std::string& buffer, core::RaceKind kind,
                          const Conflict& conflict) const {
    core::RaceReport race;
    race.kind = kind;
    race.space = core::MemorySpace::global;
    race.buffer = buffer;
    race.byte_begin = conflict.begin;
    race.byte_end = conflict.end;
    race.first = site(first_, a_, conflict.first_site, kind != core::RaceKind::write_after_read);
    race.second = site(second_, b_, conflict.second_site, kind != core::RaceKind::read_after_write);
    race.first.actor = actor_text(first_);
    race.second.actor = actor_text(second_);
    race.cross_launch = true;
    race.cross_device = device_of(first_) != device_of(second_);
    race.count = conflict.cells;
    race.missing_edge = fmt::format(
        "nothing orders {} ({}) before {} ({}): no event is recorded behind the one and waited for "
        "ahead of the other",
        name(race.first), race.first.actor, name(race.second), race.second.actor);
    return race;
  }
  static std::string name(const core::AccessSite& site) {
    return site.kernel.empty() ? site.instruction : "the launch of " + site.kernel;
  }

  const core::Program& program_;
  const Step &first_, &second_;
  const TouchedMemory &a_, &b_;
  std::map<std::tuple<core::RaceKind, std::uint32_t, std::uint32_t>, Conflict> conflicts_;
};

}  // namespace

std::vector<core::RaceReport> find_stream_races(const core::Program& program,
                                                const OperationOrder& order,
                                                const TouchedBySteps& touched) {
  std::vector<core::RaceReport> races;
  for (auto a = touched.begin(); a != touched.end(); ++a) {
    for (auto b = std::next(a); b != touched.end(); ++b) {
      if (!order.ordered(a->first, b->first))
        Pair(program, order, touched, a->first, b->first).find(races);
    }
  }
  return races;
}

}  // namespace faultline::simulator
