// SPDX-License-Identifier: Apache-2.0
// Who goes next at a visible operation. The only source of nondeterminism of a launch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "faultline/core/perturbation.hpp"
#include "faultline/simulator/schedule.hpp"
#include "machine/cta.hpp"

namespace faultline::simulator {

// splitmix64 (Steele, Lea, Flood 2014).
class RandomBits {
 public:
  explicit RandomBits(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((next() >> 32) * n >> 32);
  }

 private:
  std::uint64_t state_;
};

// What a policy may choose from: warps with something to run, and copies that may complete now.
struct Choices {
  std::span<Warp* const> warps;
  std::span<const PendingCopy> copies;
  std::uint64_t events;  // visible operations so far
};

struct Choice {
  bool is_copy = false;
  std::size_t index = 0;
  std::uint32_t quantum = 1;  // visible operations before the next choice
};

class Policy {
 public:
  virtual ~Policy() = default;
  // At least one of the two lists is not empty.
  virtual Choice next(const Choices& choices) = 0;
  // Which of several ready splits of a warp runs; `smallest` has the smallest program counter.
  virtual std::size_t choose_split(const Warp&, std::size_t smallest) { return smallest; }
  // Whether a cp.async copy lands at once (true) or when it is waited for, under random lateness.
  virtual bool lands_early() { return false; }
  virtual std::uint64_t copy_priority() { return 0; }
};

std::unique_ptr<Policy> make_round_robin(std::uint64_t seed);
std::unique_ptr<Policy> make_random(std::uint64_t seed);
std::unique_ptr<Policy> make_pct(std::uint64_t seed, std::uint32_t depth);
std::unique_ptr<Policy> make_skew(std::uint64_t seed);
std::unique_ptr<Policy> make_policy(core::SchedulePolicy policy, std::uint64_t seed,
                                    std::uint32_t pct_depth);

// Passes every choice on and writes it down.
std::unique_ptr<Policy> make_recorder(Policy& inner, Schedule& schedule);
// Follows `schedule` as far as its choices are possible, then goes on with `inner`.
std::unique_ptr<Policy> make_replayer(Policy& inner, const Schedule& schedule);

}  // namespace faultline::simulator
