// SPDX-License-Identifier: Apache-2.0
// Device allocations with names and bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "machine/address.hpp"
#include "machine/host_pages.hpp"

namespace faultline::simulator {

struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  std::string name;
  std::uint32_t id = 0;  // never reused
  HostPages storage;
  std::uint8_t* bytes = nullptr;  // of `storage`
  bool contains(std::uint64_t address, std::uint64_t count) const {
    return address - base < size && size - (address - base) >= count;
  }
};

class GlobalMemory {
 public:
  // Addresses depend only on what is allocated now: reports are the same on every machine and in
  // every process. Variables of modules live apart from buffers.
  Allocation& allocate(std::string name, std::uint64_t size, bool is_variable = false) {
    std::uint64_t& next = is_variable ? next_variable_ : next_;
    auto allocation = std::make_unique<Allocation>();
    allocation->base = next + (is_variable ? 0 : offset_);
    allocation->size = size;
    allocation->name = std::move(name);
    allocation->id = next_id_++;
    allocation->storage = HostPages(size);
    allocation->bytes = allocation->storage.data();
    next = behind(*allocation);
    const auto place =
        std::upper_bound(allocations_.begin(), allocations_.end(), allocation->base,
                         [](std::uint64_t value, const auto& a) { return value < a->base; });
    return **allocations_.insert(place, std::move(allocation));
  }
  // Buffers made from now on begin so many bytes behind a multiple of 256.
  void set_offset(std::uint64_t bytes) { offset_ = bytes; }
  void release(std::uint64_t base) {
    std::erase_if(allocations_, [&](const auto& a) { return a->base == base; });
    next_ = kGlobalBase;
    for (const auto& a : allocations_) {
      if (a->base < kVariableBase) next_ = behind(*a);
    }
  }
  Allocation* find(std::uint64_t address) const {
    auto it = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                               [](std::uint64_t value, const auto& a) { return value < a->base; });
    if (it == allocations_.begin()) return nullptr;
    Allocation* candidate = (--it)->get();
    return address - candidate->base < candidate->size ? candidate : nullptr;
  }
  // For messages about addresses outside every allocation; nullptr when there is none at all.
  const Allocation* nearest(std::uint64_t address) const {
    const Allocation* best = nullptr;
    std::uint64_t distance = ~std::uint64_t{0};
    for (const auto& a : allocations_) {
      const std::uint64_t d = address < a->base ? a->base - address : address - (a->base + a->size);
      if (d < distance) {
        distance = d;
        best = a.get();
      }
    }
    return best;
  }
  const std::vector<std::unique_ptr<Allocation>>& allocations() const { return allocations_; }

 private:
  static constexpr std::uint64_t kGuard = 4096;
  // Where the next one may begin.
  static std::uint64_t behind(const Allocation& a) {
    return (a.base + a.size + kGuard + 255) / 256 * 256;
  }
  std::vector<std::unique_ptr<Allocation>> allocations_;  // by ascending base
  std::uint64_t next_ = kGlobalBase;
  std::uint64_t next_variable_ = kVariableBase;
  std::uint64_t offset_ = 0;
  std::uint32_t next_id_ = 1;
};

}  // namespace faultline::simulator
