// SPDX-License-Identifier: Apache-2.0
// Every warp and every copy that may go is equally likely; turns of 1 to 8 visible operations.
#include "schedule/policy.hpp"

namespace faultline::simulator {
namespace {

class Random final : public Policy {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  Choice next(const Choices& choices) override {
    // All copies together weigh as much as one warp: otherwise many would drain at once.
    const auto warps = static_cast<std::uint32_t>(choices.warps.size());
    const std::uint32_t total = warps + (choices.copies.empty() ? 0 : 1);
    const std::uint32_t pick = random_.below(total);
    if (pick < warps) return {false, pick, 1 + random_.below(8)};
    return {true, random_.below(static_cast<std::uint32_t>(choices.copies.size())), 1};
  }
  std::size_t choose_split(const Warp& warp, std::size_t smallest) override {
    if (random_.below(8) != 0) return smallest;
    const std::size_t k = random_.below(static_cast<std::uint32_t>(warp.splits.size()));
    return warp.splits[k].state == SplitState::ready ? k : smallest;
  }
  bool lands_early() override { return (random_.next() >> 63) != 0; }

 private:
  RandomBits random_;
};

}  // namespace

std::unique_ptr<Policy> make_random(std::uint64_t seed) { return std::make_unique<Random>(seed); }

}  // namespace faultline::simulator
