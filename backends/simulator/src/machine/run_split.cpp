// SPDX-License-Identifier: Apache-2.0
// The instruction loop, and divergence: PTX ISA, "SIMT" and "Independent Thread Scheduling".
#include <algorithm>

#include "machine/machine.hpp"

namespace faultline::simulator {
namespace {

constexpr std::uint32_t kBackwardBranches =
    4096;  // per turn, so that silent loops end their turn too

// Between visible operations of all warps together: what makes nanosleep a delay.
constexpr std::uint32_t kNanosecondsPerStep = 16;

bool mergeable(const Split& split) {
  return split.state == SplitState::ready || split.state == SplitState::waiting_lanes;
}

std::uint32_t member_lanes(Warp& warp, const Instruction& instruction, std::uint32_t mask) {
  if (instruction.s[3] == kNoRegister) return warp.live;
  const auto* members = warp.lane_values<std::uint32_t>(instruction.s[3]);
  std::uint32_t all = 0;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) all |= members[__builtin_ctz(rest)];
  return all & warp.live;
}

}  // namespace

void Machine::diverge(Warp& warp, std::size_t index, std::uint32_t target, std::uint32_t taken) {
  Split other = warp.splits[index];
  other.pc = target;
  other.mask = taken;
  warp.splits[index].mask &= ~taken;
  warp.splits.push_back(other);
}

void Machine::merge_splits(Warp& warp) {
  auto& splits = warp.splits;
  if (splits.size() < 2) return;
  for (std::size_t a = 0; a < splits.size(); ++a) {
    for (std::size_t b = a + 1; b < splits.size();) {
      const bool together =
          splits[a].pc == splits[b].pc && splits[a].depth == splits[b].depth &&
          mergeable(splits[a]) && mergeable(splits[b]) &&
          std::equal(splits[a].returns.begin(), splits[a].returns.begin() + splits[a].depth,
                     splits[b].returns.begin());
      if (!together) {
        ++b;
        continue;
      }
      splits[a].mask |= splits[b].mask;
      splits[a].state = SplitState::ready;
      splits[a].timed_out = splits[a].timed_out && splits[b].timed_out;
      splits.erase(splits.begin() + static_cast<std::ptrdiff_t>(b));
    }
  }
}

void Machine::exit_lanes(Warp& warp, std::uint32_t mask) {
  warp.live &= ~mask;
  made_progress();
  for (Split& split : warp.splits) {
    if (split.state == SplitState::waiting_lanes) split.state = SplitState::ready;
  }
  for (std::uint32_t id = 0; id < warp.cta->barriers.size(); ++id) {
    // The remaining lanes of this warp may already wait at a barrier.
    if (!warp.cta->barriers[id].arrivals.empty() || warp.splits.size() > 0) {
      std::uint32_t waiting = 0;
      const Instruction* at = nullptr;
      for (const Split& split : warp.splits) {
        if (split.state == SplitState::waiting_barrier && split.wait == id) {
          waiting |= split.mask;
          at = &program_->code[split.pc];
        }
      }
      const auto& arrivals = warp.cta->barriers[id].arrivals;
      const bool counted =
          std::any_of(arrivals.begin(), arrivals.end(),
                      [&](const BarrierArrival& a) { return a.warp == &warp && a.waits; });
      if (at != nullptr && waiting == warp.live && !counted)
        arrive_at_barrier(warp, *at, waiting, true);
      else
        check_barrier(*warp.cta, id);
    }
  }
}

void Machine::run_split(Warp& warp, std::size_t index, std::uint32_t quantum) {
  const Instruction* const code = program_->code.data();
  std::uint32_t pc = warp.splits[index].pc;
  std::uint32_t mask = warp.splits[index].mask;
  const bool several = warp.splits.size() > 1;
  std::uint32_t meeting = 0xffffffffu;  // where this split may merge with another
  if (several) {
    for (std::size_t k = 0; k < warp.splits.size(); ++k) {
      const Split& split = warp.splits[k];
      if (k != index && split.pc > pc && mergeable(split)) meeting = std::min(meeting, split.pc);
    }
  }
  std::uint32_t backward = kBackwardBranches;
  std::uint64_t lanes_run = 0, instructions = 0;
  const auto park = [&] { warp.splits[index].pc = pc; };
  for (bool running = true; running;) {
    if (several && pc == meeting) {
      park();
      break;
    }
    const Instruction& i = code[pc];
    std::uint32_t m = mask;
    if (i.predicate != kNoRegister) {
      const std::uint32_t p = warp.predicate(i.predicate);
      m &= i.predicate_negated ? ~p : p;
    }
    ++instructions;
    lanes_run += m == kAllLanes ? 32u : static_cast<std::uint32_t>(__builtin_popcount(m));
    if (i.flow == Flow::compute) {
      if (m != 0) i.compute(warp.registers, i, m);
      ++pc;
      continue;
    }
    if (m == 0) {
      ++pc;
      continue;
    }
    switch (i.flow) {
    case Flow::compute: break;
    case Flow::hidden_effect:
      i.effect(warp, i, m);
      ++pc;
      break;
    case Flow::visible:
      i.effect(warp, i, m);
      ++pc;
      ++steps_;
      if (--quantum == 0) {
        park();
        running = false;
      }
      break;
    case Flow::branch: {
      const bool is_backward = i.target <= pc;
      if (m != mask) {
        warp.splits[index].pc = pc + 1;
        diverge(warp, index, i.target, m);
        running = false;
        if (is_backward) ++steps_;
        break;
      }
      pc = i.target;
      if (is_backward) {
        ++steps_;
        if (several || --backward == 0) {
          park();
          running = false;
        }
      } else if (several) {
        park();
        running = false;
      }
      break;
    }
    case Flow::indexed_branch: {
      const auto& table = program_->branch_tables[i.extra];
      const auto* where = warp.lane_values<std::uint32_t>(i.s[0]);
      const std::uint32_t first = where[__builtin_ctz(m)];
      if (first >= table.size())
        fault(warp, i, static_cast<std::uint32_t>(__builtin_ctz(m)),
              "brx.idx index out of its table");
      std::uint32_t same = 0;
      for (std::uint32_t rest = m; rest != 0; rest &= rest - 1) {
        if (where[__builtin_ctz(rest)] == first) same |= rest & (~rest + 1);
      }
      ++steps_;
      warp.splits[index].pc = m == mask ? pc : pc + 1;
      if (same == mask) {
        warp.splits[index].pc = table[first];
      } else {  // the lanes left over execute the branch again, or fall through
        const std::uint32_t rest = m & ~same;
        if (m != mask && rest != 0) diverge(warp, index, pc, rest);
        diverge(warp, index, table[first], same);
      }
      running = false;
      break;
    }
    case Flow::call: {
      if (m != mask) {
        warp.splits[index].pc = pc + 1;
        diverge(warp, index, pc, m);
        running = false;
        break;
      }
      Split& split = warp.splits[index];
      if (split.depth == Split::kMaxDepth)
        throw Stop(core::ExecutionStatus::unsupported,
                   "calls nested deeper than 8 at " + program_->where(i.site));
      split.returns[split.depth++] = pc + 1;
      pc = i.target;
      if (several) {
        park();
        running = false;
      }
      break;
    }
    case Flow::leave:
    case Flow::exit: {
      Split& split = warp.splits[index];
      if (i.flow == Flow::leave && split.depth > 0) {
        const std::uint32_t back = split.returns[split.depth - 1];
        split.pc = pc + 1;
        if (m != mask) {
          diverge(warp, index, back, m);
          --warp.splits.back().depth;
        } else {
          split.pc = back;
          --split.depth;
        }
        running = false;
        break;
      }
      mask &= ~m;
      if (mask == 0) {
        warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(index));
      } else {
        warp.splits[index].mask = mask;
        ++pc;
        park();
      }
      running = false;  // barriers may complete now and merge splits: indices are stale
      exit_lanes(warp, m);
      break;
    }
    case Flow::convergent:
    case Flow::warp_barrier:
    case Flow::cta_barrier:
    case Flow::cluster_barrier: {
      if (m != mask) {
        warp.splits[index].pc = pc + 1;
        diverge(warp, index, pc, m);
        running = false;
        break;
      }
      if (i.flow == Flow::cta_barrier) {
        const std::uint32_t id = warp.lane_values<std::uint32_t>(i.s[0])[__builtin_ctz(m)];
        if (id > 15)
          fault(warp, i, static_cast<std::uint32_t>(__builtin_ctz(m)),
                "barrier number " + std::to_string(id) + " is above 15");
        Split& split = warp.splits[index];
        park();
        split.state = SplitState::waiting_barrier;
        split.wait = id;
        std::uint32_t waiting = 0;
        for (const Split& other : warp.splits) {
          if (other.state == SplitState::waiting_barrier && other.wait == id) waiting |= other.mask;
        }
        ++steps_;
        if (waiting == warp.live) arrive_at_barrier(warp, i, waiting, true);
        running = false;
        break;
      }
      if (i.flow == Flow::cluster_barrier) {
        park();
        warp.splits[index].state = SplitState::waiting_cluster;
        ++steps_;
        release_cluster_barrier();
        running = false;
        break;
      }
      const std::uint32_t need = member_lanes(warp, i, m);
      std::uint32_t here = mask;
      if (i.flow == Flow::warp_barrier && (need & ~mask) != 0) {  // other lanes may sync elsewhere
        for (const Split& other : warp.splits) {
          if (other.state == SplitState::waiting_lanes && code[other.pc].flow == Flow::warp_barrier)
            here |= other.mask;
        }
      }
      if ((need & ~here) != 0) {
        park();
        warp.splits[index].state = SplitState::waiting_lanes;
        running = false;
        break;
      }
      ++steps_;
      if (i.flow == Flow::warp_barrier) {
        for (Observer* observer : observers_) observer->on_warp_barrier(warp, here);
        if (here != mask) {
          for (Split& other : warp.splits) {
            if (other.state == SplitState::waiting_lanes &&
                code[other.pc].flow == Flow::warp_barrier) {
              other.state = SplitState::ready;
              ++other.pc;
            }
          }
        }
        ++pc;
        if (here != mask) {
          park();
          running = false;
        }
        break;
      }
      i.effect(warp, i, m);
      ++pc;
      if (--quantum == 0) {
        park();
        running = false;
      }
      break;
    }
    case Flow::sleep: {
      if (m != mask) {
        warp.splits[index].pc = pc + 1;
        diverge(warp, index, pc, m);
        running = false;
        break;
      }
      Split& split = warp.splits[index];
      // Lanes that go on together wait for the longest.
      std::uint32_t ns = 0;
      for (std::uint32_t lanes = m; lanes != 0; lanes &= lanes - 1) {
        ns = std::max(ns, warp.lane_values<std::uint32_t>(i.s[0])[__builtin_ctz(lanes)]);
      }
      ++pc;
      ++steps_;
      park();
      split.state = SplitState::sleeping;
      split.wake = now() + ns / kNanosecondsPerStep;
      ++sleepers_;
      running = false;
      break;
    }
    case Flow::mbarrier_wait:
    case Flow::mbarrier_test: {
      std::uint32_t ready = 0;
      ++steps_;
      const bool any = mbarrier_ready(warp, i, m, ready);
      const bool blocks = i.flow == Flow::mbarrier_wait && !any && !warp.splits[index].timed_out;
      if (blocks && m != mask) {
        warp.splits[index].pc = pc + 1;
        diverge(warp, index, pc, m);
        running = false;
        break;
      }
      if (blocks) {
        lanes_run -= static_cast<std::uint32_t>(__builtin_popcount(m));
        --instructions;
        park();
        warp.splits[index].state = SplitState::waiting_mbarrier;
        running = false;
        break;
      }
      warp.splits[index].timed_out = false;
      std::uint32_t& p = warp.predicate(i.d[0]);
      p = (p & ~m) | ready;
      ++pc;
      if (ready == 0 || --quantum == 0) {
        park();
        running = false;
      }
      break;
    }
    case Flow::trap: fault(warp, i, static_cast<std::uint32_t>(__builtin_ctz(m)), "trap");
    case Flow::unsupported: stop_unsupported(i);
    }
  }
  thread_instructions_ += lanes_run;
  warp_instructions_ += instructions;
  merge_splits(warp);
}

}  // namespace faultline::simulator
