// SPDX-License-Identifier: Apache-2.0
// What is remembered about each piece of memory: its last write and the reads since. Pages appear
// when they are first touched; a page has cells of 4 bytes until a smaller access refines it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace faultline::simulator {

inline constexpr std::uint32_t kAgentBit = 0x80000000u;  // a reader that is an asynchronous agent
inline constexpr std::uint32_t kStrongBit =
    0x80000000u;  // of a site: a strong access (relaxed, volatile, atomic)

struct ReaderRecord {
  std::uint32_t id = 0;  // 0: nobody; warp + 1, or (agent | kAgentBit) + 1
  std::uint32_t clock = 0;
  std::uint32_t mask = 0;  // lanes
  std::uint32_t site = 0;
  std::uint32_t cta = 0;
};

struct ShadowCell {
  std::uint32_t writer = 0;  // 0: nobody; actor + 1
  std::uint32_t writer_clock = 0;
  std::uint32_t writer_site = 0;
  std::uint32_t writer_cta = 0;
  ReaderRecord reader;     // one reader of the CTA that read last
  std::uint32_t more = 0;  // further readers of that CTA: a list in ShadowPool, 0 = none
  ReaderRecord foreign;    // one reader of another CTA, the latest
  // A weak write that a strong one hides: a PlainWrites index, 0 = none. Strong writes do not race
  // with each other, so that order behind the last one says nothing of those before it.
  std::uint32_t hidden = 0;
};

struct WriterRecord {
  std::uint32_t actor = 0, clock = 0, site = 0, cta = 0;
};

// Weak writes that later strong writes hide; immutable, so that cells may share one.
class PlainWrites {
 public:
  std::uint32_t add(const WriterRecord& record) {
    records_.push_back(record);
    return static_cast<std::uint32_t>(records_.size() - 1);
  }
  const WriterRecord& at(std::uint32_t index) const { return records_[index]; }
  void clear() { records_.resize(1); }

 private:
  std::vector<WriterRecord> records_ = std::vector<WriterRecord>(1);
};

// Lists of readers for cells that several warps read.
class ReaderLists {
 public:
  std::uint32_t make() {
    if (used_ == lists_.size()) lists_.emplace_back();
    lists_[used_].clear();
    return static_cast<std::uint32_t>(used_++);
  }
  std::vector<ReaderRecord>& at(std::uint32_t index) { return lists_[index]; }
  void clear() { used_ = 1; }

 private:
  std::vector<std::vector<ReaderRecord>> lists_ = std::vector<std::vector<ReaderRecord>>(1);
  std::size_t used_ = 1;
};

inline constexpr std::uint32_t kPageBytes = 512;
inline constexpr std::uint32_t kFolderPages = 512;  // pages that are listed together

struct ShadowPage {
  std::uint64_t generation = 0;  // cells of another generation are stale
  std::uint32_t shift = 2;       // log2 of the bytes of a cell
  std::vector<ShadowCell> cells;
};

class ShadowMemory {
 public:
  void resize(std::uint64_t bytes) {
    constexpr std::uint64_t kFolderBytes = std::uint64_t{kPageBytes} * kFolderPages;
    const std::size_t folders = (bytes + kFolderBytes - 1) / kFolderBytes;
    if (folders_.size() < folders) folders_.resize(folders);
  }
  // The page of an offset with cells of at most 2^shift bytes, cleared if it is stale.
  ShadowPage& page(std::uint64_t offset, std::uint32_t shift, std::uint64_t generation,
                   ReaderLists& lists) {
    auto& folder = folders_[offset / kPageBytes / kFolderPages];
    if (folder == nullptr) folder = std::make_unique<Folder>();
    auto& slot = (*folder)[offset / kPageBytes % kFolderPages];
    if (slot == nullptr) slot = std::make_unique<ShadowPage>();
    ShadowPage& page = *slot;
    if (page.generation != generation) {
      page.generation = generation;
      page.shift = shift;
      page.cells.assign(kPageBytes >> shift, ShadowCell{});
    } else if (shift < page.shift) {
      refine(page, shift, lists);
    }
    return page;
  }

 private:
  using Folder = std::array<std::unique_ptr<ShadowPage>, kFolderPages>;

  static void refine(ShadowPage& page, std::uint32_t shift, ReaderLists& lists) {
    const std::uint32_t factor = 1u << (page.shift - shift);
    std::vector<ShadowCell> fine(page.cells.size() * factor);
    for (std::size_t k = 0; k < fine.size(); ++k) {
      fine[k] = page.cells[k / factor];
      if (fine[k].more != 0 && k % factor != 0) {
        const std::uint32_t copy = lists.make();
        lists.at(copy) = lists.at(fine[k].more);
        fine[k].more = copy;
      }
    }
    page.cells = std::move(fine);
    page.shift = shift;
  }
  std::vector<std::unique_ptr<Folder>> folders_;
};

}  // namespace faultline::simulator
