// SPDX-License-Identifier: Apache-2.0
// Warps in turn, long turns. Copies, where they may complete, at one pick in four.
#include "schedule/policy.hpp"

namespace faultline::simulator {
namespace {

class RoundRobin final : public Policy {
 public:
  explicit RoundRobin(std::uint64_t seed) : random_(seed) {}
  Choice next(const Choices& choices) override {
    const bool copy = !choices.copies.empty() && (choices.warps.empty() || random_.below(4) == 0);
    if (copy) return {true, 0, 1};
    return {false, turn_++ % choices.warps.size(), 256};
  }
  bool lands_early() override { return (random_.next() >> 63) != 0; }

 private:
  RandomBits random_;
  std::uint64_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_round_robin(std::uint64_t seed) {
  return std::make_unique<RoundRobin>(seed);
}

}  // namespace faultline::simulator
