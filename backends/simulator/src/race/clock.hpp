// SPDX-License-Identifier: Apache-2.0
// Vector clocks over the actors of a CTA, copy on write, with two planes: `order` is what happened
// before; `fenced` is the part of it that a fence.proxy.async has made visible to the async proxy.
// What is known about other CTAs hangs on a side list that most clocks do not have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace faultline::simulator {

class ClockPool;

struct ClockBlock {
  std::uint32_t references = 0;
  std::uint32_t* order = nullptr;
  std::uint32_t* fenced = nullptr;
  std::map<std::uint32_t, std::vector<std::uint32_t>> others;  // CTA -> order plane, then fenced
};

// Blocks of one size; freed blocks are used again.
class ClockPool {
 public:
  void resize(std::uint32_t actors);
  std::uint32_t actors() const { return actors_; }
  ClockBlock* make();
  void free(ClockBlock* block);

 private:
  std::uint32_t actors_ = 0;
  std::vector<std::unique_ptr<ClockBlock>> blocks_;
  std::vector<std::unique_ptr<std::uint32_t[]>> storage_;
  std::vector<ClockBlock*> spare_;
};

// A shared, immutable-unless-unique clock. Not thread-safe.
class Clock {
 public:
  Clock() = default;
  explicit Clock(ClockPool& pool);  // zero
  Clock(const Clock& other);
  Clock(Clock&& other) noexcept;
  Clock& operator=(Clock other) noexcept;
  ~Clock();

  explicit operator bool() const { return block_ != nullptr; }
  bool same(const Clock& other) const { return block_ == other.block_; }
  std::uint32_t order(std::uint32_t actor) const { return block_->order[actor]; }
  std::uint32_t fenced(std::uint32_t actor) const { return block_->fenced[actor]; }
  // Of an actor of another CTA; 0 when nothing is known.
  std::uint32_t other_order(std::uint32_t cta, std::uint32_t actor) const;
  std::uint32_t other_fenced(std::uint32_t cta, std::uint32_t actor) const;

  // These copy first when the block is shared.
  void raise_order(std::uint32_t actor, std::uint32_t value);
  void raise_fenced(std::uint32_t actor, std::uint32_t value);
  void fence();  // everything ordered becomes fenced
  // Elementwise maximum. `home` and `from_home` are the CTAs that the dense parts speak of.
  void join(const Clock& from, std::uint32_t home, std::uint32_t from_home);
  bool knows_others() const { return !block_->others.empty(); }
  void forget_others();  // what is known about other CTAs

 private:
  void unshare();
  ClockPool* pool_ = nullptr;
  ClockBlock* block_ = nullptr;
};

}  // namespace faultline::simulator
