// SPDX-License-Identifier: Apache-2.0
// Recording and following decisions. Decisions name warps and copies, not positions in a list, so
// that a schedule still means something after a small change of the kernel.
#include <charconv>

#include "faultline/core/errors.hpp"
#include "schedule/policy.hpp"

namespace faultline::simulator {
namespace {

class Recorder final : public Policy {
 public:
  Recorder(Policy& inner, Schedule& schedule) : inner_(inner), schedule_(schedule) {}
  Choice next(const Choices& choices) override {
    const Choice choice = inner_.next(choices);
    if (choice.is_copy) {
      const PendingCopy& copy = choices.copies[choice.index];
      schedule_.push_back({Decision::Kind::copy, copy.cta->linear, copy.number, 1});
    } else {
      const Warp& warp = *choices.warps[choice.index];
      schedule_.push_back({Decision::Kind::warp, warp.cta->linear, warp.index, choice.quantum});
    }
    return choice;
  }
  std::size_t choose_split(const Warp& warp, std::size_t smallest) override {
    return inner_.choose_split(warp, smallest);
  }
  bool lands_early() override { return inner_.lands_early(); }
  std::uint64_t copy_priority() override { return inner_.copy_priority(); }

 private:
  Policy& inner_;
  Schedule& schedule_;
};

class Replayer final : public Policy {
 public:
  Replayer(Policy& inner, const Schedule& schedule) : inner_(inner), schedule_(schedule) {}
  Choice next(const Choices& choices) override {
    // The inner policy is asked in any case: its random state stays in step with the recording.
    const Choice other = inner_.next(choices);
    while (position_ < schedule_.size()) {
      const Decision& wanted = schedule_[position_++];
      if (wanted.kind == Decision::Kind::copy) {
        for (std::size_t k = 0; k < choices.copies.size(); ++k) {
          if (choices.copies[k].cta->linear == wanted.cta &&
              choices.copies[k].number == wanted.index)
            return {true, k, 1};
        }
      } else {
        for (std::size_t k = 0; k < choices.warps.size(); ++k) {
          if (choices.warps[k]->cta->linear == wanted.cta &&
              choices.warps[k]->index == wanted.index)
            return {false, k, wanted.quantum};
        }
      }
    }
    return other;
  }
  std::size_t choose_split(const Warp& warp, std::size_t smallest) override {
    return inner_.choose_split(warp, smallest);
  }
  bool lands_early() override { return inner_.lands_early(); }
  std::uint64_t copy_priority() override { return inner_.copy_priority(); }

 private:
  Policy& inner_;
  const Schedule& schedule_;
  std::size_t position_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_recorder(Policy& inner, Schedule& schedule) {
  return std::make_unique<Recorder>(inner, schedule);
}
std::unique_ptr<Policy> make_replayer(Policy& inner, const Schedule& schedule) {
  return std::make_unique<Replayer>(inner, schedule);
}

std::unique_ptr<Policy> make_policy(core::SchedulePolicy policy, std::uint64_t seed,
                                    std::uint32_t pct_depth) {
  switch (policy) {
  case core::SchedulePolicy::round_robin: return make_round_robin(seed);
  case core::SchedulePolicy::random: return make_random(seed);
  case core::SchedulePolicy::pct: return make_pct(seed, pct_depth);
  case core::SchedulePolicy::skew: return make_skew(seed);
  }
  return make_round_robin(seed);
}

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const Decision& decision : schedule) {
    if (!text.empty()) text += ' ';
    text += decision.kind == Decision::Kind::copy ? 'c' : 'w';
    text += std::to_string(decision.cta) + '.' + std::to_string(decision.index);
    if (decision.kind == Decision::Kind::warp) text += 'x' + std::to_string(decision.quantum);
  }
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  const std::string whole(text);
  const auto number = [&](std::string_view& rest) {
    std::uint32_t value = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (result.ec != std::errc())
      throw core::UsageError("schedule: expected a number in '" + whole.substr(0, 80) + "'");
    rest.remove_prefix(static_cast<std::size_t>(result.ptr - rest.data()));
    return value;
  };
  const auto expect = [&](std::string_view& rest, char c) {
    if (rest.empty() || rest[0] != c)
      throw core::UsageError(std::string("schedule: expected '") + c + "' in '" +
                             whole.substr(0, 80) + "'");
    rest.remove_prefix(1);
  };
  while (!text.empty()) {
    Decision decision;
    if (text[0] != 'w' && text[0] != 'c')
      throw core::UsageError("schedule: a decision starts with 'w' or 'c', got '" +
                             std::string(text.substr(0, 10)) + "'");
    decision.kind = text[0] == 'c' ? Decision::Kind::copy : Decision::Kind::warp;
    text.remove_prefix(1);
    decision.cta = number(text);
    expect(text, '.');
    decision.index = number(text);
    if (decision.kind == Decision::Kind::warp) {
      expect(text, 'x');
      decision.quantum = number(text);
      if (decision.quantum == 0) throw core::UsageError("schedule: a quantum of 0");
    }
    schedule.push_back(decision);
    if (!text.empty()) expect(text, ' ');
  }
  return schedule;
}

}  // namespace faultline::simulator
