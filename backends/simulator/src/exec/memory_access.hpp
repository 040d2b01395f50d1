// SPDX-License-Identifier: Apache-2.0
// From the addresses of a warp to bytes of the host, with every bound checked.
#pragma once

#include <string>

#include "exec/lanes.hpp"
#include "machine/address.hpp"
#include "machine/machine.hpp"

namespace faultline::simulator {

// One thing that addresses point into: an allocation, the shared memory of a CTA, a thread's frame.
struct Object {
  std::uint8_t* bytes = nullptr;  // host memory of `base`
  std::uint64_t base = 0;         // in the address space of the instruction
  std::uint64_t size = 0;
  Allocation* allocation = nullptr;  // global
  Cta* owner = nullptr;              // shared
  bool is_visible() const { return allocation != nullptr || owner != nullptr; }
};

inline void gather_addresses(Warp& warp, const Instruction& i, std::uint32_t mask,
                             std::uint64_t* addresses) {
  const auto offset = static_cast<std::uint64_t>(i.offset);
  if (i.wide_address) {
    const auto* base = lanes_of<std::uint64_t>(warp.registers, i.s[0]);
    for_each_lane(mask, [&](int l) { addresses[l] = base[l] + offset; });
  } else {
    const auto* base = lanes_of<std::uint32_t>(warp.registers, i.s[0]);
    for_each_lane(mask,
                  [&](int l) { addresses[l] = base[l] + static_cast<std::uint32_t>(offset); });
  }
}

// The object that one lane's address lies in. Faults when there is none.
Object find_object(Warp& warp, const Instruction& i, Space space, std::uint32_t lane,
                   std::uint64_t address, std::uint64_t bytes);

[[noreturn]] void fault_out_of_bounds(Warp& warp, const Instruction& i, Space space,
                                      std::uint32_t lane, std::uint64_t address,
                                      std::uint64_t bytes);

// Shared address (generic or not) of one lane -> offset in its owner. Faults outside.
std::uint32_t shared_offset(Warp& warp, const Instruction& i, std::uint32_t lane,
                            std::uint64_t address, std::uint32_t bytes, Cta*& owner);

void check_alignment(Warp& warp, const Instruction& i, std::uint32_t mask,
                     const std::uint64_t* addresses, std::uint32_t bytes);

// All lanes of `mask` access the same `bytes` at `offset` of shared memory.
void notify_shared(Warp& warp, const Instruction& i, std::uint32_t mask, Cta& owner,
                   std::uint32_t offset, std::uint32_t bytes, AccessKind kind);

void notify_access(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                   const std::uint64_t* addresses, std::uint32_t bytes, AccessKind kind,
                   bool dense);

inline bool is_dense(std::uint32_t mask, const std::uint64_t* addresses, std::uint32_t bytes) {
  if (mask != kAllLanes) return false;
  std::uint64_t difference = 0;
  for (std::uint32_t l = 0; l < kLanes; ++l)
    difference |= addresses[l] ^ (addresses[0] + l * bytes);
  return difference == 0;
}

// Calls body(object, lanes) once per object that the lanes of `mask` point into.
template <class Body>
void for_each_object(Warp& warp, const Instruction& i, std::uint32_t mask,
                     const std::uint64_t* addresses, std::uint64_t bytes, Body body) {
  for (std::uint32_t rest = mask; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const Object object = find_object(warp, i, i.space, lane, addresses[lane], bytes);
    std::uint32_t inside = 0;
    if (!object.is_visible()) {
      inside = 1u << lane;  // every thread has its own frame
    } else if (rest == kAllLanes) {
      std::uint64_t outside = 0;
      const std::uint64_t last = object.size - bytes;
      for (std::uint32_t l = 0; l < kLanes; ++l)
        outside |= static_cast<std::uint64_t>(addresses[l] - object.base > last);
      if (outside == 0) inside = kAllLanes;
    }
    if (inside == 0) {
      for (std::uint32_t r = rest; r != 0; r &= r - 1) {
        const auto l = static_cast<std::uint32_t>(__builtin_ctz(r));
        if (addresses[l] - object.base <= object.size - bytes) inside |= 1u << l;
      }
    }
    body(object, inside);
    rest &= ~inside;
  }
}

}  // namespace faultline::simulator
