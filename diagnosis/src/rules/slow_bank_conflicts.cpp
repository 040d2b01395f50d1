// SPDX-License-Identifier: Apache-2.0
// slow.bank_conflicts: a line that carries a good part of all shared-memory traffic needs at least
// four times the passes that its bytes need. A warning.
#include <fmt/format.h>

#include "../words.hpp"
#include "slow_common.hpp"

namespace faultline::diagnosis {

std::optional<core::Finding> find_slow_bank_conflicts(const Facts& facts) {
  const std::vector<WastefulLine> lines =
      wasteful_lines(facts, core::MemorySpace::shared, 4.0, 0.25);
  if (lines.empty()) return std::nullopt;
  const core::AccessStatistics& worst = *lines.front().access;

  core::Finding finding;
  finding.finding = core::FindingClass::slow_bank_conflicts;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.9;
  finding.headline = fmt::format("{} {} shared memory at {} with {:.1f}-way bank conflicts",
                                 subject_text(facts.evidence), worst.is_write ? "writes" : "reads",
                                 line_text({worst.where}), lines.front().waste);
  for (const WastefulLine& line : lines) {
    const core::AccessStatistics& access = *line.access;
    finding.evidence.push_back(fmt::format(
        "{} at {}: {} passes for {} requests where {} would do; neighbouring lanes are {} bytes "
        "apart; {} of all shared-memory passes",
        access.instruction, line_text({access.where}), count(access.sectors),
        count(access.requests), count(access.ideal_sectors), access.lane_stride_bytes,
        percent(access.sectors, line.all_sectors)));
  }
  finding.runner_up = core::FindingClass::slow_uncoalesced;
  finding.runner_up_reason = "the waste is in shared memory's banks, not in global sectors";
  finding.advice = "Pad the rows by 16 bytes or swizzle the columns.";
  return finding;
}

}  // namespace faultline::diagnosis
