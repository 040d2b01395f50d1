// SPDX-License-Identifier: Apache-2.0
// Operations among the lanes of a warp, and small odds and ends. PTX ISA, "shfl.sync", "vote.sync",
// "match.sync", "redux.sync", "elect.sync", "activemask", "isspacep", "mapa".
#include <cstdio>
#include <cstring>

#include "exec/effects.hpp"
#include "exec/memory_access.hpp"

namespace faultline::simulator {
namespace {

void shuffle_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto mode = static_cast<ShuffleMode>(i.variant);
  const auto* a = warp.lane_values<std::uint32_t>(i.s[0]);
  const auto* b = warp.lane_values<std::uint32_t>(i.s[1]);
  const auto* c = warp.lane_values<std::uint32_t>(i.s[2]);
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  std::uint32_t result[kLanes];
  std::uint32_t in_range = 0;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const int clamp = static_cast<int>(c[lane] & 31);
    const int segment = static_cast<int>((c[lane] >> 8) & 31);
    const int distance = static_cast<int>(b[lane] & 31);
    const int highest = (lane & segment) | (clamp & ~segment);
    const int lowest = lane & segment;
    int from = lane;
    bool valid = false;
    switch (mode) {
    case ShuffleMode::up:
      from = lane - distance;
      valid = from >= highest;  // for .up the clamp value is the lower bound
      break;
    case ShuffleMode::down:
      from = lane + distance;
      valid = from <= highest;
      break;
    case ShuffleMode::butterfly:
      from = lane ^ distance;
      valid = from <= highest;
      break;
    case ShuffleMode::index:
      from = lowest | (distance & ~segment);
      valid = from <= highest;
      break;
    }
    if (!valid) from = lane;
    result[lane] = a[from];
    in_range |= static_cast<std::uint32_t>(valid) << lane;
  }
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1)
    d[__builtin_ctz(rest)] = result[__builtin_ctz(rest)];
  if (i.d[1] != kNoRegister) {
    std::uint32_t& p = warp.predicate(i.d[1]);
    p = (p & ~mask) | (in_range & mask);
  }
}

// Lanes with the same member mask vote together.
template <class Body>
void for_each_team(Warp& warp, const Instruction& i, std::uint32_t mask, Body body) {
  const auto* members = warp.lane_values<std::uint32_t>(i.s[3]);
  for (std::uint32_t rest = mask; rest != 0;) {
    const std::uint32_t team = members[__builtin_ctz(rest)];
    std::uint32_t lanes = 0;
    for (std::uint32_t r = rest; r != 0; r &= r - 1) {
      if (members[__builtin_ctz(r)] == team) lanes |= r & (~r + 1);
    }
    rest &= ~lanes;
    body(lanes);
  }
}

void vote_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint32_t source = warp.predicate(i.s[0]);
  if (i.sign_extend) source = ~source;
  for_each_team(warp, i, mask, [&](std::uint32_t lanes) {
    const std::uint32_t votes = source & lanes;
    const auto mode = static_cast<VoteMode>(i.variant);
    if (mode == VoteMode::ballot) {
      auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
      for (std::uint32_t r = lanes; r != 0; r &= r - 1) d[__builtin_ctz(r)] = votes;
      return;
    }
    const bool value = mode == VoteMode::all   ? votes == lanes
                       : mode == VoteMode::any ? votes != 0
                                               : votes == lanes || votes == 0;
    std::uint32_t& p = warp.predicate(i.d[0]);
    p = value ? p | lanes : p & ~lanes;
  });
}

std::uint64_t lane_bits(Warp& warp, RegisterOffset offset, int bytes, int lane) {
  std::uint64_t value = 0;
  std::memcpy(&value, warp.registers + offset + lane * bytes, static_cast<std::size_t>(bytes));
  return value;
}

void match_any_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for_each_team(warp, i, mask, [&](std::uint32_t lanes) {
    std::uint32_t result[kLanes] = {};
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) {
      const int lane = __builtin_ctz(r);
      for (std::uint32_t q = lanes; q != 0; q &= q - 1) {
        const int other = __builtin_ctz(q);
        if (lane_bits(warp, i.s[0], i.bytes, lane) == lane_bits(warp, i.s[0], i.bytes, other))
          result[lane] |= 1u << other;
      }
    }
    for (std::uint32_t r = lanes; r != 0; r &= r - 1)
      d[__builtin_ctz(r)] = result[__builtin_ctz(r)];
  });
}

void match_all_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for_each_team(warp, i, mask, [&](std::uint32_t lanes) {
    bool same = true;
    const std::uint64_t first = lane_bits(warp, i.s[0], i.bytes, __builtin_ctz(lanes));
    for (std::uint32_t r = lanes; r != 0; r &= r - 1)
      same = same && lane_bits(warp, i.s[0], i.bytes, __builtin_ctz(r)) == first;
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) d[__builtin_ctz(r)] = same ? lanes : 0;
    if (i.d[1] != kNoRegister) {
      std::uint32_t& p = warp.predicate(i.d[1]);
      p = same ? p | lanes : p & ~lanes;
    }
  });
}

void elect_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint32_t& p = warp.predicate(i.d[1]);
  for_each_team(warp, i, mask, [&](std::uint32_t lanes) {
    const auto leader = static_cast<std::uint32_t>(__builtin_ctz(lanes));
    p = (p & ~lanes) | 1u << leader;
    if (i.d[0] == kNoRegister) return;
    auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) d[__builtin_ctz(r)] = leader;
  });
}

void redux_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto* a = warp.lane_values<std::uint32_t>(i.s[0]);
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for_each_team(warp, i, mask, [&](std::uint32_t lanes) {
    std::uint32_t value = a[__builtin_ctz(lanes)];
    for (std::uint32_t r = lanes & (lanes - 1); r != 0; r &= r - 1) {
      const std::uint32_t x = a[__builtin_ctz(r)];
      const bool less = i.sign_extend
                            ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(value)
                            : x < value;
      switch (static_cast<ReduxOp>(i.variant)) {
      case ReduxOp::add: value += x; break;
      case ReduxOp::minimum: value = less ? x : value; break;
      case ReduxOp::maximum: value = less ? value : x; break;
      case ReduxOp::bit_and: value &= x; break;
      case ReduxOp::bit_or: value |= x; break;
      case ReduxOp::bit_xor: value ^= x; break;
      }
    }
    for (std::uint32_t r = lanes; r != 0; r &= r - 1) d[__builtin_ctz(r)] = value;
  });
}

void active_mask_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) d[__builtin_ctz(r)] = mask;
}

// The clock counts warp instructions of the launch: deterministic, and it always advances.
void read_clock_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint64_t now = warp.cta->machine->clock() + warp.cta->machine->steps();
  if (i.variant == 1) now >>= 32;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    std::memcpy(warp.registers + i.d[0] + __builtin_ctz(r) * i.width, &now, i.width);
  }
}

void is_space_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto* a = warp.lane_values<std::uint64_t>(i.s[0]);
  std::uint32_t result = 0;
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const int lane = __builtin_ctz(r);
    const std::uint64_t x = a[lane];
    bool inside = false;
    switch (i.space) {
    case Space::shared: inside = x >= kSharedWindow && x < kLocalWindow; break;
    case Space::local: inside = x >= kLocalWindow && x < kParamWindow; break;
    case Space::param: inside = x >= kParamWindow && x < kWindowEnd; break;
    case Space::constant: inside = false; break;
    default: inside = x < kSharedWindow || x >= kWindowEnd; break;
    }
    result |= static_cast<std::uint32_t>(inside) << lane;
  }
  std::uint32_t& p = warp.predicate(i.d[0]);
  p = (p & ~mask) | result;
}

void map_address_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto* rank = warp.lane_values<std::uint32_t>(i.s[1]);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const int lane = __builtin_ctz(r);
    std::uint64_t a = lane_bits(warp, i.s[0], i.width, lane);
    const std::uint64_t window = i.space == Space::generic ? kSharedWindow : 0;
    const std::uint64_t offset = (a - window) & kSharedOffsetMask;
    if (rank[lane] >= warp.cta->cluster->size()) {
      warp.cta->machine->fault(warp, i, static_cast<std::uint32_t>(lane),
                               "mapa: there is no CTA of rank " + std::to_string(rank[lane]) +
                                   " in a cluster of " + std::to_string(warp.cta->cluster->size()));
    }
    a = window + (static_cast<std::uint64_t>(rank[lane] + 1) << kSharedRankShift) + offset;
    std::memcpy(warp.registers + i.d[0] + lane * i.width, &a, i.width);
  }
}

void cta_rank_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  auto* d = warp.lane_values<std::uint32_t>(i.d[0]);
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const int lane = __builtin_ctz(r);
    const std::uint64_t a =
        lane_bits(warp, i.s[0], i.width, lane) - (i.space == Space::generic ? kSharedWindow : 0);
    const auto field = static_cast<std::uint32_t>(a >> kSharedRankShift);
    d[lane] = field == 0 ? warp.cta->cluster_rank : field - 1;
  }
}

void no_operation_effect(Warp&, const Instruction&, std::uint32_t) {}

std::string string_at(Warp& warp, const Instruction& i, std::uint32_t lane, std::uint64_t address) {
  std::string text;
  for (; text.size() < 4096; ++address) {
    const Object object = find_object(warp, i, Space::generic, lane, address, 1);
    const char c = static_cast<char>(object.bytes[address - object.base]);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

std::uint64_t frame_value(Warp& warp, std::uint32_t lane, std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t frame = warp.cta->machine->program().local_bytes;
  std::uint64_t value = 0;
  std::memcpy(&value, warp.cta->local.data() + (warp.index * kLanes + lane) * frame + offset,
              bytes);
  return value;
}

// printf: the format's conversions one by one, arguments packed with their natural alignment.
std::string formatted(Warp& warp, const Instruction& i, std::uint32_t lane,
                      const std::string& format, std::uint64_t arguments) {
  std::string out;
  std::uint64_t at = arguments;
  const auto argument = [&](std::size_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    const Object object = find_object(warp, i, Space::generic, lane, at, bytes);
    std::uint64_t value = 0;
    std::memcpy(&value, object.bytes + (at - object.base), bytes);
    at += bytes;
    return value;
  };
  for (std::size_t k = 0; k < format.size(); ++k) {
    if (format[k] != '%') {
      out += format[k];
      continue;
    }
    std::string one = "%";
    bool wide = false;
    for (++k; k < format.size() && std::strchr("-+ #0123456789.lhzjt", format[k]) != nullptr; ++k) {
      if (format[k] == 'l' || format[k] == 'z' || format[k] == 'j')
        wide = true;
      else if (format[k] != 'h' && format[k] != 't')
        one += format[k];
    }
    if (k >= format.size()) break;
    char text[512];
    switch (format[k]) {
    case '%': out += '%'; continue;
    case 's': out += string_at(warp, i, lane, argument(8)); continue;
    case 'd':
    case 'i':
      one += "lld";
      std::snprintf(text, sizeof text, one.c_str(),
                    wide ? static_cast<long long>(argument(8))
                         : static_cast<long long>(static_cast<std::int32_t>(argument(4))));
      break;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      one += "ll";
      one += format[k];
      std::snprintf(text, sizeof text, one.c_str(),
                    static_cast<unsigned long long>(argument(wide ? 8 : 4)));
      break;
    case 'c': std::snprintf(text, sizeof text, "%c", static_cast<int>(argument(4))); break;
    case 'p':
      std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(argument(8)));
      break;
    default: {
      one += format[k];
      const std::uint64_t bits = argument(8);
      double value;
      std::memcpy(&value, &bits, sizeof value);
      std::snprintf(text, sizeof text, one.c_str(), value);
    }
    }
    out += text;
  }
  return out;
}

void print_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  for (std::uint32_t r = mask; r != 0; r &= r - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(r));
    const std::uint64_t format = frame_value(warp, lane, static_cast<std::uint64_t>(i.s[0]), 8);
    const std::uint64_t arguments = frame_value(warp, lane, static_cast<std::uint64_t>(i.s[1]), 8);
    std::string& output = warp.cta->machine->output();
    if (output.size() < (1u << 20))
      output += formatted(warp, i, lane, string_at(warp, i, lane, format), arguments);
  }
}

// __assertfail(message, file, line, function, character size)
void assertion_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto lane = static_cast<std::uint32_t>(__builtin_ctz(mask));
  const std::string message =
      string_at(warp, i, lane, frame_value(warp, lane, static_cast<std::uint64_t>(i.s[0]), 8));
  warp.cta->machine->fault(warp, i, lane, "assertion failed: " + message);
}

}  // namespace

namespace effects {

EffectHandler shuffle() { return shuffle_effect; }
EffectHandler vote() { return vote_effect; }
EffectHandler match_any() { return match_any_effect; }
EffectHandler match_all() { return match_all_effect; }
EffectHandler elect() { return elect_effect; }
EffectHandler redux() { return redux_effect; }
EffectHandler active_mask() { return active_mask_effect; }
EffectHandler read_clock() { return read_clock_effect; }
EffectHandler is_space() { return is_space_effect; }
EffectHandler map_address() { return map_address_effect; }
EffectHandler cta_rank_of_address() { return cta_rank_effect; }
EffectHandler no_operation() { return no_operation_effect; }
EffectHandler sleep() { return no_operation_effect; }
EffectHandler print_format() { return print_effect; }
EffectHandler assertion_failure() { return assertion_effect; }

}  // namespace effects
}  // namespace faultline::simulator
