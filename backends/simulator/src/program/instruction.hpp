// SPDX-License-Identifier: Apache-2.0
// One decoded instruction: operands are byte offsets into a warp's register file, nothing is looked
// up by name any more.
#pragma once

#include <array>
#include <cstdint>

#include "numerics/float_format.hpp"

namespace faultline::simulator {

struct Warp;
struct Instruction;

inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

// Byte offset of a register in a warp's register file. A register of n bytes takes 32 * n bytes,
// one element a lane; a predicate takes one 32-bit word, one bit a lane.
using RegisterOffset = std::int32_t;
inline constexpr RegisterOffset kNoRegister = -1;

// Handlers that touch nothing but registers. `mask` is never empty.
using ComputeHandler = void (*)(std::uint8_t* registers, const Instruction&, std::uint32_t mask);
// Handlers that touch memory or synchronisation.
using EffectHandler = void (*)(Warp&, const Instruction&, std::uint32_t mask);

// What the execution loop has to do about an instruction.
enum class Flow : std::uint8_t {
  compute,        // registers only: invisible to other threads
  hidden_effect,  // local or parameter memory: needs the warp, invisible to other threads
  visible,        // memory or synchronisation that never blocks
  convergent,     // visible, and all lanes of the member mask execute it together
  branch,
  indexed_branch,
  call,
  leave,  // ret: return from a function, or exit at the outermost level
  exit,
  cta_barrier,      // bar.sync, barrier.sync: blocks
  warp_barrier,     // bar.warp.sync
  cluster_barrier,  // barrier.cluster.wait: blocks
  mbarrier_wait,    // mbarrier.try_wait: may block
  mbarrier_test,    // mbarrier.test_wait: never blocks
  sleep,            // nanosleep: others go on meanwhile
  trap,
  unsupported,
};

enum class Space : std::uint8_t { generic, global, shared, local, constant, param };
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acquire_release };
enum class Scope : std::uint8_t { cta, cluster, gpu, system };

// Modifiers of floating-point arithmetic.
struct FloatMode {
  Rounding rounding = Rounding::nearest_even;
  bool flush_subnormals = false;
  bool saturate = false;  // clamp to [0, 1]
  bool propagate_nan = false;
  bool relu = false;
  bool xor_sign = false;
  bool is_plain() const {
    return rounding == Rounding::nearest_even && !flush_subnormals && !saturate && !propagate_nan &&
           !relu && !xor_sign;
  }
};

struct Instruction {
  ComputeHandler compute = nullptr;
  EffectHandler effect = nullptr;
  Flow flow = Flow::compute;
  Space space = Space::generic;
  Order order = Order::weak;
  Scope scope = Scope::system;
  std::uint8_t bytes = 0;   // of one element in memory
  std::uint8_t vector = 1;  // elements
  std::uint8_t width = 0;   // bytes of one element in registers
  bool sign_extend = false;
  bool is_volatile = false;
  bool wide_address = false;  // the address register is 64 bits wide
  bool predicate_negated = false;
  FloatMode mode = {};
  RegisterOffset predicate = kNoRegister;
  std::array<RegisterOffset, 4> d = {kNoRegister, kNoRegister, kNoRegister, kNoRegister};
  std::array<RegisterOffset, 8> s = {kNoRegister, kNoRegister, kNoRegister, kNoRegister,
                                     kNoRegister, kNoRegister, kNoRegister, kNoRegister};
  std::int64_t offset = 0;    // added to the address
  std::uint32_t target = 0;   // branch target; callee entry
  std::uint32_t variant = 0;  // small enumerations of one handler
  std::uint32_t extra = 0;    // first entry of a list in Program::extra
  std::uint32_t extra_count = 0;
  std::uint32_t site = 0;  // index into Program::sites
};

}  // namespace faultline::simulator
