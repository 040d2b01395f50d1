// SPDX-License-Identifier: Apache-2.0
// Accesses against what the shadow memory remembers.
#include <algorithm>

#include "race/detector.hpp"

namespace faultline::simulator {

bool RaceDetector::ordered(const Actor& by, std::uint32_t actor, std::uint32_t clock,
                           std::uint32_t cta) const {
  const WarpState& warp = *by.warp;
  const Clock& known = warp.known[by.lane];
  if (cta != by.cta->linear) return known.other_order(cta, actor) >= clock;
  const std::uint32_t thread = by.warp_index * kLanes + by.lane;
  if (actor == thread) return true;  // program order
  if (known.order(actor) >= clock) return true;
  if (program_->uses_cp_async && actor == copy_agent(thread))
    return warp.copies_done[by.lane] >= clock;
  if (actor >= first_bulk_) {
    const auto it = by.cta->bulk_agents.find(thread);
    if (it == by.cta->bulk_agents.end()) return false;
    if (actor == first_bulk_ + 2 * it->second) return warp.bulk_read_done[by.lane] >= clock;
    if (actor == first_bulk_ + 2 * it->second + 1) return warp.bulk_done[by.lane] >= clock;
  }
  return false;
}

bool RaceDetector::fenced(const Actor& by, std::uint32_t actor, std::uint32_t clock,
                          std::uint32_t cta) const {
  const WarpState& warp = *by.warp;
  const Clock& known = warp.known[by.lane];
  if (cta != by.cta->linear) return known.other_fenced(cta, actor) >= clock;
  const std::uint32_t thread = by.warp_index * kLanes + by.lane;
  if (actor == thread) return warp.fenced_at[by.lane] >= clock;
  if (program_->uses_cp_async && actor == copy_agent(thread) &&
      warp.copies_fenced[by.lane] >= clock)
    return true;
  return known.fenced(actor) >= clock;
}

template <class Visit>
void RaceDetector::for_each_cell(const Place& place, std::uint64_t address, std::uint32_t bytes,
                                 Visit visit) {
  ShadowMemory* shadow;
  std::uint64_t offset = address;
  std::uint64_t generation = launch_generation_;
  if (place.owner != nullptr) {
    CtaState& owner = state_of(*place.owner);
    shadow = &owner.shared;
    generation = owner.generation;
  } else {
    if (place.allocation != last_allocation_) {
      last_allocation_ = place.allocation;
      last_shadow_ = &global_[place.allocation->id];
      last_shadow_->resize(place.allocation->size);
    }
    shadow = last_shadow_;
    offset -= place.allocation->base;
  }
  const std::uint32_t shift = ((offset | bytes) & 3) == 0 ? 2 : ((offset | bytes) & 1) == 0 ? 1 : 0;
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    ShadowPage& page = shadow->page(offset, shift, generation, lists_);
    const std::uint64_t page_begin = offset / kPageBytes * kPageBytes;
    const std::uint64_t stop = std::min(end, page_begin + kPageBytes);
    const std::uint32_t cell_bytes = 1u << page.shift;
    for (; offset < stop; offset += cell_bytes) {
      visit(page.cells[(offset - page_begin) >> page.shift], offset, cell_bytes);
    }
  }
}

// The last write against this read or write.
void RaceDetector::check_write_before(const Actor& by, ShadowCell& cell, const Place& place,
                                      std::uint64_t offset, std::uint32_t bytes, bool writes) {
  if (cell.writer == 0) return;
  if (cell.hidden != 0) {
    const WriterRecord& plain = hidden_writes_.at(cell.hidden);
    if (!ordered(by, plain.actor, plain.clock, plain.cta)) {
      found(writes ? core::RaceKind::write_after_write : core::RaceKind::read_after_write, by,
            writes, plain.site, plain.actor, plain.cta, true, false, place, offset, bytes);
    }
  }
  const std::uint32_t actor = cell.writer - 1;
  if ((cell.writer_site & by.site & kStrongBit) != 0) return;
  // Lanes of one instruction that write the same place: one of them wins, no order is asked for.
  if (!by.is_agent && cell.writer_site == by.site && cell.writer_clock == by.clock &&
      actor < threads_ && actor / kLanes == by.warp_index && cell.writer_cta == by.id_cta) {
    return;
  }
  const auto kind = writes ? core::RaceKind::write_after_write : core::RaceKind::read_after_write;
  if (!ordered(by, actor, cell.writer_clock, cell.writer_cta)) {
    found(kind, by, writes, cell.writer_site, actor, cell.writer_cta, true, false, place, offset,
          bytes);
  } else if (by.async_proxy && !in_async_proxy(actor) &&
             !fenced(by, actor, cell.writer_clock, cell.writer_cta)) {
    found(kind, by, writes, cell.writer_site, actor, cell.writer_cta, true, true, place, offset,
          bytes);
  }
}

void RaceDetector::record_reader(const Actor& by, std::uint32_t lanes, ShadowCell& cell) {
  const std::uint32_t id = (by.is_agent ? (by.id | kAgentBit) : by.warp_index) + 1;
  const ReaderRecord record{id, by.clock, lanes, by.site, by.id_cta};
  ReaderRecord& first = cell.reader;
  if (first.id != 0 && first.cta != record.cta) {  // keep one reader of another CTA
    cell.foreign = first;
    first.id = 0;
    if (cell.more != 0) lists_.at(cell.more).clear();
  }
  const auto absorb = [&](ReaderRecord& old) {
    if (old.id != id) return false;
    if (old.clock == record.clock) {
      old.mask |= lanes;
      old.site = record.site;
      return true;
    }
    if ((old.mask & ~lanes) != 0) return false;
    old = record;  // later reads of the same lanes stand for earlier ones
    return true;
  };
  if (first.id == 0) {
    first = record;
    return;
  }
  if (absorb(first)) return;
  const auto superseded =
      [&](const ReaderRecord& old) {  // happened before: this read stands for it
        if (old.id & kAgentBit) return ordered(by, (old.id - 1) & ~kAgentBit, old.clock, old.cta);
        for (std::uint32_t r = old.mask; r != 0; r &= r - 1) {
          if (!ordered(by, (old.id - 1) * kLanes + static_cast<std::uint32_t>(__builtin_ctz(r)),
                       old.clock, old.cta))
            return false;
        }
        return true;
      };
  if (cell.more == 0 || lists_.at(cell.more).empty()) {
    if (superseded(first)) {
      first = record;
      return;
    }
    if (cell.more == 0) cell.more = lists_.make();
    lists_.at(cell.more).push_back(record);
    return;
  }
  auto& list = lists_.at(cell.more);
  for (ReaderRecord& old : list) {
    if (absorb(old)) return;
  }
  for (ReaderRecord& old : list) {
    if (superseded(old)) {
      old = record;
      return;
    }
  }
  list.push_back(record);
}

void RaceDetector::check_reader(const Actor& by, const ReaderRecord& reader, const Place& place,
                                std::uint64_t offset, std::uint32_t bytes) {
  if (reader.id == 0 || (reader.site & by.site & kStrongBit) != 0) return;
  constexpr auto kKind = core::RaceKind::write_after_read;
  if (reader.id & kAgentBit) {
    const std::uint32_t agent = (reader.id - 1) & ~kAgentBit;
    if (!ordered(by, agent, reader.clock, reader.cta)) {
      found(kKind, by, true, reader.site, agent, reader.cta, false, false, place, offset, bytes);
    }
    return;
  }
  // An instruction that reads and writes (atomics) records both; it does not race with itself.
  if (!by.is_agent && reader.site == by.site && reader.clock == by.clock &&
      reader.id - 1 == by.warp_index && reader.cta == by.id_cta)
    return;
  for (std::uint32_t r = reader.mask; r != 0; r &= r - 1) {
    const std::uint32_t thread =
        (reader.id - 1) * kLanes + static_cast<std::uint32_t>(__builtin_ctz(r));
    if (!ordered(by, thread, reader.clock, reader.cta)) {
      found(kKind, by, true, reader.site, thread, reader.cta, false, false, place, offset, bytes);
      return;
    }
    if (by.async_proxy && !fenced(by, thread, reader.clock, reader.cta)) {
      found(kKind, by, true, reader.site, thread, reader.cta, false, true, place, offset, bytes);
      return;
    }
  }
}

void RaceDetector::read_cell(const Actor& by, std::uint32_t lanes, ShadowCell& cell,
                             const Place& place, std::uint64_t offset, std::uint32_t bytes) {
  check_write_before(by, cell, place, offset, bytes, false);
  record_reader(by, lanes, cell);
}

void RaceDetector::write_cell(const Actor& by, ShadowCell& cell, const Place& place,
                              std::uint64_t offset, std::uint32_t bytes) {
  check_write_before(by, cell, place, offset, bytes, true);
  check_reader(by, cell.reader, place, offset, bytes);
  check_reader(by, cell.foreign, place, offset, bytes);
  if (cell.more != 0) {
    auto& list = lists_.at(cell.more);
    for (const ReaderRecord& reader : list) check_reader(by, reader, place, offset, bytes);
    list.clear();
  }
  cell.reader.id = 0;
  cell.foreign.id = 0;
  // mbarrier operations are strong among themselves, and their init is seen to by the machine.
  const bool atomic = (by.site & kStrongBit) != 0 && !by.is_mbarrier;
  if (!atomic) {
    cell.hidden = 0;
  } else if (cell.writer != 0 && (cell.writer_site & kStrongBit) == 0) {
    cell.hidden =
        hidden_writes_.add({cell.writer - 1, cell.writer_clock, cell.writer_site, cell.writer_cta});
  }
  cell.writer = by.id + 1;
  cell.writer_clock = by.clock;
  cell.writer_site = by.site;
  cell.writer_cta = by.id_cta;
}

// 32 lanes read consecutive bytes under one clock: one pass over the cells. The order of the last
// write is looked up once per run of cells with the same writer.
bool RaceDetector::read_dense(const AccessEvent& event, const Actor& by, const Place& place) {
  if (!event.dense || event.kind != AccessKind::read || !by.warp->uniform) return false;
  const std::uint32_t id = by.warp_index + 1;
  const std::uint64_t begin =
      event.addresses[0] - (place.allocation != nullptr ? place.allocation->base : 0);
  std::uint32_t ordered_writer = 0, ordered_clock = 0, ordered_cta = 0;
  for_each_cell(place, event.addresses[0], kLanes * event.bytes,
                [&](ShadowCell& cell, std::uint64_t offset, std::uint32_t bytes) {
                  const auto lane = static_cast<std::uint32_t>((offset - begin) / event.bytes);
                  const std::uint32_t bit = 1u << lane;
                  const bool known = cell.hidden == 0 && cell.writer == ordered_writer &&
                                     cell.writer_clock == ordered_clock &&
                                     cell.writer_cta == ordered_cta;
                  if (cell.writer != 0 && !known) {
                    Actor actor = by;
                    actor.lane = lane;
                    actor.id += lane;
                    check_write_before(actor, cell, place, offset, bytes, false);
                    const std::uint32_t writer = cell.writer - 1;
                    // Only what all lanes know alike may be remembered: not the warp's own threads
                    // and agents.
                    if (cell.writer_cta != by.cta->linear || writer >= first_mbarrier_ ||
                        (writer < threads_ && writer / kLanes != by.warp_index)) {
                      if (ordered(by, writer, cell.writer_clock, cell.writer_cta)) {
                        ordered_writer = cell.writer;
                        ordered_clock = cell.writer_clock;
                        ordered_cta = cell.writer_cta;
                      }
                    }
                  }
                  ReaderRecord& reader = cell.reader;
                  if (reader.id == 0 || (reader.id == id && reader.cta == by.id_cta &&
                                         cell.more == 0 && (reader.mask & ~bit) == 0)) {
                    reader = {id, by.clock, bit, by.site, by.id_cta};
                  } else {
                    Actor actor = by;
                    actor.lane = lane;
                    actor.id += lane;
                    record_reader(actor, bit, cell);
                  }
                });
  return true;
}

void RaceDetector::on_access(const AccessEvent& event) {
  CtaState& cta = state_of(*event.warp->cta);
  WarpState& warp = cta.warps[event.warp->index];
  const Place place{event.allocation, event.owner};
  const bool strong = event.kind == AccessKind::atomic || event.instruction->order != Order::weak;
  const bool is_mbarrier =
      event.kind == AccessKind::barrier_use || event.kind == AccessKind::barrier_end;
  Actor by{&cta,
           &warp,
           event.warp->index,
           0,
           event.warp->index * kLanes,
           cta.linear,
           warp.now,
           event.instruction->site | (strong || is_mbarrier ? kStrongBit : 0),
           false,
           false,
           is_mbarrier};
  if (!read_dense(event, by, place)) {
    const auto first = static_cast<std::uint32_t>(__builtin_ctz(event.mask));
    std::uint64_t difference = 0;
    for (std::uint32_t r = event.mask; r != 0; r &= r - 1)
      difference |= event.addresses[__builtin_ctz(r)] ^ event.addresses[first];
    if (difference == 0 && is_read_only(event.kind) && warp.uniform) {  // all lanes read one place
      by.lane = first;
      by.id = event.warp->index * kLanes + first;
      for_each_cell(place, event.addresses[first], event.bytes,
                    [&](ShadowCell& cell, std::uint64_t offset, std::uint32_t bytes) {
                      const bool own = cell.writer != 0 && cell.writer - 1 < first_mbarrier_ &&
                                       (cell.writer - 1) % threads_ / kLanes == by.warp_index;
                      if (own) {  // the warp's own writes are ordered for some lanes only
                        for (std::uint32_t r = event.mask; r != 0; r &= r - 1) {
                          Actor lane_actor = by;
                          lane_actor.lane = static_cast<std::uint32_t>(__builtin_ctz(r));
                          lane_actor.id = event.warp->index * kLanes + lane_actor.lane;
                          check_write_before(lane_actor, cell, place, offset, bytes, false);
                        }
                      } else {
                        check_write_before(by, cell, place, offset, bytes, false);
                      }
                      record_reader(by, event.mask, cell);
                    });
    } else {
      for (std::uint32_t r = event.mask; r != 0; r &= r - 1) {
        by.lane = static_cast<std::uint32_t>(__builtin_ctz(r));
        by.id = event.warp->index * kLanes + by.lane;
        for_each_cell(place, event.addresses[by.lane], event.bytes,
                      [&](ShadowCell& cell, std::uint64_t offset, std::uint32_t bytes) {
                        if (is_read_only(event.kind))
                          read_cell(by, 1u << by.lane, cell, place, offset, bytes);
                        else
                          write_cell(by, cell, place, offset, bytes);
                      });
      }
    }
  }
  if (strong && !is_mbarrier) synchronise(event);
}

// The agent that performs a copy reads and writes at its issue, as far as order goes: whatever is
// not ordered before the issue, or behind the completion, may meet the copy.
void RaceDetector::on_copy_issued(const CopyEvent& event) {
  CtaState& cta = state_of(*event.warp->cta);
  WarpState& warp = cta.warps[event.warp->index];
  const std::uint32_t thread = event.warp->index * kLanes + event.lane;
  Actor by{&cta,       &warp,       event.warp->index,       event.lane, 0,
           cta.linear, event.group, event.instruction->site, true,       true};
  for (const CopyPiece& piece : event.pieces) {
    switch (event.agent) {
    case CopyAgent::cp_async:
      by.id = copy_agent(thread);
      by.async_proxy = false;
      break;
    case CopyAgent::bulk_group: by.id = bulk_agent(cta, thread, piece.writes); break;
    case CopyAgent::mbarrier: {
      // The mbarrier may belong to another CTA of the cluster, as does the memory that is written.
      CtaState* owner = &cta;
      for (const CopyPiece& other : event.pieces) {
        if (other.owner != nullptr) owner = &state_of(*other.owner);
      }
      by.id = mbarrier_agent(event.mbarrier->slot);
      by.id_cta = owner->linear;
      by.clock = copy_clock(mbarrier_state(*owner, *event.mbarrier), *event.mbarrier);
      break;
    }
    }
    const Place place{piece.allocation, piece.owner};
    for_each_cell(place, piece.address, piece.bytes,
                  [&](ShadowCell& cell, std::uint64_t offset, std::uint32_t bytes) {
                    if (piece.writes)
                      write_cell(by, cell, place, offset, bytes);
                    else
                      read_cell(by, 1, cell, place, offset, bytes);
                  });
  }
}

std::uint32_t RaceDetector::group_of(std::uint32_t site) const {
  const int location = program_->sites[site].location;
  return location < 0 ? 0x80000000u | site : static_cast<std::uint32_t>(location);
}

void RaceDetector::found(core::RaceKind kind, const Actor& second, bool second_writes,
                         std::uint32_t first_site, std::uint32_t first_actor,
                         std::uint32_t first_cta, bool first_writes, bool missing_fence,
                         const Place& place, std::uint64_t offset, std::uint32_t bytes) {
  first_site &= ~kStrongBit;
  const std::uint32_t second_site = second.site & ~kStrongBit;
  const bool shared = place.owner != nullptr;
  // One group per pair of source positions: an unrolled loop has many instructions on one line.
  const auto [it, fresh] = races_.try_emplace(
      {static_cast<int>(kind), group_of(first_site), group_of(second_site), missing_fence, shared});
  Race& race = it->second;
  if (!fresh) {
    ++race.count;
    race.begin = std::min(race.begin, offset);
    race.end = std::max(race.end, offset + bytes);
    return;
  }
  race.kind = kind;
  race.first_site = first_site;
  race.second_site = second_site;
  race.first_actor = first_actor;
  race.first_cta = first_cta;
  race.second_actor = second.id;
  race.second_cta = second.id_cta;
  race.first_async = in_async_proxy(first_actor);
  race.second_async = second.async_proxy;
  race.first_writes = first_writes;
  race.second_writes = second_writes;
  race.missing_fence = missing_fence;
  race.note = missing_fence && lenient_ && !first_writes;
  race.cross_cta = first_cta != second.id_cta;
  race.space = shared ? core::MemorySpace::shared : core::MemorySpace::global;
  if (place.allocation != nullptr) race.buffer = place.allocation->name;
  race.begin = offset;
  race.end = offset + bytes;
  race.count = 1;
}

}  // namespace faultline::simulator
