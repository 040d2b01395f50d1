// SPDX-License-Identifier: Apache-2.0
// cp.async and bulk copies. PTX ISA, "cp.async", "cp.async.bulk", "cp.async.bulk.tensor". Bytes
// move when the scheduler completes the copy, never before it was issued.
#include <cstring>

#include "exec/effects.hpp"
#include "exec/memory_access.hpp"
#include "faultline/simulator/tensor_map.hpp"

namespace faultline::simulator {
namespace {

std::uint32_t thread_of(const Warp& warp, std::uint32_t lane) { return warp.index * kLanes + lane; }

void land(const CpAsyncCopy& copy) {
  std::memcpy(copy.to, copy.from, copy.source_bytes);
  std::memset(copy.to + copy.source_bytes, 0,
              static_cast<std::size_t>(copy.bytes - copy.source_bytes));
}

void land_all(std::vector<CpAsyncCopy>& copies) {
  for (const CpAsyncCopy& copy : copies) land(copy);
  copies.clear();
}

void cp_async_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Cta& cta = *warp.cta;
  Machine& machine = *cta.machine;
  const auto* to = warp.lane_values<std::uint32_t>(i.s[0]);
  const auto* from = warp.lane_values<std::uint64_t>(i.s[1]);
  bool early = machine.lateness() == core::CopyLateness::eager;
  if (machine.lateness() == core::CopyLateness::random) early = machine.policy().lands_early();
  std::uint32_t ignored = 0;
  if (i.s[3] != kNoRegister)
    ignored = i.sign_extend ? ~warp.predicate(i.s[3]) : warp.predicate(i.s[3]);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    std::uint32_t source_bytes =
        i.s[2] == kNoRegister ? i.bytes : warp.lane_values<std::uint32_t>(i.s[2])[lane];
    if ((ignored >> lane) & 1) source_bytes = 0;
    if (source_bytes > i.bytes) {
      machine.fault(warp, i, lane,
                    "cp.async: the source size " + std::to_string(source_bytes) +
                        " exceeds the copy size " + std::to_string(i.bytes));
    }
    if (to[lane] % i.bytes != 0 || (source_bytes != 0 && from[lane] % i.bytes != 0)) {
      machine.fault(warp, i, lane,
                    "cp.async: misaligned address for a copy of " + std::to_string(i.bytes) +
                        " bytes");
    }
    const Object target = find_object(warp, i, Space::shared, lane, to[lane], i.bytes);
    CpAsyncCopy copy{target.bytes + (to[lane] - target.base), nullptr, i.bytes,
                     static_cast<std::uint8_t>(source_bytes)};
    Object source;
    if (source_bytes != 0) {
      source = find_object(warp, i, Space::global, lane, from[lane], source_bytes);
      copy.from = source.bytes + (from[lane] - source.base);
    } else {
      copy.from = copy.to;  // nothing is read
    }
    CpAsyncThread& thread = cta.cp_async[thread_of(warp, lane)];
    if (machine.observed()) {
      const CopyPiece pieces[2] = {{to[lane] - target.base, i.bytes, true, nullptr, target.owner},
                                   {from[lane], source_bytes, false, source.allocation, nullptr}};
      const auto group = static_cast<std::uint32_t>(thread.finished + thread.groups.size() + 1);
      const CopyEvent event{&warp,
                            lane,
                            &i,
                            CopyAgent::cp_async,
                            nullptr,
                            group,
                            std::span<const CopyPiece>(pieces, source_bytes != 0 ? 2 : 1)};
      for (Observer* observer : machine.observers()) observer->on_copy_issued(event);
    }
    if (early)
      land(copy);
    else
      thread.open.push_back(copy);
  }
}

void cp_async_commit_effect(Warp& warp, const Instruction&, std::uint32_t mask) {
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    CpAsyncThread& thread =
        warp.cta->cp_async[thread_of(warp, static_cast<std::uint32_t>(__builtin_ctz(r)))];
    thread.groups.push_back(std::move(thread.open));
    thread.open.clear();
  }
}

void cp_async_wait_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Machine& machine = *warp.cta->machine;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    CpAsyncThread& thread = warp.cta->cp_async[thread_of(warp, lane)];
    if (i.extra == 1) {  // wait_all: as if the open copies were committed
      thread.groups.push_back(std::move(thread.open));
      thread.open.clear();
    }
    while (thread.groups.size() > i.variant) {
      land_all(thread.groups.front());
      thread.groups.pop_front();
      ++thread.finished;
    }
    for (Observer* observer : machine.observers())
      observer->on_cp_async_waited(warp, lane, thread.finished);
  }
  machine.made_progress();
}

// The arrival is triggered by the completion of the thread's earlier copies: they land now, the
// arrival may come later.
void cp_async_mbarrier_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Machine& machine = *warp.cta->machine;
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    CpAsyncThread& thread = warp.cta->cp_async[thread_of(warp, lane)];
    for (auto& group : thread.groups) land_all(group);
    land_all(thread.open);
    Cta* owner = nullptr;
    const std::uint32_t offset = shared_offset(warp, i, lane, addresses[lane], 8, owner);
    Mbarrier& barrier = machine.find_mbarrier(warp, i, lane, *owner, offset);
    if (i.variant == 0) ++barrier.pending;  // without .noinc the arrival brings its own count
    const auto group = static_cast<std::uint32_t>(thread.finished + thread.groups.size() + 1);
    PendingCopy arrival;
    arrival.cta = warp.cta;
    arrival.number = warp.cta->copies_issued++;
    arrival.site = i.site;
    arrival.warp = warp.index;
    arrival.lane = lane;
    arrival.complete = [&warp, &i, &machine, owner, offset, lane, group] {
      Mbarrier& found = machine.find_mbarrier(warp, i, lane, *owner, offset);
      if (found.pending == 0)
        machine.fault(warp, i, lane,
                      "mbarrier " + machine.mbarrier_name(offset) +
                          ": more arrivals than expected");
      for (Observer* observer : machine.observers())
        observer->on_cp_async_arrive(warp, lane, *owner, found, group);
      machine.mbarrier_arrive(*owner, found, 1);
    };
    machine.issue_copy(std::move(arrival));
  }
}

// ---- bulk copies --------------------------------------------------------------------------------

// A bulk copy of one thread on its way: pieces to tell observers about, and how to move the bytes.
struct BulkCopy {
  std::vector<CopyPiece> pieces;
  std::function<void()> move;
  std::uint32_t bytes = 0;
};

void issue_bulk(Warp& warp, const Instruction& i, std::uint32_t lane, BulkCopy bulk) {
  Cta& cta = *warp.cta;
  Machine& machine = *cta.machine;
  const bool to_global = (i.variant & kBulkToGlobal) != 0;
  PendingCopy copy;
  copy.cta = &cta;
  copy.number = cta.copies_issued++;
  copy.site = i.site;
  copy.warp = warp.index;
  copy.lane = lane;
  CopyEvent event{&warp, lane, &i, CopyAgent::bulk_group, nullptr, 0, bulk.pieces};
  if (to_global) {
    BulkThread& thread = cta.bulk[thread_of(warp, lane)];
    event.group = static_cast<std::uint32_t>(thread.finished + thread.groups.size() + 1);
    thread.open.push_back(copy.number);
    copy.complete = std::move(bulk.move);
  } else {
    Cta* owner = nullptr;
    const std::uint32_t address = warp.lane_values<std::uint32_t>(i.s[3])[lane];
    Instruction as_shared = i;
    as_shared.space = Space::shared;
    const std::uint32_t offset = shared_offset(warp, as_shared, lane, address, 8, owner);
    Mbarrier& barrier = machine.find_mbarrier(warp, i, lane, *owner, offset);
    if (machine.observed())
      notify_shared(warp, i, 1u << lane, *owner, offset, 8, AccessKind::barrier_use);
    event.agent = CopyAgent::mbarrier;
    event.mbarrier = &barrier;
    copy.complete = [&warp, &i, &machine, owner, offset, lane, bytes = bulk.bytes,
                     move = std::move(bulk.move)] {
      move();
      machine.mbarrier_complete_bytes(*owner, machine.find_mbarrier(warp, i, lane, *owner, offset),
                                      bytes, i.site);
    };
  }
  for (Observer* observer : machine.observers()) observer->on_copy_issued(event);
  machine.issue_copy(std::move(copy));
}

void bulk_copy_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Machine& machine = *warp.cta->machine;
  const bool to_global = (i.variant & kBulkToGlobal) != 0;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    const std::uint32_t shared_address = warp.lane_values<std::uint32_t>(i.s[0])[lane];
    const std::uint64_t global_address = warp.lane_values<std::uint64_t>(i.s[1])[lane];
    const std::uint32_t bytes = warp.lane_values<std::uint32_t>(i.s[2])[lane];
    if (shared_address % 16 != 0 || global_address % 16 != 0 || bytes % 16 != 0) {
      machine.fault(
          warp, i, lane,
          "cp.async.bulk: addresses and size must be multiples of 16, got shared offset " +
              std::to_string(shared_address) + ", global address mod 16 = " +
              std::to_string(global_address % 16) + ", " + std::to_string(bytes) + " bytes");
    }
    if (bytes == 0) machine.fault(warp, i, lane, "cp.async.bulk: a copy of zero bytes");
    const Object shared = find_object(warp, i, Space::shared, lane, shared_address, bytes);
    const Object global = find_object(warp, i, Space::global, lane, global_address, bytes);
    BulkCopy bulk;
    bulk.bytes = bytes;
    bulk.pieces = {{global_address, bytes, to_global, global.allocation, nullptr},
                   {shared_address - shared.base, bytes, !to_global, nullptr, shared.owner}};
    std::uint8_t* in_shared = shared.bytes + (shared_address - shared.base);
    std::uint8_t* in_global = global.bytes + (global_address - global.base);
    if (to_global)
      bulk.move = [=] { std::memcpy(in_global, in_shared, bytes); };
    else
      bulk.move = [=] { std::memcpy(in_shared, in_global, bytes); };
    issue_bulk(warp, i, lane, std::move(bulk));
  }
}

// PTX ISA, "Tensor swizzling modes": 16-byte chunks are permuted by address bits 7 and up.
std::uint32_t swizzled(std::uint32_t address, TensorMapSpec::Swizzle swizzle) {
  const std::uint32_t bits = (1u << static_cast<int>(swizzle)) - 1;
  return address ^ (((address >> 7) & bits) << 4);
}

// One row of a box: `bytes` contiguous in shared memory before swizzling.
struct BoxRow {
  std::uint32_t shared_offset;
  std::uint64_t global_address;  // of element x = 0 of this row
  bool inside;                   // all outer coordinates in bounds
};

void bulk_tensor_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Machine& machine = *warp.cta->machine;
  const bool to_global = (i.variant & kBulkToGlobal) != 0;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    const std::uint32_t shared_address = warp.lane_values<std::uint32_t>(i.s[0])[lane];
    const std::uint64_t map_address = warp.lane_values<std::uint64_t>(i.s[1])[lane];
    const Object map_object = find_object(warp, i, Space::generic, lane, map_address, 128);
    TensorMapSpec map;
    if (!decode_tensor_map(map_object.bytes + (map_address - map_object.base), map)) {
      machine.fault(warp, i, lane,
                    "the tensor map was not encoded by this simulator (a driver's map is opaque)");
    }
    if (map.rank != i.extra_count) {
      machine.fault(warp, i, lane,
                    "the tensor map has rank " + std::to_string(map.rank) + ", the instruction " +
                        std::to_string(i.extra_count));
    }
    if (shared_address % 128 != 0) {
      machine.fault(warp, i, lane,
                    "cp.async.bulk.tensor: the shared address " + std::to_string(shared_address) +
                        " must be 128-byte aligned");
    }
    std::int64_t start[5] = {};
    for (std::uint32_t k = 0; k < map.rank; ++k) {
      start[k] = warp.lane_values<std::int32_t>(machine.program().extra[i.extra + k])[lane];
    }
    const std::uint32_t row_bytes = map.box[0] * map.element_bytes;
    std::uint32_t rows = 1;
    for (std::uint32_t k = 1; k < map.rank; ++k) rows *= map.box[k];
    const std::uint32_t bytes = rows * row_bytes;
    const Object shared = find_object(warp, i, Space::shared, lane, shared_address, bytes);
    const auto base = static_cast<std::uint32_t>(shared_address - shared.base);
    // Elements [first, last) of a row are inside the tensor.
    const std::int64_t width = static_cast<std::int64_t>(map.dims[0]);
    const std::int64_t first = start[0] < 0 ? std::min<std::int64_t>(-start[0], map.box[0]) : 0;
    const std::int64_t last = std::max(first, std::min<std::int64_t>(map.box[0], width - start[0]));
    BulkCopy bulk;
    bulk.bytes = bytes;
    bulk.pieces.push_back({base, bytes, !to_global, nullptr, shared.owner});
    std::vector<std::pair<BoxRow, std::uint8_t*>> plan;
    for (std::uint32_t row = 0; row < rows; ++row) {
      BoxRow at{row * row_bytes, map.address, true};
      std::uint32_t rest = row;
      for (std::uint32_t k = 1; k < map.rank; ++k) {
        const std::int64_t index = start[k] + static_cast<std::int64_t>(rest % map.box[k]);
        rest /= map.box[k];
        at.inside = at.inside && index >= 0 && index < static_cast<std::int64_t>(map.dims[k]);
        at.global_address += static_cast<std::uint64_t>(index) * map.strides_bytes[k - 1];
      }
      std::uint8_t* host = nullptr;
      if (at.inside && last > first) {
        const std::uint64_t address =
            at.global_address + static_cast<std::uint64_t>(start[0] + first) * map.element_bytes;
        const auto count = static_cast<std::uint32_t>(last - first) * map.element_bytes;
        const Object global = find_object(warp, i, Space::global, lane, address, count);
        host = global.bytes + (address - global.base);
        bulk.pieces.push_back({address, count, to_global, global.allocation, nullptr});
      }
      plan.emplace_back(at, host);
    }
    std::uint8_t* memory = shared.bytes;
    const auto first_byte = static_cast<std::uint32_t>(first) * map.element_bytes;
    const auto end_byte = static_cast<std::uint32_t>(last) * map.element_bytes;
    bulk.move = [=, swizzle = map.swizzle] {
      for (const auto& [row, host] : plan) {
        for (std::uint32_t chunk = 0; chunk < row_bytes; chunk += 16) {
          std::uint8_t* at = memory + swizzled(base + row.shared_offset + chunk, swizzle);
          for (std::uint32_t k = chunk; k < chunk + 16; ++k, ++at) {
            const bool valid = host != nullptr && k >= first_byte && k < end_byte;
            if (to_global) {
              if (valid) host[k - first_byte] = *at;
            } else {
              *at = valid ? host[k - first_byte] : 0;
            }
          }
        }
      }
    };
    issue_bulk(warp, i, lane, std::move(bulk));
  }
}

void bulk_commit_effect(Warp& warp, const Instruction&, std::uint32_t mask) {
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    BulkThread& thread =
        warp.cta->bulk[thread_of(warp, static_cast<std::uint32_t>(__builtin_ctz(r)))];
    thread.groups.push_back(std::move(thread.open));
    thread.open.clear();
  }
}

void bulk_wait_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Machine& machine = *warp.cta->machine;
  const bool read_only = (i.variant & kBulkRead) != 0;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    BulkThread& thread = warp.cta->bulk[thread_of(warp, lane)];
    while (thread.groups.size() > (i.variant & 0xff)) {
      machine.complete_copies_of(*warp.cta, thread.groups.front());
      thread.groups.pop_front();
      ++thread.finished;
    }
    for (Observer* observer : machine.observers())
      observer->on_bulk_waited(warp, lane, thread.finished, read_only);
  }
  machine.made_progress();
}

}  // namespace

namespace effects {

EffectHandler cp_async() { return cp_async_effect; }
EffectHandler cp_async_commit() { return cp_async_commit_effect; }
EffectHandler cp_async_wait() { return cp_async_wait_effect; }
EffectHandler cp_async_mbarrier_arrive() { return cp_async_mbarrier_effect; }
EffectHandler bulk_copy() { return bulk_copy_effect; }
EffectHandler bulk_tensor_copy() { return bulk_tensor_effect; }
EffectHandler bulk_commit() { return bulk_commit_effect; }
EffectHandler bulk_wait() { return bulk_wait_effect; }

}  // namespace effects
}  // namespace faultline::simulator
