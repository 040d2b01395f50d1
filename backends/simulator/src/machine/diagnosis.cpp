// SPDX-License-Identifier: Apache-2.0
// Why a launch cannot go on, in words.
#include <algorithm>

#include "machine/machine.hpp"

namespace faultline::simulator {
namespace {

std::string lanes_text(std::uint32_t mask) {
  if (mask == kAllLanes) return "all lanes";
  std::string text = "lane";
  if (__builtin_popcount(mask) > 1) text += "s";
  for (std::uint32_t lane = 0; lane < kLanes;) {
    if (!((mask >> lane) & 1)) {
      ++lane;
      continue;
    }
    std::uint32_t end = lane;
    while (end + 1 < kLanes && ((mask >> (end + 1)) & 1)) ++end;
    text += (text.back() == 'e' || text.back() == 's' ? " " : ",") + std::to_string(lane);
    if (end > lane) text += "-" + std::to_string(end);
    lane = end + 1;
  }
  return text;
}

}  // namespace

void Machine::fault(const Warp& warp, const Instruction& instruction, std::uint32_t lane,
                    const std::string& what) const {
  throw Stop(core::ExecutionStatus::fault,
             what + " in " + program_->entry + " at " + program_->where(instruction.site) + " [" +
                 std::string(program_->opcode_at(instruction.site)) + "] by cta " +
                 std::to_string(warp.cta->linear) + " warp " + std::to_string(warp.index) +
                 " lane " + std::to_string(lane));
}

void Machine::stop_unsupported(const Instruction& instruction) const {
  const ptx::Statement* statement = program_->sites[instruction.site].statement;
  throw Stop(
      core::ExecutionStatus::unsupported,
      std::string(program_->opcode_at(instruction.site)) + " at " +
          program_->where(instruction.site) + " is not supported by the simulator" +
          (statement != nullptr ? " (" + std::string(statement->text) + ")" : std::string()));
}

void Machine::deadlock(const char* reason) {
  std::size_t blocked = 0;
  std::string first;
  for (const auto& cta : resident_) {
    for (const Warp& warp : cta->warps) {
      for (const Split& split : warp.splits) {
        ++blocked;
        const Instruction& i = program_->code[split.pc];
        std::string line = "cta " + std::to_string(cta->linear) + " warp " +
                           std::to_string(warp.index) + " " + lanes_text(split.mask);
        switch (split.state) {
        case SplitState::ready: line += " polls at "; break;
        case SplitState::waiting_lanes: line += " waits for the other lanes of its warp at "; break;
        case SplitState::sleeping: line += " sleeps before "; break;
        case SplitState::waiting_cluster: line += " waits for the cluster at "; break;
        case SplitState::waiting_barrier:
          line += " waits at barrier " + std::to_string(split.wait) + " at ";
          break;
        case SplitState::waiting_mbarrier:
          line +=
              " waits on mbarrier " +
              (split.wait == 0xffffffffu ? std::string("(several)") : mbarrier_name(split.wait)) +
              " at ";
          break;
        }
        line += program_->where(i.site);
        if (split.state == SplitState::waiting_barrier) {
          const NamedBarrier& barrier = cta->barriers[split.wait];
          std::uint32_t need = barrier.expected;
          if (need == 0) {
            for (const Warp& other : cta->warps) need += other.live != 0 ? kLanes : 0;
          }
          line += ": " + std::to_string(barrier.arrived) + " of " + std::to_string(need) +
                  " threads arrived";
          if (split.mask != warp.live)
            line += "; the rest of this warp (" + lanes_text(warp.live & ~split.mask) +
                    ") did not come";
        } else if (split.state == SplitState::waiting_mbarrier) {
          const auto it = cta->mbarriers.find(split.wait);
          if (it != cta->mbarriers.end()) {
            const Mbarrier& barrier = it->second;
            line += ": phase " + std::to_string(barrier.phase) + ", " +
                    std::to_string(barrier.expected - barrier.pending) + " of " +
                    std::to_string(barrier.expected) + " arrivals, " +
                    std::to_string(barrier.pending_bytes) + " bytes pending";
          }
        }
        if (first.empty()) first = line;
        if (details_.size() < 64) details_.push_back(std::move(line));
      }
    }
  }
  throw Stop(core::ExecutionStatus::deadlock,
             "deadlock in " + program_->entry + ": " + reason + "; " + std::to_string(blocked) +
                 " parts of warps are blocked, the first: " + first);
}

}  // namespace faultline::simulator
