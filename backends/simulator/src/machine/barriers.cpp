// SPDX-License-Identifier: Apache-2.0
// Named barriers, mbarriers and cluster barriers. PTX ISA, "bar, barrier", "mbarrier".
#include <algorithm>

#include "exec/effects.hpp"
#include "exec/memory_access.hpp"
#include "machine/machine.hpp"

namespace faultline::simulator {

void Machine::arrive_at_barrier(Warp& warp, const Instruction& i, std::uint32_t mask, bool waits) {
  Cta& cta = *warp.cta;
  const auto lane = static_cast<std::uint32_t>(__builtin_ctz(mask));
  const std::uint32_t id = warp.lane_values<std::uint32_t>(i.s[0])[lane];
  if (id > 15) fault(warp, i, lane, "barrier number " + std::to_string(id) + " is above 15");
  NamedBarrier& barrier = cta.barriers[id];
  std::uint32_t count = 0;
  if (i.s[1] != kNoRegister) {
    count = warp.lane_values<std::uint32_t>(i.s[1])[lane];
    if (count == 0 || count % kLanes != 0) {
      fault(warp, i, lane,
            "barrier " + std::to_string(id) + ": the thread count " + std::to_string(count) +
                " is not a positive multiple of 32");
    }
    const auto rounded = (cta.threads + kLanes - 1) / kLanes * kLanes;
    if (count > rounded) {
      fault(warp, i, lane,
            "barrier " + std::to_string(id) + ": the thread count " + std::to_string(count) +
                " exceeds the " + std::to_string(cta.threads) + " threads of the CTA");
    }
  }
  if (!barrier.arrivals.empty() && barrier.expected != count) {
    fault(warp, i, lane,
          "barrier " + std::to_string(id) + ": this thread expects " + std::to_string(count) +
              " threads, those that came before expect " + std::to_string(barrier.expected));
  }
  barrier.expected = count;
  barrier.site = i.site;
  barrier.arrived += kLanes;
  if (i.s[2] != kNoRegister) {
    std::uint32_t p = warp.predicate(i.s[2]);
    if (i.sign_extend) p = ~p;
    barrier.true_count += static_cast<std::uint32_t>(__builtin_popcount(p & mask));
    barrier.all = barrier.all && (p & mask) == mask;
    barrier.any = barrier.any || (p & mask) != 0;
  }
  barrier.arrivals.push_back({&warp, mask, waits, &i});
  check_barrier(cta, id);
}

void Machine::check_barrier(Cta& cta, std::uint32_t id) {
  NamedBarrier& barrier = cta.barriers[id];
  if (barrier.arrivals.empty()) return;
  std::uint32_t need = barrier.expected;
  if (need == 0) {
    for (const Warp& warp : cta.warps) need += warp.live != 0 ? kLanes : 0;
  }
  if (barrier.arrived < need) return;
  if (barrier.arrived > need) {
    const BarrierArrival& last = barrier.arrivals.back();
    fault(*last.warp, *last.instruction, 0,
          "barrier " + std::to_string(id) + ": " + std::to_string(barrier.arrived) +
              " threads arrived where " + std::to_string(need) + " were expected");
  }
  for (Observer* observer : observers_) observer->on_barrier(cta, barrier.arrivals);
  const std::vector<BarrierArrival> arrivals = std::move(barrier.arrivals);
  const NamedBarrier result = barrier;
  barrier.arrivals.clear();
  barrier.arrived = barrier.expected = barrier.true_count = 0;
  barrier.all = true;
  barrier.any = false;
  for (const BarrierArrival& arrival : arrivals) {
    if (!arrival.waits) continue;
    for (Split& split : arrival.warp->splits) {
      if (split.state != SplitState::waiting_barrier || split.wait != id) continue;
      const Instruction& i = program_->code[split.pc];
      if (i.d[0] != kNoRegister) {
        const auto reduction = static_cast<BarrierReduction>(i.variant);
        if (reduction == BarrierReduction::popcount) {
          auto* d = arrival.warp->lane_values<std::uint32_t>(i.d[0]);
          for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
            if ((split.mask >> lane) & 1) d[lane] = result.true_count;
          }
        } else {
          std::uint32_t& p = arrival.warp->predicate(i.d[0]);
          const bool value = reduction == BarrierReduction::all ? result.all : result.any;
          p = value ? p | split.mask : p & ~split.mask;
        }
      }
      split.state = SplitState::ready;
      ++split.pc;
    }
    merge_splits(*arrival.warp);
  }
  made_progress();
}

Mbarrier& Machine::find_mbarrier(Warp& warp, const Instruction& i, std::uint32_t lane, Cta& owner,
                                 std::uint32_t offset) {
  const auto it = owner.mbarriers.find(offset);
  if (it == owner.mbarriers.end()) {
    fault(warp, i, lane,
          "mbarrier at shared " + mbarrier_name(offset) + " is used before mbarrier.init");
  }
  return it->second;
}

void Machine::mbarrier_arrive(Cta& owner, Mbarrier& barrier, std::uint32_t count) {
  barrier.pending -= count;
  made_progress();
  mbarrier_check_phase(owner, barrier);
}

void Machine::mbarrier_complete_bytes(Cta& owner, Mbarrier& barrier, std::int64_t bytes,
                                      std::uint32_t site) {
  barrier.pending_bytes -= bytes;
  if (barrier.pending_bytes < -((std::int64_t{1} << 20) - 1)) {
    throw Stop(core::ExecutionStatus::fault,
               "mbarrier " + mbarrier_name(barrier.address) + " of cta " +
                   std::to_string(owner.linear) + ": the transaction count underflows (" +
                   std::to_string(barrier.pending_bytes) + " bytes) at " + program_->where(site));
  }
  for (Observer* observer : observers_) observer->on_mbarrier_copy_complete(owner, barrier);
  made_progress();
  mbarrier_check_phase(owner, barrier);
}

void Machine::mbarrier_check_phase(Cta& owner, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.pending_bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  for (Observer* observer : observers_) observer->on_mbarrier_phase(owner, barrier);
  wake_mbarrier_waiters(owner, barrier.address);
  made_progress();
}

void Machine::wake_mbarrier_waiters(Cta& owner, std::uint32_t address) {
  for (Warp& warp : owner.warps) {
    for (Split& split : warp.splits) {
      if (split.state != SplitState::waiting_mbarrier) continue;
      if (split.wait == address || split.wait == 0xffffffffu) split.state = SplitState::ready;
    }
  }
}

bool Machine::mbarrier_ready(Warp& warp, const Instruction& i, std::uint32_t mask,
                             std::uint32_t& ready) {
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  std::uint32_t rest = mask;
  std::uint32_t wait = 0xffffffffu;
  bool several = false;
  while (rest != 0) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    std::uint32_t same = 0;
    for (std::uint32_t r = rest; r != 0; r &= r - 1) {
      const auto l = static_cast<std::uint32_t>(__builtin_ctz(r));
      if (addresses[l] == addresses[lane]) same |= 1u << l;
    }
    rest &= ~same;
    Cta* owner = nullptr;
    const std::uint32_t offset = shared_offset(warp, i, lane, addresses[lane], 8, owner);
    if (owner != warp.cta)
      fault(warp, i, lane, "waiting on an mbarrier of another CTA is not allowed");
    Mbarrier& barrier = find_mbarrier(warp, i, lane, *owner, offset);
    if (observed()) notify_shared(warp, i, same, *owner, offset, 8, AccessKind::barrier_use);
    std::uint32_t done = 0;
    for (std::uint32_t r = same; r != 0; r &= r - 1) {
      const auto l = static_cast<std::uint32_t>(__builtin_ctz(r));
      bool complete;
      if (i.variant & kMbarrierParity) {
        const std::uint32_t parity = warp.lane_values<std::uint32_t>(i.s[1])[l] & 1;
        complete = (barrier.phase & 1) != parity;  // the phase with this parity is over
      } else {
        complete = barrier.phase != warp.lane_values<std::uint64_t>(i.s[1])[l] >> 24;
      }
      if (complete) done |= 1u << l;
    }
    if (done != 0 && i.order != Order::relaxed) {
      for (Observer* observer : observers_)
        observer->on_mbarrier_waited(warp, done, *owner, barrier);
    }
    ready |= done;
    several = several || rest != 0;
    wait = offset;
  }
  if (several) wait = 0xffffffffu;
  for (Split& split : warp.splits) {
    if ((split.mask & mask) != 0) split.wait = wait;
  }
  return ready != 0;
}

void Machine::cluster_arrive(Warp& warp, std::uint32_t mask) {
  Cta& cta = *warp.cta;
  cta.cluster_arrivals += static_cast<std::uint32_t>(__builtin_popcount(mask));
  made_progress();
  release_cluster_barrier();
}

// All threads of the cluster arrive, then all that wait go on (PTX ISA, "barrier.cluster").
void Machine::release_cluster_barrier() {
  for (auto& cluster : clusters_) {
    if (cluster->empty()) continue;
    bool complete = true;
    for (const Cta* cta : *cluster) {
      std::uint32_t live = 0;
      for (const Warp& warp : cta->warps)
        live += static_cast<std::uint32_t>(__builtin_popcount(warp.live));
      complete = complete && cta->cluster_arrivals >= live && live > 0;
    }
    if (!complete) continue;
    bool all_wait = true;
    for (const Cta* cta : *cluster) {
      for (const Warp& warp : cta->warps) {
        for (const Split& split : warp.splits)
          all_wait = all_wait && split.state == SplitState::waiting_cluster;
      }
    }
    if (!all_wait) continue;  // waiting early or late makes no difference to what is ordered
    for (Observer* observer : observers_) observer->on_cluster_barrier(*cluster);
    for (Cta* cta : *cluster) {
      cta->cluster_arrivals = 0;
      for (Warp& warp : cta->warps) {
        for (Split& split : warp.splits) {
          split.state = SplitState::ready;
          ++split.pc;
        }
        merge_splits(warp);
      }
    }
    made_progress();
  }
}

}  // namespace faultline::simulator
