// SPDX-License-Identifier: Apache-2.0
// Events that order: barriers, mbarriers, fences, completion of copies, strong accesses.
#include "race/detector.hpp"

#include <algorithm>

#include "faultline/simulator/simulator_backend.hpp"

namespace faultline::simulator {
namespace {

static_assert(sizeof(ShadowCell) <= kRaceStateBytesPerCell, "estimates of memory rely on it");

constexpr std::uint32_t kMbarrierSlots = 64;
constexpr std::uint32_t kBulkThreads = 32;  // threads of a CTA that issue bulk groups

// Calls body(first lane, lanes) for every set of lanes that share one clock.
template <class Known, class Body>
void by_clock(const Known& known, bool uniform, std::uint32_t mask, Body body) {
  if (uniform) {
    body(static_cast<std::uint32_t>(__builtin_ctz(mask)), mask);
    return;
  }
  for (std::uint32_t rest = mask; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    std::uint32_t same = 0;
    for (std::uint32_t r = rest; r != 0; r &= r - 1) {
      const auto l = static_cast<std::uint32_t>(__builtin_ctz(r));
      if (known[l].same(known[lane])) same |= 1u << l;
    }
    body(lane, same);
    rest &= ~same;
  }
}

}  // namespace

void RaceDetector::begin(std::shared_ptr<const Program> program, const LaunchGeometry& geometry,
                         bool lenient) {
  program_ = std::move(program);
  lenient_ = lenient;
  for (auto& state : resident_) spare_.push_back(std::move(state));
  resident_.clear();
  last_state_ = nullptr;
  last_allocation_ = nullptr;
  last_shadow_ = nullptr;
  locations_.clear();
  races_.clear();
  slot_addresses_.clear();
  const std::uint32_t block = geometry.block[0] * geometry.block[1] * geometry.block[2];
  threads_ = (block + kLanes - 1) / kLanes * kLanes;
  first_mbarrier_ = threads_ + (program_->uses_cp_async ? threads_ : 0);
  first_bulk_ = first_mbarrier_ + (program_->uses_mbarriers ? kMbarrierSlots : 0);
  actors_ = first_bulk_ + (program_->uses_bulk_groups ? 2 * kBulkThreads : 0);
  for (auto& state : spare_) {
    state->warps.clear();
    state->mbarriers.clear();
  }
  pool_.resize(actors_);
  launch_generation_ = ++generation_;
  lists_.clear();
  hidden_writes_.clear();
}

RaceDetector::CtaState& RaceDetector::state_of(const Cta& cta) {
  if (last_state_ != nullptr && last_state_->linear == cta.linear) return *last_state_;
  for (auto& state : resident_) {
    if (state->linear == cta.linear) return *(last_state_ = state.get());
  }
  throw std::logic_error("race detector: unknown cta");
}

void RaceDetector::on_cta_begin(Cta& cta) {
  std::unique_ptr<CtaState> state;
  if (spare_.empty()) {
    state = std::make_unique<CtaState>();
  } else {
    state = std::move(spare_.back());
    spare_.pop_back();
  }
  state->linear = cta.linear;
  state->bulk_agents.clear();
  state->mbarriers.clear();
  state->warps.clear();
  state->warps.resize(cta.warps.size());
  state->shared.resize(cta.shared.size() + 1);
  state->generation = ++generation_;
  const Clock start(pool_);
  for (WarpState& warp : state->warps) warp.known.fill(start);
  resident_.push_back(std::move(state));
  last_state_ = nullptr;
}

void RaceDetector::on_cta_end(Cta& cta) {
  for (auto it = resident_.begin(); it != resident_.end(); ++it) {
    if ((*it)->linear != cta.linear) continue;
    spare_.push_back(std::move(*it));
    resident_.erase(it);
    break;
  }
  last_state_ = nullptr;
}

std::uint32_t RaceDetector::bulk_agent(CtaState& cta, std::uint32_t thread, bool writes) {
  const auto [it, fresh] =
      cta.bulk_agents.try_emplace(thread, static_cast<std::uint32_t>(cta.bulk_agents.size()));
  if (it->second >= kBulkThreads) {
    throw Stop(core::ExecutionStatus::unsupported,
               "race detection of more than 32 threads of a CTA that issue bulk groups");
  }
  return first_bulk_ + 2 * it->second + (writes ? 1 : 0);
}

RaceDetector::MbarrierState& RaceDetector::mbarrier_state(CtaState& cta, const Mbarrier& barrier) {
  if (barrier.slot >= kMbarrierSlots) {
    throw Stop(core::ExecutionStatus::unsupported,
               "race detection of more than 64 mbarriers in a CTA");
  }
  if (cta.mbarriers.size() <= barrier.slot) cta.mbarriers.resize(barrier.slot + 1);
  MbarrierState& state = cta.mbarriers[barrier.slot];
  if (!state.current) state.current = Clock(pool_);
  return state;
}

// Copies that complete on an mbarrier are one agent; its clock counts phases.
std::uint32_t RaceDetector::copy_clock(MbarrierState& state, const Mbarrier& barrier) {
  const std::uint32_t clock = state.offset + static_cast<std::uint32_t>(barrier.phase) + 1;
  state.highest = std::max(state.highest, clock);
  return clock;
}

// ---- clocks -----------------------------------------------------------------------------------

// Everything that the lanes did and know goes into `into`.
void RaceDetector::release(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask, Clock& into,
                           std::uint32_t into_home) {
  WarpState& warp = cta.warps[warp_index];
  Clock own = into_home == cta.linear ? Clock() : Clock(pool_);
  Clock& target = own ? own : into;
  by_clock(warp.known, warp.uniform, mask, [&](std::uint32_t lane, std::uint32_t) {
    target.join(warp.known[lane], cta.linear, cta.linear);
  });
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    const std::uint32_t thread = warp_index * kLanes + lane;
    target.raise_order(thread, warp.now);
    target.raise_fenced(thread, warp.fenced_at[lane]);
    if (program_->uses_cp_async) {
      target.raise_order(copy_agent(thread), warp.copies_done[lane]);
      target.raise_fenced(copy_agent(thread), warp.copies_fenced[lane]);
    }
    if (program_->uses_bulk_groups &&
        (warp.bulk_read_done[lane] != 0 || warp.bulk_done[lane] != 0)) {
      target.raise_order(bulk_agent(cta, thread, false), warp.bulk_read_done[lane]);
      target.raise_order(bulk_agent(cta, thread, true), warp.bulk_done[lane]);
      target.raise_fenced(bulk_agent(cta, thread, false), warp.bulk_read_done[lane]);
      target.raise_fenced(bulk_agent(cta, thread, true), warp.bulk_done[lane]);
    }
  }
  if (own) into.join(own, into_home, cta.linear);
}

void RaceDetector::assign(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask,
                          const Clock& clock) {
  WarpState& warp = cta.warps[warp_index];
  for (std::uint32_t r = mask; r != 0; r &= r - 1)
    warp.known[static_cast<std::size_t>(__builtin_ctz(r))] = clock;
  warp.uniform = mask == kAllLanes;
  if (!warp.uniform) {
    warp.uniform = std::all_of(warp.known.begin(), warp.known.end(),
                               [&](const Clock& c) { return c.same(warp.known[0]); });
  }
}

void RaceDetector::acquire(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask,
                           const Clock& from, std::uint32_t from_home) {
  if (!from) return;
  WarpState& warp = cta.warps[warp_index];
  by_clock(warp.known, warp.uniform, mask, [&](std::uint32_t lane, std::uint32_t lanes) {
    Clock joined = warp.known[lane];
    joined.join(from, cta.linear, from_home);
    for (std::uint32_t r = lanes; r != 0; r &= r - 1)
      warp.known[static_cast<std::size_t>(__builtin_ctz(r))] = joined;
  });
  warp.uniform = (warp.uniform && mask == kAllLanes) ||
                 std::all_of(warp.known.begin(), warp.known.end(),
                             [&](const Clock& c) { return c.same(warp.known[0]); });
}

// What was read by relaxed accesses is learnt at the thread's next fence. A barrier is one for the
// CTA: it teaches what the CTA itself published, and leaves the rest to a fence behind it.
void RaceDetector::promote_relaxed(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask,
                                   Reach reach) {
  WarpState& warp = cta.warps[warp_index];
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    if (!warp.seen_relaxed[lane]) continue;
    Clock seen = warp.seen_relaxed[lane];
    if (reach == Reach::device || !seen.knows_others()) warp.seen_relaxed[lane] = Clock();
    if (reach == Reach::cta) seen.forget_others();
    acquire(cta, warp_index, 1u << lane, seen, cta.linear);
  }
}

// ---- events -----------------------------------------------------------------------------------

void RaceDetector::on_barrier(Cta& cta, std::span<const BarrierArrival> arrivals) {
  CtaState& state = state_of(cta);
  Clock all(pool_);
  for (const BarrierArrival& arrival : arrivals) {
    promote_relaxed(state, arrival.warp->index, arrival.mask, Reach::cta);
    release(state, arrival.warp->index, arrival.mask, all, state.linear);
  }
  for (const BarrierArrival& arrival : arrivals) {
    if (arrival.waits) assign(state, arrival.warp->index, arrival.mask, all);
    ++state.warps[arrival.warp->index].now;
  }
}

void RaceDetector::on_warp_barrier(Warp& warp, std::uint32_t mask) {
  CtaState& state = state_of(*warp.cta);
  promote_relaxed(state, warp.index, mask, Reach::cta);
  Clock all(pool_);
  release(state, warp.index, mask, all, state.linear);
  assign(state, warp.index, mask, all);
  ++state.warps[warp.index].now;
}

void RaceDetector::on_cluster_barrier(std::span<Cta* const> ctas) {
  std::vector<Clock> sums;
  for (Cta* cta : ctas) {
    CtaState& state = state_of(*cta);
    sums.emplace_back(pool_);
    for (const Warp& warp : cta->warps) {
      if (warp.live != 0) release(state, warp.index, warp.live, sums.back(), state.linear);
    }
  }
  for (std::size_t k = 0; k < ctas.size(); ++k) {
    CtaState& state = state_of(*ctas[k]);
    Clock all = sums[k];
    for (std::size_t j = 0; j < ctas.size(); ++j) {
      if (j != k) all.join(sums[j], state.linear, ctas[j]->linear);
    }
    for (const Warp& warp : ctas[k]->warps) {
      if (warp.live == 0) continue;
      assign(state, warp.index, warp.live, all);
      ++state.warps[warp.index].now;
    }
  }
}

void RaceDetector::on_mbarrier_init(Warp&, std::uint32_t, Cta& owner, Mbarrier& barrier) {
  MbarrierState& state = mbarrier_state(state_of(owner), barrier);
  state.offset = state.highest;
  state.address = barrier.address;
  slot_addresses_[{owner.linear, barrier.slot}] = barrier.address;
}

void RaceDetector::on_mbarrier_arrive(Warp& warp, std::uint32_t mask, Cta& owner, Mbarrier& barrier,
                                      Order order) {
  CtaState& state = state_of(*warp.cta);
  if (order != Order::relaxed) {
    MbarrierState& target = mbarrier_state(state_of(owner), barrier);
    release(state, warp.index, mask, target.current, owner.linear);
  }
  ++state.warps[warp.index].now;
}

void RaceDetector::on_mbarrier_copy_complete(Cta& owner, Mbarrier& barrier) {
  MbarrierState& state = mbarrier_state(state_of(owner), barrier);
  const std::uint32_t clock = copy_clock(state, barrier);
  state.current.raise_order(mbarrier_agent(barrier.slot), clock);
  state.current.raise_fenced(mbarrier_agent(barrier.slot), clock);
}

void RaceDetector::on_mbarrier_phase(Cta& owner, Mbarrier& barrier) {
  MbarrierState& state = mbarrier_state(state_of(owner), barrier);
  state.done = state.current;
}

void RaceDetector::on_mbarrier_waited(Warp& warp, std::uint32_t mask, Cta& owner,
                                      Mbarrier& barrier) {
  acquire(state_of(*warp.cta), warp.index, mask, mbarrier_state(state_of(owner), barrier).done,
          owner.linear);
}

void RaceDetector::on_proxy_fence(Warp& warp_, std::uint32_t mask) {
  CtaState& cta = state_of(*warp_.cta);
  WarpState& warp = cta.warps[warp_.index];
  by_clock(warp.known, warp.uniform, mask, [&](std::uint32_t lane, std::uint32_t lanes) {
    Clock fenced = warp.known[lane];
    fenced.fence();
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) {
      const auto l = static_cast<std::uint32_t>(__builtin_ctz(r));
      warp.known[l] = fenced;
      warp.fenced_at[l] = warp.now;
      warp.copies_fenced[l] = warp.copies_done[l];
    }
  });
  warp.uniform = warp.uniform && mask == kAllLanes;
  ++warp.now;
}

void RaceDetector::on_fence(Warp& warp_, std::uint32_t mask, Scope) {
  CtaState& cta = state_of(*warp_.cta);
  WarpState& warp = cta.warps[warp_.index];
  promote_relaxed(cta, warp_.index, mask, Reach::device);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    warp.at_fence[lane] = warp.known[lane];
    warp.fence_now[lane] = warp.now;
  }
  ++warp.now;
}

void RaceDetector::on_cp_async_waited(Warp& warp, std::uint32_t lane, std::uint32_t finished) {
  WarpState& state = warp_state(warp);
  state.copies_done[lane] = std::max(state.copies_done[lane], finished);
}

void RaceDetector::on_cp_async_arrive(Warp& warp, std::uint32_t lane, Cta& owner, Mbarrier& barrier,
                                      std::uint32_t group) {
  CtaState& state = state_of(owner);
  MbarrierState& target = mbarrier_state(state, barrier);
  const std::uint32_t thread = warp.index * kLanes + lane;
  if (warp.cta == &owner) target.current.raise_order(copy_agent(thread), group);
}

void RaceDetector::on_bulk_waited(Warp& warp, std::uint32_t lane, std::uint32_t finished,
                                  bool read_only) {
  WarpState& state = warp_state(warp);
  state.bulk_read_done[lane] = std::max(state.bulk_read_done[lane], finished);
  if (!read_only) state.bulk_done[lane] = std::max(state.bulk_done[lane], finished);
}

// Strong accesses to one location: writes publish, reads learn. PTX ISA, "Release and Acquire
// Patterns": a relaxed write behind a fence releases what was before the fence, a relaxed read in
// front of a fence acquires at the fence.
void RaceDetector::synchronise(const AccessEvent& event) {
  CtaState& cta = state_of(*event.warp->cta);
  WarpState& warp = cta.warps[event.warp->index];
  const Order order = event.instruction->order;
  const bool writes = event.kind != AccessKind::read;
  const bool reads = event.kind != AccessKind::write;
  for (std::uint32_t r = event.mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    std::uint64_t key = event.addresses[lane];
    if (event.owner != nullptr)
      key |= std::uint64_t{1} << 63 | std::uint64_t{event.owner->linear} << 32;
    auto& [location, home] = locations_[key];
    if (!location) {
      location = Clock(pool_);
      home = cta.linear;
    }
    if (reads) {
      if (order == Order::acquire || order == Order::acquire_release) {
        acquire(cta, event.warp->index, 1u << lane, location, home);
      } else {
        Clock& seen = warp.seen_relaxed[lane];
        if (!seen && home == cta.linear) {
          seen = location;  // shared until one of the two changes: polling costs nothing
        } else {
          if (!seen) seen = Clock(pool_);
          seen.join(location, cta.linear, home);
        }
      }
    }
    if (writes) {
      if (order == Order::release || order == Order::acquire_release) {
        release(cta, event.warp->index, 1u << lane, location, home);
      } else if (warp.at_fence[lane]) {
        const std::uint32_t thread = event.warp->index * kLanes + lane;
        const std::uint32_t known =
            home == cta.linear ? location.order(thread) : location.other_order(cta.linear, thread);
        if (known >= warp.fence_now[lane]) continue;  // published before
        Clock published = warp.at_fence[lane];
        published.raise_order(thread, warp.fence_now[lane]);
        if (program_->uses_cp_async)
          published.raise_order(copy_agent(thread), warp.copies_done[lane]);
        location.join(published, home, cta.linear);
      }
    }
  }
  if (writes) ++warp.now;
}

}  // namespace faultline::simulator
