// SPDX-License-Identifier: Apache-2.0
// Happens-before race detection over the event stream. docs/memory-model.md says which events order
// what; here each is one member function.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "faultline/core/execution.hpp"
#include "machine/machine.hpp"
#include "observe/observer.hpp"
#include "race/clock.hpp"
#include "race/shadow.hpp"

namespace faultline::simulator {

class RaceDetector final : public Observer {
 public:
  RaceDetector() = default;
  // Forgets everything and watches one launch.
  void begin(std::shared_ptr<const Program> program, const LaunchGeometry& geometry, bool lenient);
  // An allocation is gone: its shadow memory goes too.
  void forget(std::uint32_t allocation) {
    global_.erase(allocation);
    last_allocation_ = nullptr;
  }
  // Races grouped by kind and both instructions, in a fixed order.
  std::vector<core::RaceReport> finish();

  void on_cta_begin(Cta& cta) override;
  void on_cta_end(Cta& cta) override;
  void on_access(const AccessEvent& event) override;
  void on_copy_issued(const CopyEvent& event) override;
  void on_barrier(Cta& cta, std::span<const BarrierArrival> arrivals) override;
  void on_warp_barrier(Warp& warp, std::uint32_t mask) override;
  void on_cluster_barrier(std::span<Cta* const> ctas) override;
  void on_mbarrier_init(Warp& warp, std::uint32_t lane, Cta& owner, Mbarrier& barrier) override;
  void on_mbarrier_arrive(Warp& warp, std::uint32_t mask, Cta& owner, Mbarrier& barrier,
                          Order order) override;
  void on_mbarrier_copy_complete(Cta& owner, Mbarrier& barrier) override;
  void on_mbarrier_phase(Cta& owner, Mbarrier& barrier) override;
  void on_mbarrier_waited(Warp& warp, std::uint32_t mask, Cta& owner, Mbarrier& barrier) override;
  void on_proxy_fence(Warp& warp, std::uint32_t mask) override;
  void on_fence(Warp& warp, std::uint32_t mask, Scope scope) override;
  void on_cp_async_waited(Warp& warp, std::uint32_t lane, std::uint32_t finished) override;
  void on_cp_async_arrive(Warp& warp, std::uint32_t lane, Cta& owner, Mbarrier& barrier,
                          std::uint32_t group) override;
  void on_bulk_waited(Warp& warp, std::uint32_t lane, std::uint32_t finished,
                      bool read_only) override;

 private:
  // What the threads of one warp know. A thread's own component is not stored in its clock: `now`
  // and the per-lane fields stand for it, so that lanes can share one clock.
  struct WarpState {
    std::uint32_t now = 1;
    bool uniform = true;  // all lanes share known[0]
    std::array<Clock, 32> known;
    std::array<std::uint32_t, 32> fenced_at{};    // `now` at the last fence.proxy.async
    std::array<std::uint32_t, 32> copies_done{};  // own cp.async groups waited for
    std::array<std::uint32_t, 32> copies_fenced{};
    std::array<std::uint32_t, 32> bulk_read_done{};  // own bulk groups
    std::array<std::uint32_t, 32> bulk_done{};
    std::array<Clock, 32> at_fence;  // known at the last memory fence
    std::array<std::uint32_t, 32> fence_now{};
    std::array<Clock, 32> seen_relaxed;  // read by relaxed accesses, not yet fenced
  };
  struct MbarrierState {
    Clock current, done;
    std::uint32_t address = 0;
    std::uint32_t offset = 0;   // phases of earlier initialisations: the agent's clock never falls
    std::uint32_t highest = 0;  // clock given out so far
  };
  struct CtaState {
    std::uint32_t linear = 0;
    std::vector<WarpState> warps;
    std::vector<MbarrierState> mbarriers;
    std::map<std::uint32_t, std::uint32_t> bulk_agents;  // thread -> pair number
    ShadowMemory shared;
    std::uint64_t generation = 0;
  };
  // One side of an access while it is checked.
  struct Actor {
    CtaState* cta;
    WarpState* warp;
    std::uint32_t warp_index;
    std::uint32_t lane;    // the accessing thread, or the one that issued the copy
    std::uint32_t id;      // actor that performs it: the thread, or an agent
    std::uint32_t id_cta;  // CTA that `id` belongs to
    std::uint32_t clock;
    std::uint32_t site;  // with kStrongBit
    bool is_agent;
    bool async_proxy;
    bool is_mbarrier = false;
  };
  enum class Reach : std::uint8_t { cta, device };  // of a fence

  struct Place {  // where the cells lie, for reports
    Allocation* allocation;
    Cta* owner;
  };
  struct Race {
    core::RaceKind kind;
    std::uint32_t first_site, second_site;
    std::uint32_t first_actor, first_cta, second_actor, second_cta;
    bool first_async, second_async, first_writes, second_writes;
    bool missing_fence, note, cross_cta;
    core::MemorySpace space;
    std::string buffer;        // allocation name or shared variable
    std::uint64_t begin, end;  // shared offset, or offset in the allocation
    std::uint64_t count;
  };

  CtaState& state_of(const Cta& cta);
  WarpState& warp_state(const Warp& warp) { return state_of(*warp.cta).warps[warp.index]; }
  std::uint32_t copy_agent(std::uint32_t thread) const { return threads_ + thread; }
  std::uint32_t mbarrier_agent(std::uint32_t slot) const { return first_mbarrier_ + slot; }
  std::uint32_t bulk_agent(CtaState& cta, std::uint32_t thread, bool writes);
  MbarrierState& mbarrier_state(CtaState& cta, const Mbarrier& barrier);
  static std::uint32_t copy_clock(MbarrierState& state, const Mbarrier& barrier);
  bool in_async_proxy(std::uint32_t actor) const { return actor >= first_mbarrier_; }

  // Clocks.
  void release(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask, Clock& into,
               std::uint32_t into_home);
  void acquire(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask, const Clock& from,
               std::uint32_t from_home);
  void assign(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask, const Clock& clock);
  void promote_relaxed(CtaState& cta, std::uint32_t warp_index, std::uint32_t mask, Reach reach);
  void synchronise(const AccessEvent& event);

  // Cells.
  bool ordered(const Actor& by, std::uint32_t actor, std::uint32_t clock, std::uint32_t cta) const;
  bool fenced(const Actor& by, std::uint32_t actor, std::uint32_t clock, std::uint32_t cta) const;
  template <class Visit>
  void for_each_cell(const Place& place, std::uint64_t address, std::uint32_t bytes, Visit visit);
  void check_write_before(const Actor& by, ShadowCell& cell, const Place& place,
                          std::uint64_t offset, std::uint32_t bytes, bool writes);
  void read_cell(const Actor& by, std::uint32_t lanes, ShadowCell& cell, const Place& place,
                 std::uint64_t offset, std::uint32_t bytes);
  void write_cell(const Actor& by, ShadowCell& cell, const Place& place, std::uint64_t offset,
                  std::uint32_t bytes);
  void check_reader(const Actor& by, const ReaderRecord& reader, const Place& place,
                    std::uint64_t offset, std::uint32_t bytes);
  void record_reader(const Actor& by, std::uint32_t lanes, ShadowCell& cell);
  bool read_dense(const AccessEvent& event, const Actor& by, const Place& place);
  std::uint32_t group_of(std::uint32_t site) const;
  void found(core::RaceKind kind, const Actor& second, bool second_writes, std::uint32_t first_site,
             std::uint32_t first_actor, std::uint32_t first_cta, bool first_writes,
             bool missing_fence, const Place& place, std::uint64_t offset, std::uint32_t bytes);

  // Texts.
  core::AccessSite describe(std::uint32_t site, std::uint32_t actor, std::uint32_t cta, bool writes,
                            bool async) const;
  std::string actor_text(std::uint32_t actor, std::uint32_t cta) const;
  std::string missing_edge(const Race& race) const;

  std::shared_ptr<const Program> program_;
  bool lenient_ = false;
  std::uint32_t threads_ = 0;
  std::uint32_t first_mbarrier_ = 0;
  std::uint32_t first_bulk_ = 0;
  std::uint32_t actors_ = 0;
  ClockPool pool_;
  std::vector<std::unique_ptr<CtaState>> resident_;
  std::vector<std::unique_ptr<CtaState>> spare_;
  CtaState* last_state_ = nullptr;
  std::unordered_map<std::uint32_t, ShadowMemory> global_;  // by allocation id
  Allocation* last_allocation_ = nullptr;
  ShadowMemory* last_shadow_ = nullptr;
  std::uint64_t generation_ = 0;  // of shadow pages: a new one per launch and per CTA
  std::uint64_t launch_generation_ = 0;
  ReaderLists lists_;
  PlainWrites hidden_writes_;
  std::unordered_map<std::uint64_t, std::pair<Clock, std::uint32_t>>
      locations_;  // of strong accesses
  std::map<std::tuple<int, std::uint32_t, std::uint32_t, bool, bool>, Race> races_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> slot_addresses_;  // (cta, slot)
};

}  // namespace faultline::simulator
