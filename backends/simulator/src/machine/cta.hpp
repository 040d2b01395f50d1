// SPDX-License-Identifier: Apache-2.0
// The state of a thread block while it runs: warps and their divergent parts, barriers, mbarriers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "program/program.hpp"

namespace faultline::simulator {

class Machine;
struct Cta;

enum class SplitState : std::uint8_t {
  ready,
  waiting_lanes,     // at a convergence operation, for the other lanes of its mask
  waiting_barrier,   // wait: barrier number
  waiting_mbarrier,  // wait: shared address
  waiting_cluster,
  sleeping,  // wake: visible operations of the launch until then
};

// Lanes of one warp that are at the same place. Lanes diverge into splits and merge when they meet.
struct Split {
  static constexpr std::uint32_t kMaxDepth = 8;
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  SplitState state = SplitState::ready;
  bool timed_out = false;  // try_wait: the time limit has passed, return false
  std::uint8_t depth = 0;  // of calls
  std::uint32_t wait = 0;
  std::uint64_t wake = 0;
  std::array<std::uint32_t, kMaxDepth> returns{};
};

struct Warp {
  std::uint8_t* registers = nullptr;
  Cta* cta = nullptr;
  std::uint32_t index = 0;
  std::uint32_t lanes = 0;  // mask of lanes that exist
  std::uint32_t live = 0;   // mask of lanes that have not exited
  std::vector<Split> splits;
  std::uint64_t idle_picks = 0;  // picks since the machine last made progress

  std::uint32_t& predicate(RegisterOffset offset) {
    return *reinterpret_cast<std::uint32_t*>(registers + offset);
  }
  template <class T>
  T* lane_values(RegisterOffset offset) {
    return reinterpret_cast<T*>(registers + offset);
  }
  bool has_ready_split() const {
    for (const Split& split : splits) {
      if (split.state == SplitState::ready) return true;
    }
    return false;
  }
};

// PTX ISA, "mbarrier": the opaque object. A phase ends when no arrivals and no bytes are pending.
struct Mbarrier {
  std::uint32_t address = 0;   // shared offset
  std::uint32_t slot = 0;      // dense number within the CTA, kept across re-initialisation
  std::uint32_t expected = 0;  // arrivals per phase
  std::uint32_t pending = 0;
  std::int64_t pending_bytes = 0;
  std::uint64_t phase = 0;           // phases completed so far
  std::uint32_t initialised_at = 0;  // site
};

struct BarrierArrival {
  Warp* warp;
  std::uint32_t mask;
  bool waits;  // bar.arrive does not
  const Instruction* instruction;
};

// bar/barrier: named barriers 0..15.
struct NamedBarrier {
  std::uint32_t expected = 0;  // threads; 0: all of the CTA
  std::uint32_t arrived = 0;   // threads, in whole warps
  std::uint32_t true_count = 0;
  bool all = true;
  bool any = false;
  std::uint32_t site = 0;
  std::vector<BarrierArrival> arrivals;
};

// A copy that has been issued and may complete at any later time.
struct PendingCopy {
  Cta* cta = nullptr;
  std::uint32_t number = 0;  // issue number within the CTA: the identity for replays
  std::uint32_t site = 0;
  std::uint32_t warp = 0;
  std::uint32_t lane = 0;
  std::uint64_t priority = 0;      // for PCT
  std::function<void()> complete;  // moves the bytes and tells whoever waits
};

// One thread's cp.async bookkeeping: copies not yet in a group, then groups in order.
struct CpAsyncCopy {
  std::uint8_t* to;
  const std::uint8_t* from;
  std::uint8_t bytes, source_bytes;
};
struct CpAsyncThread {
  std::vector<CpAsyncCopy> open;
  std::deque<std::vector<CpAsyncCopy>> groups;
  std::uint32_t finished = 0;  // groups complete so far
};
// One thread's bulk groups; copies are counted, their bytes move through PendingCopy.
struct BulkThread {
  std::vector<std::uint32_t> open;  // copy numbers
  std::deque<std::vector<std::uint32_t>> groups;
  std::uint32_t finished = 0;
};

struct Cta {
  Machine* machine = nullptr;
  std::uint32_t linear = 0;  // in the grid
  std::array<std::uint32_t, 3> id{};
  std::uint32_t cluster_rank = 0;
  std::uint32_t threads = 0;
  std::vector<Cta*>* cluster = nullptr;  // peers by rank, itself included
  std::vector<std::uint8_t> shared;
  std::vector<std::uint8_t> local;  // threads * local_bytes, a frame a thread
  std::vector<Warp> warps;
  std::vector<std::uint8_t> register_storage;
  std::map<std::uint32_t, Mbarrier> mbarriers;
  std::uint32_t mbarrier_slots = 0;
  std::map<std::uint32_t, std::uint32_t> slot_of_address;
  std::array<NamedBarrier, 16> barriers;
  std::map<std::uint32_t, CpAsyncThread> cp_async;
  std::map<std::uint32_t, BulkThread> bulk;
  std::uint32_t copies_issued = 0;
  std::uint32_t cluster_arrivals = 0;  // barrier.cluster phases this CTA's warps have arrived at
  std::uint32_t cluster_phase = 0;
  std::uint32_t observer_slot = 0;  // for observers that keep state per resident CTA

  bool finished() const {
    for (const Warp& warp : warps) {
      if (!warp.splits.empty()) return false;
    }
    return true;
  }
};

}  // namespace faultline::simulator
