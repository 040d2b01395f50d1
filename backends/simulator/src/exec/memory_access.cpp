// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_access.hpp"

#include <cstdio>

namespace faultline::simulator {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

bool in_window(std::uint64_t address, std::uint64_t window, std::uint64_t end) {
  return address >= window && address < end;
}

}  // namespace

void fault_out_of_bounds(Warp& warp, const Instruction& i, Space space, std::uint32_t lane,
                         std::uint64_t address, std::uint64_t bytes) {
  Machine& machine = *warp.cta->machine;
  const char* verb =
      std::string_view(machine.program().opcode_at(i.site)).starts_with("st") ? "write" : "read";
  std::string what =
      std::string("illegal address: ") + verb + " of " + std::to_string(bytes) + " bytes at ";
  const bool shared = space == Space::shared || in_window(address, kSharedWindow, kLocalWindow);
  if (shared) {
    const std::uint64_t offset = space == Space::shared ? address : address - kSharedWindow;
    what += "shared offset " + std::to_string(offset) + ", outside the " +
            std::to_string(warp.cta->shared.size()) + " bytes of shared memory of the CTA";
  } else if (space == Space::local || in_window(address, kLocalWindow, kParamWindow)) {
    what += "local offset " +
            std::to_string(space == Space::local ? address : address - kLocalWindow) +
            ", outside the thread's " + std::to_string(machine.program().local_bytes) + " bytes";
  } else if (in_window(address, kParamWindow, kWindowEnd)) {
    what += "parameter offset " + std::to_string(address - kParamWindow) + ", outside the " +
            std::to_string(machine.parameters().size()) + " bytes of parameters";
  } else {
    what += hexadecimal(address);
    if (const Allocation* nearest = machine.memory().nearest(address)) {
      const std::int64_t distance = static_cast<std::int64_t>(address - nearest->base);
      what += distance < 0 ? ", " + std::to_string(-distance) + " bytes before the start of"
                           : ", at byte " + std::to_string(distance) + " of";
      what += " buffer " + nearest->name + " (" + std::to_string(nearest->size) + " bytes)";
    } else {
      what += ", and no buffer is allocated";
    }
  }
  machine.fault(warp, i, lane, what);
}

Object find_object(Warp& warp, const Instruction& i, Space space, std::uint32_t lane,
                   std::uint64_t address, std::uint64_t bytes) {
  Cta& cta = *warp.cta;
  Machine& machine = *cta.machine;
  Object object;
  const bool generic = space == Space::generic;
  if (space == Space::shared || (generic && in_window(address, kSharedWindow, kLocalWindow))) {
    const std::uint64_t window =
        generic ? kSharedWindow : (address >= kSharedWindow ? kSharedWindow : 0);
    const std::uint64_t inside = address - window;
    const std::uint64_t rank_field = inside >> kSharedRankShift;
    Cta* owner = &cta;
    if (rank_field != 0) {
      if (rank_field > cta.cluster->size())
        fault_out_of_bounds(warp, i, space, lane, address, bytes);
      owner = (*cta.cluster)[rank_field - 1];
    }
    object.bytes = owner->shared.data();
    object.base = window + (rank_field << kSharedRankShift);
    object.size = owner->shared.size();
    object.owner = owner;
  } else if (space == Space::local || (generic && in_window(address, kLocalWindow, kParamWindow))) {
    const std::uint64_t frame = machine.program().local_bytes;
    object.bytes = cta.local.data() + (warp.index * kLanes + lane) * frame;
    object.base = generic || address >= kLocalWindow ? kLocalWindow : 0;
    object.size = frame;
  } else if (in_window(address, kParamWindow, kWindowEnd)) {
    object.bytes = const_cast<std::uint8_t*>(
        reinterpret_cast<const std::uint8_t*>(machine.parameters().data()));
    object.base = kParamWindow;
    object.size = machine.parameters().size();
  } else {
    Allocation* allocation = machine.memory().find(address);
    if (allocation == nullptr) fault_out_of_bounds(warp, i, space, lane, address, bytes);
    object.bytes = allocation->bytes;
    object.base = allocation->base;
    object.size = allocation->size;
    object.allocation = allocation;
  }
  if (object.size < bytes || address - object.base > object.size - bytes) {
    fault_out_of_bounds(warp, i, space, lane, address, bytes);
  }
  return object;
}

std::uint32_t shared_offset(Warp& warp, const Instruction& i, std::uint32_t lane,
                            std::uint64_t address, std::uint32_t bytes, Cta*& owner) {
  const Space space = i.space == Space::shared ? Space::shared : Space::generic;
  const Object object = find_object(warp, i, space, lane, address, bytes);
  if (object.owner == nullptr) {
    warp.cta->machine->fault(warp, i, lane,
                             "address " + hexadecimal(address) + " is not in shared memory");
  }
  owner = object.owner;
  const auto offset = static_cast<std::uint32_t>(address - object.base);
  if (bytes == 8 && offset % 8 != 0) {
    warp.cta->machine->fault(warp, i, lane,
                             "mbarrier at shared offset " + std::to_string(offset) +
                                 " is not 8-byte aligned");
  }
  return offset;
}

void check_alignment(Warp& warp, const Instruction& i, std::uint32_t mask,
                     const std::uint64_t* addresses, std::uint32_t bytes) {
  std::uint64_t low = 0;
  for_each_lane(mask, [&](int l) { low |= addresses[l]; });
  if ((low & (bytes - 1)) == 0) return;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    if ((addresses[lane] & (bytes - 1)) == 0) continue;
    warp.cta->machine->fault(warp, i, lane,
                             "misaligned address " + hexadecimal(addresses[lane]) +
                                 ": an access of " + std::to_string(bytes) + " bytes needs " +
                                 std::to_string(bytes) + "-byte alignment");
  }
}

void notify_shared(Warp& warp, const Instruction& i, std::uint32_t mask, Cta& owner,
                   std::uint32_t offset, std::uint32_t bytes, AccessKind kind) {
  std::uint64_t addresses[kLanes] = {};
  for (std::uint64_t& address : addresses) address = offset;
  const AccessEvent event{&warp, &i, mask, addresses, bytes, kind, nullptr, &owner, false};
  for (Observer* observer : warp.cta->machine->observers()) observer->on_access(event);
}

void notify_access(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                   const std::uint64_t* addresses, std::uint32_t bytes, AccessKind kind,
                   bool dense) {
  if (!object.is_visible()) return;
  std::uint64_t relative[kLanes] = {};
  const std::uint64_t* seen = addresses;
  if (object.owner != nullptr && object.base != 0) {
    for_each_lane(mask, [&](int l) { relative[l] = addresses[l] - object.base; });
    seen = relative;
  }
  const AccessEvent event{&warp,        &i,   mask, seen, bytes, kind, object.allocation,
                          object.owner, dense};
  for (Observer* observer : warp.cta->machine->observers()) observer->on_access(event);
}

}  // namespace faultline::simulator
