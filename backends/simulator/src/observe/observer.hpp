// SPDX-License-Identifier: Apache-2.0
// The stream of visible events. Analyses observe it; the interpreter knows none of them.
#pragma once

#include <cstdint>
#include <span>

#include "machine/cta.hpp"
#include "machine/global_memory.hpp"

namespace faultline::simulator {

enum class AccessKind : std::uint8_t {
  read,
  write,  // mbarrier.init too: it needs order like any write
  atomic,
  barrier_use,  // mbarrier operations on an initialised object; they never race with each other
  barrier_end,  // mbarrier.inval
};
inline constexpr bool is_read_only(AccessKind kind) {
  return kind == AccessKind::read || kind == AccessKind::barrier_use;
}

// Lanes of one warp access memory of one object: an allocation, or the shared memory of one CTA.
struct AccessEvent {
  Warp* warp;
  const Instruction* instruction;
  std::uint32_t mask;
  const std::uint64_t* addresses;  // by lane; global addresses, or offsets in shared memory
  std::uint32_t bytes;             // per lane
  AccessKind kind;
  Allocation* allocation;  // global; nullptr: shared
  Cta* owner;              // shared
  bool dense;              // all 32 lanes, each right behind the one before
};

// One contiguous piece that an asynchronous copy reads or writes.
struct CopyPiece {
  std::uint64_t address;
  std::uint32_t bytes;
  bool writes;
  Allocation* allocation;  // global; nullptr: shared
  Cta* owner;
};

// Who performs an asynchronous copy, as far as ordering goes.
enum class CopyAgent : std::uint8_t {
  cp_async,    // completes by the thread's wait_group: generic proxy
  mbarrier,    // completes a transaction on an mbarrier: async proxy
  bulk_group,  // completes by bulk wait_group: async proxy
};

struct CopyEvent {
  Warp* warp;
  std::uint32_t lane;
  const Instruction* instruction;
  CopyAgent agent;
  const Mbarrier* mbarrier;  // CopyAgent::mbarrier
  std::uint32_t group;       // the number of the group that will hold it
  std::span<const CopyPiece> pieces;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_cta_begin(Cta&) {}
  virtual void on_cta_end(Cta&) {}
  virtual void on_access(const AccessEvent&) {}
  virtual void on_copy_issued(const CopyEvent&) {}
  // Threads of a CTA barrier, of a warp barrier, of a convergent operation order each other.
  virtual void on_barrier(Cta&, std::span<const BarrierArrival>) {}
  virtual void on_warp_barrier(Warp&, std::uint32_t /*mask*/) {}
  virtual void on_cluster_barrier(std::span<Cta* const>) {}
  virtual void on_mbarrier_init(Warp&, std::uint32_t /*lane*/, Cta& /*owner*/, Mbarrier&) {}
  virtual void on_mbarrier_arrive(Warp&, std::uint32_t /*mask*/, Cta& /*owner*/, Mbarrier&, Order) {
  }
  virtual void on_mbarrier_copy_complete(Cta& /*owner*/, Mbarrier&) {}
  virtual void on_mbarrier_phase(Cta& /*owner*/, Mbarrier&) {}  // phase just completed
  virtual void on_mbarrier_waited(Warp&, std::uint32_t /*mask*/, Cta& /*owner*/, Mbarrier&) {}
  virtual void on_proxy_fence(Warp&, std::uint32_t /*mask*/) {}
  virtual void on_fence(Warp&, std::uint32_t /*mask*/, Scope) {}
  // Groups 1..finished of this thread are complete (for bulk .read: their sources are read).
  virtual void on_cp_async_waited(Warp&, std::uint32_t /*lane*/, std::uint32_t /*finished*/) {}
  virtual void on_cp_async_arrive(Warp&, std::uint32_t /*lane*/, Cta& /*owner*/, Mbarrier&,
                                  std::uint32_t /*group*/) {}
  virtual void on_bulk_waited(Warp&, std::uint32_t /*lane*/, std::uint32_t /*finished*/,
                              bool /*read_only*/) {}
};

}  // namespace faultline::simulator
