// SPDX-License-Identifier: Apache-2.0
#include "observe/access_statistics.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>

namespace faultline::simulator {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBanks = 32;  // of 4 bytes

// What one request names, without a heap allocation: at most 16 bytes a lane, as words or sectors.
class Values {
 public:
  void add(std::uint64_t value) {
    if (size_ == values_.size()) throw std::logic_error("a request of more than 16 bytes a lane");
    sorted_ = sorted_ && (size_ == 0 || values_[size_ - 1] <= value);
    values_[size_++] = value;
  }
  // Each value once, in order.
  std::span<const std::uint64_t> distinct() {
    const auto begin = values_.begin(), end = begin + static_cast<std::ptrdiff_t>(size_);
    if (!sorted_) std::sort(begin, end);
    return {begin, std::unique(begin, end)};
  }

 private:
  std::array<std::uint64_t, kLanes * 4> values_;  // lanes x 16 bytes in words of 4
  std::size_t size_ = 0;
  bool sorted_ = true;  // as the addresses of most requests are
};

// Passes over the banks that one request takes: in every group of lanes that fills 128 bytes, the
// largest number of different words in one bank.
std::uint64_t bank_passes(const AccessEvent& event) {
  const std::uint32_t lanes_per_group = event.bytes <= 4 ? 32 : event.bytes == 8 ? 16 : 8;
  std::uint64_t passes = 0;
  for (std::uint32_t first = 0; first < kLanes; first += lanes_per_group) {
    Values words;
    for (std::uint32_t lane = first; lane < first + lanes_per_group; ++lane) {
      if (!((event.mask >> lane) & 1)) continue;
      for (std::uint64_t b = 0; b < event.bytes; b += 4) words.add((event.addresses[lane] + b) / 4);
    }
    std::uint64_t per_bank[kBanks] = {};
    for (const std::uint64_t word : words.distinct()) ++per_bank[word % kBanks];
    passes += *std::max_element(per_bank, per_bank + kBanks);
  }
  return passes;
}

}  // namespace

std::vector<core::SourceLocation> source_chain(const Program& program, std::uint32_t site) {
  std::vector<core::SourceLocation> chain;
  int location = program.sites[site].location;
  for (int depth = 0; location >= 0 && depth < 16; ++depth) {
    const ptx::Location& at = program.module->source.locations[static_cast<std::size_t>(location)];
    chain.push_back({program.module->file_name(at.file), at.line, {}});
    location = at.parent;
  }
  if (chain.empty()) {
    const int line =
        program.sites[site].statement != nullptr ? program.sites[site].statement->ptx_line : 0;
    chain.push_back({program.module->source.name, line, {}});
  }
  chain.back().function = program.entry;
  return chain;
}

core::SourceLocation own_location(const Program& program, std::uint32_t site) {
  const std::vector<core::SourceLocation> chain = source_chain(program, site);
  const auto& known = program.module->known_sources;
  for (const core::SourceLocation& at : chain) {
    if (std::find(known.begin(), known.end(), at.file) != known.end()) return at;
  }
  return chain.front();
}

void AccessStatisticsCollector::begin(std::shared_ptr<const Program> program) {
  program_ = std::move(program);
  by_site_.clear();
}

void AccessStatisticsCollector::on_access(const AccessEvent& event) {
  if (event.kind == AccessKind::barrier_use || event.kind == AccessKind::barrier_end) return;
  Counts& counts = by_site_[event.instruction->site];
  ++counts.requests;
  counts.write = event.kind != AccessKind::read;
  counts.shared = event.owner != nullptr;
  const auto active = static_cast<std::uint64_t>(__builtin_popcount(event.mask));
  Values starts;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((event.mask >> lane) & 1) starts.add(event.addresses[lane]);
  }
  const std::uint64_t different = starts.distinct().size();
  counts.lanes += active;
  counts.distinct += different;
  if (counts.shared) {
    counts.sectors += bank_passes(event);
    counts.ideal += std::max<std::uint64_t>(1, (active * event.bytes + 127) / 128);
  } else {
    Values sectors;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if (!((event.mask >> lane) & 1)) continue;
      for (std::uint64_t s = event.addresses[lane] / kSectorBytes;
           s <= (event.addresses[lane] + event.bytes - 1) / kSectorBytes; ++s)
        sectors.add(s);
    }
    counts.sectors += sectors.distinct().size();
    // Lanes that read the same bytes need them once.
    counts.ideal +=
        std::max<std::uint64_t>(1, (different * event.bytes + kSectorBytes - 1) / kSectorBytes);
  }
  // Most requests have one stride between all lanes: counted in runs.
  std::int64_t stride = 0;
  std::uint64_t times = 0;
  for (std::uint32_t lane = 0; lane + 1 < kLanes; ++lane) {
    if (((event.mask >> lane) & 3) != 3) continue;
    const auto next = static_cast<std::int64_t>(event.addresses[lane + 1] - event.addresses[lane]);
    if (times > 0 && next != stride) {
      counts.strides[stride] += times;
      times = 0;
    }
    stride = next;
    ++times;
  }
  if (times > 0) counts.strides[stride] += times;
}

std::vector<core::AccessStatistics> AccessStatisticsCollector::finish() {
  std::vector<core::AccessStatistics> result;
  for (const auto& [site, counts] : by_site_) {
    core::AccessStatistics s;
    s.where = own_location(*program_, site);
    s.instruction = std::string(program_->opcode_at(site));
    s.space = counts.shared ? core::MemorySpace::shared : core::MemorySpace::global;
    s.is_write = counts.write;
    s.requests = counts.requests;
    s.sectors = counts.sectors;
    s.ideal_sectors = counts.ideal;
    s.lanes = counts.lanes;
    s.distinct_addresses = counts.distinct;
    std::uint64_t most = 0;
    for (const auto& [stride, times] : counts.strides) {
      if (times > most) {
        most = times;
        s.lane_stride_bytes = stride;
      }
    }
    result.push_back(std::move(s));
  }
  return result;
}

}  // namespace faultline::simulator
