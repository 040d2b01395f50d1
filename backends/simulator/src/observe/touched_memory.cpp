// SPDX-License-Identifier: Apache-2.0
#include "observe/touched_memory.hpp"

#include <algorithm>

#include "machine/machine.hpp"

namespace faultline::simulator {

void TouchedMemory::touch(TouchedAllocation& allocation, std::uint64_t offset, std::uint64_t bytes,
                          Touch touch, std::uint32_t site) {
  const auto kind = static_cast<std::size_t>(touch);
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    auto& page = allocation.pages[offset / kTouchedPageBytes];
    if (page == nullptr) page = std::make_unique<TouchedPage>();
    const std::uint64_t page_end = (offset / kTouchedPageBytes + 1) * kTouchedPageBytes;
    for (const std::uint64_t stop = std::min(end, page_end); offset < stop;) {
      const std::uint64_t in_cell = offset % kTouchedCellBytes;
      const std::uint64_t count = std::min(kTouchedCellBytes - in_cell, stop - offset);
      TouchedCell& cell = (*page)[offset % kTouchedPageBytes / kTouchedCellBytes];
      if (cell.bytes[kind] == 0) cell.site[kind] = site;
      cell.bytes[kind] |= static_cast<std::uint8_t>(((1u << count) - 1) << in_cell);
      offset += count;
    }
  }
}

void TouchedMemory::add(std::uint64_t base, const std::string& name, std::uint64_t offset,
                        std::uint64_t bytes, Touch kind) {
  TouchedAllocation& allocation = allocations_[base];
  allocation.name = name;
  touch(allocation, offset, bytes, kind, 0);
}

TouchedAllocation& TouchedMemory::of(const Allocation& allocation) {
  if (last_ != &allocation) {
    last_ = &allocation;
    last_touched_ = &allocations_[allocation.base];
    last_touched_->name = allocation.name;
  }
  return *last_touched_;
}

void TouchedMemory::on_cta_begin(Cta& cta) { program_ = &cta.machine->program(); }

void TouchedMemory::on_access(const AccessEvent& event) {
  if (event.allocation == nullptr) return;  // shared memory: no other launch sees it
  const bool strong = event.kind == AccessKind::atomic || event.instruction->order != Order::weak;
  const bool writes = !is_read_only(event.kind);
  const Touch kind = strong ? (writes ? Touch::strong_write : Touch::strong_read)
                            : (writes ? Touch::write : Touch::read);
  TouchedAllocation& allocation = of(*event.allocation);
  const std::uint64_t base = event.allocation->base;
  if (event.dense) {
    touch(allocation, event.addresses[0] - base, std::uint64_t{kLanes} * event.bytes, kind,
          event.instruction->site);
    return;
  }
  for (std::uint32_t rest = event.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    touch(allocation, event.addresses[lane] - base, event.bytes, kind, event.instruction->site);
  }
}

void TouchedMemory::on_copy_issued(const CopyEvent& event) {
  for (const CopyPiece& piece : event.pieces) {
    if (piece.allocation == nullptr) continue;
    touch(of(*piece.allocation), piece.address - piece.allocation->base, piece.bytes,
          piece.writes ? Touch::write : Touch::read, event.instruction->site);
  }
}

}  // namespace faultline::simulator
