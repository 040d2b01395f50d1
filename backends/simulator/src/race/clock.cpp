// SPDX-License-Identifier: Apache-2.0
#include "race/clock.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace faultline::simulator {
namespace {

void raise(std::uint32_t* to, const std::uint32_t* from, std::uint32_t count) {
#pragma GCC ivdep
  for (std::uint32_t k = 0; k < count; ++k) to[k] = to[k] > from[k] ? to[k] : from[k];
}

}  // namespace

void ClockPool::resize(std::uint32_t actors) {
  actors = (actors + 15) / 16 * 16;
  if (actors == actors_) return;
  blocks_.clear();
  storage_.clear();
  spare_.clear();
  actors_ = actors;
}

ClockBlock* ClockPool::make() {
  ClockBlock* block;
  if (spare_.empty()) {
    blocks_.push_back(std::make_unique<ClockBlock>());
    storage_.push_back(std::make_unique<std::uint32_t[]>(2 * actors_));
    block = blocks_.back().get();
    block->order = storage_.back().get();
    block->fenced = block->order + actors_;
  } else {
    block = spare_.back();
    spare_.pop_back();
  }
  block->references = 1;
  return block;
}

void ClockPool::free(ClockBlock* block) {
  block->others.clear();
  spare_.push_back(block);
}

Clock::Clock(ClockPool& pool) : pool_(&pool), block_(pool.make()) {
  std::memset(block_->order, 0, 2 * pool.actors() * sizeof(std::uint32_t));
}
Clock::Clock(const Clock& other) : pool_(other.pool_), block_(other.block_) {
  if (block_ != nullptr) ++block_->references;
}
Clock::Clock(Clock&& other) noexcept
    : pool_(other.pool_), block_(std::exchange(other.block_, nullptr)) {}
Clock& Clock::operator=(Clock other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_, other.block_);
  return *this;
}
Clock::~Clock() {
  if (block_ != nullptr && --block_->references == 0) pool_->free(block_);
}

void Clock::unshare() {
  if (block_->references == 1) return;
  ClockBlock* copy = pool_->make();
  std::memcpy(copy->order, block_->order, 2 * pool_->actors() * sizeof(std::uint32_t));
  if (!block_->others.empty()) copy->others = block_->others;
  --block_->references;
  block_ = copy;
}

std::uint32_t Clock::other_order(std::uint32_t cta, std::uint32_t actor) const {
  const auto it = block_->others.find(cta);
  return it == block_->others.end() ? 0 : it->second[actor];
}
std::uint32_t Clock::other_fenced(std::uint32_t cta, std::uint32_t actor) const {
  const auto it = block_->others.find(cta);
  return it == block_->others.end() ? 0 : it->second[pool_->actors() + actor];
}

void Clock::raise_order(std::uint32_t actor, std::uint32_t value) {
  if (block_->order[actor] >= value) return;
  unshare();
  block_->order[actor] = value;
}
void Clock::raise_fenced(std::uint32_t actor, std::uint32_t value) {
  if (block_->fenced[actor] >= value) return;
  unshare();
  block_->fenced[actor] = value;
}
void Clock::fence() {
  unshare();
  std::memcpy(block_->fenced, block_->order, pool_->actors() * sizeof(std::uint32_t));
  for (auto& [cta, planes] : block_->others) {
    std::copy_n(planes.begin(), pool_->actors(), planes.begin() + pool_->actors());
  }
}

void Clock::forget_others() {
  if (!knows_others()) return;
  unshare();
  block_->others.clear();
}

void Clock::join(const Clock& from, std::uint32_t home, std::uint32_t from_home) {
  if (same(from)) return;
  unshare();
  const std::uint32_t size = 2 * pool_->actors();
  const auto join_other = [&](std::uint32_t cta, const std::uint32_t* planes) {
    if (cta == home) {
      raise(block_->order, planes, size);
      return;
    }
    auto& mine = block_->others[cta];
    mine.resize(size);
    raise(mine.data(), planes, size);
  };
  join_other(from_home, from.block_->order);
  for (const auto& [cta, planes] : from.block_->others) join_other(cta, planes.data());
}

}  // namespace faultline::simulator
