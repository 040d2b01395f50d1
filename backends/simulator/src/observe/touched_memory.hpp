// SPDX-License-Identifier: Apache-2.0
// Which bytes of global memory one launch, copy or fill touched, and with which instruction first.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "observe/observer.hpp"

namespace faultline::simulator {

enum class Touch : std::uint8_t { read, write, strong_read, strong_write };
inline constexpr std::size_t kTouches = 4;
inline constexpr bool is_strong(Touch touch) { return touch >= Touch::strong_read; }
inline constexpr bool is_write(Touch touch) {
  return touch == Touch::write || touch == Touch::strong_write;
}

struct TouchedCell {                           // 4 bytes of memory
  std::array<std::uint8_t, kTouches> bytes{};  // a bit each
  std::array<std::uint32_t, kTouches> site{};  // of the first instruction that touched one of them
};
inline constexpr std::uint64_t kTouchedCellBytes = 4, kTouchedPageBytes = 1024;
using TouchedPage = std::array<TouchedCell, kTouchedPageBytes / kTouchedCellBytes>;

struct TouchedAllocation {
  std::string name;
  std::map<std::uint64_t, std::unique_ptr<TouchedPage>> pages;  // by offset / kTouchedPageBytes
};

class TouchedMemory final : public Observer {
 public:
  // `bytes` bytes from an offset on in the allocation at `base`, by no instruction.
  void add(std::uint64_t base, const std::string& name, std::uint64_t offset, std::uint64_t bytes,
           Touch touch);
  const std::map<std::uint64_t, TouchedAllocation>& allocations() const { return allocations_; }
  // Of the launch; nullptr when none ran. Lives as long as the device.
  const Program* program() const { return program_; }

  void on_cta_begin(Cta& cta) override;
  void on_access(const AccessEvent& event) override;
  void on_copy_issued(const CopyEvent& event) override;

 private:
  void touch(TouchedAllocation& allocation, std::uint64_t offset, std::uint64_t bytes, Touch touch,
             std::uint32_t site);
  TouchedAllocation& of(const Allocation& allocation);

  const Program* program_ = nullptr;
  std::map<std::uint64_t, TouchedAllocation> allocations_;  // by base address
  const Allocation* last_ = nullptr;
  TouchedAllocation* last_touched_ = nullptr;
};

}  // namespace faultline::simulator
