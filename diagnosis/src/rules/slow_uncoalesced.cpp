// SPDX-License-Identifier: Apache-2.0
// slow.uncoalesced: a line that carries a good part of all global traffic touches at least four
// times the 32-byte sectors that its bytes need, because neighbouring lanes are far apart. A
// warning.
#include <fmt/format.h>

#include "../words.hpp"
#include "slow_common.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_slow_uncoalesced(const Facts& facts) {
  const std::vector<WastefulLine> lines =
      wasteful_lines(facts, core::MemorySpace::global, 4.0, 0.25);
  if (lines.empty()) return std::nullopt;
  const core::AccessStatistics& worst = *lines.front().access;

  core::Finding finding;
  finding.finding = core::FindingClass::slow_uncoalesced;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.95;
  finding.headline =
      fmt::format("{} {} global memory at {} in {:.1f} times the sectors that its bytes need",
                  subject_text(facts.evidence), worst.is_write ? "writes" : "reads",
                  line_text({worst.where}), lines.front().waste);
  for (const WastefulLine& line : lines) {
    const core::AccessStatistics& access = *line.access;
    const auto per_request = [&](std::uint64_t sectors) {
      return static_cast<double>(sectors) /
             static_cast<double>(std::max<std::uint64_t>(access.requests, 1));
    };
    finding.evidence.push_back(fmt::format(
        "{} at {}: {:.1f} sectors of 32 bytes per warp request where {:.1f} would do; neighbouring "
        "lanes are {} bytes apart",
        access.instruction, line_text({access.where}), per_request(access.sectors),
        per_request(access.ideal_sectors), access.lane_stride_bytes));
    finding.evidence.push_back(fmt::format("that line carries {} of all global sectors",
                                           percent(access.sectors, line.all_sectors)));
  }
  finding.runner_up = core::FindingClass::slow_bank_conflicts;
  finding.runner_up_reason = "the waste is in global memory, not in shared memory's banks";
  finding.advice = "Let neighbouring lanes read neighbouring addresses: put the warp on the "
                   "contiguous dimension.";
  return finding;
}

}  // namespace faultline::diagnosis
