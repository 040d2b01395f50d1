// SPDX-License-Identifier: Apache-2.0
// Warps of very different speed: each has a random weight of 1 to 4096 and runs in proportion.
#include <map>

#include "schedule/policy.hpp"

namespace faultline::simulator {
namespace {

class Skew final : public Policy {
 public:
  explicit Skew(std::uint64_t seed) : random_(seed) {}
  Choice next(const Choices& choices) override {
    std::uint64_t total = 0;
    for (const Warp* warp : choices.warps) total += weight_of(*warp);
    const std::uint64_t copies = choices.copies.empty() ? 0 : kCopyWeight;
    std::uint64_t pick = random_.next() % (total + copies);
    for (std::size_t k = 0; k < choices.warps.size(); ++k) {
      const std::uint64_t weight = weight_of(*choices.warps[k]);
      if (pick < weight) return {false, k, 1 + random_.below(16)};
      pick -= weight;
    }
    return {true, random_.below(static_cast<std::uint32_t>(choices.copies.size())), 1};
  }
  bool lands_early() override { return (random_.next() >> 63) != 0; }

 private:
  static constexpr std::uint64_t kCopyWeight = 64;
  std::uint64_t weight_of(const Warp& warp) {
    const std::uint64_t key = static_cast<std::uint64_t>(warp.cta->linear) << 32 | warp.index;
    const auto [it, fresh] = weights_.try_emplace(key, 0);
    if (fresh) it->second = std::uint64_t{1} << random_.below(13);
    return it->second;
  }
  RandomBits random_;
  std::map<std::uint64_t, std::uint64_t> weights_;
};

}  // namespace

std::unique_ptr<Policy> make_skew(std::uint64_t seed) { return std::make_unique<Skew>(seed); }

}  // namespace faultline::simulator
