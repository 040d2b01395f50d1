// SPDX-License-Identifier: Apache-2.0
#include "machine/host_pages.hpp"

#include <sys/mman.h>

#include <new>

namespace faultline::simulator {
namespace {

// From here on pages come straight from the system, each when it is first touched, and none are
// reserved: a buffer of gigabytes costs what is used of it.
constexpr std::uint64_t kMapped = std::uint64_t{1} << 24;
constexpr std::align_val_t kAlignment{64};

}  // namespace

HostPages::HostPages(std::uint64_t bytes) : bytes_(bytes) {
  if (bytes < kMapped) {
    data_ = new (kAlignment) std::uint8_t[bytes]();
    return;
  }
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::uint8_t*>(pages);
}

HostPages::~HostPages() {
  if (data_ == nullptr) return;
  if (bytes_ < kMapped) {
    operator delete[](data_, kAlignment);
  } else {
    munmap(data_, bytes_);
  }
}

}  // namespace faultline::simulator
