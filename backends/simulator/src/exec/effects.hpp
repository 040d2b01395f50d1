// SPDX-License-Identifier: Apache-2.0
// Handlers of instructions that touch memory or synchronisation, as the decoder asks for them.
#pragma once

#include "program/instruction.hpp"
#include "ptx/ast.hpp"

namespace faultline::simulator {

enum class AtomicOp : std::uint8_t {
  add,
  minimum,
  maximum,
  increment,
  decrement,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare_exchange
};
enum class ShuffleMode : std::uint8_t { up, down, butterfly, index };
enum class VoteMode : std::uint8_t { all, any, uniform, ballot };
enum class ReduxOp : std::uint8_t { add, minimum, maximum, bit_and, bit_or, bit_xor };
enum class BarrierReduction : std::uint8_t { none, popcount, all, any };
enum class FenceKind : std::uint8_t { memory, proxy_async, proxy_other, mbarrier_init };
enum class MbarrierAction : std::uint8_t { init, invalidate, expect_tx, complete_tx, arrive };

// Instruction::variant of mbarrier operations: the action and what comes with it.
inline constexpr std::uint32_t kMbarrierExpect = 1u << 8;  // .expect_tx: bytes in s[2]
inline constexpr std::uint32_t kMbarrierDrop = 1u << 9;    // arrive_drop
inline constexpr std::uint32_t kMbarrierNoComplete = 1u << 10;
inline constexpr std::uint32_t kMbarrierParity = 1u << 11;  // wait by parity, not by state
// Instruction::variant of bulk copies.
inline constexpr std::uint32_t kBulkToGlobal = 1u << 8;
inline constexpr std::uint32_t kBulkRead = 1u << 9;  // wait_group.read
// Instruction::variant of matrix instructions.
enum class MmaType : std::uint8_t { f16, bf16, tf32 };
struct MmaShape {
  MmaType type;
  int k;
  bool half_accumulators;
};
inline constexpr std::uint32_t mma_variant(MmaShape s) {
  return static_cast<std::uint32_t>(s.type) | static_cast<std::uint32_t>(s.k) << 8 |
         (s.half_accumulators ? 1u << 16 : 0);
}

namespace effects {

EffectHandler load(int bytes);
EffectHandler store(int bytes);
EffectHandler load_parameter();
EffectHandler load_local(int bytes);
EffectHandler store_local(int bytes);
EffectHandler copy_local();
EffectHandler atomic(AtomicOp op, ptx::Scalar type);  // nullptr: no such atomic
EffectHandler read_clock();
EffectHandler is_space();
EffectHandler map_address();
EffectHandler cta_rank_of_address();
EffectHandler active_mask();
EffectHandler shuffle();
EffectHandler vote();
EffectHandler match_any();
EffectHandler match_all();
EffectHandler elect();
EffectHandler redux();
EffectHandler no_operation();
EffectHandler sleep();
EffectHandler barrier_arrive();
EffectHandler cluster_arrive();
EffectHandler fence();
EffectHandler mbarrier();
EffectHandler mbarrier_pending();
EffectHandler cp_async();
EffectHandler cp_async_commit();
EffectHandler cp_async_wait();
EffectHandler cp_async_mbarrier_arrive();
EffectHandler bulk_copy();
EffectHandler bulk_tensor_copy();
EffectHandler bulk_commit();
EffectHandler bulk_wait();
EffectHandler load_matrix();
EffectHandler store_matrix();
EffectHandler multiply_matrix();
EffectHandler print_format();
EffectHandler assertion_failure();

}  // namespace effects
}  // namespace faultline::simulator
