// SPDX-License-Identifier: Apache-2.0
// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010): random
// priorities, the highest runs, and at depth - 1 random events the running one drops to the bottom.
// A bug of depth d among n actors and k events is hit with probability >= 1 / (n k^(d-1)).
#include <map>

#include "schedule/policy.hpp"

namespace faultline::simulator {
namespace {

constexpr std::uint32_t kEventsToSpread = 4096;  // change points fall among so many events

class Pct final : public Policy {
 public:
  Pct(std::uint64_t seed, std::uint32_t depth) : random_(seed) {
    for (std::uint32_t k = 1; k < depth; ++k)
      change_points_.push_back(random_.below(kEventsToSpread));
  }
  Choice next(const Choices& choices) override {
    Choice best;
    std::uint64_t highest = 0;
    bool found = false;
    for (std::size_t k = 0; k < choices.warps.size(); ++k) {
      const std::uint64_t priority = priority_of(*choices.warps[k]);
      if (found && priority <= highest) continue;
      highest = priority;
      best = {false, k, 1};
      found = true;
    }
    for (std::size_t k = 0; k < choices.copies.size(); ++k) {
      if (found && choices.copies[k].priority <= highest) continue;
      highest = choices.copies[k].priority;
      best = {true, k, 1};
      found = true;
    }
    for (std::uint64_t& point : change_points_) {
      if (choices.events < point || best.is_copy || point == kUsed) continue;
      const Warp& warp = *choices.warps[best.index];
      priorities_[key(warp)] = --lowest_;
      point = kUsed;
    }
    return best;
  }
  bool lands_early() override { return (random_.next() >> 63) != 0; }
  std::uint64_t copy_priority() override { return kBase + (random_.next() >> 8); }

 private:
  static constexpr std::uint64_t kBase = 1u << 20;
  static constexpr std::uint64_t kUsed = ~std::uint64_t{0};
  static std::uint64_t key(const Warp& warp) {
    return static_cast<std::uint64_t>(warp.cta->linear) << 32 | warp.index;
  }
  std::uint64_t priority_of(const Warp& warp) {
    const auto [it, fresh] = priorities_.try_emplace(key(warp), 0);
    if (fresh) it->second = kBase + (random_.next() >> 8);
    return it->second;
  }
  RandomBits random_;
  std::vector<std::uint64_t> change_points_;
  std::map<std::uint64_t, std::uint64_t> priorities_;
  std::uint64_t lowest_ = kBase;
};

}  // namespace

std::unique_ptr<Policy> make_pct(std::uint64_t seed, std::uint32_t depth) {
  return std::make_unique<Pct>(seed, depth);
}

}  // namespace faultline::simulator
