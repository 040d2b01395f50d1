// SPDX-License-Identifier: Apache-2.0
#include "machine/host_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace faultline::simulator {
namespace {

// From here on pages come straight from the system, each when it is first touched, and none are
// reserved: a buffer of gigabytes costs what is used of it.
constexpr std::uint64_t kMapped = std::uint64_t{1} << 24;
constexpr std::align_val_t kAlignment{64};
constexpr std::uint64_t kPattern = std::uint64_t{1} << 23;  // a multiple of every page size

void repeat_word(std::uint8_t* data, std::uint64_t bytes, std::uint32_t word) {
  for (std::uint64_t i = 0; i < bytes; i += sizeof word) {
    std::memcpy(data + i, &word, std::min<std::uint64_t>(sizeof word, bytes - i));
  }
}

// A file in memory with kPattern bytes of the word, to be mapped again and again. Kept for good:
// there are three poisons.
int pattern_file(std::uint32_t word) {
  static std::mutex mutex;
  static std::map<std::uint32_t, int> files;
  const std::lock_guard lock(mutex);
  const auto [known, fresh] = files.try_emplace(word, -1);
  if (known->second >= 0) return known->second;
  const int file = memfd_create("faultline-pattern", MFD_CLOEXEC);
  if (file < 0) throw std::bad_alloc();
  void* bytes = MAP_FAILED;
  if (ftruncate(file, kPattern) == 0)
    bytes = mmap(nullptr, kPattern, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) {
    close(file);
    throw std::bad_alloc();
  }
  repeat_word(static_cast<std::uint8_t*>(bytes), kPattern, word);
  munmap(bytes, kPattern);
  return known->second = file;
}

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

void HostPages::fill(std::uint32_t word) {
  if (bytes_ < kMapped) {
    repeat_word(data_, bytes_, word);
    return;
  }
  const int file = pattern_file(word);
  for (std::uint64_t begin = 0; begin < bytes_; begin += kPattern) {
    const std::uint64_t bytes = std::min(kPattern, bytes_ - begin);
    void* pages = mmap(data_ + begin, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
  }
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
