// SPDX-License-Identifier: Apache-2.0
// Loops over the lanes of a warp. Internal linkage throughout: this is compiled for two instruction
// sets, and the linker must not choose one copy for both.
#pragma once

#include <cstdint>

#include "program/instruction.hpp"

namespace faultline::simulator {

template <class T>
[[gnu::always_inline]] static inline T* lanes_of(std::uint8_t* registers, RegisterOffset offset) {
  return static_cast<T*>(__builtin_assume_aligned(registers + offset, 64));
}

template <class F>
[[gnu::always_inline]] static inline void for_each_lane(std::uint32_t mask, F body) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) body(lane);
  } else {
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) body(__builtin_ctz(rest));
  }
}

}  // namespace faultline::simulator
