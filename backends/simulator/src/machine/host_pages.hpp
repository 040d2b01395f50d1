// SPDX-License-Identifier: Apache-2.0
// Host memory behind one device allocation: zeros, and no more of it than was touched.
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

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace faultline::simulator
