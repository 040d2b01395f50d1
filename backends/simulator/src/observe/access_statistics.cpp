// SPDX-License-Identifier: Apache-2.0
#include "observe/access_statistics.hpp"

#include <algorithm>

namespace faultline::simulator {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBanks = 32;  // of 4 bytes

std::size_t distinct(std::vector<std::uint64_t>& values) {
  std::sort(values.begin(), values.end());
  return static_cast<std::size_t>(std::unique(values.begin(), values.end()) - values.begin());
}

// Passes over the banks that one request takes: in every group of lanes that fills 128 bytes, the
// largest number of different words in one bank.
std::uint64_t bank_passes(const AccessEvent& event) {
  const std::uint32_t lanes_per_group = event.bytes <= 4 ? 32 : event.bytes == 8 ? 16 : 8;
  std::uint64_t passes = 0;
  for (std::uint32_t first = 0; first < kLanes; first += lanes_per_group) {
    std::vector<std::uint64_t> words;
    for (std::uint32_t lane = first; lane < first + lanes_per_group; ++lane) {
      if (!((event.mask >> lane) & 1)) continue;
      for (std::uint64_t b = 0; b < event.bytes; b += 4)
        words.push_back((event.addresses[lane] + b) / 4);
    }
    const std::size_t count = distinct(words);
    std::uint64_t per_bank[kBanks] = {};
    for (std::size_t k = 0; k < count; ++k) ++per_bank[words[k] % kBanks];
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
  std::vector<std::uint64_t> starts;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((event.mask >> lane) & 1) starts.push_back(event.addresses[lane]);
  }
  const std::uint64_t different = distinct(starts);
  counts.lanes += active;
  counts.distinct += different;
  if (counts.shared) {
    counts.sectors += bank_passes(event);
    counts.ideal += std::max<std::uint64_t>(1, (active * event.bytes + 127) / 128);
  } else {
    std::vector<std::uint64_t> sectors;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if (!((event.mask >> lane) & 1)) continue;
      for (std::uint64_t s = event.addresses[lane] / kSectorBytes;
           s <= (event.addresses[lane] + event.bytes - 1) / kSectorBytes; ++s)
        sectors.push_back(s);
    }
    counts.sectors += distinct(sectors);
    // Lanes that read the same bytes need them once.
    counts.ideal +=
        std::max<std::uint64_t>(1, (different * event.bytes + kSectorBytes - 1) / kSectorBytes);
  }
  for (std::uint32_t lane = 0; lane + 1 < kLanes; ++lane) {
    if (((event.mask >> lane) & 3) == 3) {
      ++counts
            .strides[static_cast<std::int64_t>(event.addresses[lane + 1] - event.addresses[lane])];
    }
  }
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
