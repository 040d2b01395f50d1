// SPDX-License-Identifier: Apache-2.0
// Fences, arrivals at barriers and mbarriers. PTX ISA, "membar, fence", "mbarrier".
#include "exec/effects.hpp"
#include "exec/memory_access.hpp"

namespace faultline::simulator {
namespace {

void barrier_arrive_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  warp.cta->machine->arrive_at_barrier(warp, i, mask, false);
}

void cluster_arrive_effect(Warp& warp, const Instruction&, std::uint32_t mask) {
  warp.cta->machine->cluster_arrive(warp, mask);
}

void fence_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  for (Observer* observer : warp.cta->machine->observers()) {
    switch (static_cast<FenceKind>(i.variant)) {
    case FenceKind::memory: observer->on_fence(warp, mask, i.scope); break;
    case FenceKind::proxy_async: observer->on_proxy_fence(warp, mask); break;
    case FenceKind::mbarrier_init:
    case FenceKind::proxy_other: break;
    }
  }
}

constexpr std::uint32_t kLargestCount = (1u << 20) - 1;  // PTX ISA, "mbarrier: valid ranges"

// What one group of lanes with the same mbarrier does.
class MbarrierOperation {
 public:
  MbarrierOperation(Warp& warp, const Instruction& i, Cta& owner, std::uint32_t offset)
      : warp_(warp), i_(i), owner_(owner), offset_(offset), machine_(*warp.cta->machine) {}

  void init(std::uint32_t lanes) {
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) {
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
      const std::uint32_t count = warp_.lane_values<std::uint32_t>(i_.s[1])[lane];
      if (count == 0 || count > kLargestCount) {
        machine_.fault(warp_, i_, lane,
                       "mbarrier.init: the count " + std::to_string(count) +
                           " is not in [1, 1048575]");
      }
      notify(lane, AccessKind::write);
      const auto [slot, fresh] = owner_.slot_of_address.try_emplace(offset_, owner_.mbarrier_slots);
      if (fresh) ++owner_.mbarrier_slots;
      Mbarrier barrier;
      barrier.address = offset_;
      barrier.slot = slot->second;
      barrier.expected = barrier.pending = count;
      barrier.initialised_at = i_.site;
      owner_.mbarriers[offset_] = barrier;
      for (Observer* observer : machine_.observers())
        observer->on_mbarrier_init(warp_, lane, owner_, owner_.mbarriers[offset_]);
    }
  }

  void invalidate(std::uint32_t lanes) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(lanes));
    notify(lane, AccessKind::barrier_end);
    machine_.find_mbarrier(warp_, i_, lane, owner_, offset_);
    owner_.mbarriers.erase(offset_);
  }

  void transaction(std::uint32_t lanes, bool expect) {
    Mbarrier& barrier = find(lanes);
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) {
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
      const std::int64_t bytes = warp_.lane_values<std::uint32_t>(i_.s[2])[lane];
      if (expect) {
        add_bytes(barrier, lane, bytes);
      } else {
        machine_.mbarrier_complete_bytes(owner_, barrier, bytes, i_.site);
      }
    }
  }

  void arrive(std::uint32_t lanes) {
    Mbarrier& barrier = find(lanes);
    for (std::uint32_t r = lanes; r != 0;) {
      // As many lanes as still fit into this phase arrive together.
      std::uint32_t now = 0, total = 0;
      while (r != 0) {
        const std::uint32_t count = count_of(static_cast<std::uint32_t>(__builtin_ctz(r)));
        if (total + count > barrier.pending) break;
        total += count;
        now |= r & (~r + 1);
        r &= r - 1;
      }
      if (now == 0) {
        machine_.fault(warp_, i_, static_cast<std::uint32_t>(__builtin_ctz(r)),
                       "mbarrier " + machine_.mbarrier_name(offset_) +
                           ": more arrivals than the expected " + std::to_string(barrier.expected) +
                           " in phase " + std::to_string(barrier.phase) + " (" +
                           std::to_string(barrier.pending_bytes) + " bytes still pending)");
      }
      const std::uint64_t state = barrier.phase << 24 | barrier.pending;
      for (std::uint32_t q = now; q != 0; q &= q - 1) {
        const auto lane = static_cast<std::uint32_t>(__builtin_ctz(q));
        if (i_.d[0] != kNoRegister) warp_.lane_values<std::uint64_t>(i_.d[0])[lane] = state;
        if (i_.variant & kMbarrierExpect)
          add_bytes(barrier, lane, warp_.lane_values<std::uint32_t>(i_.s[2])[lane]);
        if (i_.variant & kMbarrierDrop) barrier.expected -= count_of(lane);
      }
      if ((i_.variant & kMbarrierNoComplete) && total == barrier.pending) {
        machine_.fault(warp_, i_, static_cast<std::uint32_t>(__builtin_ctz(now)),
                       "mbarrier.arrive.noComplete would complete the phase of " +
                           machine_.mbarrier_name(offset_));
      }
      for (Observer* observer : machine_.observers())
        observer->on_mbarrier_arrive(warp_, now, owner_, barrier, i_.order);
      machine_.mbarrier_arrive(owner_, barrier, total);
    }
  }

 private:
  Mbarrier& find(std::uint32_t lanes) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(lanes));
    Mbarrier& barrier = machine_.find_mbarrier(warp_, i_, lane, owner_, offset_);
    if (machine_.observed())
      notify_shared(warp_, i_, lanes, owner_, offset_, 8, AccessKind::barrier_use);
    return barrier;
  }
  void notify(std::uint32_t lane, AccessKind kind) {
    if (machine_.observed()) notify_shared(warp_, i_, 1u << lane, owner_, offset_, 8, kind);
  }
  std::uint32_t count_of(std::uint32_t lane) {
    return i_.s[1] == kNoRegister ? 1 : warp_.lane_values<std::uint32_t>(i_.s[1])[lane];
  }
  void add_bytes(Mbarrier& barrier, std::uint32_t lane, std::int64_t bytes) {
    barrier.pending_bytes += bytes;
    if (barrier.pending_bytes > kLargestCount) {
      machine_.fault(warp_, i_, lane,
                     "mbarrier " + machine_.mbarrier_name(offset_) +
                         ": the transaction count overflows (" +
                         std::to_string(barrier.pending_bytes) + " > 1048575 bytes)");
    }
    machine_.made_progress();
  }

  Warp& warp_;
  const Instruction& i_;
  Cta& owner_;
  std::uint32_t offset_;
  Machine& machine_;
};

void mbarrier_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  for (std::uint32_t rest = mask; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    std::uint32_t same = 0;
    for (std::uint32_t r = rest; r != 0; r &= r - 1) {
      if (addresses[__builtin_ctz(r)] == addresses[lane]) same |= r & (~r + 1);
    }
    rest &= ~same;
    Cta* owner = nullptr;
    const std::uint32_t offset = shared_offset(warp, i, lane, addresses[lane], 8, owner);
    MbarrierOperation operation(warp, i, *owner, offset);
    switch (static_cast<MbarrierAction>(i.variant & 0xff)) {
    case MbarrierAction::init: operation.init(same); break;
    case MbarrierAction::invalidate: operation.invalidate(same); break;
    case MbarrierAction::expect_tx: operation.transaction(same, true); break;
    case MbarrierAction::complete_tx: operation.transaction(same, false); break;
    case MbarrierAction::arrive: operation.arrive(same); break;
    }
  }
}

void mbarrier_pending_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto* state = warp.lane_values<std::uint64_t>(i.s[0]);
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for (std::uint32_t r = mask; r != 0; r &= r - 1)
    d[__builtin_ctz(r)] = static_cast<std::uint32_t>(state[__builtin_ctz(r)] & 0xffffff);
}

}  // namespace

namespace effects {

EffectHandler barrier_arrive() { return barrier_arrive_effect; }
EffectHandler cluster_arrive() { return cluster_arrive_effect; }
EffectHandler fence() { return fence_effect; }
EffectHandler mbarrier() { return mbarrier_effect; }
EffectHandler mbarrier_pending() { return mbarrier_pending_effect; }

}  // namespace effects
}  // namespace faultline::simulator
