// SPDX-License-Identifier: Apache-2.0
// Host memory behind one device allocation: zeros, or what it was filled with, and no more of it
// than was written.
#pragma once

#include <cstdint>
#include <utility>

namespace faultline::simulator {

class HostPages {
 public:
  HostPages() = default;
  // At least 64-byte aligned, zero. Throws std::bad_alloc.
  explicit HostPages(std::uint64_t bytes);
  ~HostPages();
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostPages& operator=(HostPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::uint8_t* data() const { return data_; }
  // A 32-bit pattern over the whole of it, the last bytes included. Of a large one pages are backed
  // when they are next written, not now. Throws std::bad_alloc.
  void fill(std::uint32_t word);

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace faultline::simulator
